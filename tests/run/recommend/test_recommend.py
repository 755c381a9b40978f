"""`recommend`, `presets --card`, and what `plan` says beforehand: through the command line, on cards alone."""

import math
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import OF_PICTURES

from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.run.recommend import measured_runs, recommend
from gossamer.run.recommend.forecast import forecast_run
from gossamer.run.recommend.recommend import Advice
from gossamer.run.training import memory, presets
from gossamer.run.training.memory import peak
from gossamer.run.training.plan import plan

Run = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def _fixed() -> Iterator[None]:
    """Advice changes with every cell that is finished. Here it rests on runs that stay."""
    text = (Path(__file__).parent / "measured.toml").read_text(encoding="utf-8")
    runs = tuple(map(measured_runs.from_entry, tomllib.loads(text)["run"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_runs, "runs", lambda: runs)
        yield


@pytest.fixture(scope="module")
def few() -> Advice:
    """5,000 records at epsilon 1, without public records."""
    return recommend.recommend(DataCard(shape=(1, 28, 28), classes=10, declared_size=5_000), epsilon=1.0)


@pytest.fixture
def facts(tmp_path: Path) -> Callable[..., Path]:
    def write(size: int, shape: str = "[1, 28, 28]", classes: int = 10) -> Path:
        path = tmp_path / "facts.toml"
        path.write_text(f"shape = {shape}\nclasses = {classes}\ndeclared_size = {size}\n")
        return path

    return write


def test_few_records_under_a_small_epsilon_are_told_before_an_hour_is_spent(few: Advice) -> None:
    told = " ".join(few.outlook)
    assert "No measured run says that useful samples" in told
    assert "Longer training does not make up for that" in told
    assert "the least clear run that reached 80.0 % is one of moments" in told  # without public records
    assert told.endswith("takes about 380,000 records at this epsilon, and with these not even epsilon 20 would do.")
    assert not any(each.useful for each in few.ranked)


@pytest.mark.parametrize("epsilon", [20.0, 1e9])
def test_beyond_the_largest_epsilon_that_is_named_only_more_records_are_advised(epsilon: float) -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=100)
    told = " ".join(recommend.recommend(card, epsilon=epsilon, delta=1e-5).outlook)
    assert "not even epsilon 20" not in told
    assert "a larger epsilon, do" not in told
    assert "and no larger epsilon replaces them" in told


def test_without_a_useful_run_a_larger_epsilon_is_advised_only_below_the_largest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured_runs, "enough", lambda _: None)
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=100)
    assert "or a larger epsilon, do." in " ".join(recommend.recommend(card, epsilon=1.0, delta=1e-5).outlook)
    assert "or a larger epsilon" not in " ".join(recommend.recommend(card, epsilon=1e9, delta=1e-5).outlook)


def test_every_method_is_ranked_or_left_out_with_a_reason(few: Advice) -> None:
    ranked = [each.method for each in few.ranked]
    assert ranked[0] == "moments"
    last = {each.method: each.notes[0] for each in few.ranked[-2:]}
    assert "measured with public records only" in last["dpgan"]
    assert last["dp-diffusion"].endswith("--pictures digits, if it is public that the records show digits")
    assert [each.method for each in few.labels] == ["teacher"]
    assert {*ranked, "teacher", *few.left_out} == set(OF_PICTURES)
    assert "no formal guarantee" in few.left_out["privgan"]
    assert few.left_out["evolve"].startswith("a program draws its samples: digits, letters, patches.")


def test_a_start_that_draws_digits_is_for_digits_when_a_preset_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured_runs.Measured(
        method="dp-mepf", data="MNIST", pictures="digits", records=50_000, epsilon=10.0, delta=1e-5, shape=(1, 28, 28),
        classes=10, preset="mnist-eps10", accuracy=0.968, of="samples", on="training records set apart", page="",
    )  # fmt: skip
    monkeypatch.setattr(measured_runs, "runs", lambda: (run,))
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=50_000)
    unknown = recommend.recommend(card, epsilon=10.0)
    assert "dp-mepf" not in [each.method for each in unknown.ranked]
    assert unknown.left_out["dp-mepf"].endswith(
        "give public, or pictures digits, if it is public that the records show digits, for a start that draws them."
    )
    best = recommend.recommend(card, epsilon=10.0, pictures="digits").ranked[0]
    assert best.like is run
    assert "dp-mepf" in best.command
    assert "--preset mnist-eps10" in best.command


