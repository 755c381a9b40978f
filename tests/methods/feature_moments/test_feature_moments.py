"""Moments of an encoder's features: what is asked, how much a record moves it, and the classifier that the answer makes."""

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import PrivacyError, RequestError
from gossamer.methods import METHODS
from gossamer.methods.common.bounded_sum import coded
from gossamer.methods.feature_moments import loop
from gossamer.methods.feature_moments.features import SHARES, Labeller, PublicAxes, SumsAndProducts, regression
from gossamer.methods.job import Job, Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

ONE = Bounds(norms=(1.0,))
SHAPE, CLASSES = (1, 6, 6), 3
CARD = DataCard(shape=SHAPE, classes=CLASSES, declared_size=300)
SETTINGS: dict[str, Any] = {"encoder": "rows", "axes": 4, "noise_multiplier": 0.5}


def rows(pictures: Tensor) -> Tensor:
    """The mean of each row, and that of each column."""
    wide = pictures.double()[:, 0] / 255
    return torch.cat([wide.mean(2), wide.mean(1)], 1).float()


@pytest.fixture(autouse=True)
def encoder() -> Iterator[None]:
    plugins.add("encoder", "rows", rows)
    yield
    plugins.remove("encoder", "rows")


def pictures(n: int, *, seed: int = 0) -> Records:
    """One bright row, by the class, on a random ground."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(CLASSES, size=n)
    images = draw.integers(120, size=(n, *SHAPE))
    images[np.arange(n), 0, 2 * labels] += 120
    return Records(images.astype(np.uint8), labels)


def axes(d: int = 4) -> PublicAxes:
    encoder = PluginEncoder("rows", SHAPE)
    made = PublicAxes(encoder, SHAPE, d)
    made.fit(encoder(pictures(60, seed=1).tensors()[0]))
    return made


def codes_of(made: PublicAxes, held: Records) -> np.ndarray:
    codes: np.ndarray = coded(held, made, 4, torch.device("cpu")).images
    return codes


def of_codes(codes: Tensor, labels: list[int], units: list[int] | None = None) -> Records:
    return Records(codes.double().numpy(), np.array(labels), None if units is None else np.array(units))


def random_codes(n: int) -> Tensor:
    drawn = torch.randn(n, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    unit: Tensor = drawn / drawn.norm(dim=1, keepdim=True)
    return unit


def test_the_query_by_hand() -> None:
    """Record by record, with matrices written out."""
    z, labels, (b, c) = random_codes(20), [i % CLASSES for i in range(20)], SHARES
    sums, second = torch.zeros(CLASSES, 4).double(), []
    for code, label in zip(z, labels, strict=True):
        sums[label] += b * code
        second.append(
            [c * code[i] * code[j] * (1.0 if i == j else math.sqrt(2)) for i in range(4) for j in range(i, 4)]
        )
    expected = torch.cat([sums.flatten(), torch.tensor(second).double().sum(0)])
    query = SumsAndProducts(4, CLASSES)
    found = query.clipped_sum(of_codes(z, labels), ONE)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert len(found) == query.dimension
    by_class, products = query.parts(found)
    torch.testing.assert_close(products, z.t() @ z, atol=1e-4, rtol=0)
    torch.testing.assert_close(by_class[1], z[1::CLASSES].sum(0), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("length", "bound"), [(1.0, 1.0), (50.0, 1.0), (1.0, 0.5)])
def test_a_record_moves_the_answer_by_the_bound(length: float, bound: float) -> None:
    """A code of length 1 fills the bound of 1, and a longer one is no more. A smaller bound holds too."""
    query, z, labels, bounds = SumsAndProducts(4, CLASSES), random_codes(21), [0] * 21, Bounds(norms=(bound,))
    z[0] *= length
    moved = query.clipped_sum(of_codes(z, labels), bounds) - query.clipped_sum(of_codes(z[1:], labels[1:]), bounds)
    assert bound - 1e-4 < float(moved.norm()) <= bound


def test_a_unit_moves_the_answer_by_one() -> None:
    query, z = SumsAndProducts(4, CLASSES), random_codes(30)
    z[1:10] = z[0]
    labels, units = [1] * 30, [0] * 10 + [*range(1, 21)]
    whole = query.clipped_sum(of_codes(z, labels, units), ONE)
    moved = whole - query.clipped_sum(of_codes(z[10:], labels[10:], units[10:]), ONE)
    assert 1 - 1e-4 < float(moved.norm()) <= 1
    alone = query.clipped_sum(of_codes(z[:1], [1]), ONE)
    torch.testing.assert_close(moved, alone, atol=1e-4, rtol=0)


def test_codes_that_are_not_finite_or_zero_add_nothing() -> None:
    query = SumsAndProducts(4, CLASSES)
    z = torch.tensor([[math.nan] * 4, [0.0] * 4, [math.inf, 0, 0, 0]])
    for units in (None, [0, 0, 0]):
        assert not query.clipped_sum(of_codes(z, [0, 1, 2], units), ONE).any()


def test_a_code_follows_from_its_own_record() -> None:
    """The same bits alone, in another order, and among others; each of length 1."""
    made, held = axes(), pictures(25)
    codes = codes_of(made, held)
    assert codes.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-5)
    alone = np.concatenate([codes_of(made, held[i : i + 1]) for i in range(25)])
    np.testing.assert_allclose(codes, alone, atol=1e-12)


def test_axes_are_those_of_public_features() -> None:
    made = axes(3)
    features = PluginEncoder("rows", SHAPE)(pictures(60, seed=1).tensors()[0]).double()
    _, _, expected = torch.linalg.svd(features - features.mean(0), full_matrices=False)
    overlap = (made.basis.double().t() @ expected[:3].t()).abs()
    torch.testing.assert_close(overlap, torch.eye(3).double(), atol=1e-4, rtol=0)


def test_regression_without_noise_is_least_squares() -> None:
    """Against numpy's solution for targets less their prior."""
    z, labels = random_codes(200), torch.arange(200) % CLASSES
    targets = torch.eye(CLASSES).double()[labels]
    prior = torch.full((CLASSES,), 1 / 3).double()
    found = regression(targets.t() @ z, z.t() @ z, torch.eye(4).double() / 4, prior, 0.0)
    expected = np.linalg.lstsq(z.numpy(), (targets - prior).numpy(), rcond=None)[0]
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-5, rtol=0)


