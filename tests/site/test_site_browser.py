"""The site in a real browser: on a phone, in both schemes, its search, and whom it calls."""

import functools
import html
import http.server
import json
import queue
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from chromium import CHROMIUM, LOOKS, QUIET, SCHEME

pytestmark = LOOKS

VISIT = """<!doctype html><meta name="color-scheme" content="light dark">
<iframe style="border:0;width:%dpx;height:844px"></iframe>
<script>
const frame = document.querySelector("iframe"), found = [];
const visit = pages => {
  if (!pages.length) {
    document.body.innerHTML = "<pre></pre>";
    return document.querySelector("pre").textContent = JSON.stringify(found);
  }
  frame.onload = () => setTimeout(() => {
    const inside = frame.contentDocument, root = inside.documentElement;
    found.push({
      page: pages[0], width: root.clientWidth, scroll: root.scrollWidth, scheme: inside.body.dataset.mdColorScheme,
      heading: inside.querySelector("h1")?.textContent,
      hidden: [...inside.querySelectorAll(".md-content :is(pre, table, img, svg)")].filter(e => {
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
    command = [
        CHROMIUM,
        *QUIET,
        f"--user-data-dir={profile}",
        "--virtual-time-budget=120000",
        *options,
        "--dump-dom",
        address,
    ]
    return subprocess.run(command, capture_output=True, timeout=300, check=True).stdout.decode()


SEARCH = """<!doctype html><iframe style="width:1200px;height:900px" src="index.html?q=epsilon"></iframe>
<script>
const look = () => {
  const inside = document.querySelector("iframe").contentDocument;
  const hits = [...inside.querySelectorAll("a.md-search-result__link")].map(e => e.href);
  if (hits.length < 10) return setTimeout(look, 200);
  fetch("/told?" + new URLSearchParams({ hits: hits.join(" ") }));
};
onload = look;
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and passes on what a page tells."""

    told: queue.Queue[str] = queue.Queue()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/told":
            self.told.put(parse_qs(parts.query)["hits"][0])
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    handler = functools.partial(Handler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_and_calls_nobody(site: Path, served: str, tmp_path: Path, scheme: str) -> None:
    """All pages of prose, and every tenth of code."""
    pages = [str(page.relative_to(site)) for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    code = [page for page in pages if page.startswith("code/")]
    pages = [page for page in pages if page not in code] + code[::10]
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


def test_the_search_of_a_page_opened_from_a_file_finds_epsilon(site: Path, tmp_path: Path) -> None:
    dumped = shown(tmp_path / "profile", f"{site.as_uri()}/index.html?q=epsilon", "--window-size=1200,900")
    hits = re.findall(r'<a href="([^"]+)"[^>]*class="md-search-result__link"', dumped)
    assert len(hits) >= 10
    assert any("choosing-epsilon.html" in hit for hit in hits)
    assert re.search(r"<mark[^>]*>[Ee]psilon</mark>", dumped)


def test_the_search_of_a_served_page_finds_epsilon(site: Path, served: str, tmp_path: Path) -> None:
    """There a worker searches, which keeps no virtual time: the page tells the server what came."""
    (site / "search.probe.html").write_text(SEARCH, encoding="utf-8")
    command = [
        CHROMIUM,
        *QUIET,
        f"--user-data-dir={tmp_path}",
        "--remote-debugging-port=0",
        f"{served}/search.probe.html",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            hits = Handler.told.get(timeout=120)
        finally:
            browser.terminate()
            (site / "search.probe.html").unlink()
    assert "choosing-epsilon.html" in hits
