"""All that a run may ask: its method, the look that chooses among several, and the score.

A look asks of how many records some facts are true, with noise, before a method begins. The answer decides which of the jobs
of a run is trained. The jobs share one plan: of each event it has as many as the job that asks for most of them. So whatever
is chosen, the run asks a part of what was reserved before a record was read.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.data.tables.any_card import card_from
from gossamer.kinds import kind_of
from gossamer.kinds.score import SCORE, Plan, Score
from gossamer.methods import method_of
from gossamer.methods.common.declared import once
from gossamer.methods.contract import Query
from gossamer.methods.job import Job
from gossamer.privacy.certificate.statements import CHOICES
from gossamer.privacy.ledger import merge

LOOK = "look"
"""The name of the query, and of its entry in config.json."""
ANY_OF_THEM = "the method that the look chooses"
"""The purpose of the queries of several jobs, of which one is trained."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look that a run takes. Pure: known before a record is read.

    Args:
        noise_multiplier: standard deviation of the noise, see `Facts`. 0: no noise.
        shows: of each job, what records show for which it is; see `picture_facts.WORDS`.
    """

    noise_multiplier: float
    shows: Sequence[str]

    @property
    def query(self) -> Query:
        """The noisy query, which is asked once."""
        return once(LOOK, self.noise_multiplier)

    def choice(self, answer: Sequence[float], card: Any) -> int:
        """Which job a noisy answer chooses, from 0. It follows from the answer and from public facts."""
        shares = [math.sqrt(len(answer)) * number / card.declared_size for number in answer]
        shown = kind_of(card).look.shown(shares)
        return self.shows.index(shown) if shown in self.shows else 0


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a run may ask, known before a record is read.

    Args:
        jobs: the method with its settings. Where a look chooses, all that it may choose; the first where it has no answer.
        look: None: there is one job.
        score: None: the run does not measure itself.
    """

    jobs: Sequence[Job[Any, Any]]
    look: Look | None = None
    score: Score | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any], folder: Path) -> "RunPlan":
        """That of settings as config.json holds them. Raises RunFolderError: a method is not here; and what damage raises."""
        card = card_from(settings["card"])
        jobs = [
            Job.of(method_of(each["method"], folder=folder), each["config"], card)
            for each in settings.get(CHOICES, [settings])
        ]
        look = Look(**settings[LOOK]) if LOOK in settings else None
        return cls(jobs=jobs, look=look, score=Score(**settings[SCORE]) if SCORE in settings else None)

    @property
    def plan(self) -> Plan:
        """All of it. Raises RequestError: the settings of a job contradict each other."""
        return [entry for _, part in self.parts for entry in part]

    @property
    def parts(self) -> list[tuple[str, Plan]]:
        """The same by purpose: the look, the phases of the method, and the score."""
        plans = [job.plan for job in self.jobs]
        own = [(phase.name, phase.plan) for phase in self.jobs[0].phases]
        if self.look is not None:
            own = [(LOOK, self.look.query.plan), (ANY_OF_THEM, largest(plans))]
        return own if self.score is None else [*own, (SCORE, self.score.query.plan)]


def largest(plans: Sequence[Plan]) -> Plan:
    """Of each event as many as the plan has that has most of it: each of the plans is a part of this one."""
    counts: dict[Any, int] = {}
    for plan in plans:
        for event, count in merge(plan):
            counts[event] = max(count, counts.get(event, 0))
    return list(counts.items())
