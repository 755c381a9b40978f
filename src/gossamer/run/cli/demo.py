"""`gossamer demo`: every step on small public data, in a few minutes on two cores.

scikit-learn's handwritten digits play the private records, and rendered glyphs are the public data. The glyphs were tuned with
half of these digits: this is a demonstration, not a result. The classifiers use the reduced protocol.
"""

import shutil
from pathlib import Path

from gossamer.data.card import Card, DataCard
from gossamer.errors import PrivacyError, RequestError
from gossamer.events import Sink, note
from gossamer.metrics.metric import Measures
from gossamer.privacy.certificate.certificate import CONFIG
from gossamer.run.evaluation.attack import attack
from gossamer.run.evaluation.evaluate import evaluate, lines
from gossamer.run.release.verify import verify
from gossamer.run.storage.run_folder import ACCOUNTS, REPORT, SUMS, RunFolder
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process

SAMPLES = 6_000
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437, title="scikit-learn digits")
EPSILON, DELTA = 10.0, 1e-4


def demo(out: Path, sink: Sink) -> list[str]:
    """Fit, sample, evaluate, attack, verify, report. Returns the results as lines.

    It replaces its own folder and no other. Its budget log is in that folder.

    Raises:
        RequestError: if `out` holds something other than a run of the demo, or another process trains there.
    """
    run = RunFolder(out)
    if out.exists() and not is_own(run, CARD):
        raise RequestError(
            f"{out} holds something other than a run of the demo, which replaces its own folder only. Name another: --out DIR."
        )
    if out.exists():
        clear(run)
    process = Process(sink=sink)
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
    verdict = verify(out)
    if not verdict.ok:
        raise PrivacyError(" ".join(verdict.problems))
    sentences = [synthesizer.certificate.statement, *lines(evaluation.metrics), *attacked.verdict]
    return [*sentences, f"verified; the report is {out / REPORT}"]


def is_own(run: RunFolder, card: Card) -> bool:
    """Whether a folder is blank, or holds a run of a demo with this card."""
    return run.blank or (
        run.file(CONFIG).is_file()
        and run.config().get("card") == card.to_dict()
        and not run.file(SUMS).exists()
        and not run.shared
    )


def clear(run: RunFolder) -> None:
    """Delete an earlier run of a demo, with its budget log."""
    with run.locked():
        run.clear()
        shutil.rmtree(run.private / ACCOUNTS, ignore_errors=True)
