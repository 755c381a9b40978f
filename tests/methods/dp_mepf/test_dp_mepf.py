"""DP-MEPF: what is asked, how much a unit moves it, what is made of the answer, and that its estimates are right on average."""

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.common.learners import Average
from gossamer.methods.dp_mepf import Config, loop, nets
from gossamer.methods.dp_mepf.embedding import Embedding
from gossamer.methods.dp_mepf.features import Codes, _gram, corrupted, principal, sizes
from gossamer.methods.dp_mepf.targets import Targets
from gossamer.methods.job import Job, Training
from gossamer.nets import dcgan
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.fit import fit
from gossamer.run.training.plan import plan

ONE = Bounds(norms=(1.0,))
CARD = DataCard(shape=(1, 28, 28), classes=3, declared_size=200)
SMALL: dict[str, Any] = {
    "noise_multiplier": 1.0, "axes": 4, "pixel_axes": 5, "features_steps": 2, "features_batch_size": 8, "features_width": 2,
    "warm_steps": 2, "warm_batch_size": 8, "matching_steps": 4,
    "likeness_steps": 2, "batch_size": 8, "width": 4, "latent_size": 4, "candidates": 5, "learnt_bends": True,
}  # fmt: skip


def records(n: int, *, seed: int = 0, units: np.ndarray | None = None) -> Records:
    draw = np.random.default_rng(seed)
    labels = draw.integers(3, size=n)
    images = draw.integers(0, 256, size=(n, 1, 28, 28)) // (labels + 1)[:, None, None, None]
    return Records(images.astype(np.uint8), labels, units)


def together(first: Records, second: Records) -> Records:
    return Records(np.concatenate([first.images, second.images]), np.concatenate([first.labels, second.labels]))


