"""The exercise of a method through the whole command line: nothing in `run/` knows it, and everything works."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from class_means import ClassMeans

from gossamer.events import Event
from gossamer.methods import METHODS
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume


@pytest.fixture(autouse=True)
def sixth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, ClassMeans.name, ClassMeans())


def test_flags_plan_fit_report_and_attacks_come_by_themselves(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    assert "Class means (an exercise)" in gossamer("fit", "--help").out
    help_ = gossamer("fit", "class-means", "--help").out
    assert "--latent-size" in help_ and "it shifts the brightness" in " ".join(help_.split())
    budget = ("--epsilon", 3, "--delta", 1e-3)
    planned = gossamer("plan", "class-means", "--card", card, *budget, "--json").json
    assert (planned["steps"], planned["sampling_rate"]) == (50, 1.0)
    assert 2.99 <= min(entry["epsilon"] for entry in planned["guarantees"]) <= 3.0
    run = tmp_path / "run"
    fitted = gossamer("fit", "class-means", "--data", data, "--card", card, *budget, "--out", run)
    assert fitted.status == 0, fitted.err
    assert gossamer("verify", run).status == 0
    assert gossamer("sample", run, "-n", 30, "-o", tmp_path / "synth.npz").status == 0
    with np.load(tmp_path / "synth.npz") as made:
        assert made["images"].shape[0] == 30
    other = tmp_path / "others.npz"
    draw = np.random.default_rng(1)
    np.savez(other, images=draw.integers(0, 256, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    attacked = gossamer(
        "attack", run, "--members", data, "--nonmembers", other, "-n", 200, "--limit", 40, "--json"
    ).json
    assert "keeps no discriminator" in attacked["left_out"]["white-box and oracle TVD"]
    assert len(attacked["attacks"]) > 3
    assert gossamer("release", run, "-o", tmp_path / "out").status == 0
    assert gossamer("verify", tmp_path / "out").status == 0
    assert "class-means" in (run / "report.html").read_text()
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["phase"] == "training"][:3] == [1, 2, 3]


def test_it_stops_and_goes_on(data: Path, card: Path, tmp_path: Path) -> None:
    """A crash after its one release: the checkpoint holds what was released, nothing is paid twice."""
    kept: list[int] = []

    def crash(event: Event, /) -> None:
        if event.kind == "step" and event.step == 30:
            raise RuntimeError

    from gossamer.run.training import checkpoint

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint.Clock, "due", lambda _: True)
        with pytest.raises(RuntimeError):
            fit(
                "class-means",
                data=data,
                card=card,
                out=tmp_path / "run",
                epsilon=3.0,
                delta=1e-3,
                process=Process(sink=crash),
            )
    synthesizer = resume(
        tmp_path / "run", process=Process(sink=lambda event: kept.append(event.step) if event.kind == "step" else None)
    )
    assert kept == list(range(30, 51))
    assert synthesizer.certificate.guarantee["epsilon"] <= 3.0


class Keeper(ClassMeans):
    """Class means that hand out the public pictures."""

    name = "keeper"

    @classmethod
    def labels_public(cls, settings: Any) -> bool:
        return True


def test_the_certificate_says_that_the_release_contains_the_public_pictures(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does of the methods of Gossamer."""
    monkeypatch.setitem(METHODS, Keeper.name, Keeper())
    draw = np.random.default_rng(1)
    public = tmp_path / "public.npz"
    np.savez(public, images=draw.integers(0, 256, (20, 28, 28), np.uint8), labels=np.arange(20) % 2)
    run, said = (
        tmp_path / "run",
        "its samples are these pictures with other labels (as the author of the plug-in states)",
    )
    made = fit(
        "keeper", data=data, card=card, public=public, out=run, epsilon=3.0, delta=1e-3, process=Process(progress=False)
    )
    stated = f"model.safetensors contains these pictures as they are, and {said}"
    assert stated in made.certificate.not_covered[0]
    assert stated in made.certificate.public_data
    assert verify(run).problems == []
    page = (release(run, tmp_path / "out") / "README.md").read_text(encoding="utf-8")
    assert f"The file contains the public pictures of the run as they are, and {said}." in page
    assert "are synthetic" not in page.partition("## How to load it")[0]
    assert verify(tmp_path / "out").problems == []
    plain = fit(
        "keeper", data=data, card=card, out=tmp_path / "plain", epsilon=3.0, delta=1e-3, process=Process(progress=False)
    )
    assert "as they are" not in json.dumps(plain.certificate.not_covered)
