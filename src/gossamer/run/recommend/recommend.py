"""`gossamer recommend`: which methods suit a data card, and with which settings. Reads no record.

A method is left out where it refuses the card. Each of the others takes the settings of its nearest measured run
(`measured_runs.py`), scaled to the card. Methods are sorted by the accuracy of that run. One with over `ABOUT` times the
records times epsilon of the card comes later, in steps of a factor of two. Last come methods without a figure.
"""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gossamer.data.tables.any_card import AnyCard, load_card
from gossamer.data.tables.card import TableDraft
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.contract import AnyMethod, Method
from gossamer.methods.job import Job
from gossamer.methods.registry import asked
from gossamer.run.recommend import measured_runs
from gossamer.run.recommend.measured_runs import Measured
from gossamer.run.report.wording import aligned, remark
from gossamer.run.training import presets
from gossamer.run.training.plan import checked, checked_delta, plan
from gossamer.run.validation import checked_arguments

ABOUT = 5.0
"""A run with up to so many times the records times epsilon counts as equal, for the order."""
LEAST = 0.01
"""The smallest epsilon with advice: below it, no measured run is near."""
NO_FORECAST = "The figures were measured on other records. They are no forecast: on yours it may be far less."
NOT_MEASURED = "No method was measured on such records. Measure one on public records of the same kind first."
UNITS_FORMS = (
    "FILE.csv (name,unit), `folder` (class/unit/picture), a '(PATTERN)' of the name, dicom:PatientID, or FILE.npz:KEY"
)
"""What --units takes."""


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """A method that suits the card.

    Args:
        method: its name.
        measured: the run whose settings are taken, if it was on such records; None: it was not.
        place: by what methods are sorted: see the module.
        releases: "samples", or "release" where it releases a classifier.
        command: to copy.
        notes: what to know about its samples or its figure.
        looks_ahead: whether its notes say what to expect of this card, so that no measured run has to.
    """

    method: str
    measured: Measured | None
    place: tuple[float, ...]
    releases: str
    command: str
    notes: tuple[str, ...]
    looks_ahead: bool

    def row(self, rank: str) -> list[str]:
        """Its row in the table."""
        if self.measured is None:
            return [f"{rank} {self.method}", "unknown", "unknown", "not measured on such records"]
        return [f"{rank} {self.method}", self.measured.figure, self.measured.time, self.measured.records_in_words]

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        measured = None if self.measured is None else self.measured.to_json()
        return {"method": self.method, "measured": measured, "notes": list(self.notes), "command": self.command}


