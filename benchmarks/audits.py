"""Every method at epsilon 1, 3 and 10 through its own loop: claim, lower bound, trials and seconds, as a table.

    python benchmarks/audits.py --jobs 2                       # nightly: about an hour; a row takes 15 minutes at most
    python benchmarks/audits.py --methods teacher --epsilons 3 --trials 2000
    python benchmarks/audits.py --methods gs-wgan-in-turns gs-wgan-paper --epsilons 3   # the other draws, only when asked for
    python benchmarks/audits.py --methods evolve-pictures moments-latents               # only when asked for
    python benchmarks/audits.py --final --epsilons 10          # the attacker sees the released model alone

Exit status 1 where a claim is refuted.
"""

import argparse
import sys

from torch import Tensor, nn
from torch.nn import functional

from gossamer import plugins
from gossamer.methods import METHODS as ALL
from gossamer.run.auditing.audit import audit
from gossamer.run.report.audit_record import REFUTED

METHODS = {name: (name, {}) for name, method in ALL.items() if method.trial is not None}
DRAWS = {"gs-wgan-in-turns": ("gs-wgan", {"draw": "round_robin"}), "gs-wgan-paper": ("gs-wgan", {"draw": "paper"})}
"""GS-WGAN with its other draws."""
PICTURES = {"evolve-pictures": ("evolve", {"drawing": "pictures", "embedding": "cosines", "clusters": 4})}
"""Private Evolution with votes for clusters of public pictures."""
LATENTS = {"moments-latents": ("moments", {"autoencoder": "halved"})}
"""Class moments in the latents of an autoencoder."""
ROWS = METHODS | DRAWS | PICTURES | LATENTS


class Halved(nn.Module):
    """An autoencoder: means of 2x2 pixels, and back."""

    def encode(self, pictures: Tensor) -> Tensor:
        return functional.avg_pool2d(pictures.float(), 2) / 64

    def decode(self, latents: Tensor) -> Tensor:
        return functional.interpolate(latents * 64, scale_factor=2.0).round().clamp(0, 255).byte()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(ROWS), default=list(METHODS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--trials", type=int, help="in place of each method's own")
    parser.add_argument("--jobs", type=int, default=1, help="processes among which trials with one canary are dealt")
    parser.add_argument("--final", action="store_true", help="the attacker sees the released model alone")
    options = parser.parse_args()
    plugins.add("autoencoder", "halved", Halved())
    print("| method | claim | lower bound, 95 % | share | counted errors alone | trials | seconds | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    refuted = False
    for name in options.methods:
        method, settings = ROWS[name]
        for epsilon in options.epsilons:
            found = audit(
                method,
                epsilon=epsilon,
                settings=settings,
                trials=options.trials,
                final=options.final,
                jobs=options.jobs,
            )
            refuted = refuted or found.verdict == REFUTED
            print(
                f"| {name} | {found.claim:g} | {found.lower_bound:.2f} | {found.lower_bound / found.claim:.0%} | "
                f"{found.counted:.2f} | {found.trials:,} | {found.seconds:.0f} | {found.verdict} |",
                flush=True,
            )
    return int(refuted)


if __name__ == "__main__":
    sys.exit(main())
