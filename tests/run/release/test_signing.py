"""Who stands for a release: what a signature covers, whose it is, and what no signature may be."""

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from gossamer.errors import RequestError, RunFolderError
from gossamer.privacy.certificate.certificate import sealed, sha256
from gossamer.run.release.release import release, sign
from gossamer.run.release.signing import check, new_key
from gossamer.run.release.verify import to_sign, verify
from gossamer.run.storage.run_folder import SIGNATURE, SUMS

Run = Callable[..., Any]
PEM = serialization.Encoding.PEM


@pytest.fixture(scope="module")
def signed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed release, with its key in the folder around it."""
    around = tmp_path_factory.mktemp("signed")
    out = release(made, around / "out", declared={"contact": "office@example.org"})
    sign(out, key=around / "me", new_key=True)
    return around


@pytest.fixture
def out(signed: Path, tmp_path: Path) -> Path:
    shutil.copytree(signed, tmp_path / "copy")
    return tmp_path / "copy" / "out"


def signature(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / SIGNATURE).read_text()))


def put(out: Path, said: Any) -> None:
    (out / SIGNATURE).write_text(json.dumps(said, indent=2) + "\n")


def test_the_way_through_the_command_line(gossamer: Run, signed: Path, out: Path, tmp_path: Path) -> None:
    (out / SIGNATURE).unlink()
    made = gossamer("sign", out, "--key", tmp_path / "key", "--new-key")
    assert made.status == 0, made.err
    public = made.out.strip().split("\n")[-1]
    assert len(public) == 64
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    for key in (tmp_path / "key.pub", public, public.upper()):
        answer = gossamer("verify", out, "--key", key)
        assert (answer.status, answer.err) == (0, "")
        assert f"with the key {public}." in answer.out
    answer = gossamer("verify", out)
    assert answer.status == 0
    assert "Whose key that is, this check cannot know" in answer.out
    refused = gossamer("verify", out, "--key", signed / "me.pub")
    assert refused.status == 1
    assert f"{SIGNATURE} is by another key, {public}." in refused.err
    again = gossamer("sign", out, "--key", signed / "me")
    assert again.status == 2
    assert "is signed already" in again.err
    assert gossamer("sign", out, "--key", signed / "me", "--force").status == 0
    assert gossamer("verify", out, "--key", signed / "me.pub").status == 0


def test_without_a_signature_a_key_is_not_satisfied(out: Path, signed: Path) -> None:
    (out / SIGNATURE).unlink()
    assert verify(out, key=str(signed / "me.pub")).problems == [f"{SIGNATURE} is missing: it is not signed."]
    assert verify(out).problems == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path
        return
    for key, each in inner:
        yield from leaves(each, (*path, key))


def test_an_edit_of_any_field_is_caught_under_new_seals_and_sums(out: Path) -> None:
    """All that whoever can write the folder can do, but for the key: the declared fields too."""
    body = json.loads((out / "certificate.json").read_text())
    del body["seal"]
    paths, before = list(leaves(body)), json.dumps(body)
    assert {("declared", "contact"), ("declared", "attacked", "exfiltration"), ("created",)} <= set(paths)
    for path in paths:
        changed = json.loads(before)
        place = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = "something else"
        (out / "certificate.json").write_text(sealed(changed), encoding="utf-8")
        sums = (out / SUMS).read_text().splitlines()
        new = [
            f"{sha256(out / 'certificate.json')}  certificate.json" if "certificate" in line else line for line in sums
        ]
        (out / SUMS).write_text("\n".join(new) + "\n")
        problems, _ = check(out, to_sign(out), key=None)
        assert [problem.split(" ")[0] for problem in problems] == ["certificate.json", SUMS], path


def test_every_file_of_a_signed_release_is_covered(out: Path, signed: Path) -> None:
    names = to_sign(out)
    assert {"README.md", "load.py", "report.html", "samples.png", "model.safetensors", SUMS} <= set(names)
    assert set(names) == {path.name for path in out.iterdir()} - {SIGNATURE}
    for name in names:
        kept = (out / name).read_bytes()
        for content in (kept + b" ", None):
            (out / name).write_bytes(content) if content else (out / name).unlink()
            problems, _ = check(out, names, key=str(signed / "me.pub"))
            assert problems == [f"{name} is not the file that was signed (its SHA-256 differs from {SIGNATURE})."]
        (out / name).write_bytes(kept)
    assert verify(out, key=str(signed / "me.pub")).problems == []


def test_what_a_signature_says_cannot_be_changed(out: Path, signed: Path) -> None:
    right = signature(out)
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    raw = other.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    fewer = {name: digest for name, digest in right["files"].items() if name != "README.md"}
    for change in ({"date": "2020-01-01"}, {"files": fewer}, {"public_key": raw}, {"signature": "00" * 64}):
        put(out, {**right, **change})
        assert verify(out).problems == [f"{SIGNATURE} does not hold: it, or what it says, was changed."], change
    put(out, {**right, "files": {**right["files"], "README.md": "00" * 32}})
    assert "does not hold" in verify(out).problems[0]


def test_a_signature_over_fewer_files_is_none_of_this_folder(out: Path, signed: Path) -> None:
    from gossamer.run.release import signing

    (out / SIGNATURE).unlink()
    signing.sign(out, ["certificate.json"], key=signed / "me", date="2026-11-22")
    assert verify(out).problems == [f"{SIGNATURE} does not name the files of this folder."]


def test_garbage_is_no_signature(out: Path) -> None:
    right = signature(out)
    text = (out / SIGNATURE).read_text()
    twice = text.replace('"date"', '"date": "2020-01-01",\n  "date"')
    for content in ("", "{}", "[]", "[" * 100_000, twice, text.rstrip("\n"), '{"format": 1}', "\x00", "x" * 100_000):
        (out / SIGNATURE).write_text(content)
        assert verify(out).problems == [f"{SIGNATURE} is not a signature."], content[:50]
    garbage = [{name: value} for name in right for value in (None, 3, "x", [], {}, "zz" * 32)]
    for change in [*garbage, {"more": 1}, {"files": {"README.md": 1}}, {"format": 2}, {"date": "today"}]:
        put(out, {**right, **change})
        assert verify(out).problems, change
    (out / SIGNATURE).unlink()
    (out / SIGNATURE).symlink_to(out / "README.md")
    assert verify(out).problems == [f"{SIGNATURE} is not a signature."]


def test_the_digits_of_a_key_are_the_key_whatever_file_is_called_like_them(
    out: Path, signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who edits a release and signs it anew may put a file with a key of their own where `verify` is called: in the release."""
    honest = signature(out)["public_key"]
    (out / SIGNATURE).unlink()
    theirs = sign(out, key=tmp_path / "mallory", new_key=True)
    assert theirs != honest
    monkeypatch.chdir(tmp_path)
    (tmp_path / honest).write_bytes((tmp_path / "mallory.pub").read_bytes())
    assert any("by another key" in problem for problem in verify(out, key=honest).problems)
    assert not verify(out, key=f"./{honest}").problems


