"""The scripts of docs/scripts.md run as they are, print what they say, and are short."""

import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs/scripts.md"
SCRIPTS = re.findall(
    r"^## \d+\. (.*?)\n.*?^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
SAYS = [
    "(1000, 1, 8, 8)",
    "smokes",
    "torch.Size([64, 1, 8, 8])",
    "Differentially private: epsilon ",
    "noise for epsilon 1: ",
    re.compile(r"\n8 (9|1[01])\d\n"),
    "[7 7 7 7 7]",
    "stopped\nDifferentially private: epsilon ",
    "16",
    "True",
]
SLOW = (2, 5, 8, 9, 10)
"""Those that take more than a second on a quiet machine."""


def test_there_are_ten() -> None:
    assert len(SCRIPTS) == len(SAYS) == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(text, words, id=title, marks=pytest.mark.slow if at in SLOW else ())
        for at, ((title, text), words) in enumerate(zip(SCRIPTS, SAYS, strict=True), start=1)
    ],
)
def test_a_script_runs(
    text: str,
    words: str | re.Pattern[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(text, {})
    said = capsys.readouterr().out
    assert words in said if isinstance(words, str) else words.search(said)
