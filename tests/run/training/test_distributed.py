"""Several ranks release what one process releases, pay for it once, and stop when they disagree."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from several import Several
from slowly import slow_among
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import ConfinedError, RanksDisagree, RequestError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.certificate.statements import NO_PUBLIC
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.banded import coefficients_for, gradient_sum
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.mechanisms.two_term import TermwiseGaussianSum
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.versions import versions
from gossamer.run.training import distributed
from gossamer.run.training.distributed import part_of

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=200)
NEAR = 1e-3
"""Adam takes steps of one length, so that a rounded sum near zero is an error of a step's share."""
N, STEPS = 203, 6  # of a size that no number of ranks divides
METHODS_ON_RANKS: dict[str, dict[str, Any]] = {
    "dpgan": {
        "noise_multiplier": 0.1, "steps": STEPS, "expected_batch_size": 21, "width": 4, "latent_size": 8,
        "discriminator_steps": 2, "warm_steps": 3, "warm_batch_size": 8, "average_decay": 0.5,
        "discriminator_learning_rate": 1e-2, "generator_learning_rate": 1e-2,
    },
    "dp-wgan": {
        "noise_multiplier": 0.1, "steps": STEPS, "expected_batch_size": 21, "width": 4, "latent_size": 8,
        "critic_steps": 2, "warm_steps": 3, "warm_batch_size": 8, "average_decay": 0.5, "physical_batch_size": 1,
        "grouping": "cluster", "groups": 3, "bounds": "private-quantile", "quantile_every": 2,
        "critic_learning_rate": 1e-2, "generator_learning_rate": 1e-2,
    },
    "privae": {
        "noise_multiplier": 0.01, "steps": STEPS, "expected_batch_size": 21, "network": "conv", "width": 4,
        "latent_size": 8, "partitions": 4, "divergence": "mmd", "physical_batch_size": 1, "warm_steps": 3,
        "warm_batch_size": 8, "average_decay": 0.5,
    },
    "dp-diffusion": {
        "noise_multiplier": 0.1, "steps": STEPS, "expected_batch_size": 21, "multiplicity": 2, "axes": 8, "width": 16,
        "depth": 1, "warm_steps": 3, "warm_batch_size": 8, "physical_batch_size": 1, "average_decay": 0.5,
        "start": {"method": "moments", "axes": 8}, "start_noise": 2.0, "start_records": 40,
    },
    "gs-wgan": {
        "noise_multiplier": 4.0, "steps": STEPS, "critics": 5, "answers": 2, "batch_size": 3, "critic_steps": 1,
        "critic_batch_size": 5, "width": 2, "latent_size": 8, "warm_steps": 2, "warm_stack": 3, "average_decay": 0.5,
        "generator": "dcgan", "public_steps": 3, "generator_learning_rate": 1e-2, "critic_learning_rate": 1e-2,
    },
    "dp-mepf": {
        "noise_multiplier": 0.1, "axes": 8, "pixel_axes": 8, "features_steps": 3, "features_batch_size": 8, "features_width": 2,
        "warm_steps": 3, "warm_batch_size": 8, "matching_steps": STEPS,
        "likeness_steps": 2, "batch_size": 8, "average_decay": 0.5, "width": 4,
        "latent_size": 8, "warm_learning_rate": 1e-2, "learning_rate": 1e-2, "candidates": 10, "votes_noise": 1.0,
    },
    "moments": {"noise_multiplier": 1.0, "axes": 8},
    "feature-moments": {"noise_multiplier": 1.0, "axes": 8, "encoder": ""},
    "evolve": {
        "noise_multiplier": 1.0, "steps": STEPS, "drawing": "letters", "embedding": "cosines", "candidates": 6,
        "variations": 2,
    },
    "teacher": {"noise_multiplier": 0.1, "steps": STEPS, "expected_batch_size": 21},
}  # fmt: skip


@pytest.fixture(scope="module")
def two() -> Iterator[Several]:
    with Several(2) as several:
        yield several


