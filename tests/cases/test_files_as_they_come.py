"""Files as people have them: kinds K7, K9 and K15 of public bug reports, and what was said of lines and endings."""

import io
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from stories import as_drafted, run

import gossamer
from gossamer.data.tables.read import read_table
from gossamer.errors import GossamerError

N = 300
DRAW = np.random.default_rng(15)
PEOPLE = pd.DataFrame({
    "height": DRAW.integers(150, 200, N),
    "blood": DRAW.choice(["A", "B", "AB", "0"], N),
    "spent": np.round(DRAW.uniform(1, 500, N), 2),
})  # fmt: skip
CARD = gossamer.TableCard.loads("""
declared_size = 300
[[column]]
name = "height"
kind = "integer"
bounds = [150, 199]
bins = 50
[[column]]
name = "blood"
kind = "category"
values = ["A", "B", "AB", "0"]
[[column]]
name = "spent"
kind = "number"
bounds = [0, 500]
""")


def test_a_file_without_names_is_not_believed(gossamer, tmp_path):
    """K7: the first person's values would be the public names of the columns."""
    PEOPLE.to_csv(tmp_path / "t.csv", index=False, header=False)
    answer = gossamer("card", tmp_path / "t.csv")
    assert answer.status == 2 and "--no-header" in answer.err
    first = [str(value) for value in PEOPLE.iloc[0]]
    assert not any(value in answer.err for value in first if len(value) > 2)


@pytest.mark.parametrize("above", ["sep=;\n", "Patients of ward 7\n", "Exported on Monday\n\n", "\n\n"])
def test_lines_above_the_names_are_passed_over_or_named(gossamer, tmp_path, above):
    """K7: what Excel and people write above a table. It is never a table without rows."""
    (tmp_path / "t.csv").write_text(above + PEOPLE.to_csv(index=False, sep=";"))
    answer = gossamer("card", tmp_path / "t.csv")
    assert "no rows" not in answer.err
    if answer.status:
        assert "line 1" in answer.err or "first line" in answer.err
    else:
        assert 'name = "height"' in answer.out and 'name = "blood"' in answer.out


@pytest.mark.parametrize("extra", [",more", ",1,2"])
def test_lines_with_other_numbers_of_values_are_counted(gossamer, tmp_path, extra):
    """K7: 280 of 300 lines are longer than the first. The draft said nothing, and passed over them."""
    lines = PEOPLE.to_csv(index=False).splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines[:21], *(line + extra for line in lines[21:])]) + "\n")
    answer = gossamer("card", tmp_path / "t.csv")
    assert answer.status == 2 or "280" in answer.err, answer.err
    assert "20" in answer.err, "the first of these rows"


def test_a_second_header_is_named(gossamer, tmp_path):
    """K4 and K7: two exports that were joined."""
    text = PEOPLE.to_csv(index=False)
    (tmp_path / "t.csv").write_text(text + text)
    answer = gossamer("card", tmp_path / "t.csv")
    assert str(N) in answer.err + answer.out
    assert answer.status == 2 or 'kind = "integer"' in answer.out, "height is a number all the same"
    assert not any(row in answer.err for row in text.splitlines()[1:20])


def test_a_cell_of_a_hundred_thousand_letters_is_read(gossamer, tmp_path):
    """K7: it was called a quote that is not closed."""
    frame = PEOPLE.assign(genome="")
    frame.loc[17, "genome"] = "ACGT" * 40_000
    frame.to_csv(tmp_path / "t.csv", index=False)
    answer = gossamer("card", tmp_path / "t.csv")
    assert answer.status == 0 and "quote" not in answer.err, answer.err
    assert "ACGT" not in answer.err
    assert len(read_table(tmp_path / "t.csv", CARD)) == N


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("a line break in a value", [["yes", "no\nnever"][n % 2] for n in range(N)]),
        ("space around a value", [[" yes", "no "][n % 2] for n in range(N)]),
        ("a tab in a value", [["yes", "no\tnever"][n % 2] for n in range(N)]),
        ("numbers beyond 2^53", [2**61 + 7 * (n % 5) for n in range(N)]),
        ("a number of 400 digits", ["9" * 400 if n == 4 else str(n % 50) for n in range(N)]),
        ("an empty column", [""] * N),
        ("accents in two forms", [["caf\u00e9", "cafe\u0301", "tea"][n % 3] for n in range(N)]),
        ("one value", ["x"] * N),
    ],
)
def test_the_draft_never_proposes_what_the_card_or_the_run_refuses(tell, name, column):
    """K9: a draft that is used as it is can be learnt from."""
    told = tell(PEOPLE.assign(odd=column))
    assert told.status == 0, f"{name}: {told.said}"
    assert {"height", "blood", "spent"} <= {*told.samples}


