"""Teacher and evolve with encoders and picture generators of other packages: whole runs, on small records."""

import dataclasses
import json
import math
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from slowly import slow_among
from torch import Tensor, nn

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.generators import PluginGenerator
from gossamer.errors import GossamerError, Interrupted, PrivacyError, RequestError, RunFolderError
from gossamer.events import Event
from gossamer.methods import METHODS
from gossamer.methods.common.softmax_regression import Classifier
from gossamer.methods.evolve.nets import Evolved
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.nets.scattering import Scattering
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.plan import plan
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

SHAPE = (3, 6, 10)
CARD = DataCard(shape=SHAPE, classes=2, declared_size=40)
TEACHER: dict[str, Any] = {"steps": 8, "expected_batch_size": 20, "encoder": "toy encoder"}
EVOLVE: dict[str, Any] = {
    "steps": 2, "candidates": 6, "variations": 1, "embedding": "cosines", "generator": "toy generator",
}  # fmt: skip
BUDGET: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "process": Process(progress=False), "accounts": None}


class Corners(nn.Module):
    """A fixed random projection. Pictures this small are too small for scattering."""

    licence = "Apache-2.0"
    trained_on = "nothing"

    def __init__(self) -> None:
        super().__init__()
        plane = torch.randint(-9, 9, (math.prod(SHAPE), 7), generator=torch.Generator().manual_seed(0))
        self.plane = nn.Parameter(plane.float())

    def forward(self, pictures: Tensor) -> Tensor:
        return (pictures.float().flatten(1) - 128) @ self.plane


class Stripes:
    """Pictures of noise on a level of their class; a variation mixes fresh noise in."""

    trained_on = "no picture"

    def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Tensor:
        return torch.stack([self.one(int(y), shape, int(s)) for y, s in zip(labels, seeds, strict=True)])

    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
        fresh = self.random(labels, tuple(images.shape[1:]), seeds)
        return ((1 - degree) * images.float() + degree * fresh.float()).byte()

    @staticmethod
    def one(label: int, shape: tuple[int, ...], seed: int) -> Tensor:
        noise = torch.randint(100, shape, generator=torch.Generator().manual_seed(seed))
        return (noise + 100 * label).byte()


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    plugins.add("encoder", "toy encoder", Corners())
    plugins.add("generator", "toy generator", Stripes())
    yield
    for kind, name in (("encoder", "toy encoder"), ("generator", "toy generator")):
        plugins._added.pop((kind, name), None)


def records(n: int = 40, seed: int = 0) -> Records:
    """Dark pictures of class 0, bright ones of class 1."""
    coins = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    images = coins.integers(0, 100, (n, *SHAPE)) + 120 * labels[:, None, None, None]
    return Records(images.astype(np.uint8), labels.astype(np.int64))


def others() -> Corners:
    """The same encoder with other weights."""
    encoder = Corners()
    encoder.plane.data += 1
    return encoder


def settings_of(method: str) -> dict[str, Any]:
    return {"teacher": TEACHER, "evolve": EVOLVE, "evolve encoder": {**EVOLVE, "encoder": "toy encoder"}}[method]


def in_memory(method: str, held: Records, *, noise_seed: int = 1, **more: Any) -> Any:
    job = Job.of(METHODS[method.split(maxsplit=1)[0]], {"noise_multiplier": 1.0, **settings_of(method), **more}, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0, noise_seed=noise_seed))
    for _ in training.drive(Confined(held, ledger, training.run.rng)):
        pass
    return training.state


RUNS = ["teacher", "evolve", "evolve encoder"]


@pytest.mark.parametrize("method", slow_among(RUNS, {"evolve", "evolve encoder"}))
def test_a_run_is_released_loaded_and_verified(method: str, tmp_path: Path) -> None:
    held = records()
    run, out = tmp_path / "run", tmp_path / "out"
    made = fit(method.split(maxsplit=1)[0], data=held, card=CARD, out=run, **BUDGET, **settings_of(method))
    assert made.sample(5, seed=3).images.shape == (5, *SHAPE)
    release(run, out)
    assert verify(out).problems == []
    kind = "encoder" if method == "teacher" else "generator"
    assert f"no `load.py`, because it needs the {kind} toy {kind}" in " ".join((out / "README.md").read_text().split())
    assert not (out / "load.py").exists()
    again = Synthesizer.load(out)
    assert np.array_equal(again.sample(5, seed=3).images, made.sample(5, seed=3).images)
    assert [entry["name"] for entry in json.loads((run / "config.json").read_text())["plugins"]] == [
        f"toy {part}" for part in ("generator", "encoder") if f"toy {part}" in settings_of(method).values()
    ]
    inputs = [entry["what"] for entry in again.certificate.facts["public_inputs"]]
    assert any("toy" in what for what in inputs)
    assert any("drawing program" in what for what in inputs) == (method == "teacher")


