"""A training run in this process: all that its driver and its certification need, except its data."""

from dataclasses import dataclass

from gossamer.events import Sink, note
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import RunEntry
from gossamer.run.storage.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """A training run.

    Args:
        folder: the run folder, locked by this process.
        job: the method, its settings and the card.
        ledger: open; the plan is reserved in it.
        rng: source of all randomness.
        device: where the networks are.
        sink: receives events, notes and progress.
        budget_entry: the run's entry in the budget log; None before it is written, and where there is no log.
        with_tensorboard: whether TensorBoard files are written too.
        ranks: the processes that train together.
    """

    folder: RunFolder
    job: Job[BaseConfig, State]
    ledger: PrivacyLedger
    rng: Rng
    device: str
    sink: Sink
    budget_entry: RunEntry | None = None
    with_tensorboard: bool = False
    ranks: Ranks = ALONE

    def log(self, text: str) -> None:
        """Show a note on the terminal."""
        self.sink(note(text))
