"""What is particular to dpgan: Algorithm 1 of Bie, Kamath, Zhang 2023 line by line, by plain loops in float64, and section 6.2.

Where a step is compared with one by hand, the noise is a billionth of the bound, so that it does not matter, and the rate is 1,
so that every record is drawn. The statistical test states its error rate.
"""

import copy
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.contract import Run
from gossamer.methods.dpgan import Config, Dpgan
from gossamer.methods.dpgan.loop import FREQUENCIES, State, adapt, start
from gossamer.methods.job import Job, StepResult
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan

Z = 4.892
B = 12
CARD = DataCard(shape=(1, 28, 28), classes=3, declared_size=B, label_prior=(0.7, 0.1, 0.2))
QUIET: dict[str, Any] = {
    "noise_multiplier": 1e-9, "steps": 7, "expected_batch_size": B, "width": 4, "latent_size": 5, "discriminator_steps": 3,
    "physical_batch_size": 5,
}  # fmt: skip


def records(n: int = B, seed: int = 0) -> Records:
    """Records of different brightness."""
    draw = np.random.default_rng(seed)
    images = draw.integers(0, 256, (n, 1, 28, 28)) * draw.random((n, 1, 1, 1))
    return Records(images.astype(np.uint8), draw.integers(3, size=n))


def fresh(config: Config) -> State:
    """The state at the start of a run."""
    return start(Run(config, CARD, Rng(0)))


def drive(
    config: Config, *, held: Records | None = None, public: Records | None = None
) -> Iterator[tuple[StepResult, State, int]]:
    """A run over `records()`: where it is, its state, and how many releases the ledger still holds."""
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    job = Job.of(Dpgan(), dataclasses.asdict(config), CARD)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0))
    for reached in training.drive(Confined(records() if held is None else held, ledger, training.run.rng), public):
        yield reached, training.state, ledger.remaining(job.plan[0][0])


def states(config: Config, **more: Any) -> Iterator[State]:
    """The states of a run over `records()`, one per step."""
    return (state for reached, state, _ in drive(config, **more) if reached.logs is not None)


def gradient(state: State) -> Tensor:
    """What the discriminator's optimiser took. [D]"""
    assert state.D.vector.grad is not None
    return state.D.vector.grad.double()