@pytest.mark.parametrize("method", RUNS)
def test_what_a_run_learns_comes_through_the_mechanism(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mechanism that answers with noise alone, unrelated records give the same bits."""
    ask = PoissonGaussianSum.exact

    def deaf(self: Any, held: Any, query: Any, rng: Rng) -> Tensor:
        return torch.zeros_like(ask(self, held, query, rng))

    assert model_bytes(in_memory(method, records()).released) != model_bytes(in_memory(method, records(30, 1)).released)
    monkeypatch.setattr(PoissonGaussianSum, "exact", deaf)
    assert model_bytes(in_memory(method, records()).released) == model_bytes(in_memory(method, records(30, 1)).released)


def test_a_teacher_learns_from_the_features_of_its_encoder() -> None:
    net = in_memory("teacher", records(), noise_multiplier=1e-6, steps=60).released
    assert isinstance(net, Classifier)
    assert net.head.weight.shape == (2, 7)
    assert list(net.state_dict()) == ["head.weight"], "the weights of the encoder are no part of the release"
    found = net.probabilities(torch.from_numpy(records(20, 5).images).float() / 255).argmax(1)
    assert found.tolist() == records(20, 5).labels.tolist()


def test_without_an_encoder_the_teacher_is_that_on_scattering() -> None:
    card = dataclasses.replace(CARD, shape=(1, 12, 12))
    net = Job.of(METHODS["teacher"], {"noise_multiplier": 1.0}, card).generator()
    assert isinstance(net, Classifier)
    assert isinstance(net.features, Scattering)
    with pytest.raises(RequestError, match="at least 8x8"):
        Job.of(METHODS["teacher"], {"noise_multiplier": 1.0}, CARD).check()


def test_evolve_keeps_what_its_generator_varied_towards_the_records() -> None:
    G = in_memory("evolve", records(), noise_multiplier=0.0, steps=1).released
    assert isinstance(G, Evolved)
    assert G.parents.dtype == torch.uint8
    first = G.program.draw(G.parents, G.labels, 0)
    assert torch.equal(first[G.labels == 1].min() >= 100, torch.tensor(True))
    job = Job.of(METHODS["evolve"], {"noise_multiplier": 0.0, **EVOLVE}, CARD)
    pictures, labels = job.sample(G, 30, None, torch.Generator().manual_seed(1))
    level = pictures.flatten(1).mean(1) * 255
    assert torch.equal(level > 100, labels == 1)


def test_a_start_may_take_a_generator() -> None:
    job = Job.of(
        METHODS["dp-mepf"],
        {"noise_multiplier": 1.0, "start": {"method": "evolve", "generator": "my:pictures", "embedding": "cosines"}},
        CARD,
    )
    assert job.pretrained == [("generator", "my:pictures")]
    assert job.own_pretrained == []


@pytest.mark.parametrize("method", slow_among(["teacher", "evolve"], {"teacher", "evolve"}))
def test_a_stopped_run_goes_on_with_the_same_plug_in_alone(method: str, tmp_path: Path) -> None:
    held, common = records(), {"card": CARD, **BUDGET, **settings_of(method), "steps": 80}

    def stop(event: Event, /) -> None:
        if event.kind == "step" and event.step == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        fit(method, data=held, out=tmp_path / "run", **{**common, "process": Process(sink=stop)})
    if method == "teacher":
        plugins.add("encoder", "toy encoder", others())
        with pytest.raises(RequestError, match="another SHA-256 of its weights"):
            resume(tmp_path / "run", data=held)
        plugins.add("encoder", "toy encoder", Corners())
    resume(tmp_path / "run", data=held)
    assert verify(tmp_path / "run").problems == []


def test_a_release_says_which_plug_in_it_needs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit("teacher", data=records(), card=CARD, out=run, **BUDGET, **TEACHER)
    plugins.add("encoder", "toy encoder", others())
    with pytest.raises(
        RunFolderError, match="'toy encoder' has another SHA-256 of its weights than when the run began"
    ):
        Synthesizer.load(run)
    found = verify(run)
    assert found.ok
    assert any(
        each.startswith("model.safetensors: names and shapes of its tensors. The enc") for each in found.not_checked
    )
    plugins.remove("encoder", "toy encoder")
    assert verify(run).problems == []
    with pytest.raises(RunFolderError, match=r"cannot be used without a plug-in. there is no encoder 'toy encoder'"):
        Synthesizer.load(run)


def test_a_plug_in_of_another_source_is_used_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    fit("teacher", data=records(), card=CARD, out=run, **BUDGET, **TEACHER)
    monkeypatch.setattr(plugins, "source_of", lambda module: "0" * 64)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Synthesizer.load(run)
    assert "another SHA-256 of its source" in str(said[0].message)


def test_an_encoder_that_is_changed_by_records_ends_without_a_certificate(tmp_path: Path) -> None:
    """It counts bright pictures in a buffer. Its features stay as they are, so only the digest shows it."""

    class Counting(Corners):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, pictures: Tensor) -> Tensor:
            self.count += (pictures > 118).all()
            return super().forward(pictures)

    plugins.add("encoder", "toy encoder", Counting())
    with pytest.raises(PrivacyError, match="Its weights must not change while it sees records"):
        fit("teacher", data=records(), card=CARD, out=tmp_path / "run", **BUDGET, **TEACHER)
    assert not (tmp_path / "run" / "certificate.json").exists()


def test_an_encoder_that_fails_on_a_record_says_nothing_of_it(tmp_path: Path) -> None:
    class Failing(Corners):
        def forward(self, pictures: Tensor) -> Tensor:
            if pictures.float().mean() > 165 and pictures.min() > 118:
                raise ValueError(f"the mean is {pictures.float().mean()}")
            return super().forward(pictures)

    plugins.add("encoder", "toy encoder", Failing())
    with pytest.raises(GossamerError, match="message is withheld") as caught:
        fit("teacher", data=records(), card=CARD, out=tmp_path / "run", **BUDGET, **TEACHER)
    assert "the mean is" not in str(caught.value)
    assert all(b"the mean is" not in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())


def test_too_many_features_for_exact_votes_are_refused() -> None:
    def wide(pictures: Tensor) -> Tensor:
        return pictures.float().flatten(1).repeat(1, 23)

    plugins.add("encoder", "toy encoder", wide)
    with pytest.raises(RequestError, match=r"gives 4,140 features. Take one of at most 4,096"):
        in_memory("evolve encoder", records())


def test_a_plug_in_that_is_refused_is_refused_before_a_record_is_read(tmp_path: Path) -> None:
    plugins.add("encoder", "toy encoder", lambda pictures: (pictures.float() * torch.rand(pictures.shape)).flatten(1))
    wide = {"encoder": "toy encoder", "steps": 2}
    with pytest.raises(RequestError, match="other features when the same pictures come again"):
        fit("teacher", data=tmp_path / "there is no such file", card=CARD, out=tmp_path / "run", **BUDGET, **wide)
    assert not (tmp_path / "run").exists()
    with pytest.raises(RequestError, match=r"there is no encoder 'toy encode'. Did you mean 'toy encoder'"):
        plan("teacher", CARD, {"encoder": "toy encode", "noise_multiplier": 1.0}, delta=1e-3)


def test_the_encoder_of_evolve_is_tested() -> None:
    plugins.add("encoder", "toy encoder", lambda pictures: (pictures.float() * torch.rand(pictures.shape)).flatten(1))
    with pytest.raises(RequestError, match="other features when the same pictures come again"):
        in_memory("evolve encoder", records())


# ------------------------------------------------------------------ misbehaving generators


class Remembering(Stripes):
    def __init__(self) -> None:
        self.calls = 0

    def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Tensor:
        self.calls += 1
        return super().random(labels, shape, seeds + self.calls)

    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
        return images


class VariesAtRandom(Stripes):
    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
        return torch.where(torch.rand(images.shape) < 0.5, images, 255 - images)


def giving(change: Any) -> Stripes:
    class Other(Stripes):
        def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Tensor:
            pictures: Tensor = change(super().random(labels, shape, seeds))
            return pictures

    return Other()


def fails(pictures: Tensor) -> Tensor:
    raise OSError("no weights\nhere")


WRONG: dict[str, tuple[object, str]] = {
    "remembering": (Remembering(), "gives other pictures when it is asked again with the same seeds"),
    "global randomness": (VariesAtRandom(), "Take all randomness from the seeds"),
    "another number": (giving(lambda pictures: pictures[1:]), r"gives torch.uint8 \[3, 3, 6, 10\]. Return pictures"),
    "another shape": (giving(lambda pictures: pictures[:, :1]), r"gives torch.uint8 \[4, 1, 6, 10\]"),
    "floats": (giving(lambda pictures: pictures / 255), r"gives torch.float32 \[4, 3, 6, 10\]"),
    "an array": (giving(lambda pictures: pictures.numpy()), "gives ndarray"),
    "failing": (giving(fails), r"fails \(OSError: no weights here\)"),
    "no vary": (Corners(), "lacks the function random or vary"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_generator_that_gives_no_proper_pictures_is_refused_before_a_record_is_read(
    case: str, tmp_path: Path
) -> None:
    generator, says = WRONG[case]
    plugins.add("generator", "toy generator", generator)
    with pytest.raises(RequestError, match=says) as caught:
        fit("evolve", data=tmp_path / "there is no such file", card=CARD, out=tmp_path / "run", **BUDGET, **EVOLVE)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_generator_may_write_into_its_input_and_is_asked_in_pieces() -> None:
    class Overwriting(Stripes):
        sizes: list[int] = []  # noqa: RUF012 (a record of the calls)

        def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
            self.sizes.append(len(images))
            found = super().vary(images, labels, degree, seeds)
            images.zero_()
            labels.zero_()
            return found

    plugins.add("generator", "toy generator", Overwriting())
    program = PluginGenerator("toy generator", SHAPE)
    noise, labels = torch.randn(2, 100, 2, generator=torch.Generator().manual_seed(0)), torch.arange(100) % 2
    pictures = program.random(noise[0], labels)
    kept = pictures.clone()
    varied = program.vary(pictures, 0.5, noise[1], labels)
    assert torch.equal(pictures, kept)
    assert labels.tolist() == [0, 1] * 50
    assert Overwriting.sizes == [64, 36]
    assert len(varied.unique(dim=0)) == 100, "each picture has a seed of its own"
