import json
import math
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import LedgerDamaged
from gossamer.privacy.certificate import CERTIFICATE, LEDGER, Certificate, sha256, verify
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms import poisson_gaussian
from gossamer.privacy.promise import MODEL, NO_PUBLIC

CARD = {"shape": [1, 28, 28], "classes": 10, "declared_size": 1_000, "label_prior": "uniform", "unit": "record"}
SETTINGS: dict[str, Any] = {"method": "dpgan", "config": {"steps": 40}, "card": CARD, "public": NO_PUBLIC}
EVENT = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)


def write(folder: Path, *, count: int = 40, noise: float = 1.0, reason: str | None = None) -> Certificate:
    event = poisson_gaussian(sampling_rate=0.01, noise_multiplier=noise)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(event, count)])
    ledger.create(folder / LEDGER)
    for _ in range(20):
        ledger.charge(event)
    if reason:
        ledger.declassify(reason)
    (folder / MODEL).write_bytes(b"weights")
    certificate = Certificate.build(
        ledger, SETTINGS, model_sha256=sha256(folder / MODEL), versions={"gossamer": "0"}, created="2026-01-01"
    )
    certificate.save(folder)
    ledger.close()
    return certificate


def edit(folder: Path, key: str, value: Any) -> int:
    """Change one top-level entry by hand, seal untouched; gives the number of the first line that differs."""
    path = folder / CERTIFICATE
    before = path.read_text()
    body = json.loads(before)
    body[key] = value
    lines = json.dumps(body, indent=2, ensure_ascii=False).split("\n")
    path.write_text("\n".join(lines) + "\n")
    return next(n for n, (old, new) in enumerate(zip(before.split("\n"), lines, strict=False), 1) if old != new)


def test_what_was_built_verifies_and_loads(tmp_path: Path) -> None:
    certificate = write(tmp_path)
    assert verify(tmp_path, SETTINGS) == []
    assert Certificate.load(tmp_path) == certificate


def test_it_states_the_reserved_plan_not_what_is_spent(tmp_path: Path) -> None:
    certificate = write(tmp_path, count=4_000)  # 20 of them used
    ledger = PrivacyLedger.load(tmp_path / LEDGER)
    assert certificate.guarantee["epsilon"] == ledger.promise().epsilon
    assert certificate.guarantee["epsilon"] > 1.5 * ledger.spent().epsilon
    assert {entry["accountant"] for entry in certificate.guarantees} == {"RDP", "PLD"}
    assert certificate.guarantee["epsilon"] == min(entry["epsilon"] for entry in certificate.guarantees)
    assert certificate.statement.startswith("Differentially private: epsilon ")


@pytest.mark.parametrize(("noise", "reason"), [(0.0, None), (1.0, "a test looked")])
def test_infinity_is_the_first_thing_it_says(tmp_path: Path, noise: float, reason: str | None) -> None:
    certificate = write(tmp_path, noise=noise, reason=reason)
    assert certificate.statement.startswith("No formal guarantee: epsilon is infinity")
    assert json.loads((tmp_path / CERTIFICATE).read_text())["guarantee"]["epsilon"] == "inf"
    assert (tmp_path / CERTIFICATE).read_text().split("\n")[1].startswith('  "statement": "No formal')
    assert verify(tmp_path, SETTINGS) == []
    if reason:
        assert certificate.reasons == [reason]
        assert reason in certificate.statement


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("statement", "epsilon 0.001"),
        ("created", "2026-01-02"),
        ("card", {"classes": 11}),
        ("assumptions", []),
        ("reasons", ["x"]),
    ],
)
def test_an_edited_certificate_is_shown_with_its_line(tmp_path: Path, key: str, value: Any) -> None:
    write(tmp_path)
    line = edit(tmp_path, key, value)
    problems = verify(tmp_path, SETTINGS)
    assert any(f"{CERTIFICATE}, line {line}:" in problem for problem in problems)
    with pytest.raises(LedgerDamaged, match=f"line {line}:"):
        Certificate.load(tmp_path)


def test_a_lower_epsilon_is_refuted_even_under_a_new_seal(tmp_path: Path) -> None:
    certificate = write(tmp_path)
    lower = {**certificate.guarantee, "epsilon": certificate.guarantee["epsilon"] / 2}
    Certificate(**{**vars(certificate), "guarantee": lower}).save(tmp_path)
    assert any("'guarantee'" in problem for problem in verify(tmp_path, SETTINGS))
    guarantees = [{**entry, "epsilon": entry["epsilon"] / 2} for entry in certificate.guarantees]
    Certificate(**{**vars(certificate), "guarantees": guarantees}).save(tmp_path)
    assert any("'guarantees'" in problem for problem in verify(tmp_path, SETTINGS))


def test_a_cut_tail_of_the_ledger_shows(tmp_path: Path) -> None:
    write(tmp_path)
    lines = (tmp_path / LEDGER).read_text().splitlines(keepends=True)
    (tmp_path / LEDGER).write_text("".join(lines[:-1]))
    (problem,) = verify(tmp_path, SETTINGS)
    assert f"lines {len(lines)} and on were cut or added" in problem


def test_an_edited_ledger_line_shows(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / LEDGER).read_text()
    (tmp_path / LEDGER).write_text(text.replace('"count": 40', '"count": 39'))
    assert verify(tmp_path, SETTINGS) == [
        f"{LEDGER}, line 2: the hash does not fit; this line, or one cut out before it, was changed."
    ]


def test_another_model_shows(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / MODEL).write_bytes(b"other weights")
    assert "SHA-256 differs" in verify(tmp_path, SETTINGS)[0]


@pytest.mark.parametrize("name", [MODEL, LEDGER, CERTIFICATE])
def test_a_missing_file_shows(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (tmp_path / name).unlink()
    assert verify(tmp_path, SETTINGS) == [f"{name} is missing."]


@pytest.mark.parametrize("text", ["", "{}", "not json", "[]"])
def test_garbage_in_place_of_a_certificate_is_a_problem_not_a_crash(tmp_path: Path, text: str) -> None:
    write(tmp_path)
    (tmp_path / CERTIFICATE).write_text(text)
    assert verify(tmp_path, SETTINGS)
