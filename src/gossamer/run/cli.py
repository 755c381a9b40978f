"""The command line: `gossamer COMMAND`. Each command is a thin layer over a function of the same name.

Exit status: 0 done, 1 the run failed, 2 the request was wrong. An error is one paragraph on stderr; `--debug` adds the
traceback. `--json` prints one JSON object on stdout and nothing else there.
"""

import dataclasses
import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from gossamer.data.card import DataCard, draft
from gossamer.data.readers import read
from gossamer.data.records import Records
from gossamer.data.writers import write_samples
from gossamer.errors import GossamerError, RequestError, RunFolderError
from gossamer.methods import METHODS
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.accounting import event_to_json
from gossamer.privacy.guarantee import Guarantee
from gossamer.run import attack as attacking
from gossamer.run import calculator, demo, measures, presets
from gossamer.run import compare as comparison
from gossamer.run import evaluate as evaluation
from gossamer.run.budget import Request, reason_without_guarantee, resolve
from gossamer.run.fit import fit, resume, versions
from gossamer.run.options import NearestName, accounts, as_json, force, per_method
from gossamer.run.report import in_words, write_report
from gossamer.run.sinks import Terminal
from gossamer.run.sources import protected_part
from gossamer.run.spending import budget_command, discard_command
from gossamer.run.verify import SUMS, is_release, release, verify

labels_key = click.option("--labels-key", metavar="KEY", help="Key of the labels in an .npz file.")
units = click.option(
    "--units",
    metavar="WHOSE",
    help="Whose (writer, patient) each record is; a unit's records are drawn and clipped together. Class folders: FILE.csv "
    "(columns name,unit; name is the path below DATA), or 'folder' (DATA/CLASS/UNIT/picture). Arrays: FILE.npz:KEY, matched by "
    "position, or :KEY in DATA itself. Ids are text or whole numbers.",
)
epsilon = click.option("--epsilon", type=float, help="Privacy budget; 'inf' trains the non-private twin.")
delta = click.option("--delta", type=float, help="Delta of the guarantee; well below 1 / (declared size).")
public_share = click.option(
    "--public-share",
    type=float,
    metavar="SHARE",
    help="Give up this share of the data as public, instead of --public: a hash of each unit picks, always the same ones.",
)
preset = click.option(
    "--preset", metavar="NAME", help="Named settings; `gossamer presets` lists them. Flags go before them."
)


