"""What is particular to gs-wgan: its critics against double backward, who trains and who answers, shards, streams, resumes."""

import copy
import inspect
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import ConfinedError, RequestError
from gossamer.methods.contract import Run
from gossamer.methods.gs_wgan import Config, GsWgan, loop
from gossamer.methods.gs_wgan.critics import Answers, Critics
from gossamer.methods.gs_wgan.loop import CriticPool, State, start
from gossamer.methods.gs_wgan.nets import DcganGenerator, ProjectionCritic
from gossamer.methods.gs_wgan.stacked_critics import Batch, Layout, adam, penalised, rounded
from gossamer.methods.job import Job, Training
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.per_sample_gradients.penalty import Points, penalised_losses
from gossamer.privacy.random.noise import Rng
from gossamer.run.cli.main import main
from gossamer.run.training import checkpoint
from gossamer.run.training.plan import plan
from gossamer.run.training.progress import Process

CARD = DataCard(shape=(1, 28, 28), classes=3, declared_size=40)
METHOD = GsWgan()
TINY: dict[str, Any] = {
    "noise_multiplier": 1.0, "steps": 12, "critics": 5, "batch_size": 4, "critic_steps": 1, "critic_batch_size": 4,
    "width": 2, "latent_size": 4, "warm_steps": 0, "generator": "dcgan",
}  # fmt: skip


def records(n: int, seed: int = 0) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8), draw.integers(3, size=n))


def critics(
    held: Records,
    shards: list[int],
    count: int,
    *,
    steps: int = 2,
    storage: torch.dtype = torch.float32,
    width: int = 2,
) -> Critics:
    torch.manual_seed(0)
    template, throwaway = (kind((1, 28, 28), 3, width=width) for kind in (ProjectionCritic, DcganGenerator))
    config = settings_of(count, steps, "bfloat16" if storage is torch.bfloat16 else "float32")
    return Critics(held, np.array(shards), template, throwaway, config)


def settings_of(count: int, steps: int, storage: Literal["float32", "bfloat16"] = "float32") -> Config:
    return Config(
        critics=count, critic_batch_size=4, critic_steps=steps, critic_learning_rate=1e-3, storage=storage,
        noise_multiplier=1.0,
    )  # fmt: skip


def coins(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def fakes(n: int = 6) -> tuple[Tensor, Tensor]:
    return torch.rand(n, 1, 28, 28, generator=torch.Generator().manual_seed(1)), torch.arange(n) % 3


def confined(config: Config, held: Records, rng: Rng | None = None) -> tuple[Confined[Records], PrivacyLedger]:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=METHOD.relation(config))
    ledger.reserve(Job(METHOD, config, CARD).plan)
    return Confined(held, ledger, rng or Rng(0)), ledger


def begin(config: Config, rng: Rng | None = None) -> Training[Config, State]:
    return Job(METHOD, config, CARD).begin(rng or Rng(0))


def states(
    training: Training[Config, State], private: Confined[Records], public: Records | None = None
) -> Iterator[State]:
    """The state of a training, as it is after each step."""
    for reached in training.drive(private, public):
        if reached.logs is not None:
            yield training.state


def inside(state: State) -> Confined[Critics]:
    assert isinstance(state.critics, Confined)
    return state.critics


def load(training: Training[Config, State], rng: Rng, folder: Path, ledger: PrivacyLedger) -> None:
    saved, streams = checkpoint.load(folder, ledger) or ({}, {})
    training.state.load_state_dict(saved)
    rng.restore(streams)


