"""Encoders and picture generators that misbehave, through the command line: each is refused, or does no harm.

Refused: one paragraph, exit status 2, no run folder and no entry in a budget log. Harmless: the run has the bits of a run with
a plug-in that behaves, or its message is withheld.
"""

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.common.votes import WIDEST
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.verify import verify

SHAPE, GREY = (1, 12, 12), 201
CARD = DataCard(shape=SHAPE, classes=2, declared_size=40)
PLANE = torch.randint(-9, 9, (144, 5), generator=torch.Generator().manual_seed(0)).float()
PATHS: dict[str, tuple[object, ...]] = {
    "teacher": ("teacher", "--steps", 3, "--encoder", "toy"),
    "teacher that labels": ("teacher", "--steps", 3, "--encoder", "toy", "--public", "PUBLIC"),
    "feature-moments": ("feature-moments", "--axes", 3, "--encoder", "toy", "--public", "PUBLIC"),
    "evolve": ("evolve", "--drawing", "patches", "--candidates", 3, "--steps", 1, "--encoder", "toy"),
    "evolve with pictures": ("evolve", "--drawing", "pictures", "--encoder", "toy", "--public", "PUBLIC"),
}
Encoder = Callable[[Tensor], Any]


def linear(pictures: Tensor) -> Tensor:
    """Features that behave: sums of whole numbers, which are exact."""
    return pictures.float().flatten(1) @ PLANE


def unusual(pictures: Tensor) -> bool:
    """Whether there is a picture of one grey level. Among the records is one, and among public pictures there is none."""
    return bool((pictures == GREY).flatten(1).all(1).any())


def in_batches(function: Encoder) -> Encoder:
    def encoder(pictures: Tensor) -> Any:
        return function(pictures)

    vars(encoder)["batch"] = 8
    return encoder


def pictures(n: int, seed: int) -> np.ndarray:
    labels = np.arange(n) % 2
    draw = np.random.default_rng(seed).integers(0, 100, (n, *SHAPE))
    return (draw + 100 * labels[:, None, None, None]).astype(np.uint8)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for kind in ("encoder", "generator"):
        plugins._added.pop((kind, "toy"), None)


@pytest.fixture
def words(tmp_path: Path) -> Callable[[str], list[object]]:
    """The words of a run on one of the PATHS, into tmp_path/run. One record has one grey level."""
    records = pictures(40, 0)
    records[7] = GREY
    np.savez(tmp_path / "records.npz", images=records[:, 0], labels=np.arange(40) % 2)
    np.savez(tmp_path / "public.npz", images=pictures(12, 1)[:, 0])
    (tmp_path / "card.toml").write_text("shape = [1, 12, 12]\nclasses = 2\ndeclared_size = 40\n")

    def of(path: str) -> list[object]:
        chosen = [tmp_path / "public.npz" if word == "PUBLIC" else word for word in PATHS[path]]
        labels = ["--public-labels-key", "none"] if tmp_path / "public.npz" in chosen else []
        budget = ["--epsilon", 3, "--delta", 1e-3, "--out", tmp_path / "run"]
        return ["fit", *chosen, *labels, "--data", tmp_path / "records.npz", "--card", tmp_path / "card.toml", *budget]

    return of


# ------------------------------------------------------------------ encoders: refused before a record is read


class OtherWidth:
    """One feature more in each call."""

    def __init__(self) -> None:
        self.width = 2

    def __call__(self, given: Tensor) -> Tensor:
        self.width += 1
        return given.float().flatten(1)[:, : self.width]


