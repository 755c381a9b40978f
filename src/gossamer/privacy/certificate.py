"""The certificate: what a release promises, in words and numbers, and how anyone checks it.

`build` writes down the promise of a ledger, `save` seals it, `verify` recomputes everything from the ledger on disk with
every accountant that knows the events. The seal and the hash chain show accidents and careless edits, with the line; they
are no signature: whoever can write the folder can write a new one.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gossamer.errors import LedgerDamaged
from gossamer.privacy import accounting
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger, merge, plan_from_json, plan_to_json

MODEL = "model.safetensors"
LEDGER = "ledger.jsonl"
CERTIFICATE = "certificate.json"

COVERED = (f"{MODEL}, and any number of samples drawn from it",)
NOTHING_COVERED = (f"nothing: {MODEL} and its samples may reveal any record",)
NOT_COVERED = (
    "metrics.json and attacks.json: they are computed on real records; publishing them, or choosing or stopping a run by "
    "them, is outside the guarantee",
    "checkpoint/: private state of the run, never to be handed out",
    "the facts of the data card: they are assumptions that the curator declared public",
    "what others know already, and what follows from the population as a whole rather than from one unit's presence",
)
_AGREE = 1e-6


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
    covered: list[str] = field(default_factory=lambda: list(COVERED))
    not_covered: list[str] = field(default_factory=lambda: list(NOT_COVERED))
    card: dict[str, Any]
    config: dict[str, Any]
    model: dict[str, str]
    ledger: dict[str, Any]
    versions: dict[str, str]
    created: str
    format: int = 1

    @classmethod
    def build(
        cls,
        ledger: PrivacyLedger,
        *,
        method: str,
        card: dict[str, Any],
        config: dict[str, Any],
        assumptions: list[str],
        public_data: str,
        model_sha256: str,
        versions: dict[str, str],
        created: str,
    ) -> "Certificate":
        """Write down the promise of a finished run: the reserved plan, never "spent so far"."""
        guarantees = recompute(ledger)
        best = min(guarantees, key=lambda entry: float(entry["epsilon"]))
        return cls(
            statement=_statement(ledger, best),
            method=method,
            guarantee=best,
            guarantees=guarantees,
            plan=plan_to_json(ledger.plan),
            reasons=list(ledger.reasons),
            covered=list(COVERED if math.isfinite(float(best["epsilon"])) else NOTHING_COVERED),
            assumptions=assumptions,
            public_data=public_data,
            card=card,
            config=config,
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


def verify(folder: Path) -> list[str]:
    """Check a run or a release folder: the seal, the chain, the charges against the plan, the accountants, the model.

    Returns:
        The problems found, each in a sentence that names file and line; an empty list means that all holds.
    """
    problems = []
    missing = [name for name in (CERTIFICATE, LEDGER, MODEL) if not (folder / name).is_file()]
    if missing:
        return [f"{name} is missing." for name in missing]
    text = (folder / CERTIFICATE).read_text(encoding="utf-8", errors="replace")
    problem = broken_seal(text)
    if problem:
        problems.append(problem)
    try:
        certificate = json.loads(text)
    except ValueError as error:
        return [*problems, f"{CERTIFICATE} is not JSON: {error}."]
    try:
        ledger = PrivacyLedger.load(folder / LEDGER)
    except LedgerDamaged as error:
        return [*problems, str(error)]
    try:
        problems += _against_ledger(certificate, ledger)
        if certificate["model"]["sha256"] != sha256(folder / MODEL):
            problems.append(f"{MODEL} is not the model that the certificate was made for (its SHA-256 differs).")
    except (KeyError, TypeError, ValueError) as error:
        problems.append(f"{CERTIFICATE} lacks or garbles an entry: {error}.")
    return problems


def _against_ledger(certificate: dict[str, Any], ledger: PrivacyLedger) -> list[str]:
    problems = []
    if (certificate["ledger"]["lines"], certificate["ledger"]["last_hash"]) != (ledger.lines, ledger.last_hash):
        problems.append(
            f"{LEDGER} has {ledger.lines:,} lines where the certificate pins {certificate['ledger']['lines']:,} with "
            f"another last hash: lines {min(ledger.lines, certificate['ledger']['lines']) + 1:,} and on were cut or added."
        )
    if merge(plan_from_json(certificate["plan"])) != merge(ledger.plan):
        problems.append(f"{CERTIFICATE}: the plan is not the one that line 2 of {LEDGER} reserves.")
    if certificate["reasons"] != ledger.reasons:
        problems.append(f"{CERTIFICATE}: the reasons for declassifying are not those of {LEDGER}.")
    expected = recompute(ledger)
    stated = certificate["guarantees"]
    if [_terms(entry) for entry in stated] != [_terms(entry) for entry in expected]:
        problems.append(f"{CERTIFICATE}: accountants, delta, relation or unit are not those that {LEDGER} leads to.")
    for says, is_ in zip(stated, expected, strict=False):
        if float(says["epsilon"]) < float(is_["epsilon"]) * (1 - _AGREE):
            problems.append(
                f"{CERTIFICATE}: says epsilon {says['epsilon']} by {says['accountant']}; recomputed it is {is_['epsilon']}."
            )
    best = min(expected, key=lambda entry: float(entry["epsilon"]))
    if float(certificate["guarantee"]["epsilon"]) < float(best["epsilon"]) * (1 - _AGREE):
        problems.append(f"{CERTIFICATE}: the headline epsilon is below the {best['epsilon']} that {LEDGER} proves.")
    return problems


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


def _statement(ledger: PrivacyLedger, best: dict[str, Any]) -> str:
    if ledger.reasons:
        reasons = dict.fromkeys(ledger.reasons)  # a resumed run goes through the door again, for the same reason
        return f"No formal guarantee: epsilon is infinity, because {'; '.join(reasons)}."
    guarantee = Guarantee.from_json({key: best[key] for key in ("epsilon", "delta", "relation", "unit")})
    if math.isinf(guarantee.epsilon):
        return "No formal guarantee: epsilon is infinity, because this run was trained without noise."
    return (
        f"Differentially private: {guarantee}. Whether any one {guarantee.unit} was in the data changes the chance of any "
        f"outcome by at most a factor e^epsilon, up to delta. Bound by the {best['accountant']} accountant for the whole "
        "reserved plan."
    )


def _terms(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["accountant"], entry["delta"], entry["relation"], entry["unit"]


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()[:8]
