"""`benchmarks.reproduce`: no finished cell is ever lost or taken for another, and the page says what the JSON says."""

import json
import math
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproduce import commands, result_files, results_page, run_cell, run_table, tables
from benchmarks.reproduce.datasets import DATASETS, card_of, source
from benchmarks.reproduce.subset import write_subset
from benchmarks.reproduce.tables import Cell, Table, parse
from gossamer.data.card import DataCard, protected_part
from gossamer.errors import DataError, GossamerError, Interrupted, RequestError, RunFolderError
from gossamer.events import PROGRESS, Event, silent
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.metrics.registry import FID, METRICS
from gossamer.run.release.verify import verify
from gossamer.run.training import presets
from gossamer.run.training.plan import plan

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "reproduce"
TINY = """
title = "Tiny"
source = "Nobody 2026, Table 0"
about = "Three rows."
order = 1
figures = ["coverage", "precision"]

[laptop]
metrics = "accuracy"
samples = 60
once = 0.1

[[row]]
name = "moments"
label = "moments | one release"
data = "digits"
records = 300
method = "moments"
epsilon = 10.0
delta = 1e-4
claimed = "(1, 0)"
published = { coverage = "99 %" }
laptop = { settings = { axes = 8 }, minutes = 0.2 }

[[row]]
name = "dpgan"
label = "dpgan"
data = "digits"
method = "dpgan"
epsilon = 10.0
delta = 1e-4
laptop = { settings = { width = 4, latent_size = 8, steps = 40, expected_batch_size = 16, warm_steps = 0 }, minutes = 0.2 }

[[row]]
name = "glyphs"
label = "glyphs"
data = "digits"
samples_of = "glyphs"
laptop = { minutes = 0.2 }

[[row]]
name = "real"
label = "real"
data = "digits"
real_of = "dpgan"
published = { coverage = "1" }
"""
PINWHEEL = """
title = "Points"
source = "Nobody"
about = ""
order = 1
figures = ["distance of reconstructions"]

[laptop]
metrics = "latent"
needs_run = true
once = 0

[[row]]
name = "kl"
label = "kl"
data = "pinwheel"
method = "privae"
epsilon = 2.87
delta = 1e-3
laptop = { preset = "paper-pinwheel-kl", settings = { steps = 3 }, minutes = 0.2 }
"""
MEASURED = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 10, "computed_on": "10 things", "internal": True}