def test_every_command_is_one_that_plan_takes(few: Advice, gossamer: Run, facts: Callable[..., Path]) -> None:
    for each in (few.ranked[0], few.ranked[-1], few.labels[0]):
        words = shlex.split(each.command)
        assert words[:3] == ["gossamer", "fit", each.method]
        assert words[-2:] == ["--out", "RUN"]
        words[words.index("--card") + 1] = str(facts(5_000))
        asked = [word for word in words[3:-2] if word not in ("--data", "DATA")]
        assert gossamer("plan", each.method, *asked).status == 0


def test_a_card_of_persons_gets_commands_that_name_the_units(gossamer: Run, facts: Callable[..., Path]) -> None:
    card = facts(5_000)
    card.write_text(card.read_text() + 'unit = "person"\n')
    words = ["recommend", "--card", card, "--epsilon", 1]
    answer = gossamer(*words, "--json").json
    assert all(" --units WHOSE " in each["command"] for each in [*answer["ranked"], *answer["labels"]])
    told = gossamer(*words).out
    assert f"--data DATA --card {card} --units WHOSE --epsilon 1 " in told
    assert "WHOSE says which records belong to one person: FILE.csv (name,unit)" in told
    assert "--units" not in gossamer("recommend", "--card", facts(5_000), "--epsilon", 1).out


def test_the_terminal_shows_a_table_and_one_command(gossamer: Run, facts: Callable[..., Path]) -> None:
    """Short enough for a screen of 100 columns: a row and a reason for each method, and the command of the first."""
    told = gossamer("recommend", "--card", facts(5_000), "--epsilon", 1).out.splitlines()
    head = next(at for at, line in enumerate(told) if line.startswith("method "))
    rows = told[head + 1 : told.index("", head)]
    assert told[head].split("  ")[0] == "method"
    assert told[head].endswith("  because a measured run reached")
    assert [row.split()[1] for row in rows][:1] == ["moments"]
    assert [row.split()[0] for row in rows] == ["1.", "2.", "3.", "4.", "5.", "6.", "*"]
    assert len({row.split()[1] for row in rows}) == 7
    assert max(map(len, rows)) <= 100
    assert any("5. dpgan" in row and row.endswith("not measured on such records") for row in rows)
    commands = [line for line in told if "gossamer fit" in line]
    assert len(commands) == 1
    assert commands[0].startswith("  gossamer fit moments --data DATA --card ")
    assert len(told) <= 24
    answer = gossamer("recommend", "--card", facts(5_000), "--epsilon", 1, "--json").json
    assert len(answer["ranked"]) == 6
    assert all(each["command"].startswith("gossamer fit") for each in answer["ranked"])


def test_the_usual_delta_is_a_power_of_ten_well_below_one_record(facts: Callable[..., Path], gossamer: Run) -> None:
    for size, delta in ((900, "1e-05"), (10_000, "1e-05"), (60_000, "1e-06"), (1_000_000, "1e-07")):
        told = gossamer("recommend", "--card", facts(size), "--epsilon", 3).out
        assert told.splitlines()[0].endswith(f"epsilon 3 at delta {delta}.")


def test_about_as_many_records_scale_nothing(facts: Callable[..., Path], gossamer: Run) -> None:
    """Made for 50,000: nobody measured twelve cells for 60,000, and ten were."""
    for size, cells in ((60_000, None), (50_000, None), (41_000, None), (30_000, "6"), (100_000, "20")):
        told = gossamer("presets", "moments", "--card", facts(size)).out
        line = next(line for line in told.splitlines() if line.startswith("    --preset mnist-eps10"))
        assert line.strip() == "--preset mnist-eps10" + (f" --cells {cells}" if cells else "")


