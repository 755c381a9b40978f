"""The pages of the site for the notebooks in examples/: `python tools/notebook_page.py [NAME [FILE]]` writes docs/notebooks/.

A notebook is a text file in jupytext's percent format. A real IPython kernel runs it, as Jupyter does. Each output becomes
one line of HTML in the page, and each picture becomes a file beside it. Run this tool after each change of a notebook.
"""

import base64
import html
import itertools
import os
import posixpath
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs/notebooks"
NAMES = ("arrays_to_release", "table_to_release")
OUTPUT = '<div class="output"'
"""How each line with an output begins; all other lines follow from the source."""
_INLINE = re.compile(r'src="data:image/png;base64,([^"]+)"')
_LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[#)])")


@dataclass(frozen=True)
class Cell:
    """A cell: Markdown, or code with its outputs as HTML."""

    text: str
    is_code: bool


def cells(source: str) -> list[Cell]:
    """Return the cells of a notebook in percent format. What comes before the first cell is left out."""
    found = []
    for part in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        is_code = "[markdown]" not in head
        text = body.strip("\n")
        found.append(Cell(text if is_code else re.sub(r"^# ?", "", text, flags=re.MULTILINE), is_code))
    return found


def page(parts: Sequence[Cell], outputs: Sequence[Sequence[str]]) -> str:
    """Return the page: Markdown, code, and below each code cell its outputs, one line of HTML for each.

    Args:
        parts: the cells.
        outputs: of each code cell, in order, the HTML of its outputs.
    """
    waiting, blocks = iter(outputs), []
    for part in parts:
        if not part.is_code:
            blocks.append(_LINK.sub(lambda link: _moved(link[0]), part.text))
            continue
        blocks.append(f"```python\n{part.text}\n```")
        blocks += [f"{OUTPUT}>{output}</div>" for output in next(waiting)]
    return "\n\n".join(blocks) + "\n"


def _moved(link: str) -> str:
    """Return a link of the source as a link of the page."""
    return posixpath.relpath(posixpath.normpath(posixpath.join("examples", link)), "docs/notebooks")


def run(parts: Sequence[Cell]) -> list[list[Any]]:
    """Run the code cells in a kernel of this Python, in an empty folder. Returns the outputs of each."""
    import nbformat  # noqa: PLC0415 (optional, as is nbclient)
    from nbclient import NotebookClient  # noqa: PLC0415

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(part.text) for part in parts if part.is_code])
    with tempfile.TemporaryDirectory() as folder:
        own = {"IPYTHONDIR": folder, "JUPYTER_CONFIG_DIR": folder, "JUPYTER_PLATFORM_DIRS": "1", "TMPDIR": folder}
        environment = {**os.environ, **own}
        client = NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    return [cell.outputs for cell in book.cells]


def joined(outputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a cell with texts in a row as one, as a notebook shows them."""
    found = []
    for kind, group in itertools.groupby(outputs, key=lambda output: output.get("name")):
        each = list(group)
        if kind is not None:
            each[0].text = "".join(output.text for output in each)
        found += each[:1] if kind is not None else each
    return found


def shown(output: Any) -> str:
    """Return an output as one line of HTML: the text as it was printed, or the richest form that a notebook shows."""
    if output.output_type == "stream":
        return _text(output.text)
    if output.output_type == "error":
        raise SystemExit("\n".join(output.traceback))
    data = output.data
    if "text/html" not in data:
        return _text(data["text/plain"])
    table = re.sub(r"<style scoped>.*?</style>", "", data["text/html"], flags=re.DOTALL)
    table = table.replace(' border="1" class="dataframe"', "").replace(' style="text-align: right;"', "")
    return re.sub(r"\s*\n\s*", " ", table).strip()


def _text(text: str) -> str:
    return f"<pre>{html.escape(text.rstrip()).replace(chr(10), '&#10;')}</pre>"


def main(name: str, target: Path) -> None:
    """Run a notebook, and write its page with its pictures."""
    parts = cells((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    outputs = [[shown(output) for output in joined(each)] for each in run(parts)]
    target.parent.mkdir(parents=True, exist_ok=True)
    pictures: list[Path] = []

    def to_file(picture: re.Match[str]) -> str:
        pictures.append(target.with_name(f"{target.stem}-{len(pictures) + 1}.png"))
        pictures[-1].write_bytes(base64.b64decode(picture[1]))
        return f'src="{pictures[-1].name}"'

    outputs = [[_INLINE.sub(to_file, output) for output in each] for each in outputs]
    target.write_text(page(parts, outputs), encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:2] or NAMES:
        main(each, Path(sys.argv[2]) if len(sys.argv) > 2 else PAGES / f"{each}.md")
