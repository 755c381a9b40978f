"""`recommend` and `presets`: through the command line, on cards alone."""

import dataclasses
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.run.recommend import recommend
from gossamer.run.training import presets
from kinds import OF_PICTURES

Run = Callable[..., Any]
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
FEW = dataclasses.replace(CARD, declared_size=5_000)


@pytest.fixture
def facts(tmp_path: Path) -> Callable[..., Path]:
    def write(size: int, shape: str = "[1, 28, 28]", classes: int = 10) -> Path:
        path = tmp_path / "facts.toml"
        path.write_text(f"shape = {shape}\nclasses = {classes}\ndeclared_size = {size}\n")
        return path

    return write


def test_every_method_is_offered_or_left_out_with_a_reason() -> None:
    advice = recommend.recommend(FEW, epsilon=1.0)
    told = {each.method for each in advice.ranked}
    assert {*told, *advice.left_out} == set(OF_PICTURES)
    assert not told & set(advice.left_out)
    assert "no formal guarantee" in advice.left_out["privgan"]
    assert "a program draws" in advice.left_out["evolve"]
    assert "need public records" in advice.left_out["feature-moments"]
    assert all(advice.left_out.values())


def test_what_starts_on_nothing_comes_first_then_what_asks_least() -> None:
    ranked = recommend.recommend(FEW, epsilon=1.0, pictures="digits", public="glyphs").ranked
    order = [(each.starts_on != "nothing", each.queries) for each in ranked]
    assert order == sorted(order)
    assert ranked[0].method == "moments"
    starts = {each.method: each.starts_on for each in ranked}
    assert (starts["evolve"], starts["dpgan"]) == ("drawings of digits", "public records")


def test_pictures_in_colour_begin_with_an_encoder_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    card = dataclasses.replace(FEW, shape=(3, 32, 32))
    ranked = recommend.recommend(card, epsilon=1.0, public="FOLDER").ranked
    assert {each.method for each in ranked if each.starts_on == "lite0"} == {"teacher", "feature-moments"}
    assert [each.starts_on for each in ranked[:2]] == ["lite0", "lite0"]
    assert all("--encoder lite0" in each.command for each in ranked if each.method == "teacher")
    monkeypatch.setattr(recommend, "find_spec", lambda _name: None)
    assert recommend.recommend(card, epsilon=1.0).ranked[0].method == "moments"
    assert recommend.recommend(FEW, epsilon=1.0).ranked[0].method == "moments"


def nearest(method: str, card: DataCard, epsilon: float) -> str:
    """The name of the preset that `recommend` takes."""
    return presets.by_distance([method], card, epsilon, shows="shapes")[0][1]


def test_the_first_advice_is_aligned_and_says_for_which_pictures() -> None:
    """24.5 % of the digits of unseen writers without it, and 93.5 % with it."""
    for card in (FEW, CARD):
        first = recommend.recommend(card, epsilon=10.0).ranked[0]
        name = nearest("moments", card, 10.0)
        assert presets.settings("moments", name)["align"]
        assert f"--preset {name}" in first.command
        assert "single shapes on a plain ground" in first.notes[0]


@pytest.mark.parametrize(
    ("records", "epsilon", "name"),
    [
        (4_000, 10.0, "mnist-eps1"),
        (5_000, 1.0, "few-records"),
        (1_500, 3.0, "few-records"),
        (1_500, 1.0, "any-few"),
        (20_000, 1.0, "mnist-eps1"),
        (60_000, 10.0, "mnist-eps10"),
        (60_000, 1.0, "mnist-eps1"),
        (60_000, 1e9, "mnist-eps10"),
    ],
)
def test_the_preset_is_that_of_the_nearest_number_of_records_and_epsilon(
    records: int, epsilon: float, name: str
) -> None:
    assert nearest("moments", dataclasses.replace(CARD, declared_size=records), epsilon) == name
    assert presets.by_distance(["feature-moments"], CARD, 1.0, shows="shapes") == []


def test_a_drawing_program_is_for_what_it_draws() -> None:
    for pictures in (None, "clothes"):
        left_out = recommend.recommend(CARD, epsilon=10.0, pictures=pictures).left_out
        assert {"evolve", "dp-mepf"} <= set(left_out)
    digits = {each.method for each in recommend.recommend(CARD, epsilon=10.0, pictures="digits").ranked}
    assert {"evolve", "dp-mepf"} <= digits
    (evolve,) = (
        each for each in recommend.recommend(CARD, epsilon=10.0, pictures="letters").ranked if each.method == "evolve"
    )
    assert "--drawing letters" in evolve.command


