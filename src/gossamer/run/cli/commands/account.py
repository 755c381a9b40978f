"""`gossamer account`."""

import json
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json, options_of

if TYPE_CHECKING:
    from gossamer.run.cli import calculator
else:
    calculator = Lazy("gossamer.run.cli.calculator")


@click.command()
@options_of("gossamer.run.cli.calculator.account", draw={"type": click.Choice(["secret", "round_robin", "paper"])})
@as_json
def account(as_json: bool, **options: Any) -> None:
    """Calculate the privacy cost of Poisson-sampled Gaussian queries or, with --draw, of the answers of gs-wgan's critics."""
    answer = calculator.account(**options)
    if as_json:
        click.echo(json.dumps(answer.to_json()))
        return
    click.echo(
        f"sampling rate {answer.sampling_rate:.6g}, noise multiplier {answer.noise_multiplier:g}, steps {answer.steps:,}"
    )
    for bound in answer.bounds:
        click.echo(f"{bound.accountant}: {bound.guarantee}")
