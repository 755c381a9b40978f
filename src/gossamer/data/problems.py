"""The problems of a data set, told together: who mends the first need not come back for the second."""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.errors import DataError, GossamerError, did_you_mean

SHOWN = 5
"""Problems that a message names. It counts the others."""


class Problems:
    """The problems that one pass over a data set finds. It keeps the first ones, and counts the others."""

    def __init__(self, shown: int = SHOWN) -> None:
        self._shown = shown
        self._places: dict[str, list[str]] = {}
        self._count = 0

    def add(self, place: object, problem: object) -> None:
        """Add what is wrong at a place: a file, or a line of a file. The text of an error may begin with its place."""
        self._count += 1
        if self._count <= self._shown:
            self._places.setdefault(str(problem).removeprefix(f"{place}: "), []).append(str(place))

    def __bool__(self) -> bool:
        return self._count > 0

    def refuse(self) -> None:
        """Raise DataError if there is a problem. Several have a line for each kind, after a line with their number."""
        lines = [f"{', '.join(places)}: {problem}" for problem, places in self._places.items()]
        more = [f"... and {self._count - self._shown:,} more"] if self._count > self._shown else []
        head = [f"there are {self._count:,} problems with the data:"] if self._count > 1 else []
        if lines:
            raise DataError("\n  ".join([*head, *lines, *more]))


@contextmanager
def sound(path: Path, problem: str) -> Iterator[None]:
    """Make a DataError of whatever a library raises on a damaged file, which is open-ended and may quote a value."""
    try:
        yield
    except GossamerError:
        raise
    except Exception as error:  # open-ended, and no text of the library goes on: it may quote a value
        why = getattr(error, "strerror", None)
        raise DataError(f"{path}: {f'the file cannot be read ({why})' if why else problem}") from None


FORMS = (
    "a table (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx, .sqlite, .duckdb, or a folder of its parts), or pictures (class "
    "folders, .npz, idx files, a folder of .npy files, or .parquet, .arrow or .tar with pictures). See docs/data.md"
)
"""What DATA may be."""
_DATABASES = (".xlsx", ".sqlite", ".sqlite3", ".db", ".duckdb")
READ_TABLES = (".csv", ".tsv", ".txt", ".tab", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson", *_DATABASES)
TABLES = (*READ_TABLES, ".xls", ".xlsb", ".ods", ".dta", ".sav", ".sas7bdat", ".orc", ".avro", ".rds")
IN_PYTHON = {
    ".mat": "scipy.io.loadmat",
    ".npy": "numpy.load",
    ".h5": "h5py.File",
    ".pt": "torch.load",
    ".pth": "torch.load",
}
"""Files that hold arrays or objects, and what reads them."""
TEXTS = (".md", ".json", ".xml", ".html", ".pdf", ".docx")


def no_pictures(path: Path) -> DataError:
    """The error for a file that holds no pictures: a table or a text, by its ending, or another kind of file."""
    if (suffix := path.suffix.lower()) not in (*TABLES, *TEXTS):
        in_python = f" Read it in Python by `{IN_PYTHON[suffix]}`, and give the arrays." if suffix in IN_PYTHON else ""
        near = in_python or did_you_mean(suffix, READ_TABLES)
        return DataError(f"{path}: this kind of file is not read.{near} Give {FORMS}.")
    if suffix in READ_TABLES:
        return DataError(
            f"{path} holds a table, and pictures are to be read here. Give pictures, or the card of a table, which "
            "`gossamer.draft_card(DATA)` drafts."
        )
    if suffix in TABLES:
        return DataError(f"{path} holds a table in a form that Gossamer does not read. Save it as .csv or .parquet.")
    return DataError(f"{path} holds text. Gossamer learns from pictures and tables. Give {FORMS}.")


def records(positions: Iterable[int], kind: str = "record") -> str:
    """Records in a sentence, by position: of many, the first five and how many more. Empty where there are none."""
    rest = iter(positions)
    first = [*itertools.islice(rest, SHOWN)]
    more = sum(1 for _ in rest)
    which = f"{kind}{'s' if first[1:] else ''} {', '.join(map(str, first))} (counted from 0)"
    return f"{which} and {more:,} more" if more else which if first else ""