def flat(module: nn.Module) -> Tensor:
    """All parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])


class Public:
    """The public draws of a run, drawn once more by hand: each stream in its order."""

    def __init__(self, config: Config) -> None:
        self.config, self.rng = config, Rng(0)

    def latents(self, n: int = B) -> tuple[Tensor, Tensor]:
        z = torch.randn(n, self.config.latent_size, generator=self.rng.public("latents"))
        prior = torch.tensor(CARD.label_prior)
        return z, torch.multinomial(prior, n, replacement=True, generator=self.rng.public("labels"))


def by_hand(D: nn.Module, images: Tensor, labels: Tensor, *, real: bool, bound: float) -> tuple[Tensor, list[float]]:
    """One sum of line 6: a plain loop over examples, each clipped. The sum, and the norms before clipping."""
    D = copy.deepcopy(D).double()
    total, lengths = torch.zeros(sum(p.numel() for p in D.parameters()), dtype=torch.float64), []
    for image, label in zip(images.double(), labels, strict=True):
        probability = torch.sigmoid(D(image[None], label[None]))[0]
        loss = -torch.log(probability if real else 1 - probability)
        row = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(D.parameters()))])
        lengths.append(float(row.norm()))
        total += row * min(1.0, bound / lengths[-1])
    return total, lengths


def close(found: Tensor, expected: Tensor, share: float = 5e-3) -> None:
    """Equal up to a small share of the length: what the guard of the clipped sum against rounding may take off a norm."""
    assert float((found.double() - expected).norm()) < share * float(expected.norm())


def steps(config: Config, **more: Any) -> Iterator[tuple[State, State, Tensor, Tensor]]:
    """For each step of a run copies of the state before and after, and the gradients that its optimisers took: [D] each."""
    before = fresh(config)
    for state in states(config, **more):
        after = copy.deepcopy(state)
        of_G = [torch.zeros(0) if p.grad is None else p.grad.flatten() for p in state.G.net.parameters()]
        yield before, after, gradient(state), torch.cat(of_G).double()
        before = after


# ---------------------------------------------------------------------- lines 3 to 9: a step of the discriminator


@pytest.mark.parametrize("clip_fakes", [True, False])
@pytest.mark.parametrize(("max_norm", "clipped"), [(1e-3, B), (0.71, None), (1e3, 0)])
def test_a_discriminator_step_is_lines_4_to_7(max_norm: float, clipped: int | None, clip_fakes: bool) -> None:
    """For three steps, with a generator step between: B records and B fakes, clipped one by one, divided by 2 B."""
    config = Config(**{**QUIET, "discriminator_steps": 2, "steps": 3}, max_norm=max_norm, clip_fakes=clip_fakes)
    public, held = Public(config), records()
    for number, (before, _, g, _) in enumerate(steps(config), start=1):
        images, labels = held.tensors()
        on_records, lengths = by_hand(before.D.net, images, labels, real=True, bound=max_norm)
        z, fake_labels = public.latents()
        with torch.no_grad():
            fakes = before.G.net(z, fake_labels)
        bound = max_norm if clip_fakes else math.inf
        on_fakes, fake_lengths = by_hand(before.D.net, fakes, fake_labels, real=False, bound=bound)
        close(g, (on_records + on_fakes) / (2 * B))
        over = sum(length > max_norm for length in lengths + fake_lengths)
        assert over == 2 * clipped if clipped is not None else 0 < over < 2 * B
        if number == 2:
            public.latents()  # the generator's step


def test_the_divisor_is_twice_the_expected_batch_whatever_was_drawn() -> None:
    """Without a single record the sum is that of B fakes, and is still divided by 2 B."""
    config = Config(**{**QUIET, "steps": 1})
    ((before, _, g, _),) = steps(config, held=records(0))
    z, labels = Public(config).latents()
    with torch.no_grad():
        fakes = before.G.net(z, labels)
    on_fakes, _ = by_hand(before.D.net, fakes, labels, real=False, bound=1.0)
    close(g, on_fakes / (2 * B))


def test_the_noise_of_line_7_is_sigma_c_before_the_division() -> None:
    """Mean and variance over all coordinates of one step, from which the step by hand is taken off; error rate 2e-6."""
    config = Config(**{**QUIET, "noise_multiplier": 3.0, "steps": 1, "width": 8}, max_norm=0.5)
    ((before, _, g, _),) = steps(config)
    z, fake_labels = Public(config).latents()
    with torch.no_grad():
        fakes = before.G.net(z, fake_labels)
    total = sum(
        by_hand(before.D.net, images, labels, real=real, bound=0.5)[0]
        for images, labels, real in ((*records().tensors(), True), (fakes, fake_labels, False))
    )
    noise = (g * 2 * B - total) / (3.0 * 0.5)
    n = len(noise)
    assert abs(float(noise.mean())) < Z / n**0.5
    assert abs(float(noise.square().mean()) - 1) < Z * (2 / n) ** 0.5


def test_both_optimisers_are_adam_with_the_betas_of_the_paper() -> None:
    """Line 8 and line 13 from the gradients that were used: Kingma and Ba 2015, Algorithm 1, betas 0.5 and 0.999."""
    config = Config(**QUIET, discriminator_learning_rate=3e-3, generator_learning_rate=5e-3)
    rates = {"D": 3e-3, "G": 5e-3}
    first = fresh(config)
    kept = {"D": first.D.vector.detach().double(), "G": flat(first.G.net).double()}
    moments: dict[str, list[Any]] = {"D": [0, 0.0, 0.0], "G": [0, 0.0, 0.0]}
    for before, after, of_D, of_G in steps(config):
        gradients = {"D": of_D, **({"G": of_G} if after.generator_steps > before.generator_steps else {})}
        for name, g in gradients.items():
            t, m, v = moments[name]
            t, m, v = t + 1, 0.5 * m + 0.5 * g, 0.999 * v + 0.001 * g.square()
            moments[name] = [t, m, v]
            kept[name] = kept[name] - rates[name] * (m / (1 - 0.5**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        torch.testing.assert_close(after.D.vector.detach().double(), kept["D"], atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(flat(after.G.net).double(), kept["G"], atol=2e-6, rtol=1e-5)
    assert (moments["D"][0], moments["G"][0]) == (7, 2)


def test_fakes_carry_labels_of_the_declared_prior_whatever_the_records_are() -> None:
    """Of 6,000 fakes; the records have another mix. Error rate 3e-6."""
    state = fresh(Config(**QUIET))
    fakes = state.G.fakes(Run(Config(**QUIET), CARD, Rng(5)), 6_000)
    for label, share in enumerate((0.7, 0.1, 0.2)):
        found = float((fakes.labels == label).double().mean())
        assert abs(found - share) < Z * (share * (1 - share) / 6_000) ** 0.5
    assert not fakes.images.requires_grad
    few = fakes[:40]
    assert isinstance(few, Fakes)
    with torch.no_grad():
        z = torch.randn(6_000, 5, generator=Rng(5).public("latents"))[:40]
        torch.testing.assert_close(few.images, state.G.net(z, few.labels))


def test_a_record_is_judged_under_its_own_label() -> None:
    """A fresh discriminator tells labels apart, so with all labels turned round the first step is another one."""
    config = Config(**{**QUIET, "steps": 1})
    (state,) = states(config)
    before, public = fresh(config), Public(config)
    z, fake_labels = public.latents()
    with torch.no_grad():
        fakes = before.G.net(z, fake_labels)
    on_fakes, _ = by_hand(before.D.net, fakes, fake_labels, real=False, bound=1.0)
    images, labels = records().tensors()
    right, _ = by_hand(before.D.net, images, labels, real=True, bound=1.0)
    wrong, _ = by_hand(before.D.net, images, (labels + 1) % 3, real=True, bound=1.0)
    found = gradient(state) * 2 * B - on_fakes
    assert float((found - right).norm()) < 0.2 * float((found - wrong).norm())


# ---------------------------------------------------------------------- lines 10 to 14: a step of the generator


def test_a_generator_step_is_lines_11_to_13() -> None:
    """The mean of -log D over B fresh fakes, from a discriminator that has just taken its step. By a plain loop in float64."""
    config = Config(**{**QUIET, "discriminator_steps": 1, "steps": 3}, discriminator_learning_rate=0.05)
    public = Public(config)
    for before, after, _, found in steps(config):
        public.latents()  # line 5
        z, labels = public.latents()  # line 11
        G, D = copy.deepcopy(before.G.net).double(), copy.deepcopy(after.D.net).double()
        total = torch.zeros(len(found), dtype=torch.float64)
        for latent, label in zip(z.double(), labels, strict=True):
            score = torch.sigmoid(D(G(latent[None], label[None]), label[None]))[0]
            parts = torch.autograd.grad(-torch.log(score), list(G.parameters()))
            total += torch.cat([part.flatten() for part in parts]) / B
        close(found, total, share=1e-5)


def test_the_generator_steps_whenever_n_d_divides_t() -> None:
    config = Config(**{**QUIET, "steps": 11})
    assert [state.generator_steps for state in states(config)] == [t // 3 for t in range(1, 12)]
    assert [state.generator_steps for state in states(Config(**{**QUIET, "discriminator_steps": 1}))] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]


def test_training_ends_with_the_plan_and_counts() -> None:
    *told, (end, last, left) = drive(Config(**QUIET))
    assert (last.step, left, last.n_D) == (7, 0, 3)
    assert (end.step, end.logs) == (7, None)
    assert Job(Dpgan(), Config(**QUIET), CARD).plan == [(poisson_gaussian(sampling_rate=1.0, noise_multiplier=1e-9), 7)]
    kept = [reached.step for reached, _, _ in told if reached.phase.worth_keeping(reached.step)]
    assert kept == [1, 2, 3, 4, 5, 6, 7]
    assert {reached.logs["n_D"] for reached, _, _ in told if reached.logs is not None} == {3}
    assert {reached.phase.name for reached, _, _ in told} == {"training"}


# ---------------------------------------------------------------------- section 6.2


def adapted(accuracies: list[float], **settings: Any) -> tuple[State, list[int]]:
    """A state that has seen these accuracies on fakes, one for each generator step, and what n_D changed to, in turn."""
    config = Config(**{**QUIET, "discriminator_steps": 1, **settings}, adaptive=True)
    state, changes = fresh(config), []
    for accuracy in accuracies:
        before = state.n_D
        adapt(config, state, accuracy)
        if state.n_D != before:
            changes.append(state.n_D)
    return state, changes


def test_the_frequencies_are_those_of_the_paper() -> None:
    assert FREQUENCIES[:10] == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def test_the_running_accuracy_is_an_exponential_average_that_begins_with_the_first() -> None:
    state, _ = adapted([0.8, 0.4, 0.9], accuracy_decay=0.9)
    assert state.accuracy == pytest.approx(0.9 * (0.9 * 0.8 + 0.1 * 0.4) + 0.1 * 0.9)


@pytest.mark.parametrize(("decay", "grace"), [(0.5, 4), (0.9, 20), (0.99, 200)])
def test_n_d_rises_at_the_floor_after_the_grace_period_and_no_earlier(decay: float, grace: int) -> None:
    """2 / (1 - beta) generator steps, and again as many for the next frequency."""
    below = [0.5] * (grace - 1)
    assert adapted(below, accuracy_decay=decay)[0].n_D == 1
    state, changes = adapted([*below, 0.5], accuracy_decay=decay)
    assert (state.n_D, state.grace) == (2, 0)
    assert changes == [2]
    assert adapted([0.5] * (2 * grace - 1), accuracy_decay=decay)[0].n_D == 2
    assert adapted([0.5] * (2 * grace), accuracy_decay=decay)[0].n_D == 5


@pytest.mark.parametrize(("accuracy", "n_D"), [(0.7001, 1), (0.7, 2), (0.3, 2)])
def test_the_floor_itself_counts_as_reached(accuracy: float, n_D: int) -> None:
    assert adapted([accuracy] * 4, accuracy_decay=0.5, accuracy_floor=0.7)[0].n_D == n_D


def test_n_d_rises_as_soon_as_the_running_accuracy_falls_and_never_goes_back() -> None:
    state, changes = adapted([1.0] * 50 + [0.0] * 2 + [1.0] * 50, accuracy_decay=0.5, accuracy_floor=0.6)
    assert state.n_D == 2
    assert len(changes) == 1


def test_the_schedule_goes_through_all_frequencies_and_stays_at_the_last() -> None:
    _, changes = adapted([0.0] * 60, accuracy_decay=0.5)
    assert changes == list(FREQUENCIES[1:])
    assert adapted([0.0] * 4, accuracy_decay=0.5, discriminator_steps=7)[0].n_D == 10


def test_the_loop_follows_the_schedule() -> None:
    """With a floor of 1 every accuracy is at the floor: four generator steps (the grace period at 0.5) at each frequency."""
    config = Config(
        **{**QUIET, "steps": 38, "discriminator_steps": 1}, adaptive=True, accuracy_floor=1.0, accuracy_decay=0.5
    )
    told = [(state.generator_steps, reached.logs["n_D"]) for reached, state, _ in drive(config) if reached.logs]
    counts = [generator_steps for generator_steps, _ in told]
    moments = [t for t, (a, b) in enumerate(itertools.pairwise([0, *counts]), start=1) if b > a]
    assert moments == [1, 2, 3, 4, 6, 8, 10, 12, 17, 22, 27, 32]
    assert [n_D for _, n_D in told[:5]] == [1, 1, 1, 2, 2], "shown at the step that raised it"


def test_without_adaptive_n_d_stays() -> None:
    config = Config(**{**QUIET, "steps": 9, "discriminator_steps": 1}, accuracy_floor=1.0, accuracy_decay=0.0)
    assert {state.n_D for state in states(config)} == {1}


def test_the_accuracy_is_that_on_the_fakes_of_the_generator_step() -> None:
    """The share of fresh fakes that the discriminator calls fake, before the generator moves."""
    config = Config(**{**QUIET, "steps": 4, "discriminator_steps": 1})
    public = Public(config)
    for before, after, _, _ in steps(config):
        public.latents()
        z, labels = public.latents()
        with torch.no_grad():
            logits = after.D.net(before.G.net(z, labels), labels)
        assert after.shown["accuracy_on_fakes"] == pytest.approx(float((logits < 0).double().mean()))
        assert after.shown["generator_loss"] == pytest.approx(float(torch.log1p(torch.exp(-logits)).mean()), rel=1e-5)


# ---------------------------------------------------------------------- what is released


def test_the_last_weights_or_their_running_average_are_released() -> None:
    """The average begins with the first weights and moves at generator steps: decay x average + (1 - decay) x weights."""
    *_, plain = states(Config(**QUIET))
    assert plain.released is plain.G.net
    config = Config(**QUIET, average_decay=0.6, generator_learning_rate=0.05)
    expected = [p.detach().clone() for p in fresh(config).G.net.parameters()]
    seen = 0
    for state in states(config):
        if state.generator_steps > seen:
            seen = state.generator_steps
            expected = [0.6 * e + 0.4 * p.detach() for e, p in zip(expected, state.G.net.parameters(), strict=True)]
    assert seen == 2
    for mine, theirs, last in zip(state.released.parameters(), expected, state.G.net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert not torch.equal(mine, last)
    assert model_bytes(state.released) != model_bytes(state.G.net)


# ---------------------------------------------------------------------- the warm start


def test_the_warm_start_is_ordinary_training_on_public_records() -> None:
    """One step of each network for each batch, half the mean on records plus half the mean on fakes, no clipping, no charge."""
    config = Config(
        **{**QUIET, "steps": 1}, warm_steps=2, warm_batch_size=6, warm_learning_rate=4e-3, average_decay=0.5
    )
    others = records(20, seed=9)
    before = fresh(config)
    public, rng = Public(config), Rng(0)
    run = drive(config, public=others)
    for number, (reached, state, _) in enumerate(itertools.islice(run, 2), start=1):
        batch = others[torch.randint(20, (6,), generator=rng.public("warm start")).numpy()]
        images, labels = batch.tensors()
        z, fake_labels = public.latents(6)
        with torch.no_grad():
            fakes = before.G.net(z, fake_labels)
        on_records, _ = by_hand(before.D.net, images, labels, real=True, bound=math.inf)
        on_fakes, _ = by_hand(before.D.net, fakes, fake_labels, real=False, bound=math.inf)
        expected = (on_records / 6 + on_fakes / 6) / 2
        moved = state.D.vector.detach() - before.D.vector.detach()
        close(gradient(state), expected, share=1e-5)
        if number == 1:
            assert float(moved.abs().max()) == pytest.approx(2e-3, rel=1e-3)  # Adam's first step, at half the rate
        public.latents(6)  # the generator's step
        assert (reached.phase.name, state.phase, state.step) == ("warm start", "warm start", number)
        assert reached.logs == state.shown
        before = copy.deepcopy(state)
    end, state, _ = next(run)
    assert (end.phase.name, end.step, end.logs) == ("warm start", 2, None)
    assert (state.phase, state.step, state.generator_steps, state.since) == ("training", 0, 0, 0)
    assert state.D.optimiser.state_dict()["state"] == {}
    assert state.G.optimiser.state_dict()["state"] == {}
    assert state.D.optimiser.param_groups[0]["lr"] == config.discriminator_learning_rate
    assert state.G.optimiser.param_groups[0]["lr"] == config.generator_learning_rate
    assert state.released is not state.G.net
    assert model_bytes(state.released) == model_bytes(state.G.net)
    assert model_bytes(state.G.net) == model_bytes(before.G.net)
    _, state, left = next(run)
    assert (state.phase, state.step, left) == ("training", 1, 0)


# ---------------------------------------------------------------------- without noise, and what is refused


@pytest.mark.parametrize("clip_fakes", [True, False])
def test_the_non_private_run_has_neither_clipping_nor_noise(clip_fakes: bool) -> None:
    """Whatever the bound, the step is that of plain gradients, exactly the same in two runs."""
    config = Config(**{**QUIET, "noise_multiplier": 0.0, "steps": 1}, max_norm=1e-4, clip_fakes=clip_fakes)
    ((before, after, g, _),) = steps(config)
    z, fake_labels = Public(config).latents()
    with torch.no_grad():
        fakes = before.G.net(z, fake_labels)
    on_records, _ = by_hand(before.D.net, *records().tensors(), real=True, bound=math.inf)
    on_fakes, _ = by_hand(before.D.net, fakes, fake_labels, real=False, bound=math.inf)
    close(g, (on_records + on_fakes) / (2 * B), share=1e-5)
    (again,) = states(config)
    assert torch.equal(again.D.vector, after.D.vector)
    noiseless = plan(
        "dpgan", dataclasses.replace(CARD, declared_size=200), {"expected_batch_size": 8}, epsilon=math.inf
    )
    assert noiseless.job.settings["noise_multiplier"] == 0
    assert math.isinf(noiseless.promise.epsilon)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"accuracy_decay": 1.0}, "`accuracy_decay` must be below 1"),
        ({"accuracy_floor": 1.2}, "`accuracy_floor` is a share"),
        ({"average_decay": 1.0}, "`average_decay` must be below 1"),
        ({"discriminator_steps": 0}, "`discriminator_steps` must be at least 1"),
        ({"max_norm": 0.0}, "`max_norm` must be above 0"),
        ({"expected_batch_size": 201}, "more than the declared size"),
        ({"momentum": 1.0}, "no setting 'momentum'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    card = dataclasses.replace(CARD, declared_size=200)
    with pytest.raises(RequestError, match=says):
        plan("dpgan", card, {"noise_multiplier": 1.0, "expected_batch_size": 8, **settings}, delta=1e-5)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(RequestError, match="width must be even"):
        fresh(Config(**{**QUIET, "width": 5}))
