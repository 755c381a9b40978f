"""`gossamer account`."""

import json
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json

if TYPE_CHECKING:
    from gossamer.run.cli import calculator
else:
    calculator = Lazy("gossamer.run.cli.calculator")


@click.command()
@click.option("--sampling-rate", type=float, help="Probability with which a record is drawn in a step.")
@click.option("--noise-multiplier", type=float, help="Standard deviation of the noise / L2 sensitivity.")
@click.option("--steps", type=int, help="Number of releases.")
@click.option("--delta", type=float, required=True, help="Delta of the guarantee.")
@click.option("--epsilon", type=float, help="Instead of one of the first three: solves for that one.")
@click.option(
    "--draw",
    type=click.Choice(["secret", "round_robin", "paper"]),
    help="Critics of gs-wgan in place of records: who answers. Then --noise-multiplier is against 2C per row.",
)
@click.option("--critics", type=int, help="With --draw: number of critics.")
@click.option("--batch-size", type=int, help="With --draw: rows of an answer.")
@as_json
def account(as_json: bool, **named: Any) -> None:
    """Privacy calculator for Poisson-sampled Gaussian releases and, with --draw, for the answers of gs-wgan's critics."""
    answer = calculator.account(**named)
    if as_json:
        click.echo(json.dumps(answer.to_json()))
        return
    click.echo(
        f"sampling rate {answer.sampling_rate:.6g}, noise multiplier {answer.noise_multiplier:g}, steps {answer.steps:,}"
    )
    for bound in answer.bounds:
        click.echo(f"{bound.accountant}: {bound.guarantee}")
