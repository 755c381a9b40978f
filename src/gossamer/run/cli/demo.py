"""`gossamer demo`: every step on small public data, in a few minutes on two cores.

Of pictures: scikit-learn's handwritten digits play the private records. There are no public data. The classifiers use the
reduced protocol.

Of a table: scikit-learn's breast cancer data play the private records. They are ten measurements of cells, and whether the
tumour is malignant. The bounds of the card are rounded by hand.

So both are demonstrations, not results.
"""

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer

from gossamer.data.card import Card, DataCard
from gossamer.data.samples.samples import Samples
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import SHOWN, row_texts
from gossamer.errors import RequestError
from gossamer.events import NOTE, Sink, note
from gossamer.files import CONFIG
from gossamer.methods.registry import AUTO
from gossamer.metrics.metric import GUESSED, Measures
from gossamer.metrics.registry import ACCURACY, BASELINE
from gossamer.run.evaluation.attack import attack
from gossamer.run.evaluation.evaluate import evaluate
from gossamer.run.release.release import release
from gossamer.run.report import attack_verdict, wording
from gossamer.run.storage.run_folder import ACCOUNTS, REPORT, SUMS, RunFolder
from gossamer.run.synthesizer import fit
from gossamer.run.training.progress import Process

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437, title="scikit-learn digits")
EPSILON, DELTA, SAMPLES = 10.0, 1e-4, 6_000

_TRAIN_ROWS = 400
TABLE_CARD = TableCard.load(Path(__file__).with_name("demo.toml"))
"""Its bounds are rounded by hand."""
TABLE_EPSILON, ROWS = 3.0, 2_000
TRAIN, TEST, CARD_FILE, RUN, RELEASE = "train.csv", "test.csv", "card.toml", "RUN", "RELEASE"
"""What the folder of a demo holds."""
_BLOCKS, _QUARTERS = (20, 12), " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""A digit in block characters: width and height in quarters of a character, and the characters by their quarters."""


def demo(out: Path, sink: Sink) -> list[str]:
    """Fit, measure, attack and release. Returns what a terminal shows at the end, as lines.

    It replaces its own folder and no other. Its budget log is in that folder.

    Raises:
        RequestError: if `out` holds something other than a run of the demo, or another process trains there.
    """
    run, process = _begin(out, CARD), Process(sink=_without_notes(sink))
    sink(note(f"1/4 fit auto looks at {CARD.declared_size:,} handwritten digits, epsilon {EPSILON:g}, delta {DELTA:g}"))
    synthesizer = fit(
        AUTO, data="digits", card=CARD, out=run.path, epsilon=EPSILON, delta=DELTA, score=0,
        accounts=run.private / ACCOUNTS, process=process,
    )  # fmt: skip
    sink(note(f"2/4 a classifier learns {SAMPLES:,} synthetic digits, another one the real digits"))
    given: dict[str, Any] = {"count": SAMPLES, "process": process}
    reduced = Measures(protocol="reduced")
    figures = evaluate(run.path, train="digits", test="digits", metrics=reduced, **given).metrics
    sink(note("3/4 attacks try to recognise the digits of the training"))
    attacks = attack(run.path, members="digits", nonmembers="digits", **given).attacks
    grid: Samples = Samples.grid_of(synthesizer, CARD.classes, 1)
    won = f"{len(attack_verdict.won_by(attacks))} of {len({entry['attack'] for entry in attacks})}"
    return [
        *_in_blocks(grid.images[:, 0]),
        *_figures(figures, "digits", ("attacks that recognise digits of the training", won)),
        *_released(run, "4/4", sink, 1_000),
    ]


def table_demo(out: Path, sink: Sink) -> list[str]:
    """Fit, measure and release. See `demo`."""
    run, process = _begin(out, TABLE_CARD), Process(sink=_without_notes(sink))
    write_rows(out)
    sink(note(f"1/3 marginals of {_TRAIN_ROWS} rows, epsilon {TABLE_EPSILON:g}, delta {DELTA:g}"))
    synthesizer = fit(
        "marginals", data=out / TRAIN, card=TABLE_CARD, out=run.path, epsilon=TABLE_EPSILON, delta=DELTA,
        accounts=run.private / ACCOUNTS, process=process,
    )  # fmt: skip
    sink(note(f"2/3 a model learns {ROWS:,} synthetic rows, another one the real rows"))
    figures = evaluate(run.path, train=out / TRAIN, test=out / TEST, count=ROWS, process=process).metrics
    differ = f"{len(wording.columns_that_differ(figures))} of {len(TABLE_CARD.columns)}"
    first = synthesizer.sample(SHOWN, seed=0)
    return [
        "",
        *_fitting([TABLE_CARD.names, *row_texts(first)]),
        *_figures(figures, "rows", ("columns that differ clearly from the real ones", differ)),
        *_released(run, "3/3", sink, ROWS),
    ]


