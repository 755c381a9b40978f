"""Pictures with labels, the kind `PICTURES`."""

import base64
import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from gossamer.attacks.arrays import Array
from gossamer.attacks.density import domias
from gossamer.attacks.discriminator import white_box
from gossamer.attacks.distances import calibrated, full_black_box, near_copies
from gossamer.attacks.monte_carlo import instance_attack, set_attack
from gossamer.attacks.scores import Attack, ranked
from gossamer.attacks.total_variation import total_variation
from gossamer.data.card import MOST_CLASSES, UNIFORM, DataCard, check
from gossamer.data.fingerprint import Identity, identify, shared
from gossamer.data.labels import match_labels
from gossamer.data.pixels import polarity
from gossamer.data.pixels.to_uint8 import SCALED, resize
from gossamer.data.records import Records, absent, at_once, uneven
from gossamer.data.samples.grid import sample_grid
from gossamer.data.samples.samples import Samples
from gossamer.data.source import Reading, Source, called
from gossamer.data.sources.pictures import npz
from gossamer.data.sources.pictures.read import check_two_arrays, deep_range, read, read_some
from gossamer.data.units import matched
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, progress, silent
from gossamer.kinds.kind import Comparison, Kind, Named, Target, Words, left_after
from gossamer.kinds.score import right_and_wrong
from gossamer.methods.common import picture_facts
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job, Training
from gossamer.methods.synthesizer import Synthesizer, classifier_of
from gossamer.metrics import classify, registry

_Part = TypeVar("_Part", Samples, Records)
LARGEST = 64
"""Height and width at which pictures are compared, at most. A classifier of pictures of 256 pixels takes 16 times as long."""
SOFT_LABELS = "probabilities"
"""The array of soft labels in an .npz of samples."""
JUDGED, _TIMES = 5_000, 10
"""Samples from which the judge of a score learns, at most, and for each declared record."""
JUDGE = classify.Protocol(epochs=2, batch_size=32)
NEIGHBOURS = "neighbours.png"
"""In the private folder of a RUN: samples, each with the real training record nearest to it."""
_SHOWN_CLASSES = 12
"""Classes of which the owner sees records."""
_PER_CLASS, _ALONE = 10, 100
"""Samples of each class on the grid of a generator, and of one without labels."""


