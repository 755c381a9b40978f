"""`python -m gossamer.run.reproduce.part DATA RECORDS OUT.npz`: the training records of a row that takes a part of them."""

import sys
from pathlib import Path

from gossamer.run.reproduce.datasets import part

if __name__ == "__main__":
    part(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
