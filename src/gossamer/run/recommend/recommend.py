"""`gossamer recommend`: which method, with which settings, for the records of a card. Reads no record.

What to expect comes from measured runs on comparable pictures (`measured_runs.py`). Each method takes the settings of the
nearest measured run. The methods are ranked by the figures of these runs. First come those whose run was about as clear as
the one asked for, or less clear. The others follow, in steps of a factor of two by which their run was clearer. Methods
that were measured on other pictures only come next, without a figure. Methods that were never measured come last.

The file has over 400 lines, because ranking and its words follow from one candidate.
"""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gossamer.data.card import DataCard
from gossamer.data.tables.any_card import AnyCard, load_card
from gossamer.data.tables.card import TableDraft
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.registry import asked
from gossamer.run.recommend import measured_runs, tables
from gossamer.run.recommend.forecast import LAST, about, by, duration, more, nearest, time_of
from gossamer.run.recommend.measured_runs import USEFUL, Expected, Measured, percent
from gossamer.run.report.wording import aligned, remark
from gossamer.run.training import presets
from gossamer.run.training.plan import checked, checked_delta
from gossamer.run.validation import checked_arguments

ABOUT = 2.0
"""A run that is up to so many times clearer counts as about as clear, for the ranking."""
LEAST = 0.01
"""The smallest epsilon with advice: below it, no measured run is near."""
UNITS_FORMS = (
    "FILE.csv (name,unit), `folder` (class/unit/picture), a '(PATTERN)' of the name, dicom:PatientID, or FILE.npz:KEY"
)
"""What --units takes."""
DRAWING, PUBLIC_PICTURES = "drawing", "pictures"
"""The setting that says what a drawing program draws. Its choices are kinds of pictures."""
IF_DIGITS = "--pictures digits, if it is public that the records show digits"
"""How to say what pictures show: it becomes public with the settings of a run."""


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """A method that suits the card.

    Args:
        method: its name.
        expected: what to expect, for each measured data set; empty: unknown.
        like: the measured run whose settings are taken; None: the method's defaults.
        changed: settings that were scaled to the card.
        left_out: settings of `like` that suit pictures on a black ground only.
        far: how much clearer `like` was, in doublings beyond `ABOUT`; at least 0.
        enough: the least clear useful run of the method, if any.
        minutes: how long the fit takes, about; None: unknown.
        command: to copy.
        notes: what to know about its samples, or why nothing is known.
        hint: in what `like` differs so much that its figures say little; empty: in nothing.
    """

    method: str
    expected: tuple[Expected, ...]
    like: Measured | None
    changed: dict[str, Any]
    left_out: dict[str, Any]
    far: int
    enough: Measured | None
    minutes: float | None
    command: str
    notes: tuple[str, ...]
    hint: str

    @property
    def useful(self) -> bool:
        """Whether it is expected to reach `USEFUL`, on pictures as easy as the measured ones."""
        return any(figure.low is not None and figure.low >= USEFUL for figure in self.expected)

    @property
    def origin(self) -> str:
        """Where its settings come from, in words."""
        if self.like is None:
            return "the method's defaults"
        run = "that run" if self.expected else f"a run on other pictures ({self.like.data})"
        scaled = f", scaled to these records ({' '.join(presets.flags(self.changed))})" if self.changed else ""
        without = f", without {' '.join(presets.flags(self.left_out))} for a black ground" if self.left_out else ""
        return f"the settings of {run}{scaled}{without}"

    def row(self) -> list[str]:
        """Its row in the table: what to expect if these records are as hard as those of `like`, the time, and `like`."""
        like = self.like
        if like is None or not self.expected:
            return [self.method, "unknown", "unknown", "not measured on such records"]
        expected = next(figure for figure in self.expected if (figure.data, figure.public) == (like.data, like.public))
        return [self.method, expected.range_text, about(self.minutes), like.in_short]

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "method": self.method,
            "expected": [figure.to_json() for figure in self.expected],
            "like": str(self.like) if self.like is not None and self.expected else None,
            "minutes": self.minutes,
            "notes": [*filter(None, [self.hint]), *self.notes],
            "command": self.command,
        }