@pytest.fixture(scope="module")
def four() -> Iterator[Several]:
    with Several(4) as several:
        yield several


def stripes(n: int, seed: int = 0) -> Records:
    """Class 0 is bright on the left, class 1 on the right."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(2, size=n)
    images = draw.integers(0, 40, size=(n, 1, 28, 28))
    images[labels == 0, :, :, :14] += 200
    images[labels == 1, :, :, 14:] += 200
    return Records(images.astype(np.uint8), labels)


class Alike(Rng):
    """The same draws however many ranks share them: every coin belongs to a record, and each rank knows the coins of all.

    Args:
        ranks: this one's place.
        total: units on all ranks.
        groups_of: for how many ranks groups of units are made, rank by rank.
    """

    def __init__(self, ranks: Ranks, total: int, groups_of: int) -> None:
        super().__init__(0, noise_seed=1)
        self._ranks, self._total, self._of = ranks, total, groups_of
        self._drawn = np.empty(0, dtype=np.int64)
        self._release = self._calls = self._groups = 0

    def poisson_sample(self, population: int, rate: float) -> np.ndarray:
        self._drawn = super().poisson_sample(self._total, rate)
        self._release, self._calls = self._release + 1, 0
        own = self._ranks.shard(self._total)
        assert population == own.stop - own.start
        self._before = int((self._drawn < own.start).sum())
        self._own = self._drawn[(self._drawn >= own.start) & (self._drawn < own.stop)]
        return self._own - own.start

    def common_integers(self, n: int, high: int) -> np.ndarray:
        """The rank of each unit, by its place: as good as by coins, where nobody is taken out."""
        assert (n, high) == (self._total, self._ranks.count)
        return np.searchsorted([n * (r + 1) // high for r in range(high)], np.arange(n), side="right")

    def integers(self, n: int, high: int) -> np.ndarray:
        """The group of each drawn unit: every rank of `groups_of` has its own, in turns among its units."""
        rank = np.searchsorted([self._total * (r + 1) // self._of for r in range(self._of)], self._own, side="right")
        each = high * self._ranks.count // self._of
        self._groups = high
        return (rank * each + self._own % each) - self._ranks.number * high

    def secret_generator(self) -> torch.Generator:
        """One per drawn record, and after these one per group; before any draw (critics), one per call."""
        if self._choosing is not self:
            return super().secret_generator()  # of made-up records
        call, mine = self._calls, len(self._drawn) and len(self._own)
        self._calls += 1
        number = (
            self._before + call if call < mine else len(self._drawn) + self._ranks.number * self._groups + call - mine
        )
        return torch.Generator().manual_seed(self._release * 100_000 + number)


def flat(net: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten().double() for each in net.state_dict().values()])


def trained(ranks: Ranks, method: str, settings: dict[str, Any], groups_of: int) -> dict[str, Any]:
    """The whole training on this rank: released weights, events, and what was paid."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as ranks have: k-means and Adam's first steps make much of a last digit
    try:
        return _trained(ranks, method, settings, groups_of)
    finally:
        torch.set_num_threads(threads)


