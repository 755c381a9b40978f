"""`recommend`, what `plan` says of measured runs, and `presets --card`: through the command line, on cards alone."""

import dataclasses
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.run.recommend import measured_runs, recommend
from gossamer.run.recommend.measured_runs import Measured
from gossamer.run.recommend.recommend import Advice
from gossamer.run.training import presets
from kinds import OF_PICTURES

Run = Callable[..., Any]
MOMENTS = Measured(
    method="moments", data="MNIST", pictures="digits", shape=(1, 28, 28), classes=10, records=60_000, epsilon=10.0,
    accuracy=0.95, page="docs/methods/moments.md", settings={"axes": 96}, minutes=2.0, machine="one core",
)  # fmt: skip
DPGAN = dataclasses.replace(
    MOMENTS, method="dpgan", accuracy=0.9, public="glyphs", minutes=30.0, settings={"width": 16}
)
PRIVAE = dataclasses.replace(MOMENTS, method="privae", accuracy=0.8, settings={})
TEACHER = dataclasses.replace(MOMENTS, method="teacher", accuracy=0.98, settings={}, of="release")
EVOLVE = dataclasses.replace(MOMENTS, method="evolve", accuracy=0.97, settings={"steps": 1})
MEPF = dataclasses.replace(MOMENTS, method="dp-mepf", accuracy=0.96, preset="mnist-eps10", settings={})
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put these runs in place of `measured.toml`."""
    return lambda *runs: monkeypatch.setattr(measured_runs, "runs", lambda: runs)


@pytest.fixture
def facts(tmp_path: Path) -> Callable[..., Path]:
    def write(size: int, shape: str = "[1, 28, 28]", classes: int = 10) -> Path:
        path = tmp_path / "facts.toml"
        path.write_text(f"shape = {shape}\nclasses = {classes}\ndeclared_size = {size}\n")
        return path

    return write


def names(advice: Advice) -> list[str]:
    """The methods whose figure is shown, in their order."""
    return [each.method for each in advice.ranked if each.measured is not None]


def test_methods_are_sorted_by_the_figure_of_their_run(measured: Callable[..., None]) -> None:
    measured(PRIVAE, MOMENTS, DPGAN)
    assert names(recommend.recommend(CARD, epsilon=10.0, public="glyphs")) == ["moments", "dpgan", "privae"]


def test_a_run_with_public_records_is_for_those_who_have_some(measured: Callable[..., None]) -> None:
    measured(PRIVAE, MOMENTS, DPGAN)
    assert names(recommend.recommend(CARD, epsilon=10.0)) == ["moments", "privae"]


def test_every_method_is_ranked_or_left_out_with_a_reason() -> None:
    advice = recommend.recommend(dataclasses.replace(CARD, declared_size=5_000), epsilon=1.0)
    told = {each.method for each in (*advice.ranked, *advice.labels)}
    assert {*told, *advice.left_out} == set(OF_PICTURES)
    assert not told & set(advice.left_out)
    assert "no formal guarantee" in advice.left_out["privgan"]
    assert "a program draws its samples" in advice.left_out["evolve"]
    assert all(advice.left_out.values())


def test_what_releases_a_classifier_stands_apart(measured: Callable[..., None]) -> None:
    measured(MOMENTS, TEACHER)
    advice = recommend.recommend(CARD, epsilon=10.0)
    assert [each.method for each in advice.labels] == ["teacher"]
    assert "teacher" not in names(advice)
    assert any("released classifier" in note for note in advice.labels[0].notes)


@pytest.mark.parametrize(
    ("records", "epsilon", "first"), [(60_000, 10.0, "moments"), (60_000, 1.0, "privae"), (5_000, 10.0, "privae")]
)
def test_a_run_with_many_more_records_or_a_larger_epsilon_comes_later(
    measured: Callable[..., None], records: int, epsilon: float, first: str
) -> None:
    near = dataclasses.replace(PRIVAE, records=5_000, epsilon=5.0)
    measured(MOMENTS, near)
    assert names(recommend.recommend(dataclasses.replace(CARD, declared_size=records), epsilon=epsilon))[0] == first


def test_a_run_without_privacy_says_nothing_of_one_with_it(measured: Callable[..., None]) -> None:
    free = dataclasses.replace(MOMENTS, epsilon=math.inf, accuracy=0.99)
    measured(MOMENTS, free)
    assert recommend.recommend(CARD, epsilon=10.0).ranked[0].measured is MOMENTS
    assert recommend.recommend(CARD, epsilon=math.inf).ranked[0].measured is free


def test_a_start_that_draws_digits_is_for_digits_also_when_a_preset_names_it(measured: Callable[..., None]) -> None:
    measured(MEPF)
    assert MEPF.draws == "digits"
    unknown = recommend.recommend(CARD, epsilon=10.0)
    assert "dp-mepf" not in [each.method for each in unknown.ranked]
    assert "need public records" in unknown.left_out["dp-mepf"]
    best = recommend.recommend(CARD, epsilon=10.0, pictures="digits").ranked[0]
    assert best.measured is MEPF
    assert "--preset mnist-eps10" in best.command


def test_a_drawing_program_is_for_what_it_draws(measured: Callable[..., None]) -> None:
    measured(MOMENTS, EVOLVE)
    assert "evolve" in recommend.recommend(CARD, epsilon=10.0).left_out
    assert "evolve" in recommend.recommend(CARD, epsilon=10.0, pictures="clothes").left_out
    digits = recommend.recommend(CARD, epsilon=10.0, pictures="digits").ranked[0]
    assert digits.measured is EVOLVE
    assert any("look like drawings" in note for note in digits.notes)
    letters = recommend.recommend(CARD, epsilon=10.0, pictures="letters").ranked
    (evolve,) = (each for each in letters if each.method == "evolve")
    assert evolve.measured is None
    assert "--drawing letters" in evolve.command


def test_runs_on_other_pictures_than_were_named_are_left_out(measured: Callable[..., None]) -> None:
    clothes = dataclasses.replace(PRIVAE, data="Fashion-MNIST", pictures="clothes")
    measured(MOMENTS, clothes)
    assert names(recommend.recommend(CARD, epsilon=10.0, pictures="clothes")) == ["privae"]
    assert names(recommend.recommend(CARD, epsilon=10.0, pictures="digits")) == ["moments"]


@pytest.mark.parametrize(
    ("shape", "classes"), [((3, 28, 28), 10), ((1, 64, 64), 10), ((1, 28, 28), 2), ((1, 28, 28), 1)]
)
def test_pictures_of_another_kind_than_were_measured_get_no_figure(
    gossamer: Run, facts: Callable[..., Path], measured: Callable[..., None], shape: tuple[int, ...], classes: int
) -> None:
    """89 % was told for colour photographs, from digits; a measured run reached 27.8 %."""
    measured(PRIVAE, MOMENTS)
    card = facts(60_000, shape=str(list(shape)), classes=classes)
    told = gossamer("recommend", "--card", card, "--epsilon", 10).out
    assert "%" not in told and " min" not in told
    answer = gossamer("recommend", "--card", card, "--epsilon", 10, "--json").json
    assert all(each["measured"] is None for each in answer["ranked"])
    assert answer["ranked"][0]["method"] == "moments", "in the order of the runs on other pictures"
    planned = gossamer("plan", "moments", "--card", card, "--epsilon", 10, "--delta", 1e-6)
    assert planned.out.splitlines()[-1].endswith("nothing on such records")


def test_a_figure_is_told_with_its_data_its_time_and_as_no_forecast(
    gossamer: Run, facts: Callable[..., Path], measured: Callable[..., None]
) -> None:
    measured(MOMENTS)
    words = ["recommend", "--card", facts(5_000), "--epsilon", 1]
    told, answer = gossamer(*words).out, gossamer(*words, "--json").json
    assert recommend.NO_FORECAST in told
    (row,) = (line for line in told.splitlines() if line.startswith("1. moments"))
    assert row.split("  ", 1)[1].split() == (
        ["95.0", "%", "2", "min,", "one", "core", "MNIST,", "60,000", "records,", "epsilon", "10"]
    )
    first = answer["ranked"][0]["measured"]
    assert (first["accuracy"], first["data"], first["records"], first["epsilon"], first["minutes"]) == (
        0.95, "MNIST", 60_000, 10.0, 2.0,
    )  # fmt: skip
    assert first["settings"] == {"axes": 96}
    assert sum("gossamer fit" in line for line in told.splitlines()) == 1


def test_every_command_is_one_that_plan_takes(gossamer: Run, facts: Callable[..., Path]) -> None:
    advice = recommend.recommend(facts(5_000), epsilon=1.0)
    for each in (advice.ranked[0], advice.ranked[-1], advice.labels[0]):
        words = shlex.split(each.command)
        assert words[:3] == ["gossamer", "fit", each.method]
        assert words[-2:] == ["--out", "RUN"]
        asked = [word for word in words[3:-2] if word not in ("--data", "DATA")]
        assert gossamer("plan", each.method, *asked).status == 0


def test_a_command_has_paths_and_public_records_where_they_are_of_use(measured: Callable[..., None]) -> None:
    measured(MOMENTS, EVOLVE)
    evolve, moments, *_ = recommend.recommend(
        CARD, epsilon=10.0, delta=1e-5, pictures="digits", public="my own", data="my scans"
    ).ranked
    assert moments.command == (
        "gossamer fit moments --data 'my scans' --card card.toml --epsilon 10 --delta 1e-05 --axes 96 --public 'my own' "
        "--out RUN"
    )
    assert "--public" not in evolve.command


def test_a_card_of_persons_gets_commands_that_name_the_units(gossamer: Run, facts: Callable[..., Path]) -> None:
    card = facts(5_000)
    card.write_text(card.read_text() + 'unit = "person"\n')
    words = ["recommend", "--card", card, "--epsilon", 1]
    answer = gossamer(*words, "--json").json
    assert all(" --units WHOSE " in each["command"] for each in [*answer["ranked"], *answer["labels"]])
    assert "WHOSE says which records belong to one person: FILE.csv (name,unit)" in gossamer(*words).out
    assert "--units" not in gossamer("recommend", "--card", facts(5_000), "--epsilon", 1).out


def test_settings_go_with_the_records(measured: Callable[..., None]) -> None:
    measured(dataclasses.replace(MOMENTS, method="gs-wgan", preset="mnist", settings={}))
    advice = recommend.recommend(dataclasses.replace(CARD, declared_size=5_000), epsilon=10.0)
    assert advice.ranked[0].method == "gs-wgan"
    assert "--preset mnist --answers 13 --critics 83 --visits 8" in advice.ranked[0].command


@pytest.mark.parametrize("preset", [None, "mnist-eps10"])
def test_settings_for_digits_on_black_are_advised_for_these_alone(
    measured: Callable[..., None], preset: str | None
) -> None:
    """--threshold makes dark parts black, and X-rays and photographs got black holes."""
    measured(dataclasses.replace(MOMENTS, preset=preset, settings={} if preset else {"axes": 96, "threshold": 0.3}))
    best = recommend.recommend(CARD, epsilon=10.0).ranked[0]
    own = "--preset mnist-eps10 --threshold 0.0 --no-align" if preset else "--axes 96"
    assert best.command.endswith(f"--delta 1e-06 {own} --out RUN")
    assert any("for a black ground" in note for note in best.notes)
    digits = recommend.recommend(CARD, epsilon=10.0, pictures="digits").ranked[0]
    own = "--preset mnist-eps10" if preset else "--axes 96 --threshold 0.3"
    assert digits.command.endswith(f"--delta 1e-06 {own} --out RUN")
    assert digits.notes == ()


def test_what_no_net_makes_is_left_out(gossamer: Run, facts: Callable[..., Path]) -> None:
    answer = gossamer("recommend", "--card", facts(900, shape="[3, 40, 56]", classes=2), "--epsilon", 3)
    assert answer.status == 0, answer.err
    assert "not dpgan: " in answer.out


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": 1e-12},
        {"epsilon": 1.0, "delta": 0.1},
    ],
)
def test_requests_that_make_no_sense(asked: dict[str, float]) -> None:
    with pytest.raises(RequestError):
        recommend.recommend(dataclasses.replace(CARD, declared_size=900), **asked)  # type: ignore[arg-type]  # a dict of options


def test_a_huge_epsilon_makes_up_for_no_records_and_is_called_what_it_is() -> None:
    card = dataclasses.replace(CARD, declared_size=1_600)
    twenty, huge = (recommend.recommend(card, epsilon=epsilon, delta=1e-5) for epsilon in (20.0, 1e12))
    assert [each.measured for each in huge.ranked] == [each.measured for each in twenty.ranked]
    assert "Epsilon 1e+12 promises next to nothing" in " ".join(huge.outlook)
    assert "Epsilon infinity is no guarantee" in " ".join(recommend.recommend(card, epsilon=math.inf).outlook)
    assert "promises" not in " ".join(recommend.recommend(card, epsilon=10.0).outlook)


def test_the_usual_delta_is_a_power_of_ten_well_below_one_record(facts: Callable[..., Path], gossamer: Run) -> None:
    for size, delta in ((900, "1e-05"), (10_000, "1e-05"), (60_000, "1e-06"), (1_000_000, "1e-07")):
        told = gossamer("recommend", "--card", facts(size), "--epsilon", 3).out
        assert told.splitlines()[0].endswith(f"epsilon 3 at delta {delta}.")


def test_plan_tells_the_nearest_run_with_as_much_public_data(
    gossamer: Run, facts: Callable[..., Path], measured: Callable[..., None]
) -> None:
    more = dataclasses.replace(MOMENTS, public="glyphs", accuracy=0.97)
    fewer = dataclasses.replace(MOMENTS, records=5_000, accuracy=0.6)
    measured(MOMENTS, more, fewer)
    words = ["plan", "moments", "--epsilon", 10, "--delta", 1e-6]
    for size, given, run in ((60_000, [], MOMENTS), (60_000, ["--public", "glyphs"], more), (5_000, [], fewer)):
        planned = [*words, "--card", facts(size), *given]
        assert gossamer(*planned).out.splitlines()[-1] == f"measured elsewhere, no forecast: {run}"
        assert gossamer(*planned, "--json").json["measured"] == run.to_json()


def test_plan_refuses_public_records_without_use(gossamer: Run, facts: Callable[..., Path]) -> None:
    refused = gossamer("plan", "evolve", "--card", facts(5_000), "--epsilon", 10, "--delta", 1e-5, "--public", "glyphs")
    assert refused.status == 2
    assert "no use for public records" in refused.err


def test_about_as_many_records_scale_nothing(facts: Callable[..., Path], gossamer: Run) -> None:
    """Made for 50,000: nobody measured twelve cells for 60,000, and ten were."""
    for size, cells in ((60_000, None), (50_000, None), (41_000, None), (30_000, "6"), (100_000, "20")):
        told = gossamer("presets", "moments", "--card", facts(size)).out
        line = next(line for line in told.splitlines() if line.startswith("    --preset mnist-eps10"))
        assert line.strip() == "--preset mnist-eps10" + (f" --cells {cells}" if cells else "")


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
