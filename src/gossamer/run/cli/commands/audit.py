"""`gossamer audit`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH, PerMethod, as_json, options_of
from gossamer.run.report.audit_record import REFUTED

if TYPE_CHECKING:
    from gossamer.run.auditing import audit as auditing
    from gossamer.run.training import progress
else:
    auditing, progress = Lazy("gossamer.run.auditing.audit"), Lazy("gossamer.run.training.progress")

TRIALS = {"type": click.IntRange(min=20)}


def _audit(*, as_json: bool, **options: Any) -> None:
    with progress.Terminal() as terminal:
        report = auditing.audit(sink=terminal, **options)
    _show(report, as_json=as_json)


@click.command()
@click.option("--run", type=PATH, metavar="RUN", help="Audit at the epsilon of this finished run.")
@options_of("gossamer.run.auditing.audit.audit_run", trials=TRIALS)
@as_json
def of_run(run: Path | None, as_json: bool, **options: Any) -> None:
    """What the group does where no METHOD is named."""
    context = click.get_current_context()
    if (method := context.invoked_subcommand) is not None:
        for name in ("run", *options, "as_json"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                flag = "json" if name == "as_json" else name
                fix = (
                    f"the METHOD of a RUN is known: leave {method} out."
                    if name == "run"
                    else f"it goes after {method}."
                )
                raise click.UsageError(f"--{flag} stands before {method}: {fix}")
        return
    if run is None:
        raise click.UsageError("name a METHOD, or give --run RUN.")
    with progress.Terminal() as terminal:
        report = auditing.audit_run(run, sink=terminal, **options)
    _show(report, as_json=as_json)


def _show(report: "auditing.AuditReport", *, as_json: bool) -> None:
    """The result; exit status 1 where the claim is refuted."""
    for line in [json.dumps(report.to_json())] if as_json else auditing.lines(report):
        click.echo(line)
    click.get_current_context().exit(int(report.verdict == REFUTED))


audit = PerMethod(
    "audit",
    "Measure what METHOD gives away at the least, through its own loop, beside what it claims. Small nets, few steps, canaries "
    "in the place of records: no data are needed. With --run, at the epsilon of a finished RUN; the result goes into its "
    "report. Exit status 1 where the claim is refuted, and 0 where it is not.",
    "gossamer audit METHOD --epsilon 3",
    _audit,
    [
        options_of(
            "gossamer.run.auditing.audit.audit",
            epsilon={"default": 3.0},
            trials=TRIALS,
            confidence={"default": 0.95},
            jobs={"type": click.IntRange(min=1)},
        ),
        as_json,
    ],
    invoke_without_command=True,
    callback=of_run.callback,
    params=of_run.params,
)
