"""`gossamer attack`: every membership attack that applies to a run, compared with guessing.

The figures come from real records. Publishing them, or choosing a run by them, is outside the guarantee.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import notebook
from gossamer.attacks.control import separability
from gossamer.attacks.scores import AttackFigure
from gossamer.data.source import Data, called, source_of
from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import DataError, RunFolderError
from gossamer.events import note
from gossamer.files import LEDGER
from gossamer.intervals import EstimateJson
from gossamer.kinds import kind_of
from gossamer.kinds.kind import Kind, Target
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.evaluation.evaluate import keep_figures
from gossamer.run.report import attack_verdict, wording
from gossamer.run.storage.run_folder import ATTACKS, RunFolder
from gossamer.run.training import checkpoint
from gossamer.run.training.progress import DEFAULT, Process
from gossamer.run.validation import check_own_place, check_place, checked_arguments

FEWEST = 20
"""Members, and non-members, below which no attack is tried."""
HELD_OUT = 5_000
"""Held-out records at most: principal components of more would cost much and change little."""


@dataclass(frozen=True, repr=False)
class AttackReport:
    """The results of the attacks.

    Args:
        attacks: the figures.
        left_out: attacks that do not apply, each with its reason.
        verdict: in plain words, what was found and what that cannot show.
        on: in words, the records that took part.
        control: the Estimate of a classifier that never saw the run, as JSON: how well it separates the sets.
    """

    attacks: list[AttackFigure]
    left_out: dict[str, str]
    verdict: list[str]
    on: str
    control: EstimateJson

    def __repr__(self) -> str:
        return f"AttackReport({' '.join(self.verdict)} These are private figures: do not publish them.)"

    def _repr_html_(self) -> str:
        """Show the verdict and the figures, in a notebook."""
        head, *rows = wording.attack_rows(self.attacks)
        return notebook.table("Attacks", head, rows, " ".join([*self.verdict, "Private figures: do not publish them."]))


@checked_arguments
def attack(
    run: str | Path | Synthesizer,
    *,
    members: Data,
    nonmembers: Data,
    count: int = 20_000,
    limit: int = 2_000,
    out: str | Path | None = None,
    seed: int = 0,
    process: Process = DEFAULT,
) -> AttackReport:
    """Attack a run, or a release, with members and non-members that are known.

    Half of the non-members take part, the other half are held out: for principal components, and as the reference of
    calibrated attacks. Members and non-members are drawn to equal numbers, so that a guess is right half the time. With
    units, one record of each takes part, and no record of its unit is held out: a unit's records are not independent.

    Args:
        run: a finished RUN, or a release (which has no discriminators), or what `fit` returned.
        members: records that the run was trained on (split train, unless you name one).
        nonmembers: records of the same kind that the run never saw (split test, unless you name one).
        count: number of samples to make from the run.
        limit: the most members to use; as many non-members are used.
        out: file for the figures. Default: RUN/attacks.json for a run folder, else none.
        seed: number that fixes the samples and the choice of records.
        process: what is shown meanwhile.

    Raises:
        RunFolderError: if `run` is no finished run, or another took its place meanwhile.
        DataError: if the sets are too small, do not fit the run, or are not apart.
    """
    check_place(out)
    folder = RunFolder(Path(run))
    if folder.private.is_dir():
        check_own_place(folder.path)
    unchanged = folder.unchanged()
    synthesizer = Synthesizer.load(run)
    with process.shown() as events:
        card = synthesizer.card
        kind = kind_of(card)
        sources = source_of(members), source_of(nonmembers)
        with_units = card.rows_have_units or any(source.units is not None for source in sources)
        inside, every = kind.sets(*sources, card, run=run, sink=events)
        outside, on = _told_apart(kind, folder, inside, every, card, with_units=with_units)
        for text in dict.fromkeys((*inside.notes, *outside.notes)):
            events(note(text, about="data"))
        training, reason = _private_state(folder, synthesizer, kind)
        samples = kind.drawn(synthesizer, count, seed, sink=events)
        sets = _drawn(inside, outside, limit, seed)
        target = Target(samples=samples, training=training, synthesizer=synthesizer, seed=seed, **sets)
        on += (
            f" {len(target.members):,} of {len(inside):,} members and {len(target.nonmembers):,} of {len(outside):,} "
            f"non-members took part, drawn at random; {len(target.held_out):,} other non-members were held out."
        )
        entries: list[AttackFigure] = []
        left_out = {"white-box and oracle TVD": reason} if reason else {}
        for name, make in kind.attacks(target):
            events(note(f"attacking: {name}"))
            try:
                entries += [result.to_json() for result in make()]
            except DataError as error:
                left_out[name] = str(error)
        events(note("the control: a classifier that never saw the run"))
        control = separability(*(kind.array(part, card) for part in (target.members, target.nonmembers)), seed=seed)
    guarantee = synthesizer.certificate.guarantee
    verdict = attack_verdict.verdict(entries, guarantee, control=control, units=with_units, unit=card.unit)
    verdict += kind.limits(card)
    report = AttackReport(entries, left_out, verdict, on, control.to_json())
    unchanged()
    own = folder.private.is_dir()
    reading = {"attack": [called(members, "members"), called(nonmembers, "nonmembers")]}
    figures = dataclasses.asdict(report)
    keep_figures(figures, out or (folder.file(ATTACKS) if own else None), folder if own else None, reading)
    return report


def lines(report: AttackReport) -> list[str]:
    """The figures, the verdict, and what was left out, for the terminal: rates of false alarms have a table of their own."""
    head, *rows = wording.attack_rows(report.attacks)
    figures = wording.aligned([row[:4] for row in (head, *rows)])
    if rated := [(row[0], *row[4:]) for row in rows if set(row[4:]) != {wording.NONE}]:
        figures += ["", *wording.aligned([(head[0], *head[4:]), *rated]), ""]
    figures += [f"{name} left out: {reason}" for name, reason in report.left_out.items()]
    return [
        line.replace(wording.PERCENT, " %") for line in (*figures, report.on, " ".join(report.verdict), wording.PRIVATE)
    ]


def _told_apart(
    kind: Kind[Any, Any], folder: RunFolder, inside: Any, every: Any, card: AnyCard, *, with_units: bool
) -> tuple[Any, str]:
    """The non-members that are no members; and in words what was found about both sets.

    Raises:
        DataError: if the sets are too small, do not fit the run, or are not apart.
    """
    outside, copies = kind.apart(inside, every)
    on = "Whether the members are the run's own records was not checked."
    if folder.private.is_dir():
        trained_on = folder.source().get("records")
        if trained_on in kind.fingerprints(every):
            raise DataError("`nonmembers`: the run was trained on these records; give records that it never saw.")
        if trained_on in kind.fingerprints(inside):
            on = "The members are the run's own records."
    members, nonmembers = (len(np.unique(_units(records))) for records in (inside, outside))
    if members < FEWEST or nonmembers < 2 * FEWEST:
        of = f", counted by {card.unit if card.unit != 'record' else 'unit'}," if with_units else ""
        raise DataError(
            f"{members:,} members and {nonmembers:,} non-members{of} are too few: attacks need at least {FEWEST} members "
            f"and {2 * FEWEST} non-members, half of them held out."
        )
    return outside, f"{on} {copies}".strip()


def _units(records: Any) -> np.ndarray:
    """The unit of each record: a record without another is its own."""
    return np.arange(len(records)) if records.units is None else np.asarray(records.units)


def _private_state(
    folder: RunFolder, synthesizer: Synthesizer, kind: Kind[Any, Any]
) -> tuple[Training[BaseConfig, State] | None, str]:
    """The run as its checkpoint has it, or None and the reason."""
    training = synthesizer.job.begin(Rng(0))
    if not kind.has_discriminators(synthesizer, training):
        return None, f"{synthesizer.certificate.method} keeps no discriminator that could be asked"
    if not folder.private.is_dir():
        return None, "the private checkpoint with the discriminators is not here: this is a release"
    try:
        saved = checkpoint.load(folder.private, PrivacyLedger.load(folder.file(LEDGER)))
        if saved is None:
            return None, "the private checkpoint with the discriminators has been removed"
        checkpoint.restore(training.state, saved[0], folder.private)
    except RunFolderError as error:
        return None, str(error)
    return training, ""


def _drawn(inside: Any, outside: Any, limit: int, seed: int) -> dict[str, Any]:
    """Equal numbers of members and non-members at random, and held-out records that are neither."""
    rng, units = np.random.default_rng(seed), _units(outside)
    order = rng.permutation(len(outside))
    first = _first_per_unit(units, order)
    half = len(first) // 2
    takes_part = _first_per_unit(_units(inside), rng.permutation(len(inside)))
    m = min(len(takes_part), half, limit)
    of_others = order[np.isin(units[order], units[first[half:]])]
    held_out = outside[of_others[:HELD_OUT]]
    return {"members": inside[takes_part[:m]], "nonmembers": outside[first[:m]], "held_out": held_out}


def _first_per_unit(units: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The first record of each unit, in this order of all records."""
    _, first = np.unique(units[order], return_index=True)
    return order[np.sort(first)]