@pytest.fixture
def tiny() -> Table:
    return parse("tiny", TINY)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Evaluation takes no time, and its names are kept: what is measured is not tested here."""
    seen: list[str] = []

    def measured(synth: Path | str, **_given: Any) -> Any:
        seen.append(str(synth))
        return type("E", (), {"metrics": [{"metric": "coverage", **MEASURED}], "left_out": {}})()

    monkeypatch.setattr(run_cell, "evaluate", measured)
    return seen


def places(folder: Path) -> dict[str, Path]:
    return {"root": folder, "work": folder / "work", "into": folder / "results"}


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "results" / "cells").glob("*.json")}


def cell_of(table: Table, row: str, seed: int = 0) -> Cell:
    return next(each for each in table.cells("laptop") if (each.row.name, each.seed) == (row, seed))


@pytest.mark.slow  # trains every row of a table; others train one
def test_every_cell_becomes_json_that_says_how_and_with_what(tiny: Table, tmp_path: Path, quick: list[str]) -> None:
    run_table.run(tiny, **places(tmp_path), seeds=(0,), sink=silent)
    assert names(tmp_path) == {f"{each.name}.json" for each in tiny.cells("laptop", (0,))}
    found = result_files.load(tmp_path / "results", cell_of(tiny, "moments"))
    assert found is not None
    assert (found["table"], found["row"], found["scale"], found["seed"]) == ("tiny", "moments", "laptop", 0)
    assert found["guarantee"]["epsilon"] <= 10.0 < 1.01 * found["guarantee"]["epsilon"]
    assert found["guarantee"]["relation"] == "add-or-remove-one"
    assert found["resolved"]["settings"]["axes"] == 8 and found["resolved"]["settings"]["cells"] == 1  # a default
    assert set(found["seconds"]) == {"fit", "sample", "evaluate"}
    assert found["software"]["gossamer"] and found["machine"]["threads"] >= 1
    assert not list((tmp_path / "work" / "cells").iterdir())  # generators are large
    assert str(tmp_path) not in json.dumps(found) and platform.node() not in json.dumps(found["machine"])
    glyphs = result_files.load(tmp_path / "results", cell_of(tiny, "glyphs"))
    assert glyphs is not None and glyphs["guarantee"] == run_cell.NOTHING_READ and quick[-1] == "glyphs"


@pytest.mark.slow
def test_the_commands_of_a_cell_give_its_run(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gossamer: Callable[..., Any]
) -> None:
    """Typed as they stand, in an empty folder with the card that the JSON holds."""
    run_table.run(tiny, **places(tmp_path), seeds=(1,), only=["moments"], sink=silent)
    found = result_files.load(tmp_path / "results", cell_of(tiny, "moments", 1))
    assert found is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    DataCard.from_dict(found["card"]).save("card.toml")
    for line in found["commands"]:
        program, *words = line.split()
        if program == "python":
            write_subset(source("digits", tmp_path), int(words[3]), Path(words[4]))
            assert words[:3] == ["-m", "benchmarks.reproduce.subset", "digits"]
        else:
            answer = gossamer(*words)
            assert answer.status == 0, answer.err
    config = json.loads((tmp_path / "RUN" / "config.json").read_text())
    assert config["seed"] == 1 and config["epsilon"] == 10.0
    settings = {name: value for name, value in config["config"].items() if name != "noise_multiplier"}
    assert settings == found["resolved"]["settings"]
    assert config["config"]["noise_multiplier"] == found["noise_multiplier"]
    measured = json.loads((tmp_path / "metrics.json").read_text())
    assert [entry["metric"] for entry in measured] == [entry["metric"] for entry in found["metrics"]]


@pytest.mark.slow
def test_a_cell_says_the_most_threads_that_a_part_of_it_had(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    """Fitted with two of them, stopped, and gone on with by a process that has one: minutes of two are not one's."""
    threads = [2]
    monkeypatch.setattr(run_cell.torch, "get_num_threads", lambda: threads[0])

    def stop() -> None:
        signal.raise_signal(signal.SIGINT)

    asked: dict[str, Any] = {"seeds": (0,), "only": ["dpgan"], **places(tmp_path)}
    with pytest.raises(Interrupted):
        run_table.run(tiny, **asked, sink=at_step(5, stop))
    threads[0] = 1
    run_table.run(tiny, **asked, sink=silent)
    found = result_files.load(tmp_path / "results", cell_of(tiny, "dpgan"))
    assert found is not None and found["machine"]["threads"] == 2
    assert {part: each["threads"] for part, each in found["seconds"].items()} == {"fit": 2, "sample": 1, "evaluate": 1}


@pytest.mark.slow  # most of it is the training of a cell, which others cover
def test_samples_of_the_first_seed_are_shown_where_the_table_says_so(
    tiny: Table, tmp_path: Path, quick: list[str]
) -> None:
    """They are those that the release shows, whoever looks; records that are measured as they are have none."""
    shown, into = parse("tiny", TINY.replace("order = 1", "order = 1\nshow_samples = true")), tmp_path / "results"
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["dpgan"], sink=silent)
    run_table.run(shown, **places(tmp_path), seeds=(0, 1), only=["moments", "glyphs"], keep=True, sink=silent)
    cell = cell_of(shown, "moments")
    assert [path.name for path in (into / "samples").iterdir()] == [f"{cell.name}.png"]
    released = tmp_path / "work" / "cells" / cell.name / "RUN" / "samples.png"
    assert result_files.samples_of(into, cell).read_bytes() == released.read_bytes()
    link = f"![Samples, moments | one release](results/samples/{cell.name}.png)"
    assert results_page.markdown({"tiny": shown}, into, tmp_path / "page.md").count("![") == 1
    assert link in results_page.markdown({"tiny": shown}, into, tmp_path / "page.md").splitlines()
    assert link not in results_page.markdown({"tiny": tiny}, into, tmp_path / "page.md")
    result_files.path_of(into, cell).unlink()
    assert link not in results_page.markdown({"tiny": shown}, into, tmp_path / "page.md"), "no figures, no pictures"


