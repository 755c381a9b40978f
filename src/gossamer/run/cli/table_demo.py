"""`gossamer demo --table`: the way of a table from a card to a release that is verified, in a minute at most.

scikit-learn's breast cancer data play the private records: ten measurements of cells, and whether the tumour is malignant. The
bounds of the card are rounded by hand. So this is a demonstration, not a result.
"""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossamer.data.tables.card import TableCard
from gossamer.data.tables.column import Column
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import PrivacyError, RequestError
from gossamer.events import Sink, note
from gossamer.lazy import Lazy
from gossamer.run.cli.demo import clear, is_own
from gossamer.run.evaluation.evaluate import evaluate, lines
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.storage.run_folder import ACCOUNTS, REPORT, RunFolder
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process

if TYPE_CHECKING:
    from sklearn import datasets
else:
    datasets = Lazy("sklearn.datasets")

_TRAIN = 400
_BOUNDS: dict[str, tuple[float, float, int]] = {
    "radius": (5, 30, 2), "texture": (5, 40, 2), "perimeter": (40, 200, 1), "area": (100, 2_600, 0),
    "smoothness": (0.04, 0.18, 4), "compactness": (0, 0.4, 4), "concavity": (0, 0.5, 4), "concave points": (0, 0.25, 4),
    "symmetry": (0.1, 0.35, 4), "fractal dimension": (0.04, 0.1, 5),
}  # fmt: skip
"""Smallest and largest value, and the digits after the point."""
_CLASSES = ("malignant", "benign")
CARD = TableCard(
    columns=(
        *(
            Column(name=name, kind="number", bounds=(low, high), bins=8, decimals=digits, outside="clip")
            for name, (low, high, digits) in _BOUNDS.items()
        ),
        Column(name="diagnosis", kind="category", values=_CLASSES),
    ),
    declared_size=_TRAIN,
    label="diagnosis",
    title="scikit-learn breast cancer",
)
EPSILON, DELTA, SAMPLES = 3.0, 1e-4, 2_000
TRAIN, TEST, CARD_FILE, RUN, RELEASE = "train.csv", "test.csv", "card.toml", "RUN", "RELEASE"
"""What the folder of the demo holds."""


def demo(out: Path, sink: Sink) -> list[str]:
    """Card, fit, evaluate, release, verify. Returns the results as lines.

    It replaces its own folder and no other. Its budget log is in that folder.

    Raises:
        RequestError: if `out` holds something other than this demo, or another process trains there.
    """
    run, released = out / RUN, out / RELEASE
    _clear(out)
    process = Process(sink=sink)
    sink(note(f"1/5 a table of {_TRAIN} rows and its card, in {out}"))
    out.mkdir(parents=True, exist_ok=True)
    CARD.save(out / CARD_FILE)
    write_rows(out)
    sink(note(f"2/5 marginals of {CARD.title} under ({EPSILON:g}, {DELTA:g})"))
    synthesizer = fit(
        "marginals", data=out / TRAIN, card=out / CARD_FILE, out=run, epsilon=EPSILON, delta=DELTA, process=process,
        accounts=RunFolder(run).private / ACCOUNTS,
    )  # fmt: skip
    sink(note("3/5 gradient boosting, trained on synthetic rows and on real ones"))
    evaluation = evaluate(run, train=out / TRAIN, test=out / TEST, count=SAMPLES, process=process)
    sink(note(f"4/5 a release with {SAMPLES:,} synthetic rows"))
    release(run, released, samples=SAMPLES, force=True)
    sink(note("5/5 recomputing the guarantee of the release from its ledger"))
    verdict = verify(released)
    if not verdict.ok:
        raise PrivacyError(" ".join(verdict.problems))
    return [
        synthesizer.certificate.statement,
        *lines(evaluation.metrics),
        f"synthetic rows: {released / TableSamples.file}",
        f"verified; the report is {released / REPORT}",
    ]


def write_rows(out: Path) -> None:
    """Write the training and the test rows. The split is a fixed public permutation."""
    source = datasets.load_breast_cancer()
    order = np.random.RandomState(0).permutation(len(source.target))
    for name, positions in ((TRAIN, order[:_TRAIN]), (TEST, order[_TRAIN:])):
        with (out / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(CARD.names)
            for at in positions:
                writer.writerow([*source.data[at, : len(_BOUNDS)].tolist(), _CLASSES[source.target[at]]])


def _clear(out: Path) -> None:
    """Delete an earlier run of the demo. Refuses anything else."""
    if not out.exists():
        return
    run, card = RunFolder(out / RUN), out / CARD_FILE
    held = {path.name for path in out.iterdir()} if out.is_dir() else {""}
    of_demo = card.is_file() and card.read_text(encoding="utf-8") == CARD.dumps()
    if held and not (held <= {TRAIN, TEST, CARD_FILE, RUN, RELEASE} and of_demo and is_own(run, CARD)):
        raise RequestError(
            f"{out} holds something other than a run of this demo, which replaces its own folder only. Name another: --out DIR."
        )
    if run.path.exists():
        clear(run)
