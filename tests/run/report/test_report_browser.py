"""The report in a real browser: light, dark, on a phone and on paper."""

import json
import re
import subprocess

import numpy as np
import pytest
from chromium import CHROMIUM, LOOKS, QUIET, SCHEME
from PIL import Image
from test_html import NONE, make_run

from gossamer.run.report.html import write_report

pytestmark = LOOKS

MEASURE = """<script>addEventListener("load", () => {
  const root = document.documentElement, wide = root.clientWidth;
  const beyond = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > wide + 0.5);
  const image = document.querySelector("img");
  parent.postMessage(JSON.stringify({
    width: wide, scroll: root.scrollWidth, beyond: beyond.map(e => e.tagName + "." + e.className),
    paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
    main: document.querySelector("main").getBoundingClientRect().width / parseFloat(getComputedStyle(root).fontSize),
    letters: Math.min(...[...document.querySelectorAll("svg text")].map(e => e.getBoundingClientRect().height)),
    image: image.naturalWidth,
    requests: performance.getEntriesByType("resource").filter(e => !e.name.startsWith("data:")).length,
  }), "*");
});</script>"""
FRAME = """<!doctype html><meta name="color-scheme" content="light dark">
<iframe src="probe.html" style="border:0;width:{width}px;height:900px"></iframe>
<script>onmessage = e => {{ document.body.innerHTML = "<pre id=found>" + e.data + "</pre>" }}</script>"""


def chromium(profile, page, *options):
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, timeout=60, check=True).stdout.decode()


def measure(run, profile, *, width, scheme):
    """Lay the page out at a width and say what came of it. In a frame, because windows are at least 500 wide."""
    page = write_report(run, internal=True)
    probe = page.with_name("probe.html")
    probe.write_text(page.read_text(encoding="utf-8").replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width))
    scheme_option = f"--blink-settings=preferredColorScheme={SCHEME[scheme]}"
    dumped = chromium(
        profile, frame, "--window-size=1400,1000", scheme_option, "--virtual-time-budget=5000", "--dump-dom"
    )
    return json.loads(re.search(r"<pre id=\"found\">(.*?)</pre>", dumped)[1])


def rgb(colour):
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


@pytest.mark.parametrize(
    "width, scheme", [(320, "light"), (390, "light"), (390, "dark"), (768, "dark"), (1280, "light")]
)
def test_fits_every_width_in_both_schemes(tmp_path, width, scheme):
    long = {"config": {"a_setting_with_a_name_that_is_rather_long_for_a_phone": "x" * 90}}
    found = measure(make_run(tmp_path / "run", **long), tmp_path / "profile", width=width, scheme=scheme)
    assert found["width"] == width
    assert found["scroll"] == width, "the page scrolls sideways"
    assert found["beyond"] == []
    assert found["main"] <= 46
    assert found["letters"] >= 10, "letters in the curves are too small to read"
    assert found["image"] > 600
    assert found["requests"] == 0
    assert (np.mean(rgb(found["paper"])) > np.mean(rgb(found["ink"]))) == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paints_the_page(tmp_path, scheme):
    """A screenshot on a phone: the ground is that of the scheme, and there are letters and the accent on it."""
    page = write_report(make_run(tmp_path / "run"), internal=False)
    shot = tmp_path / "shot.png"
    chromium(
        tmp_path / "profile", page, "--window-size=390,844", f"--screenshot={shot}",
        f"--blink-settings=preferredColorScheme={SCHEME[scheme]}",
    )  # fmt: skip
    pixels = np.asarray(Image.open(shot).convert("RGB")).reshape(-1, 3).astype(int)
    assert len(pixels) == 390 * 844
    ground = [251, 250, 246] if scheme == "light" else [22, 24, 28]
    far = np.abs(pixels - ground).max(axis=1) > 100
    assert (pixels == ground).all(axis=1).mean() > 0.7
    assert 0.01 < far.mean() < 0.3


def test_no_formal_guarantee_is_seen_first(tmp_path):
    run = make_run(tmp_path / "run", guarantee=NONE, guarantees=[NONE], reasons=["the records were shown"])
    assert measure(run, tmp_path / "profile", width=390, scheme="dark")["beyond"] == []


def test_prints_on_paper(tmp_path):
    page = write_report(make_run(tmp_path / "run"), internal=False)
    pdf = tmp_path / "page.pdf"
    chromium(tmp_path / "profile", page, "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 6
