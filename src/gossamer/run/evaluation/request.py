"""What `evaluate` is asked, and what it gets from each kind of records."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gossamer.data.source import Data, called
from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import RequestError
from gossamer.events import Sink
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.storage.run_folder import RunFolder

CACHE = "baselines"
"""In the private folder of a RUN: what depends on the real records alone."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Request:
    """What `evaluate` is asked.

    Args:
        synth: a RUN, a release or a file of samples.
        folder: the same as a folder.
        own: whether it is a RUN with its private folder.
        synthesizer: its generator; None: of a file.
        card: of the generator, or given for a file; None: there is none.
        train: real training records.
        test: real test records.
        count: number of samples to make.
        seed: of samples and trainings.
        cache: folder for what depends on real records alone, or None.
        only: arguments for one kind of records, by their names.
    """

    synth: Path
    folder: RunFolder
    own: bool
    synthesizer: Synthesizer | None
    card: AnyCard | None
    train: Data
    test: Data
    count: int
    seed: int
    cache: Path | None
    only: Mapping[str, Any]

    @property
    def called(self) -> tuple[str, str]:
        """What messages call the training and the test records."""
        return called(self.train, "train"), called(self.test, "test")

    @property
    def cache_folder(self) -> Path | None:
        """Where what depends on the real records alone is kept."""
        if self.cache is not None:
            return self.cache
        return self.folder.private / CACHE if self.folder.private.is_dir() else None

    def refuse_others(self, others: Mapping[str, Any], *, kind: str, shown: str) -> None:
        """Refuse arguments for another kind of records. Raises RequestError.

        Args:
            others: their names, with the values that they have where they are left out.
            kind: the records that they are for, in words.
            shown: the records of this request, in words.
        """
        given = [name for name, left_out in others.items() if self.only[name] != left_out]
        if given:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
            raise RequestError(
                f"{flags} {'are' if given[1:] else 'is'} for {kind}, and {self.synth} is of {shown}: leave it out."
            )


class Compared(Protocol):
    """Samples and real records of one kind, once they are read."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the readers converted, and what else to say before the work."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels, label 0 first; empty: there are none."""

    def inputs(self, sink: Sink) -> Any:
        """The `Inputs` of the metrics of this kind."""
