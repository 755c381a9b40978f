"""Every form of data with every form of ids: each gives the same units, as `fit` reads them, or a refusal."""

import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import Table
from gossamer.errors import DataError
from gossamer.methods.marginals.counts import Counts
from gossamer.privacy.queries import Bounds
from gossamer.run.storage.data_sources import DataSources, RawData

NUMBERS = [-7, 12, -7, 3, 12, -9, 3, -7]
PEOPLE = [0, 1, 0, 2, 1, 3, 2, 0]
"""The number of each one's first record."""
GAPS: list[Any] = [-7, 12, None, -7, 3, None, 12, -7]
PEOPLE_AND_GAPS = [0, 1, 2, 0, 3, 4, 1, 0]
COUNT = len(NUMBERS)


def text(number: int | None) -> str:
    """As two exports write it."""
    return "" if number is None else f"{number}.0" if number == -7 else str(number)


def polars_column(ids: list[Any]) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").Series(ids)


WHOLE: dict[str, Callable[[list[Any]], Any]] = {
    "int64": np.array,
    "int8": lambda ids: np.array(ids, np.int8),
    "tensor": torch.tensor,
    "tensors": lambda ids: [torch.tensor(each) for each in ids],
    "series": pd.Series,
    "index": pd.Index,
}
"""Forms that cannot say that an id is missing."""
OF_ALL: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "texts": lambda ids: [text(each) for each in ids],
    "text array": lambda ids: np.array([text(each) for each in ids]),
    "bytes": lambda ids: np.array([text(each).encode() for each in ids]),
    "list of bytes": lambda ids: [text(each).encode() for each in ids],
    "new text array": lambda ids: np.array([text(each) for each in ids], np.dtypes.StringDType()),
    "objects": lambda ids: np.array(ids, object),
    "mixed": lambda ids: [each if at % 2 else text(each) for at, each in enumerate(ids)],
    "floats": lambda ids: np.array(ids, float),
    "float32": lambda ids: np.array(ids, np.float32),
    "numbers of numpy": lambda ids: [None if each is None else np.float16(each) for each in ids],
    "float tensor": lambda ids: torch.tensor([np.nan if each is None else each for each in ids]),
    "decimals": lambda ids: [None if each is None else decimal.Decimal(each) for each in ids],
    "masked": lambda ids: np.ma.masked_values([99 if each is None else each for each in ids], 99),
    "series with gaps": lambda ids: pd.Series(ids, dtype=float),
    "nullable": lambda ids: pd.Series(ids, dtype="Int64"),
    "nullable array": lambda ids: pd.array(ids, dtype="Int64"),
    "series of texts": lambda ids: pd.Series([text(each) for each in ids], dtype="string"),
    "series of objects": lambda ids: pd.Series(ids, dtype=object),
    "categorical": lambda ids: pd.Series(pd.Categorical(ids)),
    "series of pyarrow": lambda ids: pd.Series(ids, dtype="int64[pyarrow]"),
    "pyarrow": pa.array,
    "pyarrow chunks": lambda ids: pa.chunked_array([ids[:3], ids[3:]], pa.int64()),
    "pyarrow texts": lambda ids: pa.array([text(each) for each in ids]),
    "pyarrow bytes": lambda ids: pa.array([text(each).encode() for each in ids]),
    "pyarrow dictionary": lambda ids: pa.array(ids).dictionary_encode(),
    "polars": polars_column,
}
OF_A_COLUMN = {*WHOLE, *OF_ALL} - {"tensors", "index", "numbers of numpy", "nullable array"}

TABLE = TableCard(
    columns=(Column(name="x", kind="integer", bounds=(0, 9), bins=10),), declared_size=9, unit="person", missing_unit="own",
)  # fmt: skip
PICTURES = DataCard(shape=(1, 4, 4), classes=2, declared_size=9, unit="person", missing_unit="own")
IMAGES, LABELS = np.arange(COUNT * 16, dtype=np.uint8).reshape(COUNT, 1, 4, 4), np.arange(COUNT) % 2


