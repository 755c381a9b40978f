"""Commands in processes of their own: one at a time, found again by another page, stopped as Ctrl-C does."""

import io
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

import gossamer
from gossamer.errors import RequestError
from gossamer.events import NOTE, TEXT, Event, EventLines, note, printed_as_events, progress
from gossamer.run.cli.main import main
from gossamer.run.page import jobs
from gossamer.run.page.jobs import Jobs, PageJob
from gossamer.run.training.progress import Terminal

BEGAN = Event(NOTE, 0, {"text": "began"})
SLEEPS = f"""
import sys, time
print({BEGAN.line!r}, flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print({Event(NOTE, 0, {"text": "interrupted"}).line!r}, flush=True)
"""


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
    first.start("resume", "run-1", name="fit", about="run-1")
    job = other.running()
    assert (job.name, job.about, job.running) == ("fit", "run-1", True)
    assert os.getsid(job.process) == job.process, "a session of its own: Ctrl-C in the terminal does not reach it"
    for page in (first, other):
        with pytest.raises(RequestError, match="one is allowed at a time"):
            page.start("attack")
    wait(lambda: other.running().said(NOTE) == ["began"])
    other.stop()
    wait(lambda: other.running() is None)
    assert other.last().said(NOTE) == ["began", "interrupted"], "the job got what Ctrl-C sends"
    program("pass")
    other.start("attack")
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
    page.start("card", str(beside / "clinic.csv"), "-o", str(tmp_path / "draft.toml"))
    wait(lambda: page.running() is None, 60)
    assert sorted(path.name for path in ran.iterdir()) == []
    assert (tmp_path / "draft.toml").is_file(), page.last().events
    assert any("label" in text for text in page.last().said(NOTE)), "what the data owner must decide"


def test_a_job_works_in_its_private_folder_and_imports_nothing_from_it(tmp_path, monkeypatch):
    code = (
        "import os, sys; from json import dumps; "
        "print(dumps({'kind': 'note', 'values': {'text': f'{sys.flags.safe_path} {os.getcwd()}'}}))"
    )
    monkeypatch.setattr(jobs, "PROGRAM", (*jobs.PROGRAM[: jobs.PROGRAM.index("-m")], "-c", code))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    page = Jobs(tmp_path / "jobs")
    page.start("card")
    wait(lambda: page.running() is None)
    assert page.last_of("card").said(NOTE) == [f"True {tmp_path / 'jobs'}"]


def test_what_a_job_prints_is_private(tmp_path, program):
    program(f"print({note('one thing').line!r})")
    page = Jobs(tmp_path / "jobs")
    page.start("card")
    wait(lambda: page.running() is None)
    assert (tmp_path / "jobs").stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "jobs").iterdir()} == {
        "card.jsonl": 0o600, "lock": 0o600,
    }  # fmt: skip
    assert page.last_of("card").said(NOTE) == ["one thing"]
    assert page.last_of("split").said(NOTE) == []


def test_without_a_job_stop_does_nothing(tmp_path):
    Jobs(tmp_path).stop()


def said(words):
    """What the command line writes for a job, and its exit status."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "stdout", out)
        main(["--events", *words])
    return [json.loads(line) for line in out.getvalue().splitlines()], ended.value.code


def job(events, *, running=False):
    return PageJob(name="fit", process=1, started=time.time() - 61, running=running, events=events)


def test_a_command_says_all_that_it_prints_as_events(tmp_path):
    (tmp_path / "clinic.csv").write_text("sex,age\n" + "f,3\nm,4\n" * 30)
    events, status = said(["card", str(tmp_path / "clinic.csv")])
    told = job(events)
    assert status == 0 and told.error == ""
    assert "declared_size = 60" in told.said(TEXT), "what goes to stdout"
    assert any(text.startswith("Note: Measured bounds") for text in told.said(NOTE)), "what goes to stderr"


def test_an_error_is_one_event(tmp_path):
    events, status = said(["card", str(tmp_path / "none.csv")])
    assert status == 2 and [event["kind"] for event in events] == ["error"]
    assert job(events).error.startswith(f"{tmp_path / 'none.csv'}: there is no such file or folder.")
    assert job(events, running=True).error == "", "an error of a run that is resumed"
    assert 60 <= job([]).seconds <= 120 and job([]).error == ""


def test_progress_is_what_the_last_event_of_it_says():
    file = io.StringIO()
    with Terminal(EventLines(file)) as terminal:
        terminal(progress("pictures", 1, 1))
        terminal(note("a thing"))
        for step in (0, 1200, 1500):
            terminal(progress("training", step, 1500, f"epsilon used {step / 1000}"))
    events = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [event["kind"] for event in events] == ["progress", "note", "progress"], "one now and then, and the last"
    assert job(events).progress == {
        "label": "training",
        "done": 1500,
        "of": 1500,
        "left": "0 s left",
        "note": "epsilon used 1.5",
    }
    assert job(events[:1]).progress["label"] == "pictures"
    assert job([]).progress["of"] == 0


def test_what_other_programs_print_is_no_event(tmp_path, program):
    program(f"print('# a library', 5, sep='\\n'); print({note('one').line!r}); print('[1]')")
    page = Jobs(tmp_path)
    page.start("fit")
    wait(lambda: page.running() is None)
    assert [event["kind"] for event in page.last().events] == ["note"]


def test_printed_lines_become_events_when_they_are_complete(capsys):
    with printed_as_events():
        print("one", end=" ")
        print("line", file=sys.stderr)
        print("cut", end="")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"kind": TEXT, "phase": "", "step": 0, "values": {"text": "one line"}}