def test_what_is_done_is_not_done_again(tiny: Table, tmp_path: Path, quick: list[str]) -> None:
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results" / "cells").iterdir()}
    run_table.run(tiny, **places(tmp_path), seeds=(0, 1), only=["moments"], sink=silent)
    assert len(quick) == 2 and len(names(tmp_path)) == 2
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_row_with_attacks_has_their_figures_and_their_command(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    entry = {"attack": "white-box", "measure": "share", "roc": {"fpr": [0.0]}, **MEASURED}
    asked: dict[str, Any] = {}

    def attack(run: Path, **given: Any) -> Any:
        asked.update(given, run=run)
        return type("A", (), {"attacks": [entry]})()

    monkeypatch.setattr(run_cell, "attack", attack)
    table = parse("tiny", TINY.replace('method = "moments"', 'method = "moments"\nattack = true'))
    run_table.run(table, **places(tmp_path), seeds=(2,), only=["moments"], sink=silent)
    found = result_files.load(tmp_path / "results", cell_of(table, "moments", 2))
    assert found is not None and "roc" not in found["attacks"][0]
    assert result_files.figures(found)["white-box: share"]["value"] == 0.5
    assert (asked["run"].name, Path(asked["members"]).name, asked["nonmembers"], asked["seed"]) == (
        "RUN", "subset.npz", "digits", 2,
    )  # fmt: skip
    line = "gossamer attack RUN --members subset.npz --nonmembers digits --seed 2 -o attacks.json"
    assert found["commands"][-1] == line


def test_the_name_of_an_attack_is_the_same_for_one_discriminator_and_for_several() -> None:
    """So that a plain GAN and its splits stand in one column. The maximum is what the paper prints."""
    told = {"metrics": [], "attacks": [
        {"attack": "white-box, max over 2 discriminators", "measure": "share", "value": 0.6},
        {"attack": "white-box, mean over 2 discriminators", "measure": "share", "value": 0.5},
        {"attack": "oracle TVD", "measure": "distance", "value": 0.1},
    ]}  # fmt: skip
    values = {name: entry["value"] for name, entry in result_files.figures(told).items()}
    assert values == {"white-box: share": 0.6, "white-box, mean: share": 0.5, "oracle TVD: distance": 0.1}


@pytest.mark.slow
def test_points_of_the_plane_are_written_to_a_file_with_their_test_points(tmp_path: Path) -> None:
    """The pinwheel comes as an array, and its codes are looked at on points that the run has not seen."""
    table = parse("tiny", PINWHEEL)
    run_table.run(table, **places(tmp_path), seeds=(0,), sink=silent)
    [cell] = table.cells("laptop", (0,))
    found = result_files.load(tmp_path / "results", cell)
    assert found is not None and found["resolved"]["records"] == found["card"]["declared_size"] == 400
    figures = result_files.figures(found)
    assert figures["distance of reconstructions"]["n"] == 400
    assert -1 <= figures["classes by the prior's nearest centre (adjusted Rand)"]["value"] <= 1
    first, fit, evaluated = found["commands"]
    assert first == "python -m benchmarks.reproduce.subset pinwheel 400 subset.npz" and "--data subset.npz" in fit
    assert evaluated.startswith("python -m benchmarks.reproduce.metrics RUN --train subset.npz --test subset.npz")


def test_records_as_they_are_have_one_cell_whatever_the_seeds(tiny: Table) -> None:
    found = [each.seed for each in tiny.cells("laptop", (4, 5)) if each.row.name == "glyphs"]
    assert found == [0]


def test_the_account_book_of_the_user_is_left_alone(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    told: list[str] = []
    asked: dict[str, Any] = {"seeds": (0,), "only": ["moments"], "keep": True, **places(tmp_path)}
    run_table.run(tiny, **asked, sink=lambda event: told.append(str(event.values.get("text"))))
    assert not (tmp_path / "state").exists()
    assert "Each has an account book of its own" in told[0] and str(tmp_path / "work") in told[0]
    assert (tmp_path / "work" / "cells" / cell_of(tiny, "moments").name / "accounts" / "accounts.jsonl").is_file()


def test_two_tables_share_a_cell(tiny: Table, tmp_path: Path, quick: list[str]) -> None:
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    other = parse("other", TINY.replace('name = "moments"', 'name = "same"').replace("axes = 8", "axes = 8, cells = 1"))
    run_table.run(other, **places(tmp_path), seeds=(0,), only=["same"], sink=silent)
    assert len(quick) == 1
    [line] = [each for each in results_page.lines_of(other, "laptop", tmp_path / "results") if each.row.name == "same"]
    assert line.found[0]["table"] == "tiny"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("axes = 8", "axes = 9"),
        pytest.param("epsilon = 10.0", "epsilon = 9.0", marks=pytest.mark.slow),
        pytest.param("samples = 60", "samples = 61", marks=pytest.mark.slow),
        pytest.param("records = 300", "records = 301", marks=pytest.mark.slow),
        ('metrics = "accuracy"', 'metrics = "mmd"'),
        pytest.param("delta = 1e-4", "delta = 1e-5", marks=pytest.mark.slow),
    ],
)
def test_a_row_whose_settings_have_changed_is_run_again(
    tiny: Table, tmp_path: Path, quick: list[str], old: str, new: str
) -> None:
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    changed = parse("tiny", TINY.replace(old, new))
    assert result_files.load(tmp_path / "results", cell_of(changed, "moments")) is None
    run_table.run(changed, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    assert len(names(tmp_path)) == 2 and len(quick) == 2


def test_a_default_of_a_method_that_changes_is_a_change(tiny: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cell_of(tiny, "moments").digest
    real = presets.defaults
    monkeypatch.setattr(presets, "defaults", lambda method: {**real(method), "radius": 1.2})
    assert cell_of(tiny, "moments").digest != before


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found["resolved"]["settings"].update(axes=80),
        lambda found: found.update(seed=1),
        lambda found: found.update(schema=99),
        lambda found: found.pop("digest"),
    ],
)
def test_a_json_of_other_settings_never_passes(
    tiny: Table, tmp_path: Path, quick: list[str], damage: Callable[[Any], Any]
) -> None:
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    path = result_files.path_of(tmp_path / "results", cell_of(tiny, "moments"))
    found = json.loads(path.read_text())
    damage(found)
    path.write_text(json.dumps(found))
    with pytest.raises(RunFolderError, match="delete it"):
        run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)