def test_settings_go_with_the_records(few: Advice) -> None:
    gs_wgan = next(each for each in few.ranked if each.method == "gs-wgan")
    assert gs_wgan.changed == {"critics": 83, "answers": 15, "visits": 8}
    assert "--critics 83" in gs_wgan.command


def test_many_records_and_what_they_show(gossamer: Run, facts: Callable[..., Path]) -> None:
    words = ["--card", facts(60_000), "--epsilon", 1, "--public", "glyphs", "--pictures", "digits", "--minutes", 10]
    answer = gossamer("recommend", *words, "--data", "my scans", "--json")
    assert answer.status == 0, answer.err
    ranked = [each["method"] for each in answer.json["ranked"]]
    assert ranked[:3] == ["evolve", "moments", "privae"]
    assert "can be expected of evolve, moments" in " ".join(answer.json["outlook"])
    assert answer.json["left_out"]["gs-wgan"] == "it would take about 35 min on one core of an Intel Xeon."
    evolve, moments, *_ = answer.json["ranked"]
    assert [(each["data"], each["low"], each["high"]) for each in evolve["expected"]] == [("MNIST", 0.946, 0.955)]
    assert evolve["minutes"] == pytest.approx(1.1 * 60_000 / 50_000)
    assert "--data 'my scans'" in moments["command"] and "--public glyphs" in moments["command"]
    assert "--public" not in evolve["command"]
    assert any("look like drawings" in note for note in evolve["notes"])


@pytest.mark.parametrize(
    ("shape", "classes", "said"),
    [
        (
            "[3, 32, 32]",
            10,
            "No method was measured on pictures of about 3x32x32 in 10 classes, so no accuracy is forecast.",
        ),
        (
            "[1, 64, 64]",
            10,
            "No method was measured on pictures of about 1x64x64 in 10 classes, so no accuracy is forecast.",
        ),
        (
            "[1, 28, 28]",
            2,
            "No method was measured on pictures of about 1x28x28 in 2 classes, so no accuracy is forecast.",
        ),
        ("[1, 28, 28]", 1, "One class leaves a classifier nothing to tell apart, so no accuracy is forecast."),
    ],
)
def test_pictures_of_another_kind_than_were_measured_get_no_figure(
    gossamer: Run, facts: Callable[..., Path], shape: str, classes: int, said: str
) -> None:
    """89 % was forecast for colour photographs, from digits; a measured run reached 27.8 %."""
    words = ["--card", facts(60_000, shape=shape, classes=classes), "--epsilon", 10]
    told = gossamer("recommend", *words).out
    assert said in told
    for figure in ("can be expected", "MNIST,", "%", " min"):
        assert figure not in told, figure
    answer = gossamer("recommend", *words, "--json").json
    assert all((each["expected"], each["like"], each["minutes"]) == ([], None, None) for each in answer["ranked"])
    assert answer["ranked"][0]["method"] == "moments", "in the order of the methods on other pictures"
    told = gossamer("plan", "moments", *words, "--delta", 1e-6).out
    assert "expected quality: unknown" in told
    assert "time: unknown" in told
    assert "%" not in told


def test_what_was_enough_on_other_pictures_is_enough_for_none_of_these() -> None:
    card = DataCard(shape=(3, 32, 32), classes=10, declared_size=60_000)
    assert [each.enough for each in recommend.recommend(card, epsilon=10.0).ranked] == [None] * 6
    card = DataCard(shape=(1, 32, 32), classes=10, declared_size=60_000)
    assert recommend.recommend(card, epsilon=10.0).ranked[0].enough is not None


def test_pictures_of_about_the_same_size_are_comparable(gossamer: Run, facts: Callable[..., Path]) -> None:
    answer = gossamer("recommend", "--card", facts(60_000, shape="[1, 32, 32]"), "--epsilon", 10)
    assert "can be expected of moments" in answer.out
    assert "The runs were measured on pictures of 1x28x28: the figures are no more than a hint." in answer.out


