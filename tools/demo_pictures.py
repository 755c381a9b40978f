"""The pictures of both demos in docs/images/: `python tools/demo_pictures.py` runs them for 80 and 120 columns.

A picture is what a terminal shows at the end: command, notes and result, without the progress bars that have left it.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).resolve().parents[1] / "docs/images"
DEMOS = {"demo": ["demo"], "demo-table": ["demo", "--table"]}
WIDTHS = (80, 120)


def shown(words: list[str], columns: int, folder: str) -> str:
    """What a demo prints to a file, in a terminal of this width."""
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "gossamer", *words]
    done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=-1, stderr=-2, check=True)
    lines = [line for line in done.stdout.splitlines() if not re.search(r": [\d,]+ of [\d,]+", line)]
    return "\n".join([f"$ gossamer {' '.join(words)}", *lines])


def main() -> None:
    """Write the four pictures."""
    for name, words in DEMOS.items():
        for columns in WIDTHS:
            with tempfile.TemporaryDirectory() as folder:
                text = shown(words, columns, folder)
            with Console(record=True, width=columns, file=Path(os.devnull).open("w")) as console:
                console.print(Text(text), soft_wrap=False)
            drawn = console.export_svg(title=f"gossamer {' '.join(words)}")
            drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # it names a font of another site
            (IMAGES / f"{name}-{columns}.svg").write_text(drawn.replace("Fira Code", "ui-monospace"), encoding="utf-8")


if __name__ == "__main__":
    main()
