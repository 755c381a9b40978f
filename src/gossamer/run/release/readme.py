"""The README of a release, written from its certificate alone."""

import html
import math
from typing import Any

from gossamer.kinds import kind_of
from gossamer.methods import METHODS
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.certificate.declarations import ATTACKS, CHOICES, NOT_DECLARED, QUESTIONS
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.release.standalone_loader import has_soft_labels
from gossamer.run.report.wording import release_in_words

_CLASSIFIER = "chances = release.probabilities(images)  # of the released classifier: float [1000, classes]"
_SOFT = "soft = release.soft_labels(images, labels)  # how likely each class is: float [1000, classes]"


def readme(certificate: Certificate, *, samples: int, no_loader: str, classifies: bool = False) -> str:
    """Write the page, as Markdown.

    Args:
        certificate: of the release.
        samples: number of synthetic records in samples.npz, or samples.csv of a table.
        no_loader: why there is no load.py; empty: there is a load.py.
        classifies: whether the release has a classifier, whose probabilities load.py returns.
    """
    card = certificate.card
    title = _plain(str(card.get("title") or card.get("data_set") or ""))
    not_promised = [f"- {item}" for item in certificate.facts["not_promised"]]
    not_covered = [f"- {item}." for item in certificate.not_covered]
    sections = [
        f"# Synthetic records: {title}" if title else "# Synthetic records",
        certificate.statement,
        _description(certificate),
        _load(card, samples, no_loader, classifies=classifies, soft=has_soft_labels(certificate)),
        _promised(certificate),
        "\n".join(
            ["## What is not promised", "", *not_promised, "", "The guarantee does not cover:", "", *not_covered]
        ),
        _attacked(certificate.declared["attacked"]),
        _CHECKING,
    ]
    return "\n\n".join(sections) + "\n"


def _description(certificate: Certificate) -> str:
    card, declared = certificate.card, certificate.declared
    kind = kind_of(card)
    origin = f"All of its {kind.words.records} are synthetic."
    if contains := certificate.facts["contains_public"]:
        origin = f"The file contains the public pictures of the run as they are, and {contains}."
    about = [
        f"`model.safetensors` is a generator of {kind.described(card)}. It was trained on {certificate.created}. Method: "
        f"{METHODS[certificate.method].title}. {origin} The sections below say how much they may "
        f"reveal about one {card['unit']}.",
        "",
        "| declared by the data owner | |",
        "|---|---|",
    ]
    asked = [name for name in QUESTIONS if name != "pretrained" or _is_pretrained(certificate)]
    answers = {name: CHOICES.get(name, {}).get(declared[name], declared[name]) for name in asked}
    rows = [f"| {name.replace('_', ' ')} | {_cell(text)} |" for name, text in answers.items()]
    return "## What this is\n\n" + "\n".join([*about, *rows])


def _is_pretrained(certificate: Certificate) -> bool:
    """Whether a pretrained encoder or generator took part, or the data owner declares one."""
    inputs = certificate.facts.get("public_inputs", [])
    return certificate.declared.get("pretrained", NOT_DECLARED) != NOT_DECLARED or any(
        "weights" in entry for entry in inputs
    )


def _load(card: dict[str, Any], samples: int, no_loader: str, *, classifies: bool, soft: bool) -> str:
    first = f"There is no `load.py`, because {no_loader}. Use Gossamer:" if no_loader else "In Python:"
    kind = kind_of(card)
    lines = (
        [kind.words.with_gossamer]
        if no_loader
        else [kind.words.loads, *([_CLASSIFIER] if classifies else []), *([_SOFT] if soft else [])]
    )
    text = "\n".join([f"## How to load it\n\n{first}\n\n```python", *lines, "```"])
    if not no_loader:
        text += (
            "\n\n`load.py` is a program, and `import load` runs it. Check the signature first (see below), or read it."
            f"{kind.words.in_terminal}"
        )
    if samples:
        text += f"\n\n{kind.on_samples(card, samples)}"
    if soft:
        text += (
            "\n\nSamples have soft labels: what was drawn, mixed with the answer of a differentially private classifier. "
            "Train on them in place of labels, with the same cross-entropy. `samples.npz` has them as `probabilities`."
        )
    if names := [str(name) for name in card.get("class_names") or ()]:
        text += "\n\nThe labels: " + ", ".join(f"{number} {_plain(name)}" for number, name in enumerate(names)) + "."
    return text


def _promised(certificate: Certificate) -> str:
    facts, figures = certificate.facts, certificate.figures
    lines = [f"Protected: {facts['protects']}.", f"The guarantee compares {facts['adjacency']}."]
    finite = math.isfinite(float(certificate.guarantee["epsilon"]))
    if finite:
        rows = [
            f"| {rounded_up(float(entry['epsilon']))} | {in_full(entry['delta'])} |" for entry in figures["at_deltas"]
        ]
        lines.append("\n".join(["| epsilon, at most | delta |", "|---|---|", *rows]))
        parts = [
            f"- {entry['purpose']}: {entry['count']:,} x {release_in_words(entry['event'])}; alone epsilon "
            f"{rounded_up(float(entry['alone']['epsilon']))} at delta {in_full(entry['alone']['delta'])}"
            for entry in figures["components"]
        ]
        lines.append("Queries on the records, and what each part would cost alone:\n\n" + "\n".join(parts))
    inputs = [
        f"- {entry['what']}. Origin: {entry['origin']}. Tuned on records like these: {entry['tuned']}."
        for entry in facts["public_inputs"]
    ]
    lines.append("Public inputs, which are not protected:" + ("\n\n" + "\n".join(inputs) if inputs else " none."))
    lines.append(certificate.adds_up)
    if certificate.declared["settings_chosen"] == "uncounted":
        lines.append(f"**{CHOICES['settings_chosen']['uncounted']}**")
    return "\n\n".join([f"## What is promised{', and to whom' if finite else ': nothing'}", *lines])


def _attacked(attacked: dict[str, str]) -> str:
    rows = [
        f"| {name.replace('_', ' ')} | {question} | {_cell(attacked[name])} |" for name, question in ATTACKS.items()
    ]
    return "\n".join(["## What was attacked", "", "| attack | asks | was it tried? |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Escape HTML in declared text, because some Markdown viewers render it."""
    return html.escape(text, quote=False)


_CHECKING = """## How to check it

`gossamer verify .` recomputes every figure from `ledger.jsonl`, writes this page and `load.py` again, and compares every file
with `SHA256SUMS`. It lists what it does not check. With `--key` and the public key of the signer, it also checks the signature.
`check_release.py` in Gossamer's source recomputes epsilon without Gossamer. `certificate.json` has all figures in full.

No check can confirm the entries under "declared by the data owner". Nor can a check show that the model came from the queries
in `ledger.jsonl`: the ledger shows what these queries cost. For both, you rely on the signer."""
