"""DP diffusion: one record's many draws are one, the sampler gives the distribution it should, the starts read no record."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.dp_diffusion import Config, loop, sampler
from gossamer.methods.dp_diffusion.nets import Denoiser, Generator, Perceptron
from gossamer.methods.job import Job
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

CARD = DataCard(shape=(1, 8, 8), classes=2, declared_size=100)
SETTINGS = Config(noise_multiplier=1.0, multiplicity=4, axes=6, width=16, depth=2)
NO_CLIP = Bounds(norms=(math.inf,))


def some(n: int, value: int | None = None) -> Records:
    draw = np.random.default_rng(n)
    images = draw.integers(0, 256, size=(n, 1, 8, 8)) if value is None else np.full((n, 1, 8, 8), value)
    return Records(images.astype(np.uint8), draw.integers(2, size=n))


def net(config: Config = SETTINGS) -> Generator:
    """Its last layer, which begins at zero, speaks."""
    torch.manual_seed(0)
    G = loop.generator(config, CARD)
    nn.init.normal_(G.denoiser.inner.last.weight, std=0.1)  # type: ignore[union-attr,arg-type]  # both kinds have it
    return G


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def normals(n: int) -> Tensor:
    return torch.randn(n, generator=seeded())


def query(G: Generator, config: Config = SETTINGS) -> PerRecordGradient[Records]:
    loss = loop.Loss(G, config, config.multiplicity, normals)
    return PerRecordGradient(G.denoiser, loss.of_records, 64, multiplicity=config.multiplicity)


def test_all_draws_of_a_record_are_clipped_once() -> None:
    """One record adds max_norm, not multiplicity x max_norm; nor less."""
    G = net()
    norm = float(query(G).clipped_sum(some(1), Bounds(norms=(1e-3,))).norm())
    assert 0.995e-3 < norm <= 1e-3


def test_losses_of_a_record_add_up_to_their_mean() -> None:
    """By hand, with the same noise: how far D is off, in units of c_out. EDM, equation 8."""
    G, held, drawn = net(), some(3), normals(12 * (2 + 6))
    images, labels = held.tensors()
    z = G.code(images)
    log_sigma = loop.LOG_SIGMA[0] + loop.LOG_SIGMA[1] * drawn[:12]
    noise = drawn[24:].view(12, 6)
    total = torch.zeros(3)
    for row in range(12):
        sigma, r = log_sigma[row : row + 1].exp(), row % 3
        off = G.denoiser(z[r : r + 1] + sigma * noise[row], sigma, labels[r : r + 1]) - z[r]
        weight = (sigma**2 + 1) / sigma**2
        total[r] += weight[0] * off.square().mean().detach() / 4
    losses = loop.Loss(G, SETTINGS, SETTINGS.multiplicity, normals).of_records(G.denoiser, held)
    torch.testing.assert_close(losses.view(4, 3).sum(0).detach(), total, rtol=1e-4, atol=1e-5)


def test_the_clipped_sum_is_that_of_the_plain_loop() -> None:
    G, held = net(), some(5)
    fast = query(G).clipped_sum(held, NO_CLIP)
    losses = loop.Loss(G, SETTINGS, SETTINGS.multiplicity, normals).of_records(G.denoiser, held)
    plain = torch.cat([part.flatten() for part in torch.autograd.grad(losses.sum(), list(G.denoiser.parameters()))])
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


def test_dropped_labels_are_not_told() -> None:
    """With a dropout of one, the label makes no difference."""
    config = dataclasses.replace(SETTINGS, label_dropout=1.0)
    G, held = net(config), some(4)
    other = Records(held.images, 1 - held.labels)
    loss = loop.Loss(G, config, config.multiplicity, normals)
    assert torch.equal(loss.of_records(G.denoiser, held), loss.of_records(G.denoiser, other))
    told = loop.Loss(G, SETTINGS, SETTINGS.multiplicity, normals)
    assert not torch.equal(told.of_records(G.denoiser, held), told.of_records(G.denoiser, other))


def test_a_share_of_the_labels_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    config, seen = dataclasses.replace(SETTINGS, label_dropout=0.3), list[Tensor]()
    G = net(config)

    def predicted(noisy: Tensor, _sigma: Tensor, labels: Tensor) -> Tensor:
        seen.append(labels)
        return noisy

    monkeypatch.setattr(G.denoiser, "predicted", predicted)
    loop.Loss(G, config, 1, normals)(G.denoiser, torch.zeros(4_000, 6), torch.zeros(4_000, dtype=torch.int64))
    assert abs(float((seen[0] == G.classes).float().mean()) - 0.3) < 0.03  # four standard deviations


class Exact(nn.Module):
    """The denoiser of codes that are normal with mean `mean[y]`, 0 where it is not told, and standard deviation 0.5."""

    classes = 2

    def forward(self, noisy: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        means = torch.tensor([[-2.0], [1.0], [0.0]])[labels]
        return means + (noisy - means) * 0.25 / (0.25 + sigma[:, None] ** 2)


@pytest.mark.parametrize("churn", [0.0, 0.3])
def test_the_sampler_gives_the_distribution_of_the_denoiser(churn: float) -> None:
    """Means within 0.02 (4 standard errors), standard deviations within 3 %.

    It begins at N(0, 20^2), where the mean should already be felt a little: 0.5 / 20 of it is lost, unless churn finds it.
    """
    config = dataclasses.replace(SETTINGS, sampler_steps=40, churn=churn)
    labels, lost = torch.arange(2).repeat(10_000), 0.0 if churn else 0.5 / sampler.SIGMA_MAX
    codes = sampler.heun(Exact(), config, (20_000, 1), labels, seeded())  # type: ignore[arg-type]  # it is called like one
    for label, mean in ((0, -2.0), (1, 1.0)):
        own = codes[labels == label]
        assert float(own.mean()) == pytest.approx(mean * (1 - lost), abs=0.02)
        assert float(own.std()) == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize(("refine", "mean", "std"), [(sampler.SIGMA_MAX, -2.0, 0.5), (0.1, 1.0, 0.1)])
def test_refined_codes_keep_what_the_noise_left(refine: float, mean: float, std: float) -> None:
    """Codes of 1, where the denoiser knows -2 +- 0.5: noise of 20 leaves nothing of the 1, noise of 0.1 nearly all of it.

    From noise level s on, the flow of this denoiser takes x to -2 + (x + 2) 0.5 / (0.25 + s^2)^0.5: 1 to 0.94, and noise of 0.1
    to 0.098. Within 0.1 and 3 %.
    """
    config = dataclasses.replace(SETTINGS, sampler_steps=40, refine=refine)
    labels = torch.zeros(20_000, dtype=torch.int64)
    denoiser: Any = Exact()
    codes = sampler.heun(denoiser, config, (20_000, 1), labels, seeded(), torch.ones(20_000, 1))
    assert float(codes.mean()) == pytest.approx(mean, abs=0.1)
    assert float(codes.std()) == pytest.approx(std, rel=0.03)


def test_guidance_pushes_towards_the_label() -> None:
    config = dataclasses.replace(SETTINGS, guidance=1.0, label_dropout=0.1)
    x, labels = torch.zeros(1, 1), torch.tensor([1])
    known, unknown = (Exact()(x, torch.ones(1), torch.tensor([label])) for label in (1, 2))
    guided = sampler.denoised(Exact(), config, x, 1.0, labels)  # type: ignore[arg-type]  # it is called like one
    torch.testing.assert_close(guided, 2 * known - unknown)


def test_noise_levels_fall_from_the_first_to_nothing() -> None:
    levels = sampler.noise_levels(5)
    assert levels[0] == pytest.approx(sampler.SIGMA_MAX)
    assert levels[-2] == pytest.approx(sampler.SIGMA_MIN)
    assert levels[-1] == 0
    assert levels == sorted(levels, reverse=True)


def test_the_denoiser_is_edms() -> None:
    """A silent F leaves c_skip z; at no noise the code itself comes back."""
    denoiser = Denoiser(Perceptron(3, 34, 8, 1), 2)
    z, told = torch.randn(4, 3, generator=seeded()), torch.full((4,), 2)
    torch.testing.assert_close(denoiser(z, torch.full((4,), 2.0), told), z / 5)
    torch.testing.assert_close(denoiser(z, torch.full((4,), 1e-6), told), z)


def test_a_unet_denoises_pixels() -> None:
    """Its last layer begins at zero, so that c_skip z comes out; and the tape knows its gradients."""
    config = dataclasses.replace(SETTINGS, network="unet", width=8, depth=1)
    G = loop.generator(config, CARD)
    assert G.code_shape == (1, 8, 8)
    z = torch.randn(3, 1, 8, 8, generator=seeded())
    torch.testing.assert_close(G.denoiser(z, torch.ones(3), torch.tensor([0, 1, 2])), z / 2)
    G = net(config)
    fast = dataclasses.replace(query(G, config), form="fast")
    assert 0 < float(fast.clipped_sum(some(2), Bounds(norms=(1.0,))).norm()) <= 2


def test_refusals() -> None:
    job = Job.of(METHODS["dp-diffusion"], {"noise_multiplier": 1.0, "guidance": 1.0}, CARD)
    with pytest.raises(RequestError, match=r"`label_dropout=0\.1`"):
        _ = job.plan
    with pytest.raises(RequestError, match="`churn` is a share"):
        _ = Job.of(METHODS["dp-diffusion"], {"noise_multiplier": 1.0, "churn": 2.0}, CARD).plan
    for settings, refused in (({}, "give `start=moments`"), ({"start": "moments"}, "from 0.02 to 20, not 30")):
        with pytest.raises(RequestError, match=refused):
            _ = Job.of(METHODS["dp-diffusion"], {"noise_multiplier": 1.0, "refine": 30.0, **settings}, CARD).plan
    with pytest.raises(RequestError, match="multiple of 8"):
        net(dataclasses.replace(SETTINGS, network="unet", width=12))


def test_votes_choose_the_public_pictures_of_the_start() -> None:
    """Dark records vote for dark pictures; one Gaussian more is in the plan, and public records are needed."""
    settings = {
        "noise_multiplier": 1.0, "votes_noise": 1.0, "steps": 1, "warm_steps": 2, "axes": 4, "width": 8,
    }  # fmt: skip
    job = Job.of(METHODS["dp-diffusion"], settings, CARD)
    assert job.plan == [(GaussianDpEvent(1.0), 1), (GaussianDpEvent(1.0), 1)]
    assert job.needs_public
    draw = np.random.default_rng(0)

    def pictures(n: int, low: int, high: int) -> Records:
        return Records(draw.integers(low, high, (n, 1, 8, 8)).astype(np.uint8), np.arange(n) % 2)

    dark, bright = pictures(20, 0, 40), pictures(20, 160, 255)
    public = Records(np.concatenate([bright.images, dark.images]), np.concatenate([bright.labels, dark.labels]))
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0))
    for _ in training.drive(Confined(pictures(400, 0, 60), ledger, training.run.rng), public):
        pass
    assert ledger.used == [2]
    chosen = training.state.state_dict()["chosen"]
    assert len(chosen) == loop.PUBLIC
    assert float((chosen >= 20).float().mean()) > 0.95


def test_all_records_are_a_batch_where_there_are_few() -> None:
    plan = Job.of(METHODS["dp-diffusion"], {"noise_multiplier": 1.0}, CARD).plan
    assert plan == [(GaussianDpEvent(1.0), Config(noise_multiplier=1.0).steps)]


@pytest.mark.parametrize(
    ("start", "settings"),
    [
        ("evolve", {"drawing": "pictures", "embedding": "cosines"}),
        ("moments", {"public_detail": True}),
        ("moments", {"autoencoder": "diffusers_folders:vae"}),
        ("evolve", {"drawing": "letters", "encoder": "lite0"}),
    ],
)
def test_a_release_holds_no_pictures_of_a_start(start: str, settings: dict[str, Any]) -> None:
    """Refined samples come from the start's generator, so one that holds public pictures would be released with them."""
    asked = {"noise_multiplier": 1.0, "start": {"method": start, **settings}}
    assert Job.of(METHODS["dp-diffusion"], asked, CARD).check() is None
    with pytest.raises(RequestError, match="puts the generator of the start into the release"):
        Job.of(METHODS["dp-diffusion"], {**asked, "refine": 1.0}, CARD).check()


@pytest.mark.parametrize(("start", "settings"), [("evolve", {"drawing": "letters"}), ("moments", {"cells": 2})])
def test_other_starts_can_be_refined(start: str, settings: dict[str, Any]) -> None:
    asked = {"noise_multiplier": 1.0, "start": {"method": start, **settings}, "refine": 1.0}
    Job.of(METHODS["dp-diffusion"], asked, CARD).check()
