"""A draft and a split find how tables are linked by the names of columns and by their values, and say what does not fit."""

import csv
from pathlib import Path

import pytest

import gossamer
from gossamer.data.split import split
from gossamer.data.tables.linked.draft import draft_linked_card
from gossamer.errors import RequestError

PERSONS = 40
VISITS = [who for who in range(PERSONS) for _ in range(who % 4)]


def drafted(folder: Path, key: str, column: str, *, lost: int = 0) -> tuple[str, list[str]]:
    """A draft for persons with a key and visits with a column that refers to it, some of them of nobody."""
    rows = [f"{who},{1950 + who % 30}" for who in range(PERSONS)]
    (folder / "patients.csv").write_text("\n".join([f"{key},born", *rows]) + "\n")
    whose = [*VISITS[lost:], *range(9_000, 9_000 + lost)]
    rows = [f"{who},2020-01-{1 + at % 28:02}" for at, who in enumerate(whose)]
    (folder / "visits.csv").write_text("\n".join([f"{column},day", *rows]) + "\n")
    return draft_linked_card({name: folder / f"{name}.csv" for name in ("patients", "visits")})


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("id", "id"),
        ("id", "patient_id"),
        ("id", "pid"),
        ("ID", "PatientID"),
        ("patient_no", "patient"),
        ("id", "patient"),
    ],
)
def test_finds_a_key_of_another_name(tmp_path: Path, key: str, column: str) -> None:
    text, hints = drafted(tmp_path, key, column)
    for line in (
        f'key = "{key}"',
        'parent = "patients"',
        f'parent_key = "{column}"',
        'order = "day"',
        "declared_size = 40",
    ):
        assert f"\n{line}\n" in text
    assert f'name = "{column}"' not in text
    assert text.endswith("\n")
    assert not any("no row of patients" in hint or "identifiers" in hint for hint in hints)
    assert len(hints) == len(set(hints))


@pytest.mark.parametrize("column", ["born", "paid_to", "whose", "kidney"])
def test_a_column_of_no_related_name_is_no_key(tmp_path: Path, column: str) -> None:
    text, hints = drafted(tmp_path, "id", column)
    assert "parent =" not in text
    assert "2 tables have no parent" in hints[0]
    assert "declared_size = 40" in text


def test_says_how_many_rows_have_no_parent(tmp_path: Path) -> None:
    text, hints = drafted(tmp_path, "id", "patient_id", lost=3)
    assert 'parent = "patients"' in text
    assert any("visits: 3 rows have a 'patient_id' that no row of patients has" in hint for hint in hints)


def test_another_column_with_half_of_the_keys_is_no_link(tmp_path: Path) -> None:
    text, _ = drafted(tmp_path, "id", "patient_id", lost=len(VISITS) // 2)
    assert "parent =" not in text


def three_levels(folder: Path) -> None:
    """Persons with visits, and visits with drugs, which name no person."""
    drafted(folder, "id", "patient_id")
    first, *others = (folder / "visits.csv").read_text().splitlines()
    rows = [f"visit_id,{first}", *(f"{at},{row}" for at, row in enumerate(others))]
    (folder / "visits.csv").write_text("\n".join(rows))
    (folder / "drugs.csv").write_text("\n".join(["visit,name", *(f"{at // 2},{'abc'[at % 3]}" for at in range(50))]))


def test_the_middle_of_three_tables_has_both_keys(tmp_path: Path) -> None:
    three_levels(tmp_path)
    text = gossamer.draft_card(tmp_path).text
    visits_part = text[text.index("[table.visits]") :]
    for line in ('key = "visit_id"', 'parent = "patients"', 'parent_key = "patient_id"'):
        assert line in visits_part[: visits_part.index("[[")]
    drugs = text[text.index("[table.drugs]") :]
    assert 'parent = "visits"\nparent_key = "visit"' in drugs


def column(file: Path, name: str) -> list[str]:
    return [row[name] for row in csv.DictReader(file.read_text().splitlines())]


def test_a_split_keeps_all_rows_of_a_person_on_one_side(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    three_levels(tmp_path / "all")
    split(tmp_path / "all", out=tmp_path / "parts", share=0.4)
    rows = dict.fromkeys(("patients", "visits", "drugs"), 0)
    for side in ("train", "test"):
        files = {name: tmp_path / "parts" / side / f"{name}.csv" for name in rows}
        assert {*column(files["visits"], "patient_id")} <= {*column(files["patients"], "id")}
        assert {*column(files["drugs"], "visit")} <= {*column(files["visits"], "visit_id")}
        for name, file in files.items():
            found = len(file.read_text().splitlines()) - 1
            assert found > 0
            rows[name] += found
    assert rows == {"patients": PERSONS, "visits": len(VISITS), "drugs": 50}


def test_a_split_follows_keys_over_any_number_of_levels(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    three_levels(tmp_path / "all")
    first, *others = (tmp_path / "all" / "drugs.csv").read_text().splitlines()
    rows = [f"drug_id,{first}", *(f"d{at},{row}" for at, row in enumerate(others))]
    (tmp_path / "all" / "drugs.csv").write_text("\n".join(rows))
    (tmp_path / "all" / "doses.csv").write_text("\n".join(["drug,dose", *(f"d{at // 2},1" for at in range(100))]))
    split(tmp_path / "all", out=tmp_path / "parts", share=0.4)
    for side in ("train", "test"):
        folder = tmp_path / "parts" / side
        assert {*column(folder / "doses.csv", "drug")} == {*column(folder / "drugs.csv", "drug_id")}


def test_a_split_of_tables_that_are_not_linked_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    drafted(tmp_path / "all", "id", "whose")
    with pytest.raises(RequestError, match="patients and visits: one table must have no parent"):
        split(tmp_path / "all", out=tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_a_dictionary_of_one_table_is_refused(tmp_path: Path) -> None:
    drafted(tmp_path, "id", "patient_id")
    with pytest.raises(RequestError, match="`dictionary` describes one table"):
        gossamer.draft_card(tmp_path, dictionary=tmp_path / "patients.csv")
