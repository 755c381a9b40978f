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
from gossamer.methods import dp_wgan
from gossamer.methods.dp_wgan import Config, State, joined, pairs_for, plan, public_norms
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms import GroupedGaussianSum
from gossamer.privacy.noise import Rng
from gossamer.privacy.penalty import penalised_losses

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=400)
TINY: dict[str, Any] = {"noise_multiplier": 1.0, "steps": 6, "expected_batch_size": 20, "width": 4, "latent_size": 8}


def records(n: int, seed: int = 0) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8), draw.integers(10, size=n))


def run(config: Config, *, public: Records | None = None, held: Records | None = None) -> tuple[Any, PrivacyLedger]:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(plan(config, CARD))
    private = Confined(records(40) if held is None else held, ledger)
    *_, last = dp_wgan.train(private, config, CARD, public=public, emit=lambda event: None, rng=Rng(0))
    return last, ledger


def test_the_joint_multiplier_is_charged_once_whatever_the_groups() -> None:
    one, five = Config(**TINY), Config(**TINY, grouping="cluster", groups=5, bounds="public")
    assert plan(one, CARD) == plan(five, CARD)
    event, count = plan(one, CARD)[0]
    assert (event.event.noise_multiplier, event.sampling_probability, count) == (1.0, 20 / 400, 6)


def test_private_quantiles_are_charged() -> None:
    config = Config(**TINY, bounds="private-quantile", quantile_every=4, quantile_noise_multiplier=7.0)
    (_, steps), (question, count) = plan(config, CARD)
    assert (steps, count, question.event.noise_multiplier) == (6, 2, 7.0)
    _, ledger = run(config)
    assert ledger.used == [6, 2]


def test_private_quantiles_find_the_median_norm() -> None:
    """Hardly any noise, everybody drawn: the bound ends near the median of the norms that the critic then has."""
    config = Config(**{**TINY, "steps": 120}, bounds="private-quantile", quantile_every=1, quantile_noise_multiplier=1e-3,
                    max_norm=100.0)  # fmt: skip
    config = dataclasses.replace(config, expected_batch_size=40, critic_learning_rate=1e-7)
    card = dataclasses.replace(CARD, declared_size=40)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(plan(config, card))
    held = records(40)
    *_, state = dp_wgan.train(Confined(held, ledger), config, card, emit=lambda event: None, rng=Rng(0))
    query = dp_wgan.PenaltyGradient(state.D, pairs_for(state.G, Rng().secret_generator))
    below = np.mean(
        [float((dp_wgan.norms(query, held, state.groups) <= state.norms[0]).float().mean()) for _ in range(9)]
    )
    assert 0.3 < below < 0.7


def test_public_bounds_are_the_mean_norms_of_public_records() -> None:
    config = Config(**TINY, grouping="cluster", groups=7, bounds="public", warm_batch_size=30)
    rng = Rng(0)
    state = State.fresh(config, CARD, rng)
    public = records(25, seed=3)
    found = public_norms(state, public, config, Rng(0))
    stream = Rng(0).public("bounds")
    batch = public[torch.randint(25, (25,), generator=stream).numpy()]
    points = pairs_for(state.G, lambda: stream)(batch)
    rows = []
    for i in range(25):
        loss = penalised_losses(state.D, points[i : i + 1]).sum()
        rows.append([float(g.norm()) for g in torch.autograd.grad(loss, list(state.D.parameters()))])
    assert found == pytest.approx(np.mean(rows, 0).tolist(), rel=1e-4)


def test_bounds_change_with_the_critic_and_never_reach_zero() -> None:
    config = Config(**TINY, grouping="cluster", groups=2, bounds="public", warm_steps=2)
    state, _ = run(config, public=records(30, seed=1))
    assert all(norm > 0 for norm in state.norms)
    assert state.norms != State.fresh(config, CARD, Rng(0)).norms
    assert len(joined(state, config).norms) == 2


def test_the_twin_is_not_clipped() -> None:
    config = Config(**{**TINY, "noise_multiplier": 0.0}, grouping="weight-bias")
    state = State.fresh(config, CARD, Rng(0))
    assert all(math.isinf(norm) for norm in joined(state, config).norms)


