"""Damaged files of every form, read by `gossamer card`: one paragraph and status 2, or a draft; nothing else.

python tests/data/sources/pictures/fuzz.py                     10,000 files over all forms, and a table
python tests/data/sources/pictures/fuzz.py --count 300 tar gif

A worker reads the files in a process of its own, which may die, hang or fill the memory without taking the others along. The
damage follows from the number of the file and the forms: --first NUMBER --count 1 and the same forms make a finding again.
"""

import argparse
import contextlib
import io
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SECONDS = 5.0
"""Of a processor, what one file may take."""
PATIENCE = 60.0
"""Seconds after which a worker that says nothing is stopped: a machine may be busy with other things."""
MEMORY = 1 << 30
"""Bytes that the process may hold; and that it may map beyond what it held before the first damaged file."""
HUGE = (b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\xff\xff", b"\xff\xff\0\0", b"\0" * 4, b"\xff" * 8)


@dataclass
class Found:
    """What became of the files of one form.

    Args:
        counts: how many were read, and how many refused.
        wrong: number of the file, and what went wrong.
        slowest: seconds.
        memory: bytes, the most that a worker held.
    """

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    slowest: float = 0.0
    memory: int = 0


def damaged(raw: bytes, draw: random.Random) -> bytes:
    """A file with one to three kinds of damage."""
    data = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(data)) if data else 0
        head = draw.randrange(min(len(data), 96)) if data else 0
        kind = draw.randrange(9)
        if kind == 0:
            del data[at:]
        elif kind in (1, 2):
            for _ in range(draw.choice((1, 2, 8)) if data else 0):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif kind in (3, 4):
            huge = draw.choice(HUGE)
            place = head if kind == 3 else at
            data[place : place + len(huge)] = huge
        elif kind == 5 and data:
            data[head] = draw.randrange(256)
        elif kind == 6:
            del data[at : at + draw.choice((1, 4, 64))]
        elif kind == 7:
            data[at:at] = data[head : head + draw.choice((1, 4, 64, 4096))]
        elif kind == 8:
            length = draw.choice((1, 16, 256))
            data[at : at + length] = draw.randbytes(length) if draw.random() < 0.5 else bytes(length)
    return bytes(data)


def worker(names: list[str], first: int, last: int) -> None:
    """Read the files first, first + 1 ... last - 1, and print what became of each. The forms take turns."""
    sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
    from forms import FORMS
    from tables_in_forms import TABLES

    from gossamer.run.cli.main import main

    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as native:
        os.dup2(native.fileno(), 2)  # what C libraries print goes past Python
        sound = []
        for name in names:
            folder = Path(scratch) / name.replace(" ", "-")
            folder.mkdir()
            data, flags, files = (FORMS | TABLES)[name](folder)
            status, said = card(main, [data, *flags])
            assert status == 0, said
            sound.append(([data, *flags], files, [path.read_bytes() for path in files]))
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        for number in range(first, last):
            arguments, files, raws = sound[number % len(names)]
            draw = random.Random(f"{names[number % len(names)]} {number // len(names)}")
            chosen = draw.randrange(len(files))
            files[chosen].write_bytes(damaged(raws[chosen], draw))
            print("file", number, sep="\t", flush=True)
            began, printed = time.process_time(), os.fstat(native.fileno()).st_size
            status, said = card(main, arguments)
            took = time.process_time() - began
            files[chosen].write_bytes(raws[chosen])
            if os.fstat(native.fileno()).st_size > printed:
                status, said = -1, "a library printed on stderr: " + said
            memory = most_held()
            print("read", verdict(status, said), took, memory, said.strip().replace("\n", " | "), sep="\t", flush=True)
            if memory > MEMORY:
                return  # the most that a process held never falls: the next file needs a new one


def most_held() -> int:
    """Bytes that this process has held at most. `getrusage` counts those of the process that started it, too."""
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def card(main, arguments: list[str]) -> tuple[int, str]:
    """Exit status and stderr of `gossamer card`."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main(["card", *arguments])
    except SystemExit as stopped:
        return int(stopped.code or 0), said.getvalue()
    return -1, "main() came back"


def verdict(status: int, said: str) -> str:
    """read, refused, or wrong.

    Whoever asks for more memory than the limit is wrong, but for Arrow: it reserves what a damaged page header declares, at
    most 2 GiB, and touches none of it.
    """
    if status == 0 and "Traceback" not in said:
        return "read"
    first, *lines = said.splitlines() or [""]  # several problems have lines of their own
    one_paragraph = first.startswith("gossamer: ") and all(line.startswith("  ") for line in lines)
    no_memory = "(MemoryError)" in said or "not enough memory" in said or "Cannot allocate memory" in said
    return "refused" if status == 2 and one_paragraph and not no_memory else "wrong"


def fuzz(names: list[str], first: int, last: int) -> dict[str, Found]:
    """Read the damaged files first ... last - 1. What became of them, by form."""
    found, number = {name: Found() for name in names}, first
    while number < last:
        command = [sys.executable, __file__, "--worker", "--first", str(number), "--last", str(last), *names]
        limits = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **limits}) as process:
            number = _follow(process, number, last, lambda at: found[names[at % len(names)]])
    return found


def _follow(process: "subprocess.Popen[bytes]", number: int, last: int, of: Callable[[int], Found]) -> int:
    """Read what a worker prints until it ends; the number of the file to go on with."""
    assert process.stdout is not None
    output, pending, reading = process.stdout.fileno(), b"", False
    while True:
        ready, _, _ = select.select([output], [], [], PATIENCE if reading else 5 * PATIENCE)
        piece = os.read(output, 1 << 16) if ready else b""
        if not piece:
            process.kill()
            code = process.wait()
            if ready and not reading and code == 0:
                return number
            assert reading, "the worker died before it read a damaged file"
            what = f"the process died ({code})" if ready else f"said nothing for {PATIENCE:g} s"
            of(number).wrong.append((number, what))
            return number + 1
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            kind, *words = line.decode(errors="replace").split("\t")
            if kind == "file":
                number, reading = int(words[0]), True
                continue
            what, took, memory, said = words[0], float(words[1]), int(words[2]), words[3]
            form = of(number)
            form.counts[what] += 1
            form.slowest, form.memory = max(form.slowest, took), max(form.memory, memory)
            if what == "wrong" or memory > MEMORY or took > SECONDS:
                form.wrong.append((number, f"{said} ({took:.1f} s, {memory >> 20} MiB)"))
            number, reading = number + 1, False


def main() -> int:
    """Fuzz all forms, or some, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="files of all forms together")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--last", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("forms", nargs="*", help="names of forms; default: all")
    given = parser.parse_args()
    if given.worker:
        worker(given.forms, given.first, given.last)
        return 0
    sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
    from forms import FORMS
    from tables_in_forms import TABLES

    names, began = given.forms or list(FORMS | TABLES), time.perf_counter()
    found = fuzz(names, given.first, given.first + given.count)
    took = time.perf_counter() - began
    print("| form | read | refused | wrong | slowest, s | memory, MiB |\n|---|---|---|---|---|---|")
    for name, each in found.items():
        counts = each.counts
        row = (name, counts["read"], counts["refused"], len(each.wrong), f"{each.slowest:.2f}", each.memory >> 20)
        print("|", " | ".join(map(str, row)), "|")
    for name, each in found.items():
        for number, what in each.wrong:
            print(f"{name}, file {number}: {what}")
    wrong = sum(len(each.wrong) for each in found.values())
    print(f"{given.count:,} files in {took:.0f} s, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
