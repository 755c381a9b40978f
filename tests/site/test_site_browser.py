"""The site in a real browser: on a phone, in both schemes, its search, and whom it calls."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]

QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run")  # fmt: skip
SCHEME = {"dark": 0, "light": 1}
VISIT = """<!doctype html><meta name="color-scheme" content="light dark"><iframe style="border:0;width:%dpx;height:844px"></iframe>
<script>
const frame = document.querySelector("iframe"), found = [];
const visit = pages => {
  if (!pages.length) { document.body.innerHTML = "<pre></pre>"; document.querySelector("pre").textContent = JSON.stringify(found); return; }
  frame.onload = () => setTimeout(() => {
    const inside = frame.contentDocument, root = inside.documentElement;
    found.push({
      page: pages[0], width: root.clientWidth, scroll: root.scrollWidth, scheme: inside.body.dataset.mdColorScheme,
      heading: inside.querySelector("h1")?.textContent,
      hidden: [...inside.querySelectorAll(".md-content pre, .md-content table, .md-content img, .md-content svg")].filter(e => {
        for (let box = e; box !== inside.body; box = box.parentElement)
          if (/auto|scroll/.test(inside.defaultView.getComputedStyle(box).overflowX)) return false;
        return e.getBoundingClientRect().right > root.clientWidth + 0.5;
      }).map(e => e.outerHTML.slice(0, 80)),
      loaded: frame.contentWindow.performance.getEntriesByType("resource").map(e => e.name),
    });
    visit(pages.slice(1));
  }, 100);
  frame.src = pages[0];
};
visit(%s);
</script>"""


def shown(profile: Path, address: str, *options: str) -> str:
    """The document after its scripts have run."""
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--virtual-time-budget=120000", *options, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, timeout=300, check=True).stdout.decode()


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_and_calls_nobody(site: Path, served: str, tmp_path: Path, scheme: str) -> None:
    """All pages that are in the navigation, and the code beside them in the light scheme."""
    pages = [str(page.relative_to(site)) for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    pages = [page for page in pages if scheme == "light" or not page.startswith("code/")]
    probe = site / f"probe-{scheme}.html"
    probe.write_text(VISIT % (390, json.dumps(pages)), encoding="utf-8")
    option = f"--blink-settings=preferredColorScheme={SCHEME[scheme]}"
    dumped = shown(tmp_path / "profile", f"{served}/{probe.name}", option)
    probe.unlink()
    (words,) = re.findall(r"<pre>(.*?)</pre>", dumped, flags=re.DOTALL)
    found = json.loads(html.unescape(words))
    assert [each["page"] for each in found] == pages
    assert {each["width"] for each in found} == {390}
    assert [each["page"] for each in found if each["scroll"] > 390] == []
    assert [(each["page"], each["hidden"]) for each in found if each["hidden"]] == []
    assert {each["scheme"] for each in found} == {"default" if scheme == "light" else "slate"}
    assert [loaded for each in found for loaded in each["loaded"] if not loaded.startswith((served, "data:"))] == []


@pytest.mark.parametrize("opened", ["from a server", "from a file"])
def test_the_search_finds_epsilon(site: Path, served: str, tmp_path: Path, opened: str) -> None:
    root = served if opened == "from a server" else site.as_uri()
    dumped = shown(tmp_path / "profile", f"{root}/index.html?q=epsilon", "--window-size=1200,900")
    hits = re.findall(r'<a href="([^"]+)"[^>]*class="md-search-result__link"', dumped)
    assert len(hits) >= 10
    assert any("choosing-epsilon.html" in hit for hit in hits)
    assert re.search(r"<mark[^>]*>[Ee]psilon</mark>", dumped)
