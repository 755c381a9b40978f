"""Mutation tests: each mutant is put into a copy of the source, and a named test must fail. `make mutants` runs all of them.

Mutants are beside the tests, in files `mutants.toml`:

    ["a ledger may spend more than it reserved"]
    in = "PrivacyLedger.charge"                     # a function, method, class or constant below src/gossamer
    find = "cost > self.reserved[...]"              # Python, as in mutant_patterns.py; it stands there once
    put = "False"                                   # empty: the statements go
    tests = "test_ledger.py -k more_than_reserved"  # in this folder, or tests/...; at least one must fail

python tests/mutants.py            all; the table of results is in build/mutants.md
python tests/mutants.py noise      those whose name, place or file holds "noise"
python tests/mutants.py --check    seconds: which cannot be made, and where their code is now
python tests/mutants.py --mend     the same; where the code has moved and stands once, write its new place
"""

import argparse
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from mutant_patterns import Pattern, PatternError, parse
from mutant_source import Place, Source, owner, replaced

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/gossamer"
RESULTS = ROOT / "build/mutants.md"
SERVER = multiprocessing.get_context("forkserver")
LIBRARIES = ["PIL.Image", "dp_accounting", "pytest", "scipy.optimize", "scipy.stats", "sklearn.datasets", "torch"]
"""Imported once. None of them imports Gossamer, whose modules are those of the copied source."""


@dataclass(frozen=True)
class Mutant:
    """One mutant.

    Args:
        name: what is wrong, in words.
        place: the definition that it changes.
        find: a pattern that stands there once.
        put: what replaces it; empty where statements go.
        tests: pytest's arguments, as written.
        file: the `mutants.toml` that it is in.
    """

    name: str
    place: str
    find: str
    put: str
    tests: str
    file: Path

    @property
    def patterns(self) -> tuple[Pattern, Pattern | None]:
        """What to find, and what to put there.

        Raises:
            PatternError: if one of them is no Python.
        """
        return parse(self.find), parse(self.put) if self.put.strip() else None

    @cached_property
    def arguments(self) -> list[str]:
        """For pytest in the root: a file is beside this one unless it begins with tests/."""
        here = self.file.parent.relative_to(ROOT)
        return [str(here / word) if _is_file(word) else word for word in shlex.split(self.tests)]

    def planted(self, source: Source) -> tuple[Path, str]:
        """The file that it changes, below the root, and that file's text with the mutant.

        Raises:
            PatternError: if it stands nowhere or more than once.
        """
        find, put = self.patterns
        place = source.find(self.place, find, put)
        return place.definition.file.path.relative_to(ROOT), replaced(place, put)


def _is_file(word: str) -> bool:
    return re.search(r"\.py(::|$)", word) is not None and not word.startswith("tests/")


def read_mutants() -> list[Mutant]:
    """All of them, from the files beside the tests.

    Raises:
        SystemExit: if two have one name, or an entry has other keys.
    """
    mutants: dict[str, Mutant] = {}
    for file in sorted((ROOT / "tests").rglob("mutants.toml")):
        for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
            if name in mutants or set(entry) != {"in", "find", "put", "tests"}:
                raise SystemExit(f"{file.relative_to(ROOT)}: {name!r} is there twice, or is not: in, find, put, tests")
            mutants[name] = Mutant(name, entry["in"], entry["find"], entry["put"], entry["tests"], file)
    return list(mutants.values())


def chosen(word: str) -> list[Mutant]:
    """Those whose name, place or file holds a word."""
    texts = ((each, f"{each.name} {each.place} {each.file.relative_to(ROOT)}") for each in read_mutants())
    return [each for each, text in texts if word.lower() in text.lower()]


# --- check and mend -------------------------------------------------------------------------------------------------


