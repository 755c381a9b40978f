"""The certificate: what a release promises, in words and numbers, and how anyone checks it.

`build` writes down the promise of a ledger, `save` seals it, `verify` recomputes everything from the ledger on disk with
every accountant that knows the events. The seal and the hash chain show accidents and careless edits, with the line; they
are no signature: whoever can write the folder can write a new one.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import LedgerDamaged
from gossamer.privacy import accounting, promise
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger, merge, plan_to_json
from gossamer.privacy.promise import MODEL

LEDGER = "ledger.jsonl"
CERTIFICATE = "certificate.json"

_NOT_REBUILT = ("created", "versions")
"""What a certificate states and its ledger and settings do not lead to."""


@dataclass(frozen=True, kw_only=True)
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
    format: int = 2

    @classmethod
    def build(
        cls,
        ledger: PrivacyLedger,
        settings: dict[str, Any],
        *,
        model_sha256: str,
        versions: dict[str, str],
        created: str,
    ) -> "Certificate":
        """Write down the promise of a finished run: the reserved plan, never "spent so far".

        Args:
            ledger: of the run.
            settings: what `config.json` holds: method, config, card, public. All words follow from it and from the ledger.
            model_sha256: of the model file.
            versions: of what the guarantee and the model rest on.
            created: the date.
        """
        guarantees = recompute(ledger)
        best = min(guarantees, key=lambda entry: float(entry["epsilon"]))
        return cls(
            statement=promise.statement(ledger, settings, best),
            method=settings["method"],
            guarantee=best,
            guarantees=guarantees,
            plan=plan_to_json(ledger.plan),
            reasons=list(ledger.reasons),
            assumptions=promise.assumptions(settings, proved=math.isfinite(float(best["epsilon"]))),
            public_data=promise.public_data(settings),
            covered=promise.covered(best, settings),
            not_covered=promise.not_covered(settings),
            adds_up=promise.adds_up(settings),
            card=settings["card"],
            config=settings["config"],
            model={"file": MODEL, "sha256": model_sha256},
            ledger={"file": LEDGER, "lines": ledger.lines, "last_hash": ledger.last_hash},
            versions=versions,
            created=created,
        )

    def save(self, folder: Path) -> None:
        """Write certificate.json, sealed line by line."""
        body = asdict(self)
        ordered = {"statement": body.pop("statement"), "format": body.pop("format"), **body}
        lines = json.dumps(ordered, indent=2, ensure_ascii=False).split("\n")
        lines[-2] += ","
        seal = " ".join(_digest(line) for line in lines[:-1])
        (folder / CERTIFICATE).write_text("\n".join([*lines[:-1], f'  "seal": "{seal}"', "}", ""]), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Certificate":
        """Read certificate.json, after checking its seal.

        Raises:
            LedgerDamaged: if the file was edited; the message names the line.
        """
        text = (folder / CERTIFICATE).read_text(encoding="utf-8")
        problem = broken_seal(text)
        if problem:
            raise LedgerDamaged(problem)
        body = json.loads(text)
        body.pop("seal")
        return cls(**body)


def recompute(ledger: PrivacyLedger) -> list[dict[str, Any]]:
    """The promise of a ledger by every accountant that knows its events, as JSON entries."""
    if ledger.reasons:
        infinite = Guarantee(epsilon=math.inf, delta=ledger.delta, relation=ledger.relation, unit=ledger.unit)
        return [{"accountant": "none", **infinite.to_json()}]
    found = accounting.bounds(merge(ledger.plan), delta=ledger.delta, relation=ledger.relation, unit=ledger.unit)
    return [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in found]


def verify(folder: Path, settings: dict[str, Any]) -> list[str]:
    """Check a run or a release folder: the seal, the chain, the model, and every field against the ledger and the settings.

    The certificate is written again from both, and compared field by field; only the date and the versions are taken as stated.

    Returns:
        The problems found, each in a sentence that names file and line or field; an empty list means that all holds.
    """
    missing = [name for name in (CERTIFICATE, LEDGER, MODEL) if not (folder / name).is_file()]
    if missing:
        return [f"{name} is missing." for name in missing]
    text = (folder / CERTIFICATE).read_text(encoding="utf-8", errors="replace")
    problem = broken_seal(text)
    problems = [problem] if problem else []
    try:
        stated = json.loads(text)
        if not isinstance(stated, dict):
            raise ValueError("it holds no fields")
    except ValueError as error:
        return [*problems, f"{CERTIFICATE} is not JSON: {error}."]
    try:
        ledger = PrivacyLedger.load(folder / LEDGER)
    except LedgerDamaged as error:
        return [*problems, str(error)]
    again = Certificate.build(
        ledger, settings, model_sha256=sha256(folder / MODEL), versions={}, created="",
    )  # fmt: skip
    return problems + _differences(stated, again)


def _differences(stated: dict[str, Any], again: "Certificate") -> list[str]:
    """What the stated certificate says otherwise than the one written again, field by field."""
    expected = json.loads(json.dumps(asdict(again)))
    problems = []
    for name in dict.fromkeys([*expected, *stated]):
        if name == "seal" or name in _NOT_REBUILT:
            continue
        if name not in expected or name not in stated:
            problems.append(f"{CERTIFICATE}: the entry {name!r} is {'missing' if name in expected else 'unknown'}.")
        elif name == "ledger" and stated[name] != expected[name]:
            problems.append(_cut_or_added(stated[name], expected[name]))
        elif name == "model" and stated[name] != expected[name]:
            problems.append(f"{MODEL} is not the model that the certificate was made for (its SHA-256 differs).")
        elif stated[name] != expected[name]:
            problems.append(f"{CERTIFICATE}: {name!r} is not what {LEDGER} and the settings lead to.")
    return problems


def _cut_or_added(stated: Any, expected: dict[str, Any]) -> str:
    lines = stated.get("lines") if isinstance(stated, dict) else None
    if not isinstance(lines, int):
        return f"{CERTIFICATE}: 'ledger' pins nothing."
    return (
        f"{LEDGER} has {expected['lines']:,} lines where the certificate pins {lines:,} with another last hash: lines "
        f"{min(expected['lines'], lines) + 1:,} and on were cut or added."
    )


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
