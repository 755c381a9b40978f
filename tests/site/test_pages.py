"""What the documentation says of the code is what the code says: quoted lines, departures, names of the API."""

import ast
import dataclasses
import re
import textwrap
from pathlib import Path

import pytest

import gossamer
from benchmarks.reproduce.tables import tables
from gossamer.run.training.presets import all_presets
from kinds import OF_PICTURES

ROOT = Path(__file__).resolve().parents[2]
DOCS, METHODS = ROOT / "docs", ROOT / "src/gossamer/methods"
HEADINGS = ["When to use it", "Settings", "Results", "What is guaranteed", "Departures from the paper"]
WORDS = 900
NAMES = sorted(gossamer.methods.METHODS)


def sections(page: Path) -> dict[str, str]:
    """The second-level headings of a page, and what stands below each."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_page_for_each_method_and_all_in_one_shape(name: str) -> None:
    """A picture or none, a command, five parts; lab notes beside it. Each of the two links to the other."""
    page = (DOCS / f"methods/{name}.md").read_text(encoding="utf-8")
    head, rest = page.split("\n## ", 1)
    assert list(sections(DOCS / f"methods/{name}.md")) == HEADINGS
    assert f"gossamer fit {name} " in head
    assert "\n|" in rest.split("\n## ")[1], "settings are a table"
    assert re.search(rf"\]\(\.\./\.\./lab/{name}\.md[)#]", page)
    assert f"](../docs/methods/{name}.md)" in (ROOT / f"lab/{name}.md").read_text(encoding="utf-8")
    assert len(page.split()) <= WORDS


@pytest.mark.parametrize("name", NAMES)
def test_defaults_of_settings_are_those_of_the_config(name: str) -> None:
    """The first cell names options, the second their common default, perhaps with what it means after a colon."""
    fields = {field.name: field.default for field in dataclasses.fields(gossamer.methods.METHODS[name].config_type)}
    rows = re.findall(r"^\| (`--[^|]*) \| ([^|]*) \|", sections(DOCS / f"methods/{name}.md")["Settings"], re.MULTILINE)
    assert len(rows) >= 3
    for options, told in rows:
        for option in re.findall(r"--([\w-]+)", options):
            default = fields.get(option.replace("-", "_"), "")  # public data are no setting of the method
            shown = (
                {"": "none", True: "on", False: "off"}.get(default, default)
                if isinstance(default, str | bool)
                else default
            )
            said = told.split(":")[0].replace(",", "")
            assert (float(said) if isinstance(shown, int | float) else said) == shown, (option, default)


@pytest.mark.parametrize("name", NAMES)
def test_every_quoted_line_is_in_the_code(name: str) -> None:
    """The last cell of a row of three quotes code, unless it names what is elsewhere (a name alone, or words beside)."""
    page = ROOT / f"lab/{name}.md"
    lines = sections(page)["The algorithm, line by line"]
    linked = re.findall(r"\]\((\.\./src/[^)]+\.py)\)", lines)
    code = plain(" ".join((page.parent / path).resolve().read_text(encoding="utf-8") for path in linked))
    rows = [row.strip("| ").rsplit(" | ", 1)[-1] for row in lines.splitlines() if row.count(" | ") >= 2]
    quoted = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row) if not re.fullmatch(r"[\w.]+", quote)]
    assert len(quoted) >= 4
    assert [quote for quote in quoted if plain(quote) not in code] == []


@pytest.mark.parametrize("name", NAMES)
def test_departures_are_those_of_the_docstring(name: str) -> None:
    """The lab notes have the docstring's words, which `--help` prints. The page says the main ones, and leads to the notes."""
    tree = ast.parse((METHODS / name.replace("-", "_") / "__init__.py").read_text(encoding="utf-8"))
    docs = [ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.ClassDef)]
    written = [re.split(r"^Departures from .*:$", doc, flags=re.MULTILINE)[1] for doc in docs if "\nDepartures" in doc]
    page = sections(DOCS / f"methods/{name}.md")["Departures from the paper"]
    said = plain(sections(ROOT / f"lab/{name}.md")["Departures from the paper"])
    if not written:
        assert said == "There is no paper to depart from."
        assert plain(page).startswith(said)
        return
    items = re.split(r"^- ", textwrap.dedent(written[0].strip("\n")).split("\n\n")[0], flags=re.MULTILINE)[1:]
    assert len(items) >= 2
    assert [item for item in items if f"- {plain(item)}" not in said] == []
    assert f"](../../lab/{name}.md#departures-from-the-paper)" in page and f"gossamer fit {name} --help" in page


def test_code_on_how_to_add_a_method_is_that_of_the_example() -> None:
    page = (DOCS / "methods/adding-one.md").read_text(encoding="utf-8")
    example = plain(
        " ".join(
            path.read_text() for path in sorted((ROOT / "tests/fixtures/plugin_package/src/class_means").glob("*.py"))
        )
    )
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    assert [block for block in blocks[2:4] if plain(block) not in example] == [], (
        "the first two are methods of their own"
    )


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    named = re.findall(r"^::: ([\w.]+)$", pages, flags=re.MULTILINE)
    assert len(named) == len(set(named))
    places = [place for package in (gossamer, gossamer.methods, gossamer.privacy) for place in package._NAMES.values()]
    names = {place.replace(":", ".") for place in places if not place.endswith((":", ":Config"))}
    assert names - set(named) == set()
    assert "gossamer.errors" in named


def test_every_method_is_in_the_table_of_what_to_expect() -> None:
    """Its figures: `tests/benchmarks/reproduce/test_expectations.py`."""
    rows = re.findall(
        r"^\| \[`([\w-]+)`\]\(methods/.*$", (DOCS / "choosing-epsilon.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(set(rows)) == sorted(OF_PICTURES)


def test_every_message_on_the_page_of_errors_is_one() -> None:
    """Each row has words of a message in the source; "…" stands for what differs."""
    said = []
    for path in (ROOT / "src/gossamer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                said.append("".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.append(node.value)
    rows = re.findall(
        r"^\| (?!the message has|-)(.+?) \| ", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) >= 20
    assert [row for row in rows if not any(row in text for text in said)] == []


def test_each_link_of_the_five_papers_leads_to_what_it_names() -> None:
    """Code, tables and presets, by their names. Dead links fail the build of the site."""
    page = (DOCS / "papers.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(\.\./([\w/]+\.py)\)((?:,? `\w+`)*)", page)
    assert len(named) >= 50
    for path, names in named:
        code = (ROOT / path).read_text(encoding="utf-8")
        missing = [name for name in re.findall(r"`(\w+)`", names) if not re.search(rf"(def|class) {name}\b", code)]
        assert missing == [], path
    asked = {name for name in re.findall(r"benchmarks\.reproduce ([\w-]+) --data", page) if name != "TABLE"}
    assert asked == {table for table in tables() if table.startswith(("bie", "dp-gan", "gs-wgan", "priv", "dpgan"))} - {
        "privae-labelled"
    }
    for preset in re.findall(r"--preset ([\w-]+)", page):
        assert any(preset in presets for presets in all_presets().values()), preset
