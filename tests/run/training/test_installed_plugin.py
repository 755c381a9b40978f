"""An installed package with a method and an encoder, through the whole command line; then the same without the package."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from installed import PACKAGE, example_entry_points, example_installed, write_dist_info
from safetensors.torch import load_file

import gossamer as package
from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.events import Event
from gossamer.methods import METHODS
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import checkpoint
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=160)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    with example_installed(tmp_path / "site"):
        yield


def records(path: Path, seed: int = 0) -> Path:
    draw = np.random.default_rng(seed)
    np.savez(path, images=draw.integers(0, 256, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the plug-in: a finished one, and one that was stopped."""
    folder = tmp_path_factory.mktemp("plugin")
    data = records(folder / "data.npz")

    def crash(event: Event, /) -> None:
        if event.kind == "step" and event.step == 30:
            raise RuntimeError

    with example_installed(folder / "site"), pytest.MonkeyPatch.context() as patch:
        settings: dict[str, Any] = {"card": CARD, "epsilon": 3.0, "delta": 1e-3, "accounts": folder / "accounts"}
        fit("class-means", data=data, out=folder / "run", **settings)
        patch.setattr(checkpoint.Clock, "due", lambda _: True)
        with pytest.raises(RuntimeError):
            fit("class-means", data=data, out=folder / "stopped", **settings, process=Process(sink=crash))
    return folder


def test_it_is_in_the_help_and_has_flags_plan_and_presets(
    installed: None, gossamer: Callable[..., Any], card: Path
) -> None:
    assert "Class means (an exercise)" in gossamer("fit", "--help").out
    assert "--latent-size" in gossamer("fit", "class-means", "--help").out
    budget = ("--epsilon", 3, "--delta", 1e-3)
    planned = gossamer("plan", "class-means", "--card", card, *budget, "--preset", "quick", "--json")
    assert planned.status == 0, planned.err
    assert (planned.json["steps"], planned.json["sampling_rate"]) == (10, 1.0)
    assert "class-means quick: ten steps" in gossamer("presets", "class-means").out
    advice = gossamer("recommend", "--card", card, "--epsilon", 3)
    assert advice.status == 0, advice.err
    assert "class-means" in advice.out


def test_the_whole_way(installed: None, made: Path, gossamer: Callable[..., Any], tmp_path: Path) -> None:
    """Resume, verify, release, sample, evaluate, compare and report; the certificate names the plug-in."""
    run, out = tmp_path / "run", tmp_path / "out"
    shutil.copytree(made / "stopped", run)
    resumed = gossamer("resume", run, "--accounts", tmp_path / "accounts")
    assert resumed.status == 0, resumed.err
    checked = gossamer("verify", run)
    assert checked.status == 0, checked.out
    assert "The method class-means (class-means 1.2.0) is a plug-in, which Gossamer did not review." in checked.out
    sides = ("--train", made / "data.npz", "--test", records(tmp_path / "test.npz", seed=1))
    measured = gossamer("evaluate", run, *sides, "--metrics", "neighbours", "-n", 100)
    assert measured.status == 0, measured.err
    compared = gossamer("compare", run, "--metric", "precision")
    assert compared.status == 0, compared.err
    assert "class-means" in compared.out
    shown = gossamer("report", run)
    assert shown.status == 0, shown.err
    report = (run / "report.html").read_text()
    assert "the method class-means (class-means 1.2.0)" in report
    released = gossamer("release", run, "-o", out)
    assert released.status == 0, released.err
    assert not (out / "load.py").exists()
    assert "its method is a plug-in, whose code is not part of Gossamer" in (out / "README.md").read_text()
    assert gossamer("verify", out).status == 0
    assert gossamer("sample", out, "-n", 30, "-o", tmp_path / "synth.npz").status == 0
    with np.load(tmp_path / "synth.npz") as drawn:
        assert drawn["images"].shape[0] == 30
    certificate = json.loads((out / "certificate.json").read_text())
    assert "assumes that the method class-means (class-means 1.2.0) is right" in json.dumps(certificate)
    entry = json.loads((out / "config.json").read_text())["plugins"]
    origin = plugins.origin("method", "class-means")
    assert entry == [origin.to_json()]
    assert (origin.package, origin.version, origin.licence) == ("class-means", "1.2.0", "Apache-2.0")
    assert len(origin.source) == 64
    assert origin.source == plugins.source_of("class_means")


