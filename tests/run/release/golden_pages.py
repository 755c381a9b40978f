"""The prose of certificates and of READMEs of releases, one page for each kind of run.

    python tests/run/release/golden_pages.py    write golden/*.txt again, after a change of their words

`verify` writes a README and a certificate again and compares them. Where their words change, so must `certificate.FORMAT`: else
honest releases are called forged. `test_golden_pages.py` compares the pages.
"""

import dataclasses
import difflib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.privacy.certificate.certificate import FORMAT, Certificate
from gossamer.run.release.texts import readme

GOLDEN = Path(__file__).parent / "golden"
DECLARED = {"made_by": "Clinic of Example", "expires": "2027-12-31", "settings_chosen": "uncounted"}
SETTINGS = {"delta": 1e-3, "noise_multiplier": 4.0}


def pictures(folder: Path, **more: Any) -> Certificate:
    """Of a run with public pictures. more: for `fit`."""
    draw = np.random.default_rng(0)
    np.savez(folder / "data.npz", images=draw.integers(0, 256, (160, 8, 8), np.uint8), labels=np.arange(160) % 2)
    np.savez(folder / "public.npz", images=draw.integers(0, 256, (40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    card = DataCard(shape=(1, 8, 8), classes=2, declared_size=160, title="Skin", class_names=("benign", "malignant"))
    return certified(folder, "moments", card, data="data.npz", public="public.npz", axes=4, **SETTINGS | more)


def tables(folder: Path) -> Certificate:
    """Of a run whose rows belong to people."""
    rows = [f"p{at // 2},{'yes' if at % 3 else 'no'},{at % 50}" for at in range(160)]
    (folder / "data.csv").write_text("\n".join(["patient,ill,age", *rows]) + "\n")
    columns = (Column(name="ill", kind="category", values=("yes", "no")),
               Column(name="age", kind="integer", bounds=(0, 99), bins=5))  # fmt: skip
    card = TableCard(columns=columns, declared_size=80, unit="patient", title="Visits", max_rows=2)
    data = gossamer.Source(folder / "data.csv", units="patient")
    return certified(folder, "marginals", card, data=data, rounds=1, cells=300, iterations=5, **SETTINGS)


def certified(folder: Path, method: str, card: Any, *, data: Any, **settings: Any) -> Certificate:
    """The certificate of a release of a run, with the date that the pages have."""
    places = {name: folder / settings.pop(name) for name in ("public",) if name in settings}
    data = folder / data if isinstance(data, str) else data
    gossamer.fit(method, data=data, card=card, out=folder / "run", accounts=folder / "log", **places, **settings)
    gossamer.release(folder / "run", folder / "release", declared=DECLARED)
    return dataclasses.replace(Certificate.load(folder / "release"), created="2026-01-01")


OTHERS: dict[str, dict[str, Any]] = {
    "no load.py": {"no_loader": "it needs PIL"},
    "no samples": {"samples": 0},
    "a released classifier": {"classifies": True},
    "public pictures in the model": {"facts": {"contains_public": "its samples are these pictures with other labels"}},
    "soft labels": {"config": {"own_label": 0.5}},
    "noisy answers": {"more": ["answers.safetensors"]},
}
"""What a README may also be about: arguments of `readme`, or entries of its certificate."""
PAGES: dict[str, tuple[Callable[[Path], Certificate], Sequence[str]]] = {
    "pictures": (pictures, [*OTHERS]),
    "pictures_without_a_guarantee": (lambda folder: pictures(folder, noise_multiplier=0.0), []),
    "tables": (tables, ["no load.py", "no samples"]),
}
"""The certificate of each page, and what else its README is shown about."""


def page(certificate: Certificate, **about: Any) -> str:
    """The README."""
    entries = {name: getattr(certificate, name) | about.pop(name) for name in ("facts", "config") if name in about}
    return readme(dataclasses.replace(certificate, **entries), **{"samples": 30, "no_loader": "", **about})


def text(certificate: Certificate, others: Sequence[str]) -> str:
    """The README, the lines that are other in other READMEs, and the sentences of the certificate."""
    own = page(certificate)
    parts = [own, f"# Other READMEs (format {FORMAT})\n"]
    for name in others:
        lines = difflib.ndiff(own.splitlines(), page(certificate, **OTHERS[name]).splitlines())
        parts.append("\n".join([f"## {name}", "", "```diff", *(line for line in lines if line[0] in "+-"), "```", ""]))
    names = ("statement", "reasons", "assumptions", "public_data", "covered", "not_covered", "adds_up", "facts")
    said = {name: getattr(certificate, name) for name in names}
    said["facts"] = {name: fact for name, fact in said["facts"].items() if name not in ("all_runs", "public_inputs")}
    said["public inputs"] = [each["what"] for each in certificate.facts["public_inputs"]]
    return "\n".join([*parts, "# The certificate\n\n```json", json.dumps(said, indent=2, ensure_ascii=False), "```\n"])


def pages(scratch: Path) -> Iterator[tuple[Path, str]]:
    """The place of each page, and what it has to hold."""
    for name, (make, others) in PAGES.items():
        (scratch / name).mkdir()
        yield GOLDEN / f"{name}.txt", text(make(scratch / name), others)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for place, expected in pages(Path(folder)):
            place.write_text(expected, encoding="utf-8")