@pytest.mark.parametrize("preset", [None, "mnist-eps10"])
def test_settings_for_digits_on_black_are_advised_for_these_alone(
    monkeypatch: pytest.MonkeyPatch, preset: str | None
) -> None:
    """--threshold makes dark parts black, and X-rays and photographs got black holes."""
    run = measured_runs.Measured(
        method="moments", data="MNIST", pictures="digits", records=60_000, epsilon=10.0, delta=1e-6, shape=(1, 28, 28),
        classes=10, preset=preset, settings={} if preset else {"axes": 96, "threshold": 0.3}, accuracy=0.968, of="samples",
        on="test records", page="",
    )  # fmt: skip
    monkeypatch.setattr(measured_runs, "runs", lambda: (run,))
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    best = recommend.recommend(card, epsilon=10.0).ranked[0]
    own = "--preset mnist-eps10 --threshold 0.0 --no-align" if preset else "--axes 96"
    gone = "--threshold 0.35 --align" if preset else "--threshold 0.3"
    assert best.command.endswith(f"--delta 1e-06 {own} --out RUN")
    assert best.origin == f"the settings of that run, without {gone} for a black ground"
    said = f"its figures are of runs with {gone}, which the command leaves out. Expect less"
    assert best.notes == (f"{said}, or give --pictures digits if the records show digits and that is public",)
    assert recommend.recommend(card, epsilon=10.0, pictures="photographs").ranked[0].notes == (said,)
    unknown = recommend.recommend(DataCard(shape=(1, 28, 28), classes=3, declared_size=60_000), epsilon=10.0).ranked[0]
    assert (unknown.method, unknown.expected, unknown.notes) == ("moments", (), ())
    digits = recommend.recommend(card, epsilon=10.0, pictures="digits").ranked[0]
    own = "--preset mnist-eps10" if preset else "--axes 96 --threshold 0.3"
    assert digits.command.endswith(f"--delta 1e-06 {own} --out RUN")
    assert digits.notes == ()


def test_what_no_net_makes_is_left_out(gossamer: Run, facts: Callable[..., Path]) -> None:
    answer = gossamer("recommend", "--card", facts(900, shape="[3, 40, 56]", classes=2), "--epsilon", 3)
    assert answer.status == 0, answer.err
    assert "not dpgan: " in answer.out


def test_requests_that_make_no_sense() -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=900)
    for asked in (
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": 1.0, "delta": 0.1},
        {"epsilon": 1.0, "minutes": 0.0},
    ):
        with pytest.raises(RequestError):
            recommend.recommend(card, **asked)


def test_plan_says_what_to_expect(gossamer: Run, facts: Callable[..., Path]) -> None:
    words = ["plan", "moments", "--card", facts(5_000), "--epsilon", 1, "--delta", 1e-5, "--axes", 128]
    told = gossamer(*words).out
    assert "as on Fashion-MNIST: at most 79.0 %" in told
    assert "which differs by: 50,000 records instead of 5,000" in told
    assert "To be as clear as that takes about" in told
    assert "time: less than a minute" in told
    assert "from measured runs with these settings (other" in told
    assert "memory: about 570 MB at the peak\n" in told
    outlook = gossamer(*words, "--json").json["outlook"]
    assert outlook["memory_mb"] == pytest.approx(570, abs=5)
    assert [each["low"] for each in outlook["expected"]] == [None, None]
    other = gossamer(*words, "--radius", 0.2).out
    assert "from measured runs with other settings; with these there was none (other" in other
    assert "as on MNIST: 89.3" not in told
    assert " instead of 0.2" in other