def test_second_moments_below_the_noise_are_those_of_public_pictures() -> None:
    """With much noise two answers give one weighting of axes: that of the public moments."""
    sums, public, prior = (
        torch.eye(CLASSES, 4).double(),
        torch.diag(torch.tensor([0.7, 0.1, 0.1, 0.1])).double(),
        torch.ones(3),
    )
    plain = 1_000 * public
    little = plain + torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).triu(1).double()
    one, other = (regression(sums, given, public, prior.double() / 3, 1e3) for given in (plain, little))
    torch.testing.assert_close(one, other)


def trained(n: int = 300, public: Records | None = None) -> Labeller:
    job = Job.of(METHODS["feature-moments"], SETTINGS, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0))
    for _ in training.drive(
        Confined(pictures(n), ledger, training.run.rng), pictures(90, seed=1) if public is None else public
    ):
        pass
    assert isinstance(training, Training)
    net = training.state.released
    assert isinstance(net, Labeller)
    assert not any(ledger.unused)
    return net


def test_a_run_labels_public_pictures() -> None:
    """Most of them as they are, and records that it never saw."""
    net, public, other = trained(), pictures(90, seed=1), pictures(200, seed=7)
    said = net.labelled.probabilities
    assert torch.equal(net.labelled.images, torch.from_numpy(public.images))
    assert (said.argmax(1).numpy() == public.labels).mean() > 0.8
    torch.testing.assert_close(said, net.probabilities(public.tensors()[0]))
    images, labels = other.tensors()
    assert float((net.probabilities(images).argmax(1) == labels).float().mean()) > 0.85
    torch.testing.assert_close(net.probabilities(images).sum(1), torch.ones(200))


