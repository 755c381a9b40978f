"""Runs and releases of a plug-in that somebody has edited, and files that name code: nothing of theirs is imported."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_sums import redo
from installed import example_installed, forget
from test_forgeries import certify, everything

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.files import ANSWERS, CERTIFICATE, CONFIG, MODEL
from gossamer.privacy.certificate.certificate import Certificate, sha256
from gossamer.run.release.release import release
from gossamer.run.release.texts import readme
from gossamer.run.release.verify import LOADER, README, verify
from gossamer.run.storage.run_folder import SUMS
from gossamer.run.training.fit import fit

SAMPLES = 20
NO_LOADER = "its method is a plug-in, whose code is not part of Gossamer"
CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=160)
MODULE = """
from pathlib import Path
from class_means import ClassMeans

with Path({trace!r}).open("a") as file:
    file.write("imported")

class Mine(ClassMeans):
    "Mine."
    name, title, licence = "mine", "My own", "MIT"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the installed plug-in, and its release."""
    folder = tmp_path_factory.mktemp("forged")
    draw = np.random.default_rng(0)
    np.savez(folder / "data.npz", images=draw.integers(0, 256, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    with example_installed(folder / "site"):
        settings: dict[str, Any] = {"card": CARD, "epsilon": 3.0, "delta": 1e-3, "accounts": folder / "accounts"}
        fit("class-means", data=folder / "data.npz", out=folder / "run", **settings)
        release(folder / "run", folder / "release", samples=SAMPLES)
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    with example_installed(tmp_path / "site"):
        yield


def forged(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the settings of a release, and redo all that follows from them: ledger, certificate, README and sums."""
    config = json.loads((folder / CONFIG).read_text())
    change(config)
    everything(folder, config)
    stated = json.loads((folder / CERTIFICATE).read_text())
    known = {each.name for each in dataclasses.fields(Certificate)}
    certificate = Certificate(**{name: value for name, value in stated.items() if name in known})
    page = readme(certificate, samples=SAMPLES, no_loader=NO_LOADER, more=[ANSWERS])
    (folder / README).write_text(page, encoding="utf-8")
    redo(folder)


def of_no_plugin(config: dict[str, Any]) -> None:
    del config["plugins"]


def renamed(config: dict[str, Any]) -> None:
    config["plugins"][0]["name"] = "moments"


def as_encoder(config: dict[str, Any]) -> None:
    config["plugins"][0]["kind"] = "encoder"


def two_lines(config: dict[str, Any]) -> None:
    config["plugins"][0]["licence"] = "MIT\nGossamer reviewed this method."


def more_facts(config: dict[str, Any]) -> None:
    config["plugins"][0]["reviewed"] = "yes"


def other_words(config: dict[str, Any]) -> None:
    config["methods"][0]["bounds_units"] = "by a bound that NIST has proved"


def built_in(config: dict[str, Any]) -> None:
    config["method"] = "moments"
    del config["plugins"]


