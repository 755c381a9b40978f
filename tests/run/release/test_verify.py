"""What `verify`, `sample`, `report` and `release` take from a folder: nothing that was changed, nothing that is internal."""

import base64
import contextlib
import copy
import io
import json
import os
import shutil
import stat
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forged_sums import redo
from safetensors.torch import save

from gossamer.data.samples.samples import Samples
from gossamer.data.synthetic import glyphs
from gossamer.errors import GossamerError, LedgerDamaged, RequestError, RunFolderError
from gossamer.files import held_folder
from gossamer.intervals import Estimate
from gossamer.methods.synthesizer import Synthesizer, _Bounded
from gossamer.metrics.registry import METRICS
from gossamer.privacy import ledger as ledgers
from gossamer.privacy.certificate.certificate import sealed, sha256
from gossamer.run.release.contents import model_tensors
from gossamer.run.release.release import _clear_up, release
from gossamer.run.release.verify import INTERNAL, verify
from gossamer.run.report.audit_record import audited
from gossamer.run.report.html import write_report
from gossamer.run.storage.run_folder import SUMS

Run = Callable[..., Any]
RELEASED = [
    "README.md", "SHA256SUMS", "answers.safetensors", "certificate.json", "config.json", "croissant.json", "ledger.jsonl",
    "load.py", "model.safetensors", "report.html", "samples.png",
]  # fmt: skip
UNSIGNED = "It is not signed: nothing here shows who vouches for it."


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def released(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(made, tmp_path_factory.mktemp("released") / "out")


@pytest.fixture
def out(run: Path, released: Path, tmp_path: Path) -> Path:
    """A release of the run; many tests look at it, so it is made once and copied."""
    return Path(shutil.copytree(released, tmp_path / "out"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(answer: Any, status: int, *says: str) -> None:
    """One paragraph on stderr, nothing on stdout, this exit status."""
    assert answer.status == status, answer.err
    assert answer.out == ""
    (line,) = answer.err.strip().split("\n")
    assert line.startswith("gossamer: ")
    for words in says:
        assert words in line


def forge(run: Path, settings: dict[str, Any], **opening: Any) -> None:
    """Other settings, a ledger that pins them, a certificate that pins both: all that somebody who can write the folder can."""
    (run / "config.json").write_text(json.dumps(settings))
    first, *rest = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    first["open"] |= {"settings": sha256(run / "config.json"), **opening}
    last_hash, lines = "0" * 32, ""
    for line in (first, *rest):
        del line["hash"]
        last_hash = ledgers.chain(last_hash, line)
        lines += json.dumps({**line, "hash": last_hash}) + "\n"
    (run / "ledger.jsonl").write_text(lines)
    body = json.loads((run / "certificate.json").read_text())
    del body["seal"]
    body |= {name: settings.get(name) for name in ("method", "card", "config")}
    body["ledger"]["last_hash"] = last_hash
    (run / "certificate.json").write_text(sealed(body), encoding="utf-8")


def entries(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from entries(inner, (*path, key))


def flip(path: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# ---------------------------------------------------------------------- verify


def test_a_release_names_its_files_and_verifies(gossamer: Run, out: Path) -> None:
    assert names(out) == RELEASED
    verdict = verify(out)
    assert (verdict.problems, verdict.notes) == ([], [UNSIGNED])
    lines = dict(reversed(line.split("  ")) for line in (out / SUMS).read_text().splitlines())
    assert lines == {name: sha256(out / name) for name in RELEASED if name != SUMS}
    answer = gossamer("verify", out, "--json").json
    assert answer["ok"]
    assert set(answer) == {"ok", "problems", "guarantees", "notes", "not_checked"}
    assert [each.split(":")[0] for each in answer["not_checked"]] == [
        "model.safetensors", "certificate.json", "config.json", "report.html", "samples.png", "answers.safetensors"
    ]  # fmt: skip
    shown = gossamer("verify", out).out.splitlines()
    assert [line.removeprefix("Not checked: ") for line in shown if line.startswith("Not")] == [
        f"Note: {UNSIGNED}",
        *(line.replace("gossamer.verify(..., replay=True)", "gossamer verify ... --replay") for line in answer["not_checked"]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_every_file_of_a_release_is_checked(gossamer: Run, out: Path, name: str) -> None:
    flip(out / name)
    answer = gossamer("verify", out, "--json")
    assert answer.status == 1
    assert any(name in problem or name == SUMS for problem in answer.json["problems"])
    (out / name).unlink()
    if name != SUMS:
        assert gossamer("verify", out).status == 1


def test_an_edited_report_does_not_verify(gossamer: Run, out: Path) -> None:
    page = (out / "report.html").read_text(encoding="utf-8")
    (out / "report.html").write_text(page.replace("epsilon", "Epsilon"), encoding="utf-8")
    refused(gossamer("verify", out), 1, "report.html is not the file that was released")


def test_of_a_run_it_says_what_is_not_checked(gossamer: Run, run: Path) -> None:
    (run / "report.html").write_text("whatever")
    answer = gossamer("verify", run)
    assert answer.status == 0
    assert "Note: report.html and samples.png are not checked" in answer.out


def test_a_release_without_its_list_of_files_is_no_run(gossamer: Run, out: Path) -> None:
    (out / "SHA256SUMS").unlink()
    refused(gossamer("verify", out), 1, "SHA256SUMS is missing: README.md says that this is a release")


def test_what_does_not_belong_to_a_release_is_shown(gossamer: Run, out: Path) -> None:
    (out / "synth.npz").write_bytes(b"samples")
    answer = gossamer("verify", out)
    assert answer.status == 0
    assert "Note: 'synth.npz' is not part of the release" in answer.out
    for name in INTERNAL:
        (out / name).write_text("[]")
        refused(gossamer("verify", out), 1, f"{name} is internal")
        (out / name).unlink()


@pytest.mark.parametrize("name", ["torch.py", "load.pyc", "numpy.so", "__pycache__/load.cpython-311.pyc"])
def test_what_python_would_run_beside_the_loader_must_not_lie_there(out: Path, name: str) -> None:
    """A file that SHA256SUMS does not name, and that `import load` takes in place of load.py or of what load.py imports."""
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_bytes(b"")
    (problem,) = verify(out).problems
    assert repr(name.split("/", maxsplit=1)[0]) in problem
    assert "Delete it before you import load" in problem


def test_pictures_in_a_folder_beside_a_release_are_no_problem(out: Path, tmp_path: Path) -> None:
    (out / "synth").mkdir()
    (out / "synth" / "0.png").write_bytes(b"")
    assert verify(out).problems == []
    (out / "synth" / "link").symlink_to(tmp_path)
    (problem,) = verify(out).problems
    assert problem.startswith("'synth' is not part of the release, and Python may run")


def test_a_foreign_audit_beside_a_release_is_not_quoted(out: Path) -> None:
    verdict = "consistent, and by the office for data protection"
    said = {
        "date": "2026-01-01",
        "method": "dpgan",
        "claim": 1.0,
        "lower_bound": 0.5,
        "confidence": 0.95,
        "verdict": verdict,
    }
    (out / "audit.json").write_text(json.dumps({**said, "trials": 9, "without": 9}))
    assert verdict in audited(out)
    notes = verify(out).notes
    assert not any("Audited on" in note for note in notes)
    assert any("'audit.json' is not part of the release" in note for note in notes)


@pytest.mark.parametrize(
    "line",
    ["", "x", f"{'0' * 64}  ../../secret", f"{'0' * 64}  metrics.json", "\x00", "a  b  c"],
)
def test_sums_that_name_something_else(out: Path, line: str) -> None:
    (out / SUMS).write_text((out / SUMS).read_text() + line + "\n" if line else "")
    assert any(SUMS in problem for problem in verify(out).problems)


def test_a_file_of_a_release_that_is_a_link(out: Path, tmp_path: Path) -> None:
    (out / "report.html").rename(tmp_path / "elsewhere.html")
    (out / "report.html").symlink_to(tmp_path / "elsewhere.html")
    assert verify(out).problems == ["report.html is missing, or a link."]


def test_no_folder_no_run_an_empty_one_and_one_in_the_making(gossamer: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(gossamer("verify", tmp_path / "empty"), 2, "neither a run nor a release")
    refused(gossamer("verify", tmp_path / "nothing"), 2, "is not a folder")
    (run / "certificate.json").unlink()
    refused(gossamer("verify", run), 2, "unfinished", "gossamer resume")
    refused(gossamer("release", run, "-o", tmp_path / "out"), 2, "unfinished")
    refused(gossamer("sample", run, "-n", 3, "-o", tmp_path / "s.npz"), 2, "not a finished run")
    refused(gossamer("report", run), 2, "certificate.json")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("delta",), 1e-9, "'delta' says 1e-09; line 1 of ledger.jsonl opens with 0.001"),
        (("epsilon",), 1.0, "'epsilon' says 1.0; line 1 of ledger.jsonl opens with"),
        (("card", "unit"), "hospital", "'unit' says \"hospital\"; line 1"),
        (("card", "declared_size"), 160_000, "lead to another plan"),
        (("config", "steps"), 10, "lead to another plan"),
        (("config", "noise_multiplier"), 50.0, "lead to another plan"),
    ],
)
def test_settings_that_lead_elsewhere_than_the_ledger(run: Path, path: tuple[str, ...], value: Any, says: str) -> None:
    """Even where the ledger was made to pin them, and the certificate to state them."""
    settings = json.loads((run / "config.json").read_text())
    place = settings
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    forge(run, settings)
    assert any(says in problem for problem in verify(run).problems)


def test_settings_that_are_left_out_are_missed(run: Path) -> None:
    """The method has a default for each of them. With another default in a later version, the run would be another."""
    settings = json.loads((run / "config.json").read_text())
    del settings["config"]["physical_batch_size"]
    forge(run, settings)
    assert any("'config'" in problem and "these settings lead to" in problem for problem in verify(run).problems)


@pytest.mark.slow
def test_garbage_in_any_setting_is_a_problem_and_never_a_traceback(run: Path) -> None:
    right = json.loads((run / "config.json").read_text())
    names_only = (("seed",), ("device",), ("format",), ("versions",), ("run",), ("accounts",))
    for path in list(entries(right)):
        for value in (None, -1, 10**400, [], "inf"):
            settings = copy.deepcopy(right)
            place = settings
            for step in path[:-1]:
                place = place[step]
            if place[path[-1]] == value:
                continue  # it is so already: a card that names no classes
            place[path[-1]] = value
            forge(run, settings)
            if path == ("method",) and isinstance(value, str):
                with pytest.raises(RunFolderError, match="not installed here"):
                    verify(run)
                continue
            problems = verify(run).problems
            unread = (
                path[:1] in names_only or path[0] == "config"
            )  # a setting that no release depends on may be anything
            assert problems or unread or path in (("card", "title"), ("card", "data_set")), (path, value)
            with contextlib.suppress(GossamerError):
                Synthesizer.load(run)


def test_a_folder_that_changes_while_it_is_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is there when it is looked for, and gone when it is opened."""
    for name in ("certificate.json", "config.json", "ledger.jsonl", "model.safetensors"):
        kept = (run / name).read_bytes()
        (run / name).unlink()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "is_file", lambda self: self.name != "audit.json")
            patch.setattr(Path, "exists", lambda self, **_: True)
            patch.setattr("gossamer.run.release.verify.is_release", lambda folder: False)
            assert verify(run).problems == [f"{name} cannot be read (No such file or directory)."]
        (run / name).write_bytes(kept)


# ---------------------------------------------------------------------- folders of strangers


@pytest.fixture(scope="module")
def with_samples(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(made, tmp_path_factory.mktemp("with samples") / "out", samples=20)


@pytest.mark.parametrize("where", ["array", "header", "stored"])
def test_samples_of_a_stranger_are_not_inflated(with_samples: Path, tmp_path: Path, where: str) -> None:
    """64 MB of zeros in 65 kB, and as they are. Before, all of them were read."""
    out, size = Path(shutil.copytree(with_samples, tmp_path / "out")), 1 << 26
    pictures = np.load(out / Samples.file)["images"]
    how = zipfile.ZIP_STORED if where == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(out / Samples.file, "w", how, compresslevel=1) as archive:
        with archive.open("images.npy", "w") as member:
            np.lib.format.write_array(member, pictures)
        with archive.open("labels.npy", "w") as member:
            if where != "header":
                header = {"descr": "<i8", "fortran_order": False, "shape": (size // 8,)}
                np.lib.format.write_array_header_1_0(member, header)
            else:
                member.write(b"\x93NUMPY\x02\x00" + size.to_bytes(4, "little"))
            for _ in range(64):
                member.write(bytes(1 << 20))
    redo(out)
    tracemalloc.start()
    problems = verify(out).problems
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problems[0] == (
        "samples.npz holds arrays of different lengths." if where == "stored" else "samples.npz does not hold samples."
    )
    assert peak < size // 2, "16 MB are the room for a page"


@pytest.mark.parametrize("shape", [(10**15,), (20, 10**9), (-1,), ()], ids=["long", "wide", "negative", "a number"])
def test_samples_of_an_absurd_shape_are_refused(with_samples: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    out = Path(shutil.copytree(with_samples, tmp_path / "out"))
    pictures = np.load(out / Samples.file)["images"]
    with zipfile.ZipFile(out / Samples.file, "w") as archive:
        with archive.open("images.npy", "w") as member:
            np.lib.format.write_array(member, pictures)
        with archive.open("labels.npy", "w") as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "<i8", "fortran_order": False, "shape": shape})
    redo(out)
    assert verify(out).problems == ["samples.npz does not hold samples."]


@pytest.mark.parametrize("name", ["README.md", "load.py"])
def test_a_page_that_is_longer_than_any_is_not_read(out: Path, name: str) -> None:
    with (out / name).open("ab") as file:
        file.truncate(2**24 + 1)
    redo(out)
    assert verify(out).problems == [f"{name} is longer than 16,777,216 bytes: it is something else."]


@pytest.mark.parametrize("length", [2**22 + 1, 2**62, 0])
def test_the_header_of_a_model_has_a_bound(tmp_path: Path, length: int) -> None:
    """Sound as it is, but for its length."""
    header = b"{}".ljust(min(length, 2**23))
    (tmp_path / "model.safetensors").write_bytes(length.to_bytes(8, "little") + header)
    with pytest.raises(LedgerDamaged, match="holds something besides tensors, or is damaged"):
        model_tensors(io.BytesIO((tmp_path / "model.safetensors").read_bytes()))


def test_a_model_that_gossamer_wrote_has_tensors_only(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {
        "a": torch.zeros(0),
        "b": torch.ones(3),
        "\u00fc": torch.arange(5),
        "d": torch.tensor(True),
        "c": torch.zeros(2),
    }
    path.write_bytes(save(tensors))
    assert model_tensors(io.BytesIO(path.read_bytes())) == {
        "a": "F32",
        "b": "F32",
        "\u00fc": "I64",
        "d": "BOOL",
        "c": "F32",
    }
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    spaced = b"{" + b" " * 8 + content[9 : 8 + length]  # JSON that reads the same
    longer = len(spaced).to_bytes(8, "little") + spaced + content[8 + length :]
    for edited in (content + b"p17", content[:-1], longer):
        path.write_bytes(edited)
        with pytest.raises(LedgerDamaged):
            model_tensors(io.BytesIO(path.read_bytes()))


def test_settings_of_a_stranger_do_not_decide_how_much_memory_a_generator_takes(run: Path) -> None:
    """All tensors that are made with it are bounded, in proportion to the file that is there."""
    size = (run / "model.safetensors").stat().st_size
    with pytest.raises(RuntimeError, match="more than the file could hold"), _Bounded(4_000):
        _ = [torch.empty(500), torch.empty(501)]
    with _Bounded(4_000):
        part = torch.empty(1_000)
        for _ in range(9):
            part = part[:].fill_(1.0).view(-1)
    with _Bounded(4_000):  # what is gone again does not count, what a parameter holds does
        for _ in range(9):
            torch.empty(900)
    with pytest.raises(RuntimeError, match="more than the file could hold"), _Bounded(4_000):
        _ = [torch.nn.Parameter(torch.empty(300)) for _ in range(4)]
    settings = json.loads((run / "config.json").read_text())
    settings["config"]["width"] = 64 * settings["config"]["width"]
    forge(run, settings)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunFolderError, match="settings that this version knows"):
        patch.setattr("gossamer.methods.synthesizer._MOST_BEYOND", size)
        Synthesizer.load(run)


def test_a_drawing_program_of_many_characters_can_be_loaded() -> None:
    """In a fresh process: what it computes on its way is more than may be held at a time."""
    glyphs._fields.cache_clear()
    with _Bounded(1 << 28):
        glyphs.Glyphs("digits", 1.0, 0.0)


def test_a_pipe_in_place_of_a_signature_is_none(run: Path) -> None:
    os.mkfifo(run / "signature.json")
    assert "signature.json is not a signature." in verify(run).problems


@pytest.mark.parametrize(("today", "expired"), [("2027-12-31", False), ("2028-01-01", True)])
def test_a_release_after_its_last_day_is_said_to_be_expired(
    gossamer: Run, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, today: str, expired: bool
) -> None:
    out = release(made, tmp_path / "out", declared={"expires": "2027-12-31"})
    monkeypatch.setattr("gossamer.run.release.verify.today", lambda: today)
    note = "Expired: this release was to be used until 2027-12-31. Ask for a newer one. What its guarantee says still holds."
    answer = gossamer("verify", out)
    assert answer.status == 0
    assert (f"Note: {note}" in answer.out) == expired
    assert (note in gossamer("verify", out, "--json").json["notes"]) == expired


# ---------------------------------------------------------------------- sample, evaluate, attack


def damage(run: Path, how: str) -> None:
    if how == "model":
        flip(run / "model.safetensors")
    elif how == "settings":
        path = run / "config.json"
        path.write_text(path.read_text().replace('"latent_size": 8', '"latent_size": 9'))
    elif how == "cut ledger":
        path = run / "ledger.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    elif how == "no ledger":
        (run / "ledger.jsonl").unlink()
    elif how == "other run's model":
        (run / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes() + b" ")
    elif how == "certificate":
        path = run / "certificate.json"
        path.write_text(path.read_text().replace('"delta": 0.001', '"delta": 0.0001'))


@pytest.mark.parametrize("how", ["model", "settings", "cut ledger", "no ledger", "other run's model", "certificate"])
def test_nothing_is_taken_from_a_damaged_folder(gossamer: Run, run: Path, tmp_path: Path, how: str) -> None:
    """Exit status 1, as of `verify`: the request was right, and the folder is not what it says."""
    data = run.parent / "data.npz"
    np.savez(data, images=np.zeros((160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    damage(run, how)
    refused(gossamer("sample", run, "-n", 3, "-o", tmp_path / "s.npz"), 1, "is damaged", "Restore")
    refused(gossamer("evaluate", run, "--train", data, "--test", data), 1, "is damaged")
    refused(gossamer("attack", run, "--members", data, "--nonmembers", data), 1, "is damaged")
    with pytest.raises(LedgerDamaged, match="is damaged"):
        Synthesizer.load(run)
    assert not (tmp_path / "s.npz").exists()
    assert not (run / "metrics.json").exists()
    assert not (run / "attacks.json").exists()


def test_settings_of_another_version_are_refused_in_words(run: Path) -> None:
    settings = json.loads((run / "config.json").read_text())
    settings["config"]["momentum_of_tomorrow"] = 3
    forge(run, settings)
    with pytest.raises(RunFolderError, match="settings that this version knows"):
        Synthesizer.load(run)


# ---------------------------------------------------------------------- release, report


def test_a_release_is_released_as_it_is(gossamer: Run, out: Path, tmp_path: Path) -> None:
    (out / "synth.npz").write_bytes(b"samples")
    assert gossamer("release", out, "-o", tmp_path / "again").status == 0
    assert names(tmp_path / "again") == RELEASED
    for name in RELEASED:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
    (out / "metrics.json").write_text("[]")
    refused(gossamer("release", out, "-o", tmp_path / "third"), 2, "metrics.json is internal")
    assert not (tmp_path / "third").exists()


def test_the_report_of_a_release_is_not_rewritten(gossamer: Run, out: Path) -> None:
    before = (out / "report.html").read_bytes()
    assert before.count(b"<svg") > 0
    refused(gossamer("report", out), 2, "is a release")
    assert (out / "report.html").read_bytes() == before


def test_where_a_release_may_not_go(gossamer: Run, run: Path, out: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    (tmp_path / "link").symlink_to(out)
    shutil.copytree(run, tmp_path / "other run")
    shutil.copytree(out, tmp_path / "around")
    shutil.copytree(run, tmp_path / "around" / "run")
    for source, target, says in (
        (run, run, "is the run itself"),
        (run, tmp_path / "." / "run" / ".." / "run", "is the run itself"),
        (out, out, "is the run itself"),
        (run, run / "release", "a folder in it"),
        (run, run / "checkpoint" / "release", "a folder in it"),
        (tmp_path / "around" / "run", tmp_path / "around", "a folder around it"),
        (run, tmp_path / "file", "is a file or a link"),
        (run, tmp_path / "link", "is a file or a link"),
        (run, tmp_path / "taken", "something other than a release"),
        (run, tmp_path / "other run", "something other than a release"),
        (run, tmp_path / "file" / "out", "cannot be written"),
    ):
        refused(gossamer("release", source, "-o", target, "--force"), 2, says)
    refused(gossamer("release", run, "-o", out), 2, "is taken")
    assert {path: path.read_bytes() for path in before} == before
    assert (tmp_path / "other run" / "checkpoint").is_dir()
    assert not list(tmp_path.glob(".*"))


def test_a_release_that_is_being_replaced_comes_back_after_ctrl_c(
    run: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace = {path.name: path.read_bytes() for path in out.iterdir()}, Path.replace

    def stopped(self: Path, target: Path) -> Path:
        if self.is_dir() and Path(target) == out and not self.name.endswith(".old"):
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopped)
        with pytest.raises(KeyboardInterrupt):
            release(run, out, force=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("at", ["files", "old aside"])
def test_what_a_kill_left_of_a_release_is_cleared_up_by_the_next(
    run: Path, out: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    before, replace = {path.name: path.read_bytes() for path in out.iterdir()}, Path.replace
    beside = f".{out.name}.release-k3_9dw2x"
    shutil.copytree(out, out.with_name(beside))
    (out.with_name(beside) / "events.jsonl").write_text("internal")
    mine = out.with_name(f".{out.name}.release-remarks1")
    mine.mkdir()
    (mine / "README.md.draft").write_text("somebody's own")
    (out.with_name(beside) / ".report.html.k3_9dw2x").write_text("a file that was begun")
    if at == "old aside":
        replace(out, out.with_name(f"{beside}.old"))
        with held_folder(out.with_name(beside)) as held:
            assert held
            with held_folder(out.with_name(beside)) as also:
                assert not also
            _clear_up(out)
            assert len(list(out.parent.glob(".*"))) == 3, "another process is at it"
        with pytest.raises(RunFolderError, match="is taken"):
            release(run, out)
    else:
        release(run, out, force=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert list(out.parent.glob(".*")) == [mine]
    assert (mine / "README.md.draft").exists()


def test_force_deletes_nothing_but_a_release(run: Path, tmp_path: Path) -> None:
    """Whoever downloads an image of a disk gets a SHA256SUMS with it."""
    mine = tmp_path / "downloads"
    (mine / "thesis").mkdir(parents=True)
    (mine / "SHA256SUMS").write_text(f"{'0' * 64}  debian.iso\n")
    (mine / "debian.iso").write_text("iso")
    for _ in range(2):
        with pytest.raises(RunFolderError, match="`force=True` replaces releases only"):
            release(run, mine, force=True)
        assert (mine / "SHA256SUMS").exists()
        (mine / "SHA256SUMS").write_text(f"{'0' * 64}  model.safetensors\n")
    assert (mine / "debian.iso").read_text() == "iso"


def test_force_replaces_a_release_and_leaves_nothing_beside_it(gossamer: Run, run: Path, out: Path) -> None:
    (out / "synth.npz").write_bytes(b"samples")
    refused = gossamer("release", run, "-o", out, "--force")
    assert (refused.status, (out / "synth.npz").exists()) == (2, True)
    assert "holds synth.npz, which is no part of a release" in " ".join(refused.err.split())
    (out / "synth.npz").unlink()
    assert gossamer("release", run, "-o", out, "--force").status == 0
    assert names(out) == RELEASED
    assert not list(out.parent.glob(".*"))


def test_what_is_handed_out_was_verified_as_it_lies_there(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes into the run between the check and the copy."""

    def late(folder: Path, **options: Any) -> Path:
        flip(folder / "model.safetensors")
        return write_report(folder, **options)

    monkeypatch.setattr("gossamer.run.report.html.write_report", late)
    with pytest.raises(RequestError, match="must not be released"):
        release(run, tmp_path / "out")
    assert names(tmp_path) == ["run"]


def test_samples_are_drawn_anew_whatever_lies_under_their_name(run: Path, tmp_path: Path) -> None:
    before, report = (run / "samples.png").read_bytes(), "report.html"
    (tmp_path / "secret.png").write_bytes(b"a record")
    (run / "samples.png").unlink()
    (run / "samples.png").symlink_to(tmp_path / "secret.png")
    out = release(run, tmp_path / "out")
    assert (out / "samples.png").read_bytes() == before
    assert not (out / "samples.png").is_symlink()
    assert base64.b64encode(before).decode() in (out / report).read_text(encoding="utf-8")
    (run / "samples.png").unlink()
    assert (release(run, tmp_path / "again") / "samples.png").read_bytes() == before


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, pytest.param(0o077, marks=pytest.mark.slow)])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_internal_figures_are_private_whatever_was_there(
    gossamer: Run, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Estimate(value=0.5, low=0.4, high=0.6, n=160, computed_on="160 records")
    monkeypatch.setattr(METRICS, "measured", lambda inputs, names: [("accuracy", {"accuracy": figure}, "")])
    draw = np.random.default_rng(1)
    for name in ("inside", "outside"):
        images = draw.integers(0, 256, (160, 28, 28), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(160) % 2)
    inside, outside = tmp_path / "inside.npz", tmp_path / "outside.npz"
    assert mode(run / "report.html") == 0o600
    for name, nothing in (
        ("metrics.json", []),
        ("attacks.json", {"attacks": [], "left_out": {}, "verdict": [], "on": ""}),
    ):
        (run / name).write_text(json.dumps(nothing))
    for name in ("metrics.json", "attacks.json", "report.html"):
        (run / name).chmod(0o644)
    measured = gossamer("evaluate", run, "--train", inside, "--test", outside, "-n", 60)
    attacked = gossamer("attack", run, "--members", inside, "--nonmembers", outside, "-n", 100, "--limit", 20)
    assert (measured.status, attacked.status) == (0, 0)
    assert [entry["value"] for entry in json.loads((run / "metrics.json").read_text())] == [0.5]
    assert [mode(run / name) for name in ("metrics.json", "attacks.json", "report.html")] == [0o600] * 3


@pytest.mark.usefixtures("umask")
def test_modes_do_not_depend_on_the_umask(gossamer: Run, run: Path, tmp_path: Path) -> None:
    (run / "report.html").chmod(0o644)
    assert gossamer("report", run).status == 0
    assert mode(run / "report.html") == 0o600
    out = release(run, tmp_path / "out")
    assert {mode(path) for path in out.iterdir()} == {0o644}
    assert mode(out) == 0o755