def test_ctrl_c_in_an_evaluation_stops_at_once_and_does_not_train_again(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    def stopped(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupted, match="same command goes on"):
        patch.setattr(run_cell, "evaluate", stopped)
        run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    monkeypatch.delattr(run_cell, "fit")
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    assert len(names(tmp_path)) == len(quick) == 1


class Killed(BaseException):
    """Stands for a crash that nothing catches."""


def test_a_crash_between_cells_loses_none_that_is_finished(tiny: Table, tmp_path: Path, quick: list[str]) -> None:
    def sink(event: Event) -> None:
        if "seed 1" in str(event.values.get("text", "")):
            raise Killed

    with pytest.raises(Killed):
        run_table.run(tiny, **places(tmp_path), only=["moments"], sink=sink)
    assert len(names(tmp_path)) == 1
    run_table.run(tiny, **places(tmp_path), only=["moments"], sink=silent)
    assert len(names(tmp_path)) == 3 and len(quick) == 3


def test_a_crash_before_the_json_is_there_does_not_train_again(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    def fails(*_given: Any, **_named: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(run_cell, "evaluate", fails)
        run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    assert not names(tmp_path) if (tmp_path / "results").exists() else True
    monkeypatch.setattr(run_cell, "fit", fails)
    run_table.run(tiny, **places(tmp_path), seeds=(0,), only=["moments"], sink=silent)
    assert len(names(tmp_path)) == 1


def at_step(step: int, then: Callable[[], None]) -> Callable[[Event], None]:
    def sink(event: Event) -> None:
        if event.kind == PROGRESS and event.phase == "training" and event.step == step:
            then()

    return sink


def test_ctrl_c_within_a_fit_stops_at_a_checkpoint_and_the_same_command_goes_on(
    tiny: Table, tmp_path: Path, quick: list[str]
) -> None:
    asked = {"seeds": (0,), "only": ["dpgan"], "keep": True, **places(tmp_path)}
    with pytest.raises(Interrupted):
        run_table.run(tiny, **asked, sink=at_step(10, lambda: signal.raise_signal(signal.SIGINT)))
    assert not quick
    reached: list[int] = []

    def sink(event: Event) -> None:
        if event.kind == PROGRESS and event.phase == "training":
            reached.append(event.step)

    run_table.run(tiny, **asked, sink=sink)
    assert reached[0] > 10 and reached[-1] == 40
    found = result_files.load(tmp_path / "results", cell_of(tiny, "dpgan"))
    assert found is not None and found["guarantee"]["epsilon"] <= 10.0
    run = tmp_path / "work" / "cells" / cell_of(tiny, "dpgan").name / "RUN"
    assert verify(run).ok


@pytest.mark.slow
def test_minutes_stop_a_fit_at_a_checkpoint(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_table, "time", type("T", (), {"monotonic": staticmethod(lambda: clock[0])}))

    def pass_time() -> None:
        clock[0] = 61.0

    asked = {"seeds": (0,), "only": ["dpgan"], **places(tmp_path)}
    with pytest.raises(Interrupted):
        run_table.run(tiny, **asked, minutes=1.0, sink=at_step(5, pass_time))
    assert not quick and list((tmp_path / "work" / "cells").iterdir())
    run_table.run(tiny, **asked, minutes=1.0, sink=silent)
    assert len(quick) == 1


def test_minutes_stop_between_two_cells(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_table, "time", type("T", (), {"monotonic": staticmethod(lambda: clock[0])}))
    real = result_files.save

    def save(*given: Any, **named: Any) -> Path:
        clock[0] = 61.0
        return real(*given, **named)

    monkeypatch.setattr(result_files, "save", save)
    with pytest.raises(Interrupted, match="same command goes on"):
        run_table.run(tiny, **places(tmp_path), only=["moments"], minutes=1.0, sink=silent)
    assert len(names(tmp_path)) == len(quick) == 1


def test_a_cell_that_another_process_is_at_is_left_to_it(tiny: Table, tmp_path: Path, quick: list[str]) -> None:
    told: list[str] = []
    asked: dict[str, Any] = {"seeds": (0, 1), "only": ["moments"], **places(tmp_path)}
    with run_cell.Places(root=tmp_path, work=tmp_path / "work").hold(cell_of(tiny, "moments")):
        run_table.run(tiny, **asked, sink=lambda event: told.append(str(event.values.get("text"))))
    assert names(tmp_path) == {f"{cell_of(tiny, 'moments', 1).name}.json"}
    assert "1 of 2: another process is at moments | one release, seed 0" in told
    run_table.run(tiny, **asked, sink=silent)
    assert len(names(tmp_path)) == len(quick) == 2


def test_a_cell_that_another_process_has_finished_meanwhile_is_not_run_again(
    tiny: Table, tmp_path: Path, quick: list[str]
) -> None:
    """The first hears of its second cell when the other has ended it, and its folder is gone."""

    def other(event: Event, /) -> None:
        if str(event.values.get("text")).startswith("1 of 2: moments"):
            run_table.run(tiny, **places(tmp_path), seeds=(1,), only=["moments"], sink=silent)

    run_table.run(tiny, **places(tmp_path), seeds=(0, 1), only=["moments"], sink=other)
    assert len(names(tmp_path)) == len(quick) == 2
    assert not list((tmp_path / "work" / "cells").iterdir())


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle of a fit, from outside: the next process ends with a run that verifies."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "tiny.toml").write_text(TINY.replace("steps = 40", "steps = 300"))
    program = (
        "import sys; from pathlib import Path; from gossamer.run.training import checkpoint\n"
        "checkpoint.SHORTEST, checkpoint.SHARE = 0.0, 1e9\n"
        "from benchmarks.reproduce import run_table, tables\n"
        "here = Path(sys.argv[1]); table = tables.tables(here / 'tables')['tiny']\n"
        "run_table.run(table, root=here, work=here / 'work', into=here / 'results', seeds=(0,), only=['dpgan'], keep=True,\n"
        "    sink=lambda event: print(event.phase, event.step, flush=True))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("training 100"):
                process.kill()
    again = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    first = next(int(line.split()[1]) for line in again.splitlines() if line.startswith("training"))
    assert first > 60
    [run] = (tmp_path / "work" / "cells").glob("dpgan*/RUN")
    assert verify(run).ok and len(names(tmp_path)) == 1


def test_a_cell_that_fails_leaves_the_others(
    tiny: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str]
) -> None:
    real = run_cell.fit

    def fit(method: str, **given: Any) -> Any:
        if method == "dpgan":
            raise GossamerError("it diverged")
        return real(method, **given)

    monkeypatch.setattr(run_cell, "fit", fit)
    with pytest.raises(GossamerError, match=r"1 of 3 cells failed.*dpgan, seed 0: it diverged"):
        run_table.run(tiny, **places(tmp_path), seeds=(0,), sink=silent)
    assert len(names(tmp_path)) == 2


def test_rows_whose_data_is_missing_are_named_and_the_others_run(tmp_path: Path, quick: list[str]) -> None:
    table = parse("tiny", TINY.replace('data = "digits"\nmethod = "dpgan"', 'data = "mnist"\nmethod = "dpgan"'))
    with pytest.raises(DataError, match=rf"MNIST \({tmp_path}/mnist\), for dpgan\.") as refusal:
        run_table.run(table, **places(tmp_path), seeds=(0,), sink=silent)
    assert "\n" not in str(refusal.value)
    assert len(names(tmp_path)) == 2


def made(cell: Cell, *, epsilon: float = 9.5, **figures: float) -> dict[str, Any]:
    """The JSON of a cell, written by hand."""
    entries = [{"metric": name.replace("_", " "), **MEASURED, "value": value} for name, value in figures.items()]
    return {
        "schema": result_files.SCHEMA, "table": "tiny", "row": cell.row.name, "scale": "laptop", "seed": cell.seed,
        "digest": cell.digest, "resolved": cell.resolved, "metrics": entries, "attacks": [], "left_out": {},
        "guarantee": {"epsilon": epsilon, "delta": 1e-4, "relation": "add-or-remove-one", "unit": "record"},
        "seconds": {
            part: {"wall": wall, "cpu": 1.0, "threads": 2}
            for part, wall in (("fit", 60.0), ("sample", 30.0), ("evaluate", 600.0))
        },
        "machine": {"processor": "Abacus", "cores": 2, "threads": 2, "device": "cpu"},
        "software": {"torch": "2.0"}, "date": "2026-11-22",
    }  # fmt: skip


def test_a_thread_that_shared_its_core_took_as_long_as_it_worked(tiny: Table) -> None:
    result = made(cell_of(tiny, "moments"))
    fit, sample, evaluation = ({"wall": 600.0, "cpu": 60.0 * cpu, "threads": 1} for cpu in (1, 2, 20))
    result["seconds"] = {"fit": fit, "sample": sample, "evaluate": evaluation}
    assert result_files.minutes_of(result, ("fit", "sample")) == 1 + 2
    assert result_files.minutes_of(result) == 1 + 2 + 10  # helpers of a library may work beside a thread
    assert result_files.minutes_of(result | {"machine": {"device": "cuda"}}) == 30  # a processor that waits for another
    fit["threads"] = 2
    assert result_files.minutes_of(result, ("fit",)) == 10


def test_a_table_is_what_the_json_says(tiny: Table, tmp_path: Path) -> None:
    for seed, (value, epsilon) in enumerate([(0.5, 9.5), (0.6, 9.9001), (0.4, 9.8)]):
        cell = cell_of(tiny, "moments", seed)
        result_files.save(tmp_path, cell, made(cell, epsilon=epsilon, coverage=value))
    cell = cell_of(tiny, "dpgan", 2)
    result_files.save(tmp_path, cell, made(cell, coverage_of_the_real_data_baseline=0.9))
    head, *rows = results_page.grid(tiny, results_page.lines_of(tiny, "laptop", tmp_path))
    assert head == [
        "", "coverage, paper", "coverage, ours", "the paper claims", "what holds", "minutes a run", "seeds",
    ]  # fmt: skip
    holds = "(9.901, 0.0001)"  # the weakest of the three, rounded up
    assert rows[0] == ["moments | one release", "99 %", "50.0 % (40.0 to 60.0 %)", "(1, 0)", holds, "1.5", "3 of 3"]
    assert rows[1][2:] == ["", "", "(9.500, 0.0001)", "1.5", "1 of 3"]
    assert rows[2][2:] == [results_page.NOT_RUN, "", "", "", "0 of 1"]


def test_a_run_without_a_guarantee_makes_the_row_one_without(tiny: Table, tmp_path: Path) -> None:
    for seed, guarantee in enumerate([None, run_cell.NONE]):
        cell = cell_of(tiny, "moments", seed)
        found = made(cell, coverage=0.5)
        result_files.save(tmp_path, cell, found if guarantee is None else {**found, "guarantee": guarantee})
    assert results_page.lines_of(tiny, "laptop", tmp_path)[0].guarantee == "none"


def test_the_page_is_deterministic_and_links_to_every_json(tiny: Table, tmp_path: Path) -> None:
    into, out = tmp_path / "docs" / "results", tmp_path / "docs" / "results.md"
    cell = cell_of(tiny, "moments", 2)
    result_files.save(into, cell, made(cell, coverage=0.5))
    text = results_page.markdown({"tiny": tiny}, into, out)
    assert text == results_page.markdown({"tiny": tiny}, into, out)
    assert f"[2](results/cells/{cell.name}.json)" in text
    assert "moments \\| one release" in text and "Scale: paper" not in text
    assert "Abacus, 2 cores, 2 threads, torch 2.0, 2026-11-22" in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_what_is_left_is_reckoned_from_what_was_taken(tiny: Table, tmp_path: Path) -> None:
    assert results_page.listing({"tiny": tiny}, "laptop", tmp_path)[1].split()[-1] == "0.0"
    cell = cell_of(tiny, "moments")
    result_files.save(tmp_path, cell, made(cell, coverage=0.5))  # 11.5 minutes, reckoned as 0.2
    all_cells = tiny.cells("laptop")
    done = {cell.name: made(cell)}
    assert results_page.expected(cell_of(tiny, "moments", 1), done, all_cells) == pytest.approx(11.5)
    assert results_page.expected(cell_of(tiny, "glyphs"), done, all_cells) == pytest.approx(0.2 * 11.5 / 0.2)
    left = 2 * 11.5 + 4 * 11.5
    assert results_page.listing({"tiny": tiny}, "laptop", tmp_path)[1].split()[-4:] == [
        "1",
        "of",
        "7",
        f"{left / 60:.1f}",
    ]


def refused(answer: Any, *words: str) -> None:
    assert answer.status == 2 and not answer.out
    assert answer.err.startswith("gossamer: ") and answer.err.count("\n") == 1
    for word in words:
        assert word in answer.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["pictuers"], ["no TABLE 'pictuers'", "Did you mean 'pictures'?"]),
        (["pictures", "--data", "{tmp}/nowhere"], ["is no folder"]),
        (["pictures", "--data", "{tmp}", "--only", "mnist-eps1-glyph"], ["no row", "mnist-eps1-glyphs"]),
        (["pictures", "--data", "{tmp}", "--scale", "paper"], ["no such rows to run at the scale of paper"]),
        (["pictures", "--seeds", "0 1"], ["--seeds must be whole numbers"]),
        (["--data", "{tmp}"], ["say which TABLE"]),
        (["pictures", "--page", "{tmp}/page.md"], ["leave TABLE and --data out"]),
    ],
)
def test_refusals(reproduce: Callable[..., Any], tmp_path: Path, words: list[str], says: list[str]) -> None:
    given = [word.replace("{tmp}", str(tmp_path)) for word in words]
    answer = reproduce(*given, "--results", tmp_path / "results", "--work", tmp_path / "work")
    if "--only" in words or "--scale" in words:
        answer.out = ""  # the table as it stands comes first
    refused(answer, *says)
    assert not (tmp_path / "results").exists() and not (tmp_path / "page.md").exists()


