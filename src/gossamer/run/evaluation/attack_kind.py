"""What attacks must know of a kind of records: how its sets are read and told apart, and which attacks apply."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.attacks.arrays import Array
from gossamer.attacks.scores import Attack
from gossamer.data.source import Data
from gossamer.errors import DataError
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.storage.run_folder import RunFolder

FEWEST = 20
"""Members, and non-members, below which no attack is tried."""

NONE_LEFT = "--nonmembers: all of these records are among the members; give records that the run never saw."

Named = tuple[str, Callable[[], list[Attack]]]
"""An attack by name, to be made when its turn comes."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the attacks are made on: what a run hands out, and the records whose membership they guess.

    Args:
        samples: of the release.
        members: records of the run's data.
        nonmembers: as many records that the run never saw.
        held_out: other records that the run never saw, for principal components and as a reference.
        training: the run as its private checkpoint has it, with its discriminators, or None.
        synthesizer: the release.
        seed: fixes the draws of the attacks.
    """

    samples: Any
    members: Any
    nonmembers: Any
    held_out: Any
    training: Training[BaseConfig, State] | None
    synthesizer: Synthesizer
    seed: int


@dataclass(frozen=True)
class AttackKind(ABC):
    """Attacks on one kind of records. Records are `Records` or a `Table`.

    Args:
        card: the public facts of the run.
        units: see `data.source.Source`.
    """

    card: Any
    units: str | None

    @property
    def limits(self) -> tuple[str, ...]:
        """Sentences that the verdict adds for these records."""
        return ()

    @abstractmethod
    def read(self, members: Data, nonmembers: Data) -> tuple[Any, Any]:
        """Members and non-members, checked against the card. Raises DataError and RequestError."""

    @abstractmethod
    def apart(self, inside: Any, outside: Any) -> tuple[Any, str]:
        """The non-members that are no members, and a sentence on those that are; empty: there are none.

        Raises:
            DataError: if none is left.
        """

    @abstractmethod
    def fingerprints(self, records: Any) -> tuple[str, str]:
        """The fingerprint of records as they are, and without their units."""

    @abstractmethod
    def array(self, records: Any) -> Array:
        """What the attacks see of records, or of samples: [n, ...]."""

    @abstractmethod
    def sampled(self, synthesizer: Synthesizer, count: int, seed: int) -> Any:
        """Samples of the release, no larger than `array` needs them."""

    @abstractmethod
    def attacks(self, target: Target) -> Iterator[Named]:
        """Each attack that applies."""

    def sets(self, folder: RunFolder, members: Data, nonmembers: Data) -> tuple[Any, Any, str]:
        """Members and non-members, checked; and in words what was found about them.

        Raises:
            DataError: if the sets are too small, do not fit the run, or are not apart.
        """
        inside, every = self.read(members, nonmembers)
        outside, copies = self.apart(inside, every)
        on = "Whether the members are the run's own records was not checked."
        if folder.private.is_dir():
            trained_on = folder.source().get("records")  # a run of an older version has another digest of them
            if trained_on in self.fingerprints(every):
                raise DataError("--nonmembers: the run was trained on these records; give records that it never saw.")
            if trained_on in self.fingerprints(inside):
                on = "The members are the run's own records."
        counts = count_units(inside), count_units(outside)
        if counts[0] < FEWEST or counts[1] < 2 * FEWEST:
            unit = self.card.unit
            of = "" if self.units is None else f", counted by {unit if unit != 'record' else 'unit'},"
            raise DataError(
                f"{counts[0]:,} members and {counts[1]:,} non-members{of} are too few: attacks need at least {FEWEST} members "
                f"and {2 * FEWEST} non-members, half of them to be held out."
            )
        return inside, outside, f"{on} {copies}".strip()


def count_units(records: Any) -> int:
    """Units of which there is a record."""
    return len(records) if records.units is None else len(np.unique(records.units))
