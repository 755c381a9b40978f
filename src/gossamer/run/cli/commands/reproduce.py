"""`gossamer reproduce`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from gossamer.errors import GossamerError, RequestError
from gossamer.files import write_atomically
from gossamer.lazy import Lazy
from gossamer.run.cli.options import checked_seed
from gossamer.run.reproduce import tables as tabled
from gossamer.run.reproduce.tables import Scale
from gossamer.run.training import progress

if TYPE_CHECKING:
    from gossamer.run.reproduce import engine, page, runs
else:
    engine, page = Lazy("gossamer.run.reproduce.engine"), Lazy("gossamer.run.reproduce.page")
    runs = Lazy("gossamer.run.reproduce.runs")


def _numbers(ctx: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    if not all(word.isdecimal() for word in text.split(",")):
        raise RequestError(f"--seeds must be whole numbers with commas between, such as 0,1,2, not {text!r}.")
    seeds = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    for seed in seeds:
        checked_seed(ctx, option, seed)
    return seeds


@click.command()
@click.argument("table", required=False)
@click.option("--data", type=click.Path(path_type=Path), metavar="ROOT", help="Folder with the public data sets.")
@click.option(
    "--scale",
    type=click.Choice(get_args(Scale)),
    default="laptop",
    show_default=True,
    help="Settings for two cores, or the paper's.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("docs/results"),
    show_default=True,
    help="Folder of the JSON files.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("runs/reproduce"),
    show_default=True,
    help="Folder of runs under way.",
)
@click.option(
    "--minutes", type=float, help="Stop after so many: in training at a checkpoint, else after what has begun."
)
@click.option("--seeds", callback=_numbers, default="0,1,2", show_default=True, help="With commas between.")
@click.option("--only", default="", metavar="ROW,ROW", help="These rows.")
@click.option("--device", default="cpu", show_default=True, help="cpu, or cuda.")
@click.option("--keep", is_flag=True, help="Keep the folders of runs that are done.")
@click.option(
    "--page",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all tables as Markdown, with their figure among the results, and run nothing.",
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Put the finished cells into measured.toml, for `plan` and `recommend`, and run nothing.",
)
def reproduce(
    table: str | None,
    data: Path | None,
    scale: Scale,
    results: Path,
    work: Path,
    minutes: float | None,
    seeds: Sequence[int],
    only: str,
    device: str,
    keep: bool,
    out: Path | None,
    measured: Path | None,
) -> None:
    """Run TABLE of a paper, ours beside theirs, with the guarantee that really holds. Goes on where it was stopped.

    \b
    gossamer reproduce                             the tables, and what is left to run of each
    gossamer reproduce TABLE --data ROOT           runs what is left, then prints the table
    gossamer reproduce TABLE                       prints it as it stands
    gossamer reproduce --page docs/results.md      all tables as a page
    gossamer reproduce --measured measured.toml    the finished cells as what `recommend` rests on

    Every cell (a row with a seed) becomes a JSON file below --results. docs/reproduce.md says what ROOT holds.
    """
    known = tabled.tables()
    if out is not None or measured is not None:
        if table is not None or data is not None:
            raise RequestError("--page and --measured write all tables and run nothing: leave TABLE and --data out.")
        if measured is not None:
            write_atomically(measured, runs.rewritten(measured.read_text(encoding="utf-8"), known, results))
        if out is not None:
            page.write(known, results, out)
        return
    if table is None:
        if data is not None or only:
            raise RequestError(f"say which TABLE to run: {', '.join(known)}.")
        for line in page.listing(known, scale, results):
            click.echo(line)
        if not results.is_dir():
            click.echo(
                f"There are no results in {results}, where they are looked for and go: --results names another folder."
            )
        return
    asked = tabled.table_named(table, known)
    rows = [word.strip() for word in only.split(",") if word.strip()]
    failed: GossamerError | None = None
    if data is not None:
        if not data.is_dir():
            raise RequestError(f"--data {data} is no folder. It holds the public data sets: docs/reproduce.md.")
        try:
            with progress.Terminal() as terminal:
                engine.run(
                    asked, root=data, work=work, into=results, scale=scale, seeds=seeds, only=rows, minutes=minutes,
                    device=device, keep=keep, sink=terminal,
                )  # fmt: skip
        except GossamerError as error:
            failed = error
    for line in page.terminal(asked, scale, results, seeds):
        click.echo(line)
    if failed is not None:
        raise failed