@dataclass(frozen=True)
class Advice:
    """What `recommend` says.

    Args:
        outlook: what to expect of any method, in sentences.
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
        """The outlook, a table of all methods with a reason for each, and one command. `--json` has all of them."""
        every = [*self.ranked, *self.labels]
        ranks = [*(f"{number}." for number in range(1, len(self.ranked) + 1)), *("* " for _ in self.labels)]
        rows = [candidate.row() for candidate in every]
        rows = [[f"{rank} {method}", *row] for rank, (method, *row) in zip(ranks, rows, strict=True)]
        report = [
            *self.outlook,
            "",
            *aligned([["method", "accuracy", "time", "because a measured run reached"], *rows]),
            "",
        ]
        report += [
            f"{candidate.method}{'*' if candidate in self.labels else ''}: {note}."
            for candidate in every
            for note in candidate.notes
        ]
        shown = [
            (candidate.method, candidate.like)
            for candidate in every
            if candidate.like is not None and candidate.expected
        ]
        on_training = [method for method, like in shown if like.on != "test records"]
        if on_training:
            report.append(f"Of {', '.join(on_training)} on held-out training records, by which settings were chosen.")
        hints = dict.fromkeys(candidate.hint for candidate in every if candidate.hint)
        report += [f"The runs were {hint}." for hint in hints]
        report += [f"not {name}: {reason}" for name, reason in self.left_out.items()]
        if every:
            report += ["", f"The first one, with {every[0].origin}:", f"  {every[0].command}"]
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


@checked_arguments
def recommend(
    card: AnyCard | TableDraft | str | Path,
    *,
    epsilon: float,
    delta: float | None = None,
    minutes: float | None = None,
    public: str | Path | None = None,
    pictures: str | None = None,
    data: str = "DATA",
) -> Advice | tables.TableAdvice:
    """Rank the methods for a card, with settings, reasons and commands. Reads no record.

    For a table, which one method takes, it says how clear the counts will be.

    Args:
        card: the public facts, or the path of a card.toml.
        epsilon: privacy budget that the run may use; smaller is safer.
        delta: chance that the epsilon bound fails. Default: the largest power of ten that is at most 1e-5 and at most
            0.1 / (declared size).
        minutes: leave out methods that take more minutes than this. Default: no limit.
        public: public records that pre-training may use. They are not read.
        pictures: what the records show: digits, letters or clothes. Leaves out results on other pictures. Give it only
            if it is public.
        data: path of the records, for the commands. Nothing is read from it.

    Raises:
        RequestError: if the card, epsilon or delta make no sense.
    """
    where = str(card) if isinstance(card, str | Path) else "card.toml"
    facts = load_card(card)
    if minutes is not None and not minutes > 0:
        raise RequestError(f"--minutes must be above 0, not {minutes:g}.")
    delta = advised_delta(facts, epsilon=epsilon, delta=delta)
    if not isinstance(facts, DataCard):
        tables.refuse_options(minutes=minutes, public=public, pictures=pictures)
        return tables.advise(facts, epsilon=epsilon, delta=delta, where=where, data=data)
    data_flags = f"--data {shlex.quote(data)} --card {shlex.quote(where)}"
    data_flags += " --units WHOSE" if facts.unit != "record" else ""
    candidates: list[Recommended] = []
    left_out: dict[str, str] = {}
    for name in METHODS.taking(facts.kind):
        try:
            with asked(name):
                candidate = _candidate_for(
                    name, facts, epsilon=epsilon, delta=delta, public=public, pictures=pictures, data_flags=data_flags
                )
        except RequestError as error:
            left_out[name] = str(error)
            continue
        if minutes is not None and candidate.minutes is not None and candidate.minutes > minutes:
            left_out[name] = f"it would take {duration(candidate.minutes, candidate.like)}."
        else:
            candidates.append(candidate)
    candidates.sort(key=_rank)
    labels = [candidate for candidate in candidates if candidate.like is not None and candidate.like.of == "release"]
    ranked = [candidate for candidate in candidates if candidate not in labels]
    return Advice(_outlook(ranked, facts, epsilon=epsilon, delta=delta), ranked, labels, left_out, facts.unit)


def advised_delta(card: AnyCard, *, epsilon: float, delta: float | None) -> float:
    """Return delta, or the usual one where none is given. Raises RequestError: there is no advice for this epsilon or delta."""
    if not epsilon >= LEAST:
        raise RequestError(
            f"--epsilon {epsilon:g} is too little for any advice: give {LEAST:g} or more. The least that was measured is "
            f"{min(run.epsilon for run in measured_runs.runs()):g}."
        )
    return checked_delta(usual_delta(card) if delta is None else delta, epsilon, card)


def usual_delta(card: AnyCard) -> float:
    """Return the delta that `recommend` takes where none is given. It depends on the declared size alone."""
    return min(1e-5, float(f"1e{math.floor(math.log10(0.1 / card.declared_size) + 1e-9)}"))


def _rank(candidate: Recommended) -> tuple[bool, bool, int, float]:
    """The key of the order that the module describes."""
    return (
        candidate.like is None,
        not candidate.expected,
        candidate.far,
        0.0 if candidate.like is None else -candidate.like.accuracy,
    )


def _candidate_for(
    name: str,
    card: DataCard,
    *,
    epsilon: float,
    delta: float,
    public: str | Path | None,
    pictures: str | None,
    data_flags: str,
) -> Recommended:
    """One method for the card. Raises RequestError with the reason if it does not suit the card."""
    method = METHODS[name]
    if method.without_guarantee and not math.isinf(epsilon):
        raise RequestError("it has no formal guarantee: its epsilon is infinity whatever the settings.")
    drawn = _drawn_classes(name)
    if drawn and pictures not in drawn:
        raise RequestError(
            f"a program draws its samples: {', '.join(drawn)}. With --pictures and one of these it is considered."
        )
    measured = measured_runs.of_method(name, epsilon=epsilon, pictures=pictures)
    usable = [run for run in measured if not run.public or (public is not None and method.takes_public)]
    usable = [run for run in usable if run.all_settings.get("start") != "evolve" or run.pictures == pictures]
    clearness = measured_runs.clearness(card.declared_size, epsilon, delta)
    comparable = [run for run in usable if measured_runs.comparable(run, card)]
    like = nearest(comparable or usable, card, epsilon=epsilon, delta=delta)
    settings = {} if like is None else dict(like.settings)
    preset = None if like is None else like.preset
    without = _for_black_ground(like) if like is not None and like.pictures != pictures else {}
    settings = {key: value for key, value in settings.items() if key not in without}
    preset_settings = presets.settings(name, preset) if preset else {}
    settings |= {key: presets.defaults(name)[key] for key in without if key in preset_settings}
    if drawn and pictures != presets.defaults(name)[DRAWING]:
        settings[DRAWING] = pictures
    full = {**presets.defaults(name), **preset_settings, **settings}
    changed = presets.scaled(
        full, card, made_for=None if like is None else like.records, in_proportion=presets.in_proportion(name, preset)
    )
    budget = {} if method.without_guarantee else {"epsilon": epsilon, "delta": delta}
    requested = {**settings, **changed}
    noise = {} if method.without_guarantee else {"noise_multiplier": 1.0}  # stands for what --epsilon decides
    job = checked(method.job({**full, **requested, **noise}, card))
    presets.check_net(job)
    if job.needs_public and public is None:
        drawn_digits = any(run.pictures == "digits" and run.all_settings.get("start") == "evolve" for run in measured)
        digits = f", or {IF_DIGITS}, for a start that draws them" if drawn_digits and pictures != "digits" else ""
        raise RequestError(f"its settings need public records: give --public{digits}.")
    return Recommended(
        method=name,
        expected=measured_runs.expected(comparable, card, epsilon=epsilon, delta=delta),
        like=like,
        changed=changed,
        left_out=without,
        far=0 if like is None else max(0, math.ceil(math.log2(like.clearness / (ABOUT * clearness)))),
        enough=measured_runs.enough(comparable),
        minutes=time_of(like, card) if like is not None and comparable else None,
        command=" ".join([
            f"gossamer fit {name} {data_flags}",
            *presets.flags({key: f"{value:g}" for key, value in budget.items()}),
            *([f"--preset {preset}"] if preset else []),
            *presets.flags(requested),
            *([f"--public {shlex.quote(str(public))}"] if public is not None and job.takes_public else []),
            "--out RUN",
        ]),
        notes=(*_notes(like, measured, drawn), *_without(like if comparable else None, without, pictures)),
        hint=_hint(like, card) if like is not None and comparable else "",
    )  # fmt: skip


def _drawn_classes(name: str) -> tuple[str, ...]:
    """What the drawing program of a method draws, without public pictures; empty: it has no such program."""
    hints = get_type_hints(METHODS[name].config_type)
    return tuple(kind for kind in get_args(hints[DRAWING]) if kind != PUBLIC_PICTURES) if DRAWING in hints else ()


def _hint(like: Measured, card: DataCard) -> str:
    if like.shape == card.shape:
        return ""
    return f"measured on pictures of {by(like.shape)}: the figures are no more than a hint"


def _for_black_ground(run: Measured) -> dict[str, Any]:
    """The settings of a run that suit pictures on a black ground."""
    settings, defaults = run.all_settings, presets.defaults(run.method)
    return {
        key: settings[key]
        for key in METHODS[run.method].suits_dark_background
        if settings.get(key, defaults[key]) != defaults[key]
    }


def _without(like: Measured | None, without: dict[str, Any], pictures: str | None) -> tuple[str, ...]:
    """What the figures owe to settings that the command leaves out."""
    if like is None or not without:
        return ()
    kind = like.pictures
    declared = "" if pictures else f", or give --pictures {kind} if the records show {kind} and that is public"
    flags = " ".join(presets.flags(without))
    return (f"its figures are of runs with {flags}, which the command leaves out. Expect less{declared}",)


def _notes(like: Measured | None, measured: Sequence[Measured], drawn: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if like is None and measured and not any(run.public for run in measured):
        notes.append(f"it was measured after a start that draws digits. It is considered with {IF_DIGITS}")
    elif like is None and measured:
        notes.append("it was measured with public records only: give --public, if there are any")
    if like is not None and like.of == "release":
        notes.append(
            "the figures are of the released classifier; its samples are drawn shapes with labels, not pictures"
        )
    if drawn:
        notes.append("its samples are drawings that the records have chosen, and look like drawings")
    return tuple(notes)


def _outlook(ranked: Sequence[Recommended], card: DataCard, *, epsilon: float, delta: float) -> list[str]:
    sentences = [
        f"{card.declared_size:,} {card.unit}s, {card.classes} classes, epsilon {epsilon:g} at delta {delta:g}."
    ]
    sentences += [warning] if (warning := remark(epsilon)) else []
    if good := [candidate.method for candidate in ranked if candidate.useful]:
        return [
            *sentences,
            f"Useful samples (a classifier that learns from them is right in {percent(USEFUL)} of cases or more) can be "
            f"expected of {', '.join(good)}, if these records are as easy as those that were measured.",
        ]
    if card.classes == 1:
        return [*sentences, "One class leaves a classifier nothing to tell apart, so no accuracy is forecast."]
    if not any(candidate.expected for candidate in ranked):
        return [
            *sentences,
            f"No method was measured on pictures of about {by(card.shape)} in {card.classes} classes, so no accuracy is "
            "forecast. Measure one on public pictures of the same kind first. The order below is from runs on other pictures.",
        ]
    enough = [candidate.enough for candidate in ranked if candidate.enough is not None]
    least_clear = min(enough, key=lambda run: (run.clearness, -run.accuracy), default=None)
    larger = epsilon < LAST and (
        least_clear is None
        or measured_runs.epsilon_needed(least_clear, records=card.declared_size, delta=delta) is not None
    )
    sentences.append(
        f"No measured run says that useful samples (a classifier that learns from them is right in {percent(USEFUL)} of cases "
        "or more) can be expected here. Longer training does not make up for that; more records"
        + (", or a larger epsilon, do." if larger else " do.")
    )
    if least_clear is not None:
        sentences.append(f"Over all methods, {more(least_clear, card, epsilon=epsilon, delta=delta)}")
    return sentences
