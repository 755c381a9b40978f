"""Reserve a new run: write its folder, its ledger and its entry in the budget log, before it trains."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from gossamer import plugins
from gossamer.errors import BudgetLogError, RunFolderError
from gossamer.methods.job import plugins_of
from gossamer.privacy.certificate.certificate import CONFIG, CONFIG_FORMAT, LEDGER, sha256
from gossamer.privacy.certificate.figures import purposes
from gossamer.run.budget.entry import add_entry, budget_log_at, charge_of, new_run_id
from gossamer.run.storage.data_sources import DataFacts, DataSources
from gossamer.run.storage.versions import versions
from gossamer.run.training.training_run import TrainingRun


def reserve(
    run: TrainingRun,
    sources: DataSources,
    facts: DataFacts,
    *,
    accounts: str | Path | Literal[False] | None,
    config: Mapping[str, Any] | None = None,
    private: Mapping[str, Any] | None = None,
) -> TrainingRun:
    """Write a new run's folder and ledger, and enter the run in the budget log.

    Args:
        run: checked, with its plan reserved in the ledger.
        sources: where the records are.
        facts: what is known of them.
        accounts: folder of the budget log; None: the user's state folder; False: no log is kept.
        config: further public settings.
        private: further entries of the private folder.

    Returns:
        The run with its entry.

    Raises:
        BudgetError: if a limit forbids the run; nothing is left of it then.
        BudgetLogError: if the budget log cannot be used.
        RunFolderError: if the folder cannot be written.
    """
    folder, ledger = run.folder, run.ledger
    config_json = {**_config_json(run, facts), "run": new_run_id(), "accounts": None, **(config or {})}
    source_json = {
        "sources": sources.to_json(),
        "records": facts.identity.fingerprint,
        "mark": facts.identity.mark,
        "accounts": str(Path(accounts).absolute()) if isinstance(accounts, str | Path) else None,
        **(private or {}),
    }

    unnamed = {} if run.job.card.data_set or "data" not in sources.in_memory else {"unnamed": True}

    def write(log_facts: dict[str, Any] | None, session: str) -> None:
        log_facts = log_facts and {**log_facts, **unnamed}
        folder.create({**config_json, "accounts": log_facts}, source_json)
        ledger.create(folder.file(LEDGER), settings=sha256(folder.file(CONFIG)), session=session)

    if accounts is False:
        write(None, "")
        return run
    charge = charge_of(folder, ledger, config_json, source_json, reproducible=run.rng.reproducible)
    try:
        entry = add_entry(budget_log_at(accounts, beside=folder), charge, write, log=run.log)
    except BaseException as error:
        if not folder.finished and (isinstance(error, (BudgetLogError, OSError)) or not folder.begun):
            ledger.close()  # the disk or the budget log failed before the run was entered
            folder.clear()
        if isinstance(error, OSError):
            raise RunFolderError(
                f"{folder.path} cannot be written ({error.strerror}). Nothing has been begun; mend that, or name another --out."
            ) from None
        raise
    return dataclasses.replace(run, budget_entry=entry)


def _config_json(run: TrainingRun, facts: DataFacts) -> dict[str, Any]:
    """The public settings of a run."""
    epsilon, named_plugins = run.ledger.budget, plugins_of(run.job)
    return {
        "format": CONFIG_FORMAT,
        "method": run.job.method.name,
        "config": run.job.settings,
        "card": run.job.card.to_dict(),
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "delta": run.ledger.delta,
        "seed": run.rng.seed,
        "device": run.device,
        "public": facts.public,
        "units": facts.units,
        "tensorboard": run.with_tensorboard,
        "methods": run.job.facts,
        "components": purposes([(phase.name, phase.plan) for phase in run.job.phases]),
        "versions": versions(),
        **({"plugins": [plugins.origin(*named).to_json() for named in named_plugins]} if named_plugins else {}),
    }
