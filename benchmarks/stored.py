"""What a benchmark found, as a JSON file in benchmarks/results, with the conditions under which it was found."""

import json
import os
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def keep(name: str, rows: list[dict[str, Any]], *, threads: int, seeds: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write NAME-DATE.json. `load` is of the moment at which the measurement ends. Gives the path.

    Args:
        name: of the measurement.
        rows: what was found.
        threads: of each process.
        seeds: what each of them fixed.
        folder: where the file goes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stated = {
        "date": str(date.today()), "command": " ".join(["python", *sys.argv]), "machine": machine(), "threads": threads,
        "torch": torch.__version__, "load": [round(each, 1) for each in os.getloadavg()], "seeds": seeds, "rows": rows,
    }  # fmt: skip
    path = folder / f"{name}-{date.today()}.json"
    path.write_text(json.dumps(stated, indent=1) + "\n")
    print(f"\n{path}")
    return path


def newest(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """The last result of that name; None where there is none."""
    found = sorted(folder.glob(f"{name}-[0-9]*.json"))
    return json.loads(found[-1].read_text()) if found else None


def machine() -> str:
    """Processor, cores and memory, as the system names them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory / 1e9:.0f} GB"