@pytest.mark.slow
def test_plan_takes_the_run_with_these_settings_where_there_is_one(gossamer: Run, facts: Callable[..., Path]) -> None:
    """Not the best of the method; and a run with public pictures says nothing of one without."""
    budget = ["--card", facts(60_000), "--epsilon", 10, "--delta", 1e-5]
    slower = ["--steps", 1800, "--answers", 180, "--warm-steps", 30, "--generator-learning-rate", 0.0012]
    told = gossamer("plan", "gs-wgan", *budget, "--preset", "mnist", *slower).out
    assert "from measured runs with these settings (other" in told
    assert "as on Fashion-MNIST: 60.5 to 62.5 %" in told
    assert "as on MNIST" not in told
    told = gossamer("plan", "gs-wgan", *budget, "--preset", "mnist", "--public", "glyphs").out
    assert "These 60,000 records at this epsilon are about as clear as that." in told
    told = gossamer("plan", "gs-wgan", *budget, "--preset", "mnist").out
    assert "glyphs as public records instead of none" in told
    assert "from measured runs with other settings; with these there was none (other" in told


def test_plan_finds_the_run_of_a_preset_whose_settings_were_measured_in_other_words(
    monkeypatch: pytest.MonkeyPatch, gossamer: Run, facts: Callable[..., Path]
) -> None:
    """The README's command. 0 candidates are 500 of a class, and the settings of a start are a text."""
    run = measured_runs.Measured(
        method="dp-mepf", data="MNIST", pictures="digits", records=60_000, epsilon=10.0, delta=1e-5, shape=(1, 28, 28),
        classes=10, preset="mnist-eps10", settings={"start_settings": "steps=1,candidates=500,variations=0"}, accuracy=0.974,
        of="samples", on="test records", minutes=20, page="",
    )  # fmt: skip
    monkeypatch.setattr(measured_runs, "runs", lambda: (run,))
    words = ["--preset", "mnist-eps10", "--epsilon", 10, "--delta", 1e-5]
    told = gossamer("plan", "dp-mepf", "--card", facts(60_000), *words).out
    assert "from measured runs with these settings (other" in told
    assert "which differs by" not in told
    assert "time: about 20 min" in told
    for other in ("steps=1,variations=0,candidates=400", "steps=1,variations=0,degree=0.6"):
        told = gossamer("plan", "dp-mepf", "--card", facts(60_000), *words, "--start-settings", other).out
        assert "with these there was none" in told
        assert f"differs by: start-settings steps=1,candidates=500,variations=0 instead of {other}" in told
        assert "time: unknown" in told
    few = gossamer("plan", "dp-mepf", "--card", facts(1_000), *words).out
    assert "start-settings steps=1,candidates=500,variations=0 instead of steps=1,variations=0" in few, "100 of a class"


def test_time_goes_with_steps_and_is_unknown_for_other_networks(gossamer: Run, facts: Callable[..., Path]) -> None:
    words = ["plan", "privae", "--card", facts(60_000), "--epsilon", 10, "--delta", 1e-5, "--preset", "mnist-labels"]
    assert gossamer(*words, "--json").json["outlook"]["minutes"] == pytest.approx(6)
    assert gossamer(*words, "--steps", 500, "--json").json["outlook"]["minutes"] == pytest.approx(1.5)
    assert gossamer(*words, "--width", 400, "--json").json["outlook"]["minutes"] is None


def test_memory_goes_with_records_batch_networks_and_critics(gossamer: Run, facts: Callable[..., Path]) -> None:

    def megabytes(method: str, size: int, *words: object) -> float:
        asked = ["--card", facts(size), "--noise-multiplier", 1, "--steps", 9, "--delta", 1e-6, "--json"]
        return float(gossamer("plan", method, *asked, *words).json["outlook"]["memory_mb"])

    plain = megabytes("dpgan", 5_000)
    assert megabytes("dpgan", 50_000) - plain == pytest.approx(1.5 * 784 * 45_000 / 1e6)
    batch, larger = (megabytes("dpgan", 5_000, "--expected-batch-size", count) - plain for count in (1_024, 1_536))
    assert larger == pytest.approx(2 * batch)
    networks = plain - batch - 480 - 1.5 * 784 * 5_000 / 1e6
    assert megabytes("dpgan", 5_000, "--width", 64) > plain + networks + 0.5 * batch
    one, two, many = (megabytes("gs-wgan", 5_000, "--critics", count) for count in (1, 2, 101))
    assert many - one == pytest.approx(100 * (two - one))
    assert min(batch, networks, two - one) > 0
    teacher, more = (megabytes("teacher", count) for count in (5_000, 6_000))
    assert more - teacher == pytest.approx((1.5 * 784 + 2 * 3_970) * 1_000 / 1e6)