def test_an_encoder_by_its_name_through_the_command_line(
    installed: None, made: Path, gossamer: Callable[..., Any], card: Path, tmp_path: Path
) -> None:
    """The features are those of the package; with the package gone, the release says what is missing."""
    run, out, accounts = tmp_path / "run", tmp_path / "out", tmp_path / "accounts"
    given = ("--data", made / "data.npz", "--card", card, "--epsilon", 3, "--delta", 1e-3, "--accounts", accounts)
    fitted = gossamer("fit", "teacher", *given, "--encoder", "block-means", "--steps", 5, "--out", run)
    assert fitted.status == 0, fitted.err
    assert load_file(run / "model.safetensors")["head.weight"].shape == (2, 49)
    assert gossamer("release", run, "-o", out).status == 0
    assert re.search(r"did not declare: .*\bpretrained\b", (out / "README.md").read_text())
    checked = gossamer("verify", out)
    assert checked.status == 0, checked.out
    assert "The encoder block-means (class-means 1.2.0) is a plug-in" in checked.out
    assert gossamer("sample", out, "-n", 5, "-o", tmp_path / "s.npz").status == 0
    (entry,) = json.loads((out / "certificate.json").read_text())["facts"]["public_inputs"][-1:]
    assert entry["origin"] == "trained on: nothing: it has no weights (as its author states)"


@pytest.mark.parametrize("method", ["class-means", "class_means:ClassMeans"])
def test_a_plugin_that_declares_a_trial_is_audited(installed: None, gossamer: Callable[..., Any], method: str) -> None:
    """60 trials of one query over all records: the bound is above 0 and below the claim."""
    answer = gossamer("audit", method, "--epsilon", 20, "--trials", 30, "--json")
    if ":" in method:
        plugins.remove("method", "class-means")
    assert answer.status == 0, answer.err
    audited = answer.json
    assert (audited["method"], audited["releases"], audited["sampling_rate"]) == ("class-means", 1, 1.0)
    assert 1 < audited["lower_bound"] < audited["claim"] <= 20
    assert audited["trials"] + audited["without"] == 60


