"""Metrics in plain words, for the report: what each figure says to a curator who is no statistician."""

import math
from typing import Any

PERCENT = "\N{NO-BREAK SPACE}%"

_ACCURACIES = {
    "accuracy": (
        "the synthetic records",
        "A classifier trained only on these synthetic records gets {value} of real test records right ({range}).",
    ),
    "accuracy of the real-data twin": (
        "the real records",
        "The same classifier trained on the real records gets {value} right ({range}).",
    ),
    "accuracy of the public warm start alone": (
        "the public start alone",
        "Trained on samples of the public warm start alone, before any record was read, it gets {value} ({range}).",
    ),
    "average accuracy": (
        "the synthetic records, many classifiers",
        "Averaged over a list of classical classifiers trained on the synthetic records: {value} right ({range}).",
    ),
    "average accuracy of the real-data twin": (
        "the real records, many classifiers",
        "The same list trained on the real records: {value} right ({range}).",
    ),
}
_SHARES = {
    "calibrated accuracy": "The list reaches {value} of what it reaches on real records ({range}).",
    "precision": "Precision: {value} of the samples lie where real records lie ({range}). Low: unlike any record.",
    "recall": "Recall: {value} of the real records lie where samples lie ({range}). Low: kinds of records are missing.",
    "coverage": "Coverage: {value} of the real records have a sample close by ({range}). More real records would reach 97"
    f"{PERCENT}.",
    "accuracy of telling real from synthetic": "A classifier made for it tells real from synthetic in {value} of cases"
    f" ({{range}}). Tossing a coin is right in 50{PERCENT}.",
    "samples that copy a training record": "Of the samples on the grid, {value} are exact copies of a real training record"
    " ({range}).",
}
_NUMBERS = {
    "Inception score": "Inception score {value} ({range}): clear and varied samples score high, at most the number of classes.",
    "Inception score of real test records": "Real test records score {value} ({range}).",
    "classifier-FID": "classifier-FID {value} ({range}): the distance between samples and real test records on the features "
    "of a classifier; 0 is best. It is not the FID of the literature, which takes Inception-V3.",
    "classifier-FID of real training records": "Its floor, the distance of real training records: {value} ({range}).",
    "FID": "FID {value} ({range}): the distance between samples and real test records on Inception-V3's features; 0 is best.",
    "FID of real training records": "Its floor, the distance of real training records: {value} ({range}).",
    "density": "Density {value} ({range}): about 1 for real records, more where samples crowd in the middle.",
    "MMD": "Maximum mean discrepancy {value} ({range}): 0 where samples and records are alike.",
    "Jensen-Shannon divergence": "Jensen-Shannon divergence {value} bits ({range}): 0 where no classifier tells samples from "
    "records.",
    "Jensen-Shannon score (formula of the paper)": "By the formula of Zhang et al. {value} ({range}).",
    "ambiguity": "Ambiguity {value} ({range}): how unsure a classifier is about a sample; 0 is clear.",
    "class diversity": "Class diversity {value} ({range}): how evenly samples spread over the classes.",
}
_OF_CLASS, _LOOKS = "samples of class ", " that look like it"
_LISTED = "accuracy, "
_OF_TWIN = " of the real-data twin"