class Training(nn.Module):
    """Its weights follow what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = nn.Parameter(PLANE.clone())

    def forward(self, given: Tensor) -> Tensor:
        self.plane.data += given.float().flatten(1).mean(0)[:, None] / 100
        return given.float().flatten(1) @ self.plane


class MeanSoFar:
    """The mean of all pictures so far is subtracted."""

    def __init__(self) -> None:
        self.total, self.count = torch.zeros(144), 0

    def __call__(self, given: Tensor) -> Tensor:
        rows = given.float().flatten(1)
        self.total, self.count = self.total + rows.sum(0), self.count + len(rows)
        return (rows - self.total / self.count) @ PLANE


def less_the_mean_of_the_batch(given: Tensor) -> Tensor:
    rows = linear(given)
    return rows - rows.mean(0)


def raising(given: Tensor) -> Tensor:
    raise ValueError(f"cannot\nread {tuple(given.shape)}")


def ends_the_process(given: Tensor) -> Tensor:
    sys.exit("this\nnetwork wants other pictures")


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "features that are not finite": (lambda: lambda given: linear(given).log(), "random pictures that are not finite"),
    "another width the second time": (OtherWidth, "one row of the same width for each picture"),
    "depends on the other pictures of a batch": (
        lambda: in_batches(less_the_mean_of_the_batch), "looks at the other pictures of a batch",
    ),
    "depends on the place in a batch": (
        lambda: in_batches(lambda given: linear(given) + torch.arange(len(given))[:, None]),
        "looks at a picture's place in the batch",
    ),
    "random features": (lambda: lambda given: linear(given) + torch.rand(5), "other features when the same pictures come"),
    "depends on the pictures before": (MeanSoFar, "keep nothing from one call to the next"),
    "trains itself while it is called": (Training, "keep nothing from one call to the next"),
    "returns a list": (lambda: lambda given: linear(given).tolist(), "gives list. Return floating-point features"),
    "returns whole numbers": (lambda: lambda given: linear(given).long(), "gives torch.int64 [1, 5]"),
    "returns complex numbers": (lambda: lambda given: linear(given).cfloat(), "gives torch.complex64 [1, 5]"),
    "returns one row too few": (lambda: in_batches(lambda given: linear(given)[1:]), "gives [7, 5] for 8 pictures"),
    "no feature at all": (lambda: lambda given: linear(given)[:, :0], "gives torch.float32 [1, 0]"),
    "is on another device": (lambda: lambda given: linear(given).to("meta"), "fails on a batch of public pictures (NotImpl"),
    "raises": (lambda: raising, "fails on a batch of public pictures (ValueError: cannot read (1, 1, 12, 12))"),
    "ends the process": (lambda: ends_the_process, "(SystemExit: this network wants other pictures)"),
    "is a class": (lambda: MeanSoFar, "Name a function or a torch.nn.Module, not a class"),
}  # fmt: skip


def on_paths(misbehaviours: Iterable[str], everywhere: str) -> list[tuple[str, str]]:
    """Each misbehaviour with `teacher`, and one of them with all other paths."""
    return [(each, "teacher") for each in misbehaviours] + [(everywhere, path) for path in PATHS if path != "teacher"]


def assert_refused(answer: Any, says: str, tmp_path: Path, state_home: Path) -> None:
    assert says in answer.err, answer.err
    assert answer.status == 2
    assert "\n" not in answer.err.strip()
    assert answer.out == ""
    assert not (tmp_path / "run").exists()
    assert not list(state_home.rglob("*.jsonl")), "no budget is used"


@pytest.mark.parametrize(("misbehaviour", "path"), on_paths(REFUSED, "random features"))
def test_an_encoder_is_refused_before_a_record_is_read(
    misbehaviour: str, path: str, words: Any, gossamer: Callable[..., Any], tmp_path: Path, state_home: Path
) -> None:
    make, says = REFUSED[misbehaviour]
    plugins.add("encoder", "toy", make())
    assert_refused(gossamer(*words(path)), says, tmp_path, state_home)


@pytest.mark.parametrize("path", ["evolve", "evolve with pictures"])
def test_more_features_than_exact_votes_allow_are_refused(
    path: str, words: Any, gossamer: Callable[..., Any], tmp_path: Path, state_home: Path
) -> None:
    plugins.add("encoder", "toy", lambda given: linear(given).repeat(1, 820))
    assert_refused(
        gossamer(*words(path)), f"gives 4,100 features. Take one of at most {WIDEST:,}", tmp_path, state_home
    )


# ------------------------------------------------------------------ encoders: harmless


def trained(path: str, encoder: object, **more: Any) -> bytes:
    """What a run with this encoder releases, with fixed noise."""
    plugins.add("encoder", "toy", encoder)
    given = PATHS[path]
    settings = {str(name)[2:]: value for name, value in zip(given[1::2], given[2::2], strict=True)} | more
    public = Records(pictures(12, 1), np.zeros(12, np.int64)) if settings.pop("public", None) else None
    job = Job.of(METHODS[str(given[0])], {"noise_multiplier": 1.0, **settings}, CARD)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0, noise_seed=None if more else 1))
    for _ in training.drive(Confined(Records(pictures(40, 0), np.arange(40) % 2), ledger, training.run.rng), public):
        pass
    return model_bytes(training.state.released)


class Keeping:
    """All that it saw is kept, so that it grows."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, given: Tensor) -> Tensor:
        self.seen.append(given)
        return linear(given)


