"""A made-up table for the tutorial: 6,000 visits of 4,000 patients in 24 columns, and its data dictionary.

    python examples/data/clinic_table.py FOLDER

writes clinic.csv and dictionary.csv into the folder. Nobody's records are in it. It has what real tables
have: categories, numbers, dates, missing values, an id, a note, and several rows for a patient.
"""

import csv
import datetime
import sys
from pathlib import Path

import numpy as np

DIAGNOSES = ["heart", "lung", "injury", "infection", "diabetes", "cancer", "other organ"]
DICTIONARY = """name,kind,values,low,high,missing
sex,category,f|m|x,,,
birth_year,integer,,1920,2010,
region,category,north|east|south|west|abroad,,,
insurance,category,public|private|self-pay,,,
employment,category,employed|self-employed|student|retired|unemployed,,,true
smoker,category,never|former|current,,,true
admitted,date,,2023-01-01,2025-12-31,
ward,category,surgery|medicine|cardiology|neurology|paediatrics,,,
diagnosis,category,heart|lung|injury|infection|diabetes|cancer|other organ,,,
urgent,category,yes|no,,,
height_cm,integer,,120,210,true
weight_kg,number,,30,200,true
systolic,integer,,70,230,
diastolic,integer,,40,140,
pulse,integer,,35,190,
temperature,number,,34,42,
glucose,number,,2,30,true
creatinine,integer,,20,900,true
bill,number,,0,60000,
days,integer,,0,90,
readmitted,category,yes|no,,,
"""


def people(draw: np.random.Generator, count: int) -> list[dict[str, object]]:
    """What stays the same for a patient."""
    found = []
    for number in range(count):
        year = int(np.clip(draw.normal(1962, 20), 1921, 2009))
        height = round(draw.normal(170, 9))
        found.append(
            {
                "patient": f"P{number:05}",
                "sex": draw.choice(["f", "m", "x"], p=[0.51, 0.485, 0.005]),
                "birth_year": year,
                "region": draw.choice(["north", "east", "south", "west", "abroad"], p=[0.3, 0.25, 0.2, 0.2, 0.05]),
                "insurance": draw.choice(["public", "private", "self-pay"], p=[0.8, 0.17, 0.03]),
                "employment": _employment(draw, 2025 - year),
                "smoker": draw.choice(["never", "former", "current", ""], p=[0.45, 0.25, 0.22, 0.08]),
                "height_cm": height if draw.random() < 0.9 else "",
                "weight_kg": round(max(31, (height - 100) * draw.normal(0.98, 0.16)), 1) if draw.random() < 0.9 else "",
            }
        )
    return found


def _employment(draw: np.random.Generator, age: int) -> str:
    if draw.random() < 0.06:
        return ""
    if age > 65:
        return "retired"
    return (
        "student" if age < 22 else str(draw.choice(["employed", "self-employed", "unemployed"], p=[0.72, 0.13, 0.15]))
    )


def visit(draw: np.random.Generator, number: int, patient: dict[str, object]) -> dict[str, object]:
    """One row."""
    age = 2025 - int(str(patient["birth_year"]))
    smokes = patient["smoker"] == "current"
    organ = np.array([0.06 + age / 300, 0.08 + 0.15 * smokes, 0.3 - age / 400, 0.15, 0.04 + age / 700, age / 600, 0.12])
    diagnosis = str(draw.choice(DIAGNOSES, p=organ / organ.sum()))
    ward = {"heart": "cardiology", "injury": "surgery", "cancer": "surgery"}.get(diagnosis, "medicine")
    ward = "paediatrics" if age < 18 else "neurology" if draw.random() < 0.08 else ward
    urgent = draw.random() < (0.7 if diagnosis in ("heart", "injury") else 0.35)
    pressure = round(draw.normal(112 + age / 2.6 + 9 * (diagnosis == "heart"), 13))
    fever = diagnosis == "infection"
    days = int(min(90, draw.gamma(1.6, 1.6 + age / 40 + 2 * (diagnosis == "cancer"))))
    risk = -4.2 + age / 30 + 1.4 * (diagnosis in ("heart", "cancer")) + smokes + days / 8
    sugar = 9.5 if diagnosis == "diabetes" else 5.4
    return {
        "visit_id": f"V{number:06}",
        **patient,
        "admitted": datetime.date(2023, 1, 1) + datetime.timedelta(days=int(draw.integers(1_096))),
        "ward": ward,
        "diagnosis": diagnosis,
        "urgent": "yes" if urgent else "no",
        "systolic": int(np.clip(pressure, 80, 225)),
        "diastolic": int(np.clip(round(0.55 * pressure + draw.normal(10, 6)), 45, 135)),
        "pulse": int(np.clip(round(draw.normal(76 + 12 * fever, 12)), 40, 180)),
        "temperature": round(draw.normal(38.2 if fever else 36.8, 0.5), 1),
        "glucose": round(max(2.1, draw.normal(sugar, 1.3)), 1) if draw.random() < 0.7 else "",
        "creatinine": round(float(np.clip(draw.lognormal(4.4 + age / 250, 0.3), 25, 850)))
        if draw.random() < 0.75
        else "",
        "bill": 0 if days == 0 else round(float(min(59_000, days * draw.lognormal(6.2 + 0.6 * urgent, 0.5))), 2),
        "days": days,
        "readmitted": "yes" if draw.random() < 1 / (1 + np.exp(-risk)) else "no",
        "note": f"seen by Dr {draw.choice(list('ABCDEFGH'))}, case {draw.integers(10**6):06}",
    }


def main(folder: Path, patients: int = 4_000, visits: int = 6_000) -> None:
    """Write both files."""
    draw = np.random.default_rng(2025)
    known = people(draw, patients)
    who = [*range(patients), *draw.integers(0, patients, visits - patients)]
    rows = [visit(draw, number, known[at]) for number, at in enumerate(draw.permutation(who))]
    folder.mkdir(exist_ok=True)
    with (folder / "clinic.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "dictionary.csv").write_text(DICTIONARY, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