class Watched:
    """Who trained and who answered, step by step; only a test may look. With `idle`, nobody really trains or answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, idle: bool = False) -> None:
        self.trained: list[list[int]] = []
        self.answered: list[int] = []
        learn, rows = Critics.learn, Answers.rows

        def seen_learn(held: Critics, chosen: Any, *rest: Any) -> None:
            self.trained.append(list(chosen))
            if not idle:
                learn(held, chosen, *rest)

        def seen_rows(query: Answers, held: Critics, critics: Any) -> Tensor:
            self.answered += critics
            return torch.zeros_like(query.images) if idle else rows(query, held, critics)

        monkeypatch.setattr(Critics, "learn", seen_learn)
        monkeypatch.setattr(Answers, "rows", seen_rows)


def run(config: Config, *, rng: Rng | None = None, held: Records | None = None) -> tuple[State, PrivacyLedger]:
    training = begin(config, rng)
    private, ledger = confined(config, held or records(40), training.run.rng)
    *_, last = states(training, private)
    return last, ledger


# ---------------------------------------------------------------------- the critics' mathematics


def test_the_stacked_gradient_is_that_of_double_backward() -> None:
    """Three critics at once against `penalised_losses` of each alone, in float64; the drift term too."""
    torch.manual_seed(0)
    nets = [ProjectionCritic((1, 28, 28), 3, width=2).double().eval() for _ in range(3)]
    layout, M = Layout.of(nets[0]), 4
    rows = torch.stack([layout.flat(net) for net in nets])
    directions = torch.stack([layout.flat_directions(net) for net in nets])
    images = torch.rand(3 * M, 3, 1, 28, 28, dtype=torch.float64)
    labels = torch.randint(3, (M, 3)).repeat(3, 1)
    net = layout.network(rows, directions)
    found = layout.gradient(rows, net, penalised(net, Batch(images.flatten(1, 2), labels), 10.0, 0.5))
    for i, each in enumerate(nets):
        fake, real, between = (images[part * M : (part + 1) * M, i] for part in range(3))
        points = Points(real, fake, between, labels[:M, i])
        losses = penalised_losses(each, points, penalty=10.0) + 0.5 * points.judged(each, real).square()
        plain = torch.cat([g.reshape(-1) for g in torch.autograd.grad(losses.mean(), list(each.parameters()))])
        torch.testing.assert_close(found[i], plain, rtol=1e-9, atol=1e-12)


def test_rows_are_the_gradient_of_minus_the_score_at_each_image() -> None:
    held = critics(records(20), [0, 1, 2, 0] * 5, 3)
    x, y = fakes()
    held.learn([1], x, y, coins(1))
    net = ProjectionCritic((1, 28, 28), 3, width=2).eval()
    parts = held.layout.split(held.weights[1:2])
    net.load_state_dict({
        **{name: part[0] for (name, _), part in zip(net.named_parameters(), parts, strict=True)},
        **dict(zip([n for n, _ in net.named_buffers()], held.directions[1].split([2, 4, 8, 1, 3]), strict=True)),
    })  # fmt: skip
    given = x.clone().requires_grad_()
    (plain,) = torch.autograd.grad(-net(given, y).sum(), given)
    torch.testing.assert_close(Answers(x[None], y[None]).rows(held, [1])[0], plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [1, 3])
def test_colour_records_train_critics_that_answer(count: int) -> None:
    """Fakes of three channels may lie in memory channels last; for one channel that is the same order."""
    draw = np.random.default_rng(0)
    held = Records(draw.integers(0, 256, (20, 3, 28, 28)).astype(np.uint8), draw.integers(3, size=20))
    torch.manual_seed(0)
    template, throwaway = (kind((3, 28, 28), 3, width=4) for kind in (ProjectionCritic, DcganGenerator))
    panel = Critics(held, np.arange(20) % count, template, throwaway, settings_of(count, 2))
    x, y = torch.rand(6, 3, 28, 28, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3
    x = x.contiguous(memory_format=torch.channels_last)  # as the generator gives them
    panel.learn([count - 1], x, y, coins(1))
    net = ProjectionCritic((3, 28, 28), 3, width=4).eval()
    parts = panel.layout.split(panel.weights[-1:])
    sizes = [len(buffer) for _, buffer in net.named_buffers()]
    net.load_state_dict({
        **{name: part[0] for (name, _), part in zip(net.named_parameters(), parts, strict=True)},
        **dict(zip([n for n, _ in net.named_buffers()], panel.directions[-1].split(sizes), strict=True)),
    })  # fmt: skip
    given = x.clone().requires_grad_()
    (plain,) = torch.autograd.grad(-net(given, y).sum(), given)
    torch.testing.assert_close(Answers(x[None], y[None]).rows(panel, [count - 1])[0], plain, rtol=1e-4, atol=1e-6)


def test_one_visit_is_steps_of_adam_on_pairs_of_one_label() -> None:
    """A visit redone by hand with torch's Adam and double backward; every fake has its record's label."""
    held = critics(records(9), [0] * 9, 1, steps=3)
    x, y = fakes()
    batches = held._batches([0], x[None], y, coins(5))
    for batch in batches:
        for image, label in zip(batch.images[:4], batch.labels[:4, 0], strict=True):
            partner = int((x - image).abs().sum((1, 2, 3)).argmin())
            assert y[partner] == label
    rows = held.weights.double().requires_grad_()
    optimiser = torch.optim.Adam([rows], lr=1e-3, betas=(0.5, 0.9))
    directions = held.directions.double()
    for batch in batches:
        directions = held.layout.iterate(rows.detach(), directions)
        net = held.layout.network(rows.detach(), directions)
        given = Batch(batch.images.double(), batch.labels)
        rows.grad = held.layout.gradient(rows.detach(), net, penalised(net, given, 10.0, 0.001))
        optimiser.step()
    held.learn([0], x, y, coins(5))
    torch.testing.assert_close(held.weights.double(), rows.detach(), rtol=0, atol=2e-4)
    assert held.visits.tolist() == [1]


def test_adam_counts_steps_for_each_critic_alone() -> None:
    g = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows, mean, square = torch.zeros_like(g), torch.zeros_like(g), torch.zeros_like(g)
    mean[1], square[1] = 0.3, 0.2
    adam(rows, g, mean, square, torch.tensor([1.0, 7.0], dtype=torch.float64), 0.1)
    torch.testing.assert_close(rows[0], -0.1 * g[0].sign(), rtol=1e-6, atol=1e-6)
    expected = (0.15 + 0.5 * g[1]) / (1 - 0.5**7) / ((0.18 + 0.1 * g[1] ** 2) / (1 - 0.9**7)).sqrt()
    torch.testing.assert_close(rows[1], -0.1 * expected, rtol=1e-6, atol=1e-9)


def test_compact_storage_is_right_on_average() -> None:
    """Mean over 4,000 roundings of a number a quarter of the way between two of bfloat16; error rate 1e-6."""
    low, high = 1.0, 1.0 + 2.0**-7
    value = low + (high - low) / 4
    stored = rounded(torch.full((1, 4000), value), torch.bfloat16, coins(0)).float()
    assert set(stored.unique().tolist()) == {low, high}
    share = float((stored == high).float().mean())
    assert abs(share - 0.25) < 4.892 * math.sqrt(0.25 * 0.75 / 4000)


def test_compact_storage_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = fakes()
    wide, compact = (critics(records(9), [0] * 9, 1, storage=dtype) for dtype in (torch.float32, torch.bfloat16))
    for turn in range(5):
        for held in (wide, compact):
            held.learn([0], x, y, coins(turn))
    assert compact.weights.element_size() == 2
    assert float((wide.weights - compact.weights.float()).norm() / wide.weights.norm()) < 0.02


# ---------------------------------------------------------------------- the conditions of accounting.md


def snapshot(held: Critics) -> dict[str, Any]:
    return copy.deepcopy({**held.state_dict(), "sizes": held.sizes, "images": held.images})


def equal(before: Any, after: Any) -> bool:
    if isinstance(before, Tensor):
        return torch.equal(before, after)
    if isinstance(before, np.ndarray):
        return bool((before == after).all())
    if isinstance(before, dict):
        return all(equal(value, after[name]) for name, value in before.items())
    return bool(before == after)


def test_answering_is_read_only() -> None:
    """Condition 2: weights, directions, moments, counts, throw-away generators and torch's own state are bitwise the same."""
    held = critics(records(20), [0, 1, 2, 0] * 5, 3)
    x, y = fakes()
    held.begin_warm(3)
    held.warm_round(range(3), torch.randn(4, 10), torch.arange(4) % 3, coins(1, 2, 3))
    before, stream = snapshot(held), torch.get_rng_state()
    mechanism = SanitizedRows(draw="secret", critics=3, batch_size=6, max_norm=1.0, noise_multiplier=1.0)
    for _ in range(6):
        mechanism(held, Answers(x[None], y[None]), Rng())
    assert equal(before, snapshot(held))
    assert torch.equal(stream, torch.get_rng_state())


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30, -3.0])
@pytest.mark.parametrize("count", [2, 5, 16])
def test_an_adversarial_critic_moves_no_other_answer_of_its_call(count: int, bad: float) -> None:
    """One record changes one critic, arbitrarily; those asked in the same stack answer, and learn, bitwise as before."""
    at, others = count // 2, [critic for critic in range(count) if critic != count // 2]
    x, y = torch.rand(count, 2, 1, 28, 28, generator=torch.Generator().manual_seed(1)), torch.zeros(count, 2).long()
    answers, weights = [], []
    for changed in (False, True):
        held = critics(records(4 * count), [*range(count)] * 4, count)
        if changed:
            held.weights[at] = bad
        answers.append(Answers(x, y).rows(held, range(count))[others])
        held.learn(range(count), *fakes(), coins(*range(count)))
        weights.append(held.weights[others])
    assert torch.equal(*answers)
    assert torch.equal(*weights)


