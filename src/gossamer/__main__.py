"""`python -m gossamer` is `gossamer`."""

from gossamer.run.cli.main import main

main()
