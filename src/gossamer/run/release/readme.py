"""The README of a release, from its certificate alone."""

import html
import math
from typing import Any

from gossamer.methods import METHODS
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.certificate.declarations import ATTACKS, CHOICES, QUESTIONS
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.report.wording import release_in_words

_LOAD = """import load  # load.py of this folder: needs PyTorch and safetensors
release = load.load()
images, labels = release.sample(1000, seed=0)  # uint8 [1000, C, H, W] and int64 [1000]"""
_CLASSIFIER = "chances = release.probabilities(images)  # what the released classifier says: float [1000, classes]"
_WITH_GOSSAMER = """import gossamer  # pip install gossamer
release = gossamer.Synthesizer.load(".")
samples = release.sample(1000, seed=0)  # samples.images: uint8 [1000, C, H, W], samples.labels: int64 [1000]"""


def readme(certificate: Certificate, *, samples: int, no_loader: str, classifies: bool = False) -> str:
    """Markdown.

    Args:
        certificate: of the release.
        samples: number of synthetic records in samples.npz.
        no_loader: why there is no load.py; empty: there is one.
        classifies: whether a classifier is released, whose probabilities load.py gives.
    """
    card = certificate.card
    title = _plain(str(card.get("title") or card.get("data_set") or ""))
    not_promised = [f"- {item}" for item in (*certificate.facts["not_promised"], *certificate.not_covered)]
    sections = [
        f"# Synthetic records: {title}" if title else "# Synthetic records",
        certificate.statement,
        _description(certificate),
        _load(card, samples, no_loader, classifies=classifies),
        _promised(certificate),
        "\n".join(["## What is not promised", "", *not_promised]),
        _attacked(certificate.declared["attacked"]),
        _CHECKING,
    ]
    return "\n\n".join(sections) + "\n"


def _description(certificate: Certificate) -> str:
    card, declared = certificate.card, certificate.declared
    size = " x ".join(map(str, card["shape"]))
    about = [
        f"A generator (`model.safetensors`) of pictures of {size} (channels, height, width) with labels from 0 to "
        f"{card['classes'] - 1}, made on {certificate.created} by {METHODS[certificate.method].title}. Its pictures are drawn, "
        f"not taken from the records; how much of one {card['unit']} may show in them is what the sections below are about.",
        "",
        "| who made it says | |",
        "|---|---|",
    ]
    answers = {name: CHOICES.get(name, {}).get(declared[name], declared[name]) for name in QUESTIONS}
    rows = [f"| {name.replace('_', ' ')} | {_cell(text)} |" for name, text in answers.items()]
    return "## What this is\n\n" + "\n".join([*about, *rows])


def _load(card: dict[str, Any], samples: int, no_loader: str, *, classifies: bool) -> str:
    first = f"There is no `load.py` of its own, because {no_loader}; so with Gossamer:" if no_loader else "In Python:"
    lines = [_WITH_GOSSAMER] if no_loader else [_LOAD, *([_CLASSIFIER] if classifies else [])]
    text = "\n".join([f"## How to load it\n\n{first}\n\n```python", *lines, "```"])
    if not no_loader:
        text += "\n\n`load.py` is a program, and loading it runs it: see the signature first (below), or read it."
    names = [str(name) for name in card.get("class_names") or ()]
    if samples:
        called = f", and `class_names` text [{len(names)}], what label 0 is called first" if names else ""
        text += (
            f"\n\n`samples.npz` holds {samples:,} synthetic records, as they came: `images` uint8 [{samples}, C, H, W] and "
            f"`labels` int64 [{samples}]{called}. More can be drawn."
        )
    if names:
        text += "\n\nThe labels: " + ", ".join(f"{number} {_plain(name)}" for number, name in enumerate(names)) + "."
    return text


def _promised(certificate: Certificate) -> str:
    facts, figures = certificate.facts, certificate.figures
    lines = [f"Protected: {facts['protects']}.", f"In other words: {facts['adjacency']}."]
    finite = math.isfinite(float(certificate.guarantee["epsilon"]))
    if finite:
        rows = [f"| {_up(entry['epsilon'])} | {in_full(entry['delta'])} |" for entry in figures["at_deltas"]]
        lines.append("\n".join(["| epsilon, at most | delta |", "|---|---|", *rows]))
        parts = [
            f"- {entry['purpose']}: {entry['count']:,} x {release_in_words(entry['event'])}; alone epsilon "
            f"{_up(entry['alone']['epsilon'])} at delta {in_full(entry['alone']['delta'])}"
            for entry in figures["components"]
        ]
        lines.append("What looked at the records, and what each part would cost alone:\n\n" + "\n".join(parts))
    inputs = [
        f"- {entry['what']}: where from: {entry['origin']}; chosen beside such records: {entry['tuned']}"
        for entry in facts["public_inputs"]
    ]
    lines.append("Public inputs, which nothing protects:" + ("\n\n" + "\n".join(inputs) if inputs else " none."))
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
    """Declared text, with HTML escaped: some Markdown viewers render it."""
    return html.escape(text, quote=False)


def _up(epsilon: float | str) -> str:
    return rounded_up(float(epsilon))


_CHECKING = """## How to check it

`gossamer verify .` recomputes every figure from `ledger.jsonl`, writes this page and `load.py` again, and compares every file
with `SHA256SUMS`. It lists what it does not check. With `--key` and the public key of whoever made the release, it also says
whether they signed it. `check_release.py` of Gossamer's source recomputes epsilon without Gossamer. `certificate.json` has all
of this with every digit, and the Renyi curve for adding it to other releases.

What the table "who made it says" holds was declared, and no check can confirm it. Nor can a check show that the model came from
the queries in `ledger.jsonl`. The ledger shows what these queries cost. You rely on whoever signs for the rest."""