def test_a_changed_shard_moves_no_other_critic() -> None:
    """Condition 3: under fixed secret seeds one record more, put first, changes its own critic and no other, bitwise.

    Its shard was empty before, so that a stream shared with other critics would be shifted for those that come after it.
    """
    config = Config(**{**TINY, "warm_steps": 2, "warm_stack": 3})
    few = records(30)
    more = Records(np.insert(few.images, 0, 255, axis=0), np.insert(few.labels, 0, 2))
    shards = np.random.default_rng(0).choice([0, 1, 2, 4], size=30)
    rows = []
    for held, dealt in ((few, shards), (more, np.insert(shards, 0, 3))):
        rng = Rng(0, noise_seed=1)
        private, _ = confined(config, held, rng)
        coined = rng.common_integers
        rng.common_integers = lambda n, high, dealt=dealt, coined=coined: dealt if n > 1 else coined(n, high)  # type: ignore[method-assign]  # the coins of the shards, matched
        mechanism = SanitizedRows.exact
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                SanitizedRows, "exact", lambda self, h, q, rng, ask=mechanism: torch.zeros_like(ask(self, h, q, rng))
            )
            *_, state = states(begin(config, rng), private)
        inside(state).update(lambda critics: rows.append(critics.weights.clone()))
    changed = [i for i in range(5) if not torch.equal(rows[0][i], rows[1][i])]
    assert changed == [3]


