"""`python -m gossamer` is `gossamer`."""

from gossamer.run.cli import main

main()
