"""`gossamer plan`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import BUDGET, as_json, delta, epsilon, per_method, preset, public_share
from gossamer.run.report.wording import release_in_words, remark

if TYPE_CHECKING:
    from gossamer.data import card as cards
    from gossamer.privacy.accounting import event_json
    from gossamer.run.cli import calculator
    from gossamer.run.recommend import forecast
    from gossamer.run.recommend.forecast import Outlook
    from gossamer.run.training import plan as planning
    from gossamer.run.training.plan import Request
else:
    cards, event_json = Lazy("gossamer.data.card"), Lazy("gossamer.privacy.accounting.event_json")
    calculator, planning = Lazy("gossamer.run.cli.calculator"), Lazy("gossamer.run.training.plan")
    forecast = Lazy("gossamer.run.recommend.forecast")


def _plan(
    *,
    method: str,
    settings: dict[str, Any],
    card: Path,
    public: str | None,
    public_share: float | None,
    preset: str | None,
    as_json: bool,
    **budget: float | None,
) -> None:
    facts = cards.DataCard.load(card)
    if public_share is not None:
        facts = cards.protected_part(facts, public_share)
    request = planning.plan(method, facts, settings, preset=preset, **budget)
    if public is not None or public_share is not None:
        planning.check_takes_public(request.job)
    expected = forecast.outlook(request, public=public is not None or public_share is not None)
    click.echo(json.dumps(_as_json(request, expected)) if as_json else "\n".join(_lines(request, expected)))


def _lines(request: "Request", expected: "Outlook") -> list[str]:
    job = request.job
    if reason := job.method.without_guarantee:
        return [
            f"No formal guarantee: epsilon is infinity, because {reason}.",
            f"Reads no record. Batches of training: {_steps(request):,}, after the warm-up.",
            *expected.lines(),
        ]
    told = [f"{job.method.title}: reads no record."]
    told += [
        f"releases: {count:,} x {release_in_words(event_json.event_to_json(event))}" for event, count in request.plan
    ]
    told += [job.explanation] if job.explanation else []
    told.append(
        f"noise multiplier {job.settings['noise_multiplier']:g}, sampling rate {calculator.rate_of(request.plan[0][0]):.6g}, "
        f"steps {_steps(request):,}"
    )
    told += [f"{bound.accountant}: {bound.guarantee}" for bound in request.bounds]
    told += [f"promise: {request.promise}"]
    told += [said] if (said := remark(request.promise.epsilon)) else []
    return [*told, *expected.lines()]


def _as_json(request: "Request", expected: "Outlook") -> dict[str, Any]:
    return {
        "method": request.job.method.name,
        "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in request.bounds],
        "noise_multiplier": request.job.settings.get("noise_multiplier", 0.0),
        "sampling_rate": calculator.rate_of(request.plan[0][0]),
        "steps": _steps(request),
        "outlook": expected.to_json(),
    }


def _steps(request: "Request") -> int:
    return request.job.phases[-1].steps


plan = per_method(
    "plan",
    "What a run of METHOD would cost, and what to expect of it. Reads no record: it needs the card only.",
    f"gossamer plan METHOD --card card.toml {BUDGET}",
    _plan,
    [
        click.option("--card", type=click.Path(path_type=Path), required=True, help="The declared public facts."),
        epsilon,
        delta,
        click.option(
            "--public", metavar="DATA", help="What --public is for fit. It is not read, and costs no epsilon."
        ),
        public_share,
        preset,
        as_json,
    ],
)
