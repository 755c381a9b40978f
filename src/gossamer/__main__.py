"""The program `gossamer`, and `python -m gossamer`: nothing is imported before Ctrl-C is handled."""

import importlib
import os
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is being imported ends quietly, with status 130."""
    _leave_out_working_folder()
    try:
        importlib.import_module("gossamer.run.cli.main").main()
    except KeyboardInterrupt:
        sys.exit(130)


def _leave_out_working_folder() -> None:
    """Import nothing from the working folder, here and in processes that this one starts.

    Records are often there, and programs of strangers may be beside them. Gossamer's own source may be the working folder.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        here, own = os.path.realpath(os.curdir), os.path.realpath(f"{__file__}/../..")
    except FileNotFoundError:  # the working folder was deleted
        return

    def may_stay(entry: str) -> bool:
        return here == own or os.path.realpath(entry or os.curdir) != here

    sys.path[:] = filter(may_stay, sys.path)
    entries = filter(may_stay, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.realpath(entry or os.curdir) for entry in entries)


if __name__ == "__main__":
    main()
