"""Pictures for `evaluate`: samples of a release beside real records, in the shape and under the names of both."""

import copy
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gossamer.data.card import MOST_CLASSES, DataCard
from gossamer.data.labels import match_labels
from gossamer.data.pixels import polarity
from gossamer.data.pixels.to_uint8 import Form
from gossamer.data.readers import npz
from gossamer.data.readers.read import read
from gossamer.data.records import Records, absent
from gossamer.data.samples.grid import sample_grid
from gossamer.data.samples.samples import Samples
from gossamer.data.source import Reading, with_more
from gossamer.errors import GossamerError, RequestError
from gossamer.events import Sink, progress, silent
from gossamer.files import write_atomically
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import registry
from gossamer.metrics.baseline_cache import Baselines
from gossamer.run.evaluation.request import Request
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import WARM, RunFolder

_Part = TypeVar("_Part", Samples, Records)
LARGEST = 64
"""Height and width at which pictures are compared, at most. A classifier of pictures of 256 pixels takes 16 times as long."""
SOFT_LABELS = "probabilities"
"""The array of soft labels in an .npz of samples."""
NEIGHBOURS = "neighbours.png"
"""In the private folder of a RUN: samples, each with the real training record nearest to it."""


@dataclass(frozen=True, repr=False)
class Pictures:
    """Samples and real records. A `Compared`.

    Args:
        request: what is asked.
        samples: of the release.
        real: real training records.
        tests: real test records.
        large: whether all were reduced.
    """

    request: Request
    samples: Samples
    real: Records
    tests: Records
    large: bool = False

    @classmethod
    def read(cls, request: Request, *, sink: Sink = silent) -> "Pictures":
        """Read the real records, and make or read the samples. sink: of progress. Raises DataError, RequestError."""
        request.refuse_others({"units": None, "subgroups": None}, kind="tables", shown="pictures")
        facts = request.card if isinstance(request.card, DataCard) else None
        synthesizer = request.synthesizer
        given = read_samples(request.synth, facts) if synthesizer is None else None
        how = dataclasses.replace(_reading(given, facts), unit_folders=True)
        train, test = (
            with_more(data, images_key=request.only["images_key"], labels_key=request.only["labels_key"])
            for data in (request.train, request.test)
        )
        real = read(train, how, split="train", called="train", sink=sink)
        how = dataclasses.replace(how, class_names=how.class_names or real.class_names)
        tests = read(test, how, split="test", called="test", sink=sink)
        if given is None:  # samples are made last: a refusal need not wait for them
            assert synthesizer is not None
            _refuse_other_classes(request, synthesizer, real, tests)
            given = sampled(synthesizer, request.count, request.seed, sink=sink)
        large = max(real.shape[1:]) > LARGEST
        return cls(request, reduced(given), reduced(real), reduced(tests), large)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels, label 0 first; empty: unknown."""
        return self.real.class_names

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the readers converted, pictures of inverted brightness, and classes without a test record."""
        train, test = self.request.called
        contrast = polarity.contrast("the samples", self.samples, train, self.real)
        size = "x".join(map(str, self.real.shape[1:]))
        made_smaller = f"Pictures above {LARGEST} pixels are compared at {size}." if self.large else ""
        no_tests = absent(self.tests, f"the test split of {test}")
        return (*self.real.notes, *self.tests.notes, made_smaller, contrast, *no_tests)

    def inputs(self, sink: Sink) -> registry.Inputs:
        """What the metrics measure."""
        request, samples, real, tests = self.request, self.samples, self.real, self.tests
        folder, synthesizer = request.folder, request.synthesizer
        labelled = max(int(part.labels.max()) for part in (samples, real, tests)) + 1
        soft = 0 if samples.probabilities is None else samples.probabilities.shape[-1]
        return registry.Inputs(
            samples=samples, real=real, tests=tests, labelled=synthesizer is None or synthesizer.classes > 1,
            classes=max(labelled, soft),
            warm=_warm_samples(folder, synthesizer, request, sink),
            public=_public_records(folder, synthesizer),
            baselines=Baselines(request.cache_folder, real, tests, request.seed), protocol=request.only["protocol"],
            seed=request.seed, limit=request.only["limit"], inception=request.only["inception"], sink=sink,
            **({} if synthesizer is None or not request.own else _grid_in(folder, synthesizer)),
        )  # fmt: skip