def test_shards_are_drawn_by_independent_coins_once_and_kept(tmp_path: Path) -> None:
    """Condition 4. Counts of 5 shards over 4,000 units, with the variance of independent coins; error rate 1e-5."""
    config = Config(**TINY)
    private, ledger = confined(config, Records(np.zeros((4000, 1, 28, 28), np.uint8), np.zeros(4000, np.int64)))
    seen: list[np.ndarray] = []
    given = Run(config, CARD, Rng(0))
    state = start(given)
    state.confine(given, private).update(lambda held: seen.append(held.shards))
    counts = np.bincount(seen[0], minlength=5)
    assert np.abs(counts - 800).max() < 4.892 * math.sqrt(4000 * 0.2 * 0.8)
    assert len(set(counts)) > 1
    checkpoint.save(tmp_path, state.state_dict(), {}, ledger)
    again = start(given)
    again.load_state_dict((checkpoint.load(tmp_path, ledger) or ({}, {}))[0])
    again.confine(Run(config, CARD, Rng(5)), private).update(lambda held: seen.append(held.shards))
    assert (seen[0] == seen[1]).all()


def test_a_unit_has_one_shard() -> None:
    held = records(12)
    dealt = critics(Records(held.images, held.labels, np.arange(12) // 4), [2, 0, 2], 3)
    assert dealt.sizes.tolist() == [4, 0, 8]
    assert torch.equal(dealt.images[:4], torch.from_numpy(held.images[4:8]))
    assert not dealt.images[12:].any()


def test_a_critic_with_an_empty_shard_exists_and_answers() -> None:
    held = critics(records(6), [0] * 6, 3)
    x, y = fakes()
    before = held.weights.clone()
    held.learn([0, 1], x, y, coins(1, 2))
    held.learn([2], x, y, coins(3))
    assert torch.equal(held.weights[1:], before[1:])
    assert not torch.equal(held.weights[0], before[0])
    for critic in range(3):
        assert float(Answers(x[None], y[None]).rows(held, [critic]).abs().sum()) > 0
    run(Config(**TINY), held=records(1))
    run(Config(**{**TINY, "warm_steps": 1}), held=Records(np.zeros((0, 1, 28, 28), np.uint8), np.zeros(0, np.int64)))


def test_in_the_secret_draw_training_does_not_look_at_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who trains is the public schedule, whoever answered; who answers is uniform given who trains. Two chi-squares over 25
    cells and a count of coincidences; error rate 3e-6."""
    seen = Watched(monkeypatch, idle=True)
    run(Config(**{**TINY, "steps": 400, "width": 1, "batch_size": 1, "critic_batch_size": 1}), held=records(5))
    assert seen.trained == [[t % 5] for t in range(400)]
    answered, trained = np.array(seen.answered), np.array(seen.trained)[:, 0]
    assert abs(float((answered == trained).mean()) - 0.2) < 4.892 * math.sqrt(0.16 / 400)
    for pairs in (5 * trained + answered, 5 * answered[:-1] + answered[1:]):
        counts = np.bincount(pairs, minlength=25)
        assert float(((counts - len(pairs) / 25) ** 2 / (len(pairs) / 25)).sum()) < 75.6


def test_visits_go_on_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watched(monkeypatch)
    run(Config(**{**TINY, "steps": 4, "visits": 3}))
    assert seen.trained == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]


def test_several_answers_of_a_step_have_draws_and_charges_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who trains goes on by steps, who answers is drawn for each answer. A chi-square over 25 cells; error rate 1e-6."""
    seen = Watched(monkeypatch, idle=True)
    _, ledger = run(Config(**{**TINY, "steps": 200, "answers": 2, "width": 1, "batch_size": 1, "critic_batch_size": 1}))
    assert seen.trained == [[t % 5] for t in range(200)]
    assert ledger.used == [400]
    assert ledger.unused == [0]
    first, second = np.array(seen.answered).reshape(200, 2).T
    counts = np.bincount(5 * first + second, minlength=25)
    assert float(((counts - 8) ** 2 / 8).sum()) < 75.6


def test_in_turns_those_that_will_answer_train_and_a_pass_may_end_within_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Watched(monkeypatch)
    _, ledger = run(Config(**{**TINY, "steps": 6, "answers": 3}, draw="round_robin"))
    assert seen.trained == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1], [2, 3, 4], [0, 1, 2]]
    assert seen.answered == [t % 5 for t in range(18)]
    assert ledger.used == [4]


