"""How much memory and time does `gossamer fit` take on large pictures? JSON lines, one for each size.

Random pictures are written as a folder of .npy files, into a temporary folder that is removed at the end. `gossamer fit` trains
on them in a process of its own. `anonymous_mb` is the most memory that it held besides mapped files (RssAnon, every 20 ms):
the system drops the pages of a mapped file when it needs the room. `resident_mb` counts these pages too. With `--after`, other
commands use the run, each in a process of its own.

    python benchmarks/sizes.py --sides 128 256 512 > benchmarks/results/sizes.jsonl
    python benchmarks/sizes.py --sides 128 --format png --settings cells=2
    python benchmarks/sizes.py --sides 512 --channels 3 --n 100 --after sample evaluate attack release
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = 2
MADE = 200
"""Samples for `evaluate` and `attack`."""
COARSE = 4
"""Blocks on a side of a random picture."""


def picture(draw: np.random.Generator, channels: int, side: int) -> np.ndarray:
    """Coarse blocks with some noise: uint8 [channels, side, side]."""
    blocks = draw.integers(30, 225, size=(channels, COARSE, COARSE), dtype=np.uint8)
    whole = blocks.repeat(side // COARSE, 1).repeat(side // COARSE, 2)
    return whole + draw.integers(30, size=whole.shape, dtype=np.uint8)


def after(name: str, folder: Path) -> list[str]:
    """The words of a command that uses the run in a folder."""
    run, data, others, samples = (str(folder / part) for part in ("run", "data", "others", "samples.npz"))
    words = {
        "sample": ["sample", run, "-n", "16", "-o", samples],
        "evaluate": ["evaluate", run, "--train", data, "--test", data, "-n", str(MADE)],
        "attack": ["attack", run, "--members", data, "--nonmembers", others, "-n", str(MADE)],
        "release": ["release", run, "-o", str(folder / "release")],
    }
    return [sys.executable, "-m", "gossamer", *words[name]]


def write(data: Path, n: int, channels: int, side: int, form: str, seed: int = 0) -> None:
    """So many random pictures in two classes, and beside their folder a card for them."""
    draw = np.random.default_rng(seed)
    data.mkdir()
    if form == "npy":
        images = np.lib.format.open_memmap(data / "images.npy", "w+", np.uint8, (n, channels, side, side))
        for i in range(n):
            images[i] = picture(draw, channels, side)
        images.flush()
        np.save(data / "labels.npy", np.arange(n) % CLASSES)
    else:
        for label in range(CLASSES):
            (data / f"class{label}").mkdir()
        for i in range(n):
            drawn = picture(draw, channels, side).transpose(1, 2, 0)
            Image.fromarray(drawn.squeeze()).save(data / f"class{i % CLASSES}" / f"{i}.png", compress_level=1)
    names = '\nclass_names = ["class0", "class1"]' if form == "png" else ""
    card = f"shape = [{channels}, {side}, {side}]\nclasses = {CLASSES}{names}\ndeclared_size = {n}\n"
    (data.parent / "card.toml").write_text(card, encoding="utf-8")


def measured(command: list[str]) -> dict[str, float]:
    """Run a command; its memory in MB, and its seconds."""
    start, most = time.monotonic(), 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    status, resident = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        text = status.read_text(encoding="ascii")
        most = max([most, *map(int, re.findall(r"RssAnon:\s+(\d+)", text))])
        resident = max([resident, *map(int, re.findall(r"VmHWM:\s+(\d+)", text))])
        time.sleep(0.02)
    assert process.stderr is not None
    if process.returncode:
        raise SystemExit(process.stderr.read().decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "anonymous_mb": round(most * 1024 / 1e6),
        "resident_mb": round(resident * 1024 / 1e6),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="moments")
    parser.add_argument("--sides", type=int, nargs="+", default=[128, 256, 512], help="multiples of 4")
    parser.add_argument("--channels", type=int, nargs="+", default=[1, 3], choices=(1, 3))
    parser.add_argument("--n", type=int, default=1_000, help="records")
    parser.add_argument("--format", default="npy", choices=("npy", "png"))
    parser.add_argument("--settings", nargs="*", default=[], help="of the method, as axes=64")
    parser.add_argument("--after", nargs="*", default=[], choices=("sample", "evaluate", "attack", "release"))
    parser.add_argument("--note", default="", help="goes into every line")
    given = parser.parse_args()
    flags = [f"--{setting.replace('_', '-')}" for setting in given.settings]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for side in given.sides:
        for channels in given.channels:
            with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
                folder = Path(name)
                write(folder / "data", given.n, channels, side, given.format)
                if "attack" in given.after:
                    write(folder / "others", given.n, channels, side, given.format, seed=1)
                command = [
                    sys.executable, "-m", "gossamer", "fit", given.method, "--data", str(folder / "data"),
                    "--card", str(folder / "card.toml"), "--epsilon", "10", "--delta", "1e-5",
                    "--out", str(folder / "run"), "--public-test-data", *flags,
                ]  # fmt: skip
                about: dict[str, Any] = {
                    "method": given.method, "settings": given.settings, "side": side, "channels": channels, "n": given.n,
                    "format": given.format,
                }  # fmt: skip
                print(json.dumps({**about, **measured(command), "note": given.note}), flush=True)
                for then in given.after:
                    line = {"command": then, **about, **measured(after(then, folder)), "note": given.note}
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