def test_the_noise_of_a_plugin_is_found_too_small(
    installed: None, gossamer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the noise is added in its query."""
    added = Rng.add_gaussian_
    monkeypatch.setattr(Rng, "add_gaussian_", lambda self, out, std: added(self, out, std / 4))
    answer = gossamer("audit", "class-means", "--epsilon", 3, "--trials", 200, "--json")
    assert (answer.status, answer.json["verdict"]) == (1, "REFUTED")


def test_the_run_of_a_plugin_is_audited_with_its_bound(
    installed: None, made: Path, gossamer: Callable[..., Any]
) -> None:
    shutil.copytree(made / "run", made / "audited")
    answer = gossamer("audit", "--run", made / "audited", "--trials", 20, "--json")
    assert answer.status == 0, answer.err
    assert answer.json["settings"]["max_norm"] == 16.0


def test_what_has_no_part_for_a_plugin_refuses_it(
    installed: None, gossamer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(METHODS["class-means"]), "trial", None)
    refused = gossamer("audit", "class-means")
    assert refused.status == 2
    assert "class-means declares no trial, so it cannot be audited." in refused.err
    assert gossamer("federated", "class-means").status == 2


def test_without_the_package_every_command_says_what_is_missing(
    made: Path, gossamer: Callable[..., Any], tmp_path: Path
) -> None:
    """It reads like a missing package, never like a forgery."""
    with example_installed(tmp_path / "site"):
        assert gossamer("release", made / "run", "-o", tmp_path / "out").status == 0
    for words in (
        ("verify", made / "run"),
        ("verify", tmp_path / "out"),
        ("sample", made / "run", "-n", 3, "-o", tmp_path / "a.npz"),
        ("sample", tmp_path / "out", "-n", 3, "-o", tmp_path / "b.npz"),
        ("resume", made / "stopped"),
        ("release", made / "run", "-o", tmp_path / "again"),
    ):
        refused = gossamer(*words)
        assert refused.status == 2, words
        assert "'class-means', which is not installed here" in refused.err, words
        assert "That says nothing against it." in refused.err
        assert "Install the package" in refused.err
        assert refused.out == ""
        assert "\n" not in refused.err.strip()
        assert not any(word in refused.err for word in ("changed", "forged", "damaged", "unexpected", "does not agree"))


def test_an_edited_run_is_reported_as_such_without_the_package(
    made: Path, gossamer: Callable[..., Any], tmp_path: Path
) -> None:
    """A fault in the files goes before the missing package."""
    shutil.copytree(made / "run", tmp_path / "run")
    model = tmp_path / "run" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")
    refused = gossamer("verify", tmp_path / "run")
    assert refused.status == 1
    assert "model.safetensors" in refused.err


def test_resume_refuses_another_version_of_the_plugin(
    made: Path, gossamer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source has changed: half of the run would be of each."""
    shutil.copytree(made / "stopped", tmp_path / "run")
    monkeypatch.setattr(plugins, "source_of", lambda module: "0" * 64)
    with example_installed(tmp_path / "site"):
        refused = gossamer("resume", tmp_path / "run", "--accounts", tmp_path / "accounts")
        noted = gossamer("verify", made / "run")
    assert refused.status == 2
    assert "has another SHA-256 of its source than when the run began. Restore version 1.2.0" in refused.err
    assert noted.status == 0
    assert "has another source here than when the run began" in noted.out


def test_the_encoder_of_the_package(installed: None) -> None:
    encode = plugins.load("encoder", "block-means")
    rows = encode(torch.full((2, 3, 28, 28), 255, dtype=torch.uint8))
    assert rows.shape == (2, 49)
    assert torch.equal(rows, torch.ones(2, 49))
    origin = plugins.origin("encoder", "block-means")
    assert (origin.package, origin.trained_on) == ("class-means", "nothing: it has no weights")
    assert (origin.weights, origin.licence) == (plugins.NOT_KNOWN, "Apache-2.0")
    assert plugins.names("encoder")[:2] == ["lite0", "block-means"]  # behind them: what this process has named


def test_an_import_of_gossamer_loads_no_plugin_and_no_tests(tmp_path: Path) -> None:
    write_dist_info(tmp_path, "class-means", example_entry_points())
    code = "import sys, gossamer, gossamer.run.cli.main; print([n for n in sys.modules if n.split('.')[0] in "
    code += "('pytest', 'class_means') or n.startswith('gossamer.testing')])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def environment(*folders: Path) -> dict[str, str]:
    """That of a process with this source, and these folders, on its path."""
    source = Path(package.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*folders, source])), "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_a_real_installation(tmp_path: Path) -> None:
    """pip builds and installs the package; the program finds it; without it, the run is no forgery."""
    shutil.copytree(PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    target, run = tmp_path / "target", tmp_path / "run"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*words, "--target", str(target), str(tmp_path / "package")], check=True, capture_output=True)
    assert not any(path.name.startswith("test_") for path in target.rglob("*.py"))

    def called(*words: object, path: tuple[Path, ...] = (target,)) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "gossamer", *map(str, words)]
        env = environment(*path) | {"XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.run(program, check=False, env=env, cwd=tmp_path, capture_output=True, text=True)

    assert "class-means" in called("fit", "--help").stdout
    CARD.save(tmp_path / "card.toml")
    budget = ("--card", "card.toml", "--epsilon", 3, "--delta", 1e-3)
    fitted = called("fit", "class-means", "--data", records(tmp_path / "data.npz"), *budget, "--out", run)
    assert fitted.returncode == 0, fitted.stderr
    checked = called("verify", run)
    assert checked.returncode == 0, checked.stdout
    assert "class-means (class-means 1.2.0) is a plug-in" in checked.stdout
    missing = called("verify", run, path=())
    assert missing.returncode == 2
    assert "not installed here" in missing.stderr
    assert "class-means" not in METHODS
