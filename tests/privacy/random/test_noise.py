"""Secret noise and coins, two-sided. Every statistical test rejects a correct generator with probability 1e-6 or less."""

import itertools
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from threading import Thread

import dp_accounting
import low_bits
import mpmath  # comes with PyTorch, by sympy
import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from gossamer.errors import RequestError
from gossamer.privacy.accounting import accountants
from gossamer.privacy.random import keystream, noise
from gossamer.privacy.random.keystream import DeviceKeystream, Keystream
from gossamer.privacy.random.noise import Rng, grid, round_to_grid_

ERROR_RATE = 1e-6
Z = stats.norm.isf(ERROR_RATE / 2)  # 4.89: two-sided bound on a standard normal statistic


@pytest.fixture(params=["AES", "ChaCha20"])
def either_keystream(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's way, and the way of another device, taken on the processor; in passes of the same size."""
    if request.param == "ChaCha20":
        as_on_a_device(monkeypatch)


def as_on_a_device(monkeypatch: pytest.MonkeyPatch, pairs: int = noise._PAIRS) -> None:
    monkeypatch.setattr(noise, "_makes_its_own", lambda device: True)
    monkeypatch.setattr(noise, "_DEVICE_PAIRS", pairs)


def normals(rng: Rng, n: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Noise of standard deviation 1, on its grid of 2^-10. [n]"""
    return rng.add_gaussian_(torch.zeros(n, dtype=dtype), 1.0)


def binomial_faults(counts: np.ndarray, trials: int, probability: float) -> bool:
    """Whether any count leaves the two-sided bounds that hold for all of them together."""
    share = ERROR_RATE / counts.size / 2
    low, high = stats.binom.ppf(share, trials, probability), stats.binom.isf(share, trials, probability)
    return bool(((counts < low) | (counts > high)).any())


@pytest.mark.usefixtures("either_keystream")
def test_moments_and_tails() -> None:
    """Tails are counted from the edge of a cell of the grid, where rounding changes nothing."""
    rng, n = Rng(noise_seed=1), 20_000_000
    totals = np.zeros(4)
    tails = dict.fromkeys((3, 4, 5, 6), 0)
    for _ in range(20):
        drawn = normals(rng, n // 20)
        square = drawn * drawn
        totals += [float(x.sum()) for x in (drawn, square, square * drawn, square * square)]
        for bound in tails:
            tails[bound] += int((drawn.abs() > bound + grid(1.0) / 2).sum())
    mean, second, third, fourth = totals / n
    assert abs(mean) < Z / math.sqrt(n)
    assert abs(second - 1) < Z * math.sqrt(2 / n)
    assert abs(third) < Z * math.sqrt(15 / n)
    assert abs(fourth - 3) < Z * math.sqrt(96 / n)
    for bound, count in tails.items():
        chance = 2 * stats.norm.sf(bound + grid(1.0) / 2)
        assert not binomial_faults(np.array([count]), n, chance), f"{count} beyond {bound}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("either_keystream")
def test_kolmogorov_smirnov(dtype: torch.dtype) -> None:
    drawn = normals(Rng(noise_seed=2), 1_000_000, dtype)
    assert drawn.dtype == dtype
    assert stats.kstest(drawn.numpy(), stats.norm.cdf).pvalue > ERROR_RATE


@pytest.mark.usefixtures("either_keystream")
def test_the_two_halves_of_a_pair_are_independent() -> None:
    rng, pairs = Rng(noise_seed=3), noise._PAIRS
    x, y = np.concatenate([normals(rng, 2 * pairs).numpy().reshape(2, pairs) for _ in range(4)], axis=1)
    for a, b in [(x, y), (x**2, y**2), (x, y**2), (x[1:], x[:-1]), (x[1:], y[:-1])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < Z / math.sqrt(len(a))
    angle = np.arctan2(y, x) / (2 * np.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > ERROR_RATE
    assert stats.kstest((x**2 + y**2) / 2, "expon").pvalue > ERROR_RATE


def polar(rng: Rng, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Radius and angle of the next pairs, as they are drawn."""
    drawn = rng._polar(pairs, torch.device("cpu"), rng._device_noise)
    return drawn.radius.clone(), drawn.angle.clone()


def keystream_of(monkeypatch: pytest.MonkeyPatch, word: int, turn: int) -> None:
    """A keystream that gives one pair of normals again and again: a word for the radius, and for more, a word for the angle."""

    def write(self: object, room: memoryview, size: int) -> None:
        pairs = 0 if size == 8 * math.prod(noise._MORE) else size // 16
        bits = np.full(size // 8 - pairs, word, np.int64), np.full(pairs, turn, np.int64)
        room[:size] = np.concatenate(bits).view(np.uint8).data

    monkeypatch.setattr(Keystream, "write", write)


@pytest.mark.parametrize(
    ("word", "radius"),
    [
        (0, math.sqrt(2 * 1009 * math.log(2))),
        (-(2**63), math.sqrt(2 * 1009 * math.log(2))),
        (1, math.sqrt(126 * math.log(2))),
        (2**45, math.sqrt(36 * math.log(2))),
        (2**62, math.sqrt(2 * math.log(2))),
        (-1, 0.0),
        (2**63 - 1, 0.0),
    ],
)
@pytest.mark.parametrize(
    ("turn", "angle"), [(0, 0.0), (2**62, 0.5), (-(2**62), -0.5), (2**63 - 1, 1.0), (-(2**63), -1.0)]
)
def test_no_word_makes_a_radius_or_a_coordinate_of_zero(
    monkeypatch: pytest.MonkeyPatch, word: int, radius: float, turn: int, angle: float
) -> None:
    """All-zero and all-one words included. The angle is in half turns, cosine first."""
    keystream_of(monkeypatch, word, turn)
    found, turned = polar(Rng(), 1)
    assert found.item() == pytest.approx(radius, abs=1e-6) and 1e-8 < found.item() < 37.5
    pair = found * torch.stack([turned.cos(), turned.sin()])
    assert (pair != 0).all() and pair.isfinite().all()
    assert turned.item() == pytest.approx(angle * math.pi, abs=1e-14)
    both = Rng().add_gaussian_(torch.full((2,), 5.0, dtype=torch.float64), 1e-9)
    assert both.tolist() == pytest.approx((5 + 1e-9 * pair.flatten()).tolist(), abs=grid(1e-9))


FAR = 2**45
"""Words below it take more words, so that u is right to one part in 2^45."""


@pytest.mark.parametrize("word", [0, 1, 2**20 + 12345, 2**40 + 12345, 2**45 - 1])
@pytest.mark.usefixtures("either_keystream")
def test_a_small_u_has_all_its_bits(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    """u of every pair against its exact value. Each pair has words of its own for what is below the first word."""
    source, pairs = np.random.default_rng(30), noise._MORE[0]
    first = np.full(pairs, word)
    first[::3] = FAR + 5  # these take no more words
    more = source.integers(0, 2**62, noise._MORE)
    more[:8, :3] = 0
    turns = np.zeros(pairs, np.int64)

    def of_the_processor(self: object, room: memoryview, size: int) -> None:
        given = more if size == 8 * math.prod(noise._MORE) else np.concatenate([first, turns])
        room[:size] = given.reshape(-1).view(np.uint8).data

    def of_a_device(self: object, room: torch.Tensor) -> None:
        given = np.concatenate([first, turns, more.reshape(-1)])
        room.view(-1)[: 2 * len(given)] = torch.from_numpy(given.view(np.int32))

    monkeypatch.setattr(Keystream, "write", of_the_processor)
    monkeypatch.setattr(DeviceKeystream, "write", of_a_device)
    radius, _ = polar(Rng(), pairs)
    far = 0
    for number, found in zip(first.tolist(), radius.tolist(), strict=True):
        rest = Fraction(1, 2)
        if number < FAR:
            digits = [Fraction(int(digit), 2 ** (63 * place)) for place, digit in enumerate(more[far], start=1)]
            rest, far = sum(digits) + Fraction(1, 2 ** (63 * len(digits) + 1)), far + 1
        u = (number + rest) / 2**63
        exact = math.sqrt(2 * (math.log(u.denominator) - math.log(u.numerator)))
        assert abs(found - exact) <= 2e-15 * exact


def test_a_pair_lies_where_its_coins_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against exact values: within 2^-41 from half a cell (2^-12) to a radius of 36, and 2^-49 in root mean square.

    A third of the pairs as they come, a third near zero, where u is nearly 1, and a third far out. The mean is of the first
    third. The proof in `docs/proofs.md` takes both bounds from here.
    """
    source, each = np.random.default_rng(33), 1_000
    near = np.iinfo(np.int64).max - (2.0 ** source.uniform(40, 62, each)).astype(np.int64)
    far = (2.0 ** source.uniform(0, 45, each)).astype(np.int64)
    first = np.concatenate([source.integers(0, 2**63, each), near, far])
    turns, more = source.integers(-(2**63), 2**63, 3 * each), source.integers(0, 2**62, (3 * each, 15))
    monkeypatch.setattr(noise, "_MORE", more.shape)

    def write(self: object, room: memoryview, size: int) -> None:
        given = more if size == more.nbytes else np.concatenate([first, turns])
        room[:size] = given.reshape(-1).view(np.uint8).data

    monkeypatch.setattr(Keystream, "write", write)
    radius, angle = polar(Rng(), 3 * each)
    pairs = torch.stack([angle.cos(), angle.sin()]) * radius
    moved, rows = [], iter(more[:, 0].tolist())
    with mpmath.workprec(200):
        for word, turn, found in zip(first.tolist(), turns.tolist(), pairs.T.tolist(), strict=True):
            rest = mpmath.mpf(next(rows)) / 2**63 if word < FAR else mpmath.mpf(0.5)
            size = mpmath.sqrt(-2 * mpmath.log((word + rest) / mpmath.mpf(2) ** 63))
            turned = (turn + mpmath.mpf(0.5)) * mpmath.pi / 2**63
            exact = size * mpmath.cos(turned), size * mpmath.sin(turned)
            moved.append(max(abs(float(one - other)) for one, other in zip(exact, found, strict=True)))
    moved = np.array(moved)
    assert moved[radius.numpy() >= 2.0**-12].max() < 2.0**-41
    assert np.sqrt((moved[:each] ** 2).mean()) < 2.0**-49


def cannot_be_noise(released: torch.Tensor, spacing: float, bits: int) -> np.ndarray:
    """Whether no circle with u = (k + 1/2) / 2^bits, k = 0, 1, ..., meets the cell of a released pair. released: [2, n]

    To an attacker who knows that radii have so many bits, these pairs cannot be noise alone.
    """
    nearest = (released.abs() - spacing / 2).clamp(min=0).square().sum(0).numpy()
    farthest = (released.abs() + spacing / 2).square().sum(0).numpy()
    low, high = (np.exp(-squares / 2) * 2.0**bits - 0.5 for squares in (farthest, nearest))
    return np.floor(high * (1 + 1e-9)) < np.maximum(np.ceil(low * (1 - 1e-9)), 0)


@pytest.mark.parametrize("bits", [52, 63])
@pytest.mark.parametrize("shift", [0.0, 2.0**-16, 2.0**-14, 2.0**-12, 2.0**-11, 2.0**-10, 2.0**-8, 2.0**-4, 0.3])
@pytest.mark.usefixtures("either_keystream")
def test_no_rare_pair_shows_that_it_was_moved(monkeypatch: pytest.MonkeyPatch, shift: float, bits: int) -> None:
    """131,072 pairs with u below 512 / 2^bits, moved by a record or not (shift 0), held against circles of so many bits.

    With u of 52 bits, pairs of noise alone are always on a circle of it, and up to 15 % of those that a record has moved are on
    none. Now as many are on none as of true normals of such radii. A record of norm C adds C / sqrt(D) to each of D numbers:
    the shifts of all presets, in standard deviations, lie between those here.
    """
    monkeypatch.setattr(noise, "_MORE", (noise._PAIRS, 15), raising=False)
    real, on_a_device = Keystream.write, DeviceKeystream.write

    def rare(words: torch.Tensor) -> None:
        words[: noise._PAIRS] &= (512 << 63 - bits) - 1 - 2**63  # the sign is not used

    def of_the_processor(self: Keystream, room: memoryview, size: int) -> None:
        real(self, room, size)
        if size < 100 * noise._PAIRS:
            rare(torch.frombuffer(room, dtype=torch.int64, count=noise._PAIRS))

    def of_a_device(self: DeviceKeystream, room: torch.Tensor) -> None:
        on_a_device(self, room)
        rare(room.view(-1)[: 2 * noise._PAIRS].view(torch.int64))

    monkeypatch.setattr(Keystream, "write", of_the_processor)
    monkeypatch.setattr(DeviceKeystream, "write", of_a_device)
    rng, spacing, trials = Rng(noise_seed=31), grid(1.0), 4 * noise._PAIRS
    moved = torch.full((2 * noise._PAIRS,), shift, dtype=torch.float64)
    released = torch.cat([rng.add_gaussian_(moved.clone(), 1.0).view(2, -1) for _ in range(4)], dim=1)
    source = np.random.default_rng(32)
    radius = np.sqrt(2 * (bits * np.log(2) - np.log(source.uniform(0, 512, trials))))
    turn = source.uniform(0, 2 * np.pi, trials)
    true = round_to_grid_(torch.from_numpy(np.stack([radius * np.cos(turn), radius * np.sin(turn)])) + shift, 1.0)
    found, expected = (int(cannot_be_noise(pairs, spacing, bits).sum()) for pairs in (released, true))
    share = (found + expected) / (2 * trials)
    assert 0.02 < share < 0.5 and abs(found - expected) <= Z * math.sqrt(2 * trials * share * (1 - share))


def test_the_end_of_the_noise_is_taken_off_delta() -> None:
    """2^31 pairs, each moved by at most one standard deviation, and at a noise multiplier of 0.05 one pair, moved by 20."""
    edge = math.sqrt(2 * math.log(2) * (63 * (1 + noise._MORE[1]) - 53))  # beyond, u is coarser than a float64
    assert edge > 36
    added = noise._MOST_NUMBERS / 2 * math.exp(-((edge - 1) ** 2) / 2) + 400 * math.exp(-((edge - 20) ** 2) / 2)
    assert added < accountants.NOISE_END


def test_all_zero_and_all_one_bytes_make_ordinary_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for byte in (0x00, 0xFF):

        def write(self: object, room: memoryview, size: int, byte: int = byte) -> None:
            room[:size] = bytes([byte]) * size

        monkeypatch.setattr(Keystream, "write", write)
        radius, angle = polar(Rng(), 3)
        pairs = radius * torch.stack([angle.cos(), angle.sin()])
        assert (pairs != 0).all() and pairs.isfinite().all()
        assert normals(Rng(), 5, torch.float32).isfinite().all()


@pytest.mark.usefixtures("either_keystream")
def test_add_gaussian_adds_in_place_and_scales() -> None:
    unit = normals(Rng(noise_seed=4), 100_001)
    out = torch.full((100_001,), 7.0, dtype=torch.float64)
    assert Rng(noise_seed=4).add_gaussian_(out, 0.25) is out
    assert torch.equal(out, 7 + 0.25 * unit)  # both grids are 2^-10 standard deviations
    narrow = Rng(noise_seed=4).add_gaussian_(torch.full((100_001,), 7.0), 0.25)
    assert (narrow.double() - out).abs().max() <= grid(0.25)
    assert len(normals(Rng(), 0)) == 0


def test_without_noise_nothing_is_rounded() -> None:
    values = torch.tensor([1 / 3, 1e-30, math.pi])
    assert torch.equal(Rng(noise_seed=4).add_gaussian_(values.clone(), 0.0), values)


@pytest.mark.parametrize("n", [1, 2, 3, 2 * noise._PAIRS, 2 * noise._PAIRS + 1])
@pytest.mark.usefixtures("either_keystream")
def test_no_element_is_left_without_noise(n: int) -> None:
    """One element in 2,570 falls on zero: that four draws agree on it for any of 65,537 has probability 2e-9."""
    rng = Rng(noise_seed=5)
    assert (torch.stack([normals(rng, n, torch.float32) for _ in range(4)]) != 0).any(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("std", [1.0, 0.3, 7.9, 1e-30, 1e30, 1.5e-5])
@pytest.mark.usefixtures("either_keystream")
def test_what_is_released_is_a_multiple_of_a_grid_that_std_alone_decides(dtype: torch.dtype, std: float) -> None:
    """The grid is 2^-11 to 2^-10 standard deviations wide; no sum makes it finer or coarser, and none is left out."""
    spacing = grid(std)
    assert 2.0**-11 * std < spacing <= 2.0**-10 * std and math.frexp(spacing)[0] == 0.5
    rng = Rng(noise_seed=15)
    for size in (0.0, 1e-9, 1 / 3, 100.3):
        released = rng.add_gaussian_(torch.full((4001,), size * std, dtype=dtype), std)
        multiples = released.double() / spacing
        assert torch.equal(multiples, multiples.round())
        odd = int((multiples.remainder(2) == 1).sum())
        assert not binomial_faults(np.array([odd]), 4001, 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_to_the_nearest_multiple(dtype: torch.dtype) -> None:
    """Either side alike: a rounding that always goes down would shift every release by half a grid."""
    spacing = grid(3.0)
    values = torch.cat(
        [torch.linspace(-40, 40, 40_001, dtype=dtype), torch.tensor([0.5, 1.5, -0.5]).to(dtype) * spacing]
    )
    values = torch.cat([values, -values])
    rounded = round_to_grid_(values.clone(), 3.0)
    assert torch.equal(rounded, spacing * torch.from_numpy(np.rint(values.double().numpy() / spacing)).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [3e9, -3e9, 2.0**30, -(2.0**24) - 1, math.inf, -math.inf, math.nan])
@pytest.mark.usefixtures("either_keystream")
def test_sums_far_larger_than_the_noise_stay_what_they_are(dtype: torch.dtype, value: float) -> None:
    out = Rng(noise_seed=16).add_gaussian_(torch.full((9,), value, dtype=dtype), 1.0)
    expected = torch.full((9,), value, dtype=torch.float64)
    torch.testing.assert_close(out.double(), expected, rtol=2.0**-22, atol=8, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("either_keystream")
def test_the_noise_is_unbiased_on_a_sum_between_two_multiples(dtype: torch.dtype) -> None:
    n, value = 1_000_000, 0.3 * grid(1.0)
    moved = Rng(noise_seed=17).add_gaussian_(torch.full((n,), value, dtype=dtype), 1.0).double() - value
    assert abs(float(moved.mean())) < Z / math.sqrt(n)
    assert abs(float(moved.var()) - 1) < Z * math.sqrt(2 / n)


@pytest.mark.usefixtures("either_keystream")
def test_the_noise_is_drawn_and_added_in_float64() -> None:
    """The released value is the float64 one, rounded to float32 and to the grid, and never another.

    One number in 2^29 of float64 is one of float32. Noise in float32 would end in another cell once in 2^13 times: that
    none of 2^18 shows it has probability e^-32."""
    reference, total = Rng(noise_seed=18), torch.linspace(-1, 1, 2 * noise._PAIRS)
    sources = {dtype: Rng(noise_seed=18) for dtype in (torch.float32, torch.float64)}
    for _ in range(4):
        radius, angle = polar(reference, noise._PAIRS)
        pair = torch.cat([angle.cos() * radius, angle.sin() * radius])
        for numbers in (radius, angle, pair):
            assert numbers.dtype == torch.float64
            assert (numbers.float().double() == numbers).sum() < 10
        for dtype, rng in sources.items():
            expected = round_to_grid_((total.double() + 0.7 * pair).to(dtype), 0.7)
            assert torch.equal(rng.add_gaussian_(total.clone().to(dtype), 0.7), expected)


def test_another_device_runs_the_same_lines() -> None:
    """A meta tensor holds no numbers: it shows that buffers and constants follow the tensor, and which keystream is used."""
    rng = Rng(noise_seed=19)
    out = rng.add_gaussian_(torch.empty(1001, device="meta"), 1.0)
    assert out.device.type == "meta" and {device.type for device, _ in rng._passes} == {"meta"}
    blocks = -(-(4 * 501 + 2 * math.prod(noise._MORE)) // 16)  # of 16 words of 32 bits; a pair has four
    assert rng._secret["noise"].position == 0 and rng._device_noise.position == blocks
    rng.add_gaussian_(torch.empty(1001), 1.0)
    assert rng._secret["noise"].position == 16 * 501 and rng._device_noise.position == blocks


@pytest.mark.parametrize("n", [1, 1001, 2 * noise._DEVICE_PAIRS + 3])
def test_every_word_of_the_device_keystream_is_used_once(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Radius and angle of a pair are made of words that no other pair has, in passes as they are on a GPU."""
    as_on_a_device(monkeypatch, noise._DEVICE_PAIRS)
    monkeypatch.setattr(noise, "_MASK", -1)  # no bit of a word is lost
    handed, used = 0, list[torch.Tensor]()

    def write(self: object, room: torch.Tensor) -> None:
        nonlocal handed
        torch.arange(handed, handed + room.numel(), dtype=torch.int32, out=room.view(-1))
        handed += room.numel()

    def polar(self: Rng, pairs: int, device: torch.device, stream: DeviceKeystream) -> noise._Pass:
        drawn = real(self, pairs, device, stream)
        used.extend(words.view(torch.int32).flatten().clone() for words in (drawn.words, drawn.turns, drawn.more))
        return drawn

    real = Rng._polar
    monkeypatch.setattr(DeviceKeystream, "write", write)
    monkeypatch.setattr(Rng, "_polar", polar)
    normals(Rng(), n)
    words = torch.cat(used)
    passes = len(used) // 3
    assert len(words) == len(words.unique()) == 4 * ((n + 1) // 2) + 2 * math.prod(noise._MORE) * passes > handed - 32


def test_normals_for_a_query_come_from_a_stream_that_moves_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU those of a secret generator; on a device from a keystream of their own, which a checkpoint of a test keeps."""
    here = Rng(noise_seed=31)
    assert torch.equal(here.normals(700, "cpu"), torch.randn(700, generator=Rng(noise_seed=31).secret_generator()))
    as_on_a_device(monkeypatch)
    rng, other = Rng(noise_seed=32), Rng(noise_seed=32)
    drawn = rng.normals(100_001, "cpu")
    assert drawn.dtype == torch.float32 and len(drawn) == 100_001
    assert (
        stats.kstest(drawn.numpy() + np.random.default_rng(0).uniform(-(2.0**-11), 2.0**-11, 100_001), "norm").pvalue
        > ERROR_RATE
    )
    assert torch.equal(drawn, (drawn * 1024).round() / 1024)
    assert torch.equal(normals(rng, 1001), normals(other, 1001))
    resumed = Rng(noise_seed=32)
    resumed.restore(rng.state())
    following = rng.normals(501, "cpu")
    assert torch.equal(resumed.normals(501, "cpu"), following) and not torch.equal(following, drawn[:501])
    assert not torch.equal(Rng().normals(501, "cpu"), Rng().normals(501, "cpu"))


def test_noise_of_a_device_has_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise seed fixes both, each rank has its own, and one does not move the other."""
    before = normals(Rng(noise_seed=28), 1001)
    as_on_a_device(monkeypatch)
    rngs = [Rng(noise_seed=28), Rng(noise_seed=28, rank=1), Rng(noise_seed=29), Rng(), Rng()]
    drawn = [before, *(normals(rng, 1001) for rng in rngs), normals(rngs[0], 1001)]
    assert all((a == b).float().mean() < 0.01 for i, a in enumerate(drawn) for b in drawn[:i])
    assert torch.equal(normals(Rng(noise_seed=28), 1001), drawn[1])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gpu_gives_the_same_noise(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Its logarithms and cosines differ in the last bit, which moves one result in millions by a multiple of the grid."""
    there = Rng(noise_seed=20).add_gaussian_(torch.full((200_001,), 0.7, dtype=dtype, device="cuda"), 3.3).cpu()
    as_on_a_device(monkeypatch, noise._DEVICE_PAIRS)
    here = Rng(noise_seed=20).add_gaussian_(torch.full((200_001,), 0.7, dtype=dtype), 3.3)
    assert (here != there).sum() <= 3 and (here - there).abs().max() <= grid(3.3)


@pytest.mark.parametrize("fused", [True, False])
def test_low_bits_do_not_tell_two_sums_apart(fused: bool) -> None:
    """With the instructions of this processor, and without a fused multiply-add, which hides the rounding of the noise.

    What (epsilon, delta) allows: right with probability 1 / (1 + e^-epsilon) + delta at most, and with probability 1e-6 more
    than 53 of 60 times. Noise in float32, added in float32, is told apart 60 of 60 times without a fused multiply-add."""
    epsilon, delta = dp_accounting.get_epsilon_gaussian(low_bits.MULTIPLIER, 1e-5), 1e-5
    assert epsilon == pytest.approx(0.3407, abs=1e-4)
    allowed = stats.binom.isf(ERROR_RATE / 2, low_bits.TRIALS, 1 / (1 + math.exp(-epsilon)) + delta)
    if fused:
        counts = [low_bits.right_guesses(Rng(noise_seed=21), dtype) for dtype in (torch.float32, torch.float64)]
    else:
        command = [sys.executable, low_bits.__file__, noise.__file__]
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        counts = [int(word) for word in output.split()]
    assert len(counts) == 2 and max(counts) <= allowed <= 53


def test_a_query_of_more_numbers_than_the_proof_has_is_refused() -> None:
    out = torch.zeros(1).expand(2**32 + 1)  # takes no memory
    with pytest.raises(ValueError, match="at most 2\\^32 numbers"):
        Rng().add_gaussian_(out, 1.0)


@pytest.mark.parametrize("std", [-1.0, math.inf, math.nan, 1e-31, 1e31])
def test_a_standard_deviation_out_of_range_is_refused(std: float) -> None:
    with pytest.raises(ValueError, match="standard deviation"):
        Rng().add_gaussian_(torch.zeros(3), std)


def test_other_types_and_shapes_are_refused() -> None:
    with pytest.raises(TypeError, match="bfloat16"):
        Rng().add_gaussian_(torch.zeros(3, dtype=torch.bfloat16), 1.0)
    with pytest.raises(ValueError, match="flat"):
        Rng().add_gaussian_(torch.zeros(3, 2), 1.0)


def poisson_faults(draws: list[np.ndarray], population: int, rate: float) -> set[str]:
    """What is not as independent coins would have it: the mean of the count, its variance, the rate of a position."""
    sizes = np.array([len(draw) for draw in draws])
    mean, variance, trials = population * rate, population * rate * (1 - rate), len(draws)
    faults = set()
    if abs(sizes.mean() - mean) > Z * math.sqrt(variance / trials):
        faults.add("mean")
    if abs(sizes.var(ddof=1) / variance - 1) > Z * math.sqrt(2 / trials):
        faults.add("variance")
    counts = np.bincount(np.concatenate(draws), minlength=population)
    if binomial_faults(counts, trials, rate):
        faults.add("position")
    return faults


def test_poisson_sampling_has_the_mean_the_variance_and_the_rates_of_coins() -> None:
    rng = Rng(noise_seed=6)
    draws = [rng.poisson_sample(1000, 0.1) for _ in range(4000)]
    assert poisson_faults(draws, 1000, 0.1) == set()
    assert all(draw.dtype == np.int64 and (np.diff(draw) > 0).all() for draw in draws)


def test_a_shuffled_batch_fails_the_test_of_poisson_sampling() -> None:
    shuffler = np.random.default_rng(0)
    batches = [np.sort(shuffler.permutation(1000)[:100]) for _ in range(4000)]
    assert poisson_faults(batches, 1000, 0.1) == {"variance"}
    assert "position" in poisson_faults([batch // 2 for batch in batches], 1000, 0.1)


def test_sampling_rates_at_the_ends() -> None:
    rng = Rng()
    assert rng.poisson_sample(100_000, 1.0).tolist() == list(range(100_000))
    assert len(rng.poisson_sample(100_000, 0.0)) == 0
    assert len(rng.poisson_sample(0, 0.5)) == 0
    positions = rng.poisson_sample(200_000, 0.5)  # several passes
    assert not binomial_faults(np.array([len(positions), 2 * (positions >= 100_000).sum()]), 200_000, 0.5)


def test_every_block_of_units_has_coins_of_its_own() -> None:
    """Coins are drawn 65,536 at a time: two blocks agree on a unit as often as independent coins do, in either direction."""
    rng, size, blocks = Rng(noise_seed=23), noise._COINS, 5
    population = blocks * size - 1234
    taken = np.zeros((2, blocks * size), bool)
    for row in taken:
        row[rng.poisson_sample(population, 0.5)] = True
    assert not taken[:, population:].any()
    draws = taken.reshape(2 * blocks, size)[:, : size - 1234].astype(int)
    assert not binomial_faults(draws.sum(1), size - 1234, 0.5)
    both = np.array([(a & b).sum() for i, a in enumerate(draws) for b in draws[:i]])
    assert not binomial_faults(both, size - 1234, 0.25)


def test_a_coin_is_compared_with_all_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = int(0.3 * 2.0**64)
    coins = np.array([edge - 1, edge, 0, 2**64 - 1], np.uint64)
    monkeypatch.setattr(Keystream, "words", lambda self, count: coins[:count])
    assert Rng().poisson_sample(4, 0.3).tolist() == [0, 2]


RATES = [noise._SPARSE, 512 / 60_000, 0.01, 1 / 1024, 512 / 10_000_000, 1e-12, 5e-324]
"""Rates of which units are drawn by blocks."""


def at_most(k: int, rate: float, bits: int) -> int:
    """The first bits of P(count <= k), for independent coins of that rate: every term by itself, over one denominator."""
    p = Fraction(rate)
    drawn, left, m = p.numerator, p.denominator - p.numerator, noise._UNITS
    ways = sum(math.comb(m, j) * drawn**j * left ** (m - j) for j in range(k + 1))
    return (ways << bits) // p.denominator**m


@pytest.mark.parametrize("rate", RATES)
def test_thresholds_are_the_first_bits_of_the_binomial_distribution(rate: float) -> None:
    """Every one of them in integers; the last is all ones, so that no word lies beyond the table unseen."""
    for bits in (64, 128):
        table = noise._thresholds(rate, bits)
        some = range(0, len(table), 7)
        assert [table[k] for k in some] == [at_most(k, rate, bits) for k in some]
        assert table == sorted(table) and table[-1] == 2**bits - 1 and table.count(2**bits - 1) == 1


@pytest.mark.parametrize("rate", [noise._SPARSE, 512 / 60_000, 1 / 1024])
def test_a_word_on_a_threshold_is_decided_by_more_words(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """A count is the number of exact probabilities that do not exceed the binary fraction that all words together make."""
    first, second = noise._thresholds(rate, 64), noise._thresholds(rate, 128)
    for k in (0, 3, len(first) - 2):
        beyond = second[k] % 2**64
        for words, larger in [
            ([beyond - 1], False),
            ([beyond, 0], False),
            ([beyond, 2**64 - 1], True),
            ([beyond + 1], True),
        ]:
            rest = iter([first[k], *words])
            monkeypatch.setattr(
                Keystream, "words", lambda self, n, rest=rest: np.array([*itertools.islice(rest, n)], np.uint64)
            )
            assert Rng()._counts(1, rate).tolist() == [k + larger]
            assert not [*rest], "a word was left over"


def test_words_between_thresholds_need_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    table = noise._thresholds(0.01, 64)
    words = [0, table[0] - 1, table[0] + 1, table[1] - 1, table[1] + 1, table[20] - 1, 2**64 - 2]
    monkeypatch.setattr(Keystream, "words", lambda self, n: np.array(words, np.uint64)[:n])
    largest = sum(threshold <= 2**64 - 2 for threshold in table)
    assert Rng()._counts(7, 0.01).tolist() == [0, 0, 1, 1, 2, 20, largest]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of four units, at any rate: few enough sets for each to be counted."""
    monkeypatch.setattr(noise, "_UNITS", 4)
    monkeypatch.setattr(noise, "_SPARSE", 1.0)
    noise._thresholds.cache_clear()
    yield
    noise._thresholds.cache_clear()


@pytest.mark.parametrize("population", [3, 4, 5, 7])
@pytest.mark.usefixtures("small_blocks")
def test_every_set_of_units_is_as_likely_as_coins_make_it(population: int) -> None:
    """Chi-square over all sets, whole blocks and one that is filled up."""
    rng, rate, trials = Rng(noise_seed=24), 0.3, 20_000
    seen = np.zeros(1 << population)
    for _ in range(trials):
        seen[sum(1 << unit for unit in rng.poisson_sample(population, rate).tolist())] += 1
    sizes = np.array([code.bit_count() for code in range(1 << population)])
    expected = trials * rate**sizes * (1 - rate) ** (population - sizes)
    assert stats.chisquare(seen, expected).pvalue > ERROR_RATE


@pytest.mark.parametrize("rate", [noise._SPARSE, np.nextafter(noise._SPARSE, 1)])
def test_either_side_of_the_switch_draws_as_coins_do(rate: float) -> None:
    """Means, variances and rates of positions; pairs of units in one block and in two; the law of the counts."""
    rng, population, trials = Rng(noise_seed=25), 2 * noise._UNITS + 300, 4_000
    draws = [rng.poisson_sample(population, float(rate)) for _ in range(trials)]
    assert poisson_faults(draws, population, float(rate)) == set()
    assert all(draw.dtype == np.int64 and (np.diff(draw) > 0).all() for draw in draws)
    taken = np.zeros((trials, population), bool)
    for row, draw in zip(taken, draws, strict=True):
        row[draw] = True
    first, second, rest = (taken[:, lo : lo + 300] for lo in (0, noise._UNITS, 2 * noise._UNITS))
    pairs = [(first, first[:, ::-1]), (first, second), (second, rest), (first, rest), (rest, rest[:, ::-1])]
    both = [int((a & b)[:, :150].sum()) for a, b in pairs]
    assert not binomial_faults(np.array(both), 150 * trials, float(rate) ** 2)
    counts = np.bincount(taken[:, : noise._UNITS].sum(1).clip(8, 25))[8:]  # at either end 85 are expected
    below = stats.binom.cdf(np.arange(8, 25), noise._UNITS, rate)
    assert stats.chisquare(counts, trials * np.diff([0.0, *below, 1.0])).pvalue > ERROR_RATE


@pytest.mark.parametrize("population", [0, 1, noise._UNITS - 1, noise._UNITS, noise._UNITS + 1])
def test_populations_about_one_block(population: int) -> None:
    """The last unit is drawn as often as the first, and nobody beyond it."""
    rng, trials, rate = Rng(noise_seed=26), 2_000, noise._SPARSE
    draws = [rng.poisson_sample(population, rate) for _ in range(trials)]
    counts = np.bincount(np.concatenate(draws), minlength=population)
    assert len(counts) == population
    assert population == 0 or not binomial_faults(counts, trials, rate)
    assert not binomial_faults(np.array([sum(map(len, draws))]), trials * population, rate) if population else True


def test_a_draw_of_ten_million_takes_one_word_a_block() -> None:
    rng = Rng(noise_seed=27)
    drawn = rng.poisson_sample(10_000_000, 512 / 10_000_000)
    assert 300 < len(drawn) < 750 and drawn[-1] > 9_000_000
    assert rng._secret["coins"].position < 8 * 9766 + 3 * len(drawn)
    assert np.array_equal(Rng(noise_seed=27).poisson_sample(10_000_000, 512 / 10_000_000), drawn)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_a_sampling_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="sampling rate"):
        Rng().poisson_sample(10, rate)
    with pytest.raises(ValueError, match="population"):
        Rng().poisson_sample(-1, 0.5)


def test_query_coins() -> None:
    rng = Rng(noise_seed=7)
    uniform = rng.uniform(200_000)
    assert uniform.dtype == np.float64 and uniform.min() >= 0 and uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > ERROR_RATE
    dice = rng.integers(600_000, 6)
    assert dice.dtype == np.int64
    assert not binomial_faults(np.bincount(dice, minlength=6), 600_000, 1 / 6)
    assert set(rng.integers(1000, 1)) == {0}
    assert len(rng.integers(0, 5)) == 0
    for high in (0, 2**63 + 1):
        with pytest.raises(ValueError, match="high"):
            rng.integers(3, high)


def test_integers_are_unbiased_where_the_remainder_is_large() -> None:
    """With 3/4 of 2^63 possible results, words without rejection would favour the lower half of them 3 to 2."""
    high = 3 * 2**61
    low_half = int((Rng(noise_seed=8).integers(100_000, high) < high // 2).sum())
    assert not binomial_faults(np.array([low_half]), 100_000, 0.5)


@pytest.mark.usefixtures("either_keystream")
def test_noise_does_not_move_with_coins() -> None:
    quiet, busy = Rng(noise_seed=9), Rng(noise_seed=9)
    busy.poisson_sample(12_345, 0.3)
    busy.uniform(17)
    busy.integers(5, 10)
    busy.secret_generator()
    torch.rand(10, generator=busy.public("latents"))
    assert torch.equal(normals(quiet, 1001), normals(busy, 1001))
    assert np.array_equal(Rng(noise_seed=9).poisson_sample(500, 0.5), quiet.poisson_sample(500, 0.5))


def test_streams_differ_from_one_another() -> None:
    ranks = [Rng(noise_seed=10), Rng(noise_seed=10, rank=1)]
    heads = {bytes(stream.take(16)) for rng in ranks for stream in rng._secret.values()}
    assert len(heads) == 9, "five purposes, of which ranks have one in common"


@pytest.mark.usefixtures("either_keystream")
def test_real_generators_never_repeat_and_test_generators_do() -> None:
    assert not Rng().reproducible and Rng(noise_seed=0).reproducible
    assert not torch.equal(normals(Rng(seed=1), 100), normals(Rng(seed=1), 100))
    assert not np.array_equal(Rng(seed=1).poisson_sample(1000, 0.5), Rng(seed=1).poisson_sample(1000, 0.5))
    assert torch.equal(normals(Rng(noise_seed=11), 100), normals(Rng(seed=5, noise_seed=11), 100))
    assert not torch.equal(normals(Rng(noise_seed=11), 100), normals(Rng(noise_seed=12), 100))


@pytest.mark.usefixtures("either_keystream")
def test_a_second_thread_is_refused() -> None:
    """Two at once would write into the buffers of one another: the noise of one had 1.7 times its standard deviation."""
    rng, said = Rng(), list[str]()
    normals(rng, 100)

    def draw() -> None:
        try:
            normals(rng, 100)
        except RequestError as error:
            said.append(str(error))

    other = Thread(target=draw)
    other.start()
    other.join()
    assert len(said) == 1 and "each thread an Rng of its own" in said[0]


def test_a_forked_process_draws_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, fixed = Keystream(None), Keystream(bytes(16))
    for stream in (parent, fixed):
        stream.take(48)
    monkeypatch.setattr(keystream.os, "getpid", lambda: -1)
    for stream in (parent, fixed):
        stream.take(16)
    assert parent.position == 16  # a new stream
    assert fixed.position == 64


def test_the_keystream_is_aes_in_counter_mode() -> None:
    """AES-128 of the zero block under the zero key: FIPS 197 test value, any split of the reads."""
    stream = Keystream(bytes(16))
    assert bytes(stream.take(16)).hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    whole = bytes(Keystream(bytes(16)).take(1000))
    assert bytes(stream.take(5)) + bytes(stream.take(979)) == whole[16:]
    stream.seek(37)
    assert bytes(stream.take(40)) == whole[37:77]


@pytest.mark.parametrize(
    ("capability", "nonce"), [("AVX512", bytes(range(12)) + (2).to_bytes(4, "big")), ("AVX2", bytes(range(16)))]
)
def test_the_keystream_of_a_run_is_counter_mode_under_a_fresh_key(
    monkeypatch: pytest.MonkeyPatch, capability: str, nonce: bytes
) -> None:
    """GCM encrypts with counter mode from block 2 of its nonce (NIST SP 800-38D, section 7.1)."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(keystream.os, "urandom", lambda size: bytes(range(size)))
    found = bytes(Keystream(None).take(1000))
    counter = modes.CTR(nonce)
    assert found == Cipher(algorithms.AES(bytes(range(16))), counter).encryptor().update(bytes(1000))
    monkeypatch.undo()
    streams = [Keystream(None) for _ in range(2)]
    assert bytes(streams[0].take(64)) != bytes(streams[1].take(64))


def test_a_key_serves_so_many_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """GCM's counter has 32 bits: after 2^36 bytes it would come round."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    keys: list[int] = []
    monkeypatch.setattr(keystream.os, "urandom", lambda size: keys.append(size) or bytes([len(keys)] * size))
    monkeypatch.setattr(keystream, "_ONE_KEY", 100)
    stream = Keystream(None)
    pieces = [bytes(stream.take(48)) for _ in range(4)]
    assert sorted(keys) == [12, 12, 16, 16]
    assert len(set(pieces)) == 4


def test_a_secret_generator_is_filled_with_624_words() -> None:
    """`manual_seed` keeps 32 bits on the CPU; the whole state comes from the keystream. numpy's twister is the referee."""
    rng = Rng(noise_seed=13)
    generator = rng.secret_generator()
    words = generator.get_state().view(torch.int64)[3:627].numpy()
    assert len(set(words.tolist())) > 600 and words.min() >= 0 and words.max() < 2**32
    referee = np.random.RandomState()
    referee.set_state(("MT19937", words.astype(np.uint32), 624))
    expected = referee.randint(0, 2**32, 1300, dtype=np.uint32) % 60_000
    assert torch.randint(0, 60_000, (1300,), generator=generator).tolist() == expected.tolist()
    others = [rng.secret_generator(), Rng().secret_generator(), Rng().secret_generator()]
    assert len({torch.rand(1, generator=each).item() for each in others}) == 3


def test_a_secret_generator_holds_the_whole_keystream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one of its 624 words is a word of the keystream; a difference anywhere, also after 4 bytes, shows."""
    stream = np.random.default_rng(24).integers(0, 256, 4 * 624, dtype=np.uint8)
    monkeypatch.setattr(Keystream, "take", lambda self, size: stream[:size].copy())
    generator = Rng().secret_generator()
    assert generator.get_state().view(torch.int64)[3:627].tolist() == stream.view(np.uint32).tolist()
    first = torch.rand(700, generator=generator)
    for place in (4, 7, 8, 100, 4 * 624 - 1):
        stream[place] ^= 1
        other = torch.rand(700, generator=Rng().secret_generator())
        assert not torch.equal(first, other), place
        stream[place] ^= 1
    assert torch.equal(first, torch.rand(700, generator=Rng().secret_generator()))


def test_public_streams_follow_seed_and_name() -> None:
    def head(seed: int, name: str) -> list[float]:
        return torch.rand(4, generator=Rng(seed).public(name)).tolist()

    assert head(3, "init") == head(3, "init")
    assert head(3, "init") != head(3, "latents")
    assert head(3, "init") != head(4, "init")
    rng = Rng(3)
    assert rng.public("init") is rng.public("init")


def test_state_continues_public_streams_and_holds_nothing_secret() -> None:
    rng = Rng(5)
    torch.rand(7, generator=rng.public("latents"))
    normals(rng, 10)
    state = rng.state()
    assert set(state) == {"seed", "public"}
    assert set(state["public"]) == {"latents"}
    expected = torch.rand(3, generator=rng.public("latents"))
    resumed = Rng(5)
    resumed.restore(state)
    assert torch.equal(torch.rand(3, generator=resumed.public("latents")), expected)
    assert not torch.equal(normals(resumed, 10), normals(rng, 10))
    with pytest.raises(TypeError):
        pickle.dumps(rng)


@pytest.mark.usefixtures("either_keystream")
def test_state_of_a_test_run_continues_the_secret_streams() -> None:
    rng = Rng(5, noise_seed=14)
    normals(rng, 11)
    rng.poisson_sample(13, 0.5)
    rng.uniform(3)
    rng.secret_generator()
    resumed = Rng(5, noise_seed=14)
    resumed.restore(rng.state())
    assert torch.equal(normals(resumed, 11), normals(rng, 11))
    assert np.array_equal(resumed.poisson_sample(100, 0.5), rng.poisson_sample(100, 0.5))
    assert np.array_equal(resumed.uniform(4), rng.uniform(4))
    generators = [each.secret_generator() for each in (resumed, rng)]
    assert torch.equal(*(torch.rand(4, generator=each) for each in generators))


def test_a_state_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="seed 1, not to seed 2"):
        Rng(2).restore(Rng(1).state())
    with pytest.raises(ValueError, match="noise seed"):
        Rng(1).restore(Rng(1, noise_seed=0).state())
    with pytest.raises(ValueError, match="noise seed"):
        Rng(1, noise_seed=0).restore(Rng(1).state())


def test_ranks_draw_alike_by_a_key_and_apart_without() -> None:
    first, second, other = Rng(), Rng(), Rng()
    first.draw_alike(bytes(16))
    second.draw_alike(bytes(16))
    drawn = first.common_integers(100, 1000)
    assert np.array_equal(drawn, second.common_integers(100, 1000))
    assert not np.array_equal(drawn, other.common_integers(100, 1000))
    assert not np.array_equal(first.integers(100, 1000), second.integers(100, 1000))
    assert not torch.equal(normals(first, 100), normals(second, 100))


def test_buffers_are_forgotten_and_the_noise_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of many lengths: no more than so many buffers are kept, and those of a full pass always."""
    lengths = [2 * noise._PAIRS, 3, 5, 9, 3, 2 * noise._PAIRS, 17]
    many, few = Rng(noise_seed=1), Rng(noise_seed=1)
    expected = [many.add_gaussian_(torch.zeros(n), 1.0) for n in lengths]
    assert len(many._passes) == 5
    monkeypatch.setattr(noise, "_KEPT", 2)
    for n, before in zip(lengths, expected, strict=True):
        assert torch.equal(few.add_gaussian_(torch.zeros(n), 1.0), before)
        assert len(few._passes) <= 2
    assert (torch.device("cpu"), noise._PAIRS) in few._passes
