"""What encoders, autoencoders and generators from files share: their path, the TOML file beside them, and their packages."""

import importlib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gossamer.errors import RequestError


def relative(reader: str, name: str) -> Path:
    """The path of a file or a folder. reader: what its plug-ins are called, as onnx in onnx:FILE.

    Raises:
        RequestError: if the path is absolute.
    """
    path = Path(name)
    if path.is_absolute():
        raise RequestError(
            f"{reader}:{name} is an absolute path, and the certificate would show it. Go to a folder above it, and name it "
            "from there."
        )
    return path


def read_facts(content: bytes, where: str, needed: Iterable[str], optional: Iterable[str]) -> dict[str, Any]:
    """The facts of a TOML file. where: its name, for messages.

    Raises:
        RequestError: if it cannot be read, or has other keys.
    """
    try:
        facts = tomllib.loads(content.decode())
    except ValueError as error:
        raise RequestError(f"{where} cannot be read ({error}).") from error
    missing = [name for name in needed if name not in facts]
    unknown = [name for name in facts if name not in (*needed, *optional)]
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"has the unknown key {unknown[0]!r}"
        has = ", ".join(needed) or "no key that is needed"
        raise RequestError(f"{where} {what}. It has {has}, and may have {', '.join(optional)}.")
    return facts


def installed(module: str, otherwise: str) -> Any:
    """A module of a package that need not be installed. Raises RequestError: it is not; `otherwise` is the message."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise RequestError(otherwise) from None


def as_tensor(content: bytes) -> Tensor:
    """Bytes as numbers, so that a digest of weights covers them. uint8 [n]"""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