class Items(torch.utils.data.Dataset[Any]):
    """A dataset of PyTorch."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        if at >= COUNT:
            raise IndexError
        return torch.from_numpy(IMAGES[at]), int(LABELS[at])


def written(path: Path, save: Callable[[Path], Any]) -> Path:
    save(path)
    return path


DATA: dict[str, tuple[TableCard | DataCard, Callable[[Path], Any]]] = {
    "frame": (TABLE, lambda _: pd.DataFrame({"x": range(COUNT)})),
    "frame with an index": (TABLE, lambda _: pd.DataFrame({"x": range(COUNT)}, index=range(COUNT, 0, -1))),
    "dict": (TABLE, lambda _: {"x": list(range(COUNT))}),
    "arrow": (TABLE, lambda _: pa.table({"x": range(COUNT)})),
    "csv": (TABLE, lambda f: written(f / "t.csv", lambda p: pd.DataFrame({"x": range(COUNT)}).to_csv(p, index=False))),
    "parquet": (TABLE, lambda f: written(f / "t.parquet", lambda p: parquet.write_table(pa.table({"x": range(COUNT)}), p))),
    "codes": (TABLE, lambda _: Table(np.arange(COUNT, dtype=np.int32)[:, None])),
    "codes with units": (TABLE, lambda _: Table(np.arange(COUNT, dtype=np.int32)[:, None], np.arange(COUNT) % 2)),
    "arrays": (PICTURES, lambda _: (IMAGES, LABELS)),
    "tensors": (PICTURES, lambda _: (torch.from_numpy(IMAGES), torch.from_numpy(LABELS))),
    "records": (PICTURES, lambda _: Records(IMAGES, LABELS)),
    "records with units": (PICTURES, lambda _: Records(IMAGES, LABELS, np.arange(COUNT) % 2)),
    "dataset": (PICTURES, lambda _: Items()),
    "npz": (PICTURES, lambda f: written(f / "a.npz", lambda p: np.savez(p, images=IMAGES, labels=LABELS))),
}  # fmt: skip


def read(data: Any, units: Any, card: TableCard | DataCard) -> RawData:
    return DataSources.of(Source(data, units=units)).read_unconfined(card)


def people(found: RawData) -> list[int]:
    """The unit of each record, numbered in the order of their first records."""
    _, first, number = np.unique(found.private.units, return_index=True, return_inverse=True)
    assert found.private.population == len(first)
    return np.argsort(np.argsort(first))[number].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", [*WHOLE, *OF_ALL])
@pytest.mark.parametrize("data", DATA)
def test_every_form_of_ids_gives_the_same_people(data: str, form: str, tmp_path: Path) -> None:
    card, source = DATA[data]
    make = {**WHOLE, **OF_ALL}[form]
    assert people(read(source(tmp_path), make(NUMBERS), card)) == PEOPLE
    if form in OF_ALL:
        found = read(source(tmp_path), make(GAPS), card)
        assert people(found) == PEOPLE_AND_GAPS
        assert "Records without an id: 2. Each counts as a unit of its own, as the card says." in found.facts.notes
        assert found.private.without_id == 2


@pytest.mark.parametrize("form", sorted(OF_A_COLUMN))
@pytest.mark.parametrize("data", ["frame", "dict", "arrow", "csv", "parquet"])
def test_a_column_of_ids_gives_the_same_people(data: str, form: str, tmp_path: Path) -> None:
    make = {**WHOLE, **OF_ALL}[form]
    for ids, expected in ((NUMBERS, PEOPLE), (GAPS, PEOPLE_AND_GAPS))[: 1 + (form in OF_ALL)]:
        column = make(ids)
        if data in ("frame", "csv"):
            table: Any = pd.DataFrame(
                {"x": range(COUNT), "id": pd.Series(unit_ids(column, "ids") if data == "csv" else column)}
            )
        elif data == "dict":
            table = {"x": list(range(COUNT)), "id": column}
        else:
            try:
                table = pa.table({"x": range(COUNT), "id": column})
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError):
                pytest.skip("pyarrow makes no column of this")
        if data == "csv":
            table.to_csv(tmp_path / "t.csv", index=False)
        elif data == "parquet":
            parquet.write_table(table, tmp_path / "t.parquet")
        found = read(tmp_path / f"t.{data}" if data in ("csv", "parquet") else table, "id", TABLE)
        assert people(found) == expected


@pytest.mark.parametrize("form", ["int64", "text array", "bytes", "floats", "float32"])
@pytest.mark.parametrize("data", [*(name for name, (card, _) in DATA.items() if card is TABLE), "npz", "npz beside"])
def test_an_array_of_an_npz_gives_the_same_people(data: str, form: str, tmp_path: Path) -> None:
    make = {**WHOLE, **OF_ALL}[form]
    for ids, expected in ((NUMBERS, PEOPLE), (GAPS, PEOPLE_AND_GAPS))[: 1 + (form in OF_ALL)]:
        np.savez(tmp_path / "ids.npz", who=make(ids))
        if data == "npz beside":
            np.savez(tmp_path / "a.npz", images=IMAGES, labels=LABELS, who=make(ids))
            found = read(tmp_path / "a.npz", ":who", PICTURES)
        else:
            card, source = DATA[data]
            found = read(source(tmp_path), f"{tmp_path}/ids.npz:who", card)
        assert people(found) == expected


def png(image: np.ndarray) -> bytes:
    Image.fromarray(image[0]).save(file := io.BytesIO(), "PNG")
    return file.getvalue()


@pytest.mark.parametrize("form", ["pyarrow", "pyarrow texts"])
def test_a_column_beside_pictures_gives_the_same_people(form: str, tmp_path: Path) -> None:
    """A missing whole number was -1, which is an id."""
    for ids, expected in ((NUMBERS, PEOPLE), (GAPS, PEOPLE_AND_GAPS)):
        table = pa.table({"image": [png(image) for image in IMAGES], "label": LABELS, "who": OF_ALL[form](ids)})
        parquet.write_table(table, tmp_path / "p.parquet")
        assert people(read(tmp_path / "p.parquet", ":who", PICTURES)) == expected


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(COUNT) % 2 == 0,
        [True, False] * 4,
        [[1]] * COUNT,
        np.arange(COUNT)[:, None],
        np.zeros(COUNT, complex),
        [np.arange(2)] * COUNT,
        np.array(["2031-12-24"] * COUNT, "M8[D]"),
        [2.0**53] * COUNT,
        [np.float32(2**24)] * COUNT,
        torch.full((COUNT,), 2.0**24),
        ["4.61169E+18"] * COUNT,
        ["null"] * COUNT,
        NUMBERS[:-1],
    ],
    ids=["truth", "truths", "lists", "matrix", "complex", "arrays", "dates", "2^53", "2^24", "tensor", "E+", "word", "few"],
)  # fmt: skip
@pytest.mark.parametrize("data", ["frame", "codes", "arrays"])
def test_what_is_no_id_is_refused(data: str, ids: Any, tmp_path: Path) -> None:
    card, source = DATA[data]
    with pytest.raises(DataError) as refused:
        read(source(tmp_path), ids, card)
    assert "4.6" not in str(refused.value) and "16777216" not in str(refused.value)


@pytest.mark.parametrize("data", ["frame", "csv", "codes"])
def test_a_patient_with_a_negative_id_moves_no_count_by_more_than_the_bound(data: str, tmp_path: Path) -> None:
    """Signed hashes of 64 bits, one patient with 100 rows. Each of these was a person: counts moved by 100."""
    rng = np.random.default_rng(0)
    ids = rng.integers(-(2**63), 2**63, 1_000)
    owners = np.concatenate([ids, np.full(99, ids[ids < 0][0])])
    rows, heavy = rng.integers(0, 10, (len(owners), 2)), ids[ids < 0][0]
    columns = tuple(Column(name=name, kind="integer", bounds=(0, 9), bins=10) for name in "ab")
    card = TableCard(columns=columns, declared_size=1_000, unit="patient", missing_unit="own")
    query = Counts([torch.arange(10)] * 2, [(0,), (1,), (0, 1)])

    def counted(which: np.ndarray) -> tuple[int, torch.Tensor]:
        frame, units = pd.DataFrame(rows[which], columns=["a", "b"]), owners[which]
        source: Any = frame
        if data == "csv":
            source, units = tmp_path / "t.csv", "id"
            frame.assign(id=owners[which]).to_csv(source, index=False)
        elif data == "codes":
            source = Table(rows[which].astype(np.int32))
        table = DataSources.of(Source(source, units=units)).read_unconfined(card).private
        return table.population, query.clipped_sum(table, Bounds(norms=(1.0,) * 3, groups=(0, 1, 2)))

    (population, whole), (less, others) = counted(np.arange(len(owners))), counted(np.flatnonzero(owners != heavy))
    assert (population, less) == (1_000, 999)
    moved = [float(part.abs().sum()) for part in (whole - others).split([10, 10, 100])]
    assert max(moved) <= 1 and min(moved) > 0.99
