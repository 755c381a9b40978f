"""A Config in place of a name and settings: the same request, and what was given is told from defaults."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from class_means import ClassMeans
from class_means import Config as ClassMeansConfig

import gossamer
from gossamer.errors import BudgetError, RequestError
from gossamer.methods import DPGAN, METHODS, BaseConfig, Evolve, Moments, PrivGAN, Teacher
from gossamer.methods.contract import presets_of
from gossamer.methods.job import Job

CARD = gossamer.DataCard(shape=(1, 28, 28), classes=2, declared_size=160)
BUDGET: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-4}
EXPORTED = [
    getattr(gossamer.methods, name)
    for name in dir(gossamer.methods)
    if isinstance(getattr(gossamer.methods, name), type)
]
CONFIGS = [each for each in EXPORTED if issubclass(each, BaseConfig) and each is not BaseConfig]


def test_there_is_a_config_for_each_method() -> None:
    assert {config.__module__ for config in CONFIGS} == {type(method).__module__ for method in METHODS.values()}
    assert set(CONFIGS) == {method.config_type for method in METHODS.values()}
    assert repr(METHODS["moments"]) == "METHODS['moments']"


@pytest.mark.parametrize(
    ("config", "name", "settings", "more"),
    [
        (Moments(), "moments", {}, BUDGET),
        (Moments(axes=16), "moments", {"axes": 16}, BUDGET),
        (Moments(noise_multiplier=2.0), "moments", {"noise_multiplier": 2.0}, {"delta": 1e-4}),
        (DPGAN(steps=40, width=4), "dpgan", {"steps": 40, "width": 4}, BUDGET),
        (DPGAN(noise_multiplier=4.0, width=4), "dpgan", {"noise_multiplier": 4.0, "width": 4}, BUDGET),
        (PrivGAN(epochs=2, batch_size=16), "privgan", {"epochs": 2, "batch_size": 16}, {}),
        (Moments(axes=64), "moments", {"axes": 64}, {**BUDGET, "preset": "few-records"}),
    ],
)
def test_a_config_asks_for_the_same_run(
    config: BaseConfig, name: str, settings: dict[str, Any], more: dict[str, Any]
) -> None:
    assert config.given == settings
    assert gossamer.plan(config, CARD, **more) == gossamer.plan(name, CARD, **settings, **more)


def test_what_is_given_is_kept_also_where_it_equals_the_default() -> None:
    assert gossamer.plan(DPGAN(width=4), CARD, **BUDGET).job.settings["expected_batch_size"] == 160, "all records"
    with pytest.raises(BudgetError, match="512` is more than the declared size 160"):
        gossamer.plan(DPGAN(width=4, expected_batch_size=512), CARD, **BUDGET)
    preset, about = next(
        (preset, entry) for preset, entry in presets_of(METHODS["evolve"]).items() if entry.get("steps", 2) != 2
    )
    card = dataclasses.replace(CARD, classes=10)
    assert gossamer.plan(Evolve(), card, preset=preset, **BUDGET).job.settings["steps"] == about["steps"]
    assert gossamer.plan(Evolve(steps=2), card, preset=preset, **BUDGET).job.settings["steps"] == 2


def test_a_copy_knows_what_was_given() -> None:
    config = DPGAN(steps=4_000)
    assert config == DPGAN() and hash(config) == hash(DPGAN())
    for same in (pickle.loads(pickle.dumps(config)), copy.copy(config), copy.deepcopy(config)):
        assert (same, same.given) == (config, {"steps": 4_000})
    assert dataclasses.replace(config, steps=5).given.keys() == {field.name for field in dataclasses.fields(DPGAN)} - {
        "noise_multiplier"
    }
    assert "_given" not in dataclasses.asdict(config)


def test_fit_takes_one(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(0, 256, (160, 28, 28), dtype=np.uint8), np.arange(160) % 2
    synthesizer = gossamer.fit(
        Moments(axes=4), data=records, card=CARD, out=tmp_path / "run", accounts=tmp_path / "log", **BUDGET
    )
    assert synthesizer.config == gossamer.plan("moments", CARD, axes=4, **BUDGET).job.config


def test_one_of_another_package_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match=r"Config belongs to no method in METHODS\. Add its method there first\."):
        gossamer.plan(ClassMeansConfig(steps=7), CARD, **BUDGET)
    monkeypatch.setitem(METHODS, ClassMeans.name, ClassMeans())
    assert gossamer.plan(ClassMeansConfig(steps=7), CARD, **BUDGET).job.settings["steps"] == 7


@dataclass(frozen=True, kw_only=True)
class Required(ClassMeansConfig):
    """Has no default for its noise."""

    noise_multiplier: float = dataclasses.field()


class Strict(ClassMeans):
    name = "strict"
    config_type = Required


def test_a_required_noise_multiplier_still_comes_from_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "strict", Strict())
    assert gossamer.plan("strict", CARD, **BUDGET).promise.epsilon <= 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: DPGAN(stepz=3), "dpgan has no setting 'stepz'. Did you mean 'steps'? Known: "),
        (lambda: gossamer.plan(DPGAN(), CARD, width=4, **BUDGET), "width: a Config of dpgan takes all its settings."),
        (lambda: gossamer.plan(DPGAN(), CARD, {"width": 4}, **BUDGET), "width: a Config of dpgan takes all its"),
        (lambda: gossamer.plan(DPGAN(), CARD, eps=4), "plan has no argument 'eps'. Did you mean 'epsilon'?"),
        (lambda: gossamer.plan(DPGAN, CARD, **BUDGET), "`method` must be text or a Config, not of type type."),
        (lambda: Job.of(METHODS["teacher"], {}, CARD), "teacher has no noise_multiplier yet: give it, or let `plan`"),
        (lambda: Job.of(METHODS["teacher"], {"noise_multiplier": None}, CARD), "teacher has no noise_multiplier yet"),
    ],
)  # fmt: skip
def test_what_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        wrong()
    assert str(refused.value).startswith(message)


def test_only_named_settings_are_taken() -> None:
    with pytest.raises(TypeError, match="positional"):
        Teacher(3)  # type: ignore[misc]
