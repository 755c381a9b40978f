"""A few hundred damaged files of all forms; `make fuzz` reads 10,000. What counts as wrong: see `fuzz`."""

import random
import sys
from pathlib import Path

from forms import FORMS
from tables_in_forms import TABLES

sys.path.insert(0, str(Path(__file__).parent))
import fuzz


def test_damaged_files_are_read_or_refused_in_one_paragraph():
    names = list(FORMS | TABLES)
    found = fuzz.fuzz(names, 0, 3 * len(names))
    assert {name: each.wrong for name, each in found.items() if each.wrong} == {}
    counts = [each.counts for each in found.values()]
    assert all(sum(each.values()) == 3 for each in counts)
    assert sum(each["refused"] for each in counts) > 30, "damage is felt"
    assert sum(each["read"] for each in counts) > 6, "and not all of it is at the beginning"


def test_the_fuzzer_finds_what_is_wrong(monkeypatch):
    """A traceback, a second paragraph, another status, and memory that is not there."""
    assert fuzz.verdict(2, "gossamer: a.png: damaged\n") == "refused"
    assert fuzz.verdict(0, "Colour pictures were made grey.\n") == "read"
    for status, said in (
        (1, "gossamer: unexpected KeyError. Please report it; --debug shows where.\n"),
        (2, "a library speaks\ngossamer: a.png: damaged\n"),
        (2, "gossamer: a.png: cannot be read (MemoryError)\n"),
        (0, "Traceback (most recent call last):\n"),
        (-1, "main() came back"),
    ):
        assert fuzz.verdict(status, said) == "wrong", said


def test_every_file_differs_and_can_be_made_again():
    raw = bytes(range(256)) * 4
    made = [fuzz.damaged(raw, random.Random(f"png {number}")) for number in range(200)]
    assert made == [fuzz.damaged(raw, random.Random(f"png {number}")) for number in range(200)]
    assert len(set(made)) > 190
    assert raw not in made[:5]


def test_a_worker_that_hangs_or_dies_is_found(monkeypatch, tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import os, sys, time\n"
        "first = int(sys.argv[sys.argv.index('--first') + 1])\n"
        "for number in range(first, 4):\n"
        "    print('file', number, sep='\\t', flush=True)\n"
        "    if number == 1: time.sleep(60)\n"
        "    if number == 2: os.abort()\n"
        "    print('read', 'refused', 0.1, 1000, 'said', sep='\\t', flush=True)\n"
    )
    monkeypatch.setattr(fuzz, "__file__", str(worker))
    monkeypatch.setattr(fuzz, "PATIENCE", 1.0)
    found = fuzz.fuzz(["png"], 0, 4)["png"]
    assert found.wrong == [(1, "said nothing for 1 s"), (2, "the process died (-6)")]
    assert found.counts == {"refused": 2}
