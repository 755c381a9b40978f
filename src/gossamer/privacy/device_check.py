"""Does a device compute as the proofs ask? Asked before a run on a GPU reads a record, and by `gossamer device-check`.

A proof is about numbers. On a processor, tests have checked that they are the right ones. A GPU has other libraries, of which
no test of ours knows. So each part on which a guarantee rests is computed there and here, on inputs drawn from a fixed seed:

- the keystream, bit by bit;
- sums of whole numbers below 2^53 in double precision, bit by bit: votes are such sums (`methods/common/votes.py`);
- logarithm, root, sine and cosine in double precision, and rounding to the grid, of which noise is made;
- clipped sums against double precision on the processor, and the largest that one record adds;
- what one record more does to the gradients of others (`per_sample_gradients/rounding.py`).
"""

import functools
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.rounding import Precision, charged, full_precision
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.keystream import WORDS, DeviceKeystream
from gossamer.privacy.random.noise import round_to_grid_

MAX_NORM = 0.01
"""So small that every record is clipped."""
BOUNDS = Bounds(norms=(MAX_NORM,))
MOVED = 1e-3
"""How far one record more may move all others together, in max_norm: the slack of the bounds."""
SUMS = {"fp32": 1e-4, "tf32": 3e-2, "bf16": 0.2}
"""How far a clipped sum may be from that of double precision, in records x max_norm."""
_LAST_PLACES = 4.0
"""Units in the last place by which a function in double precision may be off. The proof of the noise allows 2^7."""
_RECORDS = 96


@dataclass(frozen=True)
class Check:
    """One question and its answer."""

    name: str
    passed: bool
    found: str

    def __str__(self) -> str:
        return f"{self.name:<22} {'pass' if self.passed else 'FAIL'}: {self.found}"


def device_check(device: str = "cuda", *, precision: Precision | None = None) -> list[Check]:
    """Compute on a device what guarantees rest on, and compare it with the processor. Reads no record.

    Args:
        device: cuda, or cuda:1 for the second GPU.
        precision: number format of forward and backward passes. None: all three.

    Raises:
        RequestError: if this machine has no such device.
    """
    place = present(device)
    checks: dict[str, Callable[[torch.device], str]] = {
        "keystream": _keystream,
        "whole numbers": _whole_numbers,
        "functions of noise": _functions,
    }
    for each in ("fp32", "tf32", "bf16") if precision is None else (precision,):
        checks[f"clipped sum, {each}"] = functools.partial(_sum, precision=each)
        checks[f"other records, {each}"] = functools.partial(_others, precision=each)
    found = []
    for name, look in checks.items():
        try:
            with torch.random.fork_rng(devices=[]), full_precision():
                found.append(Check(name, True, look(place)))
        except (_Failed, RuntimeError) as error:
            found.append(Check(name, False, str(error).splitlines()[0]))
    return found


def check_device(device: str, settings: Mapping[str, Any]) -> str:
    """Check that a GPU computes as the guarantee needs, once a process. Return what the ledger says of it; empty of a CPU.

    Args:
        device: cpu, cuda or cuda:1.
        settings: of the method; `precision` counts.

    Raises:
        RequestError: if this machine does not have the device, or a check fails.
    """
    return "" if present(device).type == "cpu" else passed(device, settings.get("precision", "fp32"))


@functools.cache
def passed(device: str, precision: Precision) -> str:
    """What a ledger says of a device whose checks passed: its name, the version of PyTorch, how many checks.

    Raises:
        RequestError: if a check fails.
    """
    checks = device_check(device, precision=precision)
    if failed := [check for check in checks if not check.passed]:
        raise RequestError(
            f"{device} does not compute as the guarantee needs, so nothing was trained ({failed[0].name}: {failed[0].found}). "
            f"Train {'with `precision=fp32`, or ' * (precision != 'fp32')}on the processor, with `device=cpu`, or try another "
            "version of PyTorch."
        )
    return f"{name_of(device)}, torch {torch.__version__}, {precision}: {len(checks)} checks passed"


def name_of(device: str) -> str:
    """As its maker calls it."""
    place = torch.device(device)
    return torch.cuda.get_device_name(place) if place.type == "cuda" else platform.machine()


def present(device: str) -> torch.device:
    """The device.

    Raises:
        RequestError: if this machine, or this build of PyTorch, does not have it.
    """
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise RequestError(
            f"`device={device}` cannot be used on this machine ({str(error).splitlines()[0]}). Take cpu."
        ) from None


class _Failed(Exception):
    """A check has failed."""


def _require(true: bool, otherwise: str) -> None:
    """In place of `assert`, which Python leaves out where it is told to optimise (-O, PYTHONOPTIMIZE)."""
    if not true:
        raise _Failed(otherwise)


