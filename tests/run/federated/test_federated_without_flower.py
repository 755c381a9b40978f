"""`gossamer federated` where the extra is not installed: help as with it, and what to install when it is to run."""

import sys

import pytest

from gossamer.run.cli.main import main

GIVEN = {
    "simulate": ["--data", "d", "--card", "c", "--out", "o"],
    "serve-records": [
        "--data", "d", "--card", "c", "--epsilon", "1", "--delta", "1e-3", "--out", "o", "--socket", "s",
    ],
}  # fmt: skip


@pytest.fixture
def no_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python has it where a package is not there: no import finds it, nor any part of it."""
    for name in ["flwr", *(each for each in sys.modules if each.startswith("flwr."))]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [each for each in sys.modules if each.startswith("gossamer.run.federated")]:
        monkeypatch.delitem(sys.modules, name)


def ended(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    with pytest.raises(SystemExit) as end:
        main(words)
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


@pytest.mark.usefixtures("no_flower")
@pytest.mark.parametrize("words", [[], *([name] for name in GIVEN)])
def test_help_is_there(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(["federated", *words, "--help"], capsys)
    assert (status, err) == (0, "")
    assert "--out" in out or "ask|answer|serve-records|simulate" in out


@pytest.mark.usefixtures("no_flower")
@pytest.mark.parametrize("name", GIVEN)
def test_running_says_what_to_install(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(["federated", name, *GIVEN[name]], capsys)
    assert (status, out) == (2, "")
    assert "pip install 'gossamer[federated]'" in err
    assert len(err.strip().splitlines()) == 1


def test_help_is_the_same_with_it(
    no_flower: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without = [ended(["federated", name, "--help"], capsys) for name in GIVEN]
    monkeypatch.undo()
    pytest.importorskip("flwr", reason="the extra `federated` is not installed")
    assert without == [ended(["federated", name, "--help"], capsys) for name in GIVEN]