def _trained(ranks: Ranks, method: str, settings: dict[str, Any], groups_of: int) -> dict[str, Any]:
    records, public = stripes(N), stripes(30, seed=1)
    job = Job.of(METHODS[method], settings, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    rng = (
        Rng(0, noise_seed=1) if method == "gs-wgan" else Alike(ranks, N, groups_of)
    )  # critics have coins for all on each rank
    training = job.begin(rng, ranks=ranks)
    before = {name: value.clone() for name, value in training.state.released.state_dict().items()}
    shown = [
        (each.phase.name, each.step, {name: float(value) for name, value in each.logs.items()})
        for each in training.drive(
            Confined(part_of(records, job, ranks, rng), ledger, rng, ranks), public if job.takes_public else None
        )
        if each.logs is not None
    ]
    after = training.state.released.state_dict()
    return {
        "weights": flat(training.state.released),
        "moved": max(float((after[name].double() - value.double()).abs().max()) for name, value in before.items()),
        "shown": shown,
        "used": ledger.used,
        "unused": ledger.unused,
    }


@pytest.mark.parametrize(
    ("count", "method"),
    slow_among(
        itertools.product((2, 4), METHODS_ON_RANKS),
        [(2, "dp-wgan"), (2, "dp-mepf"), (2, "evolve"), *((4, name) for name in METHODS_ON_RANKS)],
    ),
)
def test_ranks_release_what_one_process_releases(count: int, method: str, request: pytest.FixtureRequest) -> None:
    """Sampling, coins and noise are the same; sums are rounded in another order."""
    several: Several = request.getfixturevalue({2: "two", 4: "four"}[count])
    settings = METHODS_ON_RANKS[method]
    alone = trained(ALONE, method, settings, count)
    assert alone["moved"] > 10 * NEAR, "training moves them farther than that"
    found = several.all(trained, method, settings, count)
    for each in found:
        assert each["used"] == alone["used"] and not any(each["unused"])
        assert [name for *name, _ in each["shown"]] == [name for *name, _ in alone["shown"]]
        torch.testing.assert_close(each["weights"], alone["weights"], rtol=NEAR, atol=NEAR)
    for each in found[1:]:
        assert torch.equal(each["weights"], found[0]["weights"]), "ranks never drift apart"


# -------------------------------------------------------------------- one release


class Pull:
    """Every record pulls along its own direction, farther than the bound."""

    dimension = N

    def clipped_sum(self, records: Records, bounds: Bounds) -> Tensor:
        total = torch.zeros(N)
        total[torch.from_numpy(records.labels)] = min(1e6, bounds.norms[0])
        return total


class Fails(Pull):
    """The query of rank 1 fails, with a record in its message."""

    def __init__(self, ranks: Ranks) -> None:
        self.fails = ranks.number == 1

    def clipped_sum(self, records: Records, bounds: Bounds) -> Tensor:
        if self.fails:
            raise ValueError(f"the record is {records.labels}")
        return super().clipped_sum(records, bounds)


def numbered(n: int = N) -> Records:
    """Record i has the label i."""
    return Records(np.zeros((n, 1, 1, 1), np.uint8), np.arange(n))


def released(
    ranks: Ranks, records: Records, noise: float = 0.0, rate: float = 1.0, count: int = 1
) -> tuple[Tensor, list[int]]:
    """Some releases, [count, N], and what is left of the plan."""
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(poisson_gaussian(sampling_rate=rate, noise_multiplier=noise), count)])
    mechanism = PoissonGaussianSum(sampling_rate=rate, max_norm=2.0, noise_multiplier=noise)
    mine = records[ranks.shard(len(records))]
    private = Confined(mine, ledger, Rng(), ranks)
    return torch.stack([private.release(mechanism, Pull()) for _ in range(count)]), ledger.unused


def test_a_record_moves_the_sum_of_all_ranks_by_its_bound(four: Several) -> None:
    """With one record less, at the head, at the borders of the parts and at the end."""
    whole, left = four.all(released, numbered())[0]
    assert left == [0]
    assert torch.equal(whole, torch.full((1, N), 2.0)), "each record is on one rank"
    for without in (0, 50, 51, 101, 152, N - 1):
        kept = np.delete(np.arange(N), without)
        answers = [answer for answer, _ in four.all(released, numbered()[kept])]
        assert float((whole - answers[0]).norm()) == 2.0, "max_norm"
        assert all(torch.equal(answer, answers[0]) for answer in answers)


def test_noise_is_added_once(four: Several) -> None:
    """Its variance is that of one process: 40 x 203 normals; three tests, each wrong once in 10^4."""
    answers, _ = four.all(released, numbered(), 1.5, 1.0, 40)[0]
    assert len(answers.unique(dim=0)) == 40
    x = answers.double().flatten() / 2.0 - 1.0
    n = x.numel()
    assert abs(float(x.var()) / 1.5**2 - 1) < 3.9 * math.sqrt(2 / n)
    assert abs(float(x.mean())) < 3.9 * 1.5 / math.sqrt(n)


