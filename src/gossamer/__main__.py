"""The program `gossamer`, and `python -m gossamer`: nothing is imported before Ctrl-C is handled."""

import importlib
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is being imported ends quietly, with status 130."""
    try:
        importlib.import_module("gossamer.run.cli.main").main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
