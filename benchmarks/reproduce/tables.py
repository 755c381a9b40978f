"""Read and check the tables in `tables/*.toml`. `docs/reproduce.md` says what each key means."""

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from benchmarks.reproduce.datasets import data_set
from benchmarks.reproduce.metrics import classical
from benchmarks.reproduce.metrics.measure import PAPER_METRICS
from gossamer.errors import RequestError, did_you_mean
from gossamer.methods import METHODS
from gossamer.metrics.registry import CLASSIFIER_FID, FID, METRICS
from gossamer.run.training import presets

classical.register()
Scale = Literal["laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
SEEDS = (0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What is measured in a cell. Equal for all rows of a table.

    Args:
        metrics: names of `gossamer.metrics.registry.METRICS`, or of `benchmarks.reproduce.metrics.measure.PAPER_METRICS`.
        protocol: of the accuracy.
        samples: drawn of each release.
        limit: training records of the classical classifiers.
        labelled: labelled records of the semi-supervised analyst.
        needs_run: whether a metric needs the generator itself and not samples in a file.
        inception: SHA-256 of the weights of Inception-V3, for the FID of the papers; empty: the FID of a classifier.
    """

    metrics: tuple[str, ...]
    protocol: str = "reduced"
    samples: int = 60_000
    limit: int = 10_000
    labelled: int = 100
    needs_run: bool = False
    inception: str = ""

    @property
    def of_papers(self) -> bool:
        """Whether `benchmarks.reproduce.metrics` measures them, and not `gossamer evaluate`."""
        return set(self.metrics) <= set(PAPER_METRICS)

    @property
    def resolved(self) -> dict[str, Any]:
        """As cells have it: `inception` is younger than they are."""
        found = dataclasses.asdict(self) | {"metrics": list(self.metrics)}
        return found if self.inception else {name: value for name, value in found.items() if name != "inception"}


@dataclass(frozen=True, kw_only=True)
class AtScale:
    """How a row is run at one scale.

    Args:
        minutes: of a cell, from the fit to the figures, as reckoned beforehand: at the laptop's scale of one thread, two of
            which are at work on two cores; at the paper's on the machine of the paper.
        preset: named settings of the method.
        settings: what differs from them.
        public: public records.
        public_share: share of the records that is given up as public.
        costs: epsilon of these settings, where the noise is the paper's: then none is asked for.
    """

    minutes: float
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    public: str | None = None
    public_share: float | None = None
    costs: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table.

    Args:
        name: of letters, digits and hyphens.
        label: what is printed.
        data: a key of `DATASETS`.
        records: training records; 0: all.
        method: a key of METHODS; empty: no run.
        samples_of: in place of a method, records that are measured as they are, such as "glyphs".
        real_of: in place of a method, a row whose evaluation has real records beside it.
        epsilon: the budget; None: what the noise of the settings costs (`AtScale.costs`).
        delta: of the guarantee; None where the method has none.
        claimed: the guarantee that the paper claims, in words.
        holds: the epsilon that the paper's own run has, by our accounting of its settings; None: not known.
        published: the paper's figures, as it prints them, by the names of ours.
        where: where they stand, where that is not the source of the table.
        attack: whether members are told from others too.
        laptop: how it is run on two cores; None: it is not.
        paper: how it is run with the paper's own settings; None: it is not.
    """

    name: str
    label: str
    data: str
    records: int = 0
    method: str = ""
    samples_of: str = ""
    real_of: str = ""
    epsilon: float | None = None
    delta: float | None = None
    claimed: str = ""
    holds: float | None = None
    published: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    attack: bool = False
    laptop: AtScale | None = None
    paper: AtScale | None = None

    def at(self, scale: Scale) -> AtScale | None:
        """How it is run; None: not at this scale."""
        return self.laptop if scale == "laptop" else self.paper

    @property
    def size(self) -> int:
        """Training records."""
        return self.records or data_set(self.data).size


_LATER = {
    "encoder": "", "autoencoder": "", "generator": "", "public_detail": False, "align": False, "axes_noise": 0.0,
    "mean_noise": 0.0, "clusters": 0, "smallest_size": 1.0, "largest_rotation": 0.0, "own_label": 1.0, "labelling_noise": 0.0,
    "labelling_steps": 234, "learnt_bends": False, "refine": 0.0, "bands": 1,
}  # fmt: skip
"""Settings that are younger than cells, and values with which they change nothing; `clusters` where records are many.
Without `own_label`, nothing is labelled."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A row at a scale with a seed: one JSON file.

    Args:
        row: the row.
        seed: of initialisation, public draws and samples.
        how: settings and minutes of the row's scale.
        measures: of its table at that scale.
    """

    row: Row
    seed: int
    how: AtScale
    measures: Measures

    @property
    def epsilon(self) -> float | None:
        """The epsilon that is asked for; None: the noise is that of the settings."""
        return None if self.how.costs is not None else self.row.epsilon

    @property
    def resolved(self) -> dict[str, Any]:
        """All that its figures depend on but the seed: every setting, defaults included."""
        row = self.row
        return {
            "method": row.method,
            "samples_of": row.samples_of,
            "data": row.data,
            "records": row.size,
            "epsilon": _as_json(self.epsilon),
            "delta": row.delta,
            "public": self.how.public,
            "public_share": self.how.public_share,
            "settings": self._settings(),
            "measures": self.measures.resolved,
            "attack": row.attack,
        }

    def _settings(self) -> dict[str, Any]:
        if not self.row.method:
            return {}
        named = presets.settings(self.row.method, self.how.preset) if self.how.preset else {}
        settings = {**presets.defaults(self.row.method), **named, **self.how.settings}
        if self.epsilon is not None and "noise_multiplier" not in self.how.settings:
            settings.pop("noise_multiplier", None)  # follows from epsilon
        for name, left_out in _LATER.items():
            if settings.get(name) == left_out:
                del settings[name]
        return dict(sorted(_as_recorded(settings).items()))

    @cached_property
    def digest(self) -> str:
        """Of `resolved`: rows of two tables that are resolved alike have cells in common."""
        return digest_of(self.resolved)

    @property
    def name(self) -> str:
        """Of its JSON file, and of its folder while it is worked on."""
        row = self.row
        of = row.data + ("" if not row.records else f"-{row.records}")
        budget = "" if self.epsilon is None else f"-eps{self.epsilon:g}"
        return f"{row.method or row.samples_of}-{of}{budget}-{self.digest[:10]}-seed{self.seed}"


def _as_recorded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The start as cells have it: its method, and its settings in one text."""
    if "start" not in settings:
        return dict(settings)
    start = settings["start"] if isinstance(settings["start"], Mapping) else {"method": settings["start"]}
    text = ",".join(f"{name}={value}" for name, value in start.items() if name != "method")
    return {**settings, "start": start["method"], "start_settings": text}


def digest_of(resolved: Mapping[str, Any]) -> str:
    """SHA-256 of settings, in one way of writing them."""
    return hashlib.sha256(json.dumps(resolved, sort_keys=True, allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a paper, or one of ours.

    Args:
        name: as on the command line.
        title: what it is.
        source: paper, table, page.
        about: what to know before reading it; paragraphs of Markdown.
        figures: the columns: names of figures, as in metrics.json.
        order: its place on the page.
        measures: what is measured, for each scale.
        once: minutes of one thread for what depends on the real records alone, which is computed once for all cells.
        rows: its rows.
        show_samples: the page shows samples of each row's first seed.
    """

    name: str
    title: str
    source: str
    about: str
    figures: tuple[str, ...]
    order: int
    measures: Mapping[Scale, Measures]
    once: Mapping[Scale, float]
    rows: tuple[Row, ...]
    show_samples: bool = False

    def by_inception(self, sha256: str) -> "Table":
        """The table with the FID of Inception-V3 in place of a classifier's. Its cells are others.

        Raises:
            RequestError: if the table has no FID.
        """
        if not any("fid" in each.metrics for each in self.measures.values()):
            raise RequestError(f"{self.name} has no FID: leave --inception out.")
        figures = tuple(FID.name if name == CLASSIFIER_FID.name else name for name in self.figures)
        measures = {scale: dataclasses.replace(each, inception=sha256) for scale, each in self.measures.items()}
        return dataclasses.replace(self, figures=figures, measures=measures)

    def cells(self, scale: Scale, seeds: Sequence[int] = SEEDS) -> list[Cell]:
        """All cells at a scale, one seed after the other, so that every row has its first before one has its second.

        Records that are measured as they are have one, of seed 0: what measures has the same seed in all cells.
        """
        if scale not in self.measures:
            return []
        return [
            Cell(row=row, seed=seed if row.method else 0, how=how, measures=self.measures[scale])
            for seed in seeds
            for row in self.rows
            if not row.real_of and (how := row.at(scale)) is not None and (row.method or seed == seeds[0])
        ]


def parse(name: str, text: str) -> Table:
    """A table from TOML.

    Raises:
        ValueError: what is wrong with it. The packaged ones are tested.
    """
    found = tomllib.loads(text)
    measures: dict[Scale, Measures] = {}
    once: dict[Scale, float] = {}
    for scale in SCALES:
        if scale in found:
            given = found.pop(scale)
            once[scale] = given.pop("once")
            names = given.pop("metrics")
            metrics = (names,) if names in PAPER_METRICS else tuple(METRICS.chosen(names))
            measures[scale] = Measures(metrics=metrics, **given)
    rows = tuple(map(_row, found.pop("row")))
    names = [row.name for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"{name}: two rows have one name")
    table = Table(
        name=name, measures=measures, once=once, rows=rows, figures=tuple(found.pop("figures")), **found,
    )  # fmt: skip
    for row in rows:
        _check(row, names)
    return table


def _row(entry: Mapping[str, Any]) -> Row:
    given: dict[str, Any] = {key: AtScale(**value) if key in SCALES else value for key, value in entry.items()}
    return Row(**given)


def _check(row: Row, names: Sequence[str]) -> None:
    if sum(map(bool, (row.method, row.samples_of, row.real_of))) != 1:
        raise ValueError(f"{row.name}: a row has a method, samples_of or real_of, and one of them only")
    if row.real_of and row.real_of not in names:
        raise ValueError(f"{row.name}: there is no row {row.real_of}")
    if row.method and row.method not in METHODS:
        raise ValueError(f"{row.name}: there is no method {row.method}")
    data_set(row.data)


@cache
def tables(folder: Path | None = None) -> dict[str, Table]:
    """Read the tables, in their order on the page: those of this package, or of a folder."""
    files = (folder or Path(__file__).with_name("tables")).glob("*.toml")
    found = [parse(file.stem, file.read_text(encoding="utf-8")) for file in files]
    return {table.name: table for table in sorted(found, key=lambda each: (each.order, each.name))}


def rows_of_all(known: Mapping[str, Table]) -> list[list[Cell]]:
    """The cells of each row at each scale, one for each seed. Rows that are resolved alike are one row."""
    rows: dict[str, dict[int, Cell]] = {}
    for table in known.values():
        for scale in SCALES:
            for cell in table.cells(scale):
                rows.setdefault(cell.digest, {}).setdefault(cell.seed, cell)
    return [list(cells.values()) for cells in rows.values()]


def table_named(name: str, known: Mapping[str, Table]) -> Table:
    """The table of that name.

    Raises:
        RequestError: if there is none; says the nearest.
    """
    if name not in known:
        raise RequestError(f"there is no TABLE {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return known[name]


def _as_json(epsilon: float | None) -> float | str | None:
    return "inf" if epsilon is not None and math.isinf(epsilon) else epsilon
