"""What each kind of records has to give. `docs/decisions/0016-kinds.md` lists it for the author of a third kind."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from gossamer.attacks.arrays import Array
from gossamer.attacks.scores import Attack
from gossamer.data.card import Card
from gossamer.data.card import Kind as KindName
from gossamer.data.fingerprint import Identity
from gossamer.data.source import Source, called
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, silent
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job, Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.metric import Inputs, Measures, Registry

R = TypeVar("R")
K = TypeVar("K", bound=Card)

NONE_LEFT = "`nonmembers`: all of these records are among the members; give records that the run never saw."

Named = tuple[str, Callable[[], list[Attack]]]
"""An attack by name, to be made when its turn comes."""


def left_after(outside: Any, known: Array, said: str) -> tuple[Any, str]:
    """The non-members without those that are known, and in words how many these are.

    Args:
        outside: non-members.
        known: which of them are members, too: bool [n].
        said: a sentence with a place for their number.

    Raises:
        DataError: if none is left.
    """
    if known.all():
        raise DataError(NONE_LEFT)
    return outside[(~known).nonzero()[0]], said.format(known.sum()) if known.any() else ""


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """What `evaluate` is asked: which samples are compared with which records.

    Args:
        synth: a RUN, a release or a file of samples.
        synthesizer: its generator; None: of a file.
        card: of the generator, or given for a file; None: there is none.
        train: real training records.
        test: real test records.
        count: number of samples to make.
        seed: of samples and trainings.
        measures: what is measured, and how.
        cache: folder for what depends on real records alone, or None.
        keep: stores a picture of real records in the private folder of a RUN; None: of a release or a file.
        warm: weights of the public warm start alone, or None.
        public: reads the public records of the run; None where they cannot be read.
    """

    synth: Path
    synthesizer: Synthesizer | None
    card: Any
    train: Source
    test: Source
    count: int
    seed: int
    measures: Measures
    cache: Path | None
    keep: Callable[[str, bytes], None] | None
    warm: Path | None
    public: Callable[[], Any]

    @property
    def called(self) -> tuple[str, str]:
        """What messages call the training and the test records."""
        return called(self.train, "train"), called(self.test, "test")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the attacks are made on: what a run hands out, and the records whose membership they guess.

    Args:
        samples: of the release.
        members: records of the run's data.
        nonmembers: as many records that the run never saw.
        held_out: other records that the run never saw, for principal components and as a reference.
        training: the run as its private checkpoint has it, with its discriminators, or None.
        synthesizer: the release.
        seed: fixes the draws of the attacks.
    """

    samples: Any
    members: Any
    nonmembers: Any
    held_out: Any
    training: Training[BaseConfig, State] | None
    synthesizer: Synthesizer[Any]
    seed: int


@dataclass(frozen=True)
class Words:
    """What the README of a release says of a kind.

    Args:
        records: what is synthetic, such as "rows".
        loads: Python that loads the release with `load.py`.
        with_gossamer: the same with Gossamer.
        in_terminal: how `load.py` is used in a terminal; empty: it is not.
    """

    records: str
    loads: str
    with_gossamer: str
    in_terminal: str = ""


