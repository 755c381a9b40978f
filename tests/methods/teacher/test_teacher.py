"""What is particular to the teacher: the clipped sum against autograd, the steps by hand, and what its samples are.

Where a step is compared with one by hand, the noise is a billionth of the bound, so that it does not matter, and the rate is 1,
so that every record is drawn. The statistical test states its error rate.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import RequestError
from gossamer.methods.common import softmax_regression as nets
from gossamer.methods.common.softmax_regression import Classifier, features_in_memory, losses
from gossamer.methods.contract import Draw, Run
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import model_bytes
from gossamer.methods.teacher import Config, Teacher, loop, shapes
from gossamer.nets.scattering import SMALLEST
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.banded import error_of
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan

SHAPE = (1, 12, 12)
B = 10
CARD = DataCard(shape=SHAPE, classes=3, declared_size=B, label_prior=(0.7, 0.1, 0.2))
QUIET: dict[str, Any] = {"noise_multiplier": 1e-9, "steps": 7, "physical_batch_size": 4}


def records(n: int = 9, seed: int = 0, units: list[int] | None = None) -> Records:
    coins = np.random.default_rng(seed)
    images = coins.integers(0, 256, (n, *SHAPE)).astype(np.uint8)
    return Records(images, coins.integers(3, size=n), None if units is None else np.array(units))


def classifier(spread: float = 0.05, classes: int = 3, seed: int = 0) -> Classifier:
    """With weights that make some records sure and others not."""
    net = Classifier(SHAPE, classes)
    with torch.no_grad():
        net.head.weight.normal_(0, spread, generator=torch.Generator().manual_seed(seed))
    return net


def one_by_one(net: Classifier, held: Records) -> Tensor:
    """The gradient of each record by autograd in double precision: [n, classes x features]."""
    features = torch.from_numpy(nets.with_features(net, held).images).double()
    rows = []
    for feature, label in zip(features, held.labels.tolist(), strict=True):
        W = net.head.weight.detach().double().requires_grad_()
        loss = -torch.log_softmax(W @ feature, 0)[label]
        rows.append(torch.autograd.grad(loss, W)[0].flatten())
    return torch.stack(rows) if rows else torch.zeros(0, net.head.weight.numel(), dtype=torch.float64)


def clipped(rows: Tensor, C: float) -> Tensor:
    return rows * (C / rows.norm(dim=1, keepdim=True)).clamp(max=1)


def asked(net: Classifier, held: Records, C: float, size: int = 4) -> Tensor:
    return PerRecordGradient(net, losses, size).clipped_sum(held, Bounds(norms=(C,)))


def drive(settings: dict[str, Any], held: Records, card: DataCard = CARD, noise_seed: int = 1) -> loop.State:
    """A run to its end."""
    job = Job.of(Teacher(), settings, card)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0, noise_seed=noise_seed))
    for _ in training.drive(Confined(held, ledger, training.run.rng)):
        pass
    assert ledger.used == [job.config.steps]
    return training.state


# ---------------------------------------------------------------------- the clipped sum


@pytest.mark.parametrize(("C", "longer"), [(0.1, 9), (20.0, 5), (1e4, 0)])
@pytest.mark.parametrize("described", [False, True])
def test_the_sum_is_that_of_autograd_clipped_one_by_one(C: float, longer: int, described: bool) -> None:
    """All records clipped, some, none. To 1e-5, and to 1e-3 of the bound for each that is clipped: the slack for rounding."""
    net, held = classifier(), records()
    rows = one_by_one(net, held)
    assert (rows.norm(dim=1) > C).sum() == longer
    found = asked(net, nets.with_features(net, held) if described else held, C)
    expected = clipped(rows, C).sum(0)
    assert (found.double() - expected).norm() <= 1e-5 * expected.norm() + 1e-3 * C * longer


def test_kept_features_and_features_computed_anew_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether memory for all of them is taken depends on how many there are; the release does not."""
    settings = {**QUIET, "noise_multiplier": 1.0}
    ends = []
    for largest in (1 << 31, 2 * Classifier(SHAPE, 3).features.size * 9 - 1):
        monkeypatch.setattr(nets, "LARGEST", largest)
        assert features_in_memory(classifier(), records()).images.dtype == (
            np.float16 if largest == 1 << 31 else np.uint8
        )
        ends.append(model_bytes(drive(settings, records()).released))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("position", [0, 4, 9])