def test_keys_that_are_none_are_refused_in_words(out: Path, tmp_path: Path) -> None:
    (out / SIGNATURE).unlink()
    own = ed25519.Ed25519PrivateKey.generate()
    pkcs8, locked = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    (tmp_path / "locked").write_bytes(own.private_bytes(PEM, pkcs8, locked))
    curve = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "curve").write_bytes(curve.private_bytes(PEM, pkcs8, serialization.NoEncryption()))
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "curve.pub").write_bytes(curve.public_key().public_bytes(PEM, spki))
    (tmp_path / "text").write_text("a key")
    for name in ("locked", "curve", "text"):
        (tmp_path / name).chmod(0o600)
    for name, says in (
        ("locked", "has a passphrase"),
        ("curve", "no Ed25519 private key"),
        ("text", "no Ed25519 private key"),
        ("nothing", "cannot be read"),
    ):
        with pytest.raises(RequestError, match=says):
            sign(out, key=tmp_path / name)
    for name, says in (
        ("curve.pub", "no Ed25519 public key"),
        ("text", "no Ed25519 public key"),
        ("nothing", "cannot be read"),
    ):
        with pytest.raises(RequestError, match=says):
            verify(out, key=str(tmp_path / name))
    assert not (out / SIGNATURE).exists()


def test_a_key_is_never_replaced_and_never_lies_in_what_is_handed_out(out: Path, tmp_path: Path) -> None:
    (out / SIGNATURE).unlink()
    new_key(tmp_path / "key")
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(RunFolderError, match="a key is never replaced"):
        sign(out, key=tmp_path / "key", new_key=True)
    assert (tmp_path / "key").read_bytes() == before
    with pytest.raises(RequestError, match="would be handed out with it"):
        sign(out, key=out / "key", new_key=True)
    assert not (out / "key").exists()


def test_a_key_that_others_have_does_not_sign(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (out / SIGNATURE).unlink()
    new_key(tmp_path / "key")
    for mode in (0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644):
        (tmp_path / "key").chmod(mode)
        with pytest.raises(RequestError, match=r"Others on this machine can read or change the key .*`chmod 600"):
            sign(out, key=tmp_path / "key")
    (tmp_path / "key").chmod(0o400)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(RequestError, match="is no regular file"):
        sign(out, key=tmp_path / "pipe")
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
        with pytest.raises(RequestError, match="belongs to another user"):
            sign(out, key=tmp_path / "key")
    assert not (out / SIGNATURE).exists()
    (tmp_path / "link").symlink_to(tmp_path / "key")
    assert sign(out, key=tmp_path / "link")


def test_what_does_not_verify_is_not_signed(out: Path, signed: Path) -> None:
    (out / "README.md").write_text("edited")
    with pytest.raises(RequestError, match="is not signed: "):
        sign(out, key=signed / "me", force=True)


def test_a_release_of_a_release_keeps_its_signature_and_a_run_is_signed_by_itself(
    made: Path, out: Path, signed: Path, tmp_path: Path
) -> None:
    copied = release(out, tmp_path / "again")
    assert verify(copied, key=str(signed / "me.pub")).problems == []
    shutil.copytree(made, tmp_path / "run")
    sign(tmp_path / "run", key=signed / "me")
    (tmp_path / "run" / "report.html").write_text("a report is rewritten after every evaluation")
    assert verify(tmp_path / "run", key=str(signed / "me.pub")).problems == []
    own = release(tmp_path / "run", tmp_path / "of the run")
    assert not (own / SIGNATURE).exists()
