"""Who vouches for a release: an Ed25519 signature (RFC 8032) over the names and SHA-256 of its files.

`signature.json` is beside the files that it names: all files of a release, the final files of a RUN. The certificate is one of
them, with all that it declares. Keys are PEM files as OpenSSL writes them.
"""

import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gossamer.errors import RequestError, RunFolderError
from gossamer.files import at_home, write_atomically
from gossamer.privacy.certificate.certificate import sha256
from gossamer.privacy.certificate.declarations import is_date
from gossamer.run.storage.run_folder import SIGNATURE

_CONTEXT = b"gossamer signature 1\n"
"""Prefix of what is signed, so that a signature of the key on something else cannot pass for this."""
_LARGEST = 2**16  # bytes of a signature or a key


def new_key(path: Path) -> None:
    """Make a private key (mode 0600) and a public key, PATH.pub.

    Raises:
        RunFolderError: if one of the two exists, or cannot be written.
    """
    public = path.with_name(f"{path.name}.pub")
    for taken in (path, public):
        if taken.exists() or taken.is_symlink():
            raise RunFolderError(f"{taken} exists, and a key is never replaced. Leave `new_key` out to use it.")
    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private_text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public_text = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        write_atomically(path, private_text, private=True)
        write_atomically(public, public_text)
    except OSError as error:
        raise RunFolderError(f"{path} cannot be written ({error.strerror}). Name another place.") from None


def sign(folder: Path, names: list[str], *, key: Path, date: str) -> str:
    """Write signature.json over the files of these names. Gives the public key in hexadecimal.

    Raises:
        RequestError: if the key is none, or is not the user's alone.
        RunFolderError: if the folder cannot be written.
    """
    private = _private(key)
    public_key = private.public_key().public_bytes_raw().hex()
    files = {name: sha256(folder / name) for name in names}
    payload = {"format": 1, "date": date, "files": files, "public_key": public_key}
    signed = {**payload, "signature": private.sign(_message(payload)).hex()}
    try:
        write_atomically(folder / SIGNATURE, _text(signed))
    except OSError as error:
        raise RunFolderError(f"{folder / SIGNATURE} cannot be written ({error.strerror}).") from None
    return public_key


def check(folder: Path, names: list[str], *, key: str | None) -> tuple[list[str], list[str]]:
    """What is wrong with the signature of a folder, and what to note about it, each in a sentence.

    Args:
        folder: a RUN or a release.
        names: all files that a signature has to name.
        key: the public key that must have signed: a PEM file, or 64 hexadecimal digits. None: any key, or no signature.

    Raises:
        RequestError: if the key is none.
    """
    required_key = None if key is None else _public(key).public_bytes_raw().hex()
    try:
        payload = _read(folder / SIGNATURE)
    except FileNotFoundError:
        if required_key is None:
            return [], ["It is not signed: nothing here shows who vouches for it."]
        return [f"{SIGNATURE} is missing: it is not signed."], []
    if payload is None:
        return [f"{SIGNATURE} is not a signature."], []
    if required_key is not None and payload["public_key"] != required_key:
        return [f"{SIGNATURE} is by another key, {payload['public_key']}."], []
    signature = bytes.fromhex(payload.pop("signature"))
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(payload["public_key"])).verify(signature, _message(payload))
    except InvalidSignature:
        return [f"{SIGNATURE} does not hold: it, or what it says, was changed."], []
    if sorted(payload["files"]) != sorted(names):
        return [f"{SIGNATURE} does not name the files of this folder."], []
    changed = [
        name for name in names if not (folder / name).is_file() or sha256(folder / name) != payload["files"][name]
    ]
    problems = [f"{name} is not the file that was signed (its SHA-256 differs from {SIGNATURE})." for name in changed]
    whose = f"Signed on {payload['date']} with the key {payload['public_key']}"
    note = f"{whose}." if required_key else f"{whose}. Whose key that is, this check cannot know: give `key`."
    return problems, [note]


def _text(payload: Any) -> bytes:
    return json.dumps(payload, indent=2).encode() + b"\n"


def _message(payload: dict[str, Any]) -> bytes:
    return _CONTEXT + json.dumps(payload, sort_keys=True).encode()


def _read(path: Path) -> dict[str, Any] | None:
    """A signature as `sign` writes it, or None. Raises FileNotFoundError if there is no such file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):  # a pipe would never end
        return None
    with path.open("rb") as file:
        content = file.read(_LARGEST)
    try:
        payload = json.loads(content)
        # an entry that is written twice: people read the first, programs the last
        if content != _text(payload):
            return None
    except (ValueError, RecursionError):
        return None
    match payload:
        case {"format": 1, "date": date, "files": dict(files), "public_key": str(key), "signature": str(signature)}:
            texts = all(isinstance(digest, str) for digest in files.values())
            whole = len(payload) == 5 and texts and is_date(date) and _is_hex(key, 32) and _is_hex(signature, 64)
            return dict(payload) if whole else None
        case _:
            return None


def _is_hex(text: str, length: int) -> bool:
    return len(text) == 2 * length and set(text) <= set("0123456789abcdef")


def _private(path: Path) -> Ed25519PrivateKey:
    content = _content(path, is_private=True)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except TypeError:  # how the library says that there is a passphrase
        raise RequestError(f"{path}: the key has a passphrase. Give a key without one.") from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise RequestError(f"{path} holds no Ed25519 private key in PEM. `new_key` makes one.")
    return key


def _public(key_text: str) -> Ed25519PublicKey:
    # Digits are never a file name: the working folder may come from an attacker.
    if _is_hex(key_text.lower(), 32):
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key_text))
    try:
        key = serialization.load_pem_public_key(_content(at_home(key_text)))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise RequestError(
            f"{key_text} holds no Ed25519 public key. `key` takes the PEM file of a public key (K.pub) or its 64 hexadecimal "
            "digits."
        )
    return key


def _content(path: Path, *, is_private: bool = False) -> bytes:
    try:
        flags = os.O_NONBLOCK if is_private else 0  # so that a pipe is refused, and not waited for
        with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
            if is_private:
                _refuse_shared(path, os.fstat(file.fileno()))
            return file.read(_LARGEST)
    except OSError as error:
        raise RequestError(f"the key {path} cannot be read ({error.strerror}).") from None


def _refuse_shared(path: Path, status: os.stat_result) -> None:
    """Refuse a private key that is not the user's alone: somebody else may sign with it."""
    if not stat.S_ISREG(status.st_mode):
        raise RequestError(f"the key {path} is no regular file. Give the PEM file of the key.")
    if status.st_uid != os.geteuid():
        raise RequestError(f"the key {path} belongs to another user, who can sign with it too. Use a key of your own.")
    if status.st_mode & 0o077:
        raise RequestError(
            f"Others on this machine can read or change the key {path}, and sign in your name. Is it yours and nobody had it? "
            f"`chmod 600 {shlex.quote(str(path))}`. Else make a key with `new_key`."
        )