def problems(mutants: Sequence[Mutant], source: Source) -> dict[str, str]:
    """By name, what is wrong with those that cannot be made or whose tests are not there."""
    found = {}
    for each in mutants:
        try:
            path, text = each.planted(source)
        except PatternError as error:
            advice = _advice(each, source)
            found[each.name] = f"{error}\n    {advice}" if advice else str(error)
            continue
        if text == (ROOT / path).read_text(encoding="utf-8"):
            found[each.name] = f"it changes nothing in {each.place}"
        elif missing := missing_tests(each):
            found[each.name] = missing
    return found


def _advice(mutant: Mutant, source: Source) -> str:
    try:
        return source.advice(mutant.place, *mutant.patterns)
    except PatternError:
        return ""


def missing_tests(mutant: Mutant) -> str:
    """What is wrong with the tests of a mutant: a file that is not there, or a name that no test in it has."""
    words = iter(mutant.arguments)
    files, parts = [], []
    for word in words:
        if word == "-k":
            parts += re.findall(r"\w+", re.sub(r"\b(and|or|not)\b", "", next(words)))
        else:
            file, _, test = word.partition("::")
            files.append(file)
            parts += [part.split("[")[0] for part in test.split("::") if part]
    if absent := [file for file in files if not (ROOT / file).exists()]:
        return f"no file {absent[0]}"
    text = "\n".join(words_of(ROOT / file) for file in files)
    if absent := [part for part in parts if part.lower() not in text]:
        return f"no test in {' or '.join(files)} is called {absent[0]}"
    return ""


@cache
def words_of(path: Path) -> str:
    """All words of a file of tests, or of a folder of them: names of tests and of their cases."""
    paths = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return "\n".join(each.read_text(encoding="utf-8") for each in paths).lower()


def mend(mutants: Sequence[Mutant], source: Source) -> list[str]:
    """Write the new place of code that has moved. Returns the names of what was written."""
    mended = []
    for each in mutants:
        try:
            each.planted(source)
        except PatternError:
            places = _elsewhere(each, source)
            if len(places) == 1:
                _write_place(each, source.short(owner(places[0])))
                mended.append(each.name)
    return mended


def _elsewhere(mutant: Mutant, source: Source) -> list[Place]:
    try:
        return source.elsewhere(*mutant.patterns)
    except PatternError:
        return []


def _write_place(mutant: Mutant, place: str) -> None:
    lines = mutant.file.read_text(encoding="utf-8").split("\n")
    starts = [
        at for at, line in enumerate(lines) if re.match(r"""\[["']""", line) and mutant.name in tomllib.loads(line)
    ]
    at = next(at for at in range(starts[0], len(lines)) if lines[at].startswith("in = "))
    lines[at] = f'in = "{place}"'
    mutant.file.write_text("\n".join(lines), encoding="utf-8")


# --- run ------------------------------------------------------------------------------------------------------------


def plant(mutant: Mutant, source: Source, folder: Path) -> Path:
    """A copy of the source, and of the benchmarks, with the mutant in it. Compiled files of the other modules stay valid."""
    skipped = shutil.ignore_patterns("*.egg-info", "cells", "results")
    for part in ("src", "benchmarks"):
        shutil.copytree(ROOT / part, folder / part, ignore=skipped)
    path, text = mutant.planted(source)
    compile(text, str(path), "exec")
    (folder / path).write_text(text, encoding="utf-8")
    return folder


def caught(mutant: Mutant, source: Source) -> tuple[bool, str]:
    """Whether a test fails, and which; a mutant that breaks the collection does not count as caught."""
    with tempfile.TemporaryDirectory() as folder:
        root = plant(mutant, source, Path(folder))
        status, failed, last = run_tests(root, ["-x", *mutant.arguments])
    return status == 1 and bool(failed), failed[0] if failed else last


def run_tests(root: Path, arguments: list[str]) -> tuple[int | None, list[str], str]:
    """Run pytest on the source below `root`, in a fork of a process that has imported the libraries: this halves the time.

    Returns:
        pytest's exit status, the tests that failed, and the last line of its output.
    """
    with tempfile.NamedTemporaryFile("r") as output:
        child = SERVER.Process(target=_pytest, args=(str(root), arguments, output.name))
        child.start()
        child.join()
        lines = output.read().splitlines()
    failed = [line.removeprefix("FAILED ").split(" - ")[0] for line in lines if line.startswith("FAILED ")]
    return child.exitcode, failed, next((line for line in reversed(lines) if line.strip()), "no output")


