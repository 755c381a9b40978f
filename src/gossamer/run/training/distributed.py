"""Several processes, started by torchrun, train one network: how they connect, and what all but rank 0 do.

    torchrun --nproc-per-node 4 --no-python gossamer fit dpgan --data DATA --card card.toml --epsilon 10 --out RUN

Rank 0 is the run: it reserves the plan, keeps ledger, budget log and folder, and certifies. Before the first step it sends the
other ranks a `RunSetup`. They read the same records, keep a part of them, and write nothing but sealed state.
"""

import datetime
import functools
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, cast

import numpy as np
import torch
import torch.distributed as dist
from dp_accounting import DpEvent

from gossamer.data.card import DataCard
from gossamer.data.memory_mapped import is_mapped
from gossamer.data.records import Records
from gossamer.errors import Interrupted, NotBegun, RanksDisagree
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.device_check import check_device
from gossamer.privacy.distributed import ALONE, Group, Next, Ranks
from gossamer.privacy.guarantee import NeighboringRelation
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.random.noise import Rng
from gossamer.run.storage.data_sources import DataSources, LoadedData
from gossamer.run.storage.versions import versions
from gossamer.run.training import checkpoint
from gossamer.run.training.memory import fitted, tune_malloc
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import load_pretrained, method_named
from gossamer.run.training.progress import DEFAULT, Process
from gossamer.run.training.signals import HEARD
from gossamer.run.training.torchrun import launched, local

P = ParamSpec("P")
_joined: list["_NotifyingGroup"] = []
TIMEOUT = datetime.timedelta(minutes=30)
"""How long a rank waits for another, which may be reading records. A rank that is gone is noticed at once."""


def present() -> Ranks:
    """Return the ranks of this run: those that torchrun has started, or this process alone."""
    return _joined[-1] if _joined else ALONE


def on_every_rank(run: Callable[P, Synthesizer]) -> Callable[P, Synthesizer]:
    """Let rank 0 call the function, and all other ranks `follow`."""

    @functools.wraps(run)
    def started(*args: P.args, **kwargs: P.kwargs) -> Synthesizer:
        if not launched():
            return run(*args, **kwargs)
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
        ranks = _NotifyingGroup()
        _joined.append(ranks)
        try:
            if not ranks.first:
                return follow(ranks, cast("Process", kwargs.get("process", DEFAULT)).rng)
            synthesizer = run(*args, **kwargs)
            ranks.broadcast(synthesizer)
            return synthesizer
        except BaseException:
            if ranks.first and not ranks.notified:
                ranks.broadcast(None)
            raise
        finally:
            _joined.pop()
            dist.destroy_process_group()

    return started


class _NotifyingGroup(Group):
    """A group that notes whether rank 0 has sent anything."""

    notified = False

    def broadcast(self, state: Any) -> Any:
        """See `Ranks`."""
        self.notified = True
        return super().broadcast(state)


@dataclass(frozen=True, kw_only=True)
class RunSetup:
    """What rank 0 sends to the other ranks.

    Args:
        job: name of the method, its settings, and the declared facts.
        device: as it was asked for.
        private: the private folder of the run, where every rank seals its state.
        records: fingerprint of all records, and what the settings say of the public ones, as rank 0 read them.
        ledger: budget, delta, relation, and the plan with its use so far.
        saved: state and public streams of the last checkpoint; None: at the start.
        key: of the secret random stream that all ranks share.
    """

    job: tuple[str, dict[str, Any], DataCard]
    seed: int
    device: str
    sources: DataSources
    private: Path
    records: tuple[str, dict[str, Any]]
    ledger: tuple[float, float, NeighboringRelation, list[tuple[DpEvent, int]], list[int]]
    saved: checkpoint.Saved | None
    versions: dict[str, str] = field(default_factory=versions)
    key: bytes = field(default_factory=lambda: os.urandom(16), repr=False)


def lead(run: OpenRun, data: LoadedData) -> None:
    """Send the other ranks the setup of the run."""
    job, ledger, ranks, saved = run.job, run.ledger, run.ranks, run.saved
    if ranks.count == 1:
        return
    assert data.sources is not None, "records that were read have sources"
    if saved is not None:
        saved = ({name: value for name, value in saved[0].items() if not isinstance(value, Path)}, saved[1])
    setup = RunSetup(
        job=(job.method.name, job.settings, job.card),
        seed=run.rng.seed,
        device=run.device,
        sources=data.sources,
        private=run.folder.private.absolute(),
        records=(data.facts.identity.fingerprint, data.facts.public),
        ledger=(ledger.budget, ledger.delta, ledger.relation, ledger.plan, ledger.used),
        saved=saved,
    )
    ranks.broadcast(setup)
    run.rng.draw_alike(setup.key)


