"""Tables for `evaluate`: samples of a release beside real rows, all encoded by one card."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gossamer.data.card import check_units
from gossamer.data.source import with_more
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.read import read_table, read_values
from gossamer.data.tables.samples import TableSamples
from gossamer.data.tables.table import Table
from gossamer.events import Sink
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.tables import registry
from gossamer.metrics.tables.subgroups import chosen_columns
from gossamer.run.evaluation.request import Request

OF_PICTURES = {"images_key": None, "labels_key": None, "protocol": "paper", "inception": None, "limit": 10_000}
"""Arguments for pictures, with their defaults."""


@dataclass(frozen=True, repr=False)
class Tables:
    """Samples and real rows. A `Compared`.

    Args:
        request: what is asked.
        card: declares the columns.
        samples: of the release.
        real: real training rows, with their units.
        tests: real test rows, with their units.
    """

    request: Request
    card: TableCard
    samples: TableSamples
    real: Table
    tests: Table

    @classmethod
    def read(cls, request: Request) -> "Tables":
        """Read the real rows, and make or read the samples. Raises CardError, DataError, RequestError."""
        request.refuse_others(OF_PICTURES, kind="pictures", shown="a table")
        card = request.card
        assert isinstance(card, TableCard)
        train, test = (with_more(data, units=request.only["units"]) for data in (request.train, request.test))
        for data, where in zip((train, test), request.called, strict=True):
            check_units(card, data.ids, where=where)
        chosen_columns(_named(request), card.columns)
        if request.synthesizer is None:
            samples = TableSamples(read_table(request.synth, card).codes, card)
        else:
            samples = request.synthesizer.sample(request.count, seed=request.seed)
        real = read_table(train, card, split="train", called="train")
        return cls(request, card, samples, real, read_table(test, card, split="test", called="test"))

    @property
    def class_names(self) -> tuple[str, ...]:
        """None: the values of a label are on the card."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the readers converted."""
        return (*self.real.notes, *self.tests.notes)

    def inputs(self, sink: Sink) -> registry.Inputs:
        """What the metrics measure. Raises RequestError: too few rows."""
        request, real, tests = self.request, self.real, self.tests
        return registry.Inputs(
            samples=self.samples, real=real, tests=tests, values=self._values(), seed=request.seed, sink=sink,
            subgroups=_named(request),
            baselines=Baselines(request.cache_folder, real, tests, request.seed),
        )  # fmt: skip

    def _values(self) -> dict[str, Callable[[], np.ndarray]]:
        """The values of the samples and the real rows as numbers; none where real rows are codes in memory."""
        request, card = self.request, self.card
        if isinstance(request.train, Table) or isinstance(request.test, Table):
            return {}
        return {
            "samples": self._values_of_samples,
            "real": partial(read_values, request.train, card, split="train", called="train"),
            "tests": partial(read_values, request.test, card, split="test", called="test"),
        }

    def _values_of_samples(self) -> np.ndarray:
        if self.request.synthesizer is None:
            return read_values(Path(self.request.synth), self.card, split="train", called="samples")
        return to_numbers(self.samples.codes, self.card, seed=self.samples.seed, rows=self.samples.numbers)


def _named(request: Request) -> tuple[str, ...]:
    """The columns whose values are subgroups."""
    named = request.only["subgroups"]
    return () if named is None else tuple(name.strip() for name in named.split(","))
