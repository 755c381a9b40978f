"""What the model and the samples of a folder hold: no more than the generator, and what it draws.

The folder may be a stranger's. So sizes are compared before anything is read or inflated, and memory stays in proportion to the
files as they are on disk.
"""

import io
import json
import os
import platform
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gossamer.data.tables.any_card import SAMPLES, card_class
from gossamer.errors import DataError, LedgerDamaged, RunFolderError
from gossamer.kinds import kind_of
from gossamer.lazy import Lazy
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.certificate.statements import MODEL
from gossamer.run.storage.versions import versions, with_source

if TYPE_CHECKING:
    import torch

    from gossamer.methods import synthesizer
else:
    torch, synthesizer = Lazy("torch"), Lazy("gossamer.methods.synthesizer")

SAMPLE_SETS = tuple(samples.file for samples in SAMPLES.values())
"""The files of samples that a release may have: it has that of its kind of records."""
RELEASED_BY, DRAWN_ON = "release", "samples"
"""Keys in the versions of a certificate: the Gossamer that wrote the release, and the machine that drew its samples."""
MOST_HEADER = 2**22
"""Bytes of the header of a model, which names its tensors."""


def samples_seed(certificate: Certificate) -> int:
    """The seed of the samples in a release. It follows from the model: nobody picks samples, and anyone can draw them again."""
    return int(certificate.model["sha256"][:15], 16)


def drawn_on() -> str:
    """What decides the last digits of samples: PyTorch, the kind of processor, and the number of threads."""
    processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return f"torch {versions()['torch']}, {processor}, threads {torch.get_num_threads()}"


def model_tensors(file: BinaryIO) -> dict[str, str]:
    """The type of each tensor of a safetensors file, by its name. Reads the header only.

    Raises:
        LedgerDamaged: if the file has anything besides tensors: metadata, other entries, bytes that belong to no tensor.
    """
    length = int.from_bytes(file.read(8), "little")
    text = file.read(length) if length <= MOST_HEADER else b""
    entries: Any = None
    try:
        entries = json.loads(text)
        at, types = 0, {}
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            if entry.keys() != {"dtype", "shape", "data_offsets"} or entry["data_offsets"][0] != at:
                raise ValueError(name)
            at, types[name] = entry["data_offsets"][1], str(entry["dtype"])
        written = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
        if (
            8 + length + at != file.seek(0, os.SEEK_END)
            or text[: len(written)] != written
            or text[len(written) :].strip(b" ")
        ):
            raise ValueError("more than tensors")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        more = "metadata" if isinstance(entries, dict) and "__metadata__" in entries else "something besides tensors"
        raise LedgerDamaged(f"{MODEL} holds {more}, or is damaged: Gossamer writes tensors only.") from None
    return types


def of_model(folder: Path, certificate: Certificate) -> "tuple[synthesizer.Synthesizer | None, list[str], list[str]]":
    """The generator of a folder, what is wrong with its file, and what was not compared.

    Names, shapes and types of the tensors follow from method, settings and card. None: the generator cannot be made here.
    """
    try:
        with (folder / MODEL).open("rb") as file:
            stored = model_tensors(file)
    except LedgerDamaged as error:
        return None, [str(error)], []
    try:
        with warnings.catch_warnings():  # of plug-ins, of which `verify` speaks
            warnings.simplefilter("ignore")
            generator = synthesizer.Synthesizer.load(folder)
    except synthesizer.PluginMissing as error:
        return None, [], [f"{MODEL}: names and shapes of its tensors. {error}"]
    except RunFolderError as error:
        if certificate.versions.get("gossamer") == versions()["gossamer"]:
            return None, [str(error)], []
        return None, [], [f"{MODEL}: names and shapes of its tensors, because another version of Gossamer wrote it."]
    if stored != model_tensors(io.BytesIO(synthesizer.model_bytes(generator.net))):
        return None, [f"{MODEL} holds numbers of another type than the generator's."], []
    return generator, [], []


def sample_set(certificate: Certificate) -> str:
    """The file of samples in a release, if it has one."""
    return SAMPLES[card_class(certificate.card).kind].file


def of_samples(
    folder: Path, certificate: Certificate, generator: "synthesizer.Synthesizer | None", count: int
) -> tuple[list[str], list[str]]:
    """Draw the samples of a release again. What is wrong with the file, and what was not compared.

    Samples may differ in their last digits between machines. So they are refused only if the same version drew them here.
    """
    name = sample_set(certificate)
    unknown = f"{name}: whether the generator drew it"
    if generator is None:
        return [], [f"{unknown}, because the generator cannot be made here."]
    if getattr(generator.net, "samples_on_gpu", False):
        return [], [f"{unknown}, because drawing again takes long."]
    pieces = generator.stream(count, seed=samples_seed(certificate))
    try:
        drawn, same = kind_of(generator.card).same_samples(folder / name, pieces, count)
    except DataError as error:
        return [str(error)], []
    if same:
        return [], [f"{unknown} beyond the first {drawn:,}."] * (drawn < count)
    machine = certificate.versions.get(DRAWN_ON, "an earlier version of Gossamer")
    if certificate.versions.get(RELEASED_BY) == with_source() and machine == drawn_on():
        return [f"{name} is not what the generator draws with the seed of this release."], []
    return [], [f"{unknown}. It differs from what is drawn here, which may be rounding. It was drawn by: {machine}."]
