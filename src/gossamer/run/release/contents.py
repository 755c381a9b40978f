"""What the model and the samples of a folder hold: no more than the generator, and what it draws.

The folder may be a stranger's. So sizes are compared before anything is read or inflated, and memory stays in proportion to the
files as they are on disk.
"""

import csv
import io
import itertools
import json
import math
import os
import platform
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from gossamer.data.tables.any_card import SAMPLES, card_class
from gossamer.errors import DataError, LedgerDamaged, RequestError, RunFolderError
from gossamer.files import MODEL
from gossamer.kinds import kind_of
from gossamer.lazy import Lazy
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.storage.versions import versions, with_source

if TYPE_CHECKING:
    import torch

    from gossamer.methods import synthesizer
else:
    torch, synthesizer = Lazy("torch"), Lazy("gossamer.methods.synthesizer")

SAMPLE_SETS = tuple(samples.file for samples in SAMPLES.values())
"""The files of samples that a release may have: it has that of its kind of records."""
TABLES = "tables.csv"
"""The file of noisy tables that a release of a table may have."""
RELEASED_BY, TRAINED_ON, DRAWN_ON = "release", "machine", "samples"
"""Keys in the versions of a certificate: the Gossamer that wrote the release, and the machines of its run and its samples."""
MOST_HEADER = 2**22
"""Bytes of the header of a model, which names its tensors."""


def samples_seed(certificate: Certificate) -> int:
    """The seed of the samples in a release. It follows from the model: nobody picks samples, and anyone can draw them again."""
    return int(certificate.model["sha256"][:15], 16)


def drawn_on() -> str:
    """What decides the last digits of a model and samples: PyTorch, the kind of processor, and the number of threads."""
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


def of_model(folder: Path, certificate: Certificate) -> "tuple[synthesizer.Synthesizer | None, list[str]]":
    """The generator of a folder, and what was not compared. None: the generator cannot be made here.

    Names, shapes and types of the tensors follow from method, settings and card.

    Raises:
        LedgerDamaged: if the file does not hold that generator, and nothing else.
    """
    with (folder / MODEL).open("rb") as file:
        stored = model_tensors(file)
    try:
        with warnings.catch_warnings():  # of plug-ins, of which `verify` speaks
            warnings.simplefilter("ignore")
            generator = synthesizer.Synthesizer.load(folder)
    except synthesizer.PluginMissing as error:
        return None, [f"{MODEL}: names and shapes of its tensors. {error}"]
    except RunFolderError:
        if certificate.versions.get("gossamer") == versions()["gossamer"]:
            raise
        return None, [f"{MODEL}: names and shapes of its tensors, because another version of Gossamer wrote it."]
    if stored != model_tensors(io.BytesIO(synthesizer.model_bytes(generator.net))):
        raise LedgerDamaged(f"{MODEL} holds numbers of another type than the generator's.")
    return generator, []


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


def write_tables(path: Path, generator: "synthesizer.Synthesizer") -> None:
    """Write the noisy tables behind a generator. Raises RequestError: there are none."""
    rows = _table_rows(generator)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _table_rows(generator: "synthesizer.Synthesizer") -> list[list[str]]:
    """A head, and for each cell of each table its values, the noisy count, and the standard error of the noise."""
    tables = generator.tables()
    width = 2 * max(len(table.names) for table in tables)
    head = [f"{part}_{at}" for at in range(1, width // 2 + 1) for part in ("column", "value")]
    rows = [["table", *head, "count", "standard_error"]]
    for number, table in enumerate(tables, 1):
        figures = np.stack([table.counts.ravel(), table.standard_errors.ravel()], 1).tolist()
        for values, pair in zip(itertools.product(*table.values), figures, strict=True):
            cell = [*itertools.chain(*zip(table.names, values, strict=True))]
            rows.append([str(number), *cell, *[""] * (width - len(cell)), *(f"{each:.6g}" for each in pair)])
    return rows


def of_tables(
    folder: Path, certificate: Certificate, generator: "synthesizer.Synthesizer | None"
) -> tuple[list[str], list[str]]:
    """Compare the noisy tables of a release with those of its model. What is wrong, and what was not compared."""
    unknown = f"{TABLES}: whether its counts are those of the model"
    if generator is None:
        return [], [f"{unknown}, because the generator cannot be made here."]
    try:
        with (folder / TABLES).open(encoding="utf-8", newline="") as file:
            same = all(_is_row(*pair) for pair in zip(csv.reader(file), _table_rows(generator), strict=True))
    except (RequestError, csv.Error, ValueError, IndexError, RuntimeError):  # of a stranger's model
        same = False
    if same:
        return [], []
    if certificate.versions.get(RELEASED_BY) == with_source():
        return [f"{TABLES} does not hold the noisy tables of {MODEL}."], []
    return [], [f"{unknown}. It differs from what this version writes."]


def _is_row(given: list[str], own: list[str]) -> bool:
    """Whether a row of noisy tables is the same, up to rounding. Raises ValueError: a figure is no number."""
    if given == own or given[:-2] != own[:-2]:
        return given == own
    scale = 1e-5 * float(own[-1])
    pairs = zip(given[-2:], own[-2:], strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=scale) for a, b in pairs)