class Pictures(Kind[Records, DataCard]):
    """Pictures uint8 [N, C, H, W] with a label each."""

    name = "pictures"
    in_words = "pictures"
    look: ClassVar[Any] = picture_facts
    metrics = registry.METRICS
    options = ("protocol", "inception")
    words = Words(
        records="pictures",
        loads="""import load  # load.py of this folder, which needs PyTorch and safetensors
release = load.load()
images, labels = release.sample(1000, seed=0)  # uint8 [1000, C, H, W] and int64 [1000]""",
        with_gossamer="""import gossamer  # installed from its source
release = gossamer.Synthesizer.load(".")
samples = release.sample(1000, seed=0)  # samples.images: uint8 [1000, C, H, W], samples.labels: int64 [1000]""",
    )

    def read(
        self, source: Source, card: DataCard, *, split: Any = "train", name: str = "data", sink: Sink = silent
    ) -> Records:
        """Pictures in the form of the card, with labels among its classes."""
        records = read(source, card.reading, split=split, called=name, sink=sink)
        check(records, card, where=called(source, name))
        return records

    def identify(self, records: Records) -> Identity:
        """By pixels, labels and units."""
        return identify(records)

    def matched(self, units: Any) -> str:
        """By name, folder, position, pattern or a DICOM element."""
        return matched(units)

    def deep_range(self, source: Source) -> tuple[float, float, bool] | None:
        """By the head of the first file."""
        return deep_range(source)

    def glance(self, source: Source, draft: Mapping[str, Any]) -> dict[str, Any]:
        """sheet: a PNG in base 64 of the first pictures of the first classes. counts: how many each class has, by name."""
        card: DataCard = DataCard.from_dict(dict(draft))
        how = dataclasses.replace(card.reading, unit_folders=True)
        records, counts = read_some(source, how, _PER_CLASS, _SHOWN_CLASSES)
        names = records.class_names or tuple(map(str, range(len(counts))))
        shown = reduced(records)
        sheet = sample_grid(shown.images, shown.labels, columns=_PER_CLASS, names=names)
        return {
            "sheet": base64.b64encode(sheet).decode(),
            "counts": dict(zip(names, counts, strict=False)),
            "shown": _SHOWN_CLASSES,
        }

    def doubts(self, private: Records, public: Records | None, card: DataCard) -> Iterator[str]:
        """A range that the pixels do not fill, classes of unlike size, and public pictures on another ground."""
        if card.label_prior == UNIFORM:
            yield from uneven(private, "`data`")
        if SCALED in private.notes and polarity.crowded(private):
            yield polarity.CROWDED
        if public is not None and (different := polarity.contrast("`data`", private, "`public`", public)):
            yield different

    def is_one_shade(self, records: Records) -> bool:
        """By the darkest and the brightest pixel of each."""
        return polarity.nearly_constant(records)

    # ------------------------------------------------------------------ evaluate

    def compare(self, asked: Comparison, sink: Sink) -> registry.Inputs:
        """All at the size at which pictures are compared."""
        if asked.train.units is not None or asked.test.units is not None:
            raise RequestError(f"`units` is for tables, and {asked.synth} is of pictures: leave it out.")
        card, generator = asked.card, asked.synthesizer
        if generator is None:
            given = read_samples(asked.synth, card)
        how = card.reading if card is not None else Reading(shape=given.shape, class_names=given.class_names)
        how = dataclasses.replace(how, unit_folders=True)
        real = read(asked.train, how, split="train", called="train", sink=sink)
        how = dataclasses.replace(how, class_names=how.class_names or real.class_names)
        tests = read(asked.test, how, split="test", called="test", sink=sink)
        if generator is not None:  # samples are made last: a refusal need not wait for them
            _refuse_other_classes(zip(asked.called, (real, tests), strict=True), card, asked.synth)
            given = self.drawn(generator, asked.count, asked.seed, sink=sink)
        large = max(real.shape[1:]) > LARGEST
        whole = tests
        samples, real, tests = reduced(given), reduced(real), reduced(tests)
        train, test = asked.called
        classifier = getattr(generator, "classifier", None)
        remarks = (
            *real.notes, *tests.notes,
            f"Pictures above {LARGEST} pixels are compared at {'x'.join(map(str, real.shape[1:]))}." if large else "",
            polarity.contrast("the samples", samples, train, real),
            *absent(tests, f"the test split of {test}"),
        )  # fmt: skip
        labelled = max(int(part.labels.max()) for part in (samples, real, tests)) + 1
        soft = 0 if samples.probabilities is None else samples.probabilities.shape[-1]
        more: dict[str, Any] = {}
        if generator is not None and (keep := asked.keep) is not None:
            show = partial(sample_grid, columns=20, names=generator.class_names)
            more = {
                "grid": partial(Samples.grid_of, generator, generator.classes),
                "show_pairs": lambda images, labels: keep(NEIGHBOURS, show(images, labels)),
            }
        return registry.Inputs(
            samples=samples, real=real, tests=tests, labelled=generator is None or generator.classes > 1,
            classes=max(labelled, soft), class_names=real.class_names, remarks=remarks, seed=asked.seed, sink=sink,
            baselines=self.baselines(asked, real, tests),
            released=None if classifier is None else partial(_right, classifier, whole),
            warm=None if asked.warm is None else partial(self._warm, asked, sink),
            public=lambda: None if (public := asked.public()) is None else reduced(public),
            **more,
            **{name: getattr(asked.measures, name) for name in self.options},
        )  # fmt: skip

    def _warm(self, asked: Comparison, sink: Sink) -> Samples:
        """Samples of the public warm start alone."""
        assert asked.synthesizer is not None
        assert asked.warm is not None
        net = copy.deepcopy(asked.synthesizer.net)
        start = dataclasses.replace(asked.synthesizer, net=net).with_weights(asked.warm)
        return self.drawn(start, asked.count, asked.seed, sink=sink)

    # ------------------------------------------------------------------ score

    def scored(self, job: Job[BaseConfig, State]) -> dict[str, Any]:
        """The classifier of the release, or a small CNN."""
        net: Any = job.generator()
        if classifier_of(net):
            return {"judge": "the released classifier"}
        sides = job.card.shape[1:]
        able = net.classes > 1 and min(sides) * min(1, LARGEST / max(sides)) >= classify.SMALLEST
        return {"judge": f"a {classify.TITLE} trained on {_judged(job):,} samples"} if able else {}

    def score(self, synthesizer: Synthesizer, *, cells: int, sink: Sink) -> tuple[Callable[[Records], Array], Array]:
        """What is said of a picture does not depend on the others beside it."""
        if (chances := synthesizer.classifier) is not None:
            own = right_and_wrong(lambda held: chances(held.tensors()[0]).argmax(1).numpy() == held.labels)
            return own, np.empty(0)
        samples = self.drawn(synthesizer, _judged(synthesizer.job), seed=0, sink=sink)
        sink(progress("training of the judge", 0, 1))
        trained = classify.train(samples.images, samples.labels, classes=synthesizer.classes, protocol=JUDGE, seed=0)
        return right_and_wrong(
            lambda held: classify.predict_alone(trained.net, self.array(held, synthesizer.card)) == held.labels
        ), np.empty(0)

    # ------------------------------------------------------------------ attack

    def limits(self, card: DataCard) -> tuple[str, ...]:
        """Large pictures are compared at a smaller size."""
        if max(card.shape[1:]) <= LARGEST:
            return ()
        return (f"Pictures were compared at {LARGEST} pixels, so a copy of finer details would not be seen.",)

    def sets(
        self, members: Source, nonmembers: Source, card: DataCard, *, run: object, sink: Sink
    ) -> tuple[Records, Records]:
        """Both as the card says, with labels among its classes."""
        if members.units is not None:
            check_two_arrays(
                members.units, [(called(members, "members"), "train"), (called(nonmembers, "nonmembers"), "test")]
            )
        how = dataclasses.replace(card.reading, unit_folders=True)
        inside = read(members, how, split="train", called="members", sink=sink)
        outside = read(nonmembers, how, split="test", called="nonmembers", sink=sink)
        _refuse_other_classes((("`members`:", inside), ("`nonmembers`:", outside)), card, run)
        return inside, outside

    def apart(self, inside: Records, outside: Records) -> tuple[Records, str]:
        """Exact copies of members are left out."""
        said = "{:,} non-members are exact copies of members and were left out."
        return left_after(outside, shared(outside, inside), said)

    def array(self, records: Any, card: DataCard) -> Array:
        """Pictures uint8 [n, C, H, W], large ones reduced to `LARGEST`."""
        return np.asarray(reduced(records).images)

    def drawn(self, synthesizer: Synthesizer, count: int, seed: int, *, sink: Sink = silent) -> Samples:
        """Samples at the size at which they are compared. Large ones are never in memory together. sink: of progress."""
        drawn = synthesizer.stream(count, seed=seed, made=lambda done: sink(progress("samples", done, count)))
        pieces = [reduced(piece) for piece in drawn]
        soft = [piece.probabilities for piece in pieces if piece.probabilities is not None]
        images, labels = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("images", "labels"))
        return Samples(images, labels, synthesizer.class_names, np.concatenate(soft) if soft else None)

    def has_discriminators(self, synthesizer: Synthesizer[Any], training: Training[BaseConfig, State]) -> bool:
        """Whether its state scores a picture."""
        one = synthesizer.sample(1)
        return training.state.scores(Records(one.images, one.labels)) is not None

    def attacks(self, target: Target) -> Iterator[Named]:
        """Those on discriminators where there are some, then those on samples alone."""
        card = target.synthesizer.card
        samples, members, nonmembers, held_out = (
            self.array(records, card)
            for records in (target.samples, target.members, target.nonmembers, target.held_out)
        )
        width = int(np.prod(members.shape[1:]))
        components = min(40, len(held_out) // 2, width)
        few = min(10, len(held_out) // 4, width)
        size = min(100, len(members) // 10)
        repeats = min(50, len(members) // size)

        def monte_carlo() -> list[Attack]:
            sets = set_attack(
                samples, members, nonmembers, held_out,
                set_size=size, repeats=repeats, components=components, seed=target.seed,
            )  # fmt: skip
            return [sets.pairs, sets.top]

        if target.training is not None:
            yield "discriminators", lambda: on_discriminators(target)
        yield "Monte-Carlo, sets", monte_carlo
        yield (
            "Monte-Carlo, single records",
            lambda: [instance_attack(samples, members, nonmembers, held_out, components=components)],
        )
        yield "GAN-Leaks, full black-box", lambda: [full_black_box(samples, members, nonmembers)]
        yield "GAN-Leaks, calibrated", lambda: [calibrated(samples, members, nonmembers, held_out)]
        yield "DOMIAS", lambda: [domias(samples, members, nonmembers, held_out, components=few)]
        yield "near-copies", lambda: [near_copies(samples, members, nonmembers).excess]

    # ------------------------------------------------------------------ what leaves

    def picture(self, synthesizer: Synthesizer) -> bytes:
        """The sample grid."""
        grid = Samples.grid_of(synthesizer, synthesizer.classes, _PER_CLASS if synthesizer.classes > 1 else _ALONE)
        return sample_grid(grid.images, grid.labels, columns=_PER_CLASS, names=grid.class_names)

    def sample_count(self, path: Path) -> int:
        """The length of the labels."""
        return npz.head(path, "labels", 0, (), np.dtype(np.int64))[0]

    def same_samples(self, path: Path, pieces: Iterator[Any], count: int) -> tuple[int, bool]:
        """The first piece is compared, and the lengths of all arrays."""
        piece = next(pieces)
        arrays = {"images": piece.images, "labels": piece.labels, SOFT_LABELS: piece.probabilities}
        arrays = {key: array for key, array in arrays.items() if array is not None}
        lengths = dict.fromkeys(arrays, count)
        if piece.class_names:
            arrays["class_names"], lengths["class_names"] = np.array(piece.class_names), len(piece.class_names)
        if sorted(npz.keys(path)) != sorted(arrays):
            raise DataError(f"{path.name} holds other arrays than {', '.join(arrays)}.")
        same = True
        for key, array in arrays.items():
            length, first = npz.head(path, key, len(array), array.shape[1:], array.dtype)
            if length != lengths[key]:
                raise DataError(f"{path.name} holds arrays of different lengths.")
            same = same and np.array_equal(first, array)
        return len(piece), same

    def described(self, card: Mapping[str, Any]) -> str:
        """Size and labels."""
        size = " x ".join(map(str, card["shape"]))
        return f"pictures of {size} (channels, height, width) with labels 0 to {card['classes'] - 1}"


PICTURES = Pictures()


def _right(probabilities: Callable[[torch.Tensor], torch.Tensor], tests: Records) -> np.ndarray:
    """Which test records a released classifier gets right: bool [n]. probabilities: from images float32 [n, C, H, W]."""
    with torch.no_grad():
        guessed = probabilities(tests.tensors("cpu")[0]).argmax(dim=1).numpy()
    right: np.ndarray = guessed == tests.labels
    return right


def _judged(job: Job[BaseConfig, State]) -> int:
    return min(JUDGED, _TIMES * int(job.card.declared_size))


def _refuse_other_classes(sets: Any, card: DataCard, run: object) -> None:
    """Raise RequestError: labels beyond the declared classes. sets: names and records."""
    for name, records in sets:
        if len(records) and card.classes <= int(records.labels.max()):
            raise RequestError(f"{name} has labels beyond the {card.classes} declared classes of {run}.")


def reduced(part: _Part) -> _Part:
    """Samples or records at the size at which they are compared: with `LARGEST` as their longer side, or as they are."""
    longest: int = max(part.shape[1:])
    if longest <= LARGEST:
        return part
    shape = (part.shape[0], *(max(1, round(side * LARGEST / longest)) for side in part.shape[1:]))
    return dataclasses.replace(part, images=resize(part.images, shape))


def read_samples(path: Path, card: DataCard | None) -> Samples:
    """Samples from a file that was written earlier. The readers return them as records.

    Labels without names are folders called 0, 1, 2 ...; a class without samples has no folder. Other names are matched
    with the card, like those of the real records: folders are read in name order, the card may have another.
    """
    shape = card.shape if card is not None and path.suffix.lower() == ".csv" else None  # a .csv does not say
    records = read(Source(str(path)), Reading(shape=shape))
    labels, names = records.labels, records.class_names
    numbers = [int(name) for name in names if name.isdecimal() and str(int(name)) == name and int(name) < MOST_CLASSES]
    if names and len(numbers) == len(names) and (card is None or numbers == list(range(len(names)))):
        return Samples(records.images, np.array(numbers)[labels])
    if names and card is not None:
        labels, names = match_labels(labels, names, card.reading.class_names, where=str(path)), card.class_names
    soft = npz.member(path, SOFT_LABELS) if npz.is_arrays(path) and SOFT_LABELS in npz.keys(path) else None
    return Samples(records.images, labels, names, soft)


def on_discriminators(target: Target) -> list[Attack]:
    """White-box attacks and the oracle's, on the discriminators of the private checkpoint."""
    assert target.training is not None
    inside, outside = (_scores(target.training, records) for records in (target.members, target.nonmembers))
    if target.training.state.scores_have_no_scale:
        inside, outside = ranked(inside, outside)
    attacks = [white_box(inside, outside, how="max")]
    if len(inside) > 1:
        attacks.append(white_box(inside, outside, how="mean"))
    oracle = total_variation(inside, outside, seed=target.seed)
    return [*attacks, oracle.raw, oracle.corrected, oracle.accuracy]


def _scores(training: Training[BaseConfig, State], records: Records) -> np.ndarray:
    """What the discriminators of a run say about records: float64 [D, n], higher where a record looks real."""
    step = at_once(records.shape, 1_000)
    with torch.no_grad():
        chunks = [training.state.scores(records[lo : lo + step]) for lo in range(0, len(records), step)]
    return torch.cat([chunk for chunk in chunks if chunk is not None], dim=1).double().numpy()
