"""Text files: what is read as it is written, and what is refused by line or row, without a value."""

from pathlib import Path
from typing import Any

import pytest

from gossamer.data.sources import text_file
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.text_file import LATIN, open_text
from gossamer.errors import DataError

SECRET = "Frau-Krause-77"


def found(path: Path, content: str | bytes, **options: Any) -> tuple[list[int], list[list[str]]]:
    """The numbers of the rows, and the texts of each column."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    relation = open_text(path, **options)
    numbers: list[int] = []
    columns: list[list[str]] = [[] for _ in relation.names]
    for rows, block in relation.blocks([*range(len(relation.names))]):
        numbers += rows.tolist()
        for at, cells in enumerate(block):
            columns[at] += cells.to_pylist()
    return numbers, columns


@pytest.fixture(params=[1 << 20, 7])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is read at once, and in pieces of a few bytes."""
    monkeypatch.setattr(text_file, "_CHUNK", request.param)
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("id,code\n007,5E3\n0x1F, 7_5\n", [["007", "0x1F"], ["5E3", " 7_5"]]),
        ("a,b\nNA,null\n,None\n", [["NA", ""], ["null", "None"]]),
        ('a,b\n"",x\n"NA",y\n', [["", "NA"], ["x", "y"]]),
        ('a,b\n"line\none",x\n"2\r\n3",y\n', [["line\none", "2\r\n3"], ["x", "y"]]),
        ('a,b\n5" pipe,6"\n', [['5" pipe'], ['6"']]),
        ('a, b\n1, "x, ""y"""\n2,  "z"\n', [["1", "2"], ['x, "y"', "z"]]),
        ("a,b\n1,2,\n3,4,,\n5,6\n", [["1", "3", "5"], ["2", "4", "6"]]),
        ("sep=;\na;b\n1,5;2\n", [["1,5"], ["2"]]),
        ("SEP=\t\r\na\tb\r\n1\t2\r\n", [["1"], ["2"]]),
        ("a,b\n\n1,2\n\n\n3,4\n\n", [["1", "3"], ["2", "4"]]),
        ('a\nx\n""\n\ny\n', [["x", "", "y"]]),
    ],
    ids=["codes", "words for missing", "quoted", "line ends in values", "inches", "space before a quote", "trailing", "sep",
         "sep tab", "blank lines", "one column"],
)  # fmt: skip
def test_cells_are_texts_as_they_are_written(path: Path, content: str, columns: list[list[str]]) -> None:
    assert found(path, content) == ([*range(len(columns[0]))], columns)


def test_a_cell_may_have_two_hundred_thousand_letters(path: Path) -> None:
    for cell in ("ACGT" * 50_000, '"' + "AC,T" * 50_000 + '"'):
        assert found(path, f"id,sequence\n1,{cell}\n")[1][1] == [cell.strip('"')]


def test_each_line_is_decoded_by_itself(path: Path) -> None:
    assert found(path, b"a\nK\xf6ln\nK\xc3\xb6ln\n\x80uro\n") == ([0, 1, 2], [["Köln", "Köln", "€uro"]])
    relation = open_text(path)
    assert relation.notes == set()
    _ = [*relation.blocks([0])]
    assert relation.notes == {LATIN}
    for encoding in ("utf-16", "utf-8-sig"):
        assert found(path, "a,b\nKöln,1\n".encode(encoding)) == ([0], [["Köln"], ["1"]])


def test_ragged_rows_are_counted_and_others_keep_their_numbers(path: Path) -> None:
    content = "a,b\n1\n2,3\n4,5,6\n\n7,8\n9,10,11\n"
    assert found(path, content) == ([1, 3], [["2", "7"], ["3", "8"]])
    relation = open_text(path)
    for _ in range(2):
        assert [numbers.tolist() for numbers, _ in relation.blocks([0])]
        assert relation.ragged == [0, 2, 4], "each pass counts anew"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f'a,b\n1,"{SECRET}\n2,y\n', "a quote after line 1 is not closed"),
        (f'a,b\n1,"{SECRET}\n2,"y\n3,z\n', "a quote after line 1 is not closed"),
        (f'a,b\n1,x\n2,"{SECRET}"y\n', "a quote after line 2 is not closed, or stands inside a value"),
        (f"a,b\n1,x\n2,{SECRET}\0\n", "line 3 holds a NUL byte"),
        (f"Report of {SECRET}\n\nage,town,dose\n31,Bonn,1\n8,Ulm,2\n", "line 1 has 1 name, and line 3 has 3 values"),
        (f"Report\nage;town\n31;{SECRET}\n", "line 1 has 1 name, and line 2 has 2 values. Delete the title"),
        (f"age,town\n31,Bonn\n7,{SECRET}\nage, town\n", r"row 2 \(counted from 0\) holds the names of the columns again"),
        (f'age,"town\n31,{SECRET}"\n', "a quote in the first line is not closed there"),
    ],
    ids=["open quote", "two open quotes", "quote in a value", "nul", "title", "title, semicolons", "two files", "open name"],
)  # fmt: skip
def test_what_is_unsound_is_refused_by_line_or_row(path: Path, content: str, says: str) -> None:
    path.write_text(content)
    with pytest.raises(DataError, match=says) as refused:
        for _ in open_table(path, split="train", where=str(path)).blocks([0, 1]):
            pass
    assert SECRET not in str(refused.value)


def test_a_column_of_texts_with_delimiters_is_no_title_if_someone_says_so(path: Path) -> None:
    content = "genres\nDrama|War\nCrime|Drama\n"
    path.write_text(content)
    with pytest.raises(DataError, match="If the first line names the only column, add `header=True`"):
        open_table(path, split="train", where="t")
    assert found(path, content) == ([0, 1], [["Drama|War", "Crime|Drama"]])
    assert open_table(path, split="train", where="t", wanted=["genres"]).names == ["genres"]


def test_one_row_of_names_is_a_value_where_a_column_is_read_alone(path: Path) -> None:
    path.write_text("died,n\nsurvived,1\ndied,2\n")
    assert [column.to_pylist() for _, (column,) in open_text(path).blocks([0])]


def test_a_compressed_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    import gzip

    raw = gzip.compress("".join(f"{n},{n * 7919}\n" for n in range(20_000)).encode())
    (tmp_path / "t.csv.gz").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match="it is cut or damaged"):
        for _ in open_text(tmp_path / "t.csv.gz").blocks([0]):
            pass