def _pytest(root: str, arguments: list[str], output: str) -> None:
    """In the fork: run the tests on the source below `root`, here and in processes of the tests."""
    file = os.open(output, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(ROOT)
    os.environ |= {"PYTHONPATH": f"{root}/src", "OMP_NUM_THREADS": "1"}
    sys.path.insert(0, f"{root}/src")
    path = f"pythonpath=tests/fixtures tests/fixtures/plugin_package/src {root}"
    options = ["-o", path, "-p", "no:cacheprovider", "--no-header", "--tb=no", "-rf"]
    options += ["-m", "not gpu and not browser"]  # slow ones too: a mutant may be seen there alone
    os._exit(pytest.main([*options, *arguments]))


def compile_all(files: Sequence[str]) -> None:
    """Import source and tests once, so that Python keeps them compiled: this halves the time again."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)


def run(mutants: Sequence[Mutant], source: Source, jobs: int) -> Iterator[tuple[Mutant, bool, str]]:
    """Run each; yield whether it was caught, and by which test."""
    os.environ["OMP_NUM_THREADS"] = "1"
    compile_all(sorted({word.partition("::")[0] for each in mutants for word in each.arguments if ".py" in word}))
    SERVER.set_forkserver_preload(LIBRARIES)
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda each: caught(each, source), mutants)
        yield from ((each, *result) for each, result in zip(mutants, results, strict=True))


def main() -> None:
    """Run them and write the table; exit status 1 if one is not caught, or its test fails without the mutant too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only mutants whose name, place or file holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="run nothing; list those that cannot be made")
    parser.add_argument("--mend", action="store_true", help="write the new place of code that has moved; then check")
    arguments = parser.parse_args()
    source = Source(PACKAGE)
    mutants = chosen(arguments.pattern)
    if arguments.mend:
        for name in mend(mutants, source):
            print(f"mended: {name}")
        mutants = chosen(arguments.pattern)
    wrong = problems(mutants, source)
    for each in mutants:
        if each.name in wrong:
            print(f"{each.file.relative_to(ROOT)}: {each.name}\n    {wrong[each.name]}")
    print(f"{len(mutants) - len(wrong)} of {len(mutants)} mutants can be made")
    if wrong or arguments.check or arguments.mend:
        sys.exit(bool(wrong))
    results = []
    for each, found, by in run(mutants, source, arguments.jobs):
        results.append((each, found, by))
        print(f"{len(results)} of {len(mutants)}: {each.name}: {by if found else f'NOT CAUGHT ({by})'}", flush=True)
    tests = sorted({by for _, found, by in results if found})
    _, failed, last = run_tests(ROOT, tests) if tests else (0, [], "")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(as_markdown(results), encoding="utf-8")
    missed = sum(not found for _, found, _ in results)
    print(f"{len(results) - missed} of {len(results)} caught. Their tests, without a mutant: {last}")
    print(f"Tables: {RESULTS.relative_to(ROOT)}")
    sys.exit(missed > 0 or bool(failed))


def as_markdown(results: Sequence[tuple[Mutant, bool, str]]) -> str:
    """Two tables: how many of each folder were caught, and each mutant with the test that caught it."""
    folders: dict[str, list[bool]] = {}
    rows = ["| mutant | in | caught by |", "|---|---|---|"]
    for each, found, by in results:
        folders.setdefault(str(each.file.parent.relative_to(ROOT)), []).append(found)
        rows.append(f"| {each.name} | `{each.place}` | {f'`{by}`' if found else f'**nothing** ({by})'} |")
    counts = [f"| `{folder}` | {len(found)} | {sum(found)} |" for folder, found in folders.items()]
    return "\n".join(["| folder | mutants | caught |", "|---|---|---|", *counts, "", *rows, ""])


if __name__ == "__main__":
    main()