def test_one_record_moves_the_sum_by_max_norm_no_more_and_no_less(position: int) -> None:
    net, C = classifier(), 0.1
    held = records()
    loud = (np.arange(144).reshape(1, *SHAPE) % 2 * 255).astype(np.uint8)
    more = Records(np.insert(held.images, position, loud, axis=0), np.insert(held.labels, position, 1))
    moved = (asked(net, more, C).double() - asked(net, held, C).double()).norm()
    assert 0.998 * C <= moved <= C * (1 + 1e-5)


@pytest.mark.parametrize("spread", [1e-6, 1e-2, 1.0, 1e3])
def test_no_record_alone_adds_more_than_max_norm(spread: float) -> None:
    """The norm is the product of two, each in single precision; the bound is held all the same."""
    net = classifier(spread)
    held = nets.with_features(net, records(60))
    for i in range(60):
        for C in (0.1, 1.0):
            assert asked(net, held[i : i + 1], C).double().norm() <= C


def test_the_gradients_of_a_unit_add_up_and_are_clipped_once() -> None:
    """Units of 1, 3 and 5 records; pieces of 2 cut through the larger ones."""
    net, C = classifier(), 0.1
    held = records(units=[1, 2, 1, 0, 2, 2, 1, 2, 2])
    rows = one_by_one(net, held)
    whole = torch.stack([rows[held.units == unit].sum(0) for unit in range(3)])  # type: ignore[operator]
    assert (whole.norm(dim=1) > C).all()
    found = asked(net, nets.with_features(net, held), C, size=2).double()
    expected = clipped(whole, C).sum(0)
    assert (found - expected).norm() <= 1e-5 * expected.norm() + 1e-3 * C * 3
    rest = held.take(np.array([0, 1]))
    assert (found - asked(net, nets.with_features(net, rest), C, size=2).double()).norm() <= C * (1 + 1e-5)


def test_features_that_are_not_finite_give_zero() -> None:
    net = classifier()
    held = nets.with_features(net, records())
    spoilt = Records(held.images.copy(), held.labels)
    spoilt.images[4, 7], spoilt.images[6, 0] = np.nan, np.inf
    rest = held[np.array([0, 1, 2, 3, 5, 7, 8])]
    torch.testing.assert_close(asked(net, spoilt, 0.1), asked(net, rest, 0.1), rtol=1e-5, atol=1e-7)


def test_an_empty_draw_is_zero_and_one_class_teaches_nothing() -> None:
    net = classifier()
    assert torch.equal(asked(net, records(0), 0.1), torch.zeros(net.head.weight.numel()))
    held = records()
    alone = Records(held.images, np.zeros(9, np.int64))
    assert (asked(classifier(classes=1), alone, 0.1) == 0).all()


# ---------------------------------------------------------------------- the run


def test_the_steps_by_hand() -> None:
    """Expected batch 10 while 9 records are held; momentum; and the mean of the weights over steps 4 to 7 is released."""
    settings = {**QUIET, "learning_rate": 3.0, "momentum": 0.8, "max_norm": 2.0}
    state = drive(settings, records())
    net = Classifier(SHAPE, 3)
    W, velocity, late = torch.zeros(3, net.features.size, dtype=torch.float64), 0.0, []
    for step in range(1, 8):
        with torch.no_grad():
            net.head.weight.copy_(W)
        velocity = 0.8 * velocity + clipped(one_by_one(net, records()), 2.0).sum(0).view_as(W) / 10
        W = W - 3.0 * velocity
        late += [W] if step >= 4 else []
    torch.testing.assert_close(state.W.net.head.weight.double(), W, rtol=0, atol=2e-3 * float(W.abs().max()))
    mean = torch.stack(late).mean(0)
    torch.testing.assert_close(state.released.head.weight.double(), mean, rtol=0, atol=2e-3 * float(mean.abs().max()))
    assert (mean - W).abs().max() > 0.1 * W.abs().max()


