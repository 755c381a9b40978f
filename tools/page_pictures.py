"""The pictures of the page in docs/images/: `python tools/page_pictures.py` goes through all steps with a made-up table.

It needs Playwright and a Chromium on PATH, as `make browser` does. A run takes two minutes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests/run/page")]
from test_page_browser import Server, Walk, browser  # noqa: E402 (after the folder of the tests)

IMAGES = ROOT / "docs/images"
WIDE, PHONE = {"width": 752, "height": 900}, {"width": 375, "height": 800}
HIGHEST = 1700
"""Pixels of a wide picture. What is below is the same again: more columns, more lines."""
SHOWN = {"looked": "data", "judge": "judge", "release": "release"}
SHOWN |= {name: name for name in ("facts", "protection", "method", "train", "runs")}
"""What is taken, by the name that the walk has for it."""
AT_HOME = """folder => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "/home/you");
}"""
"""No picture names the folder of this run."""
DECLARED = {"unit": "patient", "label": "readmitted"}


class Photographer(Walk):
    """Takes a picture of each step at both widths. `folder` has the records."""

    folder = ""

    def look(self, name):
        """Take the pictures of a step that the tutorial shows."""
        self.page.wait_for_load_state()
        if name in SHOWN:
            self.page.evaluate(AT_HOME, self.folder)
            place = IMAGES / f"page-{SHOWN[name]}.png"
            self.page.set_viewport_size(WIDE)
            height = min(HIGHEST, self.page.evaluate("document.documentElement.scrollHeight"))
            self.page.screenshot(path=place, full_page=True, clip={"x": 0, "y": 0, "width": 752, "height": height})
            self.page.set_viewport_size(PHONE)
            heading = self.page.get_by_role(
                "heading", name="The columns" if name == "facts" else "", exact=name == "facts"
            )
            heading.first.scroll_into_view_if_needed()
            self.page.screenshot(path=place.with_stem(f"{place.stem}-phone"))
            for each in (place, place.with_stem(f"{place.stem}-phone")):
                Image.open(each).convert("RGB").quantize(128, dither=0).save(each, optimize=True)
        self.page.set_viewport_size(WIDE)


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "clinic.csv"
        subprocess.run([sys.executable, ROOT / "examples/data/clinic_table.py", folder], check=True)
        with Server(Path(folder)) as server, browser() as opened:
            walk = Photographer(opened.new_page(viewport=WIDE))
            walk.folder = folder
            walk.enter(server)
            walk.open(str(data))
            walk.examine(units="patient", divide=True)
            walk.declare("Clinic", DECLARED, "Use all measured values, I declare that they may be public")
            walk.choose(3)
            walk.train()
            walk.judge(measure=True, attack=True)
            walk.release(Path(folder), "1000")


if __name__ == "__main__":
    main()
