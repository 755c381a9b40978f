"""Every method at epsilon 1, 3 and 10 through its own loop: claim, lower bound, trials and seconds, as a table.

    python benchmarks/audits.py --jobs 2                       # nightly: about an hour; a row takes 15 minutes at most
    python benchmarks/audits.py --methods teacher --epsilons 3 --trials 2000
    python benchmarks/audits.py --methods gs-wgan-in-turns gs-wgan-paper --epsilons 3   # the other draws, only when asked for
    python benchmarks/audits.py --methods evolve-pictures moments-latents               # only when asked for
    python benchmarks/audits.py --final --epsilons 10          # the attacker sees the released model alone
    python benchmarks/audits.py --methods linked --epsilons 1 4    # a person with as many rows in two tables as samples have

Exit status 1 where a claim is refuted.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from gossamer import plugins
from gossamer.data.source import Source
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.read import LinkedRecords, read_linked
from gossamer.methods import METHODS as ALL
from gossamer.privacy.guarantee import rounded_up
from gossamer.run.auditing.audit import audit, lower_bound
from gossamer.run.auditing.canary_confined import RowCanary
from gossamer.run.auditing.canary_trials import TrialRunner, usual_canaries
from gossamer.run.report.audit_record import CONSISTENT, REFUTED
from gossamer.run.training.plan import plan

METHODS = {name: (name, {}) for name, method in ALL.items() if method.trial is not None}
DRAWS = {"gs-wgan-in-turns": ("gs-wgan", {"draw": "round_robin"}), "gs-wgan-paper": ("gs-wgan", {"draw": "paper"})}
"""GS-WGAN with its other draws."""
PICTURES = {"evolve-pictures": ("evolve", {"drawing": "pictures", "embedding": "cosines", "clusters": 4})}
"""Private Evolution with votes for clusters of public pictures."""
LATENTS = {"moments-latents": ("moments", {"autoencoder": "halved"})}
"""Class moments in the latents of an autoencoder."""
ROWS = METHODS | DRAWS | PICTURES | LATENTS
LINKED, MOST_ROWS, PERSONS = "linked", 12, 500
"""Linked tables: a person has so many rows in each table, among so many persons with one to three."""


class Halved(nn.Module):
    """An autoencoder: means of 2x2 pixels, and back."""

    def encode(self, pictures: Tensor) -> Tensor:
        return functional.avg_pool2d(pictures.float(), 2) / 64

    def decode(self, latents: Tensor) -> Tensor:
        return functional.interpolate(latents * 64, scale_factor=2.0).round().clamp(0, 255).byte()


def linked_card() -> LinkedCard:
    """Persons with visits in an order, and with drugs in none."""
    values = [{"name": name, "kind": "category", "values": ["a", "b", "c"]} for name in ("kind", "place")]
    day = {"name": "day", "kind": "integer", "bounds": [0, 99], "bins": 4}
    below = {"parent": "persons", "max_rows": MOST_ROWS, "column": values}
    tables = {"persons": {"key": "id", "column": values}, "visits": below | {"order": "day", "column": [*values, day]}}
    return LinkedCard.from_dict({"declared_size": PERSONS + 1, "unit": "person", "table": tables | {"drugs": below}})


def persons(card: LinkedCard) -> LinkedRecords:
    """Ordinary persons, and the canary: the last one, whose rows all have values that nobody else has."""
    draw, tables = np.random.default_rng(0), dict[str, dict[str, Any]]()
    for table in card.tables:
        counts = np.append(draw.integers(1, 4, PERSONS), MOST_ROWS) if table.parent else np.ones(PERSONS + 1, int)
        keys = np.repeat(np.arange(PERSONS + 1), counts)
        cells = {name: np.array([*"ab"])[draw.integers(0, 2, len(keys))] for name in ("kind", "place")}
        tables[table.name] = {"id": keys} | {name: np.where(keys == PERSONS, "c", own) for name, own in cells.items()}
        if table.order:
            tables[table.name]["day"] = np.where(keys == PERSONS, 99, draw.integers(0, 75, len(keys)))
    return read_linked(Source(tables), card)


@dataclass(frozen=True)
class PersonTrials(TrialRunner):
    """Runs on linked tables, with the canary and without it."""

    def _observer_and_records(self, *, steered: bool = False) -> tuple[Any, Any]:
        del steered
        card: Any = self.job.card
        records = persons(card)
        return RowCanary(rows=records, others=records[:-1]), records


def of_a_person(epsilon: float, trials: int | None, jobs: int) -> bool:
    """Print the row of linked tables. Returns whether the claim is refuted."""
    begun, card, trial = time.monotonic(), linked_card(), ALL["marginals"].trial
    assert trial is not None
    asked = plan("marginals", card, dict(trial.settings), epsilon=epsilon, delta=1e-5)
    claim = float(rounded_up(asked.promise.epsilon))
    inside, outside = PersonTrials(asked.job, 1e-5, 0).observations(trials or usual_canaries(trial, epsilon), jobs)
    found = lower_bound(inside, outside, delta=1e-5, confidence=0.95)
    refuted = max(found.lower_bound, found.counted) > claim
    print(
        f"| {LINKED} | {claim:g} | {found.lower_bound:.2f} | {found.lower_bound / claim:.0%} | {found.counted:.2f} | "
        f"{inside.x.shape[1]:,} | {time.monotonic() - begun:.0f} | {REFUTED if refuted else CONSISTENT} |",
        flush=True,
    )
    return refuted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=[*ROWS, LINKED], default=list(METHODS))
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
        for epsilon in options.epsilons:
            if name == LINKED:
                refuted = of_a_person(epsilon, options.trials, options.jobs) or refuted
                continue
            method, settings = ROWS[name]
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
