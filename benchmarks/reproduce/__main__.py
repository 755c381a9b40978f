"""`python -m benchmarks.reproduce`, in the root of the repository."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from benchmarks.reproduce import results_page, run_table, tables
from benchmarks.reproduce.tables import Scale
from gossamer.errors import GossamerError, RequestError
from gossamer.run.cli.main import cli, main
from gossamer.run.cli.options import checked_seed
from gossamer.run.training import progress, torchrun


def _seeds(ctx: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    if not all(word.isdecimal() for word in text.split(",")):
        raise RequestError(f"--seeds must be whole numbers with commas between, such as 0,1,2, not {text!r}.")
    seeds = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    for seed in seeds:
        checked_seed(ctx, option, seed)
    return seeds


@click.command(context_settings=cli.context_settings)
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
    default=Path("benchmarks/reproduce"),
    show_default=True,
    help="Folder of the results: JSON files in cells/, pictures in samples/, curves.svg.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("runs/reproduce"),
    show_default=True,
    help="Folder of unfinished runs.",
)
@click.option(
    "--minutes", type=float, help="Stop after so many minutes: training at a checkpoint, evaluation when it is done."
)
@click.option("--seeds", callback=_seeds, default="0,1,2", show_default=True, help="Seeds, with commas between.")
@click.option("--only", default="", metavar="ROW,ROW", help="Run these rows only.")
@click.option("--device", default="cpu", show_default=True, help="cpu, or cuda.")
@click.option("--keep", is_flag=True, help="Keep the folders of finished runs.")
@click.option(
    "--inception",
    type=(click.Path(path_type=Path, exists=True, dir_okay=False), str),
    metavar="WEIGHTS SHA256",
    help="FID of the papers, by Inception-V3, in place of a classifier's. Such cells are others.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all tables as Markdown, and their figure into --results. Run nothing.",
)
def reproduce(  # noqa: PLR0913 (its arguments are the options of a command)
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
    inception: tuple[Path, str] | None,
    page: Path | None,
) -> None:
    """Run TABLE of a paper, and print our figures beside theirs, with the guarantee that really holds.

    \b
    TABLE --data ROOT           run the cells that are left, then print the table
    TABLE                       print the table as it is
    (nothing)                   list the tables, and how much of each is left to run
    --page lab/results.md      write all tables as a page

    A cell is a row with a seed. Its result is a JSON file. The same command continues what was stopped.
    docs/reproduce.md says what ROOT holds.
    """
    if torchrun.launched():
        raise RequestError("the tables are run by one process: leave torchrun out.")
    known = tables.tables()
    if page is not None:
        if table is not None or data is not None:
            raise RequestError("--page writes all tables and runs nothing: leave TABLE and --data out.")
        results_page.write(known, results, page)
        return
    if table is None:
        if data is not None or only:
            raise RequestError(f"say which TABLE to run: {', '.join(known)}.")
        click.echo("\n".join(results_page.listing(known, scale, results)))
        return
    asked = tables.table_named(table, known)
    if inception is not None:
        asked = asked.by_inception(inception[1])
    rows = [word.strip() for word in only.split(",") if word.strip()]
    failed: GossamerError | None = None
    if data is not None:
        if not data.is_dir():
            raise RequestError(f"--data {data} is no folder. It holds the public data sets: docs/reproduce.md.")
        try:
            with progress.Terminal() as terminal:
                run_table.run(
                    asked, root=data, work=work, into=results, scale=scale, seeds=seeds, only=rows, minutes=minutes,
                    device=device, keep=keep, inception=inception and inception[0], sink=terminal,
                )  # fmt: skip
        except GossamerError as error:
            failed = error
    click.echo("\n".join(results_page.terminal(asked, scale, results, seeds)))
    if failed is not None:
        raise failed


if __name__ == "__main__":
    main(command=reproduce, name="python -m benchmarks.reproduce")