def _keystream(place: torch.device) -> str:
    for start in (0, 2**32 - 500):
        here, there = (torch.empty(WORDS, 1001, dtype=torch.int32, device=each) for each in ("cpu", place))
        for room in (here, there):
            stream = DeviceKeystream(bytes(range(32)))
            stream.seek(start)
            stream.write(room)
        _require(torch.equal(here, there.cpu()), "the bits differ")
    return "the bits of ChaCha20, also with counters above 32 bits"


def _whole_numbers(place: torch.device) -> str:
    """Products of numbers of 20 bits and their sums, by a matrix product and by a convolution. Each stays below 2^53."""
    a, b = (torch.randint(-(2**20), 2**20, (400, 1_000), generator=_drawn()).double() for _ in range(2))
    images = torch.randint(0, 2**8, (400, 3, 28, 28), generator=_drawn()).double()
    kernels = torch.randint(-(2**20), 2**20, (16, 3, 5, 5), generator=_drawn()).double()
    for size in (400, 37, 1):
        _require(torch.equal((a[:size].to(place) @ b.to(place).T).cpu(), a[:size] @ b.T), "a matrix product rounds")
        there = F.conv2d(images[:size].to(place), kernels.to(place), stride=2, padding=2)
        _require(
            torch.equal(there.cpu(), F.conv2d(images[:size], kernels, stride=2, padding=2)), "a convolution rounds"
        )
    return "sums in double precision are exact, so votes are"


def _functions(place: torch.device) -> str:
    uniform = torch.rand(200_000, generator=_drawn(), dtype=torch.float64) + 2.0**-60
    worst = 0.0
    for name, values in (("log", uniform), ("rsqrt", 40 * uniform), ("cos", 6 * uniform - 3), ("sin", 6 * uniform - 3)):
        here, there = getattr(torch, name)(values), getattr(torch, name)(values.to(place)).cpu()
        places = float(((here - there).abs() / (torch.finfo(torch.float64).eps * here.abs().clamp(min=2.0**-20))).max())
        _require(places <= _LAST_PLACES, f"{name} is off by {places:.0f} units in the last place")
        worst = max(worst, places)
    for dtype in (torch.float32, torch.float64):
        values = (uniform * 100).to(dtype)
        same = torch.equal(round_to_grid_(values.to(place), 3.3).cpu(), round_to_grid_(values.clone(), 3.3))
        _require(same, "rounding to the grid differs")
    return f"within {worst:.0f} units in the last place of double precision"


def _sum(place: torch.device, precision: Precision) -> str:
    query, batch = _query(place, precision, _RECORDS), _batch(_RECORDS, place)
    exact = PerRecordGradient(_net().double(), _loss, _RECORDS, "fast")
    wide = Tensors(tuple(part.double() for part in _batch(_RECORDS, torch.device("cpu")).parts))
    within = Bounds(norms=(charged(MAX_NORM, torch.float32),))
    difference = query.clipped_sum(batch, BOUNDS).double().cpu() - exact.clipped_sum(wide, within)
    apart = float(difference.norm()) / (_RECORDS * MAX_NORM)
    alone = max(float(query.clipped_sum(batch[i : i + 1], BOUNDS).double().norm()) for i in range(8)) / MAX_NORM
    _require(alone <= 1, f"one record adds {alone:.5f} max_norm")
    _require(apart <= SUMS[precision], f"off by {apart:.1e} of records x max_norm; {SUMS[precision]:.0e} is allowed")
    return f"off by {apart:.1e} of records x max_norm; one record adds {alone:.4f} max_norm"


def _others(place: torch.device, precision: Precision) -> str:
    worst = 0.0
    for n in (_RECORDS, _RECORDS - 17):
        query, batch = _query(place, precision, _RECORDS), _batch(n, place)
        whole, rest, first = (query.clipped_sum(each, BOUNDS).double() for each in (batch, batch[1:], batch[:1]))
        worst = max(worst, float((whole - rest - first).norm()) / MAX_NORM)
    _require(worst <= MOVED, f"one record more moves the others by {worst:.1e} of max_norm; {MOVED:.0e} is allowed")
    return f"one record more moves the others by {worst:.1e} of max_norm"


def _query(place: torch.device, precision: Precision, size: int) -> PerRecordGradient[Tensors]:
    return PerRecordGradient(_net().to(place), _loss, size, "fast", precision=precision)


def _net() -> nn.Module:
    """Layers of all kinds that the methods have: strided and plain convolutions, normalised groups, a product."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 32, 3, 1, 1), nn.GroupNorm(8, 32), nn.SiLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.Tanh(), nn.Conv2d(16, 16, 5, 4), nn.Flatten(), nn.Linear(576, 8),
    )  # fmt: skip


def _loss(net: nn.Module, batch: Tensors) -> Tensor:
    out: Tensor = net(batch.parts[0])
    return out.float().square().sum(1) if out.dtype != torch.float64 else out.square().sum(1)


def _batch(n: int, place: torch.device) -> Tensors:
    return Tensors((torch.rand(n, 1, 28, 28, generator=_drawn()).to(place),))


def _drawn() -> torch.Generator:
    return torch.Generator().manual_seed(1)
