"""A campaign of faults against runs: after each, no charge and no finished checkpoint is lost, and the run can be ended.

    python tests/run/training/faults.py                 all kinds, 115 faults; 10 minutes on two cores
    python tests/run/training/faults.py --kinds kill "full disk" --seed 7

A witness stands beside every run: the releases that were made, and the checkpoints that were finished, are written to a file
of its own as they happen. After each fault the ledger on disk must hold at least as many charges as there were
releases, and the checkpoint must be the last that was finished, or a later one. Then the run is resumed, on another number of
ranks where it had several; it must end, its releases must be as many as planned or fewer, and `verify` must pass.

Ends with a Markdown table, and keeps it as JSON in benchmarks/results: of each kind how many, charges and finished checkpoints
that were lost, runs that could not go on as they should, and releases that were paid for and not made.
"""

import argparse
import errno
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gossamer.files import LEDGER
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.distributed import Group, Ranks
from gossamer.run.cli.main import main
from gossamer.run.release.verify import verify
from gossamer.run.storage.versions import versions
from gossamer.run.training import checkpoint, driver

STEPS = 240
FLAGS = {
    "steps": STEPS, "expected-batch-size": 8, "width": 4, "latent-size": 8, "discriminator-steps": 4, "epsilon": 10,
    "delta": 1e-3,
}  # fmt: skip
WITNESS = "GOSSAMER_TEST_WITNESS"
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
Plant = Callable[[random.Random], None]


@dataclass
class Place:
    """One run and its witness.

    Args:
        folder: empty.
        chance: of moments and places.
        lost: charges, finished checkpoints, and releases that were paid for and not made.
    """

    folder: Path
    chance: random.Random
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def ledger(self) -> Path:
        return self.run / LEDGER

    @property
    def words(self) -> list[str]:
        flags = [str(word) for name, value in FLAGS.items() for word in (f"--{name}", value)]
        return [
            "fit", "dpgan", "--data", str(self.folder / "data.npz"), "--card", str(self.folder / "card.toml"), "--out",
            str(self.run), *flags,
        ]  # fmt: skip

    def begin(self) -> None:
        draw = np.random.default_rng(0)
        images = draw.integers(0, 256, size=(160, 1, 28, 28)).astype(np.uint8)
        np.savez(self.folder / "data.npz", images=images, labels=draw.integers(2, size=160))
        (self.folder / "card.toml").write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 160\n")

    # ---------------------------------------------------------------- processes

    def start(self, words: list[str], plant: Plant | None = None) -> Any:
        """A process that has loaded everything already, with a witness."""
        process = multiprocessing.get_context("fork").Process(target=self._child, args=(words, plant))
        process.start()
        return process

    def _child(self, words: list[str], plant: Plant | None) -> None:
        silent = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.environ[WITNESS] = str(self.folder / "witness")
        watch()
        if plant is not None:
            plant(self.chance)
        main(words)

    def ended(self, words: list[str], plant: Plant | None = None) -> int:
        process = self.start(words, plant)
        process.join(300)
        assert process.exitcode is not None, "it hangs"
        return int(process.exitcode)

    def torchrun(self, count: int, words: list[str]) -> subprocess.Popen[bytes]:
        said = (self.folder / "said").open("ab")
        environment = {**os.environ, WITNESS: str(self.folder / "witness"), "OMP_NUM_THREADS": "1"}
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), __file__, *words]
        return subprocess.Popen([sys.executable, *command], env=environment, stdout=said, stderr=said)

    # ---------------------------------------------------------------- moments

    def wait(self, charges: int) -> None:
        """Until the ledger has so many charges, or the run has ended."""
        for _ in range(6000):
            if self.ledger.is_file() and self.ledger.read_bytes().count(b'"charge"') >= charges:
                return
            if (self.run / "certificate.json").is_file():
                return
            time.sleep(0.01)
        raise AssertionError("the run does not get on")

    def some_moment(self) -> None:
        self.wait(self.chance.randrange(STEPS))
        time.sleep(self.chance.uniform(0, 0.05))

    # ---------------------------------------------------------------- what must hold

    def holds(self) -> None:
        """After a fault: no release without a charge, no finished checkpoint without its file."""
        seen = Counter(line.split()[0] for line in self._witness)
        self.lost["charges"] += max(0, seen["release"] - self._charges())
        assert not self.lost["charges"], "a release without a charge"
        kept = [int(line.split()[1]) for line in self._witness if line.startswith("kept")]
        if kept:
            found = checkpoint.saved_position(self.run / "checkpoint")
            self.lost["checkpoints"] += found is None or found[1] < max(kept)
            assert not self.lost["checkpoints"], "a finished checkpoint is lost"

    def ends(self) -> None:
        """Resume, to the end."""
        assert self.ended(["resume", str(self.run)]) == 0, (self.folder / "said").read_text()[-2000:]
        self.holds()
        releases = sum(line.startswith("release") for line in self._witness)
        assert releases <= STEPS == self._charges(), "more releases than planned"
        self.lost["releases"] = STEPS - releases
        assert verify(self.run).ok

    @property
    def _witness(self) -> list[str]:
        path = self.folder / "witness"
        return path.read_text().splitlines() if path.exists() else []

    def _charges(self) -> int:
        return sum('"charge"' in line for line in self.ledger.read_text().splitlines())