def test_the_fid_of_the_papers_is_measured_in_cells_of_its_own(reproduce: Callable[..., Any], tmp_path: Path) -> None:
    table = tables.tables()["bie-table2"]
    by_inception = table.by_inception("0" * 64)
    (first, *_), (other, *_) = table.cells("laptop"), by_inception.cells("laptop")
    assert first.digest != other.digest and "inception" not in first.resolved["measures"]
    assert other.resolved["measures"]["inception"] == "0" * 64
    assert f"--inception WEIGHTS {'0' * 64}" in "\n".join(commands.commands(other, "cpu"))
    assert "--inception" not in "\n".join(commands.commands(first, "cpu"))
    weights = tmp_path / "inception.pt"
    weights.write_bytes(b"no weights")
    asked = ("--inception", weights, "0" * 64, "--results", tmp_path / "results")
    shown = reproduce("bie-table2", *asked).out
    assert "FID, paper" in shown and "18.5 ± 0.9" in shown and "classifier-FID" not in shown
    refused(reproduce("privae-fig1", *asked), "privae-fig1 has no FID: leave --inception out.")


def test_the_command_lists_prints_and_writes(reproduce: Callable[..., Any], tmp_path: Path) -> None:
    into = ["--results", tmp_path / "results"]
    listed = reproduce(*into)
    assert listed.status == 0 and all(name in listed.out for name in tables.tables())
    printed = reproduce("pictures", *into)
    assert printed.status == 0 and results_page.NOT_RUN in printed.out
    assert reproduce("--page", tmp_path / "page.md", *into).status == 0
    assert (tmp_path / "page.md").read_text().startswith("# Results")


