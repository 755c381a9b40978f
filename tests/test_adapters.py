"""Adapters under examples/adapters: short, and right against what they adapt to, or a stand-in with the same signatures."""

import importlib.util
import json
import random
import sys
import types
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import gossamer
from gossamer.data.columns.column import Column
from gossamer.data.synthetic.generators import PluginGenerator
from gossamer.data.tables.card import TableCard
from gossamer.errors import CardError

ADAPTERS = sorted((Path(__file__).resolve().parents[1] / "examples" / "adapters").iterdir())
CARD = TableCard(
    columns=(
        Column(name="ill", kind="category", values=("yes", "no"), missing=True),
        Column(name="age", kind="integer", bounds=(0, 99), bins=5),
    ),
    declared_size=200,
)
CHEAP = {"rounds": 1, "cells": 200, "iterations": 5}


def adapter(name: str) -> ModuleType:
    (path,) = (path for path in ADAPTERS if path.stem == name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def frame() -> Any:
    pandas = pytest.importorskip("pandas", reason="the adapters are for frames")
    rows = np.random.default_rng(0)
    ill = rows.choice(np.array(["yes", "no", None], dtype=object), 200, p=[0.6, 0.3, 0.1])
    return pandas.DataFrame({"ill": ill, "age": rows.integers(0, 99, 200), "name": "somebody"})


@pytest.mark.parametrize("path", [path for path in ADAPTERS if path.suffix == ".py"], ids=lambda path: path.stem)
def test_an_adapter_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 120


def test_sdgym_trains_and_samples_with_the_card_of_its_table(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SDGym 0.15 calls them: get_trained_synthesizer(data, metadata) and sample(synthesizer, n_samples)."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    other = TableCard(columns=(Column(name="price", kind="integer", bounds=(0, 9), bins=5),), declared_size=200)
    train, sample = adapter("sdgym_synthesizer").functions([other, CARD], epsilon=float("inf"), delta=1e-5, **CHEAP)
    synthesizer = train(frame, {"columns": {}})
    assert synthesizer.certificate.guarantee["epsilon"] == "inf", "what the caller chose: this test calibrates no noise"
    drawn = sample(synthesizer, 30)
    assert ([*drawn.columns], len(drawn)) == (["ill", "age"], 30)
    assert drawn["ill"].isin(["yes", "no"]).sum() + drawn["ill"].isna().sum() == 30
    with pytest.raises(ValueError, match="No card declares columns of this table"):
        train(frame[["name"]], {})


def test_a_draft_from_sdv_has_kinds_and_never_a_bound(tmp_path: Path) -> None:
    columns = {
        "ill": {"sdtype": "categorical"}, "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "dose": {"sdtype": "numerical"}, "case": {"sdtype": "id", "regex_format": "[A-Z]{3}"},
        "born": {"sdtype": "datetime", "datetime_format": "%d.%m.%Y"}, "seen": {"sdtype": "datetime"},
        "name": {"sdtype": "name", "pii": True}, "old": {"sdtype": "boolean"},
    }  # fmt: skip
    metadata = {"METADATA_SPEC_VERSION": "V1", "tables": {"visits": {"columns": columns}}}
    draft: str = adapter("sdv_metadata").draft(metadata)
    (tmp_path / "card.toml").write_text(draft, encoding="utf-8")
    with pytest.raises(CardError, match="declared_size"):
        TableCard.load(tmp_path / "card.toml")
    answers = {
        "# declared_size = ": "declared_size = 100", "# values": 'values = ["yes", "no"]',
        "# bounds = []  # the smallest": "bounds = [0, 99]",
        "# bounds = []  # the first and": "bounds = [2000-01-01, 2026-12-31]",
    }  # fmt: skip
    lines = [next((given for at, given in answers.items() if line.startswith(at)), line) for line in draft.splitlines()]
    (tmp_path / "card.toml").write_text("\n".join(lines), encoding="utf-8")
    card = TableCard.load(tmp_path / "card.toml")
    kinds = {column.name: column.kind for column in card.written}
    assert kinds == {
        "ill": "category", "age": "integer", "dose": "number", "case": "key", "born": "date", "seen": "datetime",
        "old": "boolean",
    }  # fmt: skip
    assert dict(card.drop) == {"name": "SDV calls it name"}
    assert not [line for line in draft.splitlines() if line.startswith(("bounds", "values", "edges"))]
    two = {"tables": {"a": {"columns": {}}, "b": {"columns": {}}}}
    with pytest.raises(ValueError, match="Name one of these tables: a, b"):
        adapter("sdv_metadata").draft(two)
    assert json.dumps(metadata)  # what SDV saves


def test_the_wrapper_is_a_scikit_learn_estimator(frame: Any, tmp_path: Path) -> None:
    wrapper = adapter("sklearn_wrapper").PrivateSynthesizer
    settings = {**CHEAP, "accounts": tmp_path}
    model = wrapper(card=CARD, epsilon=5.0, settings=settings)
    assert model.get_params() == {
        "card": CARD, "epsilon": 5.0, "delta": 1e-5, "method": "marginals", "settings": settings,
    }  # fmt: skip
    copy = clone(model).set_params(epsilon=float("inf"))
    assert (model.epsilon, copy.epsilon) == (5.0, float("inf"))
    with pytest.raises(ValueError, match="not fitted"):
        copy.sample(2)
    fitted = copy.fit(frame[["ill", "age"]].astype(str).replace("None", ""))
    assert fitted.sample(20, seed=1).equals(fitted.sample(20, seed=1))
    assert len(fitted.sample(20)) == 20


class Tinted:
    """A generator with the functions of `pe.api.API`: pictures of one shade, which depends on the class and on chance."""

    def __init__(self) -> None:
        self.iterations: list[int] = []

    def random_api(self, label_info: Any, num_samples: int) -> Any:
        shades = [{"dark": 40, "light": 200}[label_info.name] + random.randint(0, 9) for _ in range(num_samples)]
        return self._data([np.full((16, 16, 3), shade, np.uint8) for shade in shades])

    def variation_api(self, syn_data: Any) -> Any:
        self.iterations.append(syn_data.metadata.iteration)
        return self._data([image + np.uint8(np.random.randint(3)) for image in syn_data.data_frame["PE.IMAGE"]])

    def _data(self, images: list[Any]) -> Any:
        return SimpleNamespace(data_frame={"PE.IMAGE": images})


@pytest.fixture
def pe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the two modules of Private Evolution that the adapter imports."""

    def data(data_frame: Any, metadata: dict[str, Any]) -> Any:
        metadata["label_info"] = [SimpleNamespace(**each) for each in metadata["label_info"]]
        return SimpleNamespace(data_frame=data_frame, metadata=SimpleNamespace(**metadata))

    constants = types.SimpleNamespace(IMAGE_DATA_COLUMN_NAME="PE.IMAGE", LABEL_ID_COLUMN_NAME="PE.LABEL_ID")
    for name, module in {
        "pe": {},
        "pe.constant": {},
        "pe.constant.data": vars(constants),
        "pe.data": {"Data": data},
    }.items():
        made = ModuleType(name)
        vars(made).update(module)
        monkeypatch.setitem(sys.modules, name, made)


def test_evolve_takes_a_generator_of_private_evolution(pe: None) -> None:
    pytest.importorskip("pandas", reason="Private Evolution keeps pictures in frames")
    api = Tinted()
    generator = adapter("private_evolution").PEGenerator(
        api, ["dark", "light"], degrees=3, licence="MIT", trained_on="nothing"
    )
    labels, seeds = torch.tensor([0, 1, 1]), torch.tensor([5, 6, 7])
    images = generator.random(labels, (1, 8, 8), seeds)
    assert (images.shape, images.dtype) == ((3, 1, 8, 8), torch.uint8)
    assert images[0].max() < 60
    assert images[1:].min() > 190
    alone = generator.random(labels[2:], (1, 8, 8), seeds[2:])
    assert (alone[0] == images[2]).all(), "a picture depends on its own seed alone"
    varied = generator.vary(images, labels, 1.0, seeds)
    assert varied.shape == images.shape
    assert (varied.int() - images).abs().max() <= 2
    assert (varied == generator.vary(images, labels, 1.0, seeds)).all()
    generator.vary(images[:1], labels[:1], 0.0, seeds[:1])
    assert api.iterations == [-1] * 6 + [1]
    gossamer.plugins.add("generator", "tinted", generator)
    PluginGenerator("tinted", (1, 8, 8)).check(2)  # as `evolve` checks it before a run


@pytest.mark.parametrize("path", [path for path in ADAPTERS if path.suffix == ".csv"], ids=lambda path: path.stem)
def test_an_omop_template_is_a_dictionary_of_public_vocabularies(path: Path, tmp_path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    names = [line.split(",", 1)[0] for line in lines[1:]]
    (tmp_path / "table.csv").write_text(",".join(names) + "\n" + "\n".join([",".join("1" for _ in names)] * 5) + "\n")
    gossamer.draft_card(tmp_path / "table.csv", dictionary=path).save(tmp_path / "card.toml")
    assert [column.name for column in TableCard.load(tmp_path / "card.toml").written] == names
