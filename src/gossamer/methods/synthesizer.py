"""Synthesizer: what is left when the records are gone. `run/synthesizer.py` adds what a run can do with it."""

import errno
import json
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from gossamer.data.memory_mapped import free_memory
from gossamer.data.samples.samples import Samples
from gossamer.data.tables import conditions
from gossamer.data.tables.any_card import SAMPLES, card_from
from gossamer.data.tables.samples import NoisyTable, TableSamples, merged_texts
from gossamer.errors import GossamerError, RequestError, RunFolderError
from gossamer.files import CERTIFICATE, CONFIG, LEDGER, MODEL, at_home, replaced
from gossamer.methods import method_of
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.methods.registry import changed_plugins
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.device_check import present

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    S_co = TypeVar("S_co", covariant=True, default=Samples | TableSamples)
else:
    from typing import TypeVar

    S_co = TypeVar("S_co")

_MOST_BEYOND, _MOST_TIMES = 1 << 28, 16
"""Bytes of all tensors that are made with a generator before it is loaded: so many, and so many times the size of its file."""
_SYSTEM_ERROR = re.compile(r"os error (\d+)")
"""How safetensors states the number of an error of the system."""
_MOST_TRIES = 1_000
"""Rows that are drawn for each that meets the conditions on values, at most."""


class PluginMissing(RunFolderError):
    """A plug-in without which the generator cannot be made is not here, or has other weights."""