class OneBuffer:
    """Each answer is the same tensor, with other numbers."""

    def __init__(self) -> None:
        self.rows = torch.zeros(1, 5)

    def __call__(self, given: Tensor) -> Tensor:
        return self.rows.copy_(linear(given))


def overwriting(given: Tensor) -> Tensor:
    rows = linear(given)
    given.zero_()
    return rows


def with_gradients(given: Tensor) -> Tensor:
    with torch.enable_grad():
        return given.float().flatten(1) @ PLANE.clone().requires_grad_()


def seeding(given: Tensor) -> Tensor:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    return linear(given)


HARMLESS: dict[str, Callable[[], object]] = {
    "overwrites its input": lambda: overwriting,
    "gives gradients": lambda: with_gradients,
    "keeps state that grows": Keeping,
    "gives one tensor again and again": OneBuffer,
    "seeds every global generator": lambda: seeding,
    "double precision": lambda: lambda given: linear(given).double(),
    "not in one piece of memory": lambda: lambda given: linear(given).t().contiguous().t(),
}


@pytest.mark.parametrize(("misbehaviour", "path"), on_paths(HARMLESS, "gives gradients"))
def test_an_encoder_does_no_harm(misbehaviour: str, path: str) -> None:
    """The run has the bits of a run with an encoder that behaves, and no gradient leaves."""
    assert trained(path, HARMLESS[misbehaviour]()) == trained(path, linear)


def test_an_encoder_that_seeds_does_not_fix_the_noise() -> None:
    """Noise comes from the operating system. So two runs of equal records and seeds differ."""
    assert trained("teacher", seeding, momentum=0.5) != trained("teacher", seeding, momentum=0.5)


def at_the_unusual(says: Callable[[str], object]) -> Encoder:
    def encoder(given: Tensor) -> Tensor:
        if unusual(given):
            says(f"grey level {int(given.max())}")
        return linear(given)

    return encoder


