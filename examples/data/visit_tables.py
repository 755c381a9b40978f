"""Two made-up tables for the tutorial: 3,000 patients, and their visits.

    python examples/data/visit_tables.py FOLDER

writes patients.csv and visits.csv into FOLDER/clinic. Nobody's records are in them. A visit follows the visit before: who was
worse is often worse again, and comes back sooner.
"""

import csv
import datetime
import sys
from pathlib import Path

import numpy as np

STATES = ["stable", "worse", "acute"]
CHANCES = {"stable": [0.85, 0.12, 0.03], "worse": [0.35, 0.5, 0.15], "acute": [0.2, 0.5, 0.3]}
DAYS = {"stable": 120, "worse": 40, "acute": 10}


def visits(draw: np.random.Generator, patient: str) -> list[dict[str, object]]:
    """At most 12 visits of a patient, until the end of 2025."""
    day = datetime.date(2023, 1, 1) + datetime.timedelta(days=int(draw.integers(0, 600)))
    state, weight, found = STATES[int(draw.choice(3, p=[0.6, 0.3, 0.1]))], float(draw.normal(78, 14)), []
    while len(found) < 12 and day.year < 2026:
        found.append({"patient": patient, "day": day.isoformat(), "state": state, "weight": round(max(31, weight), 1)})
        if draw.random() < 0.15:
            break
        day += datetime.timedelta(days=1 + int(draw.exponential(DAYS[state])))
        state, weight = STATES[int(draw.choice(3, p=CHANCES[state]))], weight + float(draw.normal(0, 1.5))
    return found


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """A CSV file with the names of the columns first."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def main(folder: Path, patients: int = 3_000) -> None:
    """Write both tables."""
    draw = np.random.default_rng(0)
    (folder / "clinic").mkdir(parents=True)
    people: list[dict[str, object]] = []
    for number in range(patients):
        year = round(np.clip(draw.normal(1962, 12), 1930, 2000))
        people.append({"patient": f"P{number:05}", "sex": str(draw.choice(["f", "m"])), "birth_year": year})
    write(folder / "clinic" / "patients.csv", people)
    write(folder / "clinic" / "visits.csv", [row for each in people for row in visits(draw, str(each["patient"]))])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
