"""What the sites of a federation of few have shown: their settings and ledgers, as the centre keeps and releases them."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from gossamer.errors import LedgerDamaged
from gossamer.privacy.accounting import sites
from gossamer.privacy.ledger import PrivacyLedger, merge

SITES = "sites.json"
"""In the folder of a centre: config.json and ledger.jsonl of each site, by its name."""


def read_ledger(text: str) -> PrivacyLedger:
    """The ledger in a text. Raises LedgerDamaged."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.jsonl"
        file.write_text(text)
        return PrivacyLedger.load(file)


def problem_of(name: str, shown: Any, settings: dict[str, Any], own: PrivacyLedger) -> str:
    """Why a site's ledger does not reserve the plan of the centre; empty: it does.

    Args:
        name: of the site.
        shown: its config and ledger, as texts.
        settings: the config.json of the centre.
        own: the ledger of the centre.
    """
    try:
        config, ledger = json.loads(shown["config"]), read_ledger(shown["ledger"])
        same = all(config[key] == settings[key] for key in ("method", "config", "card", "delta"))
        role = config["federated"]["role"] == sites.SITE and config["federated"]["site"] == name
    except (KeyError, TypeError, ValueError, AttributeError, LedgerDamaged):
        return f"{SITES}: what {name} has shown is no ledger with its settings."
    pinned = hashlib.sha256(shown["config"].encode()).hexdigest() == ledger.settings
    if not (same and role and pinned) or (ledger.unit, ledger.relation) != (own.unit, own.relation):
        return f"{SITES}: the ledger of {name} is of another run."
    if ledger.reasons or ledger.delta != own.delta or merge(ledger.plan) != merge(own.plan):
        return f"{SITES}: the ledger of {name} does not reserve the plan of this run."
    return ""


def problems(folder: Path, settings: dict[str, Any], own: PrivacyLedger) -> list[str]:
    """What is wrong with the ledgers that a centre has noted, each in a sentence."""
    try:
        shown = json.loads((folder / SITES).read_bytes())
        ledgers = {name: read_ledger(shown[name]["ledger"]) for name in own.sites}
    except (OSError, KeyError, TypeError, ValueError, LedgerDamaged):
        return [f"{SITES} is missing, or does not hold the ledgers of the sites."]
    found = [problem_of(name, shown[name], settings, own) for name in own.sites]
    for name, noted in own.sites.items():
        ledger = ledgers[name]
        if [ledger.lines, ledger.last_hash] != [noted["lines"], noted["last_hash"]]:
            found.append(f"{SITES}: the ledger of {name} is not the one that the ledger of the centre notes.")
        if sum(ledger.used) < noted["answers"]:
            found.append(f"{SITES}: the ledger of {name} records fewer queries than answers of it count.")
    if set(shown) != set(own.sites) or not set(shown) <= set(settings["federated"]["sites"]):
        found.append(f"{SITES} names other sites than the ledger.")
    return [each for each in found if each]