def in_cycles(ranks: Ranks) -> Tensor:
    """Two cycles of banded noise over 4 steps; a group is sampled as a whole. [8, N]"""
    mechanism = gradient_sum(sampling_rate=0.25, max_norm=2.0, noise_multiplier=1e-3, steps=8, bands=4)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(mechanism.event, 2)])
    private = Confined(numbered()[ranks.shard(N)], ledger, Rng(), ranks)
    return torch.stack(list(private.answers(mechanism, Pull())))


def test_ranks_go_through_cycles_of_banded_noise_together(two: Several) -> None:
    """Each record has one group, on whatever rank. Rank 0 has the past noise: C n is white, by 1,624 squares; wrong in 1e-4."""
    first, second = two.all(in_cycles)
    assert torch.equal(first, second)
    taken = (first / 2.0).round()
    assert torch.equal(taken[:4], taken[4:])
    assert torch.equal(taken[:4].sum(0), torch.ones(N))
    noise, c = (first - 2.0 * taken).double() / 2e-3, coefficients_for(4, 8)
    white = torch.stack([sum((c[k] * noise[t - k] for k in range(4) if k <= t), torch.zeros(N)) for t in range(8)])
    assert abs(float(white.square().mean()) - 1) < 3.9 * math.sqrt(2 / white.numel())
    assert float(noise[1:].square().mean()) > 1.5


def large_and_small(ranks: Ranks) -> Tensor:
    """2^24 on one rank and 1 on the other: in single precision their sum is 2^24. What stands for the noise takes that off."""
    part = torch.tensor([2.0**24 if ranks.first else 1.0])
    return ranks.release(lambda: part, lambda total: total - 2.0**24, lambda: "the same")


def test_parts_are_added_up_in_double_precision(two: Several) -> None:
    assert [each.tolist() for each in two.all(large_and_small)] == [[1.0], [1.0]]


def test_each_rank_tosses_coins_of_its_own(two: Several) -> None:
    """At rate 1/2, without noise: 100 draws of 203 records. The halves are drawn independently: no two alike."""
    x = two.all(released, numbered(), 0.0, 0.5, 100)[0][0] / 2.0
    share = float(x.mean())
    assert abs(share - 0.5) < 3.9 * 0.5 / math.sqrt(x.numel())
    first, second = x[:, :101], x[:, 101:202]
    assert float((first == second).float().mean()) < 0.6


def disagreeing(ranks: Ranks, what: str) -> Tensor:
    """A release of which rank 1 believes something else."""
    other = ranks.number == 1
    rate, noise = (0.4, 1.0) if other and what == "rate" else (0.5, 1.0)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(
        [(poisson_gaussian(sampling_rate=rate, noise_multiplier=noise), 4 if other and what == "left" else 3)]
    )
    mechanism = PoissonGaussianSum(
        sampling_rate=rate, max_norm=3.0 if other and what == "bound" else 2.0, noise_multiplier=noise
    )
    query = Fails(ranks) if what == "fails" else Pull()
    return Confined(numbered(), ledger, Rng(), ranks).release(mechanism, query)


@pytest.mark.parametrize("what", ["rate", "left", "bound", "fails"])
def test_ranks_that_disagree_release_nothing(two: Several, what: str) -> None:
    first, second = two.run(disagreeing, what)
    assert isinstance(first, RanksDisagree)
    assert ("could not go on" if what == "fails" else "disagree about the release") in str(first)
    assert isinstance(second, ConfinedError if what == "fails" else RanksDisagree)
    assert "the record is" not in str(second)


def alone_among_two(ranks: Ranks) -> str:
    """Rank 1 is gone."""
    if ranks.number == 1:
        return "gone"
    try:
        released(ranks, numbered())
    except RanksDisagree as error:
        return str(error)
    return "released"