def test_codes_that_come_late_in_the_file_are_seen(tell):
    """K9: after row 25,000 the codes have a zero in front. The draft is from all rows."""
    codes = ["20095", "80331"] * 12_600 + ["01067", "04103"] * 400
    told = tell(pd.DataFrame({"plz": codes, "x": ["a", "b", "c", "d"] * 6_500}))
    assert told.status == 0 and set(told.samples["plz"]) <= {*codes}
    assert told.columns["plz"] == {"name": "plz", "kind": "category", "values": ["01067", "04103", "20095", "80331"]}


def test_a_table_of_too_many_columns_is_said_by_the_draft(gossamer, tmp_path):
    """K9: `plan` refused it, after the user had gone through the draft."""
    wide = pd.DataFrame(DRAW.integers(0, 4, (60, 230)), columns=[f"c{n}" for n in range(230)])
    wide.to_csv(tmp_path / "t.csv", index=False)
    answer = gossamer("card", tmp_path / "t.csv")
    assert "200" in answer.err, answer.err


def test_a_digest_is_a_column_and_no_picture(tell, tmp_path):
    """K15: one binary column made pictures of a whole table."""
    table = pa.Table.from_pandas(PEOPLE).append_column("sha", pa.array([bytes([n % 256] * 20) for n in range(N)]))
    parquet.write_table(table, tmp_path / "t.parquet")
    told = tell(tmp_path / "t.parquet")
    assert told.status == 0, told.said
    assert "sha" in told.facts["drop"] and {"height", "blood", "spent"} == {*told.samples}


def test_lists_and_structs_are_named_and_left_out(tell, tmp_path):
    table = pa.Table.from_pandas(PEOPLE)
    table = table.append_column("tags", pa.array([["a"] * (n % 3) for n in range(N)]))
    table = table.append_column("place", pa.array([{"x": n, "y": 1} for n in range(N)]))
    parquet.write_table(table, tmp_path / "t.parquet")
    told = tell(tmp_path / "t.parquet")
    assert told.status == 0, told.said
    assert {"tags", "place"} == {*told.facts["drop"]}
    card = gossamer.TableCard.loads(as_drafted(told.text)).with_column("tags", kind="category", values=("a",))
    with pytest.raises(GossamerError, match="column 'tags'"):
        read_table(tmp_path / "t.parquet", card)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_folder_of_parts_is_one_table(tell, tmp_path, suffix):
    """K15: what Spark writes."""
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "_SUCCESS").touch()
    for at in range(3):
        part = PEOPLE[at::3]
        path = tmp_path / "people" / f"part-0000{at}-c000.{suffix}"
        part.to_parquet(path) if suffix == "parquet" else part.to_csv(path, index=False)
    told = tell(tmp_path / "people")
    assert told.status == 0, told.said
    assert told.facts["declared_size"] == N and {*told.samples} == {*PEOPLE}


def test_a_part_without_a_value_has_no_type_for_it(tmp_path):
    """pandas writes a column of None as one of type null."""
    (tmp_path / "people").mkdir()
    for name, part in {
        "a": PEOPLE[:90].assign(blood=None),
        "b": PEOPLE[90:200],
        "c": PEOPLE[200:].assign(blood=None),
    }.items():
        part.to_parquet(tmp_path / "people" / f"{name}.parquet")
    missing = CARD.with_column("blood", missing=True)
    codes = read_table(tmp_path / "people", missing).codes
    expected = read_table(PEOPLE, missing).codes.copy()
    expected[:90, 1] = expected[200:, 1] = missing.columns[1].missing_code
    assert np.array_equal(codes, expected)
    PEOPLE[:90].assign(blood=1).to_parquet(tmp_path / "people" / "d.parquet")
    with pytest.raises(GossamerError, match=r"d\.parquet: columns of this part have other types"):
        read_table(tmp_path / "people", missing)


