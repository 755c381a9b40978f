"""Results on real records alone, kept so that the next evaluation need not compute them again.

Accuracies of classifiers trained on real records, and the classifier whose features measure distances. They come from real
records without noise: the folder is private (mode 0700), like a RUN's `checkpoint/`, and `gossamer release` leaves it out.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gossamer.files import hold, write_atomically
from gossamer.intervals import Estimate
from gossamer.metrics.features import ClassifierFeatures

T = TypeVar("T")


class Baselines:
    """A cache of figures and features of one pair of real training and test sets.

    Args:
        folder: where they are kept; None keeps nothing.
        about: what all of them depend on: the fingerprints of both sets, and the seed of the trainings.
    """

    def __init__(self, folder: Path | None, about: str) -> None:
        self._folder, self._about = folder, about
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)

    def estimates(self, key: str, compute: Callable[[], dict[str, Estimate]]) -> dict[str, Estimate]:
        """The figures of that name, from the cache or computed. `key` names everything that they depend on."""
        return self._kept(key, ".json", compute, _read, _write)

    def features(self, key: str, compute: Callable[[], ClassifierFeatures]) -> ClassifierFeatures:
        """The feature classifier of that name, from the cache or trained."""
        return self._kept(key, ".safetensors", compute, ClassifierFeatures.load, ClassifierFeatures.save)

    def _kept(
        self,
        key: str,
        suffix: str,
        compute: Callable[[], T],
        read: Callable[[Path], T],
        write: Callable[[T, Path], None],
    ) -> T:
        if self._folder is None:
            return compute()
        digest = hashlib.sha256(f"{self._about} {key}".encode()).hexdigest()[:24]
        path = self._folder / f"{digest}{suffix}"
        # What another process computes is waited for: it takes minutes, and is the same.
        with hold(path.with_name(f"{path.name}.lock"), wait=True):
            try:
                return read(path)
            except Exception:  # missing or damaged: computed again; what loaders raise is open-ended
                write(found := compute(), path)
                return found


def _read(path: Path) -> dict[str, Estimate]:
    return {name: Estimate(**entry) for name, entry in json.loads(path.read_text()).items()}


def _write(figures: dict[str, Estimate], path: Path) -> None:
    entries = {name: dataclasses.asdict(estimate) for name, estimate in figures.items()}
    write_atomically(path, json.dumps(entries), private=True)
