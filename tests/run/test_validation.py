"""Wrong types from Python are refused in one sentence that names the argument; files that cannot be read name the file."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer as api
from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.run.validation import check_place

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=160)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("plan", {"epsilon": "10"}, "`epsilon` must be a number or None, not of type str: leave out the quotes"),
        ("plan", {"delta": "1e-5"}, "`delta` must be a number or None"),
        ("plan", {"epsilon": True}, "`epsilon` must be a number or None, not of type bool"),
        ("plan", {"method": 3}, "`method` must be text or a Config, not of type int"),
        ("plan", {"card": "card.toml"}, "`card` must be a DataCard or a TableCard or a LinkedCard, not of type str."),
        ("plan", {"settings": [("steps", 3)]}, "settings must be a mapping"),
        (
            "plan",
            {"settings": {"steps": "10"}},
            "`steps` must be a whole number, not of type str: leave out the quotes",
        ),
        ("plan", {"settings": {"steps": 10.5}}, "`steps` must be a whole number, not of type float."),
        ("plan", {"settings": {"adaptive": "yes"}}, "`adaptive` must be True or False"),
        (
            "plan",
            {"method": "dp-wgan", "settings": {"grouping": "all"}},
            "`grouping` must be one of none, weight-bias, cluster",
        ),
        ("fit", {"data": 3}, "data is of type int: no records. It must be a path, (images, labels)"),
        ("fit", {"out": 3}, "`out` must be text or a path or None, not of type int"),
        ("fit", {"seed": "0"}, "`seed` must be a whole number"),
        ("fit", {"steps": "7"}, "`steps` must be a whole number"),
        ("fit", {"seed": -1}, "`seed` must be a whole number from 0 to 9,223,372,036,854,775,807, not -1."),
        ("evaluate", {"seed": 2**63}, "`seed` must be a whole number from 0 to"),
        ("attack", {"seed": -1}, "`seed` must be a whole number from 0 to"),
        ("evaluate", {"count": "3"}, "`count` must be a whole number"),
        ("attack", {"run": 3}, "`run` must be text or a path"),
        ("verify", {"run": None}, "`run` must be text or a path"),
        ("release", {"out": None}, "`out` must be text or a path"),
        ("resume", {"run": 3}, "`run` must be text or a path"),
    ],
)
def test_a_wrong_type_names_the_argument(name: str, arguments: dict[str, Any], says: str, tmp_path: Path) -> None:
    right: dict[str, dict[str, Any]] = {
        "plan": {"method": "dpgan", "card": CARD, "epsilon": 10, "delta": 1e-4},
        "fit": {"method": "dpgan", "data": "digits", "card": CARD, "out": tmp_path / "run", "epsilon": 10, "delta": 1e-4},
        "evaluate": {"synth": "x", "train": "digits", "test": "digits"},
        "attack": {"run": "x", "members": "digits", "nonmembers": "digits"},
        "verify": {}, "release": {"run": "x"}, "resume": {},
    }  # fmt: skip
    with pytest.raises(RequestError) as caught:
        getattr(api, name)(**{**right[name], **arguments})
    assert says in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_numbers_of_numpy_are_numbers() -> None:
    asked = {"noise_multiplier": np.float32(9), "steps": np.int64(10), "expected_batch_size": np.int32(16)}
    request = api.plan("dpgan", CARD, asked, delta=np.float64(1e-4))
    assert {type(value) for value in request.job.settings.values()} <= {int, float, bool, str}


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_to_be_reported(
    gossamer: Callable[..., Any],
    data: Path,
    card: Path,
    fit_words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13), str(tmp_path / "scans" / "a.png"))

    monkeypatch.setattr("gossamer.kinds.pictures.read", denied)
    answer = gossamer(*fit_words)
    assert answer.status == 2
    assert f"gossamer: {tmp_path / 'scans' / 'a.png'}: Permission denied. Correct that" in answer.err
    assert "report it" not in answer.err


def test_a_folder_in_the_place_of_a_file(gossamer: Callable[..., Any], fit_words: list[str], tmp_path: Path) -> None:
    (tmp_path / "card.toml").unlink()
    (tmp_path / "card.toml").mkdir()
    answer = gossamer(*fit_words)
    assert (answer.status, "report it" in answer.err) == (2, False)
    (tmp_path / "there").mkdir()
    answer = gossamer("card", "digits", "-o", tmp_path / "there", "--force")
    assert (answer.status, "report it" in answer.err) == (2, False)


def test_a_release_of_a_release_is_the_release(gossamer: Callable[..., Any], made: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert gossamer("release", made, "-o", first).status == 0
    assert gossamer("release", first, "-o", second).status == 0
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }
    assert gossamer("verify", second).status == 0
    for words in (["report", second], ["discard", second], ["release", second, "-o", second]):
        answer = gossamer(*words)
        assert (answer.status, "report it" in answer.err) == (2, False)


@pytest.mark.parametrize(
    ("holds", "gives_way"),
    [("", True), ('[{"metric": "m", "internal": true}]', True), ('{"attacks": [{"internal": true}]}', True),
     ('{"images": []}', False), ("shape = [1, 28, 28]", False), ("[1, 2]", False)],
)  # fmt: skip
def test_figures_replace_figures_and_nothing_else(tmp_path: Path, holds: str, gives_way: bool) -> None:
    (tmp_path / "file").write_text(holds)
    (tmp_path / "records.npz").write_bytes(b"PK\x03\x04\xff")
    for path, fine in (("file", gives_way), ("new", True), ("records.npz", False), ("no/file", False), (".", False)):
        with nullcontext() if fine else pytest.raises(RequestError, match=r"cannot be written|is there already"):
            check_place(tmp_path / path)


@pytest.mark.parametrize("seed", [-1, 2**63, 10**30])
@pytest.mark.parametrize("command", ["sample", "evaluate", "attack", "audit dpgan", "fit", "simulate", "split"])
def test_a_seed_that_no_generator_takes_is_refused_at_once(
    gossamer: Callable[..., Any], command: str, seed: int
) -> None:
    """Before anything is read: none of these folders is there."""
    words = {
        "sample": ["sample", "RUN", "-n", 3, "-o", "s.npz"],
        "evaluate": ["evaluate", "RUN", "--train", "A", "--test", "A"],
        "attack": ["attack", "RUN", "--members", "A", "--nonmembers", "B"],
        "audit dpgan": ["audit", "dpgan"],
        "simulate": ["federated", "simulate", "--data", "A", "--card", "c.toml", "--out", "RUN"],
        "fit": ["fit", "dpgan", "--data", "A", "--card", "c.toml", "--out", "RUN"],
        "split": ["split", "A", "-o", "B"],
    }[command]
    answer = gossamer(*words, "--seed", seed)
    assert answer.status == 2
    assert "--seed must be a whole number from 0 to 9,223,372,036,854,775,807" in answer.err
