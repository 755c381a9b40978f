"""Metrics in plain words, for the report: what each figure means to a data owner who is no statistician."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gossamer.data.card import Kind
from gossamer.metrics import registry
from gossamer.metrics.metric import GUESSED, Figure
from gossamer.metrics.tables.registry import FAR, OF_ACCURACY, OF_SHARE

if TYPE_CHECKING:
    from gossamer.attacks.scores import AttackFigure

PERCENT = "\N{NO-BREAK SPACE}%"
NOTHING = 20.0
"""From this epsilon on a budget is said to promise next to nothing."""
_COLUMNS, _FIGURES = 10, 3
"""Columns that differ, and figures of each, in a table."""
PRIVATE = "Private figures, do not publish: they come from real records, and the guarantee does not cover them."
NONE = "-"
"""In place of a rate that an attack does not have."""


def sentences(entries: list[dict[str, Any]], kind: Kind = "pictures") -> list[dict[str, Any]]:
    """Each figure as a sentence with what it was computed on, some also as a bar. Rows of tables are left out.

    kind: of the records that were measured.
    """
    return [_sentence(entry, kind) for entry in entries if registry.stands_alone(entry["metric"])]


def usefulness(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a classifier says of the samples, in sentences; none where no classifier was trained.

    Two figures are called different where their 95 % intervals do not meet. Of linked tables, the first with a label counts.
    """
    by_name = {entry["metric"]: entry for entry in entries}
    table = next((name.removesuffix("accuracy") for name in by_name if name.endswith(": accuracy")), "")
    of = registry.RELEASED, registry.ACCURACY, registry.BASELINE, GUESSED
    own, samples, real, guess = (by_name.get(f"{table}{each.name}") for each in of)
    if samples is None or real is None:
        return []
    first = f"A classifier learns as much from the samples as from real records, as far as {samples['n']:,} test records tell."
    if guess and samples["low"] <= guess["value"]:
        also = ", or from real records," if real["low"] <= guess["value"] else ""
        first = f"A classifier that learns from the samples{also} is no better than guessing."
    elif samples["high"] < real["low"]:
        first = "A classifier learns less from the samples than from real records."
    learned = f"After learning from the samples it gets {_share(samples)} of test records right ({_range(samples)})."
    after = f"After learning from real records it gets {_share(real)} ({_range(real)})."
    mine = (
        [f"The classifier in the release gets {_share(own)} of real test records right ({_range(own)})."] if own else []
    )
    return [*mine, f"{table}{first}", learned, after, "This does not say whether the samples look like the records."]


