"""`gossamer recommend`, `gossamer plan` and `gossamer presets`: what the data card decides, before a record is read."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import gossamer
from gossamer.data.card import protected_part
from gossamer.data.tables.any_card import load_card
from gossamer.methods import METHODS
from gossamer.methods.registry import ABOUT, AUTO
from gossamer.run.cli import options as flags
from gossamer.run.report.wording import release_in_words, remark
from gossamer.run.training import presets as named

if TYPE_CHECKING:
    from gossamer.run.training.plan import Request


@click.command()
@flags.card
@flags.options_of("run.recommend.recommend.recommend")
@flags.as_json
def recommend(as_json: bool, **options: Any) -> None:
    """List the methods that suit a data card, with the command to copy. Reads no record.

    It forecasts nothing: the commands measure their samples, and epsilon covers the figure.
    """
    advice = gossamer.recommend(**options)
    flags.show(advice.lines(), dataclasses.asdict(advice), as_json=as_json)


def _plan(
    *,
    method: str,
    settings: dict[str, Any],
    card: Path,
    public: str | None,
    public_share: float | None,
    preset: str | None,
    score: float | None,
    as_json: bool,
    **budget: float | None,
) -> None:
    """Compute the privacy cost of a run of METHOD. Reads the data card, and no record."""
    from gossamer.run.cli.calculator import rate_of
    from gossamer.run.training.plan import check_takes_public, plan

    facts = load_card(card)
    if public_share is not None:
        facts = protected_part(facts, public_share)
    request = plan(method, facts, settings, preset=preset, score=score, **budget)
    if public is not None or public_share is not None:
        check_takes_public(request.job)
    answer = {
        "method": AUTO if method == AUTO else request.job.method.name,
        "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in request.bounds],
        "noise_multiplier": request.job.settings.get("noise_multiplier", 0.0),
        "sampling_rate": rate_of(request.plan[0][0]),
        "steps": request.job.phases[-1].steps,
        "outlook": [*request.job.method.outlook(request.job.config, facts)],
    }
    flags.show([*_lines(request, answer), *answer["outlook"]], answer, as_json=as_json)


def _lines(request: "Request", answer: dict[str, Any]) -> list[str]:
    from gossamer.privacy.accounting.event_json import event_to_json

    method = request.job.method
    if reason := method.without_guarantee:
        return [
            f"No formal guarantee: epsilon is infinity, because {reason}.",
            f"Reads no record. Batches of training: {answer['steps']:,}, after the warm-up.",
        ]
    titles = [f"{method.title}."]
    if request.asks.look:
        choices = zip(request.asks.jobs, request.asks.look.shows, strict=True)
        titles = [f"{shows}: {job.method.title}, if the look finds this." for job, shows in choices]
    return [
        *titles[:-1],
        f"{titles[-1]} No record was read for this plan.",
        *(f"noisy queries: {count:,} x {release_in_words(event_to_json(event))}" for event, count in request.plan),
        *filter(None, [method.explain(request.job.config)]),
        f"noise multiplier {answer['noise_multiplier']:g}, sampling rate {answer['sampling_rate']:.6g}, "
        f"steps {answer['steps']:,}",
        *(f"{bound.accountant}: {bound.guarantee}" for bound in request.bounds),
        f"promise: {request.promise}",
        *filter(None, [remark(request.promise.epsilon)]),
    ]


plan = flags.PerMethod(
    "plan",
    f"gossamer plan METHOD --card card.toml {flags.BUDGET}",
    _plan,
    [
        flags.card,
        flags.options_of("run.training.plan.plan"),
        click.option("--public", metavar="DATA", help="Public records for pre-training, as for fit; not read."),
        flags.public_share,
        flags.as_json,
    ],
    auto=True,
)


@click.command()
@click.argument("method", required=False)
@flags.as_json
def presets(method: str | None, as_json: bool) -> None:
    """List the named settings of METHOD, or of all methods. `fit` and `plan` take a name with --preset.

    `gossamer recommend` says which of them is nearest to a data card, and scales it.
    """
    if method is not None:
        from gossamer.run.training.plan import method_named

        method = method_named(method).name
    for name, problem in METHODS.broken().items():
        if method in (None, name):
            click.echo(f"not usable: the plug-in {name}. {problem}", err=True)
    lines: list[str] = []
    selected = {name: entries for name, entries in named.all_presets().items() if method in (None, name)}
    for name, entries in selected.items():
        for preset, entry in entries.items():
            settings = " ".join(f"{key}={value}" for key, value in entry.items() if key not in ABOUT)
            made_for = f"; made for {entry['records']:,} records" if "records" in entry else ""
            lines.append(f"{name} {preset}: {entry['about']}{made_for}\n    {settings}")
    flags.show(lines, {"presets": selected}, as_json=as_json)
