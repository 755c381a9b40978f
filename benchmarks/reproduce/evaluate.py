"""`python -m benchmarks.reproduce.evaluate LIMIT SYNTH ...`: `gossamer evaluate` with the metric `classical` of GS-WGAN.

LIMIT is the most training records of the classical classifiers. Everything else is as in `gossamer evaluate`.
"""

import sys

from benchmarks.reproduce.metrics import classical
from gossamer.run.cli.main import main

if __name__ == "__main__":
    classical.register(int(sys.argv[1]))
    main(["evaluate", *sys.argv[2:]], name="python -m benchmarks.reproduce.evaluate")