def test_every_form_of_a_table_is_read_to_the_same_codes(tmp_path):
    """K15 and point 1: files of all endings, and objects in memory."""
    text = PEOPLE.to_csv(index=False)
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.tsv").write_text(PEOPLE.to_csv(index=False, sep="\t"))
    PEOPLE.to_csv(tmp_path / "t.csv.gz", index=False)
    PEOPLE.to_parquet(tmp_path / "t.parquet")
    with pa.ipc.new_file(tmp_path / "t.arrow", pa.Schema.from_pandas(PEOPLE)) as file:
        file.write(pa.Table.from_pandas(PEOPLE))
    PEOPLE.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    PEOPLE.to_excel(tmp_path / "t.xlsx", index=False)
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        PEOPLE.to_sql("people", connection, index=False)
    connection.close()
    first = read_table(tmp_path / "t.csv", CARD)
    heights = PEOPLE["height"].to_numpy() - 150
    np.testing.assert_array_equal(first.codes[:, 0], heights)
    for path in sorted(tmp_path.glob("t.*")):
        table = read_table(path, CARD)
        np.testing.assert_array_equal(table.codes, first.codes, err_msg=path.name)
        assert table.mark == first.mark, path.name


@pytest.mark.parametrize("name", ["people.cvs", "people.tvs", "people.sas7bdat", "people.mat", "people.npy"])
def test_an_ending_that_is_not_read_is_answered_with_those_of_tables(gossamer, tmp_path, name):
    """Row 114: the message named picture files only."""
    if name != "people.cvs":
        (tmp_path / name).write_bytes(b"\x00\x01binary")
    answer = gossamer("card", tmp_path / name)
    assert answer.status == 2 and ".csv" in answer.err and ".parquet" in answer.err, answer.err
    readers = {"people.mat": "`scipy.io.loadmat`", "people.npy": "`numpy.load`"}
    assert readers.get(name, "") in answer.err and ("Did you mean" in answer.err) == (name == "people.tvs")


def test_a_card_with_a_misspelt_entry_is_one_of_a_table(gossamer, tmp_path):
    """Row 115."""
    (tmp_path / "c.toml").write_text(CARD.dumps().replace("[[column]]", "[[columns]]"))
    answer = gossamer("plan", "marginals", "--card", tmp_path / "c.toml", "--epsilon", 1, "--delta", 1e-5)
    assert answer.status == 2 and "no entry 'columns'. Did you mean 'column'?" in answer.err


def test_compressed_and_misnamed_files_are_read_or_called_what_they_are(gossamer, tmp_path):
    """Row 55: gzip with the ending of plain text, and tabs in a .txt."""
    stream = io.BytesIO()
    PEOPLE.to_csv(stream, index=False, compression="gzip")
    (tmp_path / "t.csv").write_bytes(stream.getvalue())
    (tmp_path / "t.txt").write_text(PEOPLE.to_csv(index=False, sep="\t"))
    for name, words in {"t.csv": ("gzip", "compressed"), "t.txt": (".tsv", ".csv")}.items():
        answer = gossamer("card", tmp_path / name)
        if answer.status == 0:
            assert 'name = "blood"' in answer.out
        else:
            assert any(word in answer.err for word in words), answer.err
            assert "UTF-16" not in answer.err


@pytest.fixture
def album(tmp_path):
    """Pictures of two classes beside a list that is called like a table."""
    folder = tmp_path / "album"
    folder.mkdir()
    for n in range(40):
        Image.fromarray(DRAW.integers(0, 255, (28, 28), np.uint8)).save(folder / f"{n:02}.png")
    lines = "".join(f"{n:02}.png,{['cup', 'jar'][n % 2]}\n" for n in range(40))
    (folder / "train.csv").write_text("file_name,label\n" + lines)
    return folder


def test_pictures_with_a_list_called_train_are_pictures_or_a_question(album):
    """K15: it was read as a table with a column of file names."""
    status, out, err = run("card", album)
    if status == 0:
        assert "shape = [1, 28, 28]" in out and 'class_names = ["cup", "jar"]' in out
    else:
        assert "train.csv" in err and "picture" in err
