"""`tools/prose.py`, which `make check` runs: a text with an avoided word or many long sentences is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "prose.py"
LONG = "This sentence goes on " + "and on " * 12 + "so that it has more words than a sentence may have."


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("good.md", "# A page\n\nShort words are clear. The budget log adds up all runs.\n", ""),
        ("avoided.md", "The account book adds up all runs.\n", "budget log"),
        ("code.md", "Type this:\n\n```sh\nthe account book\n```\n\nor `the account book`.\n", ""),
        ("output.md", 'Run it:\n\n<div class="output"><pre>the account book</pre></div>\n', ""),
        ("long.md", LONG + "\n", "39 words"),
        ("table.md", "| one | the account book |\n|---|---|\n", "budget log"),
        ("good.py", '"""Return the sum of all runs in it."""\n', ""),
        ("message.py", 'raise ValueError("the account book does not exist here")\n', "budget log"),
        ("comment.py", "# the account book is somewhere else\n", "budget log"),
    ],
)
def test_what_a_reader_would_stumble_over_is_refused(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, TOOL, tmp_path / name], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if says else 0), done.stdout
    assert says in done.stdout
