"""What can go wrong.

The command line exits with status 2 after a `RequestError`, and with status 1 after any other. Messages name the argument, the
file and the remedy in one paragraph. They never hold a value read from a record. Arguments are in backticks: `max_norm` or
`network=conv`. Calls are `gossamer.resume(RUN)`. The command line prints both as flags and commands.

    GossamerError
    ├── RequestError: correct the request, and repeat it
    │   ├── CardError
    │   ├── DataError
    │   ├── BudgetError
    │   ├── RunFolderError
    │   ├── BudgetLogError
    │   └── NotBegun
    ├── PrivacyError: the run stopped, so that its promise holds
    │   ├── BudgetExceeded
    │   ├── UnplannedRelease
    │   ├── LedgerDamaged
    │   └── ConfinedError
    ├── Diverged, TooFewClients, Interrupted, DiskFull: what was trained is kept, and the message says how to go on
    └── RanksDisagree
"""

import difflib
import errno
import re
import traceback
from collections.abc import Iterable
from pathlib import Path


class GossamerError(Exception):
    """Everything that Gossamer raises on purpose."""

    @property
    def code(self) -> str:
        """What went wrong, for programs: the name of the class, such as "card-error"."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()

    @property
    def field(self) -> str:
        """The first argument that the message names, such as "max_norm"; empty: none."""
        found = re.search(r"(?<!\w)`((?:public\.)?[a-z]\w*)(?:=[^`]*)?`", str(self))
        return found[1] if found else ""


class RequestError(GossamerError):
    """The request was wrong."""


class CardError(RequestError):
    """The data card is malformed, or contradicts the data."""


class DataError(RequestError):
    """The data cannot be read as records. Names the file and the index, never a value."""


class DataWarning(UserWarning):
    """Something about the records that their owner should know. It tells nothing of a single record."""


class BudgetError(RequestError):
    """No run can meet this epsilon, delta or noise multiplier."""


class RunFolderError(RequestError):
    """The output folder is taken, cannot be written, or is not a run."""


class BudgetLogError(RequestError):
    """The budget log cannot be read or written. A run without an entry in it is not started."""


class Diverged(GossamerError):
    """Weights became infinite or no number. The last checkpoint before that is kept; the message names its step."""


class TooFewClients(GossamerError):
    """A federated step needs more clients than are there. What was trained is kept; the message says how to go on."""


class Interrupted(GossamerError):
    """The user stopped the run; it can be resumed."""


class NotBegun(RequestError):
    """Rank 0 has refused the request and given the reason; the other ranks end with it."""


class RanksDisagree(GossamerError):
    """Ranks cannot go on together: one is gone, has failed, or is about to release something else. Nothing has left."""


class DiskFull(GossamerError):
    """Nothing more can be written. What was finished is kept; the message says how to go on."""


class PrivacyError(GossamerError):
    """The run stops, so that its promise holds."""


class BudgetExceeded(PrivacyError):
    """A plan costs more than the budget. Raised before any record is read."""


class UnplannedRelease(PrivacyError):
    """A release that no plan has reserved. Raised before any record is read."""


class LedgerDamaged(PrivacyError):
    """The ledger on disk was cut or changed, or a file is not the one that it or the certificate pins. Names the file."""


class ConfinedError(PrivacyError):
    """Something failed, or was tried, inside `Confined`. Carries no message from inside: that could be a record."""


def withheld(error: BaseException) -> str:
    """Where it failed, without kind and message of the error: these could tell something of a record."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = frame.filename.rsplit("/", 1)[-1]
    place = f"error in {frame.name} ({file}, line {frame.lineno})"
    return f"{place}. Its message is withheld, because it could hold a record."


def raised_by_gossamer(error: Exception) -> bool:
    """Whether Gossamer's own code has raised an error, and so has written its message."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return Path(frame.filename).is_relative_to(Path(__file__).parent)


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it wraps, says that a disk or a quota is full."""
    while error is not None:
        if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is not enough memory. On a CPU, PyTorch has no class of its own for it."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The nearest known name as a question after a space, or nothing.

    >>> did_you_mean("step", ["steps", "width"])
    " Did you mean 'steps'?"
    """
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""