def test_the_committed_page_is_what_the_json_says() -> None:
    """Where this fails: `python -m benchmarks.reproduce --page lab/results.md`."""
    written = (ROOT / "lab" / "results.md").read_text(encoding="utf-8")
    assert written == results_page.markdown(tables.tables(), RESULTS, ROOT / "lab" / "results.md")
    real = [line for line in written.splitlines() if line.startswith("| ") and "real records |" in line]
    assert len(real) >= 11
    assert all("](../benchmarks/reproduce/cells/" in line and "0 of" not in line for line in real), (
        "also what the real records read"
    )


def test_every_committed_json_belongs_to_a_row() -> None:
    known = {each.name for table in tables.tables().values() for scale in tables.SCALES for each in table.cells(scale)}
    there = {path.stem for path in (RESULTS / "cells").glob("*.json")}
    assert there <= known, "these are of settings that no table has any more: delete them"


PACKAGED = [
    pytest.param(table, each, id=f"{table.name}-{scale}-{each.row.name}")
    for table in tables.tables().values()
    for scale in tables.SCALES
    for each in table.cells(scale, (0,))
    if each.row.method
]


def card_for(cell: Cell) -> DataCard:
    card = card_of(cell.row.data, cell.row.size)
    return card if cell.how.public_share is None else protected_part(card, cell.how.public_share)


