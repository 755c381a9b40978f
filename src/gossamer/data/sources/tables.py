"""A table in any form as a relation: files, folders, databases, and what is in memory."""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from gossamer.data.columns.column import is_numbered
from gossamer.data.source import Address, is_place, source_of, split_of
from gossamer.data.sources import arrow_files, databases, excel, json_lines, memory, servers
from gossamer.data.sources.names import READ_AGAIN, watch
from gossamer.data.sources.relation import Block, Relation
from gossamer.data.sources.text_file import open_text
from gossamer.data.units import Grouped
from gossamer.errors import DataError
from gossamer.lazy import pa

TEXTS = tuple(f"{ending}{packed}" for ending in (".csv", ".tsv", ".txt", ".tab") for packed in ("", ".gz"))
ARROW = (".parquet", ".arrow", ".feather")
JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
SQLITE, DUCKDB = (".sqlite", ".sqlite3", ".db"), (".duckdb",)
EXCEL = (".xlsx",)
SUFFIXES = (*TEXTS, *ARROW, *JSON_LINES, *EXCEL, *SQLITE, *DUCKDB)
FORMS = (
    "a .csv, .tsv or .txt file (plain or .gz), .parquet, .arrow, .jsonl, .xlsx, .sqlite or .duckdb, a folder of parts, or a "
    "folder with train and test in one of these forms"
)
_PICTURES = frozenset(
    ("image", "images", "img", "picture", "pictures", "pixels", "photo", "jpg", "jpeg", "png", "webp", "tif", "tiff")
)
"""Names of columns of bytes that hold pictures."""
_PICTURE_FILES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".dcm")
_SAMPLES = re.compile(rb"\xef?\xbb?\xbf?label,(class,)?pixel0[,\r\n]")
"""How the first line of samples of pictures begins that Gossamer wrote as .csv."""


def open_table(
    source: Any,
    *,
    split: str,
    wanted: Collection[str] = (),
    where: str,
    header: bool | None = None,
    decimal: str = "",
) -> Relation:
    """Open a table in any form.

    Args:
        source: a path, or a table in memory. `:train` or `:test` at its end picks a split of a folder, and overrides `split`.
            FILE.xlsx:SHEET picks a sheet, FILE?table=NAME a table of a database, and FILE?query=SELECT what a query gives.
        split: the split to read where the source is a folder with splits.
        wanted: names that help to find the delimiter.
        where: what messages call the source.
        header: whether the first line names the columns, see `TableCard`. None: it does, and names that are values are refused.
        decimal: the decimal point, where it is declared.

    Raises:
        RequestError: an extra for this form is not installed.
        DataError: what cannot be read, and names that are values, now or with the blocks.
    """
    if found := Address.of(source):
        relation = servers.open_server(found)
    elif is_place(source):
        relation = _of_place(str(source), split, wanted, header, decimal)
    else:
        relation = memory.open_memory(source, where, header=header)
    if header is False and not is_numbered(relation.names):
        raise DataError(f"{where}: these columns have names, and header = false is for others. {READ_AGAIN}")
    if header is None and relation.remedy:
        watch(relation, where)
    return relation


def _of_place(address: str, split: str, wanted: Collection[str], header: bool | None, decimal: str) -> Relation:
    name, named_split = split_of(address)
    path = Path(name)
    if path.is_dir():
        parts = _parts(path, named_split or split)
        return _joined([_of_file(part, "", wanted, header, decimal) for part in parts], parts, where=name)
    path, inside = file_of(name)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder. Give {FORMS}.")
    return _of_file(path, inside, wanted, header, decimal)


def file_of(name: str) -> tuple[Path, str]:
    """A file, and what picks a part of it: `?table=NAME`, `?query=SELECT` or `:SHEET`. Empty: nothing does."""
    for sign in (databases.QUERY, databases.TABLE, ":"):
        file, found, inside = name.partition(sign) if sign != ":" else name.rpartition(sign)
        if found and not Path(name).exists() and Path(file).is_file():
            return Path(file), f"{sign}{inside}"
    return Path(name), ""


def tables_of(name: str) -> dict[str, str]:
    """Where each table of a database file is, by name; of another place none. Raises as `open_table`."""
    path, inside = file_of(name)
    if inside or not path.is_file() or not path.name.lower().endswith(SQLITE + DUCKDB):
        return {}
    found = databases.tables_in(path, sqlite=path.name.lower().endswith(SQLITE))
    return {table: f"{path}{databases.TABLE}{table}" for table in found}


def _of_file(path: Path, inside: str, wanted: Collection[str], header: bool | None, decimal: str) -> Relation:
    """Open one file. inside: see `file_of`."""
    name = path.name.lower()
    if name.endswith(EXCEL):
        return excel.open_excel(path, inside.removeprefix(":"), header=header)
    if name.endswith(SQLITE):
        return databases.open_sqlite(path, inside)
    if name.endswith(DUCKDB):
        return databases.open_duckdb(path, inside)
    if inside:
        raise DataError(f"{path}: this file holds one table: leave the {inside!r} at its end out.")
    if name.endswith(ARROW):
        return arrow_files.open_arrow(path)
    if name.endswith(JSON_LINES):
        return json_lines.open_json_lines(path)
    if name.endswith(TEXTS):
        return open_text(path, wanted, header=header, decimal=decimal)
    raise DataError(f"{path}: this kind of file is not read as a table. Give {FORMS}.")


