"""From records to a release, in Python: `python examples/fit_and_sample.py FOLDER`. Takes seconds.

scikit-learn's handwritten digits play the private records. FOLDER is new; its account book lies in it.
"""

import sys
from pathlib import Path

import numpy as np

import gossamer

folder = Path(sys.argv[1])

# The public facts. Every line of a card stands in the certificate, so each is a fact that anyone may know.
card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437, title="scikit-learn's digits")

# Train under a budget. What the run may release is reserved, and charged, before a record is read.
synthesizer = gossamer.fit(
    "moments",
    data="digits",
    card=card,
    epsilon=3,
    delta=1e-4,
    axes=32,
    out=folder / "run",
    accounts=folder / "accounts",
)
print(synthesizer.certificate.statement)

# Samples cost nothing: as many as are wanted, of the labels that are wanted.
samples = synthesizer.sample(1_000, seed=0)
sevens = synthesizer.sample(10, labels=np.full(10, 7), seed=0)
print("samples:", samples.images.shape, samples.images.dtype, "and sevens:", set(sevens.labels.tolist()))

# What may be handed out, and nothing else; and the same check that whoever receives it makes.
out = gossamer.release(folder / "run", folder / "release", samples=100)
verdict = gossamer.verify(out)
print("verified:", verdict.ok, *verdict.problems)
