"""The same records as a path, arrays, tensors, Records and datasets: one digest, and the bit-equal release."""

import dataclasses
import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.data.sources.pictures import in_memory
from gossamer.data.sources.pictures.read import read
from gossamer.errors import DataError, Interrupted, RequestError, RunFolderError
from gossamer.events import Event
from gossamer.metrics.metric import Measures
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import budget_log_at
from gossamer.run.evaluation.evaluate import evaluate
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=64)
RUN: dict[str, Any] = {
    "card": CARD, "noise_multiplier": 1.0, "delta": 1e-4, "steps": 3, "expected_batch_size": 8, "width": 4,
    "discriminator_steps": 1,
}  # fmt: skip


def arrays(count: int = 64) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count) % 2


class Pictures(Dataset[Any]):
    """A map-style dataset, as torchvision's are."""

    classes = ("0", "1")

    def __init__(self, form: str = "pil") -> None:
        self.form, (self.images, self.labels) = form, arrays()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> tuple[Any, int]:
        if at >= len(self):
            raise IndexError
        image, label = self.images[at], int(self.labels[at])
        if self.form == "pil":
            return Image.fromarray(image), label
        if self.form == "float":
            return torch.from_numpy(image)[None].float() / 255, label
        return torch.from_numpy(image)[None], label


class HubDataset:
    """What a split of a Hugging Face dataset can do."""

    class ClassLabel:
        names = ("0", "1")

    class Image:
        """As `datasets.Image`: known by the name of its class."""

    column_names = ("image", "label")
    features: ClassVar[Mapping[str, object]] = {"image": Image(), "label": ClassLabel()}

    def __init__(self) -> None:
        self.inner = Pictures()

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, at: int) -> dict[str, Any]:
        return dict(zip(self.column_names, self.inner[at], strict=True))


def in_form(form: str, folder: Path) -> Any:
    images, labels = arrays()
    np.savez(folder / "data.npz", images=images, labels=labels)
    match form:
        case "path":
            return folder / "data.npz"
        case "arrays":
            return images, labels
        case "channels last":
            return images[..., None], labels.astype(np.int32)
        case "floats":
            return images.astype(np.float32) / 255, labels[:, None]
        case "tensors":
            return torch.from_numpy(images), torch.from_numpy(labels)
        case "lists":
            return list(images), list(labels)
        case "Records":
            return read(str(folder / "data.npz"), split="train")
        case "TensorDataset":
            return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
        case "Dataset of pictures":
            return Pictures()
        case "Dataset of tensors":
            return Pictures("uint8")
        case "Dataset of floats":
            return Pictures("float")
        case _:
            return HubDataset()


FORMS = [
    "arrays", "channels last", "floats", "tensors", "lists", "Records", "TensorDataset", "Dataset of pictures",
    "Dataset of tensors", "Dataset of floats", "Hugging Face",
]  # fmt: skip