def _refuse_other_classes(request: Request, synthesizer: Synthesizer, real: Records, tests: Records) -> None:
    """Raise RequestError: labels beyond the declared classes."""
    for name, records in zip(request.called, (real, tests), strict=True):
        if synthesizer.card.classes <= int(records.labels.max()):
            raise RequestError(
                f"{name} has labels beyond the {synthesizer.card.classes} declared classes of {request.synth}."
            )


def reduced(part: _Part) -> _Part:
    """Samples or records at the size at which they are compared: with `LARGEST` as their longer side, or as they are."""
    longest: int = max(part.shape[1:])
    if longest <= LARGEST:
        return part
    shape = (part.shape[0], *(max(1, round(side * LARGEST / longest)) for side in part.shape[1:]))
    return dataclasses.replace(part, images=Form(shape).of(part.images))


def sampled(synthesizer: Synthesizer, count: int, seed: int, *, sink: Sink = silent) -> Samples:
    """Samples at the size at which they are compared. Large ones are never in memory together. sink: of progress."""
    pieces, done = [], 0
    for piece in synthesizer.stream(count, seed=seed):
        pieces.append(reduced(piece))
        done += len(piece)
        sink(progress("samples", done, count))
    soft = [piece.probabilities for piece in pieces if piece.probabilities is not None]
    images, labels = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("images", "labels"))
    return Samples(images, labels, synthesizer.class_names, np.concatenate(soft) if soft else None)


def _warm_samples(folder: RunFolder, synthesizer: Synthesizer | None, request: Request, sink: Sink) -> Samples | None:
    """Samples of the public warm start alone; None: the run had none."""
    if synthesizer is None or not (folder.private / WARM).is_file():
        return None
    start = dataclasses.replace(synthesizer, net=copy.deepcopy(synthesizer.net)).with_weights(folder.private / WARM)
    return sampled(start, request.count, request.seed, sink=sink)


def _public_records(folder: RunFolder, synthesizer: Synthesizer | None) -> Records | None:
    """The public records that a run had, where they can still be read: a classifier may learn from them as they are."""
    if synthesizer is None or not folder.private.is_dir():
        return None
    try:
        sources, card = DataSources.from_json(folder.source()["sources"]), synthesizer.card
        public = sources.read_public(card)[0] if sources.share is None else sources.read_unconfined(card).public
        return None if public is None else reduced(public)
    except GossamerError:  # moved or changed since: there is no such row then
        return None


def read_samples(path: Path, card: DataCard | None) -> Samples:
    """Samples from a file that was written earlier. The readers return them as records.

    Labels without names are folders called 0, 1, 2 ...; a class without samples has no folder. Other names are matched
    with the card, like those of the real records: folders are read in name order, the card may have another.
    """
    shape = card.shape if card is not None and path.suffix.lower() == ".csv" else None  # a .csv does not say
    records = read(path, Reading(shape=shape))
    labels, names = records.labels, records.class_names
    numbers = [int(name) for name in names if name.isdecimal() and str(int(name)) == name and int(name) < MOST_CLASSES]
    if names and len(numbers) == len(names) and (card is None or numbers == list(range(len(names)))):
        return Samples(records.images, np.array(numbers)[labels])
    if names and card is not None:
        labels, names = match_labels(labels, names, card.reading.class_names, where=str(path)), card.class_names
    soft = npz.member(path, SOFT_LABELS) if npz.is_arrays(path) and SOFT_LABELS in npz.keys(path) else None
    return Samples(records.images, labels, names, soft)


def _reading(samples: Samples | None, card: DataCard | None) -> Reading:
    """How the real records are read: as the card says, or in the shape and under the names of the samples."""
    if card is not None:
        return card.reading
    assert samples is not None
    return Reading(shape=samples.shape, class_names=samples.class_names)


def _grid_in(folder: RunFolder, synthesizer: Synthesizer) -> dict[str, Any]:
    """What `nearest` needs of a RUN: sample grid, and a place in its private folder for the picture of neighbours."""
    per_class = np.repeat(np.arange(synthesizer.classes), 10)

    def show_pairs(images: np.ndarray, labels: np.ndarray) -> None:
        picture = sample_grid(images, labels, columns=20, names=synthesizer.class_names)
        write_atomically(folder.private / NEIGHBOURS, picture, private=True)

    return {"grid": lambda: synthesizer.sample(len(per_class), labels=per_class, seed=0), "show_pairs": show_pairs}
