"""What synthetic pictures and synthetic rows have in common: they are made, joined and written in pieces."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from gossamer.data.samples.writers import Form, new_place, with_room
from gossamer.errors import RequestError
from gossamer.files import at_home

PREVIEWED = 10
"""Samples that a notebook shows of a generator."""


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
    def preview(cls, generator: Any) -> Any:
        """A few samples of a Synthesizer, for a notebook. They have a fixed seed."""
        return generator.sample(PREVIEWED, seed=0)

    @classmethod
    def write(cls, path: str | Path, chunks: Iterable[Self], *, count: int, force: bool = False) -> None:
        """Write samples; memory holds one chunk at a time. The readers read them back.

        Args:
            path: the file or folder to write. It appears under its name only when it is whole.
            chunks: the samples, in order, all of one shape.
            count: number of samples in all chunks together.
            force: replace what is there (a folder only if it holds samples and nothing else).

        Raises:
            RequestError: an ending that is not known, .parquet without pyarrow, or nothing to write.
            RunFolderError: something is there already, the place cannot be written, or its disk is too full.
        """
        path = at_home(path)
        if path.suffix.lower() not in cls.forms:
            raise RequestError(f"{path}: {cls.written_as}")
        if count < 1:
            raise RequestError(
                f"{path}: there is nothing to write, the number of samples is {count}: ask for at least 1"
            )
        writer, least = cls.forms[path.suffix.lower()]
        with new_place(path, force=force) as whole:
            writer(whole, with_room(path, iter(chunks), count, least), count)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the samples: pictures to .npz, .csv, .parquet or a folder of .png, rows to .csv or .parquet.

        Raises:
            RequestError: another ending, no samples, or .parquet without pyarrow.
            RunFolderError: the path is taken and `force` is not set, cannot be written, or its disk is too full.
        """
        self.write(path, [self], count=len(self), force=force)

    @abstractmethod
    def __len__(self) -> int: ...
