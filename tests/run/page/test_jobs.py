"""Commands in processes of their own: one at a time, found again by another page, stopped as Ctrl-C does."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import gossamer
from gossamer.errors import RequestError
from gossamer.run.page import jobs
from gossamer.run.page.jobs import Job, Jobs, Progress

SLEEPS = "import sys, time; print('began', flush=True); time.sleep(60)"


@pytest.fixture
def program(monkeypatch):
    """Lets jobs run a line of Python in place of `gossamer`."""
    started = []

    def use(code):
        monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-S", "-c", code))

    use(SLEEPS)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in the server; a test run may ignore it
    yield use
    signal.signal(signal.SIGINT, before)
    for process in started:
        os.killpg(process, signal.SIGKILL)


def wait(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.02)


def test_a_job_runs_alone_and_is_found_by_another_page(tmp_path, program):
    first, other = Jobs(tmp_path / "jobs"), Jobs(tmp_path / "jobs")
    assert first.last() is None and first.running() is None
    first.start("fit", ["moments"], about="run-1")
    job = other.running()
    assert (job.name, job.about, job.running) == ("fit", "run-1", True)
    assert os.getsid(job.process) == job.process, "a session of its own: Ctrl-C in the terminal does not reach it"
    for page in (first, other):
        with pytest.raises(RequestError, match="one is allowed at a time"):
            page.start("attack", [])
    wait(lambda: "began" in other.running().output)
    other.stop()
    wait(lambda: other.running() is None)
    assert "KeyboardInterrupt" in other.last().output, "the job got what Ctrl-C sends"
    program("print('gossamer: no')")
    other.start("attack", [])
    wait(lambda: other.running() is None)
    assert other.last().name == "attack"


def test_no_program_beside_the_records_runs_in_a_job(tmp_path, monkeypatch):
    """The page was started there. An empty entry of PYTHONPATH stands for the working folder."""
    beside, ran = tmp_path / "beside", tmp_path / "ran"
    beside.mkdir()
    ran.mkdir()
    (beside / "gossamer").mkdir()
    names = (
        "torch",
        "numpy",
        "click",
        "typing",
        "sitecustomize",
        "usercustomize",
        "gossamer/__init__",
        "gossamer/__main__",
    )
    for name in names:
        (beside / f"{name}.py").write_text(f"open({str(ran / name.replace('/', '.'))!r}, 'w').close()")
    (beside / "clinic.csv").write_text("a,b\n1,x\n2,y\n")
    monkeypatch.chdir(beside)
    monkeypatch.setenv(
        "PYTHONPATH", f"{os.pathsep}{os.environ.get('PYTHONPATH') or Path(gossamer.__file__).parents[1]}"
    )
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    page = Jobs(tmp_path / "jobs")
    page.start("card", ["card", str(beside / "clinic.csv"), "-o", str(tmp_path / "draft.toml")])
    wait(lambda: page.running() is None, 60)
    assert sorted(path.name for path in ran.iterdir()) == []
    assert (tmp_path / "draft.toml").is_file(), page.output("card").output


def test_a_job_works_in_its_private_folder_and_imports_nothing_from_it(tmp_path, monkeypatch):
    code = "import os, sys; print(sys.flags.safe_path, os.getcwd())"
    monkeypatch.setattr(jobs, "PROGRAM", (*jobs.PROGRAM[:-2], "-c", code))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    page = Jobs(tmp_path / "jobs")
    page.start("card", [])
    wait(lambda: page.running() is None)
    assert page.output("card").notes == [f"True {tmp_path / 'jobs'}"]


def test_what_a_job_prints_is_private(tmp_path, program):
    program("print('Note: one thing')")
    page = Jobs(tmp_path / "jobs")
    page.start("card", [])
    wait(lambda: page.running() is None)
    assert (tmp_path / "jobs").stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "jobs").iterdir()} == {
        "card.log": 0o600, "lock": 0o600,
    }  # fmt: skip
    assert page.output("card").notes == ["Note: one thing"]
    assert page.output("split") is None


def test_without_a_job_stop_does_nothing(tmp_path):
    Jobs(tmp_path).stop()


def job(output, *, running=False):
    return Job("fit", "run-1", 1, time.time() - 61, running, output)


def test_an_error_is_the_last_paragraph():
    failed = "Note: a thing\ntraining: 1 of 9\ngossamer: it stopped.\nsecond line\n"
    assert job(failed).error == "it stopped.\nsecond line"
    assert job(failed, running=True).error == ""
    assert job("Note: a thing\n").error == ""
    assert job(failed).notes == ["Note: a thing"]
    assert 60 <= job("").seconds <= 120


@pytest.mark.parametrize(
    "line, expected",
    [
        (
            "training: 1,200 of 1,500 (3.20 per s, 94 s left) epsilon used 1.234",
            Progress("training", 1200, 1500, "94 s left", "epsilon used 1.234"),
        ),
        ("training: 1 of 1 epsilon used 3.000", Progress("training", 1, 1, "", "epsilon used 3.000")),
        ("pictures: 5 of 20", Progress("pictures", 5, 20, "", "")),
        ("Note: 5 of these are odd", Progress()),
    ],
)  # fmt: skip
def test_progress_is_read_from_the_last_line_of_it(line, expected):
    assert job(f"training: 0 of 9\nsome words\n{line}\nmore words\n").progress == (
        expected if expected.of else Progress("training", 0, 9, "", "")
    )


def test_progress_is_what_the_command_line_prints():
    """`fit` writes these lines where its output is a file."""
    import io

    from gossamer.events import progress
    from gossamer.run.training.progress import Terminal

    stream = io.StringIO()
    with Terminal(stream) as terminal:
        for step in (0, 4):
            terminal(progress("training", step, 4, f"epsilon used {step}.000"))
    shown = job(stream.getvalue()).progress
    assert (shown.label, shown.done, shown.of, shown.note) == ("training", 4, 4, "epsilon used 4.000")
    assert shown.left == "0 s left"
