"""privGAN's own mathematics: parts, objectives, schedule, release; and that nothing of it passes for private."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import BudgetError, DataError, RequestError
from gossamer.methods.contract import Run
from gossamer.methods.job import Job, Training
from gossamer.methods.privgan import REASON, Config, Privgan, length, loop
from gossamer.methods.privgan.loop import start
from gossamer.methods.privgan.nets import Mixture
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan

PRIVGAN = Privgan()
CARD = DataCard(shape=(1, 6, 6), classes=3, declared_size=120)
FEW = {
    "batch_size": 10,
    "width": 8,
    "latent_size": 5,
    "epochs": 2,
    "adversary_warm_epochs": 1,
    "adversary_delay_epochs": 1,
}


def records(n=120, seed=0):
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 6, 6)).astype(np.uint8), np.arange(n) % 3)


def run_of(config, seed=0):
    return Run(config, CARD, Rng(seed))


def fresh(config):
    return start(run_of(config))


def training(config, *, held=None):
    """The state after each step, with where it is; and the ledger."""
    ledger = PrivacyLedger(budget=math.inf, delta=1e-4)
    ledger.reserve(Job(PRIVGAN, config, CARD).plan)
    run = run_of(config)
    private = Confined(records() if held is None else held, ledger, run.rng)
    return steps(Training(Job(PRIVGAN, config, CARD), run), private), ledger


def steps(going, private):
    for reached in going.drive(private):
        if reached.logs is not None:
            yield reached, going.state


def last_of(config, **more):
    *_, (_, state) = training(config, **more)[0]
    return state


def weights(module):
    return torch.cat([parameter.detach().flatten().clone() for parameter in module.parameters()])


# ---------------------------------------------------------------- the parts


def test_parts_are_equal_disjoint_random_and_found_again():
    held, config = records(103), Config(pairs=4, **FEW)
    [parts] = loop.partition(held, config, CARD, seed=7)
    assert sorted(map(len, parts)) == [25, 26, 26, 26]
    rows = [image.tobytes() for part in parts for image in part.images]
    assert sorted(rows) == sorted(image.tobytes() for image in held.images)
    assert rows[:25] != [image.tobytes() for image in held.images[:25]]  # not the order of the file
    [again] = loop.partition(held, config, CARD, seed=7)
    [other] = loop.partition(held, config, CARD, seed=8)
    np.testing.assert_array_equal(parts[0].images, again[0].images)
    assert not np.array_equal(parts[0].images, other[0].images)


def test_a_unit_lies_in_one_part():
    held = Records(records(60).images, np.zeros(60, int), np.repeat(np.arange(20), 3))
    [parts] = loop.partition(held, Config(pairs=2, **FEW), CARD, seed=1)
    owner = {image.tobytes(): unit for image, unit in zip(held.images, held.units, strict=True)}
    units = [{owner[image.tobytes()] for image in part.images} for part in parts]
    assert [len(each) for each in units] == [10, 10]
    assert not units[0] & units[1]


def test_per_class_cuts_every_class():
    found = loop.partition(records(), Config(labels="per-class", **{**FEW, "batch_size": 5}), CARD, seed=1)
    assert len(found) == 3
    for label, parts in enumerate(found):
        assert all((part.labels == label).all() for part in parts)
        assert sum(map(len, parts)) == 40
    with pytest.raises(DataError, match="class 2"):
        loop.partition(Records(records().images, np.arange(120) % 2), Config(labels="per-class", **FEW), CARD, 0)


# ---------------------------------------------------------------- the objectives


def test_wrong_class_asks_for_any_other_generator_and_never_the_own():
    """Against a direct count: with logits that make class k cost k, the mean cost tells which targets were drawn."""
    config = Config(pairs=4, **FEW)
    own = torch.arange(4).repeat_interleave(3_000)
    costs = torch.tensor([0.0, 1.0, 2.0, 3.0])
    answers = (-costs).repeat(len(own), 1)
    found = float(loop.misleading(run_of(config), answers, own))
    targets = [[k for k in range(4) if k != j] for j in range(4)]
    expected = float(np.mean([costs[k] for others in targets for k in others])) + float(torch.logsumexp(-costs, 0))
    # 12,000 draws with standard deviation below 1.5: 5 standard errors are 0.07.
    assert found == pytest.approx(expected, abs=0.07)
    sure = torch.full((4, 4), 0.0) + 50 * torch.eye(4)  # certain of the right one: every wrong target costs 50
    assert float(loop.misleading(run_of(config), sure, torch.arange(4))) == pytest.approx(50, abs=1e-3)


def test_two_pairs_have_only_one_wrong_class():
    """N = 2: -log(1 - D_p), exactly; and equation 5 is +log D_p."""
    answers, own = torch.tensor([[0.3, -1.2], [2.0, 0.5]]), torch.tensor([0, 1])
    right = answers.softmax(1)[torch.arange(2), own]
    wrong = loop.misleading(run_of(Config(**FEW)), answers, own)
    torch.testing.assert_close(wrong, -torch.log(1 - right).mean())
    five = loop.misleading(run_of(Config(objective="equation-5", **FEW)), answers, own)
    torch.testing.assert_close(five, torch.log(right).mean())


def test_generator_loss_adds_lambda_times_what_the_adversary_sees():
    [model] = fresh(Config(**FEW)).models
    images = [torch.rand(10, 1, 6, 6, generator=torch.Generator().manual_seed(j)) for j in range(2)]
    labels = [torch.arange(10) % 3] * 2
    own = torch.arange(2).repeat_interleave(10)
    answers = model.adversary.net(torch.cat(images), torch.cat(labels))
    mislead = -torch.log(1 - answers.softmax(1)[torch.arange(20), own]).view(2, 10).mean(1).sum()
    deceive = sum(
        -torch.log(torch.sigmoid(D(x, y))).mean() for D, x, y in zip(model.discriminators, images, labels, strict=True)
    )
    for weight in (0.0, 1.0, 10.0):
        config = Config(privacy_weight=weight, **FEW)
        loss, shown = loop.generator_loss(run_of(config), model, list(zip(images, labels, strict=True)))
        torch.testing.assert_close(loss, deceive + weight * mislead, rtol=1e-4, atol=1e-5)
    assert shown["generator_loss"] == pytest.approx(float(deceive.detach()) / 2, rel=1e-4)


def test_discriminators_learn_from_their_own_part_and_their_own_fakes():
    """One pair's records do not move the other's discriminator."""

    def moved(second_part):
        config = Config(labels="none", **FEW)
        [model] = fresh(config).models
        one = records(20, seed=1)
        fakes = [(torch.full((10, 1, 6, 6), 0.5), torch.zeros(10, dtype=torch.int64))] * 2
        loss = loop.discriminator_loss(run_of(config), model, [one, second_part], fakes)
        return torch.autograd.grad(loss, list(model.discriminators.parameters()))

    first, second = moved(records(20, seed=2)), moved(records(20, seed=3))
    half = len(first) // 2
    for a, b in zip(first[:half], second[:half], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert any(not torch.equal(a, b) for a, b in zip(first[half:], second[half:], strict=True))


# ---------------------------------------------------------------- the schedule


def test_warm_up_teaches_the_adversary_alone_and_the_delay_lets_it_rest():
    config = Config(**{**FEW, "epochs": 3})
    states, _ = training(config)
    assert length(config, CARD) == (12, 18)  # 120 / 10 batches of all records; 3 epochs of 120 / 2 / 10
    assert [(phase.name, phase.steps) for phase in PRIVGAN.phases(config, CARD)] == [
        ("warm start", 12),
        ("training", 18),
    ]
    seen = []
    for reached, state in states:
        [model] = state.models
        seen.append((reached.phase.name, reached.step, weights(model.adversary.net), weights(model.generators)))
    assert [each[:2] for each in seen] == [("warm start", i) for i in range(1, 13)] + [
        ("training", i) for i in range(1, 19)
    ]
    adversary = [bool((a[2] != b[2]).any()) for a, b in pairwise(seen)]
    generators = [bool((a[3] != b[3]).any()) for a, b in pairwise(seen)]
    assert adversary == [True] * 11 + [False] * 6 + [True] * 12  # one epoch of delay: 6 batches
    assert generators == [False] * 11 + [True] * 18


def test_the_adversary_learns_the_parts_it_is_shown():
    """Two parts that differ in brightness are told apart after the warm-up."""
    images = np.zeros((120, 1, 6, 6), np.uint8)
    held = Records(images, np.zeros(120, int))
    config = Config(labels="none", **{**FEW, "adversary_warm_epochs": 20, "learning_rate": 1e-2})
    seed = fresh(config).split_seed
    images[np.random.default_rng(seed).permutation(120)[60:]] = 255
    states, _ = training(config, held=held)
    warm, _ = length(config, CARD)
    state = next(each for reached, each in states if (reached.phase.name, reached.step) == ("warm start", warm))
    answers = state.models[0].adversary.net(
        torch.stack([torch.zeros(1, 6, 6), torch.ones(1, 6, 6)]), torch.zeros(2).long()
    )
    assert answers.argmax(1).tolist() == [0, 1]


@pytest.mark.slow
def test_the_penalty_brings_the_generators_together():
    """Parts of different brightness: without the penalty each generator copies its part; with a strong one they meet."""

    def gap(weight):
        images = np.zeros((120, 1, 6, 6), np.uint8)
        settings = {"batch_size": 20, "width": 16, "latent_size": 5, "epochs": 100, "learning_rate": 2e-3}
        config = Config(
            labels="none", privacy_weight=weight, adversary_warm_epochs=5, adversary_delay_epochs=0, **settings
        )
        seed = fresh(config).split_seed
        images[np.random.default_rng(seed).permutation(120)[60:]] = 255
        state = last_of(config, held=Records(images, np.zeros(120, int)))
        z, y = torch.randn(100, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(100, dtype=torch.int64)
        with torch.no_grad():
            dark, bright = (float(G(z, y).mean()) for G in state.models[0].generators)
        return bright - dark

    assert gap(0.0) > 0.8
    assert gap(20.0) < 0.4


def test_one_pair_is_the_plain_gan():
    states, ledger = training(Config(**{**FEW, "pairs": 1}))
    seen = list(states)
    assert len(seen) == 2 * 12
    assert {reached.phase.name for reached, _ in seen} == {"training"}
    assert seen[-1][1].models[0].adversary is None
    assert ledger.reasons == [REASON]
    assert ledger.promise().epsilon == math.inf


def test_shared_latents_are_the_same_for_all_and_separate_ones_differ():
    z, y = zip(*loop.draw_latents(run_of(Config(pairs=3, **FEW))), strict=True)
    assert all(torch.equal(each, z[0]) for each in z)
    assert all(torch.equal(each, y[0]) for each in y)
    z, _ = zip(*loop.draw_latents(run_of(Config(pairs=3, shared_latents=False, **FEW))), strict=True)
    assert not torch.equal(z[0], z[1])


@pytest.mark.parametrize("at", [3, 11])
def test_resume_finds_the_same_parts(at):
    """Per class and one per class, broken in the warm-up and in the middle: the same generators as unbroken."""
    config = Config(labels="per-class", **{**FEW, "batch_size": 5})
    expected = last_of(config)
    run = run_of(config)
    private = Confined(records(), PrivacyLedger(budget=math.inf, delta=1e-4), run.rng)
    first = steps(Training(Job(PRIVGAN, run.config, run.card), run), private)
    for _ in range(at):
        reached, state = next(first)
    assert reached.phase.name == ("warm start" if at == 3 else "training")
    saved = torch.load(_stored(state.state_dict()), weights_only=True)
    other = Training(
        Job(PRIVGAN, run.config, run.card), run
    )  # other networks and another partition, until it is loaded
    assert other.state.split_seed != saved["split_seed"]
    other.state.load_state_dict(saved)
    *_, (_, last) = steps(other, private)
    torch.testing.assert_close(weights(last.released), weights(expected.released), rtol=0, atol=0)


def _stored(state):
    import io

    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return buffer


# ---------------------------------------------------------------- what is released


class _Constant(torch.nn.Module):
    """A generator that paints its number."""

    shape, classes, latent_size = (1, 2, 2), 1, 2

    def __init__(self, number):
        super().__init__()
        self.number = torch.nn.Parameter(torch.tensor(float(number)))

    def forward(self, latents, labels):
        return self.number.expand(len(latents), 1, 2, 2)


def test_the_last_latent_picks_a_generator_uniformly():
    """Chi-square over four generators and 20,000 samples: the bound is exceeded with probability 1e-6."""
    net = Mixture([_Constant(j) for j in range(4)], groups=1)
    z = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        drawn = net(z, torch.zeros(20_000, dtype=torch.int64))[:, 0, 0, 0]
    counts = torch.bincount(drawn.long(), minlength=4).double()
    assert float(((counts - 5_000) ** 2 / 5_000).sum()) < 30.7
    low = z[:, -1] < -0.6745  # the lower quartile belongs to the first
    assert (drawn[low] == 0).all()


def test_per_class_the_label_picks_the_group():
    net = Mixture([_Constant(j) for j in range(6)], groups=3)
    labels = torch.arange(3).repeat(50)
    with torch.no_grad():
        drawn = net(torch.randn(150, 3), labels)[:, 0, 0, 0].long()
    assert torch.equal(drawn // 2, labels)
    assert set(drawn.tolist()) == set(range(6))


@pytest.mark.parametrize(("labels", "groups"), [("conditional", 1), ("per-class", 3), ("none", 1)])
@pytest.mark.parametrize("release", [0, 1, 2])
def test_a_release_holds_so_many_generators_and_nothing_else(labels, groups, release, tmp_path):
    config = Config(pairs=3, labels=labels, release=release, **{**FEW, "batch_size": 5})
    state = fresh(config)
    names = set(state.released.state_dict())
    assert names == set(PRIVGAN.net(config, CARD).state_dict())
    assert {name.split(".")[1] for name in names} == {str(j) for j in range(groups * (release or 3))}
    assert all(name.startswith("generators.") for name in names)
    assert state.released.classes == (1 if labels == "none" else 3)
    assert state.released.latent_size == config.latent_size
    everything = sum(part.numel() for part in state.released.state_dict().values())
    one = sum(parameter.numel() for parameter in state.models[0].generators[0].parameters())
    assert everything == groups * (release or 3) * one


def test_scores_are_probabilities_by_every_discriminator():
    for labels in ("conditional", "per-class"):
        state = fresh(Config(labels=labels, **{**FEW, "batch_size": 5}))
        images, classes = records(9).tensors()
        found = state.scores(records(9))
        assert found.shape == (2, 9)
        model = state.models[0 if labels == "conditional" else 2]
        expected = torch.sigmoid(model.discriminators[1](images[2:3], classes[2:3]))[0, 0]
        torch.testing.assert_close(found[1, 2], expected.detach(), rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------- no guarantee


@pytest.mark.parametrize("pairs", [1, 2])
def test_records_are_read_only_after_the_door_has_rung(pairs):
    """A single pair has no warm-up: then it is the training that reads first."""

    class Watched:
        def __getattribute__(self, name):
            if not name.startswith("__"):
                assert ledger.reasons == [REASON]
                raise LookupError("read")
            return super().__getattribute__(name)

    states, ledger = training(Config(pairs=pairs, **FEW), held=Watched())
    assert not ledger.reasons
    with pytest.raises(LookupError, match="read"):
        next(states)
    assert "privGAN" in ledger.reasons[0]


def test_both_phases_ask_at_the_door_and_the_ledger_says_it_once():
    class Shut:
        def declassify(self, *, reason):
            raise LookupError(reason)

    config = Config(**FEW)
    run = run_of(config)
    for phase in PRIVGAN.phases(config, CARD):
        with pytest.raises(LookupError, match="privGAN"):
            next(phase.body(run, start(run), Shut()))
    states, ledger = training(config)
    list(states)
    assert ledger.reasons == [REASON]


def test_the_plan_alone_says_infinity():
    ledger = PrivacyLedger(budget=math.inf, delta=1e-4)
    ledger.reserve(Job(PRIVGAN, Config(**FEW), CARD).plan)
    assert ledger.promise().epsilon == math.inf


@pytest.mark.parametrize(
    "budget", [{"epsilon": 5.0}, {"delta": 1e-5}, {"epsilon": math.inf}, {"epsilon": 1.0, "delta": 0.1}]
)
def test_no_budget_is_taken(budget):
    with pytest.raises(BudgetError, match="no formal guarantee"):
        plan("privgan", CARD, FEW, **budget)
    assert plan("privgan", CARD, FEW).promise.epsilon == math.inf


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"release": 3}, "`release=3` is more"),
        ({"latent_size": 1}, "latent_size"),
        ({"real_target": 0.5}, "real_target"),
        ({"beta1": 1.0}, "beta1"),
        ({"batch_size": 61}, "`batch_size=61` is more than the 60 records"),
        ({"labels": "per-class", "batch_size": 21}, "3 x 2 parts"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"privacy_weight": -1.0}, "privacy_weight"),
        ({"noise_multiplier": 1.0}, "no setting 'noise_multiplier'"),
    ],
)
def test_settings_that_cannot_be(settings, says):
    with pytest.raises(RequestError, match=says):
        plan("privgan", CARD, {**FEW, **settings})


def test_events_hold_figures_of_fakes_only():
    states, _ = training(Config(**FEW))
    events = [reached for reached, _ in states]
    steps = [event for event in events if event.phase.name == "training"]
    assert len(steps) == 12
    assert {name for event in events for name in event.logs} == {
        "generator_loss", "accuracy_on_fakes", "adversary_accuracy",
    }  # fmt: skip
    assert all(not event.logs for event in events if event.phase.name == "warm start")
    json.dumps([dict(event.logs) for event in events], allow_nan=False)


def test_a_saved_release_is_the_generators(tmp_path):
    from gossamer.methods.synthesizer import model_bytes

    state = last_of(Config(**FEW))
    (tmp_path / "m.safetensors").write_bytes(model_bytes(state.released))
    saved = load_file(tmp_path / "m.safetensors")
    adversary = weights(state.models[0].adversary.net)
    assert not any(value.numel() == part.numel() and torch.equal(value, part)
                   for value in saved.values() for part in state.models[0].adversary.net.parameters())  # fmt: skip
    assert sum(value.numel() for value in saved.values()) != len(adversary)
