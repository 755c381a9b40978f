"""Attacks on tables: by distances, by densities, and by the marginals that a generator was fitted to."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.attacks.arrays import Array
from gossamer.attacks.density import domias
from gossamer.attacks.distances import calibrated, full_black_box, near_copies
from gossamer.attacks.marginals import MOST_CELLS, frequencies, marginal_ratios
from gossamer.attacks.rows import most_isolated, row_features
from gossamer.attacks.scores import Attack
from gossamer.data.source import Data, with_more
from gossamer.data.tables.identity import identify
from gossamer.data.tables.read import read_table
from gossamer.data.tables.table import Table
from gossamer.errors import DataError
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.evaluation.attack_kind import NONE_LEFT, AttackKind, Named, Target

ISOLATED = "the most isolated tenth"
_OF_ISOLATED = "The same attack on the tenth of the records that are least like other records."


@dataclass(frozen=True)
class TableAttacks(AttackKind):
    """Attacks on tables. Equal rows of members and non-members take part: they need not be of the same person."""

    @property
    def limits(self) -> tuple[str, ...]:
        """See `AttackKind.limits`."""
        return (
            "The distance to the closest record shows nothing by itself. Attacks by densities find members where distances "
            "find none (Yao et al. 2025, The DCR Delusion).",
        )

    def read(self, members: Data, nonmembers: Data) -> tuple[Table, Table]:
        """See `AttackKind.read`."""
        inside = read_table(with_more(members, units=self.units), self.card, split="train", called="members")
        outside = read_table(with_more(nonmembers, units=self.units), self.card, split="test", called="nonmembers")
        return inside, outside

    def apart(self, inside: Table, outside: Table) -> tuple[Table, str]:
        """See `AttackKind.apart`: rows of units that are among the members are left out.

        Without units, equal rows tell nothing of who is a member. Sets are refused where each non-member equals a member, and
        members seldom equal one another.
        """
        if inside.names is not None and outside.names is not None and outside.units is not None:
            known = np.isin(outside.names[outside.units], inside.names[inside.names != ""])
            if known.all():
                raise DataError(NONE_LEFT)
            said = f"Rows of units that are among the members were left out of the non-members: {known.sum():,}."
            return outside[np.flatnonzero(~known)], said if known.any() else ""
        rows, counts = np.unique(inside.codes, axis=0, return_counts=True)
        own = {row.tobytes(): count for row, count in zip(rows, counts, strict=True)}
        among = np.mean([row.tobytes() in own for row in np.ascontiguousarray(outside.codes)])
        twins = counts[counts > 1].sum() / max(1, len(inside))
        if among == 1 and (twins < 0.5 or identify(inside).mark == identify(outside).mark):
            raise DataError(NONE_LEFT)
        return outside, (
            f"{among:.1%} of the non-members equal a member in all columns, and {twins:.1%} of the members equal another "
            "member. They took part, because equal rows need not be the same record."
        ).replace("%", " %")

    def fingerprints(self, records: Table) -> tuple[str, str]:
        """See `AttackKind.fingerprints`."""
        without_units = dataclasses.replace(records, units=None, names=None)
        return identify(records).fingerprint, identify(without_units).fingerprint

    def array(self, records: Any) -> Array:
        """See `AttackKind.array`: features [n, D]."""
        return row_features(records.codes, self.card.domain, [column.in_order for column in self.card.columns])

    def sampled(self, synthesizer: Synthesizer, count: int, seed: int) -> Any:
        """See `AttackKind.sampled`."""
        return synthesizer.sample(count, seed=seed)

    def attacks(self, target: Target) -> Iterator[Named]:
        """See `AttackKind.attacks`. Densities and marginals also on the most isolated records, which an average hides."""
        sets = [target.members, target.nonmembers]
        samples, members, nonmembers, held_out = (self.array(each) for each in (target.samples, *sets, target.held_out))
        rank = int(np.linalg.matrix_rank(held_out - held_out.mean(axis=0)))
        few = min(10, len(held_out) // 4, rank)

        def density(inside: Array, outside: Array) -> Attack:
            return domias(samples, inside, outside, held_out, components=few)

        yield "GAN-Leaks, full black-box", lambda: [full_black_box(samples, members, nonmembers)]
        yield "GAN-Leaks, calibrated", lambda: [calibrated(samples, members, nonmembers, held_out)]
        yield "near-copies", lambda: [near_copies(samples, members, nonmembers).excess]
        apart = most_isolated(members, nonmembers, held_out)
        yield "DOMIAS", lambda: _both(density, members, nonmembers, apart)
        codes = target.members.codes, target.nonmembers.codes
        yield "marginals of samples", lambda: _both(self._by_samples(target), *codes, apart)
        if isinstance(target.synthesizer.net, MarkovField):
            field = target.synthesizer.net
            yield "marginals of the generator", lambda: _both(_by_generator(field, target), *codes, apart)

    def _by_samples(self, target: Target) -> "Guess":
        """Ratios over all pairs of columns, as the samples have them; with one column, over that."""
        sizes = self.card.domain
        every = list(itertools.combinations(range(len(sizes)), min(2, len(sizes))))
        pairs = [pair for pair in every if math.prod(sizes[column] for column in pair) <= MOST_CELLS]
        if not pairs:
            raise DataError(f"each pair of columns has more than {MOST_CELLS:,} cells.")
        tables = [frequencies(target.samples.codes, pair, sizes) for pair in pairs]
        return lambda inside, outside: marginal_ratios(
            tables, inside, outside, target.held_out.codes, cliques=pairs, sizes=sizes, name="marginals of samples",
            needs="samples, the records in question, and reference records of the population",
            about="The attacker accuses rows whose values are more frequent in the samples than in other real rows.",
        )  # fmt: skip


Guess = Callable[[Array, Array], Attack]
"""From members and non-members to an attack on them."""


def _by_generator(field: MarkovField, target: Target) -> Guess:
    """Ratios over the released cliques, as the released generator has them, in its merged values."""
    maps = [each.numpy() for each in field.maps]

    def merged(codes: Array) -> Array:
        return np.stack([each[codes[:, column]] for column, each in enumerate(maps)], axis=1)

    reference = merged(target.held_out.codes)
    tables, cliques = [table.flatten().numpy() for table in field.tables], field.tree.cliques
    return lambda inside, outside: marginal_ratios(
        tables, merged(inside), merged(outside), reference, cliques=cliques, sizes=field.sizes,
        name="marginals of the generator",
        needs="the generator, the records in question, and reference records of the population",
        about="The attacker accuses rows whose values are more frequent in the generator than elsewhere.",
    )  # fmt: skip


def _both(guess: Guess, inside: Array, outside: Array, apart: Sequence[np.ndarray]) -> list[Attack]:
    """The attack on all records, and on the most isolated ones where there are enough."""
    found = [guess(inside, outside)]
    if min(mask.sum() for mask in apart) > 1:
        isolated = guess(inside[apart[0]], outside[apart[1]])
        found.append(dataclasses.replace(isolated, name=f"{isolated.name}, {ISOLATED}", about=_OF_ISOLATED))
    return found
