"""A federation of few through records services and the messenger of the Flower app."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the extra `federated` is not installed")

from test_few import NAMES, asked, exchange, no_picture, question_of, site_of, whole
from test_service import off_the_grid, place, serving, through, through_sockets

from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.cli import flower_app
from gossamer.run.federated.network import Local
from gossamer.run.federated.questions import refusal
from gossamer.run.federated.site import REFUSED
from gossamer.run.release.verify import verify

__all__ = ["no_picture", "off_the_grid", "place", "whole"]  # fixtures


def grid(place: Path) -> Local:
    made = through_sockets({name: place / name for name in NAMES})
    made.wait, made.reply_timeout, made.pause = 2.0, 5.0, 0.01
    return made


@pytest.mark.usefixtures("no_picture")
def test_services_and_files_give_the_same_weights(whole: Path, tmp_path: Path, place: Path) -> None:
    """The services have given these answers before: they are restarted, and give them again."""
    for name in NAMES:
        shutil.copytree(whole / name, tmp_path / name)
    with ExitStack() as stack:
        for number, name in enumerate(NAMES):
            stack.enter_context(serving(site_of(tmp_path, number), place / name))
        asked(tmp_path, network=grid(place))
    weights = [(out / "centre" / "model.safetensors").read_bytes() for out in (whole, tmp_path)]
    assert weights[0] == weights[1]


@pytest.mark.usefixtures("no_picture")
def test_a_service_that_refuses_is_left_out_and_says_no_reason(whole: Path, tmp_path: Path, place: Path) -> None:
    limits = dict(zip(NAMES, (2.0, 1.0, 2.0), strict=True))
    with ExitStack() as stack:
        for number, name in enumerate(NAMES):
            stack.enter_context(serving(site_of(tmp_path, number, epsilon=limits[name]), place / name))
        assert through(place / "b", question_of(whole, 0, "b")) == refusal(REFUSED)
        assert "this is no message of a federation" in str(through(place / "b", "{}"))
        net = asked(tmp_path, network=grid(place))
    assert "a 3 of 3, b 0 of 3, c 3 of 3" in net.certificate.statement
    assert [verify(tmp_path / name).ok for name in ("centre", "a", "c")] == [True] * 3
    assert not (tmp_path / "b" / "ledger.jsonl").exists()


def test_two_kinds_of_runs_do_not_mix_in_one_service(whole: Path, tmp_path: Path) -> None:
    one = site_of(tmp_path, 0)
    one._agreed = {"method": "gs-wgan"}
    assert "not the terms" in one.reply(question_of(whole, 0))
    one._agreed = None
    one.answer(question_of(whole, 0))
    assert sum(PrivacyLedger.load(tmp_path / "a" / "ledger.jsonl").used) == 1
    assert exchange(whole).is_dir()


def test_the_run_config_chooses_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(flower_app.flower_app, "_command", lambda **given: found.append(given))
    config = {"method": "marginals --rounds 2", "sites": "s", "card": "c", "out": "o", "epsilon": 1.0, "delta": 1e-5}
    flower_app.serve("grid", {**config, "resume": False, "preset": ""})
    (given,) = found
    assert (given["method"], given["settings"]["rounds"], given["epsilon"]) == ("marginals", 2, 1.0)
    assert str(given["sites"]) == "s" and given["wait"] == 600
