"""What is particular to dp-wgan: its bounds, its plan, its pairs, what it refuses."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods.contract import Run
from gossamer.methods.dp_wgan import Config, DpWgan
from gossamer.methods.dp_wgan.loop import (
    PENALTY,
    State,
    generator_step,
    joined,
    pairs_for,
    public_norms,
    warm_start,
)
from gossamer.methods.dp_wgan.nets import Critic
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points, penalised_losses
from gossamer.privacy.random.noise import Rng

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=400)
TINY: dict[str, Any] = {"noise_multiplier": 1.0, "steps": 6, "expected_batch_size": 20, "width": 4, "latent_size": 8}


def plan(config: Config, card: DataCard) -> Any:
    return Job(DpWgan(), config, card).plan


def records(n: int, seed: int = 0) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8), draw.integers(10, size=n))


def trained(
    config: Config,
    *,
    card: DataCard = CARD,
    held: Records | None = None,
    public: Records | None = None,
    rng: Rng | None = None,
) -> tuple[State, PrivacyLedger]:
    """The state at the end of a run, and its ledger."""
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(plan(config, card))
    training = Job.of(DpWgan(), dataclasses.asdict(config), card).begin(rng or Rng(0))
    for _ in training.drive(Confined(records(40) if held is None else held, ledger, training.run.rng), public):
        pass
    return training.state, ledger


def fresh(config: Config, *, card: DataCard = CARD, rng: Rng | None = None) -> tuple[Run[Config], State]:
    """A run at its start."""
    run = Run(config, card, rng or Rng(0))
    return run, DpWgan().start(run)


def test_the_joint_multiplier_is_charged_once_whatever_the_groups() -> None:
    one, five = Config(**TINY), Config(**TINY, grouping="cluster", groups=5, bounds="public")
    assert plan(one, CARD) == plan(five, CARD)
    event, count = plan(one, CARD)[0]
    assert (event.event.noise_multiplier, event.sampling_probability, count) == (1.0, 20 / 400, 6)


def test_private_quantiles_are_charged() -> None:
    config = Config(**TINY, bounds="private-quantile", quantile_every=4, quantile_noise_multiplier=7.0)
    (_, steps), (question, count) = plan(config, CARD)
    assert (steps, count, question.event.noise_multiplier) == (6, 2, 7.0)
    _, ledger = trained(config)
    assert ledger.used == [6, 2]


def test_private_quantiles_find_the_median_norm() -> None:
    """Hardly any noise, everybody drawn: the bound ends near the median of the norms that the critic then has."""
    config = Config(**{**TINY, "steps": 40}, bounds="private-quantile", quantile_every=1, quantile_noise_multiplier=1e-3,
                    max_norm=10.0)  # fmt: skip
    config = dataclasses.replace(config, expected_batch_size=40, critic_learning_rate=1e-7)
    card = dataclasses.replace(CARD, declared_size=40)
    held = records(40)
    state, _ = trained(config, card=card, held=held)
    query = PenaltyGradient(state.D.net, pairs_for(state.G.net, Rng().secret_generator))
    below = np.mean([float((query.norms(held, state.groups) <= state.norms[0]).float().mean()) for _ in range(9)])
    assert 0.3 < below < 0.7


def test_public_bounds_are_the_mean_norms_of_public_records() -> None:
    config = Config(**TINY, grouping="cluster", groups=7, bounds="public", warm_batch_size=30)
    run, state = fresh(config)
    public = records(25, seed=3)
    found = public_norms(run, state, public)
    stream = Rng(0).public("bounds")
    batch = public[torch.randint(25, (25,), generator=stream).numpy()]
    points = pairs_for(state.G.net, lambda: stream)(batch)
    rows = []
    for i in range(25):
        loss = penalised_losses(state.D.net, points[i : i + 1]).sum()
        rows.append([float(g.norm()) for g in torch.autograd.grad(loss, list(state.D.net.parameters()))])
    assert found == pytest.approx(np.mean(rows, 0).tolist(), rel=1e-4)


def test_bounds_change_with_the_critic_and_never_reach_zero() -> None:
    config = Config(**TINY, grouping="cluster", groups=2, bounds="public", warm_steps=2)
    state, _ = trained(config, public=records(30, seed=1))
    assert all(norm > 0 for norm in state.norms)
    assert state.norms != fresh(config)[1].norms
    assert len(joined(config, state).norms) == 2


def test_the_non_private_run_is_not_clipped() -> None:
    config = Config(**{**TINY, "noise_multiplier": 0.0}, grouping="weight-bias")
    _, state = fresh(config)
    assert all(math.isinf(norm) for norm in joined(config, state).norms)


def test_a_record_is_paired_with_coins_of_its_own_whatever_the_others() -> None:
    """The fake of a record carries its label, and no two calls use the same coins."""
    _, state = fresh(Config(**TINY))
    points = pairs_for(state.G.net, Rng().secret_generator)
    held = records(12)
    first, second = points(held), points(held)
    assert first.labels is not None
    assert first.labels.tolist() == held.labels.tolist()
    assert not torch.equal(first.fake, second.fake)
    assert float(first.real.min()) >= -1
    assert float(first.real.max()) <= 1
    weight = ((first.between - first.fake) / (first.real - first.fake)).flatten(1).nanmedian(1).values
    assert bool(((weight >= -1e-4) & (weight <= 1 + 1e-4)).all())
    assert len(set(weight.mul(1e4).int().tolist())) > 6


def test_measured_sensitivity_of_the_joint_release_with_one_huge_record() -> None:
    """In units of its noise, one record moves the joint release by at most 1, and a huge one by exactly that."""
    config = Config(**TINY, grouping="weight-bias", max_norm=1e-3)
    _, state = fresh(config)
    held = records(9)
    with_it = Records(
        np.insert(held.images, 0, np.random.default_rng(9).integers(0, 256, (1, 28, 28)), axis=0),
        np.insert(held.labels, 0, 3),
    )
    bounds = joined(config, state)
    mechanism = GroupedGaussianSum(sampling_rate=1.0, noise_multiplier=0.0, bounds=bounds)
    coins = torch.Generator()

    def pairs(first: bool) -> Any:
        """The same coins for the nine; the inserted record draws after them and is put in front."""

        def points(batch: Records) -> Any:
            rest = pairs_for(state.G.net, lambda: coins.manual_seed(1))(batch[1:] if first else batch)
            if not first:
                return rest
            own = pairs_for(state.G.net, lambda: coins.manual_seed(2))(batch[:1])
            return Points(
                torch.cat([1e4 * own.real, rest.real]), torch.cat([own.fake, rest.fake]),
                torch.cat([1e4 * own.between, rest.between]), torch.cat([own.labels, rest.labels]),
            )  # fmt: skip

        return points

    query = PenaltyGradient(state.D.net, pairs(False)), PenaltyGradient(state.D.net, pairs(True))
    moved = mechanism(with_it, query[1], Rng()) - mechanism(held, query[0], Rng())
    in_noise = torch.cat([
        part / (bounds.norms[group] * len(bounds.norms) ** 0.5)
        for part, group in zip(moved.split(query[0].sizes), bounds.groups or (), strict=True)
    ])  # fmt: skip
    assert float(in_noise.norm()) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"groups": 3}, "goes with `grouping=cluster`"),
        ({"grouping": "cluster", "groups": 3}, "needs bounds that differ"),
        ({"quantile": 1.0}, "`quantile` must lie between 0 and 1"),
        (
            {"bounds": "private-quantile", "quantile_noise_multiplier": 0.0},
            "`quantile_noise_multiplier` must be above 0",
        ),
        ({"bounds": "private-quantile", "quantile_noise_multiplier": 1.0}, "must differ from `noise_multiplier`"),
        ({"beta1": 1.0}, "`beta1` must be below 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan(Config(**TINY, **settings), CARD)


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 48, 48), (1, 64, 64)])
def test_more_groups_than_tensors_are_refused_by_the_plan(shape: tuple[int, int, int], conditional: bool) -> None:
    """Before a run is reserved or booked: as many groups as the critic has tensors are the most."""
    card = dataclasses.replace(CARD, shape=shape)
    config = Config(**TINY, grouping="cluster", bounds="public", conditional=conditional)
    tensors = len(list(fresh(config, card=card)[1].D.net.parameters()))
    assert plan(dataclasses.replace(config, groups=tensors), card)
    for groups in (tensors + 1, 99):
        with pytest.raises(RequestError, match=f"`groups` must lie between 1 and {tensors}, the tensors of the critic"):
            plan(dataclasses.replace(config, groups=groups), card)


def test_to_plan_draws_no_weights() -> None:
    before = torch.random.get_rng_state()
    plan(Config(**TINY, grouping="cluster", groups=3, bounds="public"), CARD)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 48, 48), (1, 64, 64)])
def test_networks_of_every_size(shape: tuple[int, int, int], conditional: bool) -> None:
    card = DataCard(shape=shape, classes=3, declared_size=100)
    config = Config(noise_multiplier=1.0, width=4, latent_size=8, conditional=conditional)
    _, state = fresh(config, card=card)
    labels = torch.tensor([0, 1])
    with torch.no_grad():
        images = state.G.net(torch.randn(2, 8), labels)
        assert images.shape == (2, *shape)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        assert state.D.net(2 * images - 1, labels).shape == (2,)
        other = state.G.net(torch.zeros(2, 8), torch.tensor([0, 1]))
        assert bool((other[0] != other[1]).any()) == conditional


def test_the_critic_of_the_paper_has_seven_tensors() -> None:
    """Methods: three convolutions with biases, one linear layer without; 1,032,832 weights at d = 64."""
    critic = Critic((1, 28, 28), 1, width=64)
    sizes = [p.numel() for p in critic.parameters()]
    assert sizes == [1600, 64, 204_800, 128, 819_200, 256, 4096]


@pytest.mark.parametrize("grouping", ["none", "weight-bias", "cluster"])
def test_public_bounds_do_not_look_at_the_private_records(grouping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrelated records of another number, and a deaf mechanism: the bounds and the weights are the same, bit for bit."""

    def deaf(self: Any, held: Any, query: Any, rng: Rng, ask: Any = GroupedGaussianSum.exact) -> torch.Tensor:
        return torch.zeros_like(ask(self, held, query, rng))

    monkeypatch.setattr(GroupedGaussianSum, "exact", deaf)
    more = {"groups": 3} if grouping == "cluster" else {}
    config = Config(**TINY, grouping=grouping, bounds="public", warm_steps=2, **more)  # type: ignore[arg-type]  # a Literal
    ends = [
        trained(config, held=held, public=records(30, seed=1), rng=Rng(3, noise_seed=4))[0]
        for held in (records(40), records(55, seed=8))
    ]
    assert ends[0].norms == ends[1].norms
    assert torch.equal(ends[0].D.vector, ends[1].D.vector)
    assert model_bytes(ends[0].released) == model_bytes(ends[1].released)