def test_samples_are_public_pictures_with_labels_in_the_declared_shares() -> None:
    """None comes twice before all have come, and each has its probabilities."""
    net, public = trained(), pictures(90, seed=1)
    place = {image.tobytes(): at for at, image in enumerate(public.images)}
    stream = torch.Generator().manual_seed(0)
    drawn = [*Job.of(METHODS["feature-moments"], SETTINGS, CARD).chunks(net, [50, 40, 90], None, stream)]
    images, labels, probabilities = (torch.cat(part) for part in zip(*drawn, strict=True))
    chosen = torch.tensor([place[image.mul(255).round().byte().numpy().tobytes()] for image in images])
    assert [len(part[0]) for part in drawn] == [50, 40, 90]
    for half in chosen.split(90):
        assert half.sort().values.tolist() == [*range(90)]
    assert labels.bincount().tolist() == [60, 60, 60]
    assert torch.equal(probabilities, net.labelled.probabilities[chosen])


def test_a_state_holds_as_many_pictures_as_it_was_saved_with() -> None:
    net, other = trained(), loop.generator(Job.of(METHODS["feature-moments"], SETTINGS, CARD).config, CARD)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.labelled.images, net.labelled.images)
    assert torch.equal(other.labelled.probabilities, net.labelled.probabilities)
    assert torch.equal(other.weights, net.weights)
    assert not any(name.startswith("axes.encoder") for name in net.state_dict())


def test_an_encoder_that_looks_at_other_pictures_is_refused() -> None:
    plugins.add("encoder", "rows", lambda batch: rows(batch) + torch.rand(1))
    with pytest.raises((RequestError, PrivacyError), match="other features when the same pictures come again"):
        trained()


def test_refusals() -> None:
    job = functools.partial(Job.of, METHODS["feature-moments"])
    assert job(SETTINGS, CARD).needs_public
    with pytest.raises(RequestError, match=r"`axes=40` is more than the 12 features"):
        job({**SETTINGS, "axes": 40}, CARD).generator()
    with pytest.raises(RequestError, match="4 public records are too few for 4 principal axes"):
        job(SETTINGS, CARD).check_public(4)


def test_what_a_run_learns_comes_through_the_mechanism() -> None:
    """Unrelated records and a mechanism that answers with noise alone: the same bits. And one record changes no public draw."""
    whole = Subject(method=METHODS["feature-moments"], small={**SETTINGS, "noise_multiplier": 1.0})
    checks.non_interference(whole, warm=True)
    checks.removing_a_protected_record_changes_nothing_public(whole, share=0.25)


def test_nobody_left_is_no_reason_to_stop() -> None:
    assert trained(n=0).weights.isfinite().all()


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    """The release has the public pictures, their labels and the classifier, and no load.py."""
    held, public = pictures(300), pictures(90, seed=1)
    made = fit(
        "feature-moments",
        data=held,
        public=public,
        card=CARD,
        out=tmp_path / "run",
        delta=1e-3,
        accounts=None,
        **SETTINGS,
        process=Process(progress=False),
    )
    release(tmp_path / "run", tmp_path / "out")
    assert verify(tmp_path / "out").problems == []
    assert not (tmp_path / "out" / "load.py").exists()
    again = Synthesizer.load(tmp_path / "out")
    one, other = (each.sample(30, seed=3) for each in (made, again))
    assert np.array_equal(one.images, other.images)
    assert np.array_equal(one.labels, other.labels)
    shown = {image.tobytes() for image in public.images}
    assert all(image.tobytes() in shown for image in one.images)
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert "contains these pictures as they are" in certificate["not_covered"][0]


def test_public_pictures_are_needed_and_are_no_share_of_the_records(tmp_path: Path) -> None:
    """The release would publish the share."""
    given: dict[str, Any] = {
        "data": pictures(300), "card": CARD, "out": tmp_path / "none", "delta": 1e-3, "accounts": None,
        "process": Process(progress=False),
    }  # fmt: skip
    with pytest.raises(RequestError, match=r"need public records: give `public`\.$"):
        fit("feature-moments", **given, **SETTINGS)
    with pytest.raises(RequestError, match="4 public records are too few for 4 principal axes"):
        fit("feature-moments", public=pictures(4, seed=1), **given, **SETTINGS)
    with pytest.raises(RequestError, match="`public=SHARE` would publish records"):
        fit("feature-moments", public=0.2, **given, **SETTINGS)
    assert not (tmp_path / "none").exists()