def sentences(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each figure as a sentence with what it was computed on; accuracies of `_ACCURACIES` also as a bar. Tables left out."""
    return [_sentence(entry) for entry in entries if _row_of(entry) is None]


def tables(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures that come one per class or one per classifier: title, head, rows of words."""
    found = []
    classes = [
        (entry["metric"][len(_OF_CLASS) : -len(_LOOKS)], entry) for entry in entries if _row_of(entry) == "class"
    ]
    if classes:
        rows = [
            [name, percent(entry["value"]), f"{percent(entry['low'])} to {percent(entry['high'])}"]
            for name, entry in classes
        ]
        title = "Samples that a classifier trained on real records takes for what their label says"
        found.append({"title": title, "head": ["class", "share", "interval"], "rows": rows})
    listed = {entry["metric"]: entry for entry in entries if _row_of(entry) == "classifier"}
    own = [name for name in listed if not name.endswith(_OF_TWIN)]
    if own:
        rows = []
        for name in own:
            twin = listed.get(name + _OF_TWIN)
            rows.append([name[len(_LISTED) :], percent(listed[name]["value"]), percent(twin["value"]) if twin else ""])
        head = ["classifier", "trained on synthetic records", "trained on real records"]
        found.append(
            {"title": "Share of real test records that each classifier gets right", "head": head, "rows": rows}
        )
    return found


def verdict(attacks: list[dict[str, Any]], guarantee: dict[str, Any]) -> list[str]:
    """What the attacks of `run.attack` found, in plain words, and what that cannot show.

    An attack has succeeded where the 95 % interval of one of its figures lies above chance.
    """
    names = list(dict.fromkeys(entry["attack"] for entry in attacks))
    if not names:
        return ["No attack was possible, so nothing is known about leaks."]
    caught = [entry for entry in attacks if entry["low"] > entry["chance"]]
    won = list(dict.fromkeys(entry["attack"] for entry in caught))
    if not won:
        found = [
            f"These {len(names)} attacks failed: none told members from non-members better than guessing.",
            "Others may not. Another attack, other records or more samples could succeed; attacks show leaks, never that there "
            "are none.",
        ]
    else:
        best = max(caught, key=lambda entry: (entry["value"] - entry["chance"]) / (1 - entry["chance"]))
        found = [
            f"{len(won)} of these {len(names)} attacks told members from non-members better than guessing: {', '.join(won)}.",
            f"Strongest: {best['attack']}, {best['measure']} {best['value']:.3g} ({best['low']:.3g} to {best['high']:.3g}); "
            f"guessing gives {best['chance']:.3g}. By luck alone, about one figure in 40 would look like a success.",
            "Where an attack failed, another may not: attacks show leaks, never that there are none.",
        ]
    sure = [entry for entry in attacks if entry["tpr"] and entry["tpr"]["0.01"]["low"] > 0.01]
    if sure:
        best = max(sure, key=lambda entry: entry["tpr"]["0.01"]["low"])
        found.append(
            f"Some members are recognised with few mistakes: at 1{PERCENT} false alarms {best['attack']} finds "
            f"{percent(best['tpr']['0.01']['value'])} of them."
        )
    if math.isinf(float(guarantee["epsilon"])):
        found.append("This run has no formal guarantee: what was tried here is all that is known about its protection.")
    else:
        found.append("The guarantee limits every attacker, whatever was found here: it does not rest on these figures.")
    return found


def attack_rows(attacks: list[dict[str, Any]]) -> list[list[str]]:
    """The figures of attacks as a table, the head first; chance stands beside every figure."""
    head = ["attack", "what is measured", f"figure (95{PERCENT} interval)", "guessing gives"]
    head += [f"members found at 1{PERCENT} false alarms", f"at 0.1{PERCENT}"]
    rows = [
        [
            entry["attack"],
            entry["measure"],
            f"{entry['value']:.3f} ({entry['low']:.3f} to {entry['high']:.3f})",
            f"{entry['chance']:.3f}",
            *(_found_at(entry, rate) for rate in ("0.01", "0.001")),
        ]
        for entry in attacks
    ]
    return [head, *rows]


def _found_at(entry: dict[str, Any], rate: str) -> str:
    """A true-positive rate with its interval; its upper end only where there are too few records for the rate."""
    found = entry["tpr"].get(rate)
    if found is None:
        return "-"
    value, low, high = (percent(found[end]) for end in ("value", "low", "high"))
    return f"at most {high}" if "too few" in found["computed_on"] else f"{value} ({low} to {high})"


def percent(share: float) -> str:
    """One decimal."""
    return f"{100 * share:.1f}{PERCENT}"


def is_share(name: str) -> bool:
    """Whether a figure of that name is a share, to be shown in per cent."""
    return name in _ACCURACIES or name in _SHARES or name.startswith((_OF_CLASS, _LISTED, "semi-supervised accuracy"))


def _row_of(entry: dict[str, Any]) -> str | None:
    name = entry["metric"]
    if name.startswith(_OF_CLASS):
        return "class"
    return "classifier" if name.startswith(_LISTED) else None


def _sentence(entry: dict[str, Any]) -> dict[str, Any]:
    name = str(entry["metric"])
    value, low, high = (float(entry[part]) for part in ("value", "low", "high"))
    on = str(entry["computed_on"])
    if not is_share(name):
        words = _NUMBERS.get(name, name + ": {value} ({range}).")
        return {"sentence": words.format(value=f"{value:.4g}", range=f"{low:.4g} to {high:.4g}"), "on": on, "bar": None}
    value, low, high = 100 * value, 100 * low, 100 * high
    shown = {"value": f"{value:.1f}{PERCENT}", "range": f"{low:.1f} to {high:.1f}{PERCENT}"}
    if name not in _ACCURACIES:
        words = _SHARES.get(name, name[:1].upper() + name[1:] + ": {value} ({range}).")
        return {"sentence": words.format(**shown), "on": on, "bar": None}
    label, words = _ACCURACIES[name]
    bar = {"label": label, "value": shown["value"], "share": value, "low": low, "width": high - low}
    return {"sentence": words.format(**shown), "on": on, "bar": bar}


def release_in_words(event: dict[str, Any]) -> str:
    """One event of the plan."""
    match event:
        case {"event": "NonPrivate"}:
            return "the records as they are: no noise, no limit"
        case {"event": "Gaussian", "noise_multiplier": noise}:
            return f"a sum with Gaussian noise, noise multiplier {noise:g}"
        case {"event": "PoissonSampled", "sampling_rate": rate, "of": inner}:
            return f"{release_in_words(inner)}, over a Poisson sample at rate {rate:.4g}"
        case {"event": "SampledWithoutReplacement", "population": population, "drawn": drawn, "of": inner}:
            return f"{release_in_words(inner)}, over {drawn:,} of {population:,} drawn without replacement"
        case _:
            facts = ", ".join(f"{name} {setting_in_words(fact)}" for name, fact in event.items() if name != "event")
            return f"{event['event']}{f' ({facts})' if facts else ''}"


def setting_in_words(value: Any) -> str:
    """A setting or a fact of an event, as the report prints it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
