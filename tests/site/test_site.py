"""The built site: every link leads somewhere, nothing is loaded from elsewhere, and the strict build means it."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from building import ROOT, build

from gossamer.methods import METHODS
from gossamer.run.cli.main import COMMANDS

ELSEWHERE = re.compile(r"^(https?:)?//", re.IGNORECASE)
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}


class Read(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif tag in LOADED and LOADED[tag] in has:
            self.loaded.append(has[LOADED[tag]])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Read]:
    return {page: Read(page) for page in sorted(site.rglob("*.html")) if page.name != "404.html"}


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_an_anchor(pages: dict[Path, Read], site: Path) -> None:
    dead = []
    for page, read in pages.items():
        for link in [*read.links, *read.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link in ("#", "#__skip"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else set()
            if not target.is_file() or (
                parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in anchors
            ):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert len(pages) > 100
    assert dead == []


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Read], site: Path) -> None:
    assert [loaded for read in pages.values() for loaded in read.loaded if ELSEWHERE.match(loaded)] == []
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")) == []
    for page in pages:  # Material would fetch a script for these
        assert 'class="mermaid"' not in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_command_and_method_is_on_the_page_of_the_command_line(site: Path) -> None:
    text = (site / "cli.html").read_text(encoding="utf-8")
    for name in (*COMMANDS, *(f"fit {method}" for method in METHODS)):
        assert f">gossamer {name}<" in text, name
    assert "--noise-multiplier" in text


@pytest.mark.slow
def test_the_search_knows_prose_and_not_code(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {entry["location"].split("#")[0] for entry in entries if "epsilon" in entry["text"].lower()}
    assert {"guarantees.html", "choosing-epsilon.html", "methods/dpgan.html"} <= found
    assert not [entry["location"] for entry in entries if entry["location"].startswith("code/")]
    assert (site / "search/search_index.js").is_file()  # for pages opened from files


DEAD = ["[gone](gone.md)", "[gone](../src/gone.py)", "[gone](other.md#gone)", "[gone](#lost)"]


@pytest.mark.parametrize(
    "lines, says",
    [
        (DEAD, ["'gone.md'", "'../src/gone.py'", "an anchor '#gone'", "'#lost'"]),
        pytest.param(['--8<-- "examples/gone.py"'], ["examples/gone.py"], marks=pytest.mark.slow),
        pytest.param(
            ["::: gossamer.run.training.fit.gone"], ["gossamer.run.training.fit.gone"], marks=pytest.mark.slow
        ),
        pytest.param(["[there](other.md#there)", "[code](../src/gossamer/errors.py)"], [], marks=pytest.mark.slow),
    ],
)
def test_what_is_dead_stops_the_build(tmp_path: Path, lines: list[str], says: list[str]) -> None:
    """The site's own settings and hook, in a repository of two pages, one of which has the lines."""
    pytest.importorskip("mkdocs", reason="the site needs gossamer[docs]")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    for name in ("docs", "tools"):
        (tmp_path / name).mkdir()
    (tmp_path / "src").symlink_to(ROOT / "src")
    for name in ("site_pages.py", "cli_reference.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    (tmp_path / "docs/page.md").write_text("# Page\n\n" + "\n\n".join(lines) + "\n")
    (tmp_path / "docs/other.md").write_text("# Other\n\n## There\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nnot_in_nav: /*\nnav: [page.md, other.md]\nextra_css: []\n"
        "extra: {polyfills: [iframe-worker.js]}\n"
    )
    done = build(config, tmp_path / "site")
    assert (done.returncode == 0) == (not says), done.stderr
    assert [words for words in says if words not in done.stderr] == []
