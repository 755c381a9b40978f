"""`audit.json`: what an audit at a run's epsilon measured, in words for its report, `verify` and the certificate of a release.

The audit read no record of the run, so the file may be published.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.privacy.certificate.certificate import content
from gossamer.privacy.certificate.declarations import NOT_DECLARED
from gossamer.run.report.templates import as_written, template
from gossamer.run.storage.run_folder import AUDIT

CONSISTENT, REFUTED = "consistent", "REFUTED"
LOW_VALUE = (
    "A lower bound above the claim would refute it. One below proves nothing: it says how much this attacker sees, "
    "not that no other sees more."
)


def audited(folder: Path) -> str:
    """What the audit of a run measured, in three sentences on one line; empty where there was none.

    Raises:
        RunFolderError: if audit.json does not hold what an audit gives.
    """
    return _read(folder)[0]


def said_by(certificate: Mapping[str, Any]) -> str:
    """The same from the certificate of a release; empty if it has no audit."""
    statement = str(certificate.get("declared", {}).get("audited", NOT_DECLARED))
    return "" if statement == NOT_DECLARED else statement


def refuted(folder: Path) -> bool:
    """Whether the audit of a run refuted its claim.

    Raises:
        RunFolderError: see `audited`.
    """
    return _read(folder)[1] == REFUTED


def _read(folder: Path) -> tuple[str, str]:
    """What the audit of a run measured, and its verdict."""
    path = folder / AUDIT
    if not path.is_file():
        return "", ""
    with as_written(path, "what an audit gives", f"write it again with `gossamer audit --run {folder}`, or remove it."):
        record = json.loads(content(path))
        return template("audited.txt").render(record, low_value=LOW_VALUE).rstrip(), record["verdict"]
