"""Write the training records of a row that takes a part of them: `python -m benchmarks.reproduce.subset DATA RECORDS OUT`."""

import sys
from pathlib import Path

import numpy as np

from benchmarks.reproduce.datasets import DATASETS
from benchmarks.reproduce.pinwheel import pinwheel
from gossamer.data.sources.pictures.read import read
from gossamer.errors import RequestError


def write_subset(data: str, records: int, out: Path) -> None:
    """Write the first records of a fixed random order to an .npz. Of a toy write all records, and its test points too.

    Raises:
        RequestError: if there are not as many.
    """
    if data in DATASETS and DATASETS[data].toy:
        train, test = pinwheel("train"), pinwheel("test")
        _write(
            out, train_images=train.images, train_labels=train.labels, test_images=test.images, test_labels=test.labels
        )
        return
    whole = read(data, split="train")
    if records > len(whole):
        raise RequestError(f"{data} has {len(whole):,} training records, and {records:,} were asked for.")
    chosen = np.sort(np.random.default_rng(0).permutation(len(whole))[:records])
    _write(out, images=whole.images[chosen], labels=whole.labels[chosen])


def _write(out: Path, **arrays: np.ndarray) -> None:
    """An .npz, whole or not at all."""
    half = out.with_suffix(".half.npz")
    np.savez(half, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle, a bool
    half.replace(out)


if __name__ == "__main__":
    write_subset(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
