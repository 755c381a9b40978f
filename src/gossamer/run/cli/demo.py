"""`gossamer demo`: every step on small public data, in a few minutes on two cores.

Of pictures: scikit-learn's handwritten digits play the private records, and rendered glyphs are the public data. The glyphs
were tuned with half of these digits. The classifiers use the reduced protocol.

Of a table: scikit-learn's breast cancer data play the private records. They are ten measurements of cells, and whether the
tumour is malignant. The bounds of the card are rounded by hand.

So both are demonstrations, not results.
"""

import csv
import shutil
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from gossamer.data.card import Card, DataCard
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import PrivacyError, RequestError
from gossamer.events import Sink, note
from gossamer.metrics.metric import Measures
from gossamer.privacy.certificate.certificate import CONFIG
from gossamer.run.evaluation.attack import attack
from gossamer.run.evaluation.evaluate import evaluate, lines
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.storage.run_folder import ACCOUNTS, REPORT, SUMS, RunFolder
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437, title="scikit-learn digits")
EPSILON, DELTA, SAMPLES = 10.0, 1e-4, 6_000

_TRAIN_ROWS = 400
BOUNDS: dict[str, tuple[float, float, int]] = {
    "radius": (5, 30, 2), "texture": (5, 40, 2), "perimeter": (40, 200, 1), "area": (100, 2_600, 0),
    "smoothness": (0.04, 0.18, 4), "compactness": (0, 0.4, 4), "concavity": (0, 0.5, 4), "concave points": (0, 0.25, 4),
    "symmetry": (0.1, 0.35, 4), "fractal dimension": (0.04, 0.1, 5),
}  # fmt: skip
"""Smallest and largest value, and the digits after the point."""
_CLASSES = ("malignant", "benign")
_NUMBERS = (
    Column(name=name, kind="number", bounds=(low, high), bins=8, decimals=digits, outside="clip")
    for name, (low, high, digits) in BOUNDS.items()
)
TABLE_CARD = TableCard(
    columns=(*_NUMBERS, Column(name="diagnosis", kind="category", values=_CLASSES)),
    declared_size=_TRAIN_ROWS,
    label="diagnosis",
    title="scikit-learn breast cancer",
)
TABLE_EPSILON, ROWS = 3.0, 2_000
TRAIN, TEST, CARD_FILE, RUN, RELEASE = "train.csv", "test.csv", "card.toml", "RUN", "RELEASE"
"""What the folder of the demo of a table holds."""


def demo(out: Path, sink: Sink) -> list[str]:
    """Fit, sample, evaluate, attack, verify, report. Returns the results as lines.

    It replaces its own folder and no other. Its budget log is in that folder.

    Raises:
        RequestError: if `out` holds something other than a run of the demo, or another process trains there.
    """
    run, process = RunFolder(out), Process(sink=sink)
    _clear(out, run, CARD)
    sink(note(f"1/4 class moments of {CARD.title} under ({EPSILON:g}, {DELTA:g}), in axes of rendered glyphs"))
    synthesizer = fit(
        "moments", data="digits", card=CARD, public="glyphs", out=out, epsilon=EPSILON, delta=DELTA, threshold=0.3,
        accounts=run.private / ACCOUNTS, process=process,
    )  # fmt: skip
    sink(
        note(f"2/4 classifiers (reduced protocol), on {SAMPLES:,} samples, on the real records, and on the public ones")
    )
    evaluation = evaluate(
        out, train="digits", test="digits", count=SAMPLES, metrics=Measures(protocol="reduced"), process=process
    )
    sink(note("3/4 attacks: can the training records be recognised?"))
    attacked = attack(out, members="digits", nonmembers="digits", count=SAMPLES)
    sink(note("4/4 recomputing the guarantee from the ledger"))
    verified = _verified(out)
    return [synthesizer.certificate.statement, *lines(evaluation.metrics), *attacked.verdict, verified]


def table_demo(out: Path, sink: Sink) -> list[str]:
    """Card, fit, evaluate, release, verify. Returns the results as lines. See `demo`."""
    run, card, released, process = RunFolder(out / RUN), out / CARD_FILE, out / RELEASE, Process(sink=sink)
    held = {path.name for path in out.iterdir()} if out.is_dir() else {""}
    known = held <= {TRAIN, TEST, CARD_FILE, RUN, RELEASE} and card.is_file()
    _clear(out, run, TABLE_CARD, own=not held or (known and card.read_text(encoding="utf-8") == TABLE_CARD.dumps()))
    sink(note(f"1/5 a table of {_TRAIN_ROWS} rows and its card, in {out}"))
    out.mkdir(parents=True, exist_ok=True)
    TABLE_CARD.save(card)
    write_rows(out)
    sink(note(f"2/5 marginals of {TABLE_CARD.title} under ({TABLE_EPSILON:g}, {DELTA:g})"))
    synthesizer = fit(
        "marginals", data=out / TRAIN, card=card, out=run.path, epsilon=TABLE_EPSILON, delta=DELTA, process=process,
        accounts=run.private / ACCOUNTS,
    )  # fmt: skip
    sink(note("3/5 gradient boosting, trained on synthetic rows and on real ones"))
    evaluation = evaluate(run.path, train=out / TRAIN, test=out / TEST, count=ROWS, process=process)
    sink(note(f"4/5 a release with {ROWS:,} synthetic rows"))
    release(run.path, released, samples=ROWS, force=True)
    sink(note("5/5 recomputing the guarantee of the release from its ledger"))
    verified, rows = _verified(released), f"synthetic rows: {released / TableSamples.file}"
    return [synthesizer.certificate.statement, *lines(evaluation.metrics), rows, verified]


def write_rows(out: Path) -> None:
    """Write the training and the test rows. The split is a fixed public permutation."""
    source = load_breast_cancer()
    order = np.random.RandomState(0).permutation(len(source.target))
    for name, positions in ((TRAIN, order[:_TRAIN_ROWS]), (TEST, order[_TRAIN_ROWS:])):
        with (out / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(TABLE_CARD.names)
            for at in positions:
                writer.writerow([*source.data[at, : len(BOUNDS)].tolist(), _CLASSES[source.target[at]]])


def _clear(out: Path, run: RunFolder, card: Card, *, own: bool = True) -> None:
    """Delete an earlier run of a demo with this card, with its budget log. Refuses any other. own: whether the rest is."""
    own = own and (
        run.blank
        or (
            run.file(CONFIG).is_file()
            and run.config().get("card") == card.to_dict()
            and not run.file(SUMS).exists()
            and not run.shared
        )
    )
    if out.exists() and not own:
        raise RequestError(
            f"{out} holds something other than a run of this demo, which replaces its own folder only. Name another: --out DIR."
        )
    if run.path.exists():
        with run.locked():
            run.clear()
            shutil.rmtree(run.private / ACCOUNTS, ignore_errors=True)


def _verified(folder: Path) -> str:
    """Verify a run or a release of a demo, and say where its report is."""
    verdict = verify(folder)
    if not verdict.ok:
        raise PrivacyError(" ".join(verdict.problems))
    return f"verified; the report is {folder / REPORT}"