@pytest.mark.parametrize(("table", "cell"), PACKAGED)
def test_the_settings_of_every_packaged_row_are_settings(table: Table, cell: Cell) -> None:
    """Accepted by the method for its card, and asked for on its command line under the same names."""
    row = cell.row
    given = dict(cell.how.settings)
    noise = {} if METHODS[row.method].without_guarantee or "noise_multiplier" in given else {"noise_multiplier": 1.0}
    named = presets.settings(row.method, cell.how.preset) if cell.how.preset else {}
    job = Job.of(METHODS[row.method], {**named, **given, **noise}, card_for(cell))
    presets.check_net(job)
    assert not job.needs_public or cell.how.public or cell.how.public_share
    assert cell.how.public is cell.how.public_share is None or job.takes_public
    if METHODS[row.method].without_guarantee:
        assert row.epsilon is row.delta is None
    else:
        assert cell.epsilon is not None or "noise_multiplier" in named | given
    assert cell.measures.of_papers or set(cell.measures.metrics) <= set(METRICS)
    assert set(row.published) <= {*table.figures, FID.name}


@pytest.mark.slow
@pytest.mark.parametrize(("table", "cell"), PACKAGED)
def test_the_epsilon_of_every_packaged_row_is_what_plan_says(table: Table, cell: Cell) -> None:
    row = cell.row
    request = plan(
        row.method, card_for(cell), cell.how.settings, epsilon=cell.epsilon, delta=row.delta,
        preset=cell.how.preset,
    )  # fmt: skip
    if METHODS[row.method].without_guarantee or cell.epsilon == math.inf:
        assert math.isinf(request.promise.epsilon)
    elif cell.epsilon is not None:
        assert 0.99 * cell.epsilon <= request.promise.epsilon <= cell.epsilon
    else:
        assert request.promise.epsilon == pytest.approx(cell.how.costs, rel=1e-3)