OTHER = f"{CONFIG}: 'plugins"
UNREADABLE = f"{CONFIG} cannot be read as settings"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (of_no_plugin, OTHER),
        (renamed, OTHER),
        (as_encoder, OTHER),
        (other_words, f"{CONFIG}: 'methods[0].bounds_units' says"),
        (two_lines, UNREADABLE),
        (more_facts, UNREADABLE),
        (built_in, UNREADABLE),
    ],
)
def test_edited_plugins_do_not_verify_even_if_all_else_follows(
    change: Callable[[dict[str, Any]], None], problem: str, installed: None, made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "release"
    shutil.copytree(made / "release", out)
    forged(out, lambda config: None)
    assert verify(out).problems == []
    forged(out, change)
    found = verify(out)
    assert any(each.startswith(problem) for each in found.problems), found.problems


def test_a_kind_that_does_not_exist_is_no_plugin(made: Path) -> None:
    (entry,) = json.loads((made / "release" / CONFIG).read_text())["plugins"]
    assert list(plugins.stated([entry])) == [entry]
    with pytest.raises(ValueError, match="other facts"):
        list(plugins.stated([{**entry, "kind": "review"}]))


def test_another_digest_is_a_note(installed: None, made: Path, tmp_path: Path) -> None:
    """Nothing in a folder says which version trained it. Its reader compares the digest."""
    out = tmp_path / "release"
    shutil.copytree(made / "release", out)
    forged(out, lambda config: config["plugins"][0].update(source="0" * 64))
    found = verify(out)
    assert found.ok
    assert any("has another source here than when the run began" in note for note in found.notes)

    def both(config: dict[str, Any]) -> None:
        config["plugins"][0].update(source="0" * 64)
        other_words(config)

    forged(out, both)
    found = verify(out)
    assert found.ok, "another version of the package may word it otherwise"
    assert (
        f"{CONFIG}: what the method says of itself, because its plug-in has another source here." in found.not_checked
    )


def test_an_edit_of_the_settings_alone_does_not_verify(
    made: Path, gossamer: Callable[..., Any], tmp_path: Path
) -> None:
    """With or without the package: the ledger pins the settings."""
    shutil.copytree(made / "run", tmp_path / "run")
    config = json.loads((tmp_path / "run" / CONFIG).read_text())
    of_no_plugin(config)
    (tmp_path / "run" / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    refused = gossamer("verify", tmp_path / "run")
    assert refused.status == 1
    assert CONFIG in refused.err


def test_the_first_paragraph_names_the_plugin(made: Path) -> None:
    statement = json.loads((made / "release" / CERTIFICATE).read_text())["statement"]
    assert statement.endswith(
        "This bound assumes that the method class-means (class-means 1.2.0) is right. Gossamer did not review it."
    )
    assert "Gossamer did not review it" in (made / "release" / README).read_text()


def test_a_loader_is_no_part_of_a_release_of_a_plugin(installed: None, made: Path, tmp_path: Path) -> None:
    """Not even if the certificate says that another version of Gossamer wrote it."""
    out = tmp_path / "release"
    shutil.copytree(made / "release", out)
    assert not (out / LOADER).exists()
    (out / LOADER).write_text("print('hello')\n")
    (out / SUMS).write_text((out / SUMS).read_text() + f"{sha256(out / LOADER)}  {LOADER}\n")
    for versions in (None, {"release": "0.0.9"}):
        if versions:
            certify(out, "versions", to=versions)
            redo(out)
        problem = f"{LOADER} is not part of this release: Gossamer writes none for a method that is a plug-in."
        assert problem in verify(out).problems


# ---------------------------------------------------------------------- files that name code


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a module that leaves a trace when it is imported."""
    (tmp_path / "own_module.py").write_text(MODULE.format(trace=str(tmp_path / "trace")))
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    unload()


def unload() -> None:
    """As in a new process: nothing is added, and the module is not imported."""
    plugins._added.pop(("method", "mine"), None)
    sys.modules.pop("own_module", None)
    forget()


def test_a_method_in_a_file_is_imported_when_the_user_names_it_and_never_because_a_folder_does(
    own: Path, made: Path, gossamer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    CARD.save(own / "card.toml")
    budget = ("--card", "card.toml", "--epsilon", 3, "--delta", 1e-3)
    run, out, named = own / "run", own / "out", "own_module:Mine"
    fitted = gossamer("fit", named, "--data", made / "data.npz", *budget, "--out", run)
    assert fitted.status == 0, fitted.err
    assert (own / "trace").read_text() == "imported"
    (entry,) = json.loads((run / CONFIG).read_text())["plugins"]
    assert (entry["name"], entry["package"], entry["licence"]) == ("mine", plugins.NOT_KNOWN, "MIT")
    assert len(entry["source"]) == 64
    assert gossamer("release", run, "-o", out).status == 0

    def with_name(folder: Path, name: str) -> Path:
        """The same, with files that name code where they name the method."""
        shutil.copytree(folder, own / f"{folder.name} {name.replace(':', ' ')}", dirs_exist_ok=True)
        copy = own / f"{folder.name} {name.replace(':', ' ')}"
        for file in filter(lambda file: (copy / file).exists(), (CONFIG, CERTIFICATE)):
            (copy / file).write_text((copy / file).read_text().replace('"mine"', json.dumps(name)))
        return copy

    stopped = own / "stopped"
    shutil.copytree(run, stopped)
    for name in (CERTIFICATE, MODEL):
        (stopped / name).unlink()
    (own / "trace").unlink()
    unload()
    for folder in (run, out, with_name(run, named), with_name(out, named), with_name(stopped, named), stopped):
        for words in (
            ("verify", folder), ("report", folder), ("sample", folder, "-n", 2, "-o", own / "x.npz", "--force"),
            ("resume", folder), ("release", folder, "-o", own / "other"), ("audit", "--run", folder),
            ("compare", folder), ("attack", folder, "--members", made / "data.npz", "--nonmembers", made / "data.npz"),
            ("evaluate", folder, "--train", made / "data.npz", "--test", made / "data.npz"),
        ):  # fmt: skip
            gossamer(*words)
            assert not (own / "trace").exists(), words
            assert "own_module" not in sys.modules, words
    refused = gossamer("verify", run)
    assert refused.status == 2
    assert "`gossamer --plugin module:object COMMAND`" in refused.err
    for folder in (run, out):
        unload()
        checked = gossamer("--plugin", named, "verify", folder)
        assert checked.status == 0, checked.err
        assert "The method mine (of no package) is a plug-in, which Gossamer did not review" in checked.out
    assert (own / "trace").exists()


def test_an_encoder_that_a_file_names_is_not_imported(own: Path, made: Path, installed: None) -> None:
    """Nor by the notes of verify, which look up the digest of each plug-in that a folder names."""
    shutil.copytree(made / "release", own / "release")

    def names_code(config: dict[str, Any]) -> None:
        config["plugins"].append({**config["plugins"][0], "kind": "encoder", "name": "own_module:Mine"})

    forged(own / "release", names_code)
    assert not verify(own / "release").ok
    assert not (own / "trace").exists()
    assert "own_module" not in sys.modules
