"""`gossamer recommend`, `gossamer plan` and `gossamer presets`: what the data card decides, before a record is read."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.errors import RequestError, did_you_mean
from gossamer.lazy import Lazy
from gossamer.methods import METHODS
from gossamer.methods.registry import ABOUT, allow
from gossamer.run.cli.options import BUDGET, PATH, PerMethod, as_json, options_of
from gossamer.run.cli.options import card as declared
from gossamer.run.cli.options import public_share as option_public_share
from gossamer.run.report.wording import release_in_words, remark

if TYPE_CHECKING:
    from gossamer.data import card as card_facts
    from gossamer.data.tables import any_card as cards
    from gossamer.privacy.accounting import event_json
    from gossamer.run.cli import calculator
    from gossamer.run.recommend import recommend as advising
    from gossamer.run.recommend.measured_runs import Measured
    from gossamer.run.training import plan as planning
    from gossamer.run.training import presets as preset_table
    from gossamer.run.training.plan import Request
else:
    card_facts, cards = Lazy("gossamer.data.card"), Lazy("gossamer.data.tables.any_card")
    event_json = Lazy("gossamer.privacy.accounting.event_json")
    advising = Lazy("gossamer.run.recommend.recommend")
    calculator, planning = Lazy("gossamer.run.cli.calculator"), Lazy("gossamer.run.training.plan")
    preset_table = Lazy("gossamer.run.training.presets")


@click.command()
@declared
@options_of("gossamer.run.recommend.recommend.recommend")
@as_json
def recommend(as_json: bool, **options: Any) -> None:
    """Rank the methods for a data card, with what each reached elsewhere and the command to copy. Reads no record.

    The figures are of measured runs on other records, and no forecast. Where no run was measured, it says unknown.
    """
    advice = advising.recommend(**options)
    click.echo(json.dumps(advice.to_json()) if as_json else "\n".join(advice.lines()))


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
    facts = cards.load_card(card)
    if public_share is not None:
        facts = card_facts.protected_part(facts, public_share)
    request = planning.plan(method, facts, settings, preset=preset, **budget)
    if has_public := public is not None or public_share is not None:
        planning.check_takes_public(request.job)
    measured = advising.measured_elsewhere(
        request.job.method.name, facts, epsilon=request.promise.epsilon, public=has_public
    )
    click.echo(json.dumps(_as_json(request, measured)) if as_json else "\n".join(_lines(request, measured)))


def _lines(request: "Request", measured: "Measured | None") -> list[str]:
    job = request.job
    elsewhere = f"measured elsewhere, no forecast: {measured or 'nothing on such records'}"
    if reason := job.method.without_guarantee:
        return [
            f"No formal guarantee: epsilon is infinity, because {reason}.",
            f"Reads no record. Batches of training: {_steps(request):,}, after the warm-up.",
            elsewhere,
        ]
    lines = [f"{job.method.title}. No record was read for this plan."]
    lines += [
        f"noisy queries: {count:,} x {release_in_words(event_json.event_to_json(event))}"
        for event, count in request.plan
    ]
    if explanation := job.method.explain(job.config):
        lines.append(explanation)
    lines.append(
        f"noise multiplier {job.settings['noise_multiplier']:g}, sampling rate {calculator.rate_of(request.plan[0][0]):.6g}, "
        f"steps {_steps(request):,}"
    )
    lines += [f"{bound.accountant}: {bound.guarantee}" for bound in request.bounds]
    lines += [f"promise: {request.promise}"]
    lines += [warning] if (warning := remark(request.promise.epsilon)) else []
    return [*lines, elsewhere]


def _as_json(request: "Request", measured: "Measured | None") -> dict[str, Any]:
    return {
        "method": request.job.method.name,
        "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in request.bounds],
        "noise_multiplier": request.job.settings.get("noise_multiplier", 0.0),
        "sampling_rate": calculator.rate_of(request.plan[0][0]),
        "steps": _steps(request),
        "measured": None if measured is None else measured.to_json(),
    }


def _steps(request: "Request") -> int:
    return request.job.phases[-1].steps


plan = PerMethod(
    "plan",
    "Compute the privacy cost of a run of METHOD. Reads the data card, and no record.",
    f"gossamer plan METHOD --card card.toml {BUDGET}",
    _plan,
    [
        declared,
        options_of("gossamer.run.training.plan.plan"),
        click.option("--public", metavar="DATA", help="Public records for pre-training, as for fit; not read."),
        option_public_share,
        as_json,
    ],
)


@click.command()
@click.argument("method", required=False)
@click.option("--card", type=PATH, help="Data card: show the settings that fit it, scaled to its declared size.")
@as_json
def presets(method: str | None, card: Path | None, as_json: bool) -> None:
    """List the named settings of METHOD, or of all methods. `fit` and `plan` take a name with --preset."""
    if method is not None:
        method = allow(method) if ":" in method else method
        if method not in METHODS:
            raise RequestError(
                f"there is no METHOD {method!r}.{did_you_mean(method, METHODS)} Choose one of {', '.join(METHODS)}."
            )
    for name, problem in METHODS.broken().items():
        if method in (None, name):
            click.echo(f"not usable: the plug-in {name}. {problem}", err=True)
    if card is not None:
        _for_card(preset_table.for_card(cards.load_card(card), method=method), as_json=as_json)
        return
    selected = {name: entries for name, entries in preset_table.all_presets().items() if method in (None, name)}
    if as_json:
        click.echo(json.dumps({"presets": selected}))
        return
    for name, entries in selected.items():
        for preset, entry in entries.items():
            settings = " ".join(f"{key}={value}" for key, value in entry.items() if key not in ABOUT)
            made_for = f"; made for {entry['records']:,} records" if "records" in entry else ""
            click.echo(f"{name} {preset}: {entry['about']}{made_for}\n    {settings}")


def _for_card(scaled: "list[preset_table.Scaled]", *, as_json: bool) -> None:
    if as_json:
        entries = [
            {"method": preset.method, "preset": preset.name, "changed": dict(preset.changed), "refused": preset.refused}
            for preset in scaled
        ]
        click.echo(json.dumps({"presets": entries}))
        return
    if not scaled:
        click.echo("no method for such a card has named settings", err=True)
    for preset in scaled:
        click.echo(f"{preset.method} {preset.name}: {preset.about}")
        click.echo(f"    not for this card: {preset.refused}" if preset.refused else f"    {preset.flags}")