def tables(entries: list[dict[str, Any]], class_names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The figures that come one per class, classifier or subgroup: title, head, rows of words. Classes by their names."""
    families: dict[Figure, dict[str, dict[str, Any]]] = {}
    for entry in entries:
        family, member = registry.declared(registry.shown(entry["metric"], class_names))
        families.setdefault(family, {})[member] = entry

    def rows(*columns: tuple[Figure, Callable[[dict[str, Any]], str]]) -> list[list[str]]:
        found = [(families.get(family, {}), in_words) for family, in_words in columns]
        members = dict.fromkeys(member for entries, _ in found for member in entries)
        return [
            [member, *(in_words(entries[member]) if member in entries else NONE for entries, in_words in found)]
            for member in members
        ]

    differing = [[column, "; ".join(words[:_FIGURES])] for column, words in columns_that_differ(entries).items()]
    sections = (
        (
            "Columns that differ from real test rows, the worst first",
            ["column", "what differs"],
            differing[:_COLUMNS],
        ),
        (
            "Samples that a classifier trained on real records takes for what their label says",
            ["class", "share", "interval"],
            rows((registry.OF_CLASS, _share), (registry.OF_CLASS, _range)),
        ),
        (
            "Subgroups: samples compared with real records, in percentage points",
            ["subgroup", "share of the samples, difference", "accuracy after training on samples, difference"],
            rows((OF_SHARE, _points), (OF_ACCURACY, _points)),
        ),
    )
    return [{"title": title, "head": head, "rows": found} for title, head, found in sections if found]


def columns_that_differ(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What is wrong with each column of samples that differs clearly from real rows, in words. The worst is first."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        for each in entry.get("figures", ()):
            if each["times"] >= FAR:
                found.setdefault(each["column"], []).append(each["words"])
    return found


def _share(entry: Mapping[str, Any]) -> str:
    return percent(entry["value"])


def _range(entry: Mapping[str, Any]) -> str:
    return f"{percent(entry['low'])} to {percent(entry['high'])}"


def _points(entry: Mapping[str, Any]) -> str:
    """A difference of shares in percentage points, with its interval."""
    value, low, high = (100 * float(entry[part]) for part in ("value", "low", "high"))
    return f"{value:z.1f} ({low:z.1f} to {high:z.1f})"


def attack_rows(attacks: "Sequence[AttackFigure]") -> list[list[str]]:
    """The figures of attacks as a table, the head first, with the figure of guessing for each."""
    head = ["attack", "what is measured", f"figure (95{PERCENT} interval)", "guessing gives"]
    head += [f"members found at 1{PERCENT} false alarms", f"at 0.1{PERCENT}"]
    rows = [
        [
            entry["attack"],
            entry["measure"],
            f"{entry['value']:z.3f} ({entry['low']:z.3f} to {entry['high']:z.3f})",
            f"{entry['chance']:.3f}",
            *(_tpr_at(entry, rate) for rate in ("0.01", "0.001")),
        ]
        for entry in attacks
    ]
    return [head, *rows]


def attacks_in_words(attacks: "Sequence[AttackFigure]") -> dict[str, str]:
    """What these attacks do, by name; what several do, once. Entries: see `verdict`."""
    names: dict[str, str] = {}
    for entry in attacks:
        names.setdefault(str(entry["about"]), str(entry["attack"]))
    return {name: about for about, name in names.items()}


def _tpr_at(entry: "AttackFigure", rate: str) -> str:
    """A true-positive rate with its interval, or only its upper end if there are too few records for the rate."""
    estimate = entry["tpr"].get(rate)
    if estimate is None:
        return NONE
    value, low, high = map(percent, (estimate["value"], estimate["low"], estimate["high"]))
    return f"at most {high}" if "too few" in estimate["computed_on"] else f"{value} ({low} to {high})"


def remark(epsilon: float) -> str:
    """What to say of a budget that promises nothing; empty: it promises something, however little."""
    if math.isinf(epsilon):
        return "Epsilon infinity is no guarantee: what is released may reveal any record."
    if epsilon >= NOTHING:
        return (
            f"Epsilon {epsilon:.3g} promises next to nothing: an attacker who knows all other records may be almost "
            "certain of one. Published releases stay at 10 or below, and the stronger promises at 1 to 3."
        )
    return ""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as aligned lines."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def percent(share: float) -> str:
    """One decimal."""
    return f"{100 * share:.1f}{PERCENT}"


def _sentence(entry: dict[str, Any], kind: Kind) -> dict[str, Any]:
    figure = registry.figure(str(entry["metric"]), kind)
    value, low, high = (float(entry[part]) for part in ("value", "low", "high"))
    if figure.share:
        shown = {"value": percent(value), "range": f"{100 * low:.1f} to {percent(high)}"}
    else:
        shown = {"value": f"{value:.4g}", "range": f"{low:.4g} to {high:.4g}"}
    bar = None
    if figure.bar:
        ends = {"share": 100 * value, "low": 100 * low, "width": 100 * high - 100 * low}
        bar = {"label": figure.bar, "value": shown["value"], **ends}
    return {"sentence": figure.sentence.format(**shown), "on": str(entry["computed_on"]), "bar": bar}


def release_in_words(event: dict[str, Any]) -> str:
    """One event of the plan."""
    match event:
        case {"event": "NonPrivate"}:
            return "the records themselves, without noise"
        case {"event": "Gaussian", "noise_multiplier": noise}:
            return f"a sum with Gaussian noise, noise multiplier {noise:g}"
        case {"event": "PoissonSampled", "sampling_rate": rate, "of": inner}:
            return f"{release_in_words(inner)}, over a Poisson sample at rate {rate:.4g}"
        case {"event": "SampledWithoutReplacement", "population": population, "drawn": drawn, "of": inner}:
            return f"{release_in_words(inner)}, over {drawn:,} of {population:,} sampled without replacement"
        case _:
            facts = ", ".join(f"{name} {setting_in_words(fact)}" for name, fact in event.items() if name != "event")
            return f"{event['event']}{f' ({facts})' if facts else ''}"


def setting_in_words(value: Any) -> str:
    """A setting or a fact of an event, as the report prints it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {setting_in_words(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