def _parts(folder: Path, split: str) -> list[Path]:
    """The files of a split in a folder, or all its parts, in the order of their names."""
    files = _tables_in(folder)
    if named := [file for file in files if file.name.partition(".")[0] in ("train", "test")]:
        there = [file for file in named if file.name.partition(".")[0] == split]
        if len(there) != 1:
            raise DataError(f"{folder}: one file called {split} is wanted, and here are {len(there)}. Give {FORMS}.")
        return there
    endings = {_ending(file) for file in files}
    if len(endings) != 1:
        raise DataError(
            f"{folder}: one file called {split} is wanted, or one form. Here are files of {len(endings)} forms. Give {FORMS}."
        )
    return [file for file in files if file.stat().st_size]


def _tables_in(folder: Path) -> list[Path]:
    """The visible files of tables in a folder, by name. Spark writes _SUCCESS and hidden files beside them."""
    if any(_ending(file) and file.name[0] not in "._" for file in folder.glob("*=*/**/*")):
        raise DataError(
            f"{folder}: the names of its folders hold values of a column, as Hive writes them. Join all parts first, for "
            "example with `pandas.read_parquet(FOLDER)`, and give the frame or one file."
        )
    return sorted(file for file in folder.iterdir() if file.name[0] not in "._" and _ending(file) and file.is_file())


def _ending(file: Path) -> str:
    """The ending of a file of a table. Empty: it is another file."""
    return max((suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix)), key=len, default="")


def _joined(relations: Sequence[Relation], parts: Sequence[Path], *, where: str) -> Relation:
    """Parts as one relation. Raises DataError: they have other names, or another delimiter."""
    if not relations:
        raise DataError(f"{where}: all parts of the table are empty.")
    first = relations[0]
    for part, relation in zip(parts, relations, strict=True):
        if (relation.names, relation.delimiter) != (first.names, first.delimiter):
            raise DataError(
                f"{part}: this part has other columns than {parts[0].name}, or no line with their names: write all alike. "
                "Tables that are linked by keys need a card with [table.NAME], as `gossamer.draft_card` drafts it"
            )
    if len(relations) == 1:
        return first

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        start, types = 0, dict[int, Any]()
        joined.ragged.clear()
        for part, relation in zip(parts, relations, strict=True):
            end = start
            for numbers, columns in relation.blocks(positions):
                # where all values are missing, a part tells no type
                here = {at: column.type for at, column in enumerate(columns) if column.type != pa.null()}
                types = here | types
                if _ending(part) in ARROW and any(types[at] != kind for at, kind in here.items()):
                    raise DataError(f"{part}: columns of this part have other types than those of {parts[0].name}.")
                yield numbers + start, columns
                end = start + int(numbers[-1]) + 1
            joined.ragged += [row + start for row in relation.ragged]
            joined.notes |= relation.notes
            start = max(end, start + max(relation.ragged, default=-1) + 1)

    joined = Relation(first.names, blocks, delimiter=first.delimiter, remedy=first.remedy)
    return joined


def is_table(data: Any) -> bool:
    """Whether DATA is a table, by its form and the names and types of its columns alone.

    Args:
        data: what `fit` takes. Of .parquet and .arrow files, those with a column of pictures are none: structs with bytes, or
            bytes that are called image or the like. With `images_key` none is.

    Raises:
        DataError: a file that cannot be read, or a folder that can be two things.
    """
    source = source_of(data)
    data = source.records
    if source.images_key is not None:
        return False
    if Address.of(data):
        return True
    if not is_place(data):
        return (isinstance(data, Grouped) and hasattr(data, "codes")) or memory.is_frame(data)
    path, _ = file_of(split_of(str(data))[0])
    if path.is_dir():
        return _is_folder_of_table(path)
    return path.is_file() and _is_file_of_table(path)


def _is_folder_of_table(folder: Path) -> bool:
    files = _tables_in(folder)
    others = [entry for entry in folder.iterdir() if entry.name[0] not in "._" and entry not in files]
    splits = [file for file in files if file.name.partition(".")[0] in ("train", "test")]
    if others and splits and _hold_pictures(others) and _is_file_of_table(splits[0]):
        raise DataError(
            f"{folder}: this folder can be two things. For a table, give its file: {splits[0]}. For pictures, call "
            "their list labels.csv (docs/data.md)."
        )
    if others and (not splits or any(entry.is_dir() for entry in others)):
        return False
    return bool(files) and _is_file_of_table((splits or files)[0])


def _hold_pictures(entries: Sequence[Path]) -> bool:
    """Whether files are pictures, or folders have some, as far as their first hundred names say."""
    inside = (file for entry in entries for file in ([entry] if entry.is_file() else [*entry.rglob("*")][:100]))
    return any(file.name.lower().endswith(_PICTURE_FILES) for file in inside)


def _is_file_of_table(path: Path) -> bool:
    name = path.name.lower()
    if name.endswith(ARROW):
        return not any(map(_is_picture, arrow_files.schema_of(path)))
    if name.endswith(TEXTS):
        with path.open("rb") as file:
            return not _SAMPLES.match(file.read(64))
    return name.endswith(SUFFIXES)


def _is_picture(field: Any) -> bool:
    """Whether a column holds pictures, by its name and its type."""
    kind, types = field.type, pa.types
    if types.is_struct(kind):
        return int(kind.get_field_index("bytes")) >= 0
    is_bytes: bool = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_list(kind)
    return is_bytes and str(field.name).casefold() in _PICTURES
