"""What attacks on a run found, in sentences. `verdict.txt` is their text."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from gossamer.intervals import Estimate, EstimateJson
from gossamer.run.report.templates import template
from gossamer.run.report.wording import PERCENT

if TYPE_CHECKING:
    from gossamer.attacks.scores import AttackFigure


def verdict(
    attacks: "Sequence[AttackFigure]",
    guarantee: dict[str, Any],
    *,
    control: Estimate | None = None,
    units: bool = True,
    unit: str = "record",
) -> list[str]:
    """What the attacks of `run.attack` found, in plain words, and what that cannot show.

    An attack has succeeded where one of its figures lies above chance by more than luck among so many figures explains.

    Args:
        attacks: entries of attacks.json.
        guarantee: of the certificate.
        control: of a classifier that never saw the run.
        units: whether records came with units.
        unit: that the run protects.
    """
    many = len(attacks)
    caught = _caught(attacks)
    sure = [entry for entry in attacks if entry["tpr"] and _beyond_luck(entry["tpr"]["0.01"], many, 0.01)]
    text = template("verdict.txt").render(
        attacks=attacks,
        names={entry["attack"] for entry in attacks},
        won=won_by(attacks),
        best=max(caught, key=lambda entry: (entry["value"] - entry["chance"]) / (1 - entry["chance"]), default=None),
        alone=sum(entry["low"] > entry["chance"] for entry in attacks),
        surest=max(sure, key=lambda entry: entry["tpr"]["0.01"]["low"], default=None),
        finite=math.isfinite(float(guarantee["epsilon"])),
        percent_sign=PERCENT,
        control=control,
        without_units=unit != "record" and not units,
        unit=unit,
    )
    return text.splitlines()


def won_by(attacks: "Sequence[AttackFigure]") -> list[str]:
    """The names of the attacks that have succeeded. Entries: see `verdict`."""
    return list(dict.fromkeys(entry["attack"] for entry in _caught(attacks)))


def _caught(attacks: "Sequence[AttackFigure]") -> "list[AttackFigure]":
    return [entry for entry in attacks if _beyond_luck(entry, len(attacks), entry["chance"])]


def _beyond_luck(entry: EstimateJson, many: int, chance: float) -> bool:
    """Whether a figure is above chance as one of so many (Bonferroni). A normal approximation widens its 95 % interval."""
    z = NormalDist().inv_cdf
    wider = z(1 - 0.025 / many) / z(0.975)
    return entry["value"] - wider * (entry["value"] - entry["low"]) > chance