class Kind(ABC, Generic[R, K]):
    """One kind of records. R: a set of records. K: the card that describes it."""

    name: ClassVar[KindName]
    """That of the kind on its cards and on methods (`Card.kind`, `Method.takes`)."""
    in_words: ClassVar[str]
    """What a set of such records is called."""
    metrics: ClassVar[Registry]
    options: ClassVar[tuple[str, ...]]
    """The fields of `Measures` that are for this kind alone."""
    words: ClassVar[Words]
    look: ClassVar[Any] = None
    """What a look asks, and the rule for its answer: a module such as `picture_facts`. None: there is no look."""
    counts_units: ClassVar[bool] = False
    """Whether `evaluate` takes units, and counts each of them once."""

    # ------------------------------------------------------------------ records

    @abstractmethod
    def read(self, source: Source, card: K, *, split: str = "train", name: str = "data", sink: Sink = silent) -> R:
        """Records as the card has them read. name: what messages call records in memory. Raises DataError, RequestError."""

    def counted(self, source: Source, card: K) -> R:
        """The same for a run that only counts records: they need not say who owns each."""
        return self.read(source, card)

    def engine(self, records: R) -> dict[str, str]:
        """The engine that counts records and their units, as the settings of a run say it. Empty: Gossamer itself."""
        return {}

    @abstractmethod
    def identify(self, records: R) -> Identity:
        """What identifies a set of records."""

    @abstractmethod
    def matched(self, units: Any) -> str:
        """How ids of units are matched with the records, as the settings of a run say it."""

    def columns(self, source: Source, *, name: str, header: bool | None) -> list[str]:
        """The names of the columns in a place; none where records have no columns. Raises DataError.

        Args:
            source: the place.
            name: what messages call it.
            header: whether the first line names them; None: the user did not say.
        """
        return []

    def deep_range(self, source: Source) -> tuple[float, float, bool] | None:
        """Black and white that pixels deeper than 8 bits may have, and whether there is a display window; None: no such pixels.

        The first record says it. Raises DataError.
        """
        return None

    @abstractmethod
    def glance(self, source: Source, draft: Mapping[str, Any]) -> dict[str, Any]:
        """Some records as they are, and counts, for the owner's eyes alone. draft: facts of a draft. Raises DataError."""

    def splits_into_folder(self, path: Path) -> bool:
        """Whether `split` writes the parts of records at a path into a folder, and not into an .npz."""
        return path.is_dir()

    def doubts(self, private: R, public: R | None, card: K) -> Iterator[str]:
        """What looks wrong with the records of a run. For the terminal only."""
        yield from ()

    def is_one_shade(self, records: R) -> bool:
        """Whether nearly every record has one shade. For the terminal only."""
        return False

    def refuse_others(self, given: Measures, others: "Iterable[Kind[Any, Any]]", *, of: object) -> None:
        """Refuse fields that are for other kinds, with a RequestError. of: what is of this kind, for messages."""
        left_out = Measures()
        for other in others:
            wrong = [name for name in other.options if getattr(given, name) != getattr(left_out, name)]
            if wrong and other is not self:
                flags = " and ".join(f"`{name}`" for name in wrong)
                verb = "are" if wrong[1:] else "is"
                raise RequestError(
                    f"{flags} {verb} for {other.metrics.records}, and {of} is of {self.in_words}: leave it out."
                )

    # ------------------------------------------------------------------ evaluate

    @abstractmethod
    def compare(self, asked: Comparison, sink: Sink) -> Inputs:
        """Read the real records and make or read the samples, for the metrics. Raises CardError, DataError, RequestError."""

    def baselines(self, asked: Comparison, real: R, tests: R) -> Baselines:
        """The cache of what depends on these real records and the seed alone."""
        about = [self.identify(each).fingerprint for each in (real, tests)] if asked.cache is not None else []
        return Baselines(asked.cache, " ".join([*about, str(asked.seed)]))

    # ------------------------------------------------------------------ score

    def scored(self, job: Job[BaseConfig, State]) -> dict[str, Any]:
        """What a score measures of a job, as entries of `Score`; a judge says labels. Empty: nothing. Reads no record."""
        return {}

    def judged(self, card: K, records: R) -> Any:
        """The records that are scored, with units as they are in `records`."""
        return records

    @abstractmethod
    def score(self, synthesizer: Synthesizer, *, cells: int, sink: Sink) -> tuple[Callable[[Any], Array], Array]:
        """Draw samples and train the judge.

        cells: of each column that is compared.

        Returns a function of `judged`, which of the facts of `scored` are true of each, bool [n, facts]; and the share of
        samples in each cell of its columns.
        """

    # ------------------------------------------------------------------ attack

    def limits(self, card: K) -> tuple[str, ...]:
        """Sentences that the verdict of attacks adds for these records."""
        return ()

    def sets(self, members: Source, nonmembers: Source, card: K, *, run: object, sink: Sink) -> tuple[R, R]:
        """Members and non-members, checked against the card. run: for messages. Raises DataError and RequestError."""
        inside = self.read(members, card, name="members")
        return inside, self.read(nonmembers, card, split="test", name="nonmembers")

    @abstractmethod
    def apart(self, inside: R, outside: R) -> tuple[R, str]:
        """The non-members that are no members, and a sentence on those that are; empty: there are none.

        Raises:
            DataError: if none is left.
        """

    def fingerprints(self, records: Any) -> set[str]:
        """The fingerprint of records as they are, and without their units."""
        without = dataclasses.replace(records, units=None, names=None)
        return {self.identify(each).fingerprint for each in (records, without)}

    @abstractmethod
    def array(self, records: Any, card: K) -> Array:
        """What the attacks see of records, or of samples: [n, ...]."""

    def drawn(self, synthesizer: Synthesizer[Any], count: int, seed: int, *, sink: Sink = silent) -> Any:
        """Samples of a release, no larger than they are compared. sink: of progress."""
        return synthesizer.sample(count, seed=seed)

    def has_discriminators(self, synthesizer: Synthesizer, training: Training[BaseConfig, State]) -> bool:
        """Whether the method keeps discriminators. It is asked about a sample in place of a record."""
        return False

    @abstractmethod
    def attacks(self, target: Target) -> Iterator[Named]:
        """Each attack that applies."""

    # ------------------------------------------------------------------ what leaves

    @abstractmethod
    def picture(self, synthesizer: Synthesizer) -> bytes:
        """A PNG of the samples that a generator draws with seed 0: the same for a RUN and for its release."""

    def page(self, synthesizer: Callable[[], Synthesizer]) -> dict[str, Any]:
        """What a report shows besides: rows, the head first, and the model or None. Both follow from the release."""
        return {"rows": [], "model": None}

    def first_rows(self, folder: Path, count: int) -> dict[str, list[list[str]]]:
        """The first lines of the tables of samples in a release, by file; none where there are no tables."""
        return {}

    @abstractmethod
    def sample_count(self, path: Path) -> int:
        """The number of samples in a file of a release. Raises DataError: it does not hold samples."""

    @abstractmethod
    def same_samples(self, path: Path, pieces: Iterator[Any], count: int) -> tuple[int, bool]:
        """How many samples were drawn again, and whether the file begins with them. Raises DataError: it holds others."""

    @abstractmethod
    def described(self, card: Mapping[str, Any]) -> str:
        """What a generator makes, for the README of its release. card: plain values."""
