"""What attacks on a run found, in sentences. `verdict.txt` is their text."""

import math
from statistics import NormalDist
from typing import Any

from gossamer.intervals import Estimate
from gossamer.run.report.templates import template
from gossamer.run.report.wording import PERCENT


def verdict(attacks: list[dict[str, Any]], guarantee: dict[str, Any]) -> list[str]:
    """What the attacks of `run.attack` found, in plain words, and what that cannot show.

    An attack has succeeded where one of its figures lies above chance by more than luck among so many figures explains.
    """
    many = len(attacks)
    caught = [entry for entry in attacks if _beyond_luck(entry, many, entry["chance"])]
    sure = [entry for entry in attacks if entry["tpr"] and _beyond_luck(entry["tpr"]["0.01"], many, 0.01)]
    text = template("verdict.txt").render(
        attacks=attacks,
        names={entry["attack"] for entry in attacks},
        won=list(dict.fromkeys(entry["attack"] for entry in caught)),
        best=max(caught, key=lambda entry: (entry["value"] - entry["chance"]) / (1 - entry["chance"]), default=None),
        alone=sum(entry["low"] > entry["chance"] for entry in attacks),
        surest=max(sure, key=lambda entry: entry["tpr"]["0.01"]["low"], default=None),
        finite=math.isfinite(float(guarantee["epsilon"])),
        percent_sign=PERCENT,
    )
    return text.splitlines()


def _beyond_luck(entry: dict[str, Any], many: int, chance: float) -> bool:
    """Whether a figure is above chance as one of so many (Bonferroni). A normal approximation widens its 95 % interval."""
    z = NormalDist().inv_cdf
    wider = z(1 - 0.025 / many) / z(0.975)
    return bool(entry["value"] - wider * (entry["value"] - entry["low"]) > chance)


def control(separability: Estimate, *, units: bool, unit: str) -> list[str]:
    """What to know before the verdict: the sets differ whatever the run did, or the records come without units."""
    sentences = []
    if separability.low > 0.5:
        sentences.append(
            "Members and non-members differ in ways that have nothing to do with membership: a classifier that never saw the "
            f"run tells them apart (ROC area {separability.value:.3g}, {separability.low:.3g} to {separability.high:.3g}; "
            "guessing gives 0.5). The attacks may have seen nothing else. Before the run, split at random: "
            "`gossamer split DATA`, with units where a person has several records."
        )
    if unit != "record" and not units:
        sentences.append(
            f"The run protects each {unit}, but these records come without units: the intervals take records of one "
            f"{unit} for independent ones, and are too narrow. Give the units."
        )
    return sentences
