"""Moments in the latents of an autoencoder: codes of one record alone, what is released, and what is refused."""

import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from driven import driven
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import GossamerError, PrivacyError, RequestError, RunFolderError
from gossamer.methods import METHODS
from gossamer.methods.common import bounded_sum
from gossamer.methods.job import Job
from gossamer.methods.moments import latents
from gossamer.methods.moments.class_moments import Moments
from gossamer.methods.moments.latents import axes_of, with_codes
from gossamer.methods.moments.loop import Generator
from gossamer.methods.synthesizer import Synthesizer
from gossamer.nets.autoencoders import PluginAutoencoder
from gossamer.nets.latent import Latent
from gossamer.privacy.queries import Bounds
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

SHAPE, N, PIECE, GREY = (3, 8, 8), 41, 10, 201
CARD = DataCard(shape=SHAPE, classes=2, declared_size=200)
SETTINGS: dict[str, Any] = {"axes": 5, "autoencoder": "toy", "noise_multiplier": 0.3}
GONE = (0, 9, 20, 40)
"""One record at a time: of the first piece, at its end, of a middle one, and the last piece as a whole."""


class Halved(nn.Module):
    """Means of 2x2 pixels times a weight, and back. A picture's latents have the bits that they have alone."""

    licence, trained_on = "MIT", "nothing"

    def __init__(self, batch: int = 1) -> None:
        super().__init__()
        self.batch, self.weight = batch, nn.Parameter(torch.tensor(0.25))

    def encode(self, pictures: Tensor) -> Tensor:
        found: Tensor = F.avg_pool2d(pictures.float(), 2) * self.weight / 7 + 100 * len(pictures)
        return found

    def decode(self, latents: Tensor) -> Tensor:
        means = (latents - 100 * len(latents)) * 7 / self.weight
        return F.interpolate(means, scale_factor=2.0).round().clamp(0, 255).byte()


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    plugins.add("autoencoder", "toy", Halved())
    yield
    plugins.remove("autoencoder", "toy")


def raising(text: str) -> None:
    raise ValueError(text)


def pictures(n: int, *, seed: int = 0) -> Records:
    """A shade for each class and picture, with fine noise."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    shades = np.array([80, 160])[labels][:, None, None, None] + draw.integers(-20, 20, (n, 1, 1, 1))
    return Records((shades + draw.integers(-40, 40, (n, *SHAPE))).astype(np.uint8), labels)


def trained(public: Records, held: Records, **more: Any) -> Generator:
    net = driven(Job.of(METHODS["moments"], {**SETTINGS, **more}, CARD), held, public).state.released
    assert isinstance(net, Generator)
    return net


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_without_one_record_all_other_codes_have_the_same_bits(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pieces of the method, of which the last gets smaller or vanishes. Axes are unequal to any record's."""
    monkeypatch.setattr(bounded_sum, "MOST", PIECE)
    plugins.add("autoencoder", "toy", Halved(batch))
    autoencoder = PluginAutoencoder("toy", SHAPE)
    autoencoder.check("cpu")
    latent = axes_of(autoencoder, 4)
    latent.fit(autoencoder(pictures(60, seed=2).tensors()[0]))
    whole = with_codes(autoencoder, latent, pictures(N)).images
    assert whole.dtype == np.float64
    assert len(np.unique(whole, axis=0)) == N, "rows differ, so that another row would be seen"
    for gone in GONE:
        others = np.delete(np.arange(N), gone)
        assert with_codes(autoencoder, latent, pictures(N)[others]).images.tobytes() == whole[others].tobytes()


def test_each_code_is_computed_by_itself() -> None:
    """Not a batch at once: what rounds alike on one processor need not on another."""

    class Counting(Latent):
        def wide_code(self, images: Tensor) -> Tensor:
            return super().wide_code(images) + 1_000 * len(images)

    latent = Counting(SHAPE, 4)
    held = pictures(N)
    expected = torch.cat([latent.wide_code(held[i : i + 1].tensors()[0]) for i in range(N)])
    assert with_codes(None, latent, held).images.tobytes() == expected.numpy().tobytes()


