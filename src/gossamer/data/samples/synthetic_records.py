"""What synthetic pictures and synthetic rows have in common: they are made, joined and written in pieces."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from gossamer.data.samples.writers import Form, write_samples


class SyntheticRecords(ABC):
    """Samples of one kind: the output of a generator. They belong to no unit."""

    file: ClassVar[str]
    """The samples in a release."""
    forms: ClassVar[Mapping[str, Form]]
    """How samples are written, by the ending of the path."""
    written_as: ClassVar[str]
    """These endings, for messages."""
    loader: ClassVar[tuple[str, ...]]
    """The frame of `load.py` in a release, and the packages that it needs."""

    @classmethod
    @abstractmethod
    def sizes(cls, card: Any) -> tuple[int, int]:
        """How many samples are made at once, and the bytes of each in memory."""

    @classmethod
    @abstractmethod
    def piece(cls, card: Any, class_names: tuple[str, ...], seed: int, first: int, drawn: Any) -> Self:
        """What a generator has drawn, as samples.

        Args:
            card: describes them.
            class_names: names of the labels; empty: there are none.
            seed: of all that follows from the samples, such as values within bins.
            first: the number of the first of them.
            drawn: tensors: pictures in [0, 1] or codes, labels, and soft labels or None.
        """

    @classmethod
    @abstractmethod
    def joined(cls, pieces: Iterable[Self], n: int, card: Any, class_names: tuple[str, ...]) -> Self:
        """All pieces in one, n samples."""

    @classmethod
    @abstractmethod
    def preview(cls, generator: Any) -> Any:
        """A few samples of a Synthesizer, for a notebook. They have a fixed seed."""

    @classmethod
    def write(cls, path: str | Path, chunks: Iterable[Self], *, count: int, force: bool = False) -> None:
        """Write samples chunk by chunk, all or nothing; see `writers.write_samples`."""
        write_samples(path, chunks, cls.forms, cls.written_as, count=count, force=force)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the samples: pictures to .npz, .csv, .parquet or a folder of .png, rows to .csv or .parquet.

        Raises:
            RequestError: another ending, no samples, or .parquet without pyarrow.
            RunFolderError: the path is taken and `force` is not set, cannot be written, or its disk is too full.
        """
        self.write(path, [self], count=len(self), force=force)

    @abstractmethod
    def __len__(self) -> int: ...