@pytest.mark.parametrize("answers", [1, 3])
def test_the_generator_descends_along_the_released_rows(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equations 9 and 11 with rows that the test has made: the generator's gradient is the mean over images of row times
    derivative of the image, by a plain loop in float64, and not its opposite. Only as many images lead back as have rows."""
    rows = torch.randn(4 * answers, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(
        SanitizedRows, "exact", lambda self, held, query, rng: (query.rows(held, [0] * answers), rows.clone())[1]
    )
    config = Config(**{**TINY, "noise_multiplier": 0.0, "steps": 1, "answers": answers})
    state, _ = run(config)
    fresh = start(Run(config, CARD, Rng(0)))
    z, y = fresh.G.latents(Run(config, CARD, Rng(0)), max(4 * answers, 4))
    G = copy.deepcopy(fresh.G.net).double()
    expected = torch.zeros(sum(p.numel() for p in G.parameters()), dtype=torch.float64)
    for latent, label, row in zip(z.double(), y, rows.double(), strict=True):
        parts = torch.autograd.grad((G(latent[None], label[None])[0] * row).sum(), list(G.parameters()))
        expected += torch.cat([part.flatten() for part in parts]) / (4 * answers)
    found = torch.cat(
        [torch.zeros(0) if p.grad is None else p.grad.flatten() for p in state.G.net.parameters()]
    ).double()
    assert float((found - expected).norm()) < 1e-2 * float(expected.norm())  # pixels at a kink may fall on either side


def test_a_step_of_several_answers_is_the_step_of_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal critics and no noise: 4 answers of 2 rows are one answer of 8, each row at its own image."""
    monkeypatch.setattr(Critics, "learn", lambda *rest: None)
    ends = []
    for answers, rows in ((4, 2), (1, 8)):
        config = Config(**{**TINY, "noise_multiplier": 0.0, "steps": 1, "answers": answers, "batch_size": rows})
        ends.append(run(config)[0].G.optimiser.state_dict()["state"][0]["exp_avg"])
    torch.testing.assert_close(*ends, rtol=1e-5, atol=1e-9)
    assert float(ends[0].abs().max()) > 1e-6


@pytest.mark.parametrize("draw", ["round_robin", "paper"])
def test_else_the_critic_that_trains_answers(draw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watched(monkeypatch)
    _, ledger = run(Config(**TINY, draw=draw))
    assert [[critic] for critic in seen.answered] == seen.trained
    assert ledger.used == ([3] if draw == "round_robin" else [12])
    assert (seen.answered == [t % 5 for t in range(12)]) == (draw == "round_robin")


def test_a_resumed_round_robin_begins_a_new_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Condition 7: the place is the number of charges, whatever step the checkpoint is of; nobody answers more than planned."""
    seen = Watched(monkeypatch)
    config = Config(**{**TINY, "steps": 15}, draw="round_robin")
    private, ledger = confined(config, records(40))
    ledger.create(tmp_path / "ledger.jsonl")
    rng = Rng(0)
    for state in states(begin(config, rng), private):
        if state.step == 3:
            checkpoint.save(tmp_path, state.state_dict(), rng.state(), ledger)
        if state.step == 7:
            break  # the crash: two passes are charged, the checkpoint is of the first
    resumed, again = Rng(0), begin(config)
    load(again, resumed, tmp_path, ledger)
    assert again.state.step == 3
    lefts: list[int] = []
    monkeypatch.setattr(
        CriticPool, "left", property(lambda self, left=CriticPool.left.fget: lefts.append(left(self)) or lefts[-1])
    )
    assert len(list(states(again, private))) == 5
    assert seen.answered == [0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3, 4]
    assert lefts == [5, 4, 3, 2, 1, 0]
    assert ledger.used == [3]
    ledger.close()


@pytest.mark.parametrize("draw", ["secret", "round_robin", "paper"])
@pytest.mark.parametrize("kind", ["resnet", "dcgan"])
def test_non_interference_of_every_draw(draw: Any, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deaf mechanism, same seeds, unrelated records of another number: released generators are bitwise equal."""
    ask = SanitizedRows.exact
    monkeypatch.setattr(
        SanitizedRows, "exact", lambda self, held, query, rng: torch.zeros_like(ask(self, held, query, rng))
    )
    config = Config(**{**TINY, "steps": 6, "generator": kind, "warm_steps": 1}, draw=draw)
    first, second = (run(config, rng=Rng(1, noise_seed=2), held=held)[0] for held in (records(40), records(7, seed=3)))
    for mine, theirs in zip(first.released.state_dict().values(), second.released.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)


# ---------------------------------------------------------------------- sealed critics


def test_a_sealed_file_is_private_complete_and_the_only_one(tmp_path: Path) -> None:
    config = Config(**TINY)
    private, ledger = confined(config, records(20))
    steps = states(begin(config), private)
    for _ in range(3):
        state = next(steps)
        checkpoint.save(tmp_path, state.state_dict(), {}, ledger)
    (sealed,) = tmp_path.glob("*.sealed")
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o600
    with pytest.raises(ConfinedError):
        inside(state).seal(sealed)  # an existing file is not written over
    found: list[dict[str, Any]] = []
    inside(state).update(lambda held: found.append(snapshot(held)))
    saved = torch.load(sealed, weights_only=True)
    assert equal({name: saved[name] for name in saved}, found[0])


def test_seal_is_called_by_the_checkpoint_alone() -> None:
    source = Path(inspect.getfile(gossamer)).parent
    callers = [path.name for path in source.rglob("*.py") if ".seal(" in path.read_text()]
    assert callers == ["checkpoint.py"]


@pytest.mark.parametrize("public", [None, records(9, seed=1)], ids=["alone", "after a public start"])
def test_the_warm_start_goes_on_in_the_middle_of_a_stack(public: Records | None, tmp_path: Path) -> None:
    config = Config(**{**TINY, "warm_steps": 3, "warm_stack": 2, "steps": 1}, public_steps=2)

    def end(at: int | None) -> Tensor:
        rng, resumed = Rng(1, noise_seed=2), None
        private, ledger = confined(config, records(40), rng)
        for done, state in enumerate(states(begin(config, rng), private, public), start=1):
            if done == at:
                checkpoint.save(tmp_path, state.state_dict(), rng.state(), ledger)
                rng = Rng(1, noise_seed=2)
                resumed = begin(config, rng)
                load(resumed, rng, tmp_path, ledger)
                break
        if resumed is not None:
            *_, state = states(resumed, private, public)
        found: list[Tensor] = []
        inside(state).update(lambda held: found.append(held.weights.clone()))
        return found[0]

    whole = end(None)
    assert all(torch.equal(end(at), whole) for at in (1, 2, 4, 9, 11 if public else 9))


def test_after_a_public_start_every_critic_begins_where_the_public_one_ended() -> None:
    config = Config(**TINY, public_steps=4, public_learning_rate=1e-2)
    private, _ = confined(config, records(40))
    given = Run(config, CARD, Rng(0))
    state = start(given)
    before = {name: value.clone() for name, value in state.critic.state_dict().items()}
    for _ in loop.public_start(given, state, records(9, seed=1)):
        pass
    assert state.public_critic is None
    assert not torch.equal(state.critic.state_dict()["downs.0.weight"], before["downs.0.weight"])
    found: list[Critics] = []
    state.confine(given, private).update(found.append)
    for row, directions in zip(found[0].weights, found[0].directions, strict=True):
        assert torch.equal(row, found[0].layout.flat(state.critic))
        assert torch.equal(directions, found[0].layout.flat_directions(state.critic))
    assert all(group["lr"] == config.generator_learning_rate for group in state.G.optimiser.param_groups)
    assert not state.G.optimiser.state


def test_after_a_public_start_critics_warm_up_on_the_fakes_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watched(monkeypatch)
    monkeypatch.setattr(Critics, "begin_warm", None)  # no throw-away generator
    config = Config(**{**TINY, "warm_steps": 2, "warm_stack": 3, "steps": 1}, public_steps=2)
    private, _ = confined(config, records(40))
    reached = [(state.phase, state.step) for state in states(begin(config), private, records(9))]
    assert reached == [
        *[("public start", step) for step in (1, 2)],
        *[("warm start", step) for step in (1, 2, 3, 4)],
        ("training", 1),
    ]
    assert seen.trained == [[0], [0], [0, 1, 2], [0, 1, 2], [3, 4], [3, 4], [0]]


# ---------------------------------------------------------------------- settings, plans, the command line


def test_the_non_private_run_is_neither_clipped_nor_private() -> None:
    config = Config(**{**TINY, "noise_multiplier": 0.0})
    private, _ = confined(config, records(4))
    asked = Run(config, CARD, Rng(), queries=METHOD.queries(config, CARD))
    panel = CriticPool(asked, private.map(lambda held: critics(held, [0] * 4, 5)))
    assert math.isinf(panel._mechanism.max_norm)
    for draw in ("secret", "round_robin", "paper"):
        _, ledger = run(Config(**{**TINY, "noise_multiplier": 0.0, "draw": draw}))
        assert ledger.promise().epsilon == math.inf


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(RequestError, match="goes with `draw=secret`"):
        _ = Job(METHOD, Config(**TINY, draw="paper", visits=2), CARD).plan
    with pytest.raises(RequestError, match="`visits=6` is not between 1 and the 5 critics"):
        _ = Job(METHOD, Config(**TINY, visits=6), CARD).plan
    with pytest.raises(RequestError, match="`answers=0` is not between 1 and the 5 critics"):
        _ = Job(METHOD, Config(**TINY, answers=0), CARD).plan
    with pytest.raises(RequestError, match="the paper asks one critic a step"):
        _ = Job(METHOD, Config(**TINY, draw="paper", answers=2), CARD).plan


def test_a_trial_of_the_papers_draw_asks_one_critic_a_step_and_shows_which() -> None:
    """So many answers as the run asks for: an audit with fewer would bound less than the run reveals."""
    given = [{"draw": draw, "steps": 5, "answers": 3} for draw in ("paper", "round_robin")]
    trials = [GsWgan.trial.given(settings) for settings in given]
    found = [(trial.settings["steps"], trial.settings["answers"], trial.revealed) for trial in trials]
    assert found == [(15, 1, True), (5, 3, False)]


@pytest.mark.parametrize("draw", ["secret", "round_robin", "paper"])
def test_noise_and_relation_of_a_request(draw: Any) -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    settings = {"draw": draw, "noise_multiplier": 12.0, "steps": 500, "critics": 100}
    request = plan("gs-wgan", card, settings, delta=1e-5)
    assert request.job.relation is METHOD.relation(Config(**settings))
    assert request.promise.relation is request.job.relation
    assert 0 < request.promise.epsilon < 10


def test_presets_as_published_cost_what_they_cost() -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    request = plan("gs-wgan", card, delta=1e-5, preset="paper-mnist-published")
    assert {bound.accountant: round(bound.guarantee.epsilon) for bound in request.bounds} == {
        "revealed mixture": 610,
        "revealed RDP": 659,
    }


def test_with_a_draw_for_each_row_the_published_noise_holds() -> None:
    """20,000 steps of 32 rows, as published; accounting.md: 640,000 draws cost 5.508, by the authors' way of counting 9.243."""
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    request = plan("gs-wgan", card, delta=1e-5, preset="paper-mnist-row-by-row")
    assert request.plan[0][1] == 640_000
    assert {bound.accountant: round(bound.guarantee.epsilon, 2) for bound in request.bounds} == {
        "RDP": 9.24,
        "PLD": 5.51,
    }
    assert request.promise.epsilon == pytest.approx(5.508, abs=1e-3)
    assert request.job.settings["answers"] * request.job.settings["batch_size"] == 32


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return out


def test_account_prints_the_readings_of_the_published_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """accounting.md: 9.24 as the authors count, no useful bound for the joint secret step, 610 and 659 with known draws."""
    terms = ["--critics", 1000, "--noise-multiplier", 1.07, "--delta", 1e-5]
    authors = said(capsys, "account", "--draw", "secret", "--batch-size", 1, "--steps", 640_000, *terms)
    assert "RDP: epsilon 9.243 at delta 1e-05, replace-one record" in authors
    assert "PLD: epsilon 5.509 at delta 1e-05, replace-one record" in authors
    paper = said(capsys, "account", "--draw", "paper", "--batch-size", 32, "--steps", 20_000, *terms)
    assert "revealed mixture: epsilon 610.349" in paper
    assert "revealed RDP: epsilon 659.104" in paper
    assert "sampling rate 0.001, noise multiplier 1.07, steps 20,000" in paper


def test_account_with_a_draw_refuses_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["--draw", "secret", "--critics", 10, "--noise-multiplier", 1, "--steps", 5],
        ["--critics", 10, "--sampling-rate", 0.1, "--noise-multiplier", 1, "--steps", 5],
        ["--draw", "paper", "--critics", 10, "--batch-size", 4, "--noise-multiplier", 1],
    ):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in ["account", *words, "--delta", 1e-5]])
        assert ended.value.code == 2


