"""The user's folder for state. Only this module reads the environment."""

import os
from pathlib import Path

from gossamer.errors import BudgetLogError


def state_folder() -> Path:
    """Return gossamer/ in $XDG_STATE_HOME, or in ~/.local/state. It may not exist yet.

    Raises:
        BudgetLogError: if the user has no home folder.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:
            raise BudgetLogError(
                "there is no home folder to keep the budget log in. Name a folder with `accounts`, or set XDG_STATE_HOME."
            ) from None
    return state / "gossamer"


def signing_key() -> Path:
    """Return where the page keeps the private key of the user's signatures. It may not exist yet."""
    return state_folder() / "signing-key.pem"