@click.group(cls=NearestName, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(versions()["gossamer"], prog_name="gossamer")
def cli() -> None:
    """Train a generative model on records that cannot be shared, under differential privacy, and release what is safe.

    \b
    gossamer demo                                     the whole way on small public data, in a few minutes
    gossamer card DATA -o card.toml                   draft the public facts
    gossamer plan dpgan --card card.toml --epsilon 10 --delta 1e-5
    gossamer fit dpgan --data DATA --card card.toml --epsilon 10 --delta 1e-5 --out RUN
    gossamer sample RUN -n 60000 -o synth.npz
    gossamer verify RUN; gossamer release RUN -o DIR

    DATA is a path (MNIST idx folder, .npz, folder of class folders with pictures), 'digits' or 'glyphs'; ':train' and
    ':test' pick a split. A traceback for any error: --debug.
    """


@cli.command()
@click.argument("data")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the draft here; default: print it.")
@labels_key
@units
@force
def card(data: str, out: Path | None, labels_key: str | None, units: str | None, force: bool) -> None:
    """Draft the public facts of DATA, for the curator to declare.

    Every line of a card becomes public knowledge: edit the draft, and keep only what may be known.
    """
    records = read(data, split="train", labels_key=labels_key, units=units, missing_unit="own")
    text = draft(records, unit="person" if units else "record")
    if out is None:
        click.echo(text, nl=False)
        return
    if out.exists() and not force:
        raise RequestError(f"{out} exists. Choose another name, or replace it with --force.")
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: a draft. Every line becomes public when you keep it; read it before you use it.", err=True)


def _plan(
    *,
    method: str,
    settings: dict[str, Any],
    card: Path,
    public_share: float | None,
    preset: str | None,
    as_json: bool,
    **budget: float | None,
) -> None:
    defaults = presets.settings(method, preset) if preset else None
    facts = DataCard.load(card)
    if public_share is not None:
        facts = protected_part(facts, public_share)
    request = resolve(method, facts, settings, defaults=defaults, **budget)
    if as_json:
        click.echo(json.dumps(_request_json(request)))
        return
    if reason := reason_without_guarantee(method):
        click.echo(f"No formal guarantee: epsilon is infinity, because {reason}.")
        click.echo(f"Reads no record. Batches of training: {_steps(request):,}, after the warm-up.")
        return
    click.echo(f"{METHODS[method].FACTS.title}: reads no record.")
    for event, count in request.plan:
        click.echo(f"releases: {count:,} x {in_words(event_to_json(event))}")
    if line := METHODS[method].FACTS.explain(request.config):
        click.echo(line)
    click.echo(
        f"noise multiplier {request.config.noise_multiplier:g}, sampling rate {_rate(request):.6g}, steps {_steps(request):,}"
    )
    for bound in request.bounds:
        click.echo(f"{bound.accountant}: {bound.guarantee}")
    click.echo(f"promise: {request.promise}")


cli.add_command(
    per_method(
        "plan",
        "What a run of METHOD would cost. Reads no record: it needs the card only.",
        _plan,
        [
            click.option("--card", type=click.Path(path_type=Path), required=True, help="The declared public facts."),
            epsilon,
            delta,
            public_share,
            preset,
            as_json,
        ],
    )
)


def _fit(*, method: str, settings: dict[str, Any], **named: Any) -> None:
    """Run `fit` and say what came of it."""
    out = named["out"]
    with Terminal() as terminal:
        synthesizer = fit(method, terminal=terminal, **named, **settings)
    _finished(synthesizer, out)


cli.add_command(
    per_method(
        "fit",
        "Train METHOD on private records under a budget and write a RUN folder.",
        _fit,
        [
            click.option("--data", required=True, help="The private records."),
            click.option("--card", type=click.Path(path_type=Path), required=True, help="The declared public facts."),
            epsilon,
            delta,
            click.option("--out", type=click.Path(path_type=Path), required=True, help="RUN folder, new or empty."),
            click.option(
                "--public",
                metavar="DATA",
                help="Public records for a warm start; they are not protected. To choose who is given up, put them here "
                "and take them out of --data: nobody may be in both.",
            ),
            public_share,
            labels_key,
            units,
            preset,
            click.option(
                "--seed",
                type=int,
                default=0,
                show_default=True,
                help="Fixes initialisation and public draws; never noise or sampling.",
            ),
            click.option("--device", default="cpu", show_default=True, help="cpu, or cuda."),
            click.option(
                "--tensorboard",
                "with_tensorboard",
                is_flag=True,
                help="Write TensorBoard files into the run (an extra).",
            ),
            accounts,
            force,
        ],
    )
)


@cli.command("resume")
@click.argument("run", type=click.Path(path_type=Path))
@accounts
def resume_command(run: Path, accounts: Path | None) -> None:
    """Go on with a run that was stopped or killed; a finished one is left as it is."""
    with Terminal() as terminal:
        synthesizer = resume(run, accounts=accounts, terminal=terminal)
    _finished(synthesizer, run)


cli.add_command(budget_command)
cli.add_command(discard_command)


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-n", "count", type=click.IntRange(min=1), required=True, help="How many samples.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help=".npz, .csv, .parquet, or a folder for .png."
)
@click.option("--seed", type=int, help="Fixes the samples; default: fresh ones.")
@force
def sample(run: Path, count: int, out: Path, seed: int | None, force: bool) -> None:
    """Draw synthetic records from a finished RUN or a release. Free, as many as wanted."""
    synthesizer = Synthesizer.load(run)
    with Terminal() as terminal:
        chunks = _counted(synthesizer.stream(count, seed=seed), terminal, count)
        write_samples(out, chunks, count=count, force=force)
    click.echo(f"{count:,} samples in {out}", err=True)


