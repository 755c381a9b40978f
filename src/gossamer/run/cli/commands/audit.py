"""`gossamer audit`."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gossamer.run.cli.options import PATH, PerMethod, as_json, on_terminal, options_of, show

TRIALS = {"type": click.IntRange(min=20)}


def _audit(run: Path | None = None, *, as_json: bool, **options: Any) -> None:
    """Measure a lower bound on the epsilon of METHOD, next to its claim. The audit trains small networks on canaries in place
    of records, so it needs no data. With --run, it uses the epsilon of a finished run, and adds the result to its report.
    Exit status 1 if the claim is refuted, else 0.
    """
    from gossamer.run.auditing.audit import audit, audit_run, lines
    from gossamer.run.report.audit_record import REFUTED

    with on_terminal() as terminal:
        options["sink"] = terminal
        report = audit(**options) if run is None else audit_run(run, **options)
    show(lines(report), report.to_json(), as_json=as_json)
    click.get_current_context().exit(int(report.verdict == REFUTED))


@click.command()
@click.option("--run", type=PATH, metavar="RUN", help="Run folder of a finished run: audit its method at its epsilon.")
@options_of("run.auditing.audit.audit_run", trials=TRIALS)
@as_json
def of_run(run: Path | None, as_json: bool, **options: Any) -> None:
    """What the group does where no METHOD is named."""
    context = click.get_current_context()
    if (method := context.invoked_subcommand) is not None:
        for name in ("run", *options, "as_json"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                flag = "json" if name == "as_json" else name
                fix = f"Leave {method} out: the run has a method." if name == "run" else f"Write it after {method}."
                raise click.UsageError(f"--{flag} is written before {method}. {fix}")
        return
    if run is None:
        raise click.UsageError("there is no METHOD. Name one, or a finished run folder with --run RUN.")
    _audit(run, as_json=as_json, **options)


audit = PerMethod(
    "audit",
    "gossamer audit METHOD --epsilon 3",
    _audit,
    [
        options_of(
            "run.auditing.audit.audit",
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