def _without_notes(sink: Sink) -> Sink:
    """Of the steps, the progress alone is shown: their notes are for other records than these."""
    return lambda event: None if event.kind == NOTE else sink(event)


def _in_blocks(images: np.ndarray) -> list[str]:
    """Grey pictures uint8 [n, 28, 28] in block characters, ten or five beside one another."""
    across = 10 if shutil.get_terminal_size().columns >= 10 * (_BLOCKS[0] // 2 + 2) else 5
    dark = [
        np.asarray(Image.fromarray(each[2:26, 4:24]).resize(_BLOCKS, Image.Resampling.BOX)) > 127 for each in images
    ]
    quarters = np.stack([[each[down::2, right::2] for down in (0, 1) for right in (0, 1)] for each in dark])
    drawn = np.array([*_QUARTERS])[np.tensordot(quarters, [1, 2, 4, 8], axes=(1, 0))]
    rows = [drawn[at : at + across] for at in range(0, len(drawn), across)]
    return ["  ".join(map("".join, line)).rstrip() for row in rows for line in row.swapaxes(0, 1)]


def _fitting(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned lines, without the columns before the last that a terminal has no place for."""
    shown = [wording.aligned([[*row[:at], row[-1]] for row in rows]) for at in range(len(rows[0]))]
    width = shutil.get_terminal_size().columns
    return [shown[0], *(lines for lines in shown if len(max(lines, key=len)) <= width)][-1]


def _figures(entries: Sequence[Mapping[str, Any]], of: str, last: tuple[str, str]) -> list[str]:
    """Four figures as lines. last: the fourth figure."""
    shares = {entry["metric"]: entry["value"] for entry in entries}
    how = {ACCURACY: f"after learning synthetic {of}", BASELINE: f"after learning real {of}", GUESSED: "by guessing"}
    rows = [(f"real test {of} right, {words}", f"{shares[each.name]:.1%}") for each, words in how.items()]
    return ["", *wording.aligned([*rows, last]), ""]


def _released(run: RunFolder, step: str, sink: Sink, samples: int) -> list[str]:
    """Make a release beside a run, which is verified. Returns what to do next."""
    out = run.path.with_name(RELEASE)
    sink(note(f"{step} a release with {samples:,} synthetic records"))
    release(run.path, out, samples=samples, force=True)  # it verifies what it has made
    return [
        f"verified: {out} ({REPORT} explains it)",
        "next, your own records in a browser:  gossamer page DATA",
        "or by commands, which begin with:     gossamer card DATA -o card.toml",
    ]


def write_rows(out: Path) -> None:
    """Write the training and the test rows. The split is a fixed public permutation."""
    source = load_breast_cancer()
    order = np.random.RandomState(0).permutation(len(source.target))
    *numbers, label = TABLE_CARD.columns
    for name, positions in ((TRAIN, order[:_TRAIN_ROWS]), (TEST, order[_TRAIN_ROWS:])):
        with (out / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(TABLE_CARD.names)
            for at in positions:
                writer.writerow([*source.data[at, : len(numbers)].tolist(), label.values[source.target[at]]])


def _begin(out: Path, card: Card) -> RunFolder:
    """Write the card, and delete an earlier run of a demo with this card, with its budget log. Refuses any other folder."""
    run, file = RunFolder(out / RUN), out / CARD_FILE
    held = {path.name for path in out.iterdir()} if out.is_dir() else {""}
    known = (
        held <= {TRAIN, TEST, CARD_FILE, RUN, RELEASE} and file.is_file() and file.read_text("utf-8") == card.dumps()
    )
    own = run.blank or (
        run.file(CONFIG).is_file()
        and run.config().get("card") == card.to_dict()
        and not run.file(SUMS).exists()
        and not run.shared
    )
    if out.exists() and not (own and (known or not held)):
        raise RequestError(
            f"{out} holds something other than a run of this demo, which replaces its own folder only. Name another: --out DIR."
        )
    if run.path.exists():
        with run.locked():
            run.clear()
            shutil.rmtree(run.private / ACCOUNTS, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    card.save(file)
    return run