def test_a_critic_step_divides_by_the_expected_batch_and_the_generator_climbs_its_score() -> None:
    """Without noise, with everybody drawn: the critic's gradient is the sum over records / m (line 16). And one step of the
    generator with the critic held fixed raises the score of its fakes (lines 19 and 20)."""
    card = dataclasses.replace(CARD, declared_size=20)
    config = Config(**{**TINY, "noise_multiplier": 0.0, "steps": 1})
    held = records(30)
    state, ledger = trained(config, card=card, held=held, rng=Rng(0, noise_seed=5))
    assert ledger.used == [1]
    _, start = fresh(config, card=card)
    coins = Rng(0, noise_seed=5)
    coins.poisson_sample(30, 1.0)
    query = PenaltyGradient(start.D.net, pairs_for(start.G.net, coins.secret_generator), PENALTY)
    torch.testing.assert_close(state.D.vector.grad, query.summed(held) / 20, atol=1e-6, rtol=1e-4)
    run, before = fresh(config, card=card, rng=Rng(1))
    z = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(64) % 10

    def score() -> float:
        with torch.no_grad():
            return float(before.D.net(2 * before.G.net(z, labels) - 1, labels).mean())

    low = score()
    for _ in range(20):
        generator_step(run, before, 64)
    assert score() > low


@pytest.mark.parametrize("warm_steps", [0, 2])
def test_private_steps_have_their_own_optimisers_however_short_the_warm_start(warm_steps: int) -> None:
    config = Config(**TINY, warm_steps=warm_steps, warm_learning_rate=0.1, critic_learning_rate=0.01,
                    generator_learning_rate=0.02)  # fmt: skip
    run, state = fresh(config)
    for _ in warm_start(run, state, records(30, seed=1)):
        assert [each.optimiser.param_groups[0]["lr"] for each in (state.D, state.G)] == [0.1, 0.1]
    assert [each.optimiser.param_groups[0]["lr"] for each in (state.D, state.G)] == [0.01, 0.02]
    assert not state.D.optimiser.state
    assert not state.G.optimiser.state


def test_scores_are_what_the_critic_says_of_pictures_on_its_own_scale() -> None:
    _, state = fresh(Config(**TINY))
    held = records(5)
    images, labels = held.tensors()
    with torch.no_grad():
        expected = [float(state.D.net(2 * images[i : i + 1] - 1, labels[i : i + 1])) for i in range(5)]
        found = state.scores(held)
    assert found.shape == (1, 5)
    assert found[0].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert State.scores_have_no_scale