def raising_with(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize(("how", "path"), [(sys.exit, "teacher"), *((raising_with, path) for path in PATHS)])
def test_what_an_encoder_says_of_a_record_when_it_fails_is_withheld(
    how: Callable[[str], object], path: str, words: Any, gossamer: Callable[..., Any], tmp_path: Path, state_home: Path
) -> None:
    """The pixel is in no message and in no file. The budget stays used: the run has begun."""
    plugins.add("encoder", "toy", at_the_unusual(how))
    failed = gossamer(*words(path))
    assert failed.status == 1
    assert "The encoder 'toy' failed: " in failed.err
    assert "message is withheld" in failed.err
    assert "grey level" not in failed.err + failed.out
    assert not (tmp_path / "run" / "certificate.json").exists()
    files = [file for folder in (tmp_path / "run", state_home) for file in folder.rglob("*") if file.is_file()]
    assert files
    assert not any(b"grey level" in file.read_bytes() for file in files)


def test_what_an_encoder_prints_is_seen_in_the_terminal_and_in_no_file(
    words: Any, gossamer: Callable[..., Any], tmp_path: Path, state_home: Path
) -> None:
    """Gossamer cannot stop the code of a plug-in from printing or writing: docs/plugins.md says so."""
    plugins.add("encoder", "toy", at_the_unusual(print))
    done = gossamer(*words("teacher"))
    assert done.status == 0
    assert f"grey level {GREY}" in done.out
    files = [file for folder in (tmp_path / "run", state_home) for file in folder.rglob("*") if file.is_file()]
    assert not any(b"grey level" in file.read_bytes() for file in files)
    assert verify(tmp_path / "run").problems == []


# ------------------------------------------------------------------ generators


class Stripes:
    """A generator that behaves: noise on a level of its class. A variation mixes fresh noise in."""

    def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Any:
        return torch.stack([self.one(int(y), shape, int(s)) for y, s in zip(labels, seeds, strict=True)])

    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Any:
        fresh = self.random(labels, tuple(images.shape[1:]), seeds)
        return ((1 - degree) * images.float() + degree * fresh.float()).byte()

    def one(self, label: int, shape: tuple[int, ...], seed: int) -> Tensor:
        noise = torch.randint(100, shape, generator=torch.Generator().manual_seed(seed))
        return (noise + 100 * label).byte()


def changed(change: Callable[[Tensor], Any]) -> Stripes:
    class Other(Stripes):
        def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Any:
            return change(super().random(labels, shape, seeds))

    return Other()


def no_generator(drawn: Tensor) -> Tensor:
    raise OSError("no weights\nhere")


REFUSED_GENERATORS: dict[str, tuple[object, str]] = {
    "pixels from 0 to 1": (changed(lambda drawn: drawn / 255), "gives torch.float32 [4, 1, 12, 12]"),
    "pixels outside of 0 to 255": (changed(lambda drawn: drawn.int() * 9 - 500), "gives torch.int32 [4, 1, 12, 12]"),
    "another shape": (changed(lambda drawn: drawn[:, :, 1:]), "gives torch.uint8 [4, 1, 11, 12]"),
    "a picture too few": (changed(lambda drawn: drawn[1:]), "gives torch.uint8 [3, 1, 12, 12]"),
    "an array": (changed(lambda drawn: drawn.numpy()), "gives ndarray. Return pictures torch.uint8"),
    "random whatever the seeds": (
        changed(lambda drawn: torch.randint_like(drawn, 256)), "other pictures when it is asked again with the same seeds",
    ),
    "raises": (changed(no_generator), "fails (OSError: no weights here)"),
    "ends the process": (changed(lambda _: sys.exit("no")), "fails (SystemExit: no)"),
    "draws and does not vary": (type("Half", (), {"random": Stripes.random})(), "lacks the function random or vary"),
}  # fmt: skip
GENERATOR = ("evolve", "--candidates", 70, "--variations", 1, "--embedding", "cosines", "--generator", "toy")


@pytest.mark.parametrize("misbehaviour", REFUSED_GENERATORS)
def test_a_generator_is_refused_before_a_record_is_read(
    misbehaviour: str, words: Any, gossamer: Callable[..., Any], tmp_path: Path, state_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setitem(PATHS, "generator", GENERATOR)
    generator, says = REFUSED_GENERATORS[misbehaviour]
    plugins.add("generator", "toy", generator)
    assert_refused(gossamer(*words("generator")), says, tmp_path, state_home)


class Hoarding(Stripes):
    """What it was given is kept, and overwritten in the next call. What it returns is one tensor, filled again."""

    def __init__(self) -> None:
        self.given: list[Tensor] = []
        self.drawn = torch.zeros(64, *SHAPE, dtype=torch.uint8)

    def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Tensor:
        for tensor in self.given:
            tensor.zero_()
        self.given = [labels, seeds]
        return self.drawn[: len(labels)].copy_(super().random(labels, shape, seeds))

    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
        kept = images.clone()
        self.given += [images, labels, seeds]
        fresh = Stripes.random(self, labels.clone(), tuple(images.shape[1:]), seeds.clone())
        return ((1 - degree) * kept.float() + degree * fresh.float()).byte()


class Seeding(Stripes):
    def one(self, label: int, shape: tuple[int, ...], seed: int) -> Tensor:
        torch.manual_seed(0)
        return super().one(label, shape, seed)


@pytest.mark.parametrize("generator", [Hoarding(), Seeding()], ids=["keeps what it was given", "seeds torch"])
def test_a_generator_does_no_harm(generator: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has the bits of a run with a generator that behaves."""
    monkeypatch.setitem(PATHS, "generator", GENERATOR)
    plugins.add("generator", "toy", generator)
    found = trained("generator", linear)
    plugins.add("generator", "toy", Stripes())
    assert found == trained("generator", linear)


def test_a_generator_that_ignores_the_class_costs_quality_and_no_privacy(
    words: Any, gossamer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pictures have the labels that were asked for. Votes, noise and epsilon are those of any generator."""

    class Blind(Stripes):
        def one(self, label: int, shape: tuple[int, ...], seed: int) -> Tensor:
            return super().one(0 * label, shape, seed)

    monkeypatch.setitem(PATHS, "generator", GENERATOR)
    plugins.add("generator", "toy", Blind())
    assert gossamer(*words("generator")).status == 0
    checked = verify(tmp_path / "run")
    assert checked.problems == []
    assert gossamer("sample", tmp_path / "run", "-n", 40, "-o", tmp_path / "samples.npz").status == 0
    samples = np.load(tmp_path / "samples.npz")
    assert sorted(set(samples["labels"].tolist())) == [0, 1]
    assert samples["images"].max() < 100
