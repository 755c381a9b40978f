"""Where randomness comes from: secret noise and random choices, and the public streams that a seed fixes.

Three kinds of random numbers, never mixed:

- Secret: `add_gaussian_`, `poisson_sample`, and the choices inside queries (`uniform`, `integers`, `normals`,
  `common_integers`, `secret_generator`). The guarantee rests on them. They come from keystreams under keys of
  operating-system entropy (`keystream.py`).
- Public: `public(name)`, a seeded torch generator per name, for initialisation, latents and labels. No record can change
  the place of a public number in its stream.
- With a fixed `noise_seed` the secret numbers repeat. For tests only: the run is then reproducible, and not private.

**Precision of the noise.** The proofs assume real numbers. The last bits of a rounded sum can reveal what was added
(Mironov 2012). `test_noise.py` shows it: with float32 noise, it names the right one of two sums 59 times of
60. So:

- The sum is widened to float64, and the noise is drawn and added in float64. The result is rounded to the multiples of a
  grid: 2^-10 times the power of two at or below the standard deviation. The grid depends on nothing else. So rounding is
  post-processing, costs no privacy, and adds less than 10^-6 of the noise's variance. float32 holds the multiples up to
  2^22 grids, more than 2,000 standard deviations. Larger numbers are rounded to half a grid or more coarsely.
- Box and Muller (1958) make two normals of a radius and an angle. The radius is sqrt(-2 ln u), where u is uniform in (0, 1).
  A word of 63 bits gives u. Where u is below 2^-18, fifteen more words give 945 bits more. So u is right to one part in
  2^45 wherever it lies above 2^-955, which is a radius of 36. The angle is a word of 64 bits, rounded to float64. No radius
  is zero or infinite, and no sine or cosine of an angle is zero.

`docs/proofs.md`, "The precision of the noise", has the proof of what this may add to a guarantee:

- Up to a radius of 36, less than 10^-4 of epsilon in the longest run of all presets, except with probability 10^-12. No
  figure includes it.
- Beyond, a record that moves a pair of normals may be seen. This adds less than 2^-100 to delta for each query of at most
  2^32 numbers, at noise multipliers from 0.05. Every figure has it taken off delta (`accountants.NOISE_END`).

This is version 2 of the noise. The ledger of a run names the version, one for the whole run (`ledger.NOISE_VERSION`). A ledger
that names another is not read. The same section says what version 1 was.

**Precision of sampling.** `poisson_sample` samples each unit with probability exactly `rate` (the float64). No step rounds:

- Above 1/64, `rate` is a whole number of steps of 2^-64. A unit is sampled if its own 64-bit word lies below it.
- Up to 1/64, the population is cut into blocks of m = 1,024 units, the last of which is filled up. Sampling every unit by
  itself is the same as a count c ~ Binomial(m, rate) for each block, and then a uniform set of c of its units. `rate` is a
  whole number of steps of 2^-s, so P(c <= k) is a whole number of steps of 2^-sm, computed in integers. The count is the
  number of these probabilities that do not exceed a uniform number in [0, 1). Its first 64 bits decide. If they equal those
  of one of the probabilities (less than once in 2^57 blocks), more bits are drawn. The set is c positions of ten bits each.
  If a position comes twice in a block, all its positions are redrawn, so every set of c stays equally likely. Units
  that only fill the last block up are dropped, because they are independent of all others.

**What is assumed.** AES-128 in counter mode and ChaCha20 are indistinguishable from true random bits. So is the
Mersenne Twister of `secret_generator`, whose whole state comes from the keystream. Its numbers are seen only through
sums with noise. How sums are rounded before they come here is another matter (`rounding.py`).

The file has over 400 lines, because a reviewer of the noise needs the argument and the code together.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.privacy.random.answers import Answers
from gossamer.privacy.random.keystream import SPARE, WORDS, DeviceKeystream, Keystream

_PAIRS = 1 << 15  # pairs of normals per pass: its buffers fit the cache, and calls are few enough to cost little
_DEVICE_PAIRS = 1 << 21  # on another device, where a call costs more and nothing fits a cache
_KEPT = 16  # passes whose buffers are kept: a run with groups of parameters has one for each
_SMALLEST, _LARGEST = 1e-30, 1e30  # standard deviations: float32 holds their grids
_MOST_NUMBERS = 1 << 32  # of one query: `accountants.NOISE_END` holds for so many
_MASK = (1 << 63) - 1  # of a word of the radius: 63 bits, a whole number that is not negative
_UNIT = 2.0**-63 - 2.0**-116  # its unit. The last term keeps the largest u below 1
_FAR = 1 << 45  # words of the radius below it, once in 2^18, take more words
_MORE = (64, 15)  # rows for them in a pass (a GPU needs 8 on average, the processor 1/8), and words in a row
_STEP = math.pi * 2.0**-63  # a step of the angle
_COINS = 1 << 16  # words per pass of a draw unit by unit
_SPARSE = 1 / 64  # the largest rate at which units are drawn by blocks; above it a rate is exact in 64 bits
_UNITS = 1 << 10  # of a block
_TWISTER_WORDS = 624  # state words of the Mersenne Twister behind a torch CPU generator
_SECRET = ("noise", "coins", "query", "generator", "common")


class Rng:
    """All randomness of a run.

    Noise, sampling and the choices inside queries have keystreams of their own. So how many random numbers a data set needs
    cannot move the noise. One thread uses it: another is refused.

    Args:
        seed: fixes the public streams.
        noise_seed: fixes the secret draws too. For tests only: such a run is reproducible and not private.
        rank: whose secret numbers a noise seed fixes; those of ranks differ.
    """

    def __init__(self, seed: int = 0, *, noise_seed: int | None = None, rank: int = 0) -> None:
        self.seed = seed
        self.reproducible = noise_seed is not None
        whose = "" if rank == 0 else f" of rank {rank}"
        self._secret = {
            purpose: Keystream(_fixed_key(noise_seed, purpose if purpose == "common" else purpose + whose))
            for purpose in _SECRET
        }
        self._device_noise = DeviceKeystream(_fixed_key(noise_seed, "noise on a device" + whose, size=32))
        self._device_query = DeviceKeystream(_fixed_key(noise_seed, "query on a device" + whose, size=32))
        self._public: dict[str, torch.Generator] = {}
        self._passes: dict[tuple[torch.device, int], _Pass] = {}
        self.answers: Answers | None = None
        """Takes what leaves with noise; None: nobody does."""

    @torch.inference_mode()
    def add_gaussian_(self, out: Tensor, std: float) -> Tensor:
        """Add independent N(0, std^2) noise to every element, in place, and round the result to the grid of std.

        Args:
            out: float32 or float64 [n]. An element that is not finite stays so (`docs/proofs.md`, condition 5).
            std: standard deviation. Zero, for the non-private run, leaves `out` as it is.

        Raises:
            TypeError: another dtype; bfloat16 and float16 would round the noise away.
            ValueError: out is not flat or longer than 2^32, or std is neither zero nor between 1e-30 and 1e30.
        """
        if out.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"noise is added in float32 or float64, not in {out.dtype}: convert the sum first")
        if out.dim() != 1:
            raise ValueError(f"noise is added to a flat tensor, not to shape {tuple(out.shape)}: flatten it first")
        if not (std == 0 or _SMALLEST <= std <= _LARGEST):
            raise ValueError(
                f"the standard deviation of the noise must be zero, or between {_SMALLEST:g} and {_LARGEST:g}, not {std}"
            )
        if std == 0:
            return out
        if len(out) > _MOST_NUMBERS:
            raise ValueError(f"one query has at most 2^32 numbers, not {len(out):,}: the noise is proved for so many")
        self._add_normals_(out, std, self._device_noise)
        if self.answers is not None:
            self.answers.take(out, std, grid(std))
        return out

    def _add_normals_(self, out: Tensor, std: float, on_device: DeviceKeystream) -> None:
        """Add N(0, std^2) to [n], in place. on_device: where a device makes its own keystream, this one."""
        pairs = _DEVICE_PAIRS if _makes_its_own(out.device) else _PAIRS
        whole = len(out) - len(out) % (2 * pairs)
        for halves in out[:whole].unflatten(0, (-1, 2, pairs)).unbind() if whole else ():
            self._add_pairs_(halves, std, on_device)
        rest = out[whole:]
        if len(rest):
            even = rest if len(rest) % 2 == 0 else torch.cat([rest, rest.new_zeros(1)])
            self._add_pairs_(even.unflatten(0, (2, -1)), std, on_device)
            if even is not rest:
                rest.copy_(even[:-1])

    def poisson_sample(self, population: int, rate: float) -> np.ndarray:
        """Sample each of `population` units independently of all others, by secret random bits.

        Args:
            population: number of units.
            rate: the exact probability of each unit.

        Returns:
            int64, the sampled positions, rising.

        Raises:
            ValueError: a negative population, or a rate outside [0, 1].
        """
        if population < 0:
            raise ValueError(f"a population cannot be {population}")
        if not 0 <= rate <= 1:
            raise ValueError(f"a sampling rate is a probability between 0 and 1, not {rate}")
        if rate == 1:
            return np.arange(population, dtype=np.int64)
        if rate == 0:
            return np.empty(0, dtype=np.int64)
        return self._unit_by_unit(population, rate) if rate > _SPARSE else self._block_by_block(population, rate)

    def uniform(self, n: int) -> np.ndarray:
        """Secret numbers for a query: uniform on the multiples of 2^-53 in [0, 1). float64 [n]"""
        return (self._choosing._secret["query"].words(n) >> np.uint64(11)) * 2.0**-53

    def integers(self, n: int, high: int) -> np.ndarray:
        """Secret numbers for a query: uniform over 0 ... high - 1, without bias. int64 [n]

        Raises:
            ValueError: high is below 1 or above 2^63.
        """
        return _integers(self._choosing._secret["query"], n, high)

    @torch.inference_mode()
    def normals(self, n: int, device: torch.device | str) -> Tensor:
        """Secret standard normals for a query, made where they are wanted. float32 [n]

        On a GPU they are multiples of 2^-10, from a keystream of their own. On a CPU they come from `secret_generator`.
        """
        if not _makes_its_own(torch.device(device)):
            return torch.randn(n, generator=self.secret_generator())
        made = torch.zeros(n, device=device)
        self._add_normals_(made, 1.0, self._choosing._device_query)
        return made

    def common_integers(self, n: int, high: int) -> np.ndarray:
        """The same, secret and alike on all ranks. For a choice that all of them must know. int64 [n]"""
        return _integers(self._secret["common"], n, high)

    def draw_alike(self, key: bytes) -> None:
        """Take `common_integers` from this key from here on: 16 bytes of entropy that rank 0 has drawn and sent to all."""
        if not self.reproducible:
            self._secret["common"] = Keystream(key)

    def __repr__(self) -> str:
        return f"Rng({self.seed})"

    def secret_generator(self) -> torch.Generator:
        """A fresh CPU generator, for choices inside a query that torch must make. Use it and drop it, never store it.

        Its whole state comes from the keystream, because `manual_seed` keeps only the low 32 bits of a seed on the CPU.
        """
        generator = torch.Generator()
        generator.manual_seed(0)  # leaves the "state used up" mark, so that the first draw mixes the new state
        state = generator.get_state()
        words = self._choosing._secret["generator"].take(4 * _TWISTER_WORDS).view(np.uint32).astype(np.int64)
        state.view(torch.int64)[3 : 3 + _TWISTER_WORDS] = torch.from_numpy(words)
        return generator.set_state(state)

    @property
    def _choosing(self) -> "Rng":
        """The source of choices inside queries: this one, but in a rehearsal."""
        return _REHEARSED.get() or self

    def public(self, name: str) -> torch.Generator:
        """The public stream of that name, a CPU generator that `seed` and the name fix. Created once."""
        if name not in self._public:
            digest = hashlib.sha256(f"gossamer public {self.seed} {name}".encode()).digest()
            self._public[name] = torch.Generator()
            self._public[name].manual_seed(int.from_bytes(digest[:8], "little"))
        return self._public[name]

    def state(self) -> dict[str, Any]:
        """What a checkpoint may keep: the public streams, and the secret positions only where `noise_seed` is fixed."""
        state: dict[str, Any] = {
            "seed": self.seed,
            "public": {name: generator.get_state() for name, generator in self._public.items()},
        }
        if self.answers is not None:
            state["answers"] = {"parts": [*self.answers.parts], "left": self.answers.left}
        if self.reproducible:
            state["secret"] = {purpose: stream.position for purpose, stream in self._secret.items()}
            state["device noise"] = self._device_noise.position
            state["device query"] = self._device_query.position
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the public streams of `state()`; with a fixed `noise_seed` the secret ones too, else they are fresh.

        Raises:
            ValueError: the state is of another seed, or only one of the two runs has a fixed noise seed.
        """
        if state["seed"] != self.seed:
            raise ValueError(f"the random state belongs to seed {state['seed']}, not to seed {self.seed}")
        if ("secret" in state) != self.reproducible:
            raise ValueError("a run with a fixed noise seed and one without cannot continue one another")
        self.answers = Answers(**state["answers"]) if "answers" in state else None
        self._public = {}
        for name, saved in state["public"].items():
            self.public(name).set_state(saved)
        for purpose, position in state.get("secret", {}).items():
            self._secret[purpose].seek(position)
        self._device_noise.seek(state.get("device noise", 0))
        self._device_query.seek(state.get("device query", 0))

    def _unit_by_unit(self, population: int, rate: float) -> np.ndarray:
        """A Poisson draw by one word per unit."""
        below = np.uint64(int(rate * 2.0**64))  # exact: the last bit of a rate above 1/64 is no smaller than 2^-58
        drawn = [np.empty(0, dtype=np.int64)]
        for start in range(0, population, _COINS):
            coins = self._secret["coins"].words(min(_COINS, population - start))
            drawn.append(np.flatnonzero(coins < below).astype(np.int64) + start)
        return np.concatenate(drawn)

    def _block_by_block(self, population: int, rate: float) -> np.ndarray:
        """The same draw by one word per block, and ten bits per unit sampled. The cost follows the number of blocks."""
        counts = self._counts(-(-population // _UNITS), rate)
        blocks, drawn = np.repeat(np.arange(len(counts)), counts), [np.empty(0, dtype=np.int64)]
        while len(blocks):  # the block of each position that is still to be drawn
            coins = self._secret["coins"].take(2 * len(blocks)).view(np.uint16) & np.uint16(_UNITS - 1)
            positions = np.sort(blocks * _UNITS + coins)
            again = np.isin(positions // _UNITS, positions[1:][positions[1:] == positions[:-1]] // _UNITS)
            drawn.append(positions[~again])
            blocks = positions[again] // _UNITS
        units = np.sort(np.concatenate(drawn))
        return units[: np.searchsorted(units, population)]

    def _counts(self, blocks: int, rate: float) -> np.ndarray:
        """How many units of each block are drawn: independent, Binomial(_UNITS, rate). int64 [blocks]"""
        table = np.array(_thresholds(rate, 64), dtype=np.uint64)
        words = self._secret["coins"].words(blocks).copy()
        counts = np.searchsorted(table, words, side="right")
        for block in np.flatnonzero(table[counts - 1] == words):  # more bits decide; a count of 0 equals no threshold
            counts[block] = self._count(int(words[block]), rate)
        return counts

    def _count(self, word: int, rate: float) -> int:
        """The count of one block whose first word leaves it open: by as many more words as it takes."""
        bits, number = 64, word
        while True:
            bits, number = bits + 64, number << 64 | int(self._secret["coins"].words(1)[0])
            thresholds = _thresholds(rate, bits)
            count = bisect_right(thresholds, number)
            if number != thresholds[count - 1]:
                return count

    def _add_pairs_(self, halves: Tensor, std: float, on_device: DeviceKeystream) -> None:
        """Noise for [2, pairs] numbers, in place: cosines for the first half, sines for the second."""
        first, second = halves
        drawn = self._polar(len(first), halves.device, on_device)
        radius, angle, wide = drawn.radius, drawn.angle, drawn.wide
        # In float64, then rounded to the dtype of the sum, then to the grid.
        first.copy_(wide.copy_(first).addcmul_(radius, torch.cos(angle, out=drawn.cosine), value=std))
        second.copy_(wide.copy_(second).addcmul_(radius, angle.sin_(), value=std))
        round_to_grid_(halves, std)

    def _polar(self, pairs: int, device: torch.device, on_device: DeviceKeystream) -> "_Pass":
        """A pass with radius, and angle in (-pi, pi), of so many pairs; the next call overwrites it."""
        wanted = (device, pairs)
        if wanted not in self._passes:
            if len(self._passes) == _KEPT:
                self._passes = {key: value for key, value in self._passes.items() if key[1] in (_PAIRS, _DEVICE_PAIRS)}
            self._passes[wanted] = _Pass(pairs, device)
        drawn = self._passes[wanted]
        radius, angle = drawn.radius, drawn.angle
        if _makes_its_own(device):
            on_device.write(drawn.blocks)
        else:
            self._secret["noise"].write(drawn.room, 16 * pairs)
        radius.copy_(drawn.words.bitwise_and_(drawn.mask))
        if _makes_its_own(device):
            drawn.refine()  # in any case: to look first would be to wait for the device
        elif int(drawn.words.min()) < _FAR:
            self._secret["noise"].write(drawn.more_room, 8 * math.prod(_MORE))
            drawn.refine()
        else:
            torch.add(drawn.half_unit, radius, alpha=_UNIT, out=radius)
        radius.log_().mul_(drawn.minus_two)
        radius.mul_(torch.rsqrt(radius, out=drawn.wide))  # the root: twice as fast as sqrt, and as exact to one bit
        angle.copy_(drawn.turns)
        torch.add(drawn.half_step, angle, alpha=_STEP, out=angle)
        return drawn


@contextmanager
def rehearsal() -> Iterator[None]:
    """Inside, choices of queries are the same every time, for a query that is asked about made-up records. All else is as ever.

    Such an answer must not leave: its choices are known. Afterwards no stream has moved.
    """
    token = _REHEARSED.set(Rng(noise_seed=0))
    try:
        yield
    finally:
        _REHEARSED.reset(token)


def _integers(stream: Keystream, n: int, high: int) -> np.ndarray:
    """Uniform over 0 ... high - 1. int64 [n]"""
    if not 1 <= high <= 1 << 63:
        raise ValueError(f"high must be between 1 and 2^63, not {high}")
    largest = np.uint64((1 << 64) - (1 << 64) % high - 1)  # words above it would favour small numbers
    numbers = np.empty(0, dtype=np.int64)
    while len(numbers) < n:
        words = stream.words(n - len(numbers))
        accepted = words[words <= largest] % np.uint64(high)
        numbers = np.concatenate([numbers, accepted.astype(np.int64)])
    return numbers


_REHEARSED: ContextVar[Rng | None] = ContextVar("_REHEARSED", default=None)


class _Pass:
    """Buffers for so many pairs on one device: sixteen bytes of the keystream each, and float64 numbers.

    Made once and written over and over: a fresh view in each pass would cost as much as the logarithm.
    """

    def __init__(self, pairs: int, device: torch.device) -> None:
        more = math.prod(_MORE)
        if _makes_its_own(device):
            self.blocks = torch.empty(WORDS, -(-(4 * pairs + 2 * more) // WORDS), dtype=torch.int32, device=device)
            bits = self.blocks.flatten()
            self.more = bits[4 * pairs : 4 * pairs + 2 * more].view(torch.int64).unflatten(0, _MORE)
        else:
            stream, second = (np.empty(8 * words + SPARE, dtype=np.uint8) for words in (2 * pairs, more))
            self.room, self.more_room = stream.data, second.data
            bits = torch.from_numpy(stream[: 16 * pairs].view(np.int32))
            self.more = torch.from_numpy(second[: 8 * more].view(np.int64)).unflatten(0, _MORE)
        self.words, self.turns = bits[: 2 * pairs].view(torch.int64), bits[2 * pairs : 4 * pairs].view(torch.int64)
        self.radius, self.angle, self.cosine, self.wide = torch.empty(4, pairs, dtype=torch.float64, device=device)
        # Constants as tensors: an operation on two tensors costs one pass, and half the call of one with a Python number.
        self.mask = torch.tensor(_MASK, device=device)
        constants = torch.tensor([_UNIT / 2, -2.0, _STEP / 2], dtype=torch.float64, device=device)
        self.half_unit, self.minus_two, self.half_step = constants
        self.places = 2.0 ** (-63.0 * torch.arange(1, _MORE[1] + 1, dtype=torch.float64, device=device))

    def refine(self) -> None:
        """Make u of each word: the middle of its step, or, where the word is below `_FAR`, what more words say of the rest.

        The n-th such word takes the n-th row of `more`. Their number is never read, so nothing waits for a device.
        """
        far = self.words < _FAR
        number = far.cumsum(0).sub_(1).clamp_(0, len(self.more) - 1)
        rest = (self.more & self.mask).double().mul_(self.places).sum(1).add_(self.places[-1] / 2)
        self.radius.add_(torch.where(far, rest[number], 0.5)).mul_(_UNIT)


@lru_cache(maxsize=8)
def _thresholds(rate: float, bits: int) -> list[int]:
    """The first `bits` bits of P(count <= k), for k = 0, 1, ... up to the first that are all ones, as whole numbers.

    The count is that of the units drawn of a block, Binomial(_UNITS, rate). All is done in integers, and nothing but the bits
    beyond is lost. rate: above 0, at most _SPARSE.
    """
    drawn, all_ = rate.as_integer_ratio()  # all_ is 2^s
    shift = (all_.bit_length() - 1) * _UNITS
    weight = total = (all_ - drawn) ** _UNITS  # P(count = k) and P(count <= k), times 2^shift
    thresholds = [total << bits >> shift]
    for k in range(1, _UNITS):
        if thresholds[-1] == (1 << bits) - 1:
            break
        weight = weight * drawn * (_UNITS - k + 1) // ((all_ - drawn) * k)  # exact
        total += weight
        thresholds.append(total << bits >> shift)
    return thresholds


def _makes_its_own(device: torch.device) -> bool:
    """Whether a device makes the keystream of its noise itself; to the processor AES-128 comes from `cryptography`."""
    return device.type != "cpu"


def grid(std: float) -> float:
    """The spacing of what is released with noise of that standard deviation, above zero: std / 1024, or down to half of it."""
    return math.ldexp(1.0, math.frexp(std)[1] - 11)


def round_to_grid_(values: Tensor, std: float) -> Tensor:
    """Round to the nearest multiple of `grid(std)`, in place; halfway to the even one. float32 or float64, any shape.

    Next to 1.5 grids / machine epsilon the numbers of the dtype are one grid apart, so the addition rounds, and the
    subtraction is exact. From 2^22 grids (float64: 2^51) the rounding is that of the dtype at that size: half a grid, or more.
    """
    offset = 1.5 * grid(std) / torch.finfo(values.dtype).eps
    return values.add_(offset).sub_(offset)


def _fixed_key(noise_seed: int | None, purpose: str, size: int = 16) -> bytes | None:
    """The key that a test's noise seed fixes; None without one: the keystream then draws its own."""
    if noise_seed is None:
        return None
    return hashlib.sha256(f"gossamer noise {noise_seed} {purpose}".encode()).digest()[:size]