def test_records_that_go_to_a_file_take_no_memory(
    gossamer: Run, facts: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoded records go to a file from a quarter of the free memory, here 1 GB. Those of critics stay."""
    monkeypatch.setattr(memory, "free_memory", lambda: 4 * 10**9)
    words = ["--noise-multiplier", 1, "--steps", 9, "--delta", 1e-7]
    some, more, filed, critics = (
        gossamer("plan", method, "--card", facts(size), *words, "--json").json["outlook"]["memory_mb"]
        for method, size in (("dpgan", 85_000), ("dpgan", 86_000), ("dpgan", 2_000_000), ("gs-wgan", 2_000_000))
    )
    assert more - some == pytest.approx(1.5 * 784 * 1_000 / 1e6)
    assert filed == pytest.approx(some - 1.5 * 784 * 85_000 / 1e6)
    assert critics > 1.5 * 1_568
    assert "memory: about 1,800 MB at the peak\n" in gossamer("plan", "dpgan", "--card", facts(1_000_000), *words).out


@pytest.mark.slow
def test_a_run_on_mapped_records_takes_about_the_memory_that_plan_states(
    facts: Callable[..., Path], tmp_path: Path
) -> None:
    """Its anonymous memory, looked at every 5 ms; within a factor of 1.5. Copies of the records would make it 2 and more."""
    (tmp_path / "data").mkdir()
    np.lib.format.open_memmap(tmp_path / "data" / "images.npy", "w+", np.uint8, (500_000, 28, 28)).flush()
    np.save(tmp_path / "data" / "labels.npy", np.arange(500_000) % 10)
    words = ["dpgan", "--card", facts(500_000), "--noise-multiplier", 1, "--delta", 1e-6, "--steps", 2]
    job = plan("dpgan", DataCard.load(facts(500_000)), {"noise_multiplier": 1.0}, delta=1e-6).job
    fit = [sys.executable, "-m", "gossamer", "fit", *words, "--data", tmp_path / "data", "--out", tmp_path / "run"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(tmp_path / "state")}
    most, process = 0, subprocess.Popen([*map(str, fit)], stdout=subprocess.DEVNULL, env=environment)
    while process.poll() is None:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        most = max(most, *(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)
        time.sleep(0.005)
    assert process.returncode == 0
    expected = peak(job)
    assert 1 / 1.5 < most / (expected - 1.5 * 784 * 500_000) < 1.5  # the records are mapped
    assert most / expected < 1 / 1.5


@pytest.mark.slow
def test_a_run_takes_about_the_memory_that_plan_states(facts: Callable[..., Path], tmp_path: Path) -> None:
    """A process of its own, its peak by getrusage; within a factor of 1.5 on a machine with PyTorch for CPUs."""
    labels = np.arange(20_000) % 10
    images = np.random.default_rng(0).integers(0, 256, (20_000, 28, 28), np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    words = ["dpgan", "--card", facts(20_000), "--noise-multiplier", 1, "--delta", 1e-6, "--steps", 2, "--width", 64]
    job = plan("dpgan", DataCard.load(facts(20_000)), {"noise_multiplier": 1.0, "width": 64}, delta=1e-6).job
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    fit = [sys.executable, "-m", "gossamer", "fit", *words, "--data", tmp_path / "data.npz", "--out", tmp_path / "run"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, fit)], capture_output=True, text=True, check=True, env=environment
    )
    assert 1 / 1.5 < 1024 * int(done.stdout) / peak(job) < 1.5


def test_presets_by_method_and_card(gossamer: Run, facts: Callable[..., Path]) -> None:
    told = gossamer("presets", "evolve", "--card", facts(5_000)).out
    assert "--preset mnist-eps1\n" in told
    assert "dpgan" not in told
    small = {
        each["preset"]: each for each in gossamer("presets", "dpgan", "--card", facts(300), "--json").json["presets"]
    }
    assert small["paper-eps1-adaptive"]["changed"] == {"expected_batch_size": 300}
    assert small["paper-eps10-fixed"]["changed"] == {}
    assert "made for 60,000 records" in gossamer("presets", "dpgan").out
    colour = gossamer("presets", "evolve", "--card", facts(5_000, shape="[3, 32, 32]")).out
    assert colour.count("not for this card: evolve draws square pictures of one channel") == len(
        presets.all_presets()["evolve"]
    )
    assert gossamer("presets", "evolv").status == 2


def test_a_scaled_setting_stays_at_one_and_unknown_sizes_leave_it() -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=10)
    chosen = {"critics": 100, "expected_batch_size": 64}
    assert presets.scaled(chosen, card, made_for=60_000, in_proportion=["critics"]) == {
        "critics": 1,
        "expected_batch_size": 10,
    }
    assert presets.scaled(chosen, card, made_for=None, in_proportion=["critics"]) == {"expected_batch_size": 10}


def test_what_goes_with_the_number_of_records_is_a_setting() -> None:
    """A name that is none would scale nothing, and nobody would hear of it."""
    for method, entries in presets.all_presets().items():
        for name, entry in entries.items():
            chosen = {**presets.defaults(method), **presets.settings(method, name)}
            few = DataCard(shape=(1, 28, 28), classes=10, declared_size=max(1, entry.get("records", 1) // 10))
            for each in entry.get("in_proportion", ()):
                found = presets.scaled(chosen, few, made_for=entry["records"], in_proportion=[each])
                assert each in found, f"{method} {name}: {each}"


def test_a_huge_epsilon_makes_up_for_no_records_and_is_called_what_it_is() -> None:
    """With noise gone, 1,600 records are still 1,600: at 1e12 the advice was at least what 60,000 had reached."""
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=1_600)
    twenty, huge = (recommend.recommend(card, epsilon=epsilon, delta=1e-5) for epsilon in (20.0, 1e12))
    assert [each.expected for each in huge.ranked] == [each.expected for each in twenty.ranked]
    assert "Epsilon 1e+12 promises next to nothing" in " ".join(huge.outlook)
    none = recommend.recommend(card, epsilon=math.inf)
    assert "Epsilon infinity is no guarantee" in " ".join(none.outlook)
    assert "promises" not in " ".join(recommend.recommend(card, epsilon=10.0).outlook)
    with pytest.raises(RequestError, match="too little for any advice"):
        recommend.recommend(card, epsilon=1e-12)


def test_plan_takes_the_public_records_of_fit_and_says_how_many_are_enough_without(
    gossamer: Run, facts: Callable[..., Path]
) -> None:
    words = ["plan", "moments", "--card", facts(5_000), "--epsilon", 10, "--delta", 1e-5]
    alone, given = gossamer(*words), gossamer(*words, "--public", "glyphs")
    assert (alone.status, given.status) == (0, 0), alone.err + given.err
    needed = [next(line for line in answer.out.splitlines() if "least clear" in line) for answer in (alone, given)]
    assert "as public records" not in needed[0]
    advice = recommend.recommend(facts(5_000), epsilon=10.0, delta=1e-5)
    enough = next(each.enough for each in advice.ranked if each.method == "moments")
    assert str(enough) in needed[0]
    refused = gossamer("plan", "evolve", "--card", facts(5_000), "--epsilon", 10, "--delta", 1e-5, "--public", "glyphs")
    assert refused.status == 2
    assert "no use for public records" in refused.err


def test_what_differs_has_words_for_nothing_and_for_equal_ends() -> None:
    expected = measured_runs.Expected("MNIST", "", 0.7214, 0.7214, ())
    assert expected.range_text == "about 72.1 %"
    request = plan("dp-mepf", DataCard(shape=(1, 28, 28), classes=10, declared_size=5_000), epsilon=1.0, delta=1e-5)
    told = ", ".join(forecast_run(request).differs)
    assert "instead of ," not in told
    assert not told.endswith("instead of ")