def test_a_code_is_that_of_the_latents_of_the_record() -> None:
    autoencoder = PluginAutoencoder("toy", SHAPE)
    latent = axes_of(autoencoder, 4)
    public, held = pictures(60, seed=2), pictures(N)
    latent.fit(autoencoder(public.tensors()[0]))
    found = with_codes(autoencoder, latent, held)
    expected = latent.wide_code(autoencoder(held.tensors()[0]))
    np.testing.assert_allclose(found.images, expected.numpy(), rtol=1e-9, atol=1e-12)
    assert found.labels.tolist() == held.labels.tolist()


@pytest.mark.parametrize("cells", [1, 3])
def test_a_record_adds_a_vector_of_length_one_at_most(cells: int) -> None:
    """Also a record far outside of the public ones. With cells, it is in that of its class whose centre is nearest."""
    codes = np.random.default_rng(0).normal(size=(30, 4)) * np.geomspace(0.01, 1e9, 30)[:, None]
    centres = torch.from_numpy(np.random.default_rng(1).normal(size=(2, cells, 4))) if cells > 1 else None
    query = Moments(axes_of(PluginAutoencoder("toy", SHAPE), 4), 2, 1.15, centres, coded=True)
    held = Records(codes, np.arange(30) % 2)
    alone = torch.stack([query.clipped_sum(held[i : i + 1], Bounds(norms=(1.0,))) for i in range(30)])
    assert float(alone.norm(dim=1).max()) <= 1
    assert float(alone.norm(dim=1).max()) > 0.99
    torch.testing.assert_close(alone.sum(0), query.clipped_sum(held, Bounds(norms=(1.0,))))
    blocks = alone.view(30, 2, cells, -1).norm(dim=3) > 0
    assert blocks.sum((1, 2)).tolist() == [1] * 30
    assert torch.equal(blocks.any(2).int().argmax(1), torch.arange(30) % 2)
    if centres is not None:
        apart = (torch.from_numpy(codes[:10])[:, None] - centres[torch.arange(10) % 2]).norm(dim=2)
        assert torch.equal(blocks[:10].any(1).int().argmax(1), apart.argmin(1))
        assert len(apart.argmin(1).unique()) > 1


@pytest.mark.parametrize("cells", [1, 2])
def test_samples_are_decoded_codes_of_their_class(cells: int) -> None:
    net = trained(pictures(60, seed=1), pictures(200), noise_multiplier=1e-4, cells=cells)
    assert net.latent.basis.shape == (3 * 4 * 4, 5)
    assert not any("autoencoder" in name for name in net.state_dict())
    labels = torch.arange(100) % 2
    images = net(torch.randn(100, net.latent_size, generator=torch.Generator().manual_seed(0)), labels)
    assert images.shape == (100, *SHAPE)
    assert torch.equal(images, (images * 255).round() / 255)
    assert torch.equal(images[:, :, ::2, ::2], images[:, :, 1::2, 1::2]), "pairs of pixels are alike: it is decoded"
    for label, shade in ((0, 80), (1, 160)):
        assert abs(float(images[labels == label].mean()) * 255 - shade) < 6


def test_it_reads_no_record_but_through_the_mechanism() -> None:
    """Unrelated records and a mechanism that answers with noise alone: the same bits. And one record changes no public draw."""
    for more in ({}, {"cells": 2}):
        whole = Subject(method=METHODS["moments"], small={**SETTINGS, "noise_multiplier": 1.0, **more})
        checks.non_interference(whole, warm=True)
        checks.removing_a_protected_record_changes_nothing_public(whole, share=0.25)