def test_all_tables_together_take_fifteen_hours_at_most_on_a_laptop() -> None:
    minutes = {
        each.name: each.how.minutes for table in tables.tables().values() for each in table.cells("laptop")
    }  # a cell that two tables have is run once
    once = sum(table.once["laptop"] for table in tables.tables().values() if "laptop" in table.once)
    assert (sum(minutes.values()) + once) / 2 <= 15 * 60  # minutes of one thread, of two processes


def test_every_data_set_has_a_name_of_its_own() -> None:
    assert len({known.title for known in DATASETS.values()}) == len(DATASETS)
    with pytest.raises(RequestError, match="Did you mean 'mnist'"):
        card_of("mnits", 10)


def test_a_part_is_always_the_same_and_no_larger_than_the_whole(tmp_path: Path) -> None:
    write_subset("digits", 50, tmp_path / "a.npz")
    write_subset("digits", 50, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with pytest.raises(RequestError, match=r"1,437 training records, and 2,000"):
        write_subset("digits", 2_000, tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('method = "dpgan"', 'method = "dpgan"\nsamples_of = "glyphs"', "one of them only"),
        ('real_of = "dpgan"', 'real_of = "nobody"', "no row nobody"),
        ('method = "moments"', 'method = "momnts"', "no method momnts"),
        ('name = "glyphs"', 'name = "dpgan"', "two rows"),
    ],
)
def test_a_table_that_cannot_be_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse("tiny", TINY.replace(old, new))
