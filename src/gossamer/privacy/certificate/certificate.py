"""The certificate: the guarantee of a release, in words and numbers, and how anyone checks it.

`build` makes it from the ledger and the settings of a run, and `save` seals it. `load` loads it and compares all files of a
folder. `check` builds it again from ledger and settings, with every accountant that supports the events, and compares.
Entries that cannot be recomputed are under `declared` (`declarations.py`).

The format numbers the sentences, also those of the README. A file of another format is refused: nothing in it is compared.

Seal and hash chain show accidents and edits, with the line. They are no signature: everyone who can write to the folder can
write a new ledger and a certificate for it. The file has over 400 lines, because writing and checking must agree.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gossamer import notebook
from gossamer.errors import GossamerError, LedgerDamaged
from gossamer.files import CERTIFICATE, CONFIG, LEDGER, MODEL, write_atomically
from gossamer.privacy.accounting import cost
from gossamer.privacy.certificate import figures, statements
from gossamer.privacy.certificate.declarations import is_date, nothing_declared, what_is_wrong
from gossamer.privacy.certificate.json_diff import difference, same, settled, short
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger, merge, plan_to_json

FORMAT = 7
CONFIG_FORMAT = 5
"""Of config.json."""
_LOOKED_AT = ("method", "card", "config", "model", "ledger", "guarantees", "created", "versions", "format", "declared")
"""Compared with the files themselves, or held to their form, before the rest is written again."""
_LARGEST = 2**24  # bytes of certificate.json or config.json; a larger one must not fill the memory
_DEEPEST = 50  # levels of JSON; what was written has a handful


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """What `certificate.json` says. Built by `build`, read by `load`."""

    statement: str
    method: str
    guarantee: dict[str, Any]
    guarantees: list[dict[str, Any]]
    plan: list[dict[str, Any]]
    reasons: list[str]
    assumptions: list[str]
    public_data: str
    covered: list[str]
    not_covered: list[str]
    adds_up: str
    card: dict[str, Any]
    config: dict[str, Any]
    model: dict[str, str]
    ledger: dict[str, Any]
    versions: dict[str, str]
    created: str
    declared: dict[str, Any]
    facts: dict[str, Any]
    figures: dict[str, Any]
    format: int = FORMAT

    @classmethod
    def build(
        cls,
        ledger: PrivacyLedger,
        settings: dict[str, Any],
        *,
        model_sha256: str,
        versions: dict[str, str],
        created: str,
        guarantees: list[dict[str, Any]] | None = None,
        declared: Mapping[str, Any] | None = None,
    ) -> "Certificate":
        """Write down the promise of a finished run: the reserved plan, never "spent so far".

        Args:
            ledger: of the run.
            settings: what `config.json` holds. All words follow from it and from the ledger.
            model_sha256: of the model file.
            versions: of what the guarantee and the model rest on.
            created: the date.
            guarantees: of `recompute(ledger)`; None: recomputed here.
            declared: of `declarations.declare`; None: nothing is declared.
        """
        settings = statements.chosen(settings, ledger)
        guarantees = recompute(ledger) if guarantees is None else guarantees
        best = min(guarantees, key=lambda entry: float(entry["epsilon"]))
        proved = math.isfinite(float(best["epsilon"]))
        return cls(
            statement=statements.statement(ledger, settings, best),
            method=settings["method"],
            guarantee=best,
            guarantees=guarantees,
            plan=plan_to_json(ledger.plan),
            reasons=list(ledger.reasons),
            assumptions=[*statements.assumptions(settings, proved=proved), *([statements.NOISE] if proved else [])],
            public_data=statements.public_data(settings),
            covered=statements.covered(best, settings),
            not_covered=statements.not_covered(settings),
            adds_up=statements.adds_up(settings),
            card=settings["card"],
            config=settings["config"],
            model={"file": MODEL, "sha256": model_sha256},
            ledger={"file": LEDGER, "lines": ledger.lines, "last_hash": ledger.last_hash},
            versions=versions,
            created=created,
            declared=nothing_declared() if declared is None else dict(declared),
            facts=statements.facts(ledger, settings),
            figures=figures.figures(ledger, settings),
        )

    def __repr__(self) -> str:
        guarantee = Guarantee.from_json(
            {name: self.guarantee[name] for name in ("epsilon", "delta", "relation", "unit")}
        )
        return f"Certificate({guarantee}; {self.method}, {self.created})"

    def _repr_html_(self) -> str:
        """Show the guarantee and its conditions, in a notebook."""
        rows = [
            ("method", self.method),
            ("trained on", self.created),
            ("covers", "; ".join(self.covered)),
            ("public data", self.public_data),
            ("other runs", self.adds_up),
        ]
        return notebook.card("Certificate", [("guarantee", self.statement), *rows])

    def save(self, folder: Path) -> None:
        """Write certificate.json, sealed line by line."""
        body = asdict(self)
        ordered = {"statement": body.pop("statement"), "format": body.pop("format"), **body}
        write_atomically(folder / CERTIFICATE, sealed(ordered))

    @classmethod
    def load(cls, folder: Path) -> "Certificate":
        """Read certificate.json, after comparing all files of the folder. Recomputes no epsilon.

        Raises:
            LedgerDamaged: if a file was changed, cut or exchanged; the message names it, and the line or field.
        """
        read = _read(folder)
        if read.problems:
            raise LedgerDamaged(
                f"{folder} is damaged, or another version wrote it, and nothing is taken from it. "
                f"{' '.join(read.problems)} Restore the folder from a copy, or use that version."
            )
        return cls.of(read.stated)

    @classmethod
    def of(cls, stated: dict[str, Any]) -> "Certificate":
        """The certificate with these entries, of which all are there."""
        return cls(**{each.name: stated[each.name] for each in fields(cls)})


def recompute(ledger: PrivacyLedger) -> list[dict[str, Any]]:
    """The promise of a ledger by every accountant that knows its events, as JSON entries."""
    if ledger.reasons:
        infinite = Guarantee(epsilon=math.inf, delta=ledger.delta, relation=ledger.relation, unit=ledger.unit)
        return [{"accountant": "none", **infinite.to_json()}]
    bounds = cost.bounds(merge(ledger.plan), delta=ledger.delta, relation=ledger.relation, unit=ledger.unit)
    return [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in bounds]


@dataclass(frozen=True)
class Checked:
    """What `check` found.

    Args:
        problems: each in a sentence that names file and line or field; empty if all holds.
        guarantees: the promise recomputed from the ledger; empty where that cannot be read.
        ledger: None where it cannot be read.
        settings: what config.json holds, with the job that a look chose; empty where one of the files cannot be read.
        stated: what certificate.json holds; likewise.
    """

    problems: list[str]
    guarantees: list[dict[str, Any]] = field(default_factory=list)
    ledger: PrivacyLedger | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    stated: dict[str, Any] = field(default_factory=dict)


def check(folder: Path) -> Checked:
    """Check a run or a release folder: all that `Certificate.load` checks, and every field against ledger and settings.

    Epsilon and mu may differ by `TOLERANCE`. The sentences are then written with the stated figure, so that they do not differ
    in its last digit. Of the date, the versions and the declared entries, only the form can be checked.
    """
    read = _read(folder)
    ledger, settings, stated, problems = read.ledger, read.settings, dict(read.stated), list(read.problems)
    if ledger is None:
        return read
    expected: list[dict[str, Any]] = []
    try:
        expected = recompute(ledger)
        kind = settings["public"]["kind"]
        if kind not in ("none", "records", "share"):
            problems.append(f"{CONFIG}: public records of the kind {short(kind)} are unknown.")
        near = settled(stated.get("guarantees"), expected)
        wrong = _difference("guarantees", near, expected, "recomputed it is")
        bounds = expected if wrong else stated["guarantees"]
        again = Certificate.build(ledger, settings, model_sha256="", versions={}, created="", guarantees=bounds)
        rebuilt = json.loads(json.dumps(asdict(again)))
    except GossamerError as error:
        problems.append(f"{LEDGER} and {CONFIG} lead to no certificate: {error}.")
    except Exception as error:  # what damaged settings raise is open-ended, and may quote them
        problems.append(f"{LEDGER} and {CONFIG} lead to no certificate ({type(error).__name__}).")
    else:
        problems += wrong
        stated["figures"] = settled(stated.get("figures", ...), rebuilt["figures"])
        for name in (name for name in rebuilt if name not in _LOOKED_AT):
            problems += _difference(name, stated.get(name, ...), rebuilt[name], f"{LEDGER} and {CONFIG} lead to")
    return replace(read, problems=problems, guarantees=expected)


def _difference(name: str, stated: Any, expected: Any, source: str) -> list[str]:
    return difference(name, stated, expected, source, where=CERTIFICATE)


def _read(folder: Path) -> Checked:
    """The files of a folder, and what is wrong with them before anything is recomputed."""
    problems = []
    try:
        for name in (CERTIFICATE, CONFIG, LEDGER, MODEL):
            if (folder / name).is_symlink():
                problems.append(f"{name} is a link; what is promised must lie in the folder itself.")
            elif not (folder / name).is_file():
                problems.append(f"{name} is missing.")
        if problems:
            return Checked(problems)
        text, config = content(folder / CERTIFICATE), content(folder / CONFIG)
        problems += filter(None, [broken_seal(text.decode(errors="replace"))])
        stated, settings = _fields(text, CERTIFICATE, FORMAT), _fields(config, CONFIG, CONFIG_FORMAT)
        ledger = PrivacyLedger.load(folder / LEDGER)
        settings = statements.chosen(settings, ledger)
        model_sha256 = sha256(folder / MODEL)
    except LedgerDamaged as error:
        return Checked([*problems, str(error)])
    except OSError as error:
        return Checked([*problems, f"{Path(error.filename or folder).name} cannot be read ({error.strerror})."])
    if hashlib.sha256(config).hexdigest() != ledger.settings:
        problems.append(f"{CONFIG} is not the one that line 1 of {LEDGER} pins (its SHA-256 differs).")
    problems += _fits(stated, settings, ledger, model_sha256)
    return Checked(problems, ledger=ledger, settings=settings, stated=stated)


def content(path: Path) -> bytes:
    """The bytes of a text file of a run or a release. Raises LedgerDamaged: it is longer than any of these."""
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise LedgerDamaged(f"{path.name} is longer than {_LARGEST:,} bytes: it is something else.")
    return content


def _fields(content: bytes, name: str, number: int) -> dict[str, Any]:
    """A JSON object of this format, without duplicate keys: people read the first of two, programs the last."""

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("an entry stands there twice")
        return dict(pairs)

    try:
        entries = json.loads(content, object_pairs_hook=refuse_duplicates)
        if not isinstance(entries, dict) or _depth(entries) > _DEEPEST:
            raise ValueError("it does not hold fields")
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise LedgerDamaged(f"{name} is not JSON as it was written: {reason}.") from error
    if not same(entries.get("format", ...), number):
        raise LedgerDamaged(
            f"{name}: 'format' is {short(entries.get('format', ...))}, and this version of Gossamer supports {number} only. "
            "Use the version that wrote it."
        )
    return entries


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _fits(stated: dict[str, Any], settings: dict[str, Any], ledger: PrivacyLedger, model_sha256: str) -> list[str]:
    """Whether the fields are those of a certificate, and what it says of the other files is so."""
    names = {each.name for each in fields(Certificate)}
    problems = [f"{CERTIFICATE}: the entry {name!r} is missing." for name in sorted(names - stated.keys())]
    problems += [f"{CERTIFICATE}: the entry {name!r} is unknown." for name in sorted(stated.keys() - names - {"seal"})]
    if wrong := what_is_wrong(stated.get("declared")):
        problems.append(f"{CERTIFICATE}: 'declared': {wrong}.")
    for name in ("method", "card", "config"):
        problems += _difference(name, stated.get(name, ...), settings.get(name, ...), f"{CONFIG} says")
    pinned = {"file": LEDGER, "lines": ledger.lines, "last_hash": ledger.last_hash}
    if not same(stated.get("ledger"), pinned):
        problems.append(_cut_or_added(stated.get("ledger"), pinned))
    if not same(stated.get("model"), {"file": MODEL, "sha256": model_sha256}):
        problems.append(f"{MODEL} is not the model that the certificate was made for (its SHA-256 differs).")
    if not is_date(stated.get("created")):
        problems.append(f"{CERTIFICATE}: 'created' is no date.")
    versions = stated.get("versions")
    if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
        problems.append(f"{CERTIFICATE}: 'versions' does not name versions.")
    return problems


def _cut_or_added(stated: Any, expected: dict[str, Any]) -> str:
    lines = stated.get("lines") if isinstance(stated, dict) else None
    if not isinstance(lines, int) or lines == expected["lines"]:
        return f"{CERTIFICATE}: 'ledger' pins another ledger than {LEDGER}."
    return (
        f"{LEDGER} has {expected['lines']:,} lines where the certificate pins {lines:,} with another last hash: lines "
        f"{min(expected['lines'], lines) + 1:,} and on were cut or added."
    )


def sealed(body: dict[str, Any]) -> str:
    """The text of a certificate: JSON, its last entry a short digest of every line."""
    lines = json.dumps(body, indent=2, ensure_ascii=False).split("\n")
    lines[-2] += ","
    seal = " ".join(_digest(line) for line in lines[:-1])
    return "\n".join([*lines[:-1], f'  "seal": "{seal}"', "}", ""])


def broken_seal(text: str) -> str:
    """The first line of a certificate that was changed since it was saved, as a sentence; empty if none was."""
    lines = text.split("\n")
    if len(lines) < 3 or not lines[-3].startswith('  "seal": "'):
        return f"{CERTIFICATE}, line {max(1, len(lines) - 2)}: the seal is missing."
    seal = lines[-3].removeprefix('  "seal": "').removesuffix('"').split(" ")
    for number, (line, digest) in enumerate(zip(lines[:-3], seal, strict=False), start=1):
        if _digest(line) != digest:
            return f"{CERTIFICATE}, line {number}: this line, or one before it, was changed, added or cut."
    if len(seal) != len(lines) - 3:
        return f"{CERTIFICATE}, line {min(len(seal), len(lines) - 3) + 1}: lines were added or cut."
    return ""


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()[:8]