@dataclass(frozen=True)
class Advice:
    """What `recommend` says.

    Args:
        outlook: what to know of all methods, in sentences.
        ranked: the methods that generate records, the best first.
        labels: the methods that release a classifier: for labels, not for pictures.
        left_out: the others, each with its reason.
        unit: of privacy.
    """

    outlook: list[str]
    ranked: list[Recommended]
    labels: list[Recommended]
    left_out: dict[str, str]
    unit: str

    def lines(self) -> list[str]:
        """The outlook, a table of all methods, notes, and one command. `--json` has all commands."""
        every = [*self.ranked, *self.labels]
        rows = [["method", "accuracy", "time", "measured on"]]
        rows += [each.row(f"{number}.") for number, each in enumerate(self.ranked, 1)]
        rows += [each.row("* ") for each in self.labels]
        report = [*self.outlook, "", *([] if all(each.looks_ahead for each in every) else [*aligned(rows), ""])]
        report += [f"{each.method}: {note}" for each in every for note in each.notes]
        report += [f"not {name}: {reason}" for name, reason in self.left_out.items()]
        if every:
            report += ["", "The first one:", f"  {every[0].command}"]
            report += [f"WHOSE says which records belong to one {self.unit}: {UNITS_FORMS}."] * (self.unit != "record")
            report += ["More about one: `gossamer plan METHOD`. The commands of all of them: --json."]
        return report

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "outlook": self.outlook,
            "ranked": [candidate.to_json() for candidate in self.ranked],
            "labels": [candidate.to_json() for candidate in self.labels],
            "left_out": self.left_out,
        }


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What is asked for; see `recommend`. source: flags of each command, before the budget."""

    card: AnyCard
    epsilon: float
    delta: float
    public: str | Path | None
    pictures: str | None
    source: dict[str, str]


@checked_arguments
def recommend(
    card: AnyCard | TableDraft | str | Path,
    *,
    epsilon: float,
    delta: float | None = None,
    public: str | Path | None = None,
    pictures: str | None = None,
    data: str = "DATA",
) -> Advice:
    """Rank the methods for a card, with settings, commands, and what was measured elsewhere. Reads no record.

    Args:
        card: the public facts, or the path of a card.toml.
        epsilon: privacy budget that the run may use; smaller is safer.
        delta: chance that the epsilon bound fails. Default: the largest power of ten that is at most 1e-5 and at most
            0.1 / (declared size).
        public: public records that pre-training may use. They are not read.
        pictures: what the records show: digits, letters or clothes. Leaves out results on other pictures. Give it only
            if it is public.
        data: path of the records, for the commands. Nothing is read from it.

    Raises:
        RequestError: if the card, epsilon or delta make no sense.
    """
    where = str(card) if isinstance(card, str | Path) else "card.toml"
    facts = load_card(card)
    delta = advised_delta(facts, epsilon=epsilon, delta=delta)
    for name, value in {"public": public, "pictures": pictures}.items():
        if value is not None and not facts.has_public:
            raise RequestError(f"`{name}` is for pictures, and the card describes {facts.in_words}: leave it out.")
    source = {"data": shlex.quote(data), "card": shlex.quote(where)}
    if facts.unit != "record":
        source["units"] = facts.whose
    request = _Request(card=facts, epsilon=epsilon, delta=delta, public=public, pictures=pictures, source=source)
    candidates: list[Recommended] = []
    left_out: dict[str, str] = {}
    for name in METHODS.taking(facts.kind):
        try:
            with asked(name):
                candidates.append(_candidate(METHODS[name], request))
        except RequestError as error:
            left_out[name] = str(error)
    candidates.sort(key=lambda candidate: candidate.place)
    ranked, labels = ([each for each in candidates if each.releases == what] for what in ("samples", "release"))
    known = NO_FORECAST if any(each.measured for each in candidates) else NOT_MEASURED
    outlook = [f"{facts.declared_size:,} {facts.unit}s, {facts.breadth}, epsilon {epsilon:g} at delta {delta:g}."]
    needed = not all(each.looks_ahead for each in candidates)
    outlook += filter(None, [remark(epsilon), known if needed else ""])
    return Advice(outlook, ranked, labels, left_out, facts.unit)


def advised_delta(card: AnyCard, *, epsilon: float, delta: float | None) -> float:
    """Return delta, or the usual one where none is given. Raises RequestError: there is no advice for this epsilon or delta."""
    if not epsilon >= LEAST:
        raise RequestError(
            f"`epsilon={epsilon:g}` is too little for any advice: give {LEAST:g} or more. The least that was measured is "
            f"{min(run.epsilon for run in measured_runs.runs()):g}."
        )
    return checked_delta(usual_delta(card) if delta is None else delta, epsilon, card)


def usual_delta(card: AnyCard) -> float:
    """Return the delta that `recommend` takes where none is given. It depends on the declared size alone."""
    return min(1e-5, float(f"1e{math.floor(math.log10(0.1 / card.declared_size) + 1e-9)}"))


def measured_elsewhere(method: str, card: AnyCard, *, epsilon: float, public: bool) -> Measured | None:
    """The nearest measured run of a method on comparable records, for `plan`; None: there is none."""
    like = measured_runs.nearest(measured_runs.of_method(method, epsilon=epsilon, public=public), card, epsilon=epsilon)
    return like if like is not None and measured_runs.comparable(like, card) else None


def _candidate(method: AnyMethod, request: _Request) -> Recommended:
    """One method for the card. Raises RequestError with the reason if it does not suit the card."""
    card, epsilon, name, has_public = request.card, request.epsilon, method.name, request.public is not None
    if method.without_guarantee and not math.isinf(epsilon):
        raise RequestError("it has no formal guarantee: its epsilon is infinity whatever the settings.")
    drawn = {*get_args(get_type_hints(method.config_type).get("drawing"))} - {"pictures"}
    if drawn and request.pictures not in drawn:
        raise RequestError(
            "a program draws its samples. With --pictures digits or letters it is considered, if they show that."
        )
    runs = measured_runs.of_method(name, epsilon=epsilon, public=has_public, pictures=request.pictures)
    like = measured_runs.nearest(runs, card, epsilon=epsilon)
    measured = like if like is not None and measured_runs.comparable(like, card) else None
    preset, made_for = (None, None) if like is None else (like.preset, like.records)
    defaults = presets.defaults(name)
    base = {**defaults, **(presets.settings(name, preset) if preset else {})}
    full = {**base, **({} if like is None else like.settings)}
    dark = () if like is None or like.pictures == request.pictures else method.suits_dark_background
    light = {key: defaults[key] for key in dark if full[key] != defaults[key]}
    full |= light | ({"drawing": request.pictures} if drawn else {})
    full |= presets.scaled(full, card, made_for=made_for, in_proportion=presets.in_proportion(name, preset))
    job = checked(Job.of(method, {**presets.any_noise(name), **full}, card))
    presets.check_net(job)
    if job.needs_public and not has_public:
        raise RequestError(
            "its settings need public records: give --public, or say with --pictures what the records show."
        )
    outlook = _outlook(method, full, request)
    notes = [*outlook]
    if drawn:
        notes.append("Its samples are drawings that the records have chosen, and look like drawings.")
    if measured is not None and measured.of == "release":
        notes.append("The figure is of the released classifier. Its samples are labelled drawings.")
    if measured is not None and measured.on != "test records":
        notes.append("The figure is of records by which settings were chosen.")
    if measured is not None and light:
        black = "The figure is of a run for a black ground. The command has"
        notes.append(f"{black} {' '.join(presets.flags(light))}.")
    budget = {} if method.without_guarantee else {"epsilon": f"{epsilon:g}", "delta": f"{request.delta:g}"}
    flags: dict[str, Any] = request.source | budget
    flags |= {"preset": preset} if preset else {}
    flags |= {key: value for key, value in full.items() if value != base[key]}
    flags |= {"public": shlex.quote(str(request.public))} if has_public and job.takes_public else {}
    place: tuple[float, ...] = (True,)
    if like is not None:  # by how many doublings it had more records times epsilon, beyond `ABOUT`; then the best first
        times = measured_runs.times_clearer(like, card, epsilon=epsilon)
        place = (False, measured is None, max(0, math.ceil(math.log2(times / ABOUT))), -like.accuracy)
    return Recommended(
        method=name,
        measured=measured,
        place=place,
        releases="samples" if like is None else like.of,
        command=" ".join([f"gossamer fit {name}", *presets.flags({**flags, "out": "RUN"})]),
        notes=tuple(notes),
        looks_ahead=bool(outlook),
    )


def _outlook(method: AnyMethod, settings: dict[str, Any], request: _Request) -> Sequence[str]:
    """See `Method.outlook`. The noise is computed only for a method that has something to say."""
    if type(method).outlook is Method.outlook:
        return ()
    decided = plan(method.name, request.card, settings, epsilon=request.epsilon, delta=request.delta).job
    return method.outlook(decided.config, request.card)