def test_the_non_private_twin_is_not_clipped() -> None:
    """So its bound does not matter, and a step is 16 times the mean of all gradients."""
    ends = [drive({**QUIET, "noise_multiplier": 0.0, "steps": 1, "max_norm": C}, records()) for C in (0.1, 5.0)]
    expected = -16.0 / B * one_by_one(Classifier(SHAPE, 3), records()).sum(0)
    for state in ends:
        torch.testing.assert_close(state.released.head.weight.double().flatten(), expected, rtol=1e-4, atol=1e-5)


def test_a_plan_is_one_poisson_gaussian_a_step() -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    job = Job.of(Teacher(), {"noise_multiplier": 4.0}, card)
    assert job.plan == [(poisson_gaussian(sampling_rate=4096 / 60_000, noise_multiplier=4.0), 468)]
    assert [phase.name for phase in job.phases] == ["public features", "training"]


def test_with_bands_a_plan_has_whole_cycles_and_the_step_size_follows_the_noise_of_sums() -> None:
    """470 steps of 4 bands are 118 cycles, which are 472 steps. The signal-to-noise ratio is B sqrt(T) / (z x error)."""
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    job = Job.of(Teacher(), {"noise_multiplier": 4.0, "steps": 470, "bands": 4}, card)
    assert job.plan == [(poisson_gaussian(sampling_rate=4 * (4096 / 60_000), noise_multiplier=4.0), 118)]
    assert job.phases[-1].steps == 472
    alone = Job.of(Teacher(), {"noise_multiplier": 4.0 * error_of(4, 470), "steps": 470}, card)
    assert job.config.step_size(card) == pytest.approx(alone.config.step_size(card))
    assert 0.5 < error_of(4, 470) < 0.53


def test_the_batch_is_all_records_where_few_are_declared() -> None:
    for given, declared, rate in ((0, 1_000, 1.0), (0, 8_192, 0.5), (50, 1_000, 0.05)):
        card = DataCard(shape=SHAPE, classes=3, declared_size=declared)
        ((event, _),) = Job.of(Teacher(), {"noise_multiplier": 1.0, "expected_batch_size": given}, card).plan
        assert event == poisson_gaussian(sampling_rate=rate, noise_multiplier=1.0)


def test_what_it_costs() -> None:
    """60,000 records, 234 steps of 4,096, epsilon 1 at delta 1e-5: noise multiplier 4.06 by PLD (`docs/methods/teacher.md`)."""
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    request = plan("teacher", card, {"steps": 234}, epsilon=1.0, delta=1e-5)
    assert request.job.settings["noise_multiplier"] == pytest.approx(4.06, abs=0.005)
    assert 0.999 <= request.promise.epsilon <= 1.0


def test_the_step_size_is_worked_out_where_none_is_given() -> None:
    """The figures of the docs page: larger where the sums are clearer, and never above 16."""
    mnist = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    asked: list[tuple[float, float, float]] = [
        (6.72, 0, 3.941),
        (1.5, 0, 12.14),
        (0.5, 0, 16),
        (0, 0, 16),
        (6.72, 2, 2),
    ]
    for noise, given, rate in asked:
        assert Config(noise_multiplier=noise, learning_rate=given).step_size(mnist) == pytest.approx(rate, rel=1e-3)
    settings = Config(noise_multiplier=6.72, momentum=0.95, max_norm=0.2, steps=117)
    by_hand = 1.5 * (4096 * 117**0.5 / 6.72) ** 0.75 * 0.05 / (0.2 * 117)
    assert settings.step_size(mnist) == pytest.approx(by_hand)


