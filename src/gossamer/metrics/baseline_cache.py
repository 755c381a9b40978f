"""Results on real records alone, kept so that the next evaluation need not compute them again.

Accuracies of classifiers trained on real records, and the classifier whose features measure distances. They come from real
records without noise: the folder is private (mode 0700), like a RUN's `checkpoint/`, and `gossamer release` leaves it out.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import IO

from gossamer.files import hold, write_atomically
from gossamer.intervals import Estimate
from gossamer.metrics.features import ClassifierFeatures


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
        path = self._path(key, ".json")
        if path is None:
            return compute()
        with _hold_lock(path):
            try:
                return {name: Estimate(**entry) for name, entry in json.loads(path.read_text()).items()}
            except (OSError, ValueError, TypeError):  # missing or incomplete: computed again
                figures = compute()
                write_atomically(
                    path,
                    json.dumps({name: dataclasses.asdict(estimate) for name, estimate in figures.items()}),
                    private=True,
                )
                return figures

    def features(self, key: str, compute: Callable[[], ClassifierFeatures]) -> ClassifierFeatures:
        """The feature classifier of that name, from the cache or trained."""
        path = self._path(key, ".safetensors")
        if path is None:
            return compute()
        with _hold_lock(path):
            if not path.is_file():
                compute().save(path)
                path.chmod(0o600)
            return ClassifierFeatures.load(path)

    def _path(self, key: str, suffix: str) -> Path | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(f"{self._about} {key}".encode()).hexdigest()[:24]
        return self._folder / f"{digest}{suffix}"


def _hold_lock(path: Path) -> IO[bytes]:
    """What another process computes is waited for: it takes minutes, and is the same."""
    return hold(path.with_name(f"{path.name}.lock"), wait=True)