def test_a_rank_that_is_gone_is_told_of_without_hosts_and_ports(two: Several) -> None:
    said, _ = two.all(alone_among_two)
    assert said.startswith("another rank is gone (")
    assert "127.0.0.1" not in said and "gossamer.resume" in said


def briefed(ranks: Ranks, data: str, change: dict[str, Any]) -> str:
    """Rank 1 is told to begin, by a rank 0 that knows something else."""
    sources = DataSources.of(data)
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=160)
    facts = sources.read_unconfined(card).facts
    told = {
        "job": ("dpgan", {"noise_multiplier": 1.0}, card), "seed": 0, "device": "cpu", "sources": sources,
        "private": Path(data), "records": (facts.identity.fingerprint, facts.public), "saved": None, "versions": versions(),
        "ledger": (1.0, 1e-5, ADD_OR_REMOVE_ONE, [], []),
    }  # fmt: skip
    if ranks.first:
        ranks.broadcast(distributed.RunSetup(**{**told, **change}))
    try:
        if not ranks.first:
            distributed.follow(ranks, None)
        elif "versions" not in change:
            distributed.check_devices("cpu", {}, ranks)
    except (RanksDisagree, RequestError) as error:
        return str(error)
    return "begun"


def with_a_bad_device(ranks: Ranks, data: str) -> str:
    """Rank 1 has a GPU that fails its checks, and reads no record."""

    def failing(device: str, settings: object) -> str:
        raise RequestError(f"{device} does not compute as the guarantee needs")

    def read(*given: object) -> None:
        raise AssertionError("records were read")

    with pytest.MonkeyPatch.context() as patch:
        if not ranks.first:
            patch.setattr(distributed, "check_device", failing)
            patch.setattr(DataSources, "read", read)
        return briefed(ranks, data, {})


def test_a_rank_with_other_records_or_versions_does_not_begin(two: Several, data: Path) -> None:
    assert (
        "other records here than rank 0 has found" in two.all(briefed, str(data), {"records": ("0" * 64, NO_PUBLIC)})[1]
    )
    assert "other versions than rank 0" in two.all(briefed, str(data), {"versions": {"gossamer": "0.0.1"}})[1]


def test_where_the_device_of_one_rank_fails_none_begins(two: Several, data: Path) -> None:
    first, second = two.all(with_a_bad_device, str(data))
    assert "rank 1 could not go on, and says why. Nothing has left" in first
    assert second == "cpu does not compute as the guarantee needs"


def test_parts_are_whole_units() -> None:
    """Units of 1 to 3 records, on three ranks: each unit is on one, all records are on some."""
    units = np.repeat(np.arange(40), np.arange(40) % 3 + 1)
    records = dataclasses.replace(numbered(len(units)), units=np.random.default_rng(0).permutation(units))
    job = Job.of(METHODS["dpgan"], {"noise_multiplier": 1.0}, CARD)
    parts = [part_of(records, job, Ranks(r, 3), Rng(noise_seed=0)) for r in range(3)]
    assert sorted(np.concatenate([part.labels for part in parts])) == list(range(len(units)))
    assert sum(part.population for part in parts) == 40
    owners = [set(records.units[part.labels]) for part in parts if records.units is not None]
    assert not owners[0] & owners[1] and not owners[1] & owners[2] and not owners[0] & owners[2]


class Dealt(Rng):
    """Units have these ranks."""

    def __init__(self, coins: np.ndarray) -> None:
        super().__init__(noise_seed=0)
        self._coins = coins

    def common_integers(self, n: int, high: int) -> np.ndarray:
        assert len(self._coins) == n and self._coins.max() < high
        return self._coins


class Odd:
    """A group's gradient that looks at who else is there: record 7, or 4 with 0, turn it round."""

    dimension = 1

    def clipped_sum(self, records: Records, bounds: Bounds) -> Tensor:
        return torch.zeros(1)

    def group_gradient(self, records: Records) -> Tensor:
        there = set(records.labels.tolist())
        return torch.tensor([100.0 if 7 in there or there >= {0, 4} else -100.0])