def test_settings_that_make_no_sense_are_refused() -> None:
    small = DataCard(shape=(1, SMALLEST - 1, 28), classes=3, declared_size=100)
    with pytest.raises(RequestError, match="at least 8x8, and the card declares 7x28"):
        _ = Job.of(Teacher(), {"noise_multiplier": 1.0}, small).plan
    assert Job.of(Teacher(), {"noise_multiplier": 1.0}, dataclasses.replace(small, shape=(1, SMALLEST, 28))).plan
    with pytest.raises(RequestError, match="momentum"):
        _ = Job.of(Teacher(), {"noise_multiplier": 1.0, "momentum": 1.0}, CARD).plan


def test_a_released_model_is_its_weights() -> None:
    net = drive(QUIET, records()).released
    assert {name: tuple(value.shape) for name, value in net.state_dict().items()} == {"head.weight": (3, 81 * 9 + 1)}
    assert net.classes == 3


def test_it_starts_from_nothing() -> None:
    job = Job.of(Teacher(), QUIET, CARD)
    assert not loop.start(Run(Config(**QUIET), CARD, Rng(0))).released.head.weight.any()
    assert not job.generator().head.weight.any()  # type: ignore[union-attr, operator]


def test_scores_are_log_probabilities_of_the_own_label() -> None:
    job = Job.of(Teacher(), QUIET, CARD)
    training = job.begin(Rng(0))
    net = training.state.released
    with torch.no_grad():
        net.head.weight.copy_(classifier().head.weight)
    held = records()
    found = training.state.scores(held)
    images, labels = held.tensors()
    probabilities = net.probabilities(images)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(9))
    assert found is not None
    torch.testing.assert_close(found, probabilities[torch.arange(9), labels].log()[None])
    assert found.shape == (1, 9)


# ---------------------------------------------------------------------- samples


def sampled(net: Classifier, n: int, labels: Tensor | None = None, card: DataCard = CARD, seed: int = 0) -> Any:
    stream = torch.Generator().manual_seed(seed)
    return Teacher().sample(net, Draw(Config(noise_multiplier=1.0), card, n, labels, stream))


def test_samples_have_the_labels_that_the_teacher_gives_them() -> None:
    """This one names each class often enough for a uniform prior."""
    net, card = classifier(seed=2), DataCard(shape=SHAPE, classes=3, declared_size=B)
    images, labels = sampled(net, 200, card=card)
    assert images.shape == (200, *SHAPE)
    assert 0 <= images.min() < images.max() <= 1
    assert torch.equal(net.probabilities(images).argmax(1), labels)
    assert len({image.numpy().tobytes() for image in images}) == 200, "no shape is taken twice"


def test_labels_follow_the_card_whatever_the_teacher_says() -> None:
    """Each share within 4.9 standard deviations of the prior: fails by chance once in 300,000 runs.

    What the teacher says of shapes follows another prior.
    """
    n, net = 600, classifier(seed=3)
    _, labels = sampled(net, n)
    counts = labels.bincount(minlength=3).tolist()
    for count, share in zip(counts, (0.7, 0.1, 0.2), strict=True):
        assert abs(count - n * share) < 4.9 * math.sqrt(n * share * (1 - share))
    own = net.probabilities(shapes.shapes(400, SHAPE, torch.Generator().manual_seed(5))).argmax(1).bincount(minlength=3)
    assert abs(int(own[0]) - 280) > 60


def test_labels_that_are_asked_for_are_given() -> None:
    net = classifier()
    labels = torch.tensor([2, 0, 0, 1, 2, 2])
    images, given = sampled(net, 6, labels)
    assert torch.equal(given, labels)
    assert torch.equal(net.probabilities(images).argmax(1), labels)
    again, _ = sampled(net, 6, labels)
    assert torch.equal(images, again)
    other, _ = sampled(net, 6, labels, seed=1)
    assert not torch.equal(images, other)


