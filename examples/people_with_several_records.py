"""Protect people, not pictures: `python examples/people_with_several_records.py FOLDER`. Takes seconds.

Ten digits in a row play the records of one writer, so that there are 144 writers, and a writer is what is protected.
"""

import sys
from pathlib import Path

import numpy as np

import gossamer

folder = Path(sys.argv[1])
folder.mkdir(parents=True)

# An .npz with the images, the labels, and whose each record is.
card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=144, unit="writer")
digits = gossamer.read("digits", card.reading)
writers = np.array([f"writer {number // 10}" for number in range(len(digits))])
np.savez(folder / "written.npz", train_images=digits.images, train_labels=digits.labels, train_writer=writers)

# The same budget for the record and for the writer. The card says what is protected, `units` says whose each record is.
by_record = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437)
settings = {"epsilon": 10, "delta": 1e-4, "axes": 16, "accounts": folder / "accounts"}
of_records = gossamer.fit("moments", data=folder / "written.npz", card=by_record, out=folder / "records", **settings)
of_writers = gossamer.fit(
    "moments",
    data=gossamer.Source(folder / "written.npz", units=":writer"),
    card=card,
    out=folder / "writers",
    **settings,
)
print(of_records.certificate.statement)
print(of_writers.certificate.statement)
