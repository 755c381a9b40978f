"""Mutants: each can still be made, its tests are there, and a pattern stands where it should and nowhere else."""

import re
from pathlib import Path

import pytest

import mutants
from mutant_patterns import PatternError, parse
from mutant_source import Source, replaced

PRIVACY = mutants.PACKAGE / "privacy"
WITHOUT_RULES = {
    "accounting/event_json.py",
    "queries.py",
}
"""Their functions are covered through those that call them."""


@pytest.fixture(scope="module")
def source_of_gossamer() -> Source:
    return Source(mutants.PACKAGE)


def test_each_mutant_can_be_made_and_its_tests_are_there(source_of_gossamer: Source) -> None:
    """`python tests/mutants.py --check` says the same, and `--mend` follows what has moved."""
    assert mutants.problems(mutants.read_mutants(), source_of_gossamer) == {}


@pytest.fixture
def source(tmp_path: Path):
    """Makes a package of one module, `area/things.py`."""

    def make(text: str) -> Source:
        (tmp_path / "area").mkdir(exist_ok=True)
        (tmp_path / "area/things.py").write_text(text)
        return Source(tmp_path)

    return make


def planted(source: Source, place: str, find: str, put: str) -> str:
    to_put = parse(put) if put else None
    return replaced(source.find(place, parse(find), to_put), to_put)


CLIP = '''
def clip(rows, bound):
    """A docstring."""
    length = norm(
        rows,  # one each
        axis=1, keepdims=True,
    )
    return rows * minimum(bound / length, 1.0)
'''


@pytest.mark.parametrize(
    "find",
    [
        "bound/length",
        "(bound\n/ length)",
        "bound / ...",
        "$a / length",
    ],
)
def test_layout_does_not_matter_and_the_rest_of_the_file_stays(source, find: str) -> None:
    assert planted(source(CLIP), "clip", find, "1.0") == CLIP.replace("bound / length", "(1.0)")


@pytest.mark.parametrize(
    ("find", "put", "line"),
    [
        ("norm(rows, keepdims=True, axis=1)", "norm(rows)", "length = (norm(rows))"),
        ("norm(..., axis=1)", "norm(..., axis=0)", "length = (norm(rows, axis=0, keepdims=True))"),
        ("norm($all, ...)", "$all", "length = (rows)"),
        ("length = norm(...)", "length = 1", "length = 1"),
        ("length = ...\nreturn $sum", "return $sum", "return rows * minimum(bound / length, 1.0)"),
    ],
)
def test_wildcards_give_back_what_they_stand_for(source, find: str, put: str, line: str) -> None:
    assert f"    {line}\n" in planted(source(CLIP), "things.clip", find, put)


def test_a_name_twice_is_the_same_twice(source) -> None:
    found = source("def f(a, b):\n    return a * b + b * b\n")
    assert planted(found, "f", "$x * $x", "0").endswith("return a * b + (0)\n")


def test_a_renamed_variable_stands_for_itself(source) -> None:
    renamed = source(CLIP.replace("length", "norms"))
    assert "bound * norms" in planted(renamed, "clip", "bound / length", "bound * length")
    for find in ("bound / length * length", "other(length)", "self.length"):
        with pytest.raises(PatternError, match="does not stand in clip"):
            planted(renamed, "clip", find, "0")


def test_a_name_that_the_function_still_has_is_not_taken_for_another(source) -> None:
    found = source("def f(count, most):\n    g(count)\n    return most > 1\n")
    with pytest.raises(PatternError, match="does not stand in f"):
        planted(found, "f", "count > 1", "False")


BRANCHES = """
class Ledger:
    LIMIT = 3

    @property
    def left(self):
        return self.LIMIT

    def charge(self, cost):
        if not cost:
            return
        elif cost > self.LIMIT:
            raise ValueError(
                "too much"
            )
        for each in range(cost):
            self.write(f"{each} of {cost!r} for {self.name}")
            self.sync()


def charge(cost):
    return cost > 3
"""


@pytest.mark.parametrize(
    ("place", "find", "put", "gone", "there"),
    [
        ("Ledger.LIMIT", "3", "4", "LIMIT = 3", "    LIMIT = (4)\n"),
        ("Ledger.charge", "cost > self.LIMIT", "False", "cost > self", "        elif (False):\n"),
        (
            "Ledger.charge",
            "if cost > self.LIMIT: ...",
            "if cost > 1: ...",
            "elif cost > self",
            "        elif cost > 1:\n",
        ),
        ("Ledger.charge", "if cost > self.LIMIT: ...", "", "elif", "        else:\n            pass\n"),
        ("Ledger.charge", "raise ValueError(...)", "", "too much", "LIMIT:\n            pass\n        for"),
        ("Ledger.charge", "self.sync()", "", "sync", "            pass\n"),
        ("Ledger.charge", "self.name", "'x'", "self.name", "f\"{each} of {cost!r} for {'x'}\""),
        ("Ledger", "def left(...): ...", "", "left", "    pass\n\n    def charge"),
        ("Ledger", "def left(...): ...", "def right(...): ...", "left", "    @property\n    def right(self):\n"),
        ("charge", "cost > 3", "True", "cost > 3", "return (True)"),
        ("area.things.charge", "cost > 3", "True", "cost > 3", "return (True)"),
    ],
)
def test_each_kind_of_place(source, place: str, find: str, put: str, gone: str, there: str) -> None:
    text = planted(source(BRANCHES), place, find, put)
    assert gone not in text
    assert there in text


def test_what_cannot_be_made_says_where_its_code_is_now(source) -> None:
    found = source(BRANCHES)
    with pytest.raises(PatternError, match="it stands 2 times in Ledger: area/things, line 7, area/things, line 12"):
        found.find("Ledger", parse("$x.LIMIT"), parse("0"))
    assert found.advice("charge", parse("self.sync()"), None) == "it stands in Ledger.charge (area/things, line 18)"
    assert found.advice("charge", parse("cost > 30"), parse("0")) == "nearest, line 22: cost > 3"
    assert found.advice("chargee", parse("cost > 30"), parse("0")) == "a name like it: area.things.charge"
    with pytest.raises(PatternError, match="no Python"):
        parse("cost >")


def test_mend_writes_the_new_place(source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    entry = '["a note"]\nin = "{}"\nfind = "self.sync()"\nput = ""\ntests = "test_it.py -k synced"\n'
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/mutants.toml").write_text(entry.format("Ledger.add"))
    (tmp_path / "tests/test_it.py").write_text("def test_each_charge_is_synced(): ...\n")
    found = source(BRANCHES)
    assert list(mutants.problems(mutants.read_mutants(), found)) == ["a note"]
    assert mutants.mend(mutants.read_mutants(), found) == ["a note"]
    assert (tmp_path / "tests/mutants.toml").read_text() == entry.format("Ledger.charge")
    assert mutants.problems(mutants.read_mutants(), found) == {}
    (tmp_path / "tests/test_it.py").write_text("def test_each_charge_is_written(): ...\n")
    mutants.words_of.cache_clear()
    assert "is called synced" in mutants.problems(mutants.read_mutants(), found)["a note"]


def test_each_module_of_the_privacy_core_has_a_mutant(source_of_gossamer: Source) -> None:
    changed = {
        source_of_gossamer.find(each.place, *each.patterns).definition.file.path for each in mutants.read_mutants()
    }
    core = [file for file in source_of_gossamer.files if PRIVACY in file.path.parents and file.path not in changed]
    bare = {str(file.path.relative_to(PRIVACY)) for file in core if re.search(r"^ *def ", file.text, re.MULTILINE)}
    assert bare - WITHOUT_RULES == set()
