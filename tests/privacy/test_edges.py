"""What the privacy core does at its edges: refusals, empty sums, and what it says of itself."""

import hashlib
import math
import os
import platform
from pathlib import Path

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent
from torch import nn

from gossamer.errors import LedgerDamaged, RequestError, RunFolderError
from gossamer.privacy.accounting import accountants
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.device_check import Check, name_of, present
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import clipped_to
from gossamer.privacy.per_sample_gradients import clipping
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

EVENT = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)


def test_arithmetic_that_overflows_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflows(*_: object) -> None:
        raise FloatingPointError("overflow encountered in exp")

    plan = ((GaussianDpEvent(1.2345678), 1),)
    monkeypatch.setattr(accountants, "_whole", overflows)
    assert accountants._pld_epsilon(plan, 1e-5, 1e-3) == math.inf


def test_without_noise_nothing_is_clipped() -> None:
    assert clipped_to(2.0, noise_multiplier=0.5) == 2.0
    assert clipped_to(2.0, noise_multiplier=0.0) == math.inf


@pytest.mark.parametrize("norm", [0.0, -1.0, math.nan])
def test_a_bound_is_above_zero(norm: float) -> None:
    with pytest.raises(RequestError, match="bounds must be above zero"):
        clipping.groups_of_parameters(Bounds((norm,)), 2)


def test_a_module_without_calls_adds_nothing_and_has_norm_zero() -> None:
    net = nn.Linear(2, 3)
    out = torch.full((9,), 7.0)
    clipping.add_clipped_(out, [], net, Bounds((1.0,)), at_once=8, multiplicity=1, fresh=True)
    assert out.tolist() == [0.0] * 9
    norms = clipping.call_norms([], net, (0, 1), 4, at_once=8, multiplicity=1)
    assert norms.tolist() == [[0.0, 0.0]] * 4


@pytest.mark.parametrize("wrong", [{"physical_batch_size": 0}, {"multiplicity": 0}])
def test_a_batch_has_a_record_or_more(wrong: dict[str, int]) -> None:
    with pytest.raises(RequestError, match="must be 1 or more"):
        PerRecordGradient(nn.Linear(2, 1), lambda net, batch: net(batch).sum(1), **wrong)


@pytest.mark.parametrize("wrong", [{"physical_batch_size": 0}, {"penalty": math.inf}])
def test_a_penalty_is_a_finite_number(wrong: dict[str, float]) -> None:
    with pytest.raises(RequestError, match="and the penalty a finite number"):
        PenaltyGradient(nn.Linear(2, 1), lambda batch: batch, **wrong)


def test_ranks_with_one_key_draw_alike_and_a_test_keeps_its_seed() -> None:
    key = bytes(range(16))
    first, second, other = Rng(1), Rng(2), Rng(1)
    first.draw_alike(key)
    second.draw_alike(key)
    drawn = first.common_integers(100, 1_000)
    assert np.array_equal(drawn, second.common_integers(100, 1_000))
    assert not np.array_equal(drawn, other.common_integers(100, 1_000))
    fixed, again = Rng(1, noise_seed=3), Rng(1, noise_seed=3)
    fixed.draw_alike(key)
    assert np.array_equal(fixed.common_integers(100, 1_000), again.common_integers(100, 1_000))


def test_a_generator_shows_its_public_seed_alone() -> None:
    assert repr(Rng(5, noise_seed=1234)) == "Rng(5)"


def test_a_check_of_a_device_is_one_line() -> None:
    assert str(Check("keystream", True, "equal")) == f"{'keystream':<22} pass: equal"
    assert str(Check("sum", False, "off by 1")) == f"{'sum':<22} FAIL: off by 1"


def test_a_device_that_is_not_there_is_refused() -> None:
    assert name_of("cpu") == platform.machine()
    assert present("cpu") == torch.device("cpu")
    absent = "cuda" if not torch.cuda.is_available() else "xpu"
    with pytest.raises(RequestError, match=f"`device={absent}` cannot be used on this machine"):
        present(absent)


# ---------------------------------------------------------------------- the ledger's file


def on_disk(path: Path, settings: str = "") -> PrivacyLedger:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, 40)])
    ledger.create(path, settings=settings)
    return ledger


def test_a_ledger_goes_to_disk_before_its_first_charge(tmp_path: Path) -> None:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, 1)])
    ledger.charge(EVENT)
    with pytest.raises(ValueError, match="before its first charge"):
        ledger.create(tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_declassify_is_told_before_it_is_written() -> None:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    told: list[list[str]] = []
    ledger.before_declassify = lambda: told.append(list(ledger.reasons))
    ledger.declassify("a test")
    ledger.declassify("a test")
    assert told == [[]], "once, and before the reason is in the ledger"
    assert ledger.reasons == ["a test"]


def test_a_ledger_with_a_second_name_is_not_written(tmp_path: Path) -> None:
    on_disk(tmp_path / "ledger.jsonl").close()
    os.link(tmp_path / "ledger.jsonl", tmp_path / "other")
    with pytest.raises(RunFolderError, match="a hard link"):
        PrivacyLedger.resume(tmp_path / "ledger.jsonl")


def test_settings_that_the_ledger_does_not_pin_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    on_disk(tmp_path / "ledger.jsonl", hashlib.sha256(b"{}").hexdigest()).close()
    PrivacyLedger.resume(tmp_path / "ledger.jsonl", settings=tmp_path / "config.json").close()
    (tmp_path / "config.json").write_text("{ }")
    with pytest.raises(LedgerDamaged, match=r"config\.json is not the one that line 1 of ledger\.jsonl pins"):
        PrivacyLedger.resume(tmp_path / "ledger.jsonl", settings=tmp_path / "config.json")


def test_sessions_places_and_hashes_of_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    ledger = on_disk(tmp_path / "run" / "ledger.jsonl")
    before = ledger.lines, ledger.last_hash
    ledger.begin_session("token")
    assert ledger.sessions == ["token"]
    assert ledger.hash_at(before[0]) == before[1] != ledger.last_hash == ledger.hash_at(ledger.lines)
    ledger.check_place()
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(RunFolderError, match="was moved, deleted or replaced"):
        ledger.check_place()
    ledger.close()
    assert PrivacyLedger.load(tmp_path / "moved" / "ledger.jsonl").sessions == ["token"]
