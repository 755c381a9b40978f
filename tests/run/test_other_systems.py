"""A recipient on Windows has neither locks nor signals of Linux, and can load, sample and verify a release."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer
from gossamer import files
from gossamer.privacy import PrivacyLedger

ROOT = Path(__file__).resolve().parents[2]
CARD = gossamer.DataCard(shape=(1, 8, 8), classes=2, declared_size=80, data_set="made up")
MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
NAMES = {
    os: ("O_DIRECTORY", "fchmod", "fork", "geteuid", "killpg", "sysconf"),
    signal: ("SIGHUP",),
    socket: ("AF_UNIX",),
}
"""What Windows has not."""
FEDERATED = ROOT / "src/gossamer/run/federated/simulate.py"
"""It is no part of what a recipient does."""
BLOCKED = f"""
import os, runpy, signal, socket, sys

for name in {MODULES}:
    sys.modules[name] = None
for module, names in ((os, {NAMES[os]}), (signal, {NAMES[signal]}), (socket, {NAMES[socket]})):
    for name in names:
        delattr(module, name)
"""
RECIPIENT = """
import numpy as np
import gossamer

release, out = sys.argv[1:]
verdict = gossamer.verify(release)
assert verdict.ok, verdict.problems
samples = gossamer.Synthesizer.load(release).sample(20, seed=0)
samples.save(out)
print(samples.images.sum())
card = gossamer.DataCard(shape=(1, 8, 8), classes=2, declared_size=80)
try:
    gossamer.fit("moments", data="no such file", card=card, epsilon=1, delta=1e-3)
except gossamer.errors.RequestError as error:
    print(error)
sys.argv = ["check_release.py", release]
try:
    runpy.run_path("{checker}", run_name="__main__")
except SystemExit as end:
    assert not end.code
sys.argv = ["load.py", "--help"]
sys.path.insert(0, release)
import load
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> "gossamer.Synthesizer[gossamer.Samples]":
    """The release."""
    folder = tmp_path_factory.mktemp("made")
    pictures = np.random.default_rng(0).integers(0, 255, (80, 8, 8)).astype(np.uint8), np.arange(80) % 2
    asked: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "axes": 4, "accounts": folder / "log"}
    fitted = gossamer.fit("moments", data=pictures, card=CARD, out=folder / "run", **asked)
    fitted.release(folder / "release", samples=10)
    return gossamer.Synthesizer[gossamer.Samples].load(folder / "release")


def test_no_module_imports_at_its_top_what_only_linux_and_macos_have() -> None:
    at_top = re.compile(rf"^(import|from) ({'|'.join(MODULES)})\b", re.MULTILINE)
    found = {path for path in (ROOT / "src").rglob("*.py") if at_top.search(path.read_text(encoding="utf-8"))}
    assert found == {FEDERATED}


def test_a_recipient_loads_samples_and_verifies_and_a_run_is_refused_before_anything_is_read(
    made: "gossamer.Synthesizer[gossamer.Samples]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = made.sample(20, seed=0)
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    for module, names in NAMES.items():
        for name in names:
            monkeypatch.delattr(module, name)
    assert gossamer.verify(made.path).ok
    samples = gossamer.Synthesizer[gossamer.Samples].load(made.path).sample(20, seed=0)
    assert np.array_equal(samples.images, expected.images)
    samples.save(tmp_path / "samples.npz")
    for begin in (
        lambda: gossamer.fit("moments", data="no such file", card="no such card", epsilon=1, delta=1e-3),
        lambda: PrivacyLedger(budget=1, delta=1e-3).create(tmp_path / "ledger.jsonl"),
    ):
        with pytest.raises(gossamer.errors.RequestError, match="This system cannot lock files, so no run begins here"):
            begin()
    assert [path.name for path in tmp_path.iterdir()] == ["samples.npz"]


@pytest.mark.slow
def test_a_program_without_these_modules_does_the_same(
    made: "gossamer.Synthesizer[gossamer.Samples]", tmp_path: Path
) -> None:
    """From the first import on, with the loader of the release and the independent checker."""
    program = BLOCKED + RECIPIENT.replace("{checker}", str(ROOT / "tools/check_release.py"))
    done = subprocess.run(
        [sys.executable, "-c", program, made.path, tmp_path / "samples.npz"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    total, refused, *checked = done.stdout.splitlines()
    assert int(total) == made.sample(20, seed=0).images.sum()
    assert refused.startswith("This system cannot lock files, so no run begins here, and nothing was read.")
    assert any("epsilon" in line for line in checked)
    assert (tmp_path / "samples.npz").is_file()


@pytest.mark.parametrize(
    ("system", "ordered", "expected"),
    [("darwin", True, [51]), ("darwin", False, [51, "fsync"]), ("linux", True, ["fsync"])],
)
def test_a_file_is_written_to_the_disk_itself(
    system: str, ordered: bool, expected: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[object] = []

    class Module:
        F_FULLFSYNC = 51

        @staticmethod
        def fcntl(_descriptor: int, order: int) -> None:
            asked.append(order)
            if not ordered:
                raise OSError("a disk without this order")

    monkeypatch.setitem(sys.modules, "fcntl", Module)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: asked.append("fsync"))
    files.write_atomically(tmp_path / "file", "text")
    assert asked == expected