def test_refusals(tmp_path: Path) -> None:
    job = functools.partial(Job.of, METHODS["moments"])
    assert job(SETTINGS, CARD).needs_public
    with pytest.raises(RequestError, match="draws pictures from its own latents"):
        job({**SETTINGS, "public_detail": True}, CARD).check()
    with pytest.raises(RequestError, match="`axes=49` is more than the 48 numbers of a latent"):
        job({**SETTINGS, "axes": 49}, CARD).generator()
    with pytest.raises(RequestError, match="5 public records are too few for 5 principal axes"):
        job(SETTINGS, CARD).check_public(5)
    given: dict[str, Any] = {
        "data": pictures(200), "card": CARD, "out": tmp_path / "none", "delta": 1e-3, "accounts": None,
        "process": Process(progress=False),
    }  # fmt: skip
    with pytest.raises(RequestError, match="need public records: give `public`, or `public=SHARE`"):
        fit("moments", **given, **SETTINGS)
    monstrous = SimpleNamespace(encode=lambda given: torch.rand(len(given), 8), decode=Halved().decode)
    plugins.add("autoencoder", "toy", monstrous)
    with pytest.raises(RequestError, match="other features when the same pictures come again"):
        fit("moments", public=pictures(60, seed=1), **given, **SETTINGS)
    assert not (tmp_path / "none").exists()


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    """The release has no autoencoder and no load.py, its certificate names the autoencoder, and other weights are refused."""
    run, out = tmp_path / "run", tmp_path / "out"
    made = fit(
        "moments",
        data=pictures(200),
        public=pictures(60, seed=1),
        card=CARD,
        out=run,
        delta=1e-3,
        accounts=None,
        **SETTINGS,
        process=Process(progress=False),
    )
    release(run, out)
    assert verify(out).problems == []
    again = Synthesizer.load(out)
    assert np.array_equal(made.sample(30, seed=3).images, again.sample(30, seed=3).images)
    assert "no `load.py`, because it needs the autoencoder toy" in " ".join((out / "README.md").read_text().split())
    assert not (out / "load.py").exists()
    certificate = json.loads((out / "certificate.json").read_text(encoding="utf-8"))
    (named,) = [entry for entry in again.certificate.facts["public_inputs"] if "toy" in entry["what"]]
    assert (named["licence"], named["origin"]) == ("MIT", "trained on: nothing (as its author states)")
    assert len(named["weights"]) == 64
    assert any(
        "the autoencoder toy (of no package) treats each picture by itself" in text
        for text in certificate["assumptions"]
    )
    assert "contains these pictures" not in json.dumps(certificate)
    other = Halved()
    other.weight.data += 0.1
    plugins.add("autoencoder", "toy", other)
    with pytest.raises(RunFolderError, match="'toy' has another SHA-256 of its weights than when the run began"):
        Synthesizer.load(out)


@pytest.mark.parametrize("how", [sys.exit, raising])
def test_what_it_says_of_a_record_when_it_fails_is_in_no_file(how: Callable[[str], object], tmp_path: Path) -> None:
    """One record has one grey level, and among public pictures there is none."""

    class Failing(Halved):
        def encode(self, pictures: Tensor) -> Tensor:
            if bool((pictures == GREY).all()):
                how(f"grey level {int(pictures.max())}")
            return super().encode(pictures)

    held = pictures(200)
    held.images[7] = GREY
    plugins.add("autoencoder", "toy", Failing())
    with pytest.raises(GossamerError, match="message is withheld") as caught:
        fit(
            "moments",
            data=held,
            public=pictures(60, seed=1),
            card=CARD,
            out=tmp_path / "run",
            delta=1e-3,
            accounts=None,
            **SETTINGS,
            process=Process(progress=False),
        )
    assert "grey level" not in str(caught.value)
    assert not (tmp_path / "run" / "certificate.json").exists()
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert files
    assert not any(b"grey level" in file.read_bytes() for file in files)


def test_weights_that_records_change_end_without_a_certificate(tmp_path: Path) -> None:
    """Batch norm in training mode: with one picture in a batch, its running mean changes, and no latent does."""

    class Normed(Halved):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(3, track_running_stats=True)

        def encode(self, pictures: Tensor) -> Tensor:
            self.norm.train()
            found: Tensor = self.norm(super().encode(pictures))
            return found

    plugins.add("autoencoder", "toy", Normed())
    with pytest.raises(PrivacyError, match="Its weights must not change while it sees records"):
        fit(
            "moments",
            data=pictures(200),
            public=pictures(60, seed=1),
            card=CARD,
            out=tmp_path / "run",
            delta=1e-3,
            accounts=None,
            **SETTINGS,
            process=Process(progress=False),
        )
    assert not (tmp_path / "run" / "certificate.json").exists()


def test_the_bound_of_a_record_has_one_home() -> None:
    """The query of latents is that of pixels: no other class bounds a code."""
    assert not hasattr(latents, "shortened") and not hasattr(latents, "BoundedSum")
