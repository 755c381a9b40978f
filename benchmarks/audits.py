"""Every method at epsilon 1, 3 and 10 through its own loop: claim, lower bound, trials and minutes, as a table.

    python benchmarks/audits.py                                # nightly; an hour or two on one core
    python benchmarks/audits.py --methods teacher --epsilons 3 --trials 2000

Exit status 1 where a claim is refuted.
"""

import argparse
import sys

from gossamer.run.audit import audit
from gossamer.run.audited import REFUTED
from gossamer.run.trials import SMALL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(SMALL), default=list(SMALL))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--trials", type=int, help="in place of each method's own")
    options = parser.parse_args()
    print("| method | claim | lower bound, 95 % | share | counted errors alone | trials | seconds | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    refuted = False
    for method in options.methods:
        for epsilon in options.epsilons:
            found = audit(method, epsilon=epsilon, trials=options.trials)
            refuted = refuted or found.verdict == REFUTED
            print(
                f"| {method} | {found.claim:g} | {found.lower_bound:.2f} | {found.lower_bound / found.claim:.0%} | "
                f"{found.counted:.2f} | {found.trials:,} | {found.seconds:.0f} | {found.verdict} |",
                flush=True,
            )
    return int(refuted)


if __name__ == "__main__":
    sys.exit(main())
