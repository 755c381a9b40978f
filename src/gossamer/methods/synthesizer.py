"""Synthesizer: what is left when the records are gone."""

import errno
import json
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gossamer.data.memory_mapped import free_memory
from gossamer.data.tables.any_card import SAMPLES, card_from
from gossamer.errors import GossamerError, RequestError, RunFolderError
from gossamer.files import at_home, replaced
from gossamer.methods import method_of
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.methods.registry import changed_plugins
from gossamer.privacy.certificate.certificate import CERTIFICATE, CONFIG, LEDGER, Certificate
from gossamer.privacy.certificate.statements import MODEL
from gossamer.privacy.device_check import present

_MOST_BEYOND, _MOST_TIMES = 1 << 28, 16
"""Bytes of all tensors that are made with a generator before it is loaded: so many, and so many times the size of its file."""
_SYSTEM_ERROR = re.compile(r"os error (\d+)")
"""How safetensors states the number of an error of the system."""


class PluginMissing(RunFolderError):
    """A plug-in without which the generator cannot be made is not here, or has other weights."""


class _Bounded(TorchFunctionMode):
    """Refuse to make tensors of more than so many bytes together: the settings may be a stranger's."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made._base is None and not any(made is given for given in args):
            self.left -= made.nbytes
            if self.left < 0:
                raise RuntimeError("more than the file could hold")
        return made


def _counted(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise RequestError(f"n must be a whole number of zero or more, not {n!r}.")
    return int(n)


@dataclass(frozen=True, repr=False)
class Synthesizer:
    """A released generator with its certificate. Built by `fit` or `load`, never by hand.

    Args:
        net: the generator.
        job: its method, with the settings of its run and the data card.
        certificate: what it promises.
        folder: of its run, or its release. A Synthesizer is a path to it, as `gossamer.evaluate` takes it.
    """

    net: nn.Module
    job: Job[BaseConfig, State]
    certificate: Certificate
    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        return f"Synthesizer({self.job.method.name}, {self.card.samples_in_words(self.classes)}; {self.certificate!r})"

    def _repr_html_(self) -> str:
        """Show some samples and the certificate, in a notebook. The samples have a fixed seed."""
        return str(self.samples.preview(self)._repr_html_()) + self.certificate._repr_html_()

    @property
    def config(self) -> BaseConfig:
        """The settings of its run, public."""
        return self.job.config

    @property
    def card(self) -> Any:
        """The public facts of the data it imitates: a DataCard, or a TableCard."""
        return self.job.card

    @property
    def samples(self) -> type[Any]:
        """The class of its samples: `Samples` or `TableSamples`."""
        return SAMPLES[self.card.kind]

    @property
    def classes(self) -> int:
        """The labels that the generator knows: those of the card, or one where it is unconditional or has no label column."""
        return int(self.net.classes)  # type: ignore[arg-type]  # every generator states it

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the labels of its samples are called; empty where the card says nothing, or the generator is unconditional."""
        names: tuple[str, ...] = self.card.class_names
        return names if len(names) == self.classes else ()

    def sample(self, n: int, *, labels: Sequence[int] | np.ndarray | None = None, seed: int | None = None) -> Any:
        """Draw samples: `Samples` with uint8 images [n, C, H, W] and int64 labels [n], or the `TableSamples` of a table.

        Args:
            n: how many.
            labels: integers [n], the class of each, or of a table the code of the label column. Default: of pictures drawn from
                the declared label prior, of a table from the generator. An unconditional generator knows one label only, 0.
            seed: fixes the samples; default: a fresh one.

        Raises:
            RequestError: as `stream`; or if so many take more than the memory that is free.
        """
        size = _counted(n) * self.samples.sizes(self.card)[1]
        if size > free_memory():
            raise RequestError(
                f"n: {n:,} samples take {size / 1e9:,.0f} GB, and {free_memory() / 1e9:,.1f} GB of memory are free. Take them "
                "in pieces, with `stream`."
            )
        return self.samples.joined(self.stream(n, labels=labels, seed=seed), n, self.card, self.class_names)

    def stream(
        self,
        n: int,
        *,
        labels: Sequence[int] | np.ndarray | None = None,
        seed: int | None = None,
        made: Callable[[int], object] = lambda _: None,
    ) -> Iterator[Any]:
        """The same samples in pieces, at most 1,000 pictures or 20,000 rows, so that memory stays bounded.

        made: is called with the number of samples after each piece, for progress. Default: nothing is shown.

        Raises:
            RequestError: if n is negative or no whole number, or labels do not fit n and the declared classes.
        """
        n = _counted(n)
        wanted = None if labels is None else self._checked(labels, n)
        stream = torch.Generator()
        _ = stream.seed() if seed is None else stream.manual_seed(seed)
        most, _ = self.samples.sizes(self.card)
        values_seed = secrets.randbits(62) if seed is None else seed
        sizes = [min(most, n - start) for start in range(0, n, most)]
        first = 0
        for size, drawn in zip(sizes, self.job.chunks(self.net, sizes, wanted, stream), strict=True):
            yield self.samples.piece(self.card, self.class_names, values_seed, first, drawn)
            first += size
            made(first)

    def _checked(self, labels: Sequence[int] | np.ndarray, n: int) -> Tensor:
        array = np.asarray(labels)
        if n == 0 and array.size == 0:
            return torch.zeros(0, dtype=torch.int64)
        if array.shape != (n,) or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= self.classes:
            raise RequestError(f"labels must be {n:,} whole numbers from 0 to {self.classes - 1}, one per sample.")
        return torch.from_numpy(array.astype(np.int64))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Synthesizer":
        """Read a run or a release folder after checking its files against each other. Needs no data.

        Raises:
            RunFolderError: if the folder holds no finished run, or one of another version, or its encoder or generator is not
                here or has other weights.
            LedgerDamaged: if a file was changed, cut or exchanged since the run ended; see `Certificate.load`.
        """
        folder = at_home(folder)
        if not folder.is_dir():
            raise RunFolderError(f"{folder} is no folder: give a finished RUN, or a release.")
        for name in (CERTIFICATE, MODEL):
            if not (folder / name).is_file():
                remedy = "`gossamer.resume` finishes it." if (folder / LEDGER).is_file() else "Give a finished RUN."
                raise RunFolderError(f"{folder} holds no {name}: it is not a finished run. {remedy}")
        certificate = Certificate.load(folder)
        method = method_of(certificate.method, folder=folder)
        try:
            job = Job.of(method, certificate.config, card_from(certificate.card))
            _check_plugins(job, folder)
            job.check()
            with _Bounded(_MOST_BEYOND + _MOST_TIMES * (folder / MODEL).stat().st_size):
                net = method.net(job.config, job.card)
        except RunFolderError:
            raise
        except (GossamerError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            raise RunFolderError(
                f"{folder / CERTIFICATE} does not hold a method and settings that this version knows; its 'versions' name "
                "the one that wrote it."
            ) from error
        return cls(net, job, certificate, folder.absolute()).with_weights(folder / MODEL)

    def on(self, device: str) -> "Synthesizer":
        """The same generator on a device, cpu, cuda or cuda:1, in place. Samples differ by rounding.

        Raises:
            RequestError: if this machine has no such device, or samples of its method are made on the processor.
        """
        place = present(device)
        if place.type != "cpu" and not getattr(self.net, "samples_on_gpu", False):
            raise RequestError(
                f"`device={device}`: samples of {self.job.method.name} are made on the processor. Leave the option out."
            )
        self.net.to(place)
        return self

    def with_weights(self, path: Path) -> "Synthesizer":
        """The same generator with the weights of a safetensors file, in place.

        Raises:
            RunFolderError: if they do not fit.
        """
        try:
            self.net.load_state_dict(load_file(path))
        except (SafetensorError, RuntimeError) as error:
            raise RunFolderError(
                f"{path} does not hold the generator that {CERTIFICATE} describes, as this version builds it; 'versions' there "
                "name the one that wrote it."
            ) from error
        self.net.eval()
        return self


def _check_plugins(job: Job[BaseConfig, State], folder: Path) -> None:
    """Refuse a run or a release whose encoder or generator is not here or has other weights; warn of another source."""
    begun_with = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("plugins", [])
    try:
        changed = changed_plugins(job.own_pretrained, begun_with, "weights")
        edited = changed_plugins(job.own_pretrained, begun_with, "source")
    except RequestError as error:
        raise PluginMissing(f"{folder} cannot be used without a plug-in. {error}") from error
    if changed:
        raise PluginMissing(f"{changed[0]}: with other weights, {folder} has other samples than its run.")
    for text in edited:
        warnings.warn(f"{text}, if it gives other samples.", stacklevel=3)


def model_bytes(net: nn.Module) -> bytes:
    """The generator's weights in the safetensors format."""
    return to_bytes(_weights(net))


def save_model(path: Path, net: nn.Module) -> None:
    """Write the same to a file, with no copy of the weights in memory. Raises OSError, also for a full disk."""
    with replaced(path) as partial:
        try:
            save_file(_weights(net), partial)
        except SafetensorError as error:
            number = int(_SYSTEM_ERROR.findall(str(error) + f"os error {errno.EIO}")[0])
            raise OSError(number, os.strerror(number)) from None


def _weights(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
