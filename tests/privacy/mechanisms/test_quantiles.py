"""The private quantile: what one unit can add, and where the bounds go."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from reference_gradients import rows
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods.contract import Run
from gossamer.methods.dp_wgan import Config, DpWgan
from gossamer.methods.dp_wgan.loop import ask_quantiles
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.quantiles import SharesBelow, moved
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

Z = 4.892
GROUPS = (0, 1)


def records(n: int, units: list[int] | None = None) -> Records:
    images = np.random.default_rng(0).integers(0, 256, size=(n, 1, 2, 2)).astype(np.uint8)
    return Records(images, np.arange(n) % 3, None if units is None else np.array(units))


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))


def loss(module: nn.Module, batch: Records) -> Tensor:
    images, labels = batch.tensors()
    return (module(images).square().sum(1)) * (1 + labels)


@pytest.mark.parametrize("form", ["fast", "slow"])
def test_norms_are_those_of_the_rows(form: str) -> None:
    query = PerRecordGradient(net(), loss, physical_batch_size=4, form=form)  # type: ignore[arg-type]  # a Form
    weight, bias = rows(query.module, loss, records(9)).split(query.sizes, dim=1)
    expected = torch.stack([weight.norm(dim=1), bias.norm(dim=1)], 1)
    torch.testing.assert_close(query.norms(records(9), GROUPS), expected, rtol=1e-5, atol=0)
    whole = query.norms(records(9), (0, 0))
    torch.testing.assert_close(whole[:, 0], expected.norm(dim=1), rtol=1e-5, atol=0)
    assert query.norms(records(0), GROUPS).shape == (0, 2)


def test_a_unit_has_one_norm_that_of_its_summed_gradient() -> None:
    query = PerRecordGradient(net(), loss, physical_batch_size=2)
    held = records(5, [0, 1, 0, 0, 1])
    all_rows = rows(query.module, loss, held)
    expected = sorted(
        float(all_rows[[0, 2, 3]].sum(0).norm()) if u == 0 else float(all_rows[[1, 4]].sum(0).norm()) for u in (0, 1)
    )
    assert sorted(query.norms(held, (0, 0))[:, 0].tolist()) == pytest.approx(expected, rel=1e-5)


def test_shares_count_units_below_minus_half() -> None:
    query = PerRecordGradient(net(), loss)
    found = query.norms(records(9), GROUPS)
    cuts = tuple((1.01 * found.median(0).values).tolist())
    ask = SharesBelow(query, cuts, GROUPS)
    answer = ask.clipped_sum(records(9), Bounds(norms=(ask.sensitivity,)))
    assert answer.tolist() == [0.5, 0.5]  # five of nine are at or below their median
    assert ask.dimension == 2


def test_the_last_bits_of_a_norm_move_no_whole_vote() -> None:
    """At a step, whoever changes how another's norm is rounded moves that one's vote too: by 1 where 1/2 is charged."""
    query = PerRecordGradient(net(), loss)
    exact = float(query.norms(records(1), (0, 0))[0, 0])
    votes = [
        float(SharesBelow(query, (cut,), (0, 0)).clipped_sum(records(1), Bounds(norms=(0.5,))))
        for cut in (exact * (1 + 1e-6), exact, exact * (1 - 1e-6), 1.01 * exact, 0.99 * exact)
    ]
    assert votes[:3] == pytest.approx([0, 0, 0], abs=2e-3)
    assert votes[3:] == [0.5, -0.5]


@pytest.mark.parametrize("bound", [None, 0.1])
def test_one_unit_moves_the_answer_by_its_bound_no_more_and_no_less(bound: float | None) -> None:
    query = PerRecordGradient(net(), loss)
    ask = SharesBelow(query, (1e9, 0.0), GROUPS)
    limit = ask.sensitivity if bound is None else bound
    assert ask.sensitivity == math.sqrt(2) / 2
    bounds = Bounds(norms=(limit,))
    change = ask.clipped_sum(records(9), bounds) - ask.clipped_sum(records(9)[1:], bounds)
    assert float(change.norm()) == pytest.approx(limit, rel=1e-6)
    assert change[0] > 0 > change[1]


def test_a_norm_that_is_not_a_number_is_above_and_raises_nothing() -> None:
    def sick(module: nn.Module, batch: Records) -> Tensor:
        return loss(module, batch) * torch.where(torch.from_numpy(batch.labels == 0), math.nan, 1.0)

    ask = SharesBelow(PerRecordGradient(net(), sick), (1e9, 1e9), GROUPS)
    assert ask.clipped_sum(records(3), Bounds(norms=(9.0,))).tolist() == [0.5, 0.5]


def test_bounds_move_geometrically_towards_the_quantile() -> None:
    """Andrew et al. 2021, Algorithm 1, line 11, by hand: shares 1, 1/2 and 0 of 10 expected units."""
    found = moved((2.0, 2.0, 2.0), torch.tensor([5.0, 0.0, -5.0]), expected_batch_size=10, quantile=0.5, rate=0.2)
    assert found == pytest.approx((2 * math.exp(-0.1), 2.0, 2 * math.exp(0.1)))


def test_bounds_follow_the_vote_with_noise_and_not_the_exact_one() -> None:
    """The question as dp-wgan asks it, with everybody drawn: the exact vote is the same each time, so all that moves the bounds
    differently is the noise. Mean and variance of the vote that each of 200 moves shows; error rate 2e-6."""
    n, multiplier, start = 6, 0.7, (1.0, 2.0)
    query = PerRecordGradient(net(), loss)
    config = Config(
        noise_multiplier=1.0, steps=1_000, expected_batch_size=n, bounds="private-quantile", quantile_every=1,
        quantile_noise_multiplier=multiplier, quantile=0.4,
    )  # fmt: skip
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=n)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(poisson_gaussian(sampling_rate=1.0, noise_multiplier=multiplier), 200)])
    private, seen = Confined(records(n), ledger, Rng()), []
    run = Run(config, card, Rng(), queries=DpWgan().queries(config, card))
    for _ in range(200):
        state: Any = SimpleNamespace(norms=list(start), groups=GROUPS)
        ask_quantiles(run, state, private, query)
        seen.append(
            [n * (0.4 - math.log(after / before) / 0.2 - 0.5) for before, after in zip(start, state.norms, strict=True)]
        )
    exact = SharesBelow(query, start, GROUPS).clipped_sum(records(n), Bounds(norms=(math.sqrt(2) / 2,)))
    noise = (torch.tensor(seen, dtype=torch.float64) - exact) / (multiplier * math.sqrt(2) / 2)
    count = noise.numel()
    assert abs(float(noise.mean())) < Z / count**0.5
    assert abs(float(noise.square().mean()) - 1) < Z * (2 / count) ** 0.5
    assert ledger.used == [200]