def test_nothing_is_forecast_and_the_commands_measure(gossamer: Run, facts: Callable[..., Path]) -> None:
    words = ["recommend", "--card", facts(5_000), "--epsilon", 1]
    told = gossamer(*words).out
    assert "%" not in told and " min" not in told
    assert recommend.NO_FORECAST + recommend.MEASURED in told
    assert next(line.split()[2] for line in told.splitlines() if "gossamer fit" in line) == "auto"
    assert sum("gossamer fit" in line for line in told.splitlines()) == 2
    commands = {each["method"]: each["command"] for each in gossamer(*words, "--json").json["ranked"]}
    assert {name for name, command in commands.items() if "--score 0.03" not in command} == {"gs-wgan"}  # replace-one
    one = gossamer("recommend", "--card", facts(5_000, classes=1), "--epsilon", 1, "--json").json["ranked"]
    assert one and not any("--score" in each["command"] for each in one if each["method"] != "teacher")


def test_every_command_is_one_that_plan_takes(gossamer: Run, facts: Callable[..., Path]) -> None:
    advice = recommend.recommend(facts(5_000), epsilon=1.0)
    for each in advice.ranked[:3]:
        words = shlex.split(each.command)
        assert words[:3] == ["gossamer", "fit", each.method]
        assert words[-2:] == ["--out", "RUN"]
        asked = [word for word in words[3:-2] if word not in ("--data", "DATA")]
        assert gossamer("plan", each.method, *asked).status == 0


def test_a_command_has_paths_and_public_records_where_they_are_of_use() -> None:
    ranked = recommend.recommend(
        FEW, epsilon=10.0, delta=1e-5, pictures="digits", public="my own", data="my scans"
    ).ranked
    commands = {each.method: each.command for each in ranked}
    assert commands["dpgan"] == (
        "gossamer fit dpgan --data 'my scans' --card card.toml --preset few-records --epsilon 10 --delta 1e-05 --score 0.03 "
        "--public 'my own' --out RUN"
    )
    assert "--public" not in commands["evolve"]


def test_a_card_of_persons_gets_commands_that_name_the_units(gossamer: Run, facts: Callable[..., Path]) -> None:
    card = facts(5_000)
    card.write_text(card.read_text() + 'unit = "person"\n')
    words = ["recommend", "--card", card, "--epsilon", 1]
    answer = gossamer(*words, "--json").json
    assert all(" --units WHOSE " in each["command"] for each in answer["ranked"])
    assert "WHOSE says which records belong to one person: FILE.csv (name,unit)" in gossamer(*words).out
    assert "--units" not in gossamer("recommend", "--card", facts(5_000), "--epsilon", 1).out


def test_settings_go_with_the_records() -> None:
    (gs_wgan,) = (
        each for each in recommend.recommend(dataclasses.replace(CARD, declared_size=20_000), epsilon=10.0).ranked
        if each.method == "gs-wgan"
    )  # fmt: skip
    assert "--preset mnist" in gs_wgan.command
    assert "--critics 333" in gs_wgan.command


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
    assert [each.command.split()[7:9] for each in huge.ranked] == [each.command.split()[7:9] for each in twenty.ranked]
    assert "Epsilon 1e+12 promises next to nothing" in " ".join(huge.outlook)
    assert "Epsilon infinity is no guarantee" in " ".join(recommend.recommend(card, epsilon=math.inf).outlook)
    assert "promises" not in " ".join(recommend.recommend(card, epsilon=10.0).outlook)


def test_the_usual_delta_is_a_power_of_ten_well_below_one_record(facts: Callable[..., Path], gossamer: Run) -> None:
    for size, delta in ((900, "1e-05"), (10_000, "1e-05"), (60_000, "1e-06"), (1_000_000, "1e-07")):
        told = gossamer("recommend", "--card", facts(size), "--epsilon", 3).out
        assert told.splitlines()[0].endswith(f"epsilon 3 at delta {delta}.")


def test_plan_refuses_public_records_without_use(gossamer: Run, facts: Callable[..., Path]) -> None:
    refused = gossamer("plan", "evolve", "--card", facts(5_000), "--epsilon", 10, "--delta", 1e-5, "--public", "glyphs")
    assert refused.status == 2
    assert "no use for public records" in refused.err


def test_about_as_many_records_scale_nothing() -> None:
    """Made for 50,000: nobody measured twelve cells for 60,000, and ten were."""
    for size, cells in ((60_000, None), (50_000, None), (41_000, None), (30_000, "6"), (100_000, "20")):
        first = recommend.recommend(dataclasses.replace(CARD, declared_size=size), epsilon=10.0).ranked[0]
        assert first.method == "moments"
        assert (f"--cells {cells}" in first.command) if cells else ("--cells" not in first.command)


def test_presets_of_a_method(gossamer: Run) -> None:
    told = gossamer("presets", "evolve").out
    assert "evolve few-records: " in told and "dpgan" not in told
    assert "made for 60,000 records" in gossamer("presets", "dpgan").out
    assert "epsilon=" not in told, "it says for which epsilon a preset was tuned, and is no setting"
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
