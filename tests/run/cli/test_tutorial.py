"""docs/tutorial.md, -table.md and -linked.md, run as they stand: every command, and every message that they quote.

How a quoted message is compared: numbers may differ (each becomes #), any run of spaces counts as one, /home/you stands for the
folder in which the commands are run, and a line `...` for any number of lines. All else must be the real line, in the real
order. `python tests/run/cli/test_tutorial.py` prints what is said today.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.read import read_linked
from gossamer.data.tables.read import read_table
from gossamer.run.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
PAGE, PAGE_OF_TABLES, PAGE_OF_LINKED = (ROOT / "docs" / f"tutorial{name}.md" for name in ("", "-table", "-linked"))
BLOCK = re.compile(r"^```sh\n(.*?)^```\n^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DECLARED = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


def draw(folder: Path) -> None:
    """Discs and crosses: 200 pictures to train on, 100 for tests."""
    stream = np.random.default_rng(0)
    down, right = np.mgrid[:28, :28] - 13.5
    for split, count in (("train", 100), ("test", 50)):
        for name in ("benign", "malignant"):
            place = folder / split / name
            place.mkdir(parents=True)
            for number in range(count):
                y, x = down - stream.normal(0, 2), right - stream.normal(0, 2)
                shape = np.hypot(y, x) < 6 if name == "benign" else np.minimum(abs(y), abs(x)) < 2
                pixels = np.clip(200 * shape + stream.normal(20, 10, (28, 28)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"{number:04}.png")


def said(command: str) -> str:
    """What a command says on a terminal."""
    heard = io.StringIO()
    program, *words = shlex.split(command)
    assert program == "gossamer"
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), contextlib.suppress(SystemExit):
        main(words)
    return heard.getvalue().replace(str(Path.cwd()), "/home/you")


def plain(line: str) -> str:
    return " ".join(NUMBER.sub("#", line).split())


def missing(quoted: list[str], real: list[str]) -> str:
    """The first quoted line that is not where it should be; empty: all are, and no line is left over."""
    place, free = 0, False
    for line in quoted:
        if line == "...":
            free = True
            continue
        found = next((at for at in range(place, len(real)) if plain(real[at]) == plain(line)), None)
        if found is None or (found > place and not free):
            return line
        place, free = found + 1, False
    return "" if free or place == len(real) else f"nothing quoted for: {real[place]}"


def edited(draft: str, blocks: list[str]) -> str:
    """The card of the tutorial with a table, after what the reader does by hand. blocks: facts, and the entry of a column."""
    facts, (entry,) = tomllib.loads(blocks[0]), blocks[1:]
    for key, value in facts.items():
        draft, count = re.subn(f"^{key} = .*$", f'{key} = "{value}"', draft, flags=re.MULTILINE)
        assert count == 1, key
    for name in ("weight_kg", "temperature", "glucose"):
        kind = f'name = "{name}"\nkind = "number"\n'
        assert kind in draft
        draft = draft.replace(kind, f"{kind}decimals = 1\n")
    head, *columns = draft.split("[[column]]\n")
    name = entry.splitlines()[1]
    (at,) = [at for at, column in enumerate(columns) if column.startswith(f"{name}\n")]
    columns[at] = entry.partition("\n")[2] + "\n"
    return "[[column]]\n".join([head, *columns])


def walk(page: Path = PAGE) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each command of the page, its quoted lines and its real ones. The account book is one of its own."""
    *by_hand, declared = DECLARED.findall(page.read_text(encoding="utf-8"))
    Path("declared.toml").write_text(declared, encoding="utf-8")
    for commands, quoted in BLOCK.findall(page.read_text(encoding="utf-8")):
        command = commands.replace("\\\n", " ").strip()
        real = [line for line in said(command).splitlines() if line.strip()]
        if page == PAGE_OF_LINKED and command.startswith("gossamer card"):
            Path("card.toml").write_text(declared, encoding="utf-8")
        if by_hand and command.startswith("gossamer card"):
            Path("card.toml").write_text(
                edited(Path("card.toml").read_text(encoding="utf-8"), by_hand), encoding="utf-8"
            )
        yield command, [line for line in quoted.splitlines() if line.strip()], real