def batch_wise(records: Records, coins: np.ndarray) -> tuple[list[set[int]], float]:
    """Who is on which of two ranks, and the batch-wise sum of both, one group on each."""
    job = Job.of(METHODS["privae"], {"noise_multiplier": 1.0, "divergence": "mmd"}, CARD)
    mechanism = TermwiseGaussianSum(
        sampling_rate=1.0, noise_multiplier=1.0, max_norm=1.0, max_norm_batch=1.0, partitions=1
    )  # fmt: skip
    parts = [part_of(records, job, Ranks(r, 2), Dealt(coins)) for r in range(2)]
    total = sum(float(mechanism.exact(part, Odd(), Rng())[1]) for part in parts)
    return [set(part.labels.tolist()) for part in parts], total


def test_a_unit_that_is_gone_leaves_the_groups_of_all_others_as_they_were() -> None:
    """Where a release is more than a sum over units: by place, 4 would change ranks for 7, and both groups turn."""
    records, coins = numbered(10), np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    with_7, before = batch_wise(records, coins)
    without_7, after = batch_wise(records[np.delete(np.arange(10), 7)], np.delete(coins, 7))
    assert [part - {7} for part in with_7] == without_7
    assert abs(before - after) == pytest.approx(2, abs=1e-4)  # 2 max_norm_batch, which is what the noise is made for
    by_place = records[np.delete(np.arange(10), 7)], np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    assert abs(before - batch_wise(*by_place)[1]) == pytest.approx(4, abs=1e-4)


def test_units_are_dealt_to_ranks_by_even_coins_alike_on_all() -> None:
    """4,000 units on four ranks: sizes and mean places within 5 standard deviations of even ones. Error rate 1e-5."""
    job, key = Job.of(METHODS["privae"], {"noise_multiplier": 1.0, "divergence": "mmd"}, CARD), b"k" * 16

    def drawn() -> Rng:
        rng = Rng()
        rng.draw_alike(key)
        return rng

    parts = [part_of(numbered(4_000), job, Ranks(r, 4), drawn()).labels for r in range(4)]
    assert sorted(np.concatenate(parts)) == list(range(4_000))
    for part in parts:
        assert abs(len(part) - 1_000) < 5 * (4_000 * 3 / 16) ** 0.5
        assert abs(part.mean() - 2_000) < 5 * 4_000 / 12**0.5 / len(part) ** 0.5


def test_methods_that_say_so_add_units_up() -> None:
    """Whoever adds a method has to say it, and to look at its releases before."""
    sums = {name for name, method in METHODS.items() if method.ranks_take == "units by place"}
    assert sums == {"dpgan", "dp-wgan", "dp-diffusion", "teacher", "moments", "feature-moments", "evolve", "dp-mepf"}


def test_settings_that_ranks_cannot_share_are_refused() -> None:
    def begin(method: str, count: int, **settings: Any) -> None:
        Job.of(METHODS[method], {"noise_multiplier": 1.0, **settings}, CARD).begin(Rng(), ranks=Ranks(0, count))

    with pytest.raises(RequestError, match="`partitions=4` cannot be shared out among 3 ranks"):
        begin("privae", 3, partitions=4, divergence="mmd")
    with pytest.raises(RequestError, match="one process"):
        begin("privae", 2, aggregation="batch", divergence="mmd")
    with pytest.raises(RequestError, match="`critics=2` cannot be shared out among 3"):
        begin("gs-wgan", 3, critics=2)
    with pytest.raises(RequestError, match=r"gs-wgan takes no start on several ranks: .* count 2 times"):
        begin("gs-wgan", 2, critics=2, draw="round_robin", start="moments")
    begin("gs-wgan", 1, critics=2, draw="round_robin", start="moments")
    with pytest.raises(RequestError, match="privgan trains in one process"):
        Job.of(METHODS["privgan"], {}, CARD).begin(Rng(), ranks=Ranks(0, 2))
