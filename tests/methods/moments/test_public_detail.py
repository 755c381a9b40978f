"""Detail of public pictures: what is added, what is held, what a release says of it, and that no record is in it."""

import functools
import json
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.methods.moments.loop import Generator
from gossamer.methods.moments.public_detail import PublicDetail
from gossamer.methods.synthesizer import Synthesizer
from gossamer.nets.latent import Latent
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

SHAPE = (3, 8, 8)
CARD = DataCard(shape=SHAPE, classes=2, declared_size=200)
SETTINGS: dict[str, Any] = {"axes": 5, "public_detail": True, "noise_multiplier": 0.3}


def pictures(n: int, *, seed: int = 0) -> Records:
    """A shade for each class, with fine noise."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    shades = np.array([80, 160])[labels][:, None, None, None]
    return Records((shades + draw.integers(-60, 60, (n, *SHAPE))).astype(np.uint8), labels)


def trained(public: Records) -> Generator:
    job = Job.of(METHODS["moments"], SETTINGS, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0))
    for _ in training.drive(Confined(pictures(200), ledger, training.run.rng), public):
        pass
    net = training.state.released
    assert isinstance(net, Generator)
    return net


def test_the_rest_of_the_nearest_public_picture_is_added() -> None:
    latent, public = Latent(SHAPE, 5), pictures(40)
    images, _ = public.tensors()
    latent.fit(images)
    detail = PublicDetail(SHAPE, 5)
    detail.take(torch.from_numpy(public.images), latent.code(images))
    codes = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    for code, added in zip(codes, detail(codes, latent), strict=True):
        nearest = min(range(40), key=lambda i: float((detail.codes[i] - code).norm()))
        rest = images[nearest] - latent.decode(detail.codes[nearest][None])[0]
        torch.testing.assert_close(added, rest, atol=1e-5, rtol=0)


def test_a_sample_has_the_code_that_was_drawn_and_is_no_blur() -> None:
    """What it has beyond the axes is all that one of the public pictures has there."""
    public = pictures(60, seed=1)
    net = trained(public)
    assert net.detail is not None
    assert torch.equal(net.detail.images, torch.from_numpy(public.images))
    codes = net.mixture(torch.randn(50, 6, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 2)
    whole = net.latent.decode(codes) + net.detail(codes, net.latent)
    torch.testing.assert_close(net.latent.code(whole), codes, atol=1e-4, rtol=0)
    images, _ = public.tensors()
    rests = images - net.latent.decode(net.latent.code(images))
    added = whole - net.latent.decode(codes)
    apart = (added.flatten(1)[:, None] - rests.flatten(1)).norm(dim=2)
    assert float(apart.min(1).values.max()) < 1e-4
    assert float(rests.flatten(1).norm(dim=1).min()) > 1


def test_a_state_holds_as_many_pictures_as_it_was_saved_with() -> None:
    net, other = trained(pictures(60, seed=1)), Job.of(METHODS["moments"], SETTINGS, CARD).generator()
    other.load_state_dict(net.state_dict())
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in other.state_dict().items())
    plain = Job.of(METHODS["moments"], {**SETTINGS, "public_detail": False}, CARD).generator()
    assert not any(name.startswith("detail") for name in plain.state_dict())


def test_refusals(tmp_path: Path) -> None:
    """Detail needs public pictures, which the release contains: so they are no share of the records."""
    job = functools.partial(Job.of, METHODS["moments"])
    assert job(SETTINGS, CARD).needs_public
    given: dict[str, Any] = {
        "data": pictures(200), "card": CARD, "out": tmp_path / "none", "delta": 1e-3, "accounts": None,
        "process": Process(progress=False),
    }  # fmt: skip
    with pytest.raises(RequestError, match=r"need public records: give `public`\.$"):
        fit("moments", **given, **SETTINGS)
    with pytest.raises(RequestError, match="`public=SHARE` would publish records"):
        fit("moments", public=0.2, **given, **SETTINGS)
    assert not (tmp_path / "none").exists()


def test_no_record_is_in_the_detail() -> None:
    """Unrelated records and a mechanism that answers with noise alone: the same bits. And one record changes no public draw."""
    whole = Subject(method=METHODS["moments"], small={**SETTINGS, "noise_multiplier": 1.0})
    checks.non_interference(whole, warm=True)
    checks.removing_a_protected_record_changes_nothing_public(whole, share=0.25)


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    """The release says that it contains the public pictures. Its load.py draws the same samples."""
    made = fit(
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
    out = tmp_path / "out"
    release(tmp_path / "run", out)
    assert verify(out).problems == []
    one = made.sample(30, seed=3)
    assert np.array_equal(one.images, Synthesizer.load(out).sample(30, seed=3).images)
    load = runpy.run_path(str(out / "load.py"))["load"]
    assert np.array_equal(one.images, load(out).sample(30, seed=3)[0].numpy())
    certificate = json.loads((out / "certificate.json").read_text(encoding="utf-8"))
    assert "each sample has the fine detail of one of them" in certificate["not_covered"][0]
    assert "run as they are, and each sample has the fine detail of one of them." in (out / "README.md").read_text(
        encoding="utf-8"
    )
