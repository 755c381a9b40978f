"""The public data sets of the tables: where each lies below ROOT, and its card. Names stand here and nowhere else."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reproduce.pinwheel import ARMS
from gossamer.data.card import DataCard
from gossamer.errors import RequestError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A public data set.

    Args:
        title: what it is called; also the name of its account.
        where: its place below ROOT; empty: it comes with the package.
        toy: whether it is the points of `pinwheel.py`, which `subset` writes to a file with their test points.
        shape: of a record.
        classes: number of labels.
        size: training records.
    """

    title: str
    where: str
    shape: tuple[int, int, int]
    classes: int
    size: int
    toy: bool = False


DATASETS = {
    "mnist": DataSet(title="MNIST", where="mnist", shape=(1, 28, 28), classes=10, size=60_000),
    "fashion_mnist": DataSet(title="Fashion-MNIST", where="fashion_mnist", shape=(1, 28, 28), classes=10, size=60_000),
    "fashion_mnist_32": DataSet(
        title="Fashion-MNIST, 32x32",
        where="fashion_mnist",
        shape=(1, 32, 32),
        classes=10,
        size=60_000,
    ),
    "digits": DataSet(title="scikit-learn's digits", where="", shape=(1, 28, 28), classes=10, size=1_437),
    "pinwheel": DataSet(title="the pinwheel", where="", shape=(1, 1, 2), classes=ARMS, size=400, toy=True),
}


def data_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
        RequestError: if there is none; says the nearest.
    """
    if name not in DATASETS:
        raise RequestError(
            f"there is no data set {name!r}.{did_you_mean(name, DATASETS)} Known: {', '.join(DATASETS)}."
        )
    return DATASETS[name]


def card_of(name: str, records: int) -> DataCard:
    """The card of the first `records` of a data set, in the order of `subset`."""
    known = data_set(name)
    return DataCard(
        shape=known.shape, classes=known.classes, declared_size=records, title=known.title, data_set=known.title
    )


def source(name: str, root: Path | str) -> str:
    """What `--data` says of a data set below ROOT."""
    known = data_set(name)
    return f"{root}/{known.where}" if known.where else name


def missing(names: Sequence[str], root: Path) -> list[str]:
    """Which of these data sets do not lie below ROOT."""
    return [
        name for name in dict.fromkeys(names) if data_set(name).where and not (root / DATASETS[name].where).exists()
    ]