def follow(ranks: Ranks, rng: Rng | None) -> Synthesizer:
    """Train with a part of the records, as rank 0 says. Returns the Synthesizer that rank 0 has saved.

    Args:
        ranks: all of them.
        rng: for tests: a generator with a fixed noise seed.

    Raises:
        NotBegun: if rank 0 could not begin.
        RanksDisagree: if this rank has other records or versions, or another one has failed or is gone.
        RequestError: if the GPU of this rank does not compute as the guarantee needs.
        Interrupted: if rank 0 has stopped.
    """
    for signum in HEARD:  # rank 0 handles them
        signal.signal(signum, signal.SIG_IGN)
    setup: RunSetup | Synthesizer | None = ranks.broadcast(None)
    if setup is None:
        raise NotBegun("rank 0 could not begin, and says why.")
    if isinstance(setup, Synthesizer):
        return setup
    if setup.versions != versions():
        raise RanksDisagree(f"it has other versions than rank 0: {versions()}, not {setup.versions}.")
    tune_malloc()
    method, settings, card = setup.job
    job = Job.of(method_named(method), settings, card)
    load_pretrained(job)  # as rank 0 has done: its user, who started this rank too, has named them
    check_devices(setup.device, settings, ranks)
    budget, delta, relation, plan, used = setup.ledger
    ledger = PrivacyLedger(budget=budget, delta=delta, relation=relation, unit=card.unit)
    ledger.reserve(plan)
    ledger.catch_up(used)
    rng = rng or Rng(setup.seed)
    rng.draw_alike(setup.key)
    data = setup.sources.read(card, ledger, rng, ranks)
    if (data.facts.identity.fingerprint, data.facts.public) != setup.records:
        raise RanksDisagree(f"{setup.sources.data} holds other records here than rank 0 has found.")
    training = fitted(job, local(setup.device), ranks=ranks.count).begin(rng, local(setup.device), ranks)
    if setup.saved is not None:
        checkpoint.restore(training.state, {**training.state.state_dict(), **setup.saved[0]}, setup.private)
        rng.restore(setup.saved[1])
    private, public = data.private.map(lambda records: part_of(records, job, ranks, rng)), data.public
    del data  # a part of the records is kept, and the rest is freed
    with full_precision():
        for _ in training.drive(private, public):
            if (after := ranks.next(Next.STEP)) != Next.STEP:
                checkpoint.keep_confined(setup.private, training.state.state_dict(), ranks)
            if after == Next.CHECKPOINT_AND_STOP:
                raise Interrupted("rank 0 has stopped.")
    checkpoint.keep_confined(setup.private, training.state.state_dict(), ranks)
    synthesizer: Synthesizer = ranks.broadcast(None)
    return synthesizer


def check_devices(device: str, settings: Mapping[str, Any], ranks: Ranks) -> str:
    """Check the GPUs of all ranks. Called by all; where one fails, none goes on. Return what the ledger says of this rank's.

    Raises:
        RequestError: if a check fails on this rank, see `check_device`.
        RanksDisagree: if one fails on another rank.
    """
    found = []
    ranks.run_on_all(lambda: found.append(check_device(local(device), settings)))
    return found[0]


def part_of(records: Records, job: Job[BaseConfig, State], ranks: Ranks, rng: Rng) -> Records:
    """Return the records of this rank: whole units, in their order; or all, where the method shards them itself.

    Where a query is more than a sum over units, each unit's rank is picked at random and in secret. So one unit more or less
    leaves all others on their ranks.
    """
    if ranks.count == 1 or job.method.ranks_take == "all records":
        return records
    if job.method.ranks_take != "units by place":
        return records.take(np.flatnonzero(rng.common_integers(records.population, ranks.count) == ranks.number))
    shard = ranks.shard(records.population)
    if records.units is None and is_mapped(records.images):
        return records[shard]
    return records.take(np.arange(shard.start, shard.stop))
