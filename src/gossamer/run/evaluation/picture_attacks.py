"""Attacks on pictures: with the discriminators of a run, and with its samples alone."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gossamer.attacks.arrays import Array
from gossamer.attacks.density import domias
from gossamer.attacks.discriminator import white_box
from gossamer.attacks.distances import calibrated, full_black_box, near_copies
from gossamer.attacks.monte_carlo import instance_attack, set_attack
from gossamer.attacks.scores import Attack, ranked
from gossamer.attacks.total_variation import total_variation
from gossamer.data.fingerprint import digests, fingerprint, shared
from gossamer.data.readers.read import check_two_arrays, read
from gossamer.data.records import Records, at_once
from gossamer.data.source import Data, called, with_more
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, silent
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.evaluation.attack_kind import NONE_LEFT, AttackKind, Named, Target
from gossamer.run.evaluation.pictures import LARGEST, reduced, sampled


@dataclass(frozen=True)
class PictureAttacks(AttackKind):
    """Attacks on pictures.

    Args:
        run: where the run is, for messages.
        images_key: see `data.source.Source`.
        labels_key: see `data.source.Source`.
        sink: takes the progress of reading.
    """

    run: object = ""
    images_key: str | None = None
    labels_key: str | None = None
    sink: Sink = silent

    @property
    def limits(self) -> tuple[str, ...]:
        """See `AttackKind.limits`."""
        if max(self.card.shape[1:]) <= LARGEST:
            return ()
        return (f"Pictures were compared at {LARGEST} pixels, so a copy of finer details would not be seen.",)

    def read(self, members: Data, nonmembers: Data) -> tuple[Records, Records]:
        """See `AttackKind.read`."""
        how = dataclasses.replace(self.card.reading, unit_folders=True)
        members, nonmembers = (
            with_more(data, images_key=self.images_key, labels_key=self.labels_key, units=self.units)
            for data in (members, nonmembers)
        )
        if self.units is not None:
            check_two_arrays(
                self.units, [(called(members, "members"), "train"), (called(nonmembers, "nonmembers"), "test")]
            )
        inside = read(members, how, split="train", called="members", sink=self.sink)
        outside = read(nonmembers, how, split="test", called="nonmembers", sink=self.sink)
        for name, records in (("--members", inside), ("--nonmembers", outside)):
            if len(records) and int(records.labels.max()) >= self.card.classes:
                raise RequestError(
                    f"{name}: there are labels beyond the {self.card.classes} declared classes of {self.run}."
                )
        return inside, outside

    def apart(self, inside: Records, outside: Records) -> tuple[Records, str]:
        """See `AttackKind.apart`: exact copies of members are left out."""
        unshared = ~shared(outside, inside)
        if not unshared.any():
            raise DataError(NONE_LEFT)
        copies = int((~unshared).sum())
        said = f"{copies:,} non-members are exact copies of members and were left out." if copies else ""
        return outside[np.flatnonzero(unshared)], said

    def fingerprints(self, records: Records) -> tuple[str, str]:
        """See `AttackKind.fingerprints`."""
        record_digests, without_units = digests(records.images), dataclasses.replace(records, units=None, names=None)
        return fingerprint(records, record_digests), fingerprint(without_units, record_digests)

    def array(self, records: Any) -> Array:
        """See `AttackKind.array`: uint8 [n, C, H, W], large pictures reduced to `LARGEST`."""
        return np.asarray(reduced(records).images)

    def sampled(self, synthesizer: Synthesizer, count: int, seed: int) -> Any:
        """See `AttackKind.sampled`."""
        return sampled(synthesizer, count, seed, sink=self.sink)

    def attacks(self, target: Target) -> Iterator[Named]:
        """See `AttackKind.attacks`."""
        samples, members, nonmembers, held_out = (
            self.array(records) for records in (target.samples, target.members, target.nonmembers, target.held_out)
        )
        width = int(np.prod(members.shape[1:]))
        components = min(40, len(held_out) // 2, width)
        few = min(10, len(held_out) // 4, width)
        size = min(100, len(members) // 10)
        repeats = min(50, len(members) // size)

        def monte_carlo() -> list[Attack]:
            sets = set_attack(
                samples, members, nonmembers, held_out,
                set_size=size, repeats=repeats, components=components, seed=target.seed,
            )  # fmt: skip
            return [sets.pairs, sets.top]

        if target.training is not None:
            yield "discriminators", lambda: on_discriminators(target)
        yield "Monte-Carlo, sets", monte_carlo
        yield (
            "Monte-Carlo, single records",
            lambda: [instance_attack(samples, members, nonmembers, held_out, components=components)],
        )
        yield "GAN-Leaks, full black-box", lambda: [full_black_box(samples, members, nonmembers)]
        yield "GAN-Leaks, calibrated", lambda: [calibrated(samples, members, nonmembers, held_out)]
        yield "DOMIAS", lambda: [domias(samples, members, nonmembers, held_out, components=few)]
        yield "near-copies", lambda: [near_copies(samples, members, nonmembers).excess]


def on_discriminators(target: Target) -> list[Attack]:
    """White-box attacks and the oracle's, on the discriminators of the private checkpoint."""
    assert target.training is not None
    inside, outside = (_scores(target.training, records) for records in (target.members, target.nonmembers))
    if target.training.state.scores_have_no_scale:
        inside, outside = ranked(inside, outside)
    attacks = [white_box(inside, outside, how="max")]
    if len(inside) > 1:
        attacks.append(white_box(inside, outside, how="mean"))
    oracle = total_variation(inside, outside, seed=target.seed)
    return [*attacks, oracle.raw, oracle.corrected, oracle.accuracy]


def _scores(training: Training[BaseConfig, State], records: Records) -> np.ndarray:
    """What the discriminators of a run say about records: float64 [D, n], higher where a record looks real."""
    step = at_once(records.shape, 1_000)
    with torch.no_grad():
        chunks = [training.state.scores(records[lo : lo + step]) for lo in range(0, len(records), step)]
    return torch.cat([chunk for chunk in chunks if chunk is not None], dim=1).double().numpy()
