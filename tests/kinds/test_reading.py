"""What each kind says of how its records are read and split."""

import numpy as np
import pytest
from PIL import Image

from gossamer.data.source import Source
from gossamer.data.split import split
from gossamer.errors import RequestError
from gossamer.kinds import all_kinds, kind_of_records

PICTURES, TABLES = all_kinds()["pictures"], all_kinds()["table"]


@pytest.fixture
def places(tmp_path):
    """A table, a folder of pictures, and pictures in arrays."""
    table, folder, arrays = tmp_path / "clinic.csv", tmp_path / "scans", tmp_path / "scans.npz"
    table.write_text("who.csv,age\n" + "".join(f"P{n},{n}\n" for n in range(60)))
    pixels = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        (folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / "ab"[number % 2] / f"{number}.png")
    np.savez(arrays, images=pixels, labels=np.arange(60) % 2)
    return table, folder, arrays


@pytest.mark.parametrize(
    ("units", "of_pictures", "of_a_table"),
    [
        (None, "none", "none"), ("who.csv", "name", "column"), ("who", "position", "column"),
        ("ids.npz:who", "position", "position"), (np.arange(3), "position", "position"),
    ],
)  # fmt: skip
def test_how_units_are_matched(units, of_pictures, of_a_table):
    """A column may be called like the CSV file that lists the units of pictures. The certificate says how it was."""
    assert (PICTURES.matched(units), TABLES.matched(units)) == (of_pictures, of_a_table)


def test_records_in_columns_name_them(places):
    table, folder, _ = (Source(str(place)) for place in places)
    assert TABLES.columns(table, name="clinic", header=None) == ["who.csv", "age"]
    assert TABLES.columns(table, name="clinic", header=False) == ["column_1", "column_2"]
    assert PICTURES.columns(folder, name="scans", header=None) == []


@pytest.mark.parametrize("at", range(3))
def test_split_writes_where_the_kind_says(places, tmp_path, at):
    in_folder = kind_of_records(places[at]).splits_into_folder(places[at])
    split(places[at], out=tmp_path / ("parts" if in_folder else "parts.npz"))
    if at:  # a table may have any name
        with pytest.raises(RequestError, match="Choose another name"):
            split(places[at], out=tmp_path / ("other.npz" if in_folder else "other"))
