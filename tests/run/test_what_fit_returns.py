"""What `fit` returns can be judged, attacked, saved and released; a run without a folder leaves nothing behind."""

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer
from gossamer.errors import RequestError, RunFolderError
from gossamer.events import Event

CARD = gossamer.DataCard(shape=(1, 8, 8), classes=2, declared_size=80, class_names=("dark", "bright"))


def pictures(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 2
    noise = np.random.default_rng(0).integers(0, 40, (n, 8, 8))
    return (noise + 180 * labels[:, None, None]).astype(np.uint8), labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def fitted(folder: Path) -> "gossamer.Synthesizer[gossamer.Samples]":
    return gossamer.fit(
        "moments", data=pictures(), card=CARD, noise_multiplier=0.5, delta=1e-3, axes=4, out=folder / "run",
        accounts=folder / "log",
    )  # fmt: skip


def test_a_label_is_a_name_or_a_number(fitted: "gossamer.Synthesizer[gossamer.Samples]") -> None:
    bright = fitted.sample(6, label="bright", seed=0)
    assert bright.labels.tolist() == [1] * 6
    assert np.array_equal(bright.images, fitted.sample(6, label=1, seed=0).images)
    assert bright.images.mean() > fitted.sample(6, label="dark", seed=0).images.mean() + 50
    for wrong, words in (("grey", "no class is 'grey'. Known: dark, bright"), (2, "whole numbers from 0 to 1")):
        with pytest.raises(RequestError, match=words):
            fitted.sample(6, label=wrong)
    with pytest.raises(RequestError, match="`label` cannot be given together"):
        fitted.sample(6, label="dark", labels=[0] * 6)


def test_it_is_judged_attacked_and_released(fitted: "gossamer.Synthesizer[gossamer.Samples]", folder: Path) -> None:
    images, labels = pictures(120)
    found = fitted.evaluate(train=pictures(), test=(images[80:], labels[80:]), count=80, metrics="nearest")
    assert found.metrics
    other = np.random.default_rng(1).integers(0, 255, (80, 8, 8)).astype(np.uint8), np.arange(80) % 2
    assert fitted.attack(members=pictures(), nonmembers=other, count=40, limit=20).verdict
    release = fitted.release(folder / "release", samples=5)
    assert gossamer.verify(release).ok
    assert gossamer.Synthesizer.load(release).path == release.absolute()
    assert fitted.path == Path(os.fspath(fitted)) == (folder / "run").absolute()


def test_it_is_saved_whole_where_nothing_is(fitted: "gossamer.Synthesizer[gossamer.Samples]", folder: Path) -> None:
    saved = fitted.save(folder / "below" / "kept")
    assert saved.path == (folder / "below/kept").absolute()
    assert {path.name for path in saved.path.iterdir()} == {path.name for path in fitted.path.iterdir()}
    assert stat.S_IMODE((saved.path / "checkpoint").stat().st_mode) == 0o700
    assert gossamer.verify(saved.path).ok
    assert np.array_equal(saved.sample(3, seed=1).images, fitted.sample(3, seed=1).images)
    assert [path.name for path in (folder / "below").iterdir()] == ["kept"]
    with pytest.raises(RunFolderError, match="holds a finished run"):
        fitted.save(saved.path)


def test_a_run_without_a_folder_is_silent_and_goes_with_the_program_unless_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    at_exit: list[Any] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("atexit.register", lambda *call, **named: at_exit.append((call, named)))
    card = gossamer.DataCard(shape=(1, 8, 8), classes=2, declared_size=80, data_set="made up")
    made = gossamer.fit(
        "moments", data=pictures(), card=card, noise_multiplier=1.0, delta=1e-3, axes=4, accounts=tmp_path / "log"
    )
    assert (made.path.parent.parent, made.path.parent.stat().st_mode & 0o777) == (tmp_path, 0o700)
    kept = made.save(tmp_path / "kept")
    (((remove, place), named),) = at_exit
    remove(place, **named)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "log"]
    assert gossamer.verify(kept.path).ok
    assert capfd.readouterr() == ("", "")


def test_a_sink_and_a_bar_work_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from gossamer.run.training import progress

    shown: list[Event] = []
    monkeypatch.setattr(progress.Terminal, "has_viewer", True)
    monkeypatch.setattr(progress.Terminal, "__call__", lambda _self, event: shown.append(event))
    own: list[Event] = []
    asked: list[tuple[dict[str, Any], int, int]] = [
        ({"sink": own.append}, 1, 1), ({"sink": own.append, "progress": False}, 0, 1), ({}, 1, 0),
        ({"sink": progress.Terminal()}, 1, 0), ({"progress": False}, 0, 0),
    ]  # fmt: skip
    for options, in_terminal, in_sink in asked:
        shown.clear(), own.clear()
        with gossamer.Process(**options).shown() as sink:
            sink(Event("step", 1))
        assert (len(shown), len(own)) == (in_terminal, in_sink), options
