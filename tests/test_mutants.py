"""The table of mutants: each can still be made, and the tests that must catch it are there."""

import dataclasses
import re
from collections import Counter
from functools import cache
from pathlib import Path

from mutants import MUTANTS, ROOT, caught_last


def test_each_mutant_can_be_made_in_one_place() -> None:
    source = cache(Path.read_text)
    found = {each.name: source(ROOT / each.path).count(each.old) for each in MUTANTS}
    assert {name: count for name, count in found.items() if count != 1} == {}
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []


def test_the_tests_that_catch_them_are_there() -> None:
    """A test that got another name would run nothing; the campaign says so an hour later."""
    missing = [
        (each.name, word)
        for each in MUTANTS
        for word in each.tests.split()
        if "::" in word and not _defined(*word.split("::", 1))
    ]
    assert missing == []


def _defined(file: str, name: str) -> bool:
    last = name.split("[", maxsplit=1)[0].rsplit("::", maxsplit=1)[-1]
    return re.search(rf"(def|class) {re.escape(last)}\b", Path(ROOT / file).read_text()) is not None


def test_a_mutant_that_is_newer_than_the_last_whole_run_has_no_test_that_comes_first() -> None:
    newer = dataclasses.replace(MUTANTS[0], name="a mutant of tomorrow")
    assert caught_last(newer) == []
    known = [caught_last(each) for each in MUTANTS]
    assert sum(map(bool, known)) > 800
    assert all("::" in test for tests in known for test in tests)