def test_every_command_says_what_the_tutorial_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "scans")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".local" / "state"))
    commands = []
    for command, quoted, real in walk():
        commands.append(command.split()[1])
        assert not missing(quoted, real), (command, missing(quoted, real), real)
    assert commands == [
        "card",
        "fit",
        "attack",
        "report",
        "release",
        "sign",
        "verify",
        "sample",
    ]
    assert (tmp_path / "OUT" / "certificate.json").is_file()
    assert "| contact | privacy@example.org |" in (tmp_path / "OUT" / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of somebody who follows the tutorial with a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".local" / "state"))
    runpy.run_path(str(ROOT / "examples" / "data" / "clinic_table.py"))["main"](tmp_path, patients=400, visits=600)
    return tmp_path


@pytest.mark.slow
def test_every_command_says_what_the_tutorial_with_a_table_quotes(clinic: Path) -> None:
    commands = []
    for command, quoted, real in walk(PAGE_OF_TABLES):
        commands.append(command.split()[1])
        assert not missing(quoted, real), (command, missing(quoted, real), real)
    assert commands == [
        "split",
        "card",
        "plan",
        "budget",
        "fit",
        "sample",
        "evaluate",
        "attack",
        "release",
        "sign",
        "verify",
    ]
    assert "import load" in (clinic / "OUT" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_command_says_what_the_tutorial_with_patients_and_visits_quotes(clinic: Path) -> None:
    runpy.run_path(str(ROOT / "examples" / "data" / "visit_tables.py"))["main"](clinic, patients=400)
    commands = []
    for command, quoted, real in walk(PAGE_OF_LINKED):
        commands.append(command.split()[1])
        assert not missing(quoted, real), (command, missing(quoted, real), real)
    assert commands == ["split", "card", "fit", "sample", "evaluate", "release", "verify"]
    assert sorted(file.name for file in (clinic / "synthetic").iterdir()) == ["patients.csv", "visits.csv"]


def test_the_card_of_the_tutorial_with_patients_and_visits_takes_every_row(clinic: Path) -> None:
    """Quick twin of the walk. The lines of the draft that wait for the reader are all declared."""
    runpy.run_path(str(ROOT / "examples" / "data" / "visit_tables.py"))["main"](clinic, patients=100)
    (text,) = DECLARED.findall(PAGE_OF_LINKED.read_text(encoding="utf-8"))
    said("gossamer card clinic -o draft.toml")
    measured = re.findall(r"^# measured: (\w+)", (clinic / "draft.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(measured) == ["bounds"] * 3 + ["max_rows"] + ["values"] * 2
    records = read_linked("clinic", LinkedCard.loads(text))
    assert len(records.parts[0]) == 100 < len(records.parts[1])


def test_the_card_of_the_tutorial_with_a_table_takes_every_row(clinic: Path) -> None:
    """Quick twin of the walk: 24 columns, of which a note and the patient are left out, and the id is a key."""
    assert len((clinic / "clinic.csv").read_text().splitlines()[0].split(",")) == 24
    said("gossamer card clinic.csv --units patient --dictionary dictionary.csv -o card.toml")
    draft = (clinic / "card.toml").read_text(encoding="utf-8")
    card = TableCard.loads(edited(draft, DECLARED.findall(PAGE_OF_TABLES.read_text(encoding="utf-8"))[:2]))
    assert (len(card.columns), [name for name, _ in card.drop]) == (21, ["note"])
    assert card.written[0].name == "visit_id" and len(card.written) == 22
    table = read_table(Source("clinic.csv", units="patient"), card)
    assert (len(table), len(np.unique(table.units))) == (600, 400)


@pytest.mark.parametrize("page", [PAGE, PAGE_OF_TABLES, PAGE_OF_LINKED], ids=lambda page: page.stem)
def test_no_command_of_the_page_stands_outside_the_walk(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```sh") == len(BLOCK.findall(text))


@pytest.mark.parametrize(
    ("quoted", "real", "found"),
    [
        (["epsilon 9.99"], ["epsilon 10"], ""),
        (["a  1"], ["a 22,000"], ""),
        (["a", "...", "c"], ["a", "b", "b", "c"], ""),
        (["a", "..."], ["a", "b"], ""),
        (["a", "c"], ["a", "b", "c"], "c"),
        (["a"], ["a", "b"], "nothing quoted for: b"),
        (["...", "b", "a"], ["a", "b"], "a"),
        (["no"], ["yes"], "no"),
    ],
)
def test_how_it_compares(quoted: list[str], real: list[str], found: str) -> None:
    assert missing(quoted, real) == found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        os.environ["XDG_STATE_HOME"] = f"{where}/.local/state"
        os.chdir(where)
        draw(Path("scans"))
        for command, _, lines in walk():
            print(f"$ {command}", *lines, sep="\n", end="\n\n")
