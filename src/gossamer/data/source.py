"""A source of records: where they are, what to read of it, and whose each record is. And how a card has them read."""

import os
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Protocol, TypeAlias

from gossamer.data.pixels.to_uint8 import Resize
from gossamer.data.units import Grouped, Missing
from gossamer.errors import RequestError
from gossamer.files import at_home

_ADDRESS = re.compile(
    r"(postgres(?:ql)?://(?:[^:@/?]*@)?[^@?]+)\?"
    r"(?:part=(0(?:\.\d+)?|1)-(0(?:\.\d+)?|1)&)?(?:by=([^&]+)&)?(?:table=([^&:]+)|query=(.+))",
    re.DOTALL,
)


@dataclass(frozen=True)
class Address:
    """A table of a server.

    Args:
        server: `postgres://[USER@]HOST[:PORT]/DATABASE`.
        inside: SQL of the table or the query.
        part: a hash in this interval picks units, see `by`. (0, 1): all rows.
        by: the column with the ids of the units. Empty: each row is one.
    """

    server: str
    inside: str
    part: tuple[float, float] = (0.0, 1.0)
    by: str = ""

    @classmethod
    def of(cls, place: object) -> "Address | None":
        """The address that a place is; None: it is none. Raises RequestError: another one, or one with a password."""
        text = str(place) if is_place(place) else ""
        if "://" not in text.partition("?")[0]:
            return None
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise RequestError(
                "This is no address that Gossamer reads. It is not shown here, as it may hold a password. Give "
                "postgres://[USER@]HOST/DATABASE?[part=0-0.8&][by=COLUMN&]table=NAME, and put the password into ~/.pgpass."
            )
        server, low, high, by, table, query = found.groups("")
        inside = ".".join(f'"{name}"' for name in table.replace('"', '""').split("."))
        return cls(server, inside if table else f"({query})", (float(low or 0), float(high or 1)), by)


class MapStyle(Protocol):
    """Arrays, tensors, pairs of them, Records, and datasets: all that has a length and items."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """Records, and what to read of them. A path or records in memory alone mean `Source(records)`.

    The ids of units may be in memory too: one for each record.

    Args:
        records: a path, `digits` or `glyphs`. `~` is your home folder; `:train` or `:test` at the end picks a split. Or records
            in memory. None: they are with others, or were in the memory of an earlier process.
        images_key: name of the pictures' array (.npz), column (.parquet) or file ending (.tar). Default: `images` or
            `train_images` in an .npz, else the only one with pictures.
        labels_key: name of the labels' array (.npz), column (.parquet, metadata.csv) or file ending (.tar). "none":
            there are no labels, and all records are of one class. Default: `labels`, `label` or `cls`.
        units: which records belong together: a unit is a person, such as a patient, with all records of that person.
            Each unit is protected as a whole. Default: one record is protected. Pictures in folders: `FILE.csv` with
            the columns name (path below DATA) and unit (any id), `folder` (DATA/CLASS/UNIT/picture), or
            `dicom:PatientID`. Or a regular expression: its first group is the unit in the file name, such as
            '(P[0-9]+)_'.
            Arrays: `FILE.npz:KEY` with one id per record, or `:KEY` in DATA itself; with two splits, the keys are
            `train_KEY` and `test_KEY`. A table: the column with the ids.
        public_test_data: leave the budget log alone, because the records are public. The certificate says that no
            budget log counts the run.

    Raises:
        RequestError: if a key is no text.
    """

    records: str | os.PathLike[str] | MapStyle | None
    _: KW_ONLY
    images_key: str | None = None
    labels_key: str | None = None
    units: Any = None
    public_test_data: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.units, os.PathLike):
            object.__setattr__(self, "units", str(self.units))
        for name in ("records", "units"):
            place = getattr(self, name)
            address = Address.of(place)
            if address and address.part != (0.0, 1.0) and (self.units or "") not in ("", address.by):
                raise RequestError(
                    "the address must say by=COLUMN with the column of the units, or parts divide a unit."
                )
            if address is None and is_place(place) and str(place).startswith("~"):
                object.__setattr__(self, name, str(at_home(place)))
        for name in ("images_key", "labels_key"):
            if not isinstance(getattr(self, name), str | None):
                raise RequestError(f"{name} must be text or None, not of type {type(getattr(self, name)).__name__}.")

    def __repr__(self) -> str:
        """Show where the records are: a traceback that shows this must not show a record."""
        return f"Source({self.records!r})" if is_place(self.records) else "Source(in memory)"

    @property
    def ids(self) -> Any:
        """The units: as they were named, else the ids of units that `Records` or a `Table` bring, [N]; None: there are none."""
        own = self.records
        if self.units is not None or not isinstance(own, Grouped) or own.units is None:
            return self.units
        return own.units if own.names is None else own.names[own.units]


Split = Literal["train", "test"]
Data: TypeAlias = str | os.PathLike[str] | MapStyle | Source
"""Records: a path, the name of embedded data, or records in memory. A `Source` adds what to read of them."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How pictures are read; a card says it.

    Args:
        missing_unit: what a record without an id is, an error or a unit of its own.
        unit_folders: read pictures in folders of units even without units; for evaluation.
        missing_label: what a record without a label is (a negative number, empty text), an error or left out.
        shape: the card's channels, height and width, to which images are converted. None: as they are.
        resize: what becomes of pictures of other proportions, see `data.pixels.to_uint8.resize`.
        invert: exchange dark and light; `digits` and `glyphs` are white on black, and stay so.
        class_names: the declared names of the classes, by which records are matched if the source has names of its own.
            Empty: the names, in the order, of the source.
        pixel_range: values of black and white in pixels of more than 8 bits, for example 0 4095 for 12 bits.
        window: scale each DICOM file by its own display window; those without one need `pixel_range`.
    """

    missing_unit: Missing = "refuse"
    unit_folders: bool = False
    missing_label: Literal["refuse", "drop"] = "refuse"
    shape: tuple[int, ...] | None = None
    resize: Resize = "squash"
    invert: bool = False
    class_names: Sequence[str] = ()
    pixel_range: Any = None
    window: bool = False


AS_STORED = Reading()


def source_of(data: Data) -> Source:
    """Return records as a source."""
    return data if isinstance(data, Source) else Source(data)


def refuse_keys(source: Source) -> None:
    """Refuse keys of pictures where the records are rows of a table, with a RequestError."""
    keys = {"`images_key`": source.images_key, "`labels_key`": source.labels_key}
    if flags := ", ".join(flag for flag, key in keys.items() if key is not None):
        raise RequestError(f"{flags}: this is for pictures, and the data are a table. Leave it out.")


def is_place(data: object) -> bool:
    """Return whether data is a path, or the name of embedded data, and no records in memory."""
    return isinstance(data.records if isinstance(data, Source) else data, str | os.PathLike)


def called(data: Data, name: str) -> str:
    """Return what messages call data: its path, or for records in memory the name of the argument."""
    return str(source_of(data).records) if is_place(data) else name


def split_of(source: str) -> tuple[str, Split | None]:
    """The source without its split, and the split."""
    if source.endswith(":train"):
        return source.removesuffix(":train"), "train"
    if source.endswith(":test"):
        return source.removesuffix(":test"), "test"
    return source, None