@cli.command()
@click.argument("synth", type=click.Path(path_type=Path))
@click.option(
    "--train", required=True, help="Real training records, for the twin trained on real data (default split: train)."
)
@click.option("--test", required=True, help="Real test records (default split: test).")
@click.option(
    "-n", "count", type=click.IntRange(min=1), default=60_000, show_default=True, help="Samples drawn from a RUN."
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Where the figures go; default for a RUN: RUN/metrics.json."
)
@click.option(
    "--protocol",
    type=click.Choice(sorted(measures.PROTOCOLS)),
    default="paper",
    show_default=True,
    help="For accuracy: the paper's 10 epochs, or fewer.",
)
@click.option(
    "--metrics",
    default="accuracy",
    show_default=True,
    help=f"Names with commas between: {', '.join(measures.METRICS)}; or all ({', '.join(measures.QUICK)}).",
)
@click.option(
    "--labelled",
    type=click.IntRange(min=2),
    default=100,
    show_default=True,
    help="For semi-supervised: labelled records.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=10),
    default=10_000,
    show_default=True,
    help="For classical: training records at most.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Private folder for what depends on the real records alone; default: in the RUN.",
)
@click.option(
    "--inception",
    type=(click.Path(path_type=Path, exists=True, dir_okay=False), str),
    metavar="WEIGHTS SHA256",
    help="For fid: Inception-V3 from a local file (extra fid); default: a classifier trained on --train.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Fixes samples and training.")
@labels_key
@as_json
def evaluate(synth: Path, out: Path | None, as_json: bool, **named: Any) -> None:
    """How good is SYNTH (a RUN, a release, or a file of samples)? Measured on real records.

    The figures read real records. They are internal: the guarantee does not cover them.
    """
    with Terminal() as terminal:
        found = evaluation.evaluate(synth, out=out, terminal=terminal, **named)
    if as_json:
        click.echo(json.dumps({"metrics": found.metrics, "left_out": found.left_out}))
        return
    for line in evaluation.lines(found.metrics):
        click.echo(line)
    for name, reason in found.left_out.items():
        click.echo(f"{name} left out: {reason}")
    click.echo("Internal figures: they were computed on real records and are not covered by the guarantee.")


@cli.command("attack")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--members", required=True, help="Records of the run's training data (default split: train).")
@click.option(
    "--nonmembers", required=True, help="Records of the same kind that the run never saw (default split: test)."
)
@click.option(
    "-n", "count", type=click.IntRange(min=100), default=20_000, show_default=True, help="Samples drawn from the RUN."
)
@click.option(
    "--limit", type=click.IntRange(min=20), default=2_000, show_default=True, help="Members, and non-members, at most."
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Where the figures go; default: RUN/attacks.json.")
@click.option("--seed", type=int, default=0, show_default=True, help="Fixes samples and draws.")
@labels_key
@as_json
def attack_command(run: Path, as_json: bool, **named: Any) -> None:
    """Can RUN's training records be recognised? Every membership attack that applies, beside what guessing reaches.

    White-box attacks need the discriminators of the private checkpoint; a release is attacked through its samples only.
    The figures read real records. They are internal: the guarantee does not cover them.
    """
    with Terminal() as terminal:
        found = attacking.attack(run, terminal=terminal, **named)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found)))
        return
    for line in attacking.lines(found):
        click.echo(line)


