"""The checks of a device: they pass where numbers are right, and each fails where one kind of number is wrong."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from commands import Answer

from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy import device_check
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients import gradients
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.random.keystream import DeviceKeystream

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=60)


def verdicts(device: str = "cpu") -> dict[str, bool]:
    return {check.name: check.passed for check in device_check.device_check(device, precision="fp32")}


def test_the_processor_passes_its_own_checks_in_single_precision() -> None:
    assert verdicts() == dict.fromkeys(
        ["keystream", "whole numbers", "functions of noise", "clipped sum, fp32", "other records, fp32"], True
    )


@pytest.mark.slow
def test_the_processor_passes_its_own_checks(gossamer: Callable[..., Answer]) -> None:
    answer = gossamer("device-check", "--device", "cpu", "--json")
    assert answer.status == 0
    checks = answer.json["checks"]
    assert [check["name"] for check in checks] == [
        "keystream", "whole numbers", "functions of noise", "clipped sum, fp32", "other records, fp32", "clipped sum, tf32",
        "other records, tf32", "clipped sum, bf16", "other records, bf16",
    ]  # fmt: skip
    assert all(check["passed"] for check in checks)


def _keystream(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = DeviceKeystream.write, iter(range(10))

    def write(self: DeviceKeystream, out: torch.Tensor) -> None:
        real(self, out)
        if next(calls) % 2:
            out[3, 7] ^= 1 << 20

    monkeypatch.setattr(DeviceKeystream, "write", write)


def _rounded_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = torch.nn.functional.conv2d, iter(range(100))

    def convolution(*given: Any, **named: Any) -> torch.Tensor:
        out = real(*given, **named)
        return out if next(calls) % 2 else out.float().double()

    monkeypatch.setattr("gossamer.privacy.device_check.F.conv2d", convolution)


def _coarse_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = torch.log, iter(range(10))
    monkeypatch.setattr(torch, "log", lambda x: real(x) if next(calls) % 2 else real(x.float()).double())


def _long_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped to 1 % above the bound."""
    real = PerRecordGradient.clipped_sum
    monkeypatch.setattr(PerRecordGradient, "clipped_sum", lambda self, *given: 1.01 * real(self, *given))


def _rows_that_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library whose rows depend a little on the size of the batch, and batches that are not filled up."""
    real = PerRecordGradient.losses

    def losses(self: PerRecordGradient[Tensors], batch: Tensors) -> torch.Tensor:
        return real(self, batch) * (1 + 1e-3 * torch.linspace(0, len(batch), len(batch)).sin())

    monkeypatch.setattr(PerRecordGradient, "losses", losses)
    monkeypatch.setattr(gradients, "one_size", lambda *_: False)
    monkeypatch.setattr(device_check, "MAX_NORM", 1e6)
    monkeypatch.setattr(device_check, "BOUNDS", device_check.Bounds(norms=(1e6,)))
    monkeypatch.setattr(device_check, "MOVED", 1e-12)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (_keystream, "keystream"),
        (_rounded_sums, "whole numbers"),
        (_coarse_logarithm, "functions of noise"),
        (_long_record, "clipped sum, fp32"),
        (_rows_that_mix, "other records, fp32"),
    ],
)
def test_each_check_fails_where_its_numbers_are_wrong(
    plant: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert not verdicts()[name]


def test_a_run_on_a_device_that_fails_is_refused_and_one_that_passes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "present", lambda device: torch.device("meta" if device == "cuda" else device))
    checks = [device_check.Check("keystream", True, ""), device_check.Check("whole numbers", True, "")]
    monkeypatch.setattr(device_check, "device_check", lambda device, precision: checks)
    monkeypatch.setattr(device_check, "name_of", lambda device: "a GPU")
    device_check.passed.cache_clear()
    text = device_check.check_device("cuda", {"precision": "bf16"})
    assert text == f"a GPU, torch {torch.__version__}, bf16: 2 checks passed"
    assert device_check.check_device("cpu", {}) == ""
    checks[1] = device_check.Check("whole numbers", False, "a convolution rounds")
    device_check.passed.cache_clear()
    with pytest.raises(RequestError, match=r"nothing was trained \(whole numbers: a convolution rounds\)"):
        device_check.check_device("cuda", {})
    with pytest.raises(RequestError, match="Train with `precision=fp32`, or on the processor"):
        device_check.check_device("cuda", {"precision": "bf16"})
    device_check.passed.cache_clear()


def test_an_optimised_python_checks_too() -> None:
    """It leaves `assert` out."""
    script = (
        "import torch; from gossamer.privacy import device_check as it\n"
        "it.MOVED, it._LAST_PLACES, it.SUMS = -1.0, -1.0, dict.fromkeys(it.SUMS, -1.0)\n"
        "print([check.passed for check in it.device_check('cpu', precision='fp32')])"
    )
    said = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[True, True, False, False, False]"


def test_the_ledger_keeps_what_was_checked(tmp_path: Any) -> None:
    ledger = PrivacyLedger(budget=10.0, delta=1e-5)
    ledger.reserve(Job.of(METHODS["moments"], {"noise_multiplier": 5.0}, CARD).plan)
    ledger.create(tmp_path / "ledger.jsonl")
    for _ in range(2):
        ledger.note_device("a GPU, torch 2.11.0, fp32: 5 checks passed")
    ledger.close()
    again = PrivacyLedger.load(tmp_path / "ledger.jsonl")
    assert again.devices == ["a GPU, torch 2.11.0, fp32: 5 checks passed"] and again.plan == ledger.plan
