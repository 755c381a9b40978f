"""Secret noise and coins, two-sided. Every statistical test rejects a correct generator with probability 1e-6 or less."""

import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from gossamer.privacy import noise
from gossamer.privacy.noise import Rng

ERROR_RATE = 1e-6
Z = stats.norm.isf(ERROR_RATE / 2)  # 4.89: two-sided bound on a standard normal statistic


def binomial_faults(counts: np.ndarray, trials: int, probability: float) -> bool:
    """Whether any count leaves the two-sided bounds that hold for all of them together."""
    share = ERROR_RATE / counts.size / 2
    low, high = stats.binom.ppf(share, trials, probability), stats.binom.isf(share, trials, probability)
    return bool(((counts < low) | (counts > high)).any())


def test_moments_and_tails() -> None:
    rng, n = Rng(noise_seed=1), 20_000_000
    totals = np.zeros(4)
    tails = dict.fromkeys((3, 4, 5, 6), 0)
    for _ in range(20):
        drawn = rng.gaussian(n // 20).double()
        square = drawn * drawn
        totals += [float(x.sum()) for x in (drawn, square, square * drawn, square * square)]
        for bound in tails:
            tails[bound] += int((drawn.abs() > bound).sum())
    mean, second, third, fourth = totals / n
    assert abs(mean) < Z / math.sqrt(n)
    assert abs(second - 1) < Z * math.sqrt(2 / n)
    assert abs(third) < Z * math.sqrt(15 / n)
    assert abs(fourth - 3) < Z * math.sqrt(96 / n)
    for bound, count in tails.items():
        assert not binomial_faults(np.array([count]), n, 2 * stats.norm.sf(bound)), f"{count} beyond {bound}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kolmogorov_smirnov(dtype: torch.dtype) -> None:
    drawn = Rng(noise_seed=2).gaussian(1_000_000, dtype=dtype)
    assert drawn.dtype == dtype
    assert stats.kstest(drawn.numpy(), stats.norm.cdf).pvalue > ERROR_RATE


def test_the_two_halves_of_a_pair_are_independent() -> None:
    pairs = noise._PAIRS
    drawn = Rng(noise_seed=3).gaussian(2 * pairs, dtype=torch.float64).numpy()
    x, y = drawn[:pairs], drawn[pairs:]
    for a, b in [(x, y), (x**2, y**2), (x, y**2), (x[1:], x[:-1]), (x[1:], y[:-1])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < Z / math.sqrt(len(a))
    angle = np.arctan2(y, x) / (2 * np.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > ERROR_RATE
    assert stats.kstest((x**2 + y**2) / 2, "expon").pvalue > ERROR_RATE


@pytest.mark.parametrize(
    ("words", "radius"),
    [(0, 0.0), (2**52 - 1, math.sqrt(2 * 52 * math.log(2))), (2**51, math.sqrt(2 * math.log(2)))],
)
def test_the_radius_takes_52_bits_and_is_always_finite(
    monkeypatch: pytest.MonkeyPatch, words: int, radius: float
) -> None:
    """All-zero bits are u = 1, all-one bits u = 2^-52 (8.49 standard deviations); the top 12 bits are not looked at.

    The angle runs over half a turn either way: cosine first, then sine."""
    for turn, expected in [(0, [radius, 0.0]), (2**30, [0.0, radius]), (-(2**30), [0.0, -radius])]:
        bits = np.array([words | 0xABC << 52], np.uint64), np.array([turn], np.int32)
        stream = np.concatenate([part.view(np.uint8) for part in bits])
        monkeypatch.setattr(noise._Keystream, "take", lambda self, size, stream=stream: stream.copy())
        assert Rng().gaussian(2, dtype=torch.float64).tolist() == pytest.approx(expected, abs=1e-12)


def test_add_gaussian_adds_in_place_and_scales() -> None:
    unit = Rng(noise_seed=4).gaussian(100_001)
    out = torch.full((100_001,), 7.0)
    assert Rng(noise_seed=4).add_gaussian_(out, 0.25) is out
    torch.testing.assert_close(out, 7 + 0.25 * unit)
    assert torch.equal(Rng(noise_seed=4).add_gaussian_(torch.ones(5), 0.0), torch.ones(5))
    assert len(Rng().gaussian(0)) == 0


@pytest.mark.parametrize("n", [1, 2, 3, 2 * noise._PAIRS, 2 * noise._PAIRS + 1])
def test_no_element_is_left_without_noise(n: int) -> None:
    assert (Rng(noise_seed=5).gaussian(n) != 0).all()


@pytest.mark.parametrize("std", [-1.0, math.inf, math.nan])
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


def test_a_coin_is_compared_with_all_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = int(0.3 * 2.0**64)
    coins = np.array([edge - 1, edge, 0, 2**64 - 1], np.uint64)
    monkeypatch.setattr(noise._Keystream, "words", lambda self, count: coins[:count])
    assert Rng().poisson_sample(4, 0.3).tolist() == [0, 2]


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


def test_noise_does_not_move_with_coins() -> None:
    quiet, busy = Rng(noise_seed=9), Rng(noise_seed=9)
    busy.poisson_sample(12_345, 0.3)
    busy.uniform(17)
    busy.integers(5, 10)
    busy.secret_generator()
    torch.rand(10, generator=busy.public("latents"))
    assert torch.equal(quiet.gaussian(1001), busy.gaussian(1001))
    assert np.array_equal(Rng(noise_seed=9).poisson_sample(500, 0.5), quiet.poisson_sample(500, 0.5))


def test_streams_differ_from_one_another() -> None:
    rng = Rng(noise_seed=10)
    heads = {bytes(stream.take(16)) for stream in rng._secret.values()}
    assert len(heads) == 4


def test_real_generators_never_repeat_and_test_generators_do() -> None:
    assert not Rng().reproducible and Rng(noise_seed=0).reproducible
    assert not torch.equal(Rng(seed=1).gaussian(100), Rng(seed=1).gaussian(100))
    assert not np.array_equal(Rng(seed=1).poisson_sample(1000, 0.5), Rng(seed=1).poisson_sample(1000, 0.5))
    assert torch.equal(Rng(noise_seed=11).gaussian(100), Rng(seed=5, noise_seed=11).gaussian(100))
    assert not torch.equal(Rng(noise_seed=11).gaussian(100), Rng(noise_seed=12).gaussian(100))


def test_a_forked_process_draws_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, fixed = noise._Keystream(None), noise._Keystream(bytes(16))
    for stream in (parent, fixed):
        stream.take(48)
    monkeypatch.setattr(noise.os, "getpid", lambda: -1)
    for stream in (parent, fixed):
        stream.take(16)
    assert parent.position == 16  # a new stream
    assert fixed.position == 64


def test_the_keystream_is_aes_in_counter_mode() -> None:
    """AES-128 of the zero block under the zero key: FIPS 197 test value, any split of the reads."""
    stream = noise._Keystream(bytes(16))
    assert bytes(stream.take(16)).hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    whole = bytes(noise._Keystream(bytes(16)).take(1000))
    assert bytes(stream.take(5)) + bytes(stream.take(979)) == whole[16:]
    stream.seek(37)
    assert bytes(stream.take(40)) == whole[37:77]


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
    rng.gaussian(10)
    state = rng.state()
    assert set(state) == {"seed", "public"}
    assert set(state["public"]) == {"latents"}
    expected = torch.rand(3, generator=rng.public("latents"))
    resumed = Rng(5)
    resumed.restore(state)
    assert torch.equal(torch.rand(3, generator=resumed.public("latents")), expected)
    assert not torch.equal(resumed.gaussian(10), rng.gaussian(10))
    with pytest.raises(TypeError):
        pickle.dumps(rng)


def test_state_of_a_test_run_continues_the_secret_streams() -> None:
    rng = Rng(5, noise_seed=14)
    rng.gaussian(11)
    rng.poisson_sample(13, 0.5)
    rng.uniform(3)
    rng.secret_generator()
    resumed = Rng(5, noise_seed=14)
    resumed.restore(rng.state())
    assert torch.equal(resumed.gaussian(11), rng.gaussian(11))
    assert np.array_equal(resumed.poisson_sample(100, 0.5), rng.poisson_sample(100, 0.5))
    assert np.array_equal(resumed.uniform(4), rng.uniform(4))
    twins = [each.secret_generator() for each in (resumed, rng)]
    assert torch.equal(*(torch.rand(4, generator=each) for each in twins))


def test_a_state_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="seed 1, not to seed 2"):
        Rng(2).restore(Rng(1).state())
    with pytest.raises(ValueError, match="noise seed"):
        Rng(1).restore(Rng(1, noise_seed=0).state())
    with pytest.raises(ValueError, match="noise seed"):
        Rng(1, noise_seed=0).restore(Rng(1).state())
