"""`gossamer audit`."""

import json
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.options import as_json, per_method

if TYPE_CHECKING:
    from gossamer.run import audit as auditing
    from gossamer.run import sinks
else:
    auditing, sinks = Lazy("gossamer.run.audit"), Lazy("gossamer.run.sinks")


def _audit(*, as_json: bool, **named: Any) -> None:
    with sinks.Terminal() as terminal:
        found = auditing.audit(sink=terminal, **named)
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    for line in auditing.lines(found):
        click.echo(line)


audit = per_method(
    "audit",
    "Measure what METHOD gives away at the least, through its own loop, beside what it claims. Small nets, few steps, canaries "
    "in the place of records: no data are needed. Exit status 0 whatever the verdict.",
    "gossamer audit METHOD --epsilon 3",
    _audit,
    [
        click.option("--epsilon", type=float, default=3.0, show_default=True, help="What the method is to claim."),
        click.option("--delta", type=float, default=1e-5, show_default=True, help="Of claim and bound."),
        click.option(
            "--trials",
            type=click.IntRange(min=20),
            help="Canaries that take part, and as many that do not [default: 1,000 to 60,000, by method].",
        ),
        click.option(
            "--confidence", type=float, default=0.95, show_default=True, help="That the bound lies below the truth."
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Fixes all but noise and sampling."),
        as_json,
    ],
)