def query(radii: float = 1.0) -> Embedding:
    """Codes as public pictures make them, shortened to so much of their radii."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        codes = Codes((1, 28, 28), 3, width=2, axes=4, pixel_axes=5).requires_grad_(False)
    codes.fit(*records(60, seed=7).tensors(), torch.Generator().manual_seed(1))
    codes.radii *= radii
    return Embedding(codes, 3)


def length(answer: Tensor) -> float:
    return float(answer.norm())


# ---------------------------------------------------------------------- the query


def test_the_query_by_hand() -> None:
    """Record by record, with matrices written out."""
    asked, held = query(), records(20)
    blocks = 5
    a, b, c = 0.02**0.5, (0.28 / blocks) ** 0.5, (0.70 / blocks) ** 0.5
    parts: list[tuple[Tensor, list[Tensor], list[Tensor]]] = []
    for i in range(len(held)):
        images, labels = held[i : i + 1].tensors()
        z = [each[0] / max(1.0, length(each)) for each in asked.codes(images, labels)]
        upper = [
            [
                float(each[i] * each[j]) * (1.0 if i == j else math.sqrt(2))
                for i in range(len(each))
                for j in range(i, len(each))
            ]
            for each in z
        ]
        cell = torch.eye(3)[labels[0]]
        parts.append((a * cell, [b * cell[:, None] * each for each in z], [c * torch.tensor(each) for each in upper]))
    counts = torch.stack([count for count, _, _ in parts]).sum(0)
    sums = torch.cat([torch.stack([mean[j] for _, mean, _ in parts]).sum(0).flatten() for j in range(blocks)])
    products = torch.cat([torch.stack([more[j] for *_, more in parts]).sum(0) for j in range(blocks)])
    expected = torch.cat([counts, sums, products]).double()
    answer = asked.clipped_sum(held, ONE)
    assert len(answer) == asked.dimension == 3 + 3 * (4 + 4 + 3 + 4 + 5) + 10 + 10 + 6 + 10 + 15
    torch.testing.assert_close(answer, expected, atol=1e-4, rtol=0)


def test_weights_share_a_bound_of_one() -> None:
    a, b, c = query().weights
    assert a**2 + 5 * (b**2 + c**2) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("value", [0, 255])
def test_a_far_record_moves_the_answer_by_one(value: int) -> None:
    """Codes beyond every radius fill the bound: count, means and products together, and no more. Inserted first."""
    asked, held = query(radii=1e-3), records(30)
    far = Records(np.full((1, 1, 28, 28), value, np.uint8), np.array([2]))
    moved = length(asked.clipped_sum(together(far, held), ONE) - asked.clipped_sum(held, ONE))
    assert 1 - 1e-4 < moved <= 1


def test_no_record_moves_the_answer_by_more_than_one() -> None:
    asked = query()
    assert all(length(asked.clipped_sum(records(1, seed=seed), ONE)) <= 1 for seed in range(10))


def test_a_unit_moves_it_by_one_whatever_it_holds() -> None:
    """Thirty records of one unit over all classes."""
    asked = query()
    others, own = records(20), records(30, seed=5)
    both = together(own, others)
    units = np.concatenate([np.zeros(30, np.int64), np.arange(1, 21)])
    joined = Records(both.images, both.labels, units)
    moved = length(asked.clipped_sum(joined, ONE) - asked.clipped_sum(others, ONE))
    assert 0.99 < moved <= 1


def test_a_record_moves_nobody_elses_part() -> None:
    """Inserted first, it moves all others by one place, and one of them to another block: what they add is the same to 1e-9."""
    asked, others, one = query(), records(1_000), records(1, seed=9)
    moved = asked.clipped_sum(together(one, others), ONE) - asked.clipped_sum(others, ONE)
    assert length(moved - asked.clipped_sum(one, ONE)) < 1e-9


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e38])
def test_codes_that_are_no_numbers_add_a_count_and_huge_ones_no_more_than_one(value: float) -> None:
    asked = query()
    for j in range(5):
        asked.codes.get_buffer(f"basis{j}").fill_(value)
    answer = asked.clipped_sum(records(5), ONE)
    assert answer.isfinite().all()
    assert length(answer) <= (5 if value == 1e38 else 5 * asked.weights[0])


def test_nobody_adds_nothing() -> None:
    assert length(query().clipped_sum(records(1)[:0], ONE)) == 0


def test_a_smaller_bound_shortens_every_record() -> None:
    asked, held = query(), records(1)
    assert length(asked.clipped_sum(held, Bounds(norms=(0.1,)))) == pytest.approx(0.1, rel=1e-5)


def test_asking_changes_no_code() -> None:
    asked = query()
    before = copy.deepcopy(asked.codes.state_dict())
    asked.clipped_sum(records(20), ONE)
    assert all(torch.equal(before[name], value) for name, value in asked.codes.state_dict().items())
    assert {each.dtype for each in asked.codes.state_dict().values()} == {torch.float32}


# ---------------------------------------------------------------------- what it costs


@pytest.mark.parametrize(("epsilon", "noise"), [(1.0, 3.731), (10.0, 0.500)])
def test_the_noise_is_that_of_one_gaussian(epsilon: float, noise: float) -> None:
    """As one round of votes has it (`test_evolve.py`): one release of sensitivity 1 of all records."""
    request = plan("dp-mepf", CARD, {"rounds": 0}, epsilon=epsilon, delta=1e-5)
    assert request.job.settings["noise_multiplier"] == pytest.approx(noise, abs=1e-3)
    assert [count for _, count in request.plan] == [1]


def test_a_start_and_votes_are_charged_beside_it() -> None:
    job = Job.of(
        METHODS["dp-mepf"], {**SMALL, "start": "moments", "start_noise": 2.0, "votes_noise": 1.5, "rounds": 3}, CARD
    )
    costs = [(event.noise_multiplier, count) for event, count in job.plan]  # type: ignore[attr-defined]  # Gaussians all
    assert costs == [(2.0, 1), (1.0, 1), (1.5, 3)]
    assert not job.needs_public and job.method.explain(job.config) == ""


def test_it_needs_pictures_and_says_what_may_stand_in_their_place(tmp_path: Path) -> None:
    job = Job.of(METHODS["dp-mepf"], SMALL, CARD)
    assert job.needs_public
    assert "`start=evolve` or `start=moments`" in job.method.explain(job.config)
    assert not METHODS["dp-mepf"].can_warm_start
    with pytest.raises(
        RequestError, match=r"need public records.*`public=SHARE`, or `start=evolve` or `start=moments`"
    ):
        fit("dp-mepf", data="digits", card=CARD, out=tmp_path / "RUN", epsilon=1.0, delta=1e-5)
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 5}, "`batch_size=5` is too few.*3 classes.*at least 6"),
        ({"degree": 1.1}, "`degree` is a share"),
        ({"floor": 0.0}, "`floor` is a share above 0"),
        ({"floor": 1.5}, "`floor` is a share above 0"),
        ({"black": 0.3, "white": 0.2}, "`black=0.3` and `white=0.2` leave too little"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Job.of(METHODS["dp-mepf"], {**SMALL, **settings}, CARD).check()


# ---------------------------------------------------------------------- codes


def test_axes_are_orthonormal_and_most_public_codes_are_not_shortened() -> None:
    codes, (images, labels) = query().codes, records(60, seed=7).tensors()
    assert codes.axes == [4, 4, 3, 4, 5]
    assert sizes((1, 28, 28), 2) == (256, 64, 3, 10, 784)
    for j, z in enumerate(codes(images, labels)):
        basis = codes.get_buffer(f"basis{j}")
        torch.testing.assert_close(basis.t() @ basis, torch.eye(basis.shape[1]), atol=1e-4, rtol=0)
        assert 2 <= int((z.norm(dim=1) > 1).sum()) <= 4  # 95 % of 60 are within
        for label in range(3):
            assert z[labels == label].mean(0).norm() < 1e-3


@pytest.mark.parametrize("rows", [2, 3, 20, 50, 80])
def test_the_axes_are_those_of_numpys_singular_vectors(rows: int) -> None:
    """With fewer rows than the 50 numbers in one, and with more; two rows have one axis between them."""
    spread = torch.randn(rows, 50, generator=torch.Generator().manual_seed(3)) * torch.linspace(3, 1, 50)
    axes = min(2, rows - 1)
    found = principal(spread, axes)
    _, _, expected = np.linalg.svd((spread - spread.mean(0)).double().numpy(), full_matrices=False)
    torch.testing.assert_close(found.t() @ found, torch.eye(axes), atol=1e-5, rtol=0)
    along = np.abs((found.double().numpy() * expected[:axes].T).sum(0))
    assert along == pytest.approx(np.ones(axes), abs=1e-5)
    assert all(float(column[column.abs().argmax()]) > 0 for column in found.t()), "one of the two directions"


def test_the_gradient_of_gram_matrices_is_that_of_autograd() -> None:
    stream = torch.Generator().manual_seed(0)
    activations = torch.randn(3, 4, 5, 6, generator=stream, dtype=torch.float64).requires_grad_(True)
    weights = torch.randn(3, 10, generator=stream, dtype=torch.float64)
    i, j = torch.triu_indices(4, 4)
    plain = torch.einsum("nihw,njhw->nij", activations, activations)[:, i, j] / 30

    found = _gram(activations)

    torch.testing.assert_close(found, plain)
    expected, gradient = (torch.autograd.grad((weights * g).sum(), activations)[0] for g in (plain, found))
    torch.testing.assert_close(gradient, expected)


def test_a_class_without_public_pictures_counts_from_the_mean_of_all() -> None:
    codes, held = query().codes, records(60, seed=7)
    codes.fit(*held[held.labels != 1].tensors(), torch.Generator().manual_seed(1))
    centres = [codes.get_buffer(f"centres{j}") for j in range(5)]
    assert all(float(each[1].norm()) < 1e-3 * float(each[0].norm()) for each in centres)


def test_spoilt_pictures_are_pictures_and_widen_the_axes() -> None:
    images, _ = records(40).tensors()
    bad = corrupted(images, torch.Generator().manual_seed(0))
    assert bad.shape == images.shape and float(bad.min()) >= 0 and float(bad.max()) <= 1
    order = torch.cat([images[way::4] for way in range(4)])
    assert float((bad - order).flatten(1).norm(dim=1).min()) > 1


# ---------------------------------------------------------------------- targets


def given(z: list[Tensor], labels: Tensor) -> tuple[Embedding, Tensor]:
    """A query, and its exact answer for codes that are given."""
    asked = query()
    return asked, asked._sums(z, labels, torch.ones(len(labels), dtype=torch.float64)).flatten()


def codes_of(n: int, labels: Tensor) -> list[Tensor]:
    """Codes at most 1 long, of another mean in each class and of unequal spread."""
    draw = torch.Generator().manual_seed(3)
    found = []
    for d in (4, 4, 3, 4, 5):
        shift = 0.2 * torch.randn(3, d, generator=draw, dtype=torch.float64)
        spread = torch.linspace(0.05, 0.2, d).double()
        found.append(shift[labels] + spread * torch.randn(n, d, generator=draw, dtype=torch.float64))
    return found


def test_targets_are_means_and_covariance_by_class() -> None:
    labels = torch.arange(600) % 3
    z = codes_of(600, labels)
    asked, answer = given(z, labels)
    targets = Targets(3, asked.codes.axes)
    assert not targets.taken
    targets.take(answer, asked, noise_multiplier=0.0, floor=1e-6)
    assert targets.taken
    torch.testing.assert_close(targets.shares, torch.full((3,), 1 / 3))
    for j, block in enumerate(z):
        means = torch.stack([block[labels == label].mean(0) for label in range(3)])
        axes = targets.get_buffer(f"axes{j}").double()
        turned = (block - means[labels]) @ axes
        variances = torch.diag(targets.get_buffer(f"variances{j}").double())
        torch.testing.assert_close(axes.t() @ axes, torch.eye(block.shape[1]).double(), atol=1e-5, rtol=0)
        torch.testing.assert_close(turned.t() @ turned / 600, variances, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(targets.get_buffer(f"means{j}").double(), means @ axes, atol=1e-5, rtol=1e-4)
        spread = variances.diagonal()
        torch.testing.assert_close(targets.get_buffer(f"weights{j}").double(), 0.5 / (spread[:, None] + spread))


def test_the_distance_is_that_of_frechet() -> None:
    """Means 0.02 apart, and a covariance some percent off in every entry: within 2 % of the distance itself."""
    draw = torch.Generator().manual_seed(0)
    labels, sample = torch.zeros(300, dtype=torch.int64), torch.randn(300, 4, generator=draw, dtype=torch.float64)
    sample = sample - sample.mean(0)
    sample = sample @ torch.linalg.inv(torch.linalg.cholesky(sample.t() @ sample / 300)).t()  # covariance: the identity
    variances = torch.tensor([0.2, 0.1, 0.04, 0.01], dtype=torch.float64)
    change = torch.randn(4, 4, generator=draw, dtype=torch.float64)
    root = variances.sqrt()
    other = torch.diag(variances) + 0.02 * (change + change.t()) * root[:, None] * root
    codes = sample @ torch.linalg.cholesky(other).t() + 0.02
    targets = Targets(1, [4]).double()
    targets.variances0.copy_(variances)
    targets.weights0.copy_(0.5 / (variances[:, None] + variances))
    within = codes.t() @ codes / 300
    inner = root[:, None] * within * root
    exact = 4 * 0.02**2 + variances.sum() + within.trace() - 2 * torch.linalg.eigvalsh(inner).sqrt().sum()
    # class means are taken from the codes, and the covariance is about the released means: 0.02 is in both
    found = targets.loss([torch.cat([codes, codes])], labels, covariance_weight=1.0)
    assert float(found) == pytest.approx(float(exact / variances.sum()), rel=0.02)


def test_small_eigenvalues_are_not_blown_up() -> None:
    """Of variances 1e-8 and the like, those below 2 % of the mean count as that."""
    labels = torch.arange(600) % 3
    z = codes_of(600, labels)
    z = [torch.cat([block[:, :1] * 1e-4, block[:, 1:]], 1) for block in z]
    asked, answer = given(z, labels)
    targets = Targets(3, asked.codes.axes)
    targets.take(answer, asked, noise_multiplier=0.0, floor=0.02)
    for j, block in enumerate(z):
        means = torch.stack([block[labels == label].mean(0) for label in range(3)])
        mean = float((block - means[labels]).square().sum(1).mean() / block.shape[1])
        largest = float(targets.get_buffer(f"weights{j}").max())
        assert largest == pytest.approx(0.5 / (2 * 0.02 * mean), rel=0.01)


def test_a_class_below_the_noise_weighs_nothing() -> None:
    labels = torch.arange(600) % 2
    asked, answer = given(codes_of(600, labels), labels)
    answer[2] = 1.0  # noise: seven records, where 28 could be seen
    targets = Targets(3, asked.codes.axes)
    targets.take(answer, asked, noise_multiplier=1.0, floor=0.02)
    torch.testing.assert_close(targets.shares, torch.tensor([0.5, 0.5, 0.0]))
    assert all(float(targets.get_buffer(f"means{j}")[2].norm()) == 0 for j in range(5))


def test_nobody_is_no_error() -> None:
    asked = query()
    targets = Targets(3, asked.codes.axes)
    targets.take(torch.zeros(asked.dimension), asked, noise_multiplier=1.0, floor=0.02)
    assert all(value.isfinite().all() for value in targets.state_dict().values())
    torch.testing.assert_close(targets.shares, torch.full((3,), 1 / 3))


def test_the_distance_of_two_halves_is_right_on_average() -> None:
    """Gaussian codes that are off by a known shift and spread from variances of 1, of classes with shares 0.2, 0.3 and 0.5.

    Two thousand batches of twenty; the mean lies within five standard errors of the truth: by chance fails once in a million.
    """
    shares, shift, spread = torch.tensor([0.2, 0.3, 0.5]), 0.3, 1.2
    targets = Targets(3, [4])
    targets.shares.copy_(shares)
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2, 2])
    draw = torch.Generator().manual_seed(0)
    drawn = [
        float(targets.loss([shift + spread * torch.randn(20, 4, generator=draw)], labels, covariance_weight=0.3))
        for _ in range(2_000)
    ]
    covariance = spread**2 * torch.eye(4) + shift**2 * torch.ones(4, 4) - torch.eye(4)
    truth = shift**2 + 0.3 * 0.25 * float(covariance.square().sum()) / 4
    error = float(np.std(drawn)) / math.sqrt(len(drawn))
    assert error < 0.05 * truth
    assert abs(float(np.mean(drawn)) - truth) < 5 * error


def test_fakes_that_match_are_at_no_distance() -> None:
    targets = Targets(2, [1, 1])
    half = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None]
    labels = torch.tensor([0, 0, 1, 1])
    assert float(targets.loss([torch.cat([half, half])] * 2, labels, covariance_weight=0.3)) == 0


# ---------------------------------------------------------------------- matching


@pytest.mark.parametrize(
    ("prior", "n", "expected"),
    [
        ("uniform", 9, [3, 3, 3]),
        ("uniform", 10, [4, 3, 3]),
        ((0.8, 0.2, 0.0), 13, [9, 3, 1]),
        ((1.0, 0.0, 0.0), 3, [1, 1, 1]),
    ],
)
def test_every_class_has_fakes_by_the_declared_prior(prior: Any, n: int, expected: list[int]) -> None:
    found = loop.quotas(DataCard(shape=(1, 28, 28), classes=3, declared_size=200, label_prior=prior), n)
    assert torch.bincount(found, minlength=3).tolist() == expected


def begun(settings: dict[str, Any], held: Records | None = None) -> tuple[Training[Any, Any], Confined[Records]]:
    job = Job.of(METHODS["dp-mepf"], {**SMALL, **settings}, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    rng = Rng(0, noise_seed=1)
    return job.begin(rng), Confined(held or records(200), ledger, rng)


def test_matching_comes_nearer() -> None:
    """With little noise the estimated distance falls by half in sixty steps."""
    training, private = begun({"noise_multiplier": 0.01, "matching_steps": 60, "batch_size": 60, "learning_rate": 5e-3})
    far = [
        float(reached.logs["loss"])
        for reached in training.drive(private, records(60, seed=7))
        if reached.phase.name == "matching" and reached.logs
    ]
    assert len(far) == 60
    assert np.mean(far[-10:]) < 0.5 * np.mean(far[:5])


def test_a_release_that_was_lost_trains_nothing() -> None:
    """Paid for in a run that crashed before its checkpoint: there is nothing to match, and nothing to certify."""
    training, private = begun({})
    while private.remaining(training.job.plan[0][0]):
        private.release(training.job.queries[0].mechanism, query())
    reached = list(training.drive(private, records(60, seed=7)))
    assert not [
        each for each in reached if each.phase.name in ("training", "matching", "likeness", "votes") and each.logs
    ]
    assert private.remaining(training.job.plan[1][0]) == 1  # votes on what matched nothing would be wasted
    assert not training.trained


def test_what_was_paid_for_goes_on_at_no_cost() -> None:
    """A checkpoint from between the release and the first step of matching is worth resuming."""
    job = Job.of(METHODS["dp-mepf"], SMALL, CARD)
    expected = {
        ("", 0): False, ("features", 2): False, ("warm start", 2): False, ("training", 0): False, ("training", 1): True,
        ("matching", 0): True, ("matching", 3): True,
    }  # fmt: skip
    alone = Job.of(METHODS["dp-mepf"], {**SMALL, "rounds": 0}, CARD)
    assert {at: alone.paid_for({"phase": at[0], "step": at[1]}) for at in expected} == expected
    assert [alone.trained({"phase": "matching", "step": step}) for step in (0, 1)] == [False, True]
    expected = dict.fromkeys(expected, False) | {("votes", 0): False, ("votes", 1): True}
    assert {at: job.paid_for({"phase": at[0], "step": at[1]}) for at in expected} == expected
    assert [job.trained({"phase": "votes", "step": step}) for step in (0, 1)] == [False, True]


def test_the_features_and_the_released_weights() -> None:
    """The average is what is released, and matching leaves the features alone."""
    training, private = begun({"average_decay": 0.5})
    kept: dict[str, Any] = {}
    for reached in training.drive(private, records(60, seed=7)):
        if reached.logs is None:
            kept[reached.phase.name] = copy.deepcopy(training.state.codes.state_dict())
    assert all(torch.equal(kept["features"][name], value) for name, value in kept["matching"].items())
    state = training.state
    assert state.released.generator is state.G.average.released is not state.G.net
    assert any(
        not torch.equal(a, b) for a, b in zip(state.released.parameters(), state.G.net.parameters(), strict=True)
    )


# ---------------------------------------------------------------------- pictures that bend


def standing(*bends: float) -> Tensor:
    """What bends one picture: the first of its numbers, and zeros."""
    by = torch.zeros(1, nets.BENDS)
    by[0, : len(bends)] = torch.tensor(bends)
    return by


def test_pictures_that_do_not_bend_are_those_of_the_dcgan() -> None:
    G = nets.Generator((1, 28, 28), 3, Config(width=4, latent_size=6, bends=0.0))
    latents, labels = torch.randn(5, G.latent_size), torch.arange(5) % 3
    plain = G.net(latents[:, :6], labels)
    assert torch.equal(G(latents, labels), plain)
    assert G.learnt is None
    bent = nets.Generator((1, 28, 28), 3, Config(width=4, latent_size=6, bends=1.0))
    bent.net = G.net
    latents[:, 6:] = 0
    torch.testing.assert_close(bent(latents, labels), plain, atol=1e-5, rtol=0)


def test_the_discriminator_is_the_dcgans_whose_labels_are_seen_once() -> None:
    """Logits and gradients are the same, up to rounding."""
    torch.manual_seed(0)
    ours, plain = nets.Discriminator((1, 28, 28), 3, width=4), dcgan.Discriminator((1, 28, 28), 3, width=4)
    plain.load_state_dict(ours.state_dict())
    images, labels = torch.rand(7, 1, 28, 28, requires_grad=True), torch.tensor([0, 1, 2, 1, 1, 0, 1])
    seen: list[int] = []
    ours.label_in.register_forward_hook(lambda layer, given, maps: seen.append(len(maps)))
    logits = [net(images, labels) for net in (ours, plain)]
    assert seen == [3]
    torch.testing.assert_close(*logits, atol=1e-6, rtol=1e-5)
    gradients = [
        torch.autograd.grad(each.square().sum(), [images, *net.parameters()])
        for each, net in zip(logits, (ours, plain), strict=True)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_what_bends_a_picture_is_random_and_learnt_in_sum() -> None:
    """Shifts add up, whether of the whole picture or of the knots of a grid, 4x4 or 7x7: two pixels and two are four."""
    picture, two = torch.rand(1, 1, 28, 28), 4 / 28
    four = nets.warped(picture, standing(0, 0, 0, 0, 2 * two / nets.SHIFT))
    torch.testing.assert_close(four[..., :-4], picture[..., 4:], atol=1e-4, rtol=0)
    learnt = torch.zeros(1, 6 + 2 * 7**2)
    learnt[0, 4] = two / nets.SHIFT
    torch.testing.assert_close(
        nets.warped(picture, standing(0, 0, 0, 0, two / nets.SHIFT), learnt), four, atol=1e-4, rtol=0
    )
    learnt[0, 4], learnt[0, 6 : 6 + 49] = 0, two / nets.WAVE
    torch.testing.assert_close(
        nets.warped(picture, standing(0, 0, 0, 0, two / nets.SHIFT), learnt), four, atol=1e-4, rtol=0
    )


def test_bends_are_learnt_from_the_whole_latent_and_the_class() -> None:
    """At first they are nothing, and the loss reaches them. Later each number of a latent and the class moves them."""
    G = nets.Generator((1, 28, 28), 3, Config(width=4, latent_size=6, bends=1.0, learnt_bends=True))
    latents, labels = torch.randn(5, G.latent_size), torch.arange(5) % 3
    without = dcgan.to_pixels(nets.warped(G.net.logits(latents[:, :6], labels), latents[:, 6:]))
    torch.testing.assert_close(G(latents, labels), without, atol=1e-5, rtol=0)
    assert G.learnt is not None
    last = G.learnt[-1]
    assert isinstance(last, torch.nn.Linear)
    G(latents, labels).square().sum().backward()
    assert last.weight.grad is not None
    assert (last.weight.grad[:6].abs().sum(1) > 0).all()
    torch.nn.init.normal_(last.weight)
    seen: list[Tensor] = []
    G.learnt.register_forward_hook(lambda net, of, bends: seen.append(bends[0].detach()))
    G(latents[:1], labels[:1])
    G(latents[:1], labels[:1] + 1)
    for position in (0, 5, 6, G.latent_size - 1):
        other = latents[:1].clone()
        other[0, position] += 1
        G(other, labels[:1])
    assert all(float((bends - seen[0]).abs().max()) > 1e-3 for bends in seen[1:])
    latents[:, 6:], G.bends = 0, 0.0  # nothing random bends; what is learnt does
    learnt = G.learnt(torch.cat([latents, F.one_hot(labels, 3).float()], 1))
    torch.testing.assert_close(
        G(latents, labels), dcgan.to_pixels(nets.warped(G.net.logits(latents[:, :6], labels), learnt))
    )
    assert float((G(latents, labels) - G.net(latents[:, :6], labels)).detach().abs().max()) > 0.01


@pytest.mark.parametrize("asked", [False, True])
def test_bends_are_learnt_where_a_run_asks_for_it(asked: bool) -> None:
    released = loop.generator(Config(learnt_bends=asked), CARD)
    assert (released.generator.learnt is not None) == asked


def test_almost_black_is_black_and_almost_white_is_white_in_what_is_released_and_voted_on() -> None:
    """10 % of the range at the dark end and 30 % at the bright one; what lies between is spread evenly over all of it."""
    G = nets.Generator((1, 28, 28), 3, Config(width=4, latent_size=6, bends=0.0, black=0.1, white=0.3))
    tones = torch.tensor([0.001, 0.05, 0.1, 0.25, 0.4, 0.55, 0.7, 0.9, 0.999])
    logits = torch.atanh(2 * tones - 1)
    G.net.logits = lambda latents, labels: logits  # type: ignore[method-assign,assignment]  # a net that draws this
    latents, labels = torch.zeros(9, G.latent_size), torch.zeros(9, dtype=torch.int64)
    clean = torch.tensor([0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1])
    torch.testing.assert_close(G(latents, labels), tones, atol=1e-6, rtol=0)
    torch.testing.assert_close(G.finished(latents, labels), clean, atol=1e-6, rtol=0)
    some = candidates()
    some.latents = torch.zeros(len(some.labels), G.latent_size)
    released = nets.Released(G, some)
    torch.testing.assert_close(released(torch.zeros(9, released.latent_size), labels), clean, atol=1e-6, rtol=0)
    assert (loop.drawn(G, some).images == clean.mul(255).round().byte().numpy()).all()


@pytest.mark.parametrize("side", [28, 32])
def test_a_picture_is_shifted_and_its_rim_goes_on(side: int) -> None:
    """By two pixels: four parts in `side` of half of it."""
    picture = torch.rand(1, 2, side, side)
    moved = nets.warped(picture, standing(0, 0, 0, 0, 4 / side / nets.SHIFT))
    torch.testing.assert_close(moved[..., :-2], picture[..., 2:], atol=1e-5, rtol=0)
    torch.testing.assert_close(moved[..., -2:], picture[..., -1:].expand(-1, -1, -1, 2), atol=1e-4, rtol=0)
    up = nets.warped(picture, standing(0, 0, 0, 0, 0, 4 / side / nets.SHIFT))
    torch.testing.assert_close(up[:, :, :-2], picture[:, :, 2:], atol=1e-5, rtol=0)


def test_a_quarter_turn_a_mirror_and_a_ripple() -> None:
    picture = torch.rand(1, 1, 28, 28)
    turned = nets.warped(picture, standing(math.pi / 2 / nets.TURN))
    torch.testing.assert_close(turned, picture.rot90(1, (2, 3)), atol=1e-4, rtol=0)
    mirrored = nets.warped(picture, standing(0, -2 / nets.STRETCH))
    torch.testing.assert_close(mirrored, picture.flip(3), atol=1e-4, rtol=0)
    by = standing()
    by[0, 6 : 6 + 16] = 4 / 28 / nets.WAVE  # the first grid moves columns, all by two
    torch.testing.assert_close(nets.warped(picture, by)[..., :-2], picture[..., 2:], atol=1e-4, rtol=0)


def test_bending_blurs_nothing() -> None:
    """Black and white stay so, where bent pixels would be grey: the logits of a step are as steep between as before."""
    G = nets.Generator((1, 28, 28), 3, Config(width=4, latent_size=6, bends=1.0))
    logits = torch.where(torch.rand(40, 1, 7, 7) > 0.5, 40.0, -40.0).repeat_interleave(4, 2).repeat_interleave(4, 3)
    G.net.logits = lambda latents, labels: logits  # type: ignore[method-assign,assignment]  # a net that draws this
    sharp = G(torch.randn(40, G.latent_size), torch.zeros(40, dtype=torch.int64))
    grey = float(((sharp > 0.1) & (sharp < 0.9)).float().mean())
    assert grey < 0.03
    assert sharp.std() > 0.45


# ---------------------------------------------------------------------- votes


def candidates(count: int = 4) -> nets.Candidates:
    return nets.Candidates(CARD, count, 6)


def test_variations_of_normal_latents_are_normal_and_as_far_away_as_asked() -> None:
    """12,000 numbers: the spread is 1 within 3 %, the correlation with the parent sqrt(1 - degree^2) within 0.03, five standard
    errors: by chance fails once in a million.
    """
    each = candidates(1_000)
    stream = torch.Generator().manual_seed(0)
    each.latents = torch.randn(3_000, 6, generator=stream)
    labels = torch.arange(2_000) % 3
    fresh = torch.randn(2_000, 7, generator=stream)
    for degree, expected in ((0.0, 1.0), (0.6, 0.8), (1.0, 0.0)):
        each.degree.fill_(degree)
        parents = each.latents[nets.votes.pick(each.weights, each.labels, labels, torch.special.ndtr(fresh[:, 0]))]
        found = each.varied(fresh, labels)
        assert float(found.std()) == pytest.approx(1, abs=0.03)
        assert float((found * parents).mean()) == pytest.approx(expected, abs=0.05)
    assert torch.equal(found, fresh[:, 1:])
    each.degree.fill_(0.0)
    assert torch.equal(each.varied(fresh, labels), parents)


def test_candidates_are_as_many_as_the_declared_prior_says() -> None:
    card = DataCard(shape=(1, 28, 28), classes=3, declared_size=200, label_prior=(0.5, 0.5, 0.0))
    assert torch.bincount(nets.Candidates(card, 10, 6).labels).tolist() == [15, 15, 1]


def voted(settings: dict[str, Any], of: Any) -> Training[Any, Any]:
    """A run of few steps on records that `of` makes of the state before the votes."""
    training, first = begun({**settings, "noise_multiplier": 0.01})
    public = records(60, seed=7)
    state, run = training.state, dataclasses.replace(training.run, queries=training.job.queries)
    list(loop.learn_features(run, state, public))
    list(loop.train(run, state, first))
    state.step = 0
    list(loop.learn_likeness(run, state))
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=training.job.relation)
    ledger.reserve(training.job.plan)
    state.step = 0
    for _ in loop.vote(run, state, Confined(of(copy.deepcopy(state)), ledger, run.rng)):
        state.step += 1
    return training


def test_votes_choose_what_is_like_the_records() -> None:
    """Forty pictures of one candidate of class 0 and forty of another; one record of class 2; none of class 1."""
    drawn: list[Records] = []

    def of(state: Any) -> Records:
        run = begun({"spread": 2.0})[0].run  # candidates as in the round that follows
        state.candidates.latents = loop.next_latents(run, state.candidates, first=True)
        drawn.append(loop.drawn(state.released.generator, state.candidates))
        return drawn[0][np.array([1] * 40 + [3] * 40 + [12])]

    training = voted({"rounds": 1, "spread": 2.0, "degree": 0.5, "votes_noise": 5.0}, of)
    found = training.state.candidates
    same = [i for i in range(5) if (drawn[0].images[i] == drawn[0].images[1]).all()]
    assert same == [1]
    weights = found.weights.tolist()
    assert weights[1] == pytest.approx(40, abs=0.4)
    assert weights[3] == pytest.approx(40, abs=0.4)
    assert weights[12] == pytest.approx(1, abs=0.4)
    assert [i for i, each in enumerate(weights) if each > 0.3] == [1, 3, 12]
    assert float(found.degree) == 0.5
    assert float(found.latents.std()) == pytest.approx(2, abs=0.2)


def test_the_second_round_is_on_variations_of_what_was_chosen() -> None:
    """Every candidate is nearer to one of the first of its class than 0.1 x sqrt(42) x 1.6; others are 9 away."""
    first: list[Tensor] = []

    def of(state: Any) -> Records:
        first.append(loop.next_latents(begun({"spread": 1.0})[0].run, state.candidates, first=True))
        return records(30)

    found = voted({"rounds": 2, "spread": 1.0, "degree": 0.1}, of).state.candidates
    kin = found.labels[:, None] == found.labels
    distances = torch.cdist(found.latents, math.sqrt(1 - 0.1**2) * first[0])
    nearest = torch.where(kin, distances, math.inf).min(1).values
    assert found.latents.shape == (15, 42)
    assert float(nearest.min()) > 0.3
    assert float(nearest.max()) < 1.05
    assert float(found.degree) == pytest.approx(0.06)


def test_weak_votes_do_not_count_and_strong_ones_in_full() -> None:
    """Noise 1: of 15 candidates nobody votes for, one is above 2 in 44; one with 200 votes has about 200, and not 198."""
    training, private = begun({"noise_multiplier": 1.0, "votes_noise": 1.0, "rounds": 1})
    shown = [each for each in training.drive(private, records(60, seed=7)) if each.phase.name == "votes" and each.logs]
    weights = training.state.candidates.weights
    assert len(shown) == 1
    assert all(each == 0 or each > 2 for each in weights.tolist())
    assert float(weights.sum()) == pytest.approx(200, abs=20)


def test_likeness_is_learnt_from_what_was_released_and_stays() -> None:
    """It is fresh until the generator has matched, learns then, and no vote changes it."""
    training, private = begun({"rounds": 2})
    kept: dict[str, Any] = {"fresh": copy.deepcopy(training.state.likeness.net.state_dict())}
    for reached in training.drive(private, records(60, seed=7)):
        if reached.logs is None:
            kept[reached.phase.name] = copy.deepcopy(training.state.likeness.net.state_dict())
    assert list(kept) == ["fresh", "features", "warm start", "training", "matching", "likeness", "votes"]
    assert all(torch.equal(kept["matching"][name], value) for name, value in kept["fresh"].items())
    assert all(not torch.equal(kept["likeness"][name], value) for name, value in kept["fresh"].items())
    assert all(torch.equal(kept["likeness"][name], value) for name, value in kept["votes"].items())


class Stripes(nn.Module):
    """A generator whose latents are brightness: class 0 above, class 1 in the middle, class 2 below."""

    latent_size = 1

    def finished(self, latents: Tensor, labels: Tensor) -> Tensor:
        pictures: Tensor = self(latents, labels)
        return pictures.clamp(0, 1)

    def __init__(self, brightness: float = 0.5) -> None:
        super().__init__()
        self.brightness = brightness

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        pictures = torch.zeros(len(labels), 3, 28 * 28 // 3)
        pictures[torch.arange(len(labels)), labels] = self.brightness * (1 + 0.2 * latents.clamp(-3, 3))
        return nn.functional.pad(pictures.flatten(1), (0, 28 * 28 % 3)).view(-1, 1, 28, 28)


def test_likeness_learns_the_classes_of_what_the_generator_draws() -> None:
    training, _ = begun({"likeness_steps": 40, "features_batch_size": 32})
    state = training.state
    state.targets.taken.fill_(True)
    state.G.net, state.G.average = Stripes(brightness=0.0), Average(Stripes(), 0.0)
    losses = [float(each["loss"]) for each in loop.learn_likeness(training.run, state)]
    labels = torch.arange(3).repeat(20)
    told = state.likeness.net.logits(Stripes()(torch.zeros(60, 1), labels)).argmax(1)
    assert len(losses) == 40
    assert losses[0] == pytest.approx(math.log(3), abs=0.1)
    assert losses[-1] < 0.3
    assert torch.equal(told, labels)