class _Bounded(TorchFunctionMode):
    """Refuse to hold tensors of more than so many bytes at a time: the settings may be a stranger's."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = self.left = most
        self.held: list[tuple[StorageWeakRef, int]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made._base is None and not any(made is given for given in args):
            self.left -= made.nbytes
            self.held.append((StorageWeakRef(made.untyped_storage()), made.nbytes))
            if self.left < 0:
                self._count()
        return made

    def _count(self) -> None:
        """Count what is still held. A parameter holds the memory of the tensor that it was made from."""
        self.held = [(memory, size) for memory, size in self.held if not memory.expired()]
        self.left = self.most - sum(size for _, size in self.held)
        if self.left < 0:
            raise RuntimeError("more than the file could hold")


def _counted(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise RequestError(f"n must be a whole number of zero or more, not {n!r}.")
    return int(n)


@dataclass(frozen=True, repr=False)
class Synthesizer(Generic[S_co]):
    """A released generator with its certificate. Built by `fit` or `load`, never by hand.

    Args:
        net: the generator.
        job: its method, with the settings of its run and the data card.
        certificate: what it promises.
        path: the folder of its run, or its release. Functions that take such a path take a Synthesizer, too.
    """

    net: nn.Module
    job: Job[BaseConfig, State]
    certificate: Certificate
    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

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
    def classifier(self) -> Callable[[Tensor], Tensor] | None:
        """The released classifier, see `classifier_of`."""
        return classifier_of(self.net)

    @property
    def remark(self) -> str:
        """Which classes noise hides, as the released model says; empty: none."""
        numbers, names = getattr(self.net, "unseen", []), self.class_names
        named = ", ".join(repr(names[number]) if names else str(number) for number in numbers)
        return named and f"Mostly noise: samples of class {named}. Noise hides what its records have in common."

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

    def sample(
        self,
        n: int,
        *,
        label: str | int | None = None,
        labels: Sequence[int] | np.ndarray | None = None,
        where: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> S_co:
        """Draw samples: `Samples` with uint8 images [n, C, H, W] and int64 labels [n], or the `TableSamples` of a table.

        Args:
            n: how many.
            label: the class of all of them, by its name or its number.
            labels: integers [n], the class of each, or of a table the code of the label column. Default: of pictures drawn from
                the declared label prior, of a table from the generator. An unconditional generator knows one label only, 0.
            where: what columns of a table must be, such as `{"sex": "f", "age": (60, 80)}`; see `Conditions.of`.
            seed: fixes the samples; default: a fresh one.

        Raises:
            RequestError: as `stream`; or if there is no such label, or so many take more than the memory that is free.
        """
        if label is not None:
            if labels is not None or where:
                raise RequestError("`label` cannot be given together with `labels` or `where`. Give one of them.")
            labels = np.full(_counted(n), self._number_of(label))
        size = _counted(n) * self.samples.sizes(self.card)[1]
        if size > free_memory():
            raise RequestError(
                f"n: {n:,} samples take {size / 1e9:,.0f} GB, and {free_memory() / 1e9:,.1f} GB of memory are free. Take them "
                "in pieces, with `stream`."
            )
        pieces = self.stream(n, labels=labels, where=where, seed=seed)
        joined: S_co = self.samples.joined(pieces, n, self.card, self.class_names)
        return joined

    def stream(
        self,
        n: int,
        *,
        labels: Sequence[int] | np.ndarray | None = None,
        where: Mapping[str, Any] | None = None,
        seed: int | None = None,
        made: Callable[[int], object] = lambda _: None,
    ) -> Iterator[Any]:
        """The same samples in pieces, at most 1,000 pictures or 20,000 rows, so that memory stays bounded.

        made: is called with the number of samples after each piece, for progress. Default: nothing is shown.

        Raises:
            RequestError: if n is negative or no whole number, labels do not fit n and the declared classes, or no row meets
                the conditions.
        """
        n = _counted(n)
        if where:
            if labels is not None:
                raise RequestError("`labels` and `where` cannot be given together. Give the label as a condition.")
            yield from self._meeting(where, n, seed, made)
            return
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

    def query(self, columns: Sequence[str], *, sampling: bool = False) -> NoisyTable:
        """Answer from the noisy counts behind the generator: a `NoisyTable` of some columns of a table. Uses no epsilon.

        Args:
            columns: their names, which a run has counted together.
            sampling: true: the records are a random sample of a population, and the standard errors cover that too. Default:
                they cover the noise alone.

        Raises:
            RequestError: if the columns were not counted together, or the method counts nothing.
        """
        net: Any = self.net
        self._check_counts()
        names, asked = self.card.names, ", ".join(map(repr, columns))
        if not columns or len(set(columns)) < len(columns) or not set(columns) <= set(names):
            raise RequestError(f"`columns` must be different names among {', '.join(names)}, not {asked}.")
        at = [names.index(name) for name in columns]
        try:
            counts, variances = net.query(at)
        except ValueError:
            raise RequestError(f"`columns`: no noisy query counted {asked} together. Count them in samples.") from None
        if sampling:
            own = counts.clamp(min=0)
            variances = variances + own * (1 - own / own.sum().clamp(min=1))
        values = [merged_texts(self.card.columns[each], net.maps[each].tolist()) for each in at]
        return NoisyTable(tuple(columns), tuple(values), counts.numpy(), variances.sqrt().numpy())

    def tables(self) -> list[NoisyTable]:
        """All tables of noisy counts behind the generator, each a `NoisyTable` as `query` returns it. Uses no epsilon.

        Raises:
            RequestError: the method counts nothing, or an earlier version kept no counts.
        """
        self._check_counts()
        net: Any = self.net
        counted = dict.fromkeys(tuple(at for at in row if at >= 0) for row in net.counted.tolist())
        if not counted:
            raise RequestError(f"{self.path} is of an earlier version, which kept no counts. Fit again.")
        return [self.query([self.card.names[at] for at in columns]) for columns in counted]

    def _check_counts(self) -> None:
        if not hasattr(self.net, "query"):
            raise RequestError(f"a generator of {self.card.in_words} by {self.job.method.name} keeps no noisy tables.")

    def _meeting(
        self, where: Mapping[str, Any], n: int, seed: int | None, made: Callable[[int], object]
    ) -> Iterator[Any]:
        """n rows that meet conditions. Rows whose codes can meet them are drawn, and those whose values do are kept."""
        own_net: Any = self.net
        if not hasattr(own_net, "conditioned"):
            raise RequestError(f"`where`: {self.card.in_words} take no conditions. Leave it out.")
        wanted = conditions.Conditions.of(where, self.card)
        names = ", ".join(map(repr, where))
        try:
            net = own_net.conditioned({at: torch.from_numpy(codes) for at, codes in wanted.codes.items()})
        except ValueError:
            raise RequestError(f"`where`: the generator has no row that meets the conditions on {names}.") from None
        done, tried = 0, 0
        for piece in replace(self, net=net).stream(_MOST_TRIES * n, seed=seed):
            kept = piece[np.flatnonzero(wanted.met(piece))[: n - done]]
            done, tried = done + len(kept), tried + len(piece)
            yield kept
            made(done)
            if done >= n:
                return
            if done * _MOST_TRIES < tried:
                raise RequestError(
                    f"`where`: of {tried:,} rows, {done:,} meet the conditions on {names}. Widen an interval."
                )

    def _number_of(self, label: str | int) -> int:
        """The number of a class. Raises RequestError: there is no class of this name."""
        if not isinstance(label, str):
            return label
        if label not in self.class_names:
            known = ", ".join(self.class_names) or "no names; of a table, give `where`"
            raise RequestError(f"`label`: no class is {label!r}. Known: {known}.")
        return self.class_names.index(label)

    def _checked(self, labels: Sequence[int] | np.ndarray, n: int) -> Tensor:
        array = np.asarray(labels)
        if n == 0 and array.size == 0:
            return torch.zeros(0, dtype=torch.int64)
        if array.shape != (n,) or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= self.classes:
            other = "`label` for one class" if self.class_names else "none; of a table, `where`"
            raise RequestError(
                f"labels must be {n:,} whole numbers from 0 to {self.classes - 1}, one per sample. Or give {other}."
            )
        return torch.from_numpy(array.astype(np.int64))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
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

    def on(self, device: str) -> Self:
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

    def with_weights(self, path: Path) -> Self:
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


def classifier_of(net: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """What a released classifier answers, from images float32 [n, C, H, W]; None: the network has none."""
    found: Any = getattr(net, "probabilities", None)
    return found if callable(found) else None  # a table's network has a tensor of this name


def model_bytes(net: nn.Module) -> bytes:
    """The generator's weights in the safetensors format."""
    return to_bytes(_weights(net))


def save_model(path: Path, net: nn.Module) -> None:
    """Write the same to a file, with no copy of the weights in memory. Raises OSError, also for a full disk."""
    save_tensors(path, _weights(net))


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file. Raises OSError, also for a full disk."""
    with replaced(path) as partial:
        try:
            save_file(dict(tensors), partial)
        except SafetensorError as error:
            number = int(_SYSTEM_ERROR.findall(str(error) + f"os error {errno.EIO}")[0])
            raise OSError(number, os.strerror(number)) from None


def _weights(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