def watch() -> None:
    """Write down every release after its noise is drawn, and every checkpoint after it is finished."""

    def note(line: str) -> None:
        descriptor = os.open(os.environ[WITNESS], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def noted(release: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: Ranks, exact: Any, noised: Any, belief: Any) -> Any:
            def both(total: torch.Tensor) -> torch.Tensor:
                answer: torch.Tensor = noised(total)
                note("release")
                return answer

            return release(self, exact, both, belief)

        return called

    Ranks.release = noted(Ranks.release)  # type: ignore[method-assign]
    Group.release = noted(Group.release)  # type: ignore[method-assign]
    save = checkpoint.save

    def kept(folder: Path, state: dict[str, Any], *rest: Any) -> float:
        seconds = save(folder, state, *rest)
        note(f"kept {state['step']}")
        return seconds

    checkpoint.save = kept
    checkpoint.SHORTEST, checkpoint.SHARE = 0.05, 1.0


# -------------------------------------------------------------------- the faults


def kill(place: Place) -> None:
    """kill -9 of the process, up to three times in one run."""
    process = place.start(place.words)
    for turn in range(place.chance.randint(1, 3)):
        place.some_moment()
        process.kill()
        process.join()
        if not place.ledger.is_file():
            shutil.rmtree(place.run, ignore_errors=True)
            process = place.start(place.words)
            continue
        place.holds()
        if turn < 2:
            process = place.start(["resume", str(place.run)])
    process.kill()
    process.join()
    if not place.ledger.is_file():  # killed before anything was begun
        assert place.ended(place.words) == 0
    place.ends()


def kill_a_rank(place: Place) -> None:
    """kill -9 of one of two or three ranks; the others stop, and one or two go on."""
    count = place.chance.randint(2, 3)
    process = place.torchrun(count, place.words)
    place.wait(place.chance.randrange(1, STEPS // 2))
    victims = workers(process.pid)
    if victims:
        os.kill(place.chance.choice(victims), signal.SIGKILL)
    assert process.wait(120) != 0 or (place.run / "certificate.json").is_file()
    assert not workers(process.pid)
    place.holds()
    if place.chance.random() < 0.4:
        resumed = place.torchrun(5 - count, ["resume", str(place.run)]).wait(200)
        assert resumed == 0, (place.folder / "said").read_text()[-2000:]
    place.ends()


def full_disk(place: Place) -> None:
    """No room at some write of the ledger, the checkpoint or the events, and none afterwards but what was kept."""
    where = place.chance.choice(["ledger.jsonl", "state.pt", "events.jsonl"])
    at = place.chance.randint(3, 12)

    def plant(_chance: random.Random) -> None:
        sync, left = os.fsync, [at]

        def fsync(descriptor: int) -> None:
            name = Path(f"/proc/self/fd/{descriptor}").readlink()
            left[0] -= where in name.name
            given = name.parent.name == "checkpoint" and not (name.parent / checkpoint.RESERVE).exists()
            if left[0] <= 0 and not given:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(descriptor)

        os.fsync = fsync

    code = place.ended(place.words, plant)
    assert code in ({1} if where != "events.jsonl" else {0, 1}), code
    place.holds()
    place.ends()


def torn_ledger(place: Place) -> None:
    """The last line of the ledger is torn: it counts as a whole block, and the run is shorter by it."""
    process = place.start(place.words)
    place.wait(place.chance.randrange(16, STEPS - 32))
    process.kill()
    process.join()
    place.holds()
    whole = place.ledger.read_bytes()
    last = len(whole) - whole.rstrip(b"\n").rfind(b"\n") - 1
    place.ledger.write_bytes(whole[: -place.chance.randrange(1, last)])
    place.ends()


def cut_ledger(place: Place) -> None:
    """Whole lines are cut off the ledger, below what the checkpoint saw: the run is refused, until they are restored."""
    process = place.start(place.words)
    place.wait(place.chance.randrange(64, STEPS - 32))
    process.kill()
    process.join()
    whole = place.ledger.read_bytes()
    if checkpoint.saved_position(place.run / "checkpoint") is not None:
        place.ledger.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]))
        assert place.ended(["resume", str(place.run)]) == 1
        place.ledger.write_bytes(whole)
    place.holds()
    place.ends()


