"""The engine for a loop of one's own: what a step gives, what it costs, where it ends, and what it refuses."""

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from several import Several
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import gossamer
from gossamer.errors import BudgetError, BudgetExceeded, ConfinedError, DataError, RanksDisagree, RequestError
from gossamer.privacy import Rng, bounds, poisson_gaussian
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import plan_to_json
from gossamer.run import engine as own_loop

N = 12
ALL: dict[str, Any] = {"declared_size": N, "expected_batch_size": N, "delta": 1e-4}
QUIET: dict[str, Any] = {**ALL, "steps": 1, "max_norm": 0.5, "noise_multiplier": 1e-6}
"""All examples in one step, with noise that is too small to see."""


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling and noise repeat."""
    monkeypatch.setattr(own_loop, "Rng", lambda: Rng(0, noise_seed=3))


def examples(seed: int = 0, n: int = N) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=stream), torch.randint(0, 3, (n,), generator=stream)


def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y, reduction="none")


def only_step(data: Any, net: nn.Module | None = None, **changed: Any) -> Tensor:
    (found,) = gossamer.Engine(data, **{**QUIET, **changed}).steps(network() if net is None else net, loss)
    return found


def clipped_mean(x: Tensor, y: Tensor, groups: list[list[int]], max_norm: float = 0.5) -> Tensor:
    """By one backward pass for each unit."""
    net, total = network(), torch.zeros(4 * 5 + 5 + 5 * 3 + 3)
    for rows in groups:
        parts = torch.autograd.grad(loss(net, x[rows], y[rows]).sum(), list(net.parameters()))
        one = torch.cat([part.flatten() for part in parts])
        total += one * min(1.0, max_norm / 1.001 / float(one.norm()))
    return total / N


def test_a_step_is_the_mean_of_clipped_gradients_and_lies_in_grad() -> None:
    x, y = examples()
    net = network()
    found = only_step((x, y), net)
    assert torch.allclose(found, clipped_mean(x, y, [[at] for at in range(N)]), rtol=1e-3, atol=1e-6)
    grads = [parameter.grad for parameter in net.parameters()]
    assert torch.equal(torch.cat([grad.flatten() for grad in grads if grad is not None]), found)


def test_tensors_arrays_and_datasets_give_the_same() -> None:
    x, y = examples()
    items = [(x[at].numpy(), int(y[at])) for at in range(N)]
    expected = only_step((x, y))
    for data in ((x.numpy(), y.numpy()), TensorDataset(x, y), items):
        assert torch.equal(only_step(data), expected)


def test_a_unit_is_clipped_as_a_whole_whatever_it_is_called() -> None:
    x, y = examples()
    people = ["b", "a", "b", "c", "d", "b", "e", "f", "a", "g", "h", "i"]
    groups = [[at for at in range(N) if people[at] == person] for person in sorted(set(people))]
    found = only_step(gossamer.Source((x, y), units=people), unit="patient", max_norm=0.05)
    assert torch.allclose(found, clipped_mean(x, y, groups, 0.05), rtol=1e-3, atol=1e-6)
    assert not torch.allclose(found, only_step((x, y), max_norm=0.05), rtol=1e-3, atol=1e-6)
    with pytest.raises(DataError, match="this record has no unit"):
        only_step(gossamer.Source((x, y), units=[*people[:-1], ""]))


def test_a_huge_example_moves_a_step_by_its_bound_and_no_further() -> None:
    x, y = examples()
    x[0] *= 1e4
    moved = (only_step((x, y)) - only_step((x[1:], y[1:]))).norm() * N
    assert 0.99 * 0.5 < float(moved) <= 0.5 + 1e-5


def test_noise_has_the_deviation_that_is_declared() -> None:
    net = nn.Linear(1, 20_000)
    asked = {**ALL, "steps": 1, "max_norm": 0.5, "noise_multiplier": 4.0}
    (found,) = gossamer.Engine(torch.zeros(N, 1), **asked).steps(net, lambda net, x: 0 * net(x).sum(1))
    assert float(found.std()) == pytest.approx(4.0 * 0.5 / N, rel=0.02)  # 5 deviations of 40,000 numbers


def test_banded_noise_goes_through_whole_cycles() -> None:
    """10 steps and 4 bands: 3 cycles, which are 12 steps. What is left counts steps, also within a cycle."""
    asked = {**ALL, "expected_batch_size": 2, "max_norm": 0.5, "noise_multiplier": 1.0, "steps": 10, "bands": 4}
    engine = gossamer.Engine(examples(), **asked)
    left = [engine.remaining for _ in engine.steps(network(), loss)]
    assert left == [*range(11, -1, -1)]
    event = poisson_gaussian(sampling_rate=4 * 2 / N, noise_multiplier=1.0)
    assert engine.certificate().facts["plan"] == plan_to_json([(event, 3)])
    with pytest.raises(RequestError, match="`bands=7` makes as many groups"):
        gossamer.Engine(examples(), **{**asked, "bands": 7})


def test_examples_are_sampled_at_the_declared_rate() -> None:
    counts: list[int] = []

    def counting(net: nn.Module, x: Tensor) -> Tensor:
        counts.append(len(x))
        return net(x).sum(1)

    asked = {"declared_size": 1_000, "expected_batch_size": 50, "delta": 1e-4, "max_norm": 1.0, "noise_multiplier": 1.0}
    engine = gossamer.Engine(torch.rand(400, 2), **asked, steps=100)
    seen = len([*engine.steps(nn.Linear(2, 1), counting)])
    drawn = counts[-seen:]
    assert seen == 100
    assert np.mean(drawn) == pytest.approx(400 * 0.05, abs=5 * math.sqrt(400 * 0.05 * 0.95 / 100))
    assert len(set(drawn)) > 5


def on_ranks(ranks: Ranks, own: list[list[int]], *, apart: bool = False, **changed: Any) -> Tensor:
    """The one step of a rank. own: the examples of each unit. apart: rank 1 gets its examples in another order."""
    x, y = examples()
    if apart and not ranks.first:
        x, y = x.flip(0), y.flip(0)
    numbers = np.zeros(N, np.int64)
    for number, rows in enumerate(own):
        numbers[rows] = number
    return only_step(
        gossamer.Source((x, y), units=numbers), declared_size=len(own), expected_batch_size=len(own), **changed
    )


def test_several_ranks_take_the_step_of_one_process() -> None:
    """Examples of a unit are far apart in the data, and still on one rank."""
    own = [[0, 11], [1], [2, 5, 10], [3], [4, 9], [6, 7], [8]]
    with Several(2) as two:
        first, second = two.all(on_ranks, own)
        assert torch.equal(first, second)
        assert torch.allclose(first, on_ranks(ALONE, own), atol=1e-5)
        for refused in (functools.partial(on_ranks, apart=True), functools.partial(on_ranks, ledger="ledger.jsonl")):
            found = two.run(refused, own)
            assert any(isinstance(each, RequestError) for each in found)
            assert all(isinstance(each, RequestError | RanksDisagree) for each in found)


def test_parameters_that_do_not_learn_get_no_gradient() -> None:
    net = network()
    net[0].requires_grad_(False)
    found = only_step(examples(), net)
    assert net[0].weight.grad is None
    assert float(found[:25].abs().max()) < 1e-6
    assert net[2].weight.grad is not None and float(net[2].weight.grad.norm()) > 1e-3


def test_the_loop_ends_with_the_plan_and_a_loop_that_is_left_keeps_its_other_steps() -> None:
    engine = gossamer.Engine(examples(), **{**QUIET, "steps": 5})
    first, net = engine.steps(network(), loss), network()
    next(first), next(first)
    first.close()
    assert engine.remaining == 3
    assert len([*engine.steps(net, loss)]) == 3
    assert [*engine.steps(net, loss)] == []


def test_a_step_is_on_disk_before_an_example_is_read(tmp_path: Path) -> None:
    path, charged = tmp_path / "ledger.jsonl", []

    def looking(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        charged.append(path.read_text().count('"charge"'))
        return loss(net, x, y)

    engine = gossamer.Engine(examples(), **{**QUIET, "steps": 20}, ledger=path)
    steps = engine.steps(network(), looking)
    assert path.read_text().count('"charge"') == 0
    next(steps)
    assert charged[-1] >= 1
    del engine, steps
    again = gossamer.Engine(examples(), **{**QUIET, "steps": 20}, ledger=path)
    assert again.remaining == 19
    assert len([*again.steps(network(), loss)]) == 19
    assert path.read_text().count('"charge"') == 20


def test_the_ledger_of_another_plan_is_not_continued(tmp_path: Path) -> None:
    gossamer.Engine(examples(), **QUIET, ledger=tmp_path / "ledger.jsonl")
    for changed in ({"steps": 2}, {"noise_multiplier": 2.0}, {"delta": 1e-3}, {"unit": "patient"}):
        with pytest.raises(RequestError, match="is the ledger of another plan"):
            gossamer.Engine(examples(), **{**QUIET, **changed}, ledger=tmp_path / "ledger.jsonl")


def test_epsilon_leads_to_the_noise_that_the_accountants_ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_loop, "Rng", Rng)
    asked = {"declared_size": N, "expected_batch_size": N, "steps": 50, "delta": 1e-5, "max_norm": 1.0}
    engine = gossamer.Engine(examples(), **asked, epsilon=2.0)
    plan = [(poisson_gaussian(sampling_rate=1, noise_multiplier=engine.noise_multiplier), 50)]
    best = min(bound.guarantee.epsilon for bound in bounds(plan, delta=1e-5))
    assert 1.98 < best <= 2.0
    next(engine.steps(network(), loss))
    certificate = engine.certificate()
    assert certificate.guarantee.epsilon == best
    assert certificate.statement.startswith("Differentially private: epsilon ")
    certificate.save(tmp_path / "certificate.json")
    stored = json.loads((tmp_path / "certificate.json").read_text())
    assert stored["epsilon"] == best and stored["plan"][0]["count"] == 50
    assert stored["assumptions"][1:-1] == list(own_loop.RESPONSIBILITIES)


def test_a_fixed_seed_and_no_noise_certify_nothing() -> None:
    engine = gossamer.Engine(examples(), **QUIET)
    [*engine.steps(network(), loss)]
    assert engine.certificate().statement.startswith("No formal guarantee: epsilon is infinity, because reproducible")
    free = gossamer.Engine(examples(), **{**ALL, "steps": 1, "max_norm": 1.0}, epsilon=math.inf)
    assert free.noise_multiplier == 0
    assert math.isinf(free.certificate().guarantee.epsilon)


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"expected_batch_size": N + 1}, RequestError, "an `expected_batch_size` from 1"),
        ({"max_norm": math.inf}, RequestError, "a finite `max_norm`"),
        ({"steps": 0}, RequestError, "at least one step"),
        ({"noise_multiplier": None}, BudgetError, "give `epsilon`"),
        ({"epsilon": 0.0, "noise_multiplier": None}, BudgetError, "epsilon must be above 0"),
        ({"epsilon": 1.0, "noise_multiplier": 0.5}, BudgetExceeded, "more than the budget of epsilon 1"),
        ({"delta": 0.5}, BudgetError, "is not below 1 / 12"),
        ({"epsilon": "1"}, RequestError, "leave out the quotes"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    changed: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        gossamer.Engine(examples(), **{**QUIET, **changed})


def test_data_of_other_forms_are_refused() -> None:
    x, y = examples()
    with pytest.raises(RequestError, match="of one length"):
        gossamer.Engine((x, y[1:]), **QUIET)
    with pytest.raises(RequestError, match="tensors, arrays or a dataset"):
        gossamer.Engine("digits", **QUIET)


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (lambda net, x, y: loss(net, x - x.mean(0), y), RequestError, "depends on other records in its batch"),
        (lambda net, x, y: loss(net, x, y).mean(), RequestError, "one number per record"),
        (lambda net, x, y: loss(net, x, y + int(x[0, 0] * 1e6)), ConfinedError, "withheld"),
    ],
)
def test_a_loss_that_mixes_examples_or_fails_is_refused_without_a_value(
    wrong: Callable[..., Tensor], kind: type[Exception], words: str
) -> None:
    x, y = examples()
    with pytest.raises(kind, match=words) as refused:
        next(gossamer.Engine((x, y), **QUIET).steps(network(), wrong))
    assert str(int(x[0, 0] * 1e6)) not in str(refused.value)