def test_a_record_is_paired_with_coins_of_its_own_whatever_the_others() -> None:
    """The fake of a record carries its label, and no two calls use the same coins."""
    state = State.fresh(Config(**TINY), CARD, Rng(0))
    points = pairs_for(state.G, Rng().secret_generator)
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
    state = State.fresh(config, CARD, Rng(0))
    held = records(9)
    with_it = Records(
        np.insert(held.images, 0, np.random.default_rng(9).integers(0, 256, (1, 28, 28)), axis=0),
        np.insert(held.labels, 0, 3),
    )
    bounds = joined(state, config)
    mechanism = GroupedGaussianSum(sampling_rate=1.0, noise_multiplier=0.0, bounds=bounds, rng=Rng())
    coins = torch.Generator()

    def pairs(first: bool) -> Any:
        """The same coins for the nine; the inserted record draws after them and is put in front."""

        def points(batch: Records) -> Any:
            rest = pairs_for(state.G, lambda: coins.manual_seed(1))(batch[1:] if first else batch)
            if not first:
                return rest
            own = pairs_for(state.G, lambda: coins.manual_seed(2))(batch[:1])
            return dp_wgan.Points(
                torch.cat([1e4 * own.real, rest.real]), torch.cat([own.fake, rest.fake]),
                torch.cat([1e4 * own.between, rest.between]), torch.cat([own.labels, rest.labels]),
            )  # fmt: skip

        return points

    query = dp_wgan.PenaltyGradient(state.D, pairs(False)), dp_wgan.PenaltyGradient(state.D, pairs(True))
    moved = mechanism(with_it, query[1]) - mechanism(held, query[0])
    in_noise = torch.cat([
        part / (bounds.norms[group] * len(bounds.norms) ** 0.5)
        for part, group in zip(moved.split(query[0].sizes), bounds.groups or (), strict=True)
    ])  # fmt: skip
    assert float(in_noise.norm()) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"groups": 3}, "goes with --grouping cluster"),
        ({"grouping": "cluster", "groups": 3}, "needs bounds that differ"),
        ({"quantile": 1.0}, "--quantile must lie between 0 and 1"),
        (
            {"bounds": "private-quantile", "quantile_noise_multiplier": 0.0},
            "--quantile-noise-multiplier must be above 0",
        ),
        ({"bounds": "private-quantile", "quantile_noise_multiplier": 1.0}, "must differ from --noise-multiplier"),
        ({"beta1": 1.0}, "--beta1 must be below 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan(Config(**TINY, **settings), CARD)


def test_more_groups_than_tensors_are_refused() -> None:
    with pytest.raises(RequestError, match="--groups must lie between 1 and"):
        State.fresh(Config(**TINY, grouping="cluster", groups=99, bounds="public"), CARD, Rng(0))


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 48, 48), (1, 64, 64)])
def test_networks_of_every_size(shape: tuple[int, int, int], conditional: bool) -> None:
    card = DataCard(shape=shape, classes=3, declared_size=100)
    config = Config(noise_multiplier=1.0, width=4, latent_size=8, conditional=conditional)
    state = State.fresh(config, card, Rng(0))
    labels = torch.tensor([0, 1])
    with torch.no_grad():
        images = state.G(torch.randn(2, 8), labels)
        assert images.shape == (2, *shape)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        assert state.D(2 * images - 1, labels).shape == (2,)
        other = state.G(torch.zeros(2, 8), torch.tensor([0, 1]))
        assert bool((other[0] != other[1]).any()) == conditional


def test_the_critic_of_the_paper_has_seven_tensors() -> None:
    """Methods: three convolutions with biases, one linear layer without; 1,032,832 weights at d = 64."""
    critic = dp_wgan.Critic((1, 28, 28), 1, width=64)
    sizes = [p.numel() for p in critic.parameters()]
    assert sizes == [1600, 64, 204_800, 128, 819_200, 256, 4096]


@pytest.mark.parametrize("grouping", ["none", "weight-bias", "cluster"])
def test_public_bounds_do_not_look_at_the_private_records(grouping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrelated records of another number, and a deaf mechanism: the bounds and the weights are the same, bit for bit."""

    def deaf(self: Any, held: Any, query: Any, ask: Any = GroupedGaussianSum._ask) -> torch.Tensor:
        return torch.zeros_like(ask(self, held, query))

    monkeypatch.setattr(GroupedGaussianSum, "_ask", deaf)
    more = {"groups": 3} if grouping == "cluster" else {}
    config = Config(**TINY, grouping=grouping, bounds="public", warm_steps=2, **more)  # type: ignore[arg-type]  # a Literal
    ends = []
    for held in (records(40), records(55, seed=8)):
        ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
        ledger.reserve(plan(config, CARD))
        rng = Rng(3, noise_seed=4)
        *_, state = dp_wgan.train(
            Confined(held, ledger), config, CARD, public=records(30, seed=1), emit=lambda event: None, rng=rng
        )
        ends.append(state)
    assert ends[0].norms == ends[1].norms
    assert torch.equal(ends[0].w, ends[1].w)
    assert model_bytes(ends[0].released) == model_bytes(ends[1].released)


def test_a_critic_step_divides_by_the_expected_batch_and_the_generator_climbs_its_score() -> None:
    """Without noise, with everybody drawn: the critic's gradient is the sum over records / m (line 16). And one step of the
    generator with the critic held fixed raises the score of its fakes (lines 19 and 20)."""
    card = dataclasses.replace(CARD, declared_size=20)
    config = Config(**{**TINY, "noise_multiplier": 0.0, "steps": 1})
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(plan(config, card))
    held = records(30)
    (state,) = dp_wgan.train(Confined(held, ledger), config, card, emit=lambda event: None, rng=Rng(0, noise_seed=5))
    fresh = State.fresh(config, card, Rng(0))
    coins = Rng(0, noise_seed=5)
    coins.poisson_sample(30, 1.0)
    query = dp_wgan.PenaltyGradient(fresh.D, pairs_for(fresh.G, coins.secret_generator), dp_wgan.PENALTY)
    torch.testing.assert_close(state.w.grad, query.summed(held) / 20, atol=1e-6, rtol=1e-4)
    before = dp_wgan.State.fresh(config, card, Rng(1))
    z = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(64) % 10

    def score() -> float:
        with torch.no_grad():
            return float(before.D(2 * before.G(z, labels) - 1, labels).mean())

    low = score()
    for _ in range(20):
        dp_wgan.generator_step(before, 64, config, card, Rng(2))
    assert score() > low