def test_a_class_that_the_teacher_never_names_gets_the_likeliest_shapes() -> None:
    probabilities = torch.tensor(
        [[0.6, 0.1, 0.3], [0.2, 0.3, 0.5], [0.5, 0.4, 0.1], [0.9, 0.05, 0.05], [0.1, 0.2, 0.7]]
    )
    assert shapes.picked(probabilities, torch.tensor([1, 0])).tolist() == [2, 0]
    assert shapes.picked(probabilities, torch.tensor([1, 1, 2, 1])).tolist() == [2, 1, 4, 0]
    assert shapes.picked(probabilities, torch.tensor([2, 2, 2, 0, 0])).tolist() == [1, 4, 0, 2, 3]
    both = torch.tensor([[0.6, 0.25, 0.15], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1]])
    assert shapes.picked(both, torch.tensor([1, 2])).tolist() == [1, 0], "the likeliest for both serves once"
    net = classifier(0.0)  # every class is as likely, so 0 is named always
    images, labels = sampled(net, 50, torch.full((50,), 2))
    assert len(images) == 50
    assert (labels == 2).all()


def test_shapes_fit_the_card() -> None:
    """The same in all channels, in the middle of a frame that is not square; half of them digits."""
    stream = torch.Generator().manual_seed(0)
    images = shapes.shapes(7, (3, 16, 24), stream)
    assert images.shape == (7, 3, 16, 24)
    assert torch.equal(images[:, 0], images[:, 2])
    assert (images[..., :4] == 0).all()
    assert (images[..., -4:] == 0).all()
    assert images[..., 4:-4].flatten(1).amax(1).min() > 0.5
    card = DataCard(shape=(3, 16, 24), classes=2, declared_size=50)
    colours, labels = sampled(Classifier(card.shape, 2), 3, card=card)
    assert (colours.shape, labels.shape) == ((3, 3, 16, 24), (3,))


def test_shapes_are_digits_and_letters_in_random_order() -> None:
    """20 of 40 are the drawing program's digits; 3 to 17 of them come first: fails by chance once in a million runs."""
    first, _ = torch.randint(2**62, (2,), generator=torch.Generator().manual_seed(0)).tolist()
    digits = {image.tobytes() for image in draw(20, size=28, seed=first).tensors()[0].numpy()}
    images = shapes.shapes(40, (1, 28, 28), torch.Generator().manual_seed(0))
    drawn = [image.numpy().tobytes() in digits for image in images]
    assert sum(drawn) == 20
    assert 3 <= sum(drawn[:20]) <= 17


def test_one_class_has_one_label() -> None:
    card = DataCard(shape=SHAPE, classes=1, declared_size=B)
    held = Records(records().images, np.zeros(9, np.int64))
    net = drive({**QUIET, "noise_multiplier": 1.0}, held, card).released
    assert sampled(net, 5, card=card)[1].tolist() == [0] * 5


def test_features_are_computed_in_pieces_of_one_size_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows in the last piece as in others, so that no record changes how a library computes them."""
    net, held, sizes = Classifier(CARD.shape, CARD.classes), records(9), list[int]()
    expected = nets.with_features(net, held)
    real = Classifier.halved

    def noting(self: Classifier, images: Tensor) -> Tensor:
        sizes.append(len(images))
        return real(self, images)

    monkeypatch.setattr(Classifier, "halved", noting)
    monkeypatch.setattr(nets, "PIECE", 4)
    monkeypatch.setattr(nets, "one_size", lambda *_: True)
    found = nets.with_features(net, held)
    assert sizes == [4, 4, 4]
    monkeypatch.setattr("gossamer.data.records._BLOCK", 3 * 4 * int(np.prod(CARD.shape)))  # as if pictures were large
    assert np.array_equal(nets.with_features(net, held).images, found.images) and sizes[3:] == [3, 3, 3]
    np.testing.assert_allclose(found.images.astype(float), expected.images.astype(float), atol=1e-3)
    assert np.array_equal(found.labels, expected.labels)