@cli.command("compare")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--metric", default="accuracy", show_default=True, help="The figure of the plot.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The plot, .png or .svg; default: none.")
@force
@as_json
def compare_command(runs: tuple[Path, ...], metric: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Several evaluated RUNs in one table, and utility against epsilon in one plot."""
    entries = comparison.compare(runs)
    metric = comparison.chosen_metric(entries, metric)
    if out is not None:
        if out.exists() and not force:
            raise RequestError(f"{out} exists. Choose another name, or replace it with --force.")
        comparison.plot(entries, metric, out)
    if as_json:
        click.echo(json.dumps({"runs": entries}))
        return
    shared = [
        name for name in entries[0]["metrics"] if "samples of class" not in name and not name.startswith("accuracy,")
    ]
    for line in comparison.lines(comparison.table(entries, shared)):
        click.echo(line)
    click.echo("Internal figures: choosing a run by them is not covered by the guarantees.")


@cli.command("verify")
@click.argument("run", type=click.Path(path_type=Path))
@as_json
def verify_command(run: Path, as_json: bool) -> None:
    """Recompute the guarantee of a RUN or a release from its ledger, with every accountant, and check its files."""
    verdict = verify(run)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(verdict) | {"ok": verdict.ok}))
    elif verdict.ok:
        for entry in verdict.guarantees:
            click.echo(f"{entry['accountant']}: {Guarantee.from_json(entry)}")
        click.echo(f"{run}: verified. Ledger, certificate, settings and model agree.")
        for note in verdict.notes:
            click.echo(f"Note: {note}")
    if not verdict.ok:
        raise GossamerError(f"{run} does not verify. {' '.join(verdict.problems)}")


@cli.command("release")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="A new folder.")
@force
def release_command(run: Path, out: Path, force: bool) -> None:
    """Copy what may be handed out: model, certificate, ledger, settings, samples, a report without internal figures."""
    click.echo(str(release(run, out, force=force)))
    click.echo(Synthesizer.load(out).certificate.statement, err=True)


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
def report(run: Path) -> None:
    """Write RUN/report.html anew, one self-contained page."""
    if is_release(run):
        raise RunFolderError(
            f"{run} is a release: its report was written with it, and {SUMS} names it. `gossamer report` is for a RUN."
        )
    click.echo(str(write_report(run, internal=True)))


@cli.command("account")
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


@cli.command("presets")
@as_json
def presets_command(as_json: bool) -> None:
    """List the named settings."""
    known = presets.all_presets()
    if as_json:
        click.echo(json.dumps({"presets": known}))
        return
    for method, entries in known.items():
        for name, entry in entries.items():
            flags = " ".join(f"{key}={value}" for key, value in entry.items() if key != "about")
            click.echo(f"{method} {name}: {entry['about']}\n    {flags}")


@cli.command("demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Its own folder, replaced.",
)
def demo_command(out: Path) -> None:
    """The whole way on scikit-learn's digits, with drawn glyphs as public data. No download."""
    with Terminal() as terminal:
        demo.demo(out, terminal)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command and turns every error into one paragraph and an exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = cli.main([word for word in given if word != "--debug"], prog_name="gossamer", standalone_mode=False)
    except Exception as error:  # every error becomes one paragraph; --debug shows the traceback
        code = _explain(error, debug=debug)
    except KeyboardInterrupt:
        click.echo("gossamer: stopped at once. `gossamer resume RUN` goes on from the last checkpoint.", err=True)
        code = 1
    sys.exit(code or 0)


def _explain(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        click.echo("gossamer: stopped.", err=True)
        return 1
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" See `{context.command_path} --help`." if context is not None else ""
        click.echo(f"gossamer: {error.format_message().rstrip()}{hint}", err=True)
        return 2
    if isinstance(error, GossamerError):
        click.echo(f"gossamer: {error}", err=True)
        return 2 if isinstance(error, RequestError) else 1
    # The message of an error nobody foresaw could hold a value read from a record; the system's own words cannot.
    detail = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
    click.echo(f"gossamer: unexpected {type(error).__name__}{detail}. Please report it; --debug shows where.", err=True)
    return 1


def _finished(synthesizer: Synthesizer, out: Path) -> None:
    click.echo(synthesizer.certificate.statement)
    click.echo(f"report: {out / 'report.html'}", err=True)


def _counted(chunks: Iterator[Records], terminal: Terminal, total: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    terminal.begin("samples", total)
    done = 0
    for chunk in chunks:
        yield chunk.images, chunk.labels
        done += len(chunk)
        terminal.advance(done)


def _request_json(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in request.bounds],
        "noise_multiplier": getattr(request.config, "noise_multiplier", 0.0),
        "sampling_rate": _rate(request),
        "steps": _steps(request),
    }


def _rate(request: Request) -> float:
    return calculator.rate_of(request.plan[0][0])


def _steps(request: Request) -> int:
    return int(METHODS[request.method].FACTS.length(request.config, request.card, False)[1])