def half_a_checkpoint(place: Place) -> None:
    """The machine stops while a checkpoint is written: before its new name, or in the middle of its bytes."""
    at, early = place.chance.randint(2, 6), place.chance.random() < 0.5

    def plant(_chance: random.Random) -> None:
        replace, left = os.replace, [at]

        def stop(source: Any, target: Any, **named: Any) -> None:
            left[0] -= Path(target).name == checkpoint.FILE
            if left[0] <= 0:
                if early:
                    os.truncate(source, Path(source).stat().st_size // 2)
                os._exit(9)
            replace(source, target, **named)

        os.replace = stop

    assert place.ended(place.words, plant) == 9
    place.holds()
    place.ends()


def damaged_checkpoint(place: Place) -> None:
    """The checkpoint on disk is damaged: it is refused and nothing is charged; restored, it is gone on with."""
    process = place.start(place.words)
    place.wait(place.chance.randrange(64, STEPS - 32))
    process.kill()
    process.join()
    path, before = place.run / "checkpoint" / checkpoint.FILE, place.ledger.read_bytes()
    if path.is_file():
        whole = path.read_bytes()
        path.write_bytes(whole[: place.chance.randrange(len(whole))])
        assert place.ended(["resume", str(place.run)]) == 2
        assert place.ledger.read_bytes() == before
        path.write_bytes(whole)
    place.ends()


def copied(place: Place) -> None:
    """The folder is copied in mid-run, and both go on: the account book counts the plan twice."""
    process = place.start(place.words)
    place.wait(place.chance.randrange(32, STEPS - 32))
    process.kill()
    process.join()
    place.holds()
    twin = place.folder / "twin"
    shutil.copytree(place.run, twin)
    place.ends()
    assert place.ended(["resume", str(twin)]) == 0
    book = list((place.folder / "state").rglob("*.jsonl"))
    charges = [json.loads(line) for path in book for line in path.read_text().splitlines()]
    plans = [entry for entry in charges if "charge" in json.dumps(entry) and "plan" in json.dumps(entry)]
    assert len(plans) == 2, "one plan for two runs"


def clock(place: Place) -> None:
    """Clocks jump by years, forwards and backwards, in the middle of a run."""

    def plant(chance: random.Random) -> None:
        now, tick = time.time, time.monotonic
        time.time = lambda: now() + chance.uniform(-1e9, 1e9)
        time.monotonic = lambda: tick() + chance.choice([0.0, 0.0, 1e6, -1e6])

    assert place.ended(place.words, plant) == 0
    place.ends()


def no_number(place: Place) -> None:
    """The generator's weights become NaN at some step: the run stops, and the checkpoint before that is kept."""
    at = place.chance.randrange(40, STEPS - 40)

    def plant(_chance: random.Random) -> None:
        begin, tell, states = driver.Training.__init__, driver._emit_step, []

        def remembered(self: Any, *rest: Any) -> None:
            begin(self, *rest)
            states.append(self.state)

        def planted(reached: Any, *rest: Any) -> None:
            tell(reached, *rest)
            if reached.step == at and reached.logs is not None:
                with torch.no_grad():
                    next(states[-1].released.parameters()).fill_(math.nan)

        driver.Training.__init__ = remembered  # type: ignore[method-assign]  # planted on purpose, in a process of its own
        driver._emit_step = planted

    code = place.ended(place.words, plant)
    assert code == 1, (place.folder / "said").read_text()[-500:]
    assert "has diverged" in (place.folder / "said").read_text()
    found = checkpoint.saved_position(place.run / "checkpoint")
    assert found is None or found[1] < at + 1
    place.holds()
    place.ends()
    weights = Synthesizer.load(place.run).net.state_dict().values()
    assert all(bool(each.isfinite().all()) for each in weights)


KINDS: dict[str, tuple[Callable[[Place], None], int]] = {
    "kill": (kill, 25),
    "kill a rank": (kill_a_rank, 20),
    "full disk": (full_disk, 25),
    "torn ledger": (torn_ledger, 10),
    "cut ledger": (cut_ledger, 5),
    "half a checkpoint": (half_a_checkpoint, 10),
    "damaged checkpoint": (damaged_checkpoint, 5),
    "copied folder": (copied, 5),
    "clock": (clock, 5),
    "no number": (no_number, 5),
}


def workers(agent: int) -> list[int]:
    """The processes that torchrun has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == agent and f"{WITNESS}=" in (path / "environ").read_text():
                found.append(int(path.name))
        except (OSError, ValueError):
            continue
    return found


def campaign(kinds: list[str], seed: int, times: int | None) -> list[dict[str, Any]]:
    """Every fault of these kinds. Gives a row for each kind; what went wrong is said as it happens."""
    torch.set_num_threads(1)
    rows = []
    for name in kinds:
        fault, count = KINDS[name]
        failed, lost, started = 0, Counter[str](), time.monotonic()
        for number in range(times or count):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")
                place = Place(Path(folder), random.Random(f"{seed} {name} {number}"))
                place.begin()
                try:
                    fault(place)
                except AssertionError as error:
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    failed += 1
                    print(f"{name} {number}, line {where.lineno}: {error or where.line}", file=sys.stderr)
                lost += place.lost
        rows.append({
            "fault": name, "what": fault.__doc__, "times": times or count, "lost_charges": lost["charges"],
            "lost_checkpoints": lost["checkpoints"], "failed": failed, "releases_not_made": lost["releases"],
            "releases_planned": STEPS * (times or count), "seconds": round(time.monotonic() - started, 1),
        })  # fmt: skip
        print(f"{name}: {failed} of {times or count} failed, {rows[-1]['seconds']:.0f} s", file=sys.stderr)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """In Markdown."""
    lines = [
        "| fault | times | charges lost | finished checkpoints lost | could not go on | paid for, not released | seconds |"
    ]
    lines.append("|---" * 7 + "|")
    for row in rows:
        columns = [
            f"{row['fault']}: {row['what']}",
            row["times"],
            row["lost_charges"],
            row["lost_checkpoints"],
            row["failed"],
        ]
        columns += [f"{row['releases_not_made']} of {row['releases_planned']:,}", f"{row['seconds']:.0f}"]
        lines.append(f"| {' | '.join(map(str, columns))} |")
    return "\n".join(lines)


def keep(rows: list[dict[str, Any]], seed: int, folder: Path) -> Path:
    """Write the rows and their conditions as JSON."""
    stated = {
        "date": str(date.today()), "command": " ".join(["python", *sys.argv]), "cores": os.cpu_count(), "seed": seed,
        "versions": versions(), "load": [round(each, 1) for each in os.getloadavg()], "rows": rows,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"faults-{date.today()}.json"
    path.write_text(json.dumps(stated, indent=1) + "\n")
    return path


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, help="of each kind, in place of its own number")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    if WITNESS in os.environ:  # a rank
        watch()
        main(sys.argv[1:])
    options = asked()
    found = campaign(options.kinds, options.seed, options.times)
    print(table(found), f"\n{keep(found, options.seed, options.results)}", sep="\n")
    sys.exit(any(row["failed"] for row in found))