def run_of(data: Any, out: Path, **more: Any) -> tuple[str, bytes]:
    """Digest of the records and bytes of the model."""
    fit(
        "dpgan",
        data=data,
        out=out,
        accounts=out.parent / "log",
        **{**RUN, **more},
        process=Process(rng=Rng(0, noise_seed=1)),
    )
    source = json.loads((out / "checkpoint" / "source.json").read_text())
    return source["records"], (out / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def from_path(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    folder = tmp_path_factory.mktemp("path")
    return run_of(in_form("path", folder), folder / "run")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_digest_and_the_same_model(
    form: str, from_path: tuple[str, bytes], tmp_path: Path
) -> None:
    assert run_of(in_form(form, tmp_path), tmp_path / "run") == from_path


def test_a_run_from_memory_is_certified_and_names_no_record(tmp_path: Path) -> None:
    synthesizer = fit("dpgan", data=arrays(), out=tmp_path / "run", accounts=tmp_path / "log", **RUN)
    assert verify(tmp_path / "run").ok
    assert len(synthesizer.sample(3, seed=0)) == 3
    for name in ("certificate.json", "config.json", "report.html", "events.jsonl"):
        assert "records in memory" not in (tmp_path / "run" / name).read_text(encoding="utf-8")
    result = evaluate(
        tmp_path / "run", train=arrays(), test=arrays(30), count=200, metrics=Measures(protocol="reduced")
    )
    assert "accuracy" in [entry["metric"] for entry in result.metrics]


def test_a_column_of_units_may_be_called_as_records_in_memory_are() -> None:
    sources = DataSources.of(Source("rows.csv", units="records in memory"))
    again = DataSources.from_json(json.loads(json.dumps(sources.to_json()))).with_memory(None, None)
    assert (again.data.units, again.in_memory) == ("records in memory", ())


@pytest.mark.parametrize("wrong", [3, ["x"], [["data"]], None])
def test_a_damaged_list_of_what_was_in_memory_is_refused(wrong: object) -> None:
    with pytest.raises(RunFolderError, match="does not say where its records are"):
        DataSources.from_json({**DataSources.of("rows.csv").to_json(), "in_memory": wrong})


def test_resume_takes_the_same_records_again_and_no_others(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.kind == "step" and event.step == 20:
            signal.raise_signal(signal.SIGINT)

    settings = {**RUN, "steps": 48, "accounts": tmp_path / "log"}
    with pytest.raises(Interrupted):
        fit("dpgan", data=arrays(), out=tmp_path / "run", **settings, process=Process(sink=stop))
    with pytest.raises(
        RequestError, match=r"Pass the same records again from Python: gossamer.resume\(run, data=...\)"
    ):
        resume(tmp_path / "run")
    images, labels = arrays()
    with pytest.raises(DataError, match="is not what it was when the run began"):
        resume(tmp_path / "run", data=(images[::-1].copy(), labels))
    with pytest.raises(RequestError, match="This run has its public"):
        resume(tmp_path / "run", data=(images, labels), public=(images, labels))
    steps: list[int] = []
    resume(tmp_path / "run", data=(images, labels), process=Process(sink=lambda event: steps.append(event.step)))
    assert max(steps) == 48
    assert verify(tmp_path / "run").ok
    with pytest.raises(RequestError, match="data is missing"):
        fit("dpgan", data=None, out=tmp_path / "other", **settings)  # type: ignore[arg-type]  # the wrong call under test


def test_a_resumed_run_takes_no_other_place(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.kind == "step" and event.step == 20:
            signal.raise_signal(signal.SIGINT)

    images, labels = arrays()
    for name in ("data.npz", "other.npz"):
        np.savez(tmp_path / name, images=images, labels=labels)
    settings = {**RUN, "steps": 80, "accounts": tmp_path / "log"}
    with pytest.raises(Interrupted):
        fit("dpgan", data=tmp_path / "data.npz", out=tmp_path / "run", **settings, process=Process(sink=stop))
    for wrong in (tmp_path / "other.npz", (images, labels)):
        with pytest.raises(RequestError, match=r"This run has its data from .*data\.npz\. Leave data out"):
            resume(tmp_path / "run", data=wrong)
    resume(tmp_path / "run", data=tmp_path / "data.npz")
    assert verify(tmp_path / "run").ok


def test_units_are_an_array(tmp_path: Path) -> None:
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=32, unit="patient")
    ids = [f"p{at // 2}" for at in range(64)]
    model = run_of(Source(arrays(), units=ids), tmp_path / "run", card=card)
    images, labels = arrays()
    np.savez(tmp_path / "data.npz", images=images, labels=labels, who=np.array(ids))
    assert run_of(Source(tmp_path / "data.npz", units=":who"), tmp_path / "other", card=card)[1] == model[1]
    records = read(Source(str(tmp_path / "data.npz"), units=":who"), split="train")
    assert run_of(records, tmp_path / "third", card=card)[1] == model[1]


class Ragged(Pictures):
    """Items that are no pictures."""

    def __getitem__(self, at: int) -> tuple[Any, int]:
        return {"bytes": b"", "path": "a"}, 0


class Random(Pictures):
    """With augmentation."""

    def __getitem__(self, at: int) -> tuple[Any, int]:
        picture, label = super().__getitem__(at)
        return picture.rotate(float(np.random.default_rng().uniform(5, 90))), label


class Sometimes(Pictures):
    """A flip of one reading in ten, as RandomHorizontalFlip(0.1)."""

    def __init__(self, seed: int, count: int, symmetric: int = 0) -> None:
        super().__init__("array")
        self.draw, self.count, self.reads = np.random.default_rng(seed), count, 0
        self.images[:symmetric] = 7

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> tuple[Any, int]:
        self.reads += 1
        picture = self.images[at % 64]
        return (picture[:, ::-1] if self.draw.random() < 0.1 else picture), at % 2


@pytest.mark.parametrize(("count", "symmetric"), [(1, 0), (40, 0), (64, 60), (1_000, 0), (1_000, 40)])
def test_a_transform_of_one_reading_in_ten_is_found(count: int, symmetric: int) -> None:
    """Three items were read twice: 10 of 20 such datasets passed."""
    found = 0
    for seed in range(40):
        with suppress(DataError):
            in_memory._check_repeats(Sometimes(seed, count, symmetric), (0, 1), "data")
            continue
        found += 1
    assert found == 40


def test_a_dataset_without_a_random_transform_is_read_a_little_more_often() -> None:
    for count, symmetric, reads in ((1, 0, 264), (1_000, 0, 264), (64, 64, 40 * 132), (64, 32, 528)):
        data = Sometimes(0, count, symmetric)
        data.draw = SimpleNamespace(random=lambda: 1.0)  # type: ignore[assignment]  # of which nothing is flipped
        in_memory._check_repeats(data, (0, 1), "data")
        assert abs(data.reads - reads) < 20
    asked: list[int] = []
    in_memory._check_repeats(Noted(asked), (0, 1), "data")
    assert len(set(asked)) == 132 and len({at // 100 for at in asked}) == 10, "items of all parts"


class Noted:
    """Says which items were read."""

    def __init__(self, asked: list[int]) -> None:
        self.asked = asked

    def __len__(self) -> int:
        return 1_000

    def __getitem__(self, at: int) -> tuple[Any, int]:
        self.asked.append(at)
        return arrays()[0][at % 64], 0


class Endless:
    """An iterable dataset."""

    def __iter__(self) -> Any:
        return iter(Pictures())


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (5, "data is of type int: no records"),
        (arrays()[0], r"these images have no labels. Pass \(images, labels\), or labels_key=\"none\""),
        (dict(zip(("images", "names"), arrays(), strict=True)), r"choose its labels by labels_key"),
        (Ragged(), r"data, item 0 \(counted from 0\): there is no picture in this item"),
        (Endless(), "an iterable dataset has no length to sample from"),
        (Random(), r"item \d+ .* is another picture each time it is read, perhaps by a random transform"),
        ((arrays()[0], arrays(10)[1]), r"64 images need labels of shape \[64\], not \[10\]"),
        ((arrays()[0][:, 0], arrays()[1]), r"images must be \[N, height, width\]"),
        ((arrays()[0].astype(object), arrays()[1]), "this is no array of numbers"),
        (
            (np.ma.array(arrays()[0], mask=arrays()[0] == arrays()[0].max()), arrays()[1]),
            "images: some values are masked",
        ),
        (
            ([np.ma.masked_equal(picture, 255) for picture in 0 * arrays()[0] + 255], arrays()[1]),
            "some values are masked",
        ),
        ((arrays()[0], np.ma.array(arrays()[1], mask=arrays()[1] == 0)), "labels: some values are masked"),
        ((arrays()[0].astype(np.float32) - 1.0, arrays()[1]), "a pixel outside 0 to 255"),
        (([], []), "there are no images"),
    ],
)
def test_what_holds_no_records_is_refused_in_one_paragraph(data: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=what) as caught:
        fit("dpgan", data=data, out=tmp_path / "run", accounts=tmp_path / "log", **RUN)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_frame_is_no_pictures(tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"age": [1, 2]})
    with pytest.raises(DataError, match="data is a table, and the card describes pictures"):
        fit("dpgan", data=frame, out=tmp_path / "run", **RUN)


def test_public_records_in_memory_must_be_others(tmp_path: Path) -> None:
    data = arrays()
    settings = {**RUN, "warm_steps": 2, "accounts": tmp_path / "log"}
    with pytest.raises(RequestError, match="`public` and `data` name the same records"):
        fit("dpgan", data=data, public=data, out=tmp_path / "run", **settings)
    with pytest.raises(DataError, match="at least one of these pictures is among the private records"):
        fit("dpgan", data=data, public=(data[0][:5].copy(), data[1][:5]), out=tmp_path / "run", **settings)
    public = 255 - data[0][:20], data[1][:20]
    fit("dpgan", data=data, public=public, out=tmp_path / "run", **settings)
    assert verify(tmp_path / "run").ok


def test_records_hold_units_of_their_own(tmp_path: Path) -> None:
    images, labels = arrays()
    records = Records(images[:, None], labels, np.arange(64) // 2)
    with pytest.raises(RequestError, match='the card says unit = "record"'):
        fit("dpgan", data=records, out=tmp_path / "run", **RUN)


def test_what_holds_the_records_shows_none_of_them() -> None:
    """Debuggers and test tools print the values of a traceback."""
    sources = DataSources.of(Source(arrays(), units=["Ms X"] * 64))
    assert sources.in_memory == ("data", "units")
    assert "Ms X" not in repr(sources)
    assert "array" not in repr(sources)


def test_the_budget_log_tells_data_sets_in_memory_apart(tmp_path: Path) -> None:
    images, labels = arrays()
    for number, data in enumerate([(images, labels), (255 - images, labels), (images.copy(), labels)]):
        said: list[str] = []
        run = fit(
            "dpgan",
            data=data,
            out=tmp_path / f"run{number}",
            accounts=tmp_path / "log",
            **RUN,
            process=Process(sink=lambda event, said=said: said.append(str(event))),
        )
        source = json.loads((tmp_path / f"run{number}" / "checkpoint" / "source.json").read_text())
        digests = source["records"], source["mark"]
        assert not any(digest[:12] in text for digest in digests for text in (*said, source["sources"]["name"]))
        assert "no earlier run could be recognised by name, and none is counted here" in run.certificate.adds_up, (
            "whether these were seen follows from each record"
        )
        together = (
            budget_log_at(tmp_path / "log").read().budget_of_names(source["sources"]["name"], mark=source["mark"])
        )
        assert len(together.entries) == (1 if number < 2 else 2)


def test_a_certificate_says_that_records_in_memory_had_no_name(tmp_path: Path) -> None:
    """Their name in the budget log is random. So "no earlier run under this name" would be true of any number of runs."""
    images, labels = arrays()
    here: dict[str, Any] = {"process": Process(progress=False), "accounts": tmp_path / "book", **RUN}
    no_run = "its budget log held no earlier run under this name"
    for out, data in (("first", (images, labels)), ("one less", (images[1:], labels[1:]))):
        said = fit("dpgan", data=data, out=tmp_path / out, **here).certificate
        assert "These records had no name" in said.adds_up and no_run not in said.adds_up
        assert said.facts["all_runs"]["unnamed"] is True
        assert verify(tmp_path / out).problems == []
    named = {**here, "card": dataclasses.replace(CARD, data_set="clinic")}
    assert no_run in fit("dpgan", data=(images, labels), out=tmp_path / "named", **named).certificate.adds_up
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    assert no_run in fit("dpgan", data=tmp_path / "data.npz", out=tmp_path / "path", **here).certificate.adds_up
