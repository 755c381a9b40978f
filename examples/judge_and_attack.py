"""How good is a run, and can its records be recognised? `python examples/judge_and_attack.py FOLDER`. Takes half a minute.

All figures here are internal: they read real records, and no guarantee covers them. A release leaves them out.
"""

import sys
from pathlib import Path

import gossamer

folder = Path(sys.argv[1])
card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437)
synthesizer = gossamer.fit(
    "moments",
    data="digits",
    card=card,
    epsilon=10,
    delta=1e-4,
    axes=32,
    out=folder / "run",
    accounts=folder / "accounts",
)

# A classifier learns from the samples, another from the real records; both are held against real test records.
found = gossamer.evaluate(
    folder / "run", train="digits", test="digits", count=1_000, metrics=gossamer.metrics.Measures(protocol="reduced")
)
for figure in found.metrics:
    print(f"{figure['metric']}: {figure['value']:.1%} ({figure['low']:.1%} to {figure['high']:.1%})")

# Attacks that know half of the answer: records of the run, and records that it never saw. Half is what guessing gives.
attacked = gossamer.attack(folder / "run", members="digits", nonmembers="digits", count=1_000, limit=100)
print(*attacked.verdict, sep="\n")

# An attack that fails proves nothing. What limits every attack is this:
print(synthesizer.certificate.statement)