def test_plan_says_which_draw(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text("shape = [1, 28, 28]\nclasses = 10\ndeclared_size = 60000\n")
    words = ["--card", tmp_path / "card.toml", "--delta", 1e-5, "--noise-multiplier", 400, "--steps", 1_050]
    text = said(capsys, "plan", "gs-wgan", *words, "--draw", "round_robin", "--critics", 100)
    assert "100 critics answer in turns, each 11 times; nothing is amplified" in text
    assert "noisy queries: 11 x a sum with Gaussian noise, noise multiplier 100" in text
    assert "steps 1,050" in text


@pytest.mark.parametrize("draw", ["secret", "round_robin"])
def test_a_run_from_end_to_end_verifies(draw: Any, tmp_path: Path) -> None:
    from gossamer.run.release.verify import verify
    from gossamer.run.training.fit import fit
    from gossamer.run.training.resume import resume

    data = records(40)
    np.savez(tmp_path / "data.npz", images=data.images[:, 0], labels=data.labels)

    def crash(event: Any) -> None:
        if event.kind == "step" and event.step == 7:
            raise KeyboardInterrupt

    # More than a block of charges, so that a crash before the first checkpoint leaves something to go on with.
    terms: dict[str, Any] = {**TINY, "draw": draw, "warm_steps": 1, "noise_multiplier": 30.0, "steps": 24}
    with pytest.raises(KeyboardInterrupt):
        fit(
            "gs-wgan",
            data=tmp_path / "data.npz",
            card=CARD,
            out=tmp_path / "run",
            delta=1e-3,
            **terms,
            process=Process(sink=crash),
        )
    synthesizer = resume(tmp_path / "run")
    verdict = verify(tmp_path / "run")
    assert verdict.ok, verdict.problems
    assert synthesizer.certificate.guarantee["relation"] == ("replace-one" if draw == "secret" else "add-or-remove-one")
    assert synthesizer.sample(5, seed=0).images.shape == (5, 1, 28, 28)
    assert not list((tmp_path / "run").glob("*.sealed"))
