"""`gossamer federated` where the extra is not installed: help as with it, and what to install when it is to run."""

import importlib
import sys
import tomllib
from pathlib import Path

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
    assert "--out" in out or "ask|answer|serve-records|app|simulate" in out


@pytest.mark.usefixtures("no_flower")
def test_sites_need_no_flower(capsys: pytest.CaptureFixture[str]) -> None:
    """They get as far as the card, which is not there."""
    for name, words in GIVEN.items():
        status, out, err = ended(["federated", name, *words], capsys)
        assert (status, out) == (2, "") and "card" in err and "flwr" not in err
    importlib.import_module("gossamer.run.federated.service")
    with pytest.raises(ImportError):
        importlib.import_module("gossamer.run.federated.flower")


def test_help_is_the_same_with_it(
    no_flower: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without = [ended(["federated", name, "--help"], capsys) for name in GIVEN]
    monkeypatch.undo()
    pytest.importorskip("flwr", reason="the extra `federated` is not installed")
    assert without == [ended(["federated", name, "--help"], capsys) for name in GIVEN]


def test_the_app_is_part_of_the_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = ended(["federated", "app", "-o", str(tmp_path / "app")], capsys)
    assert (status, err) == (0, "")
    example = Path(__file__).parents[3] / "examples" / "flower"
    for name in ("pyproject.toml", "gossamer_flower/client_app.py", "operate/few.toml", "operate/nginx.conf"):
        assert (tmp_path / "app" / name).read_bytes() == (example / name).read_bytes()
    declared = tomllib.loads((example / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    for name in ("few", "gs-wgan"):
        request = tomllib.loads((tmp_path / "app" / "operate" / f"{name}.toml").read_text())
        assert request.keys() <= declared.keys()
    status, _, err = ended(["federated", "app", "-o", str(tmp_path / "app")], capsys)
    assert status == 2 and "there already" in err
