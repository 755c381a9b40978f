"""The smallest method of docs/methods/adding-one.md: exactly its text is fitted, sampled, verified and tested."""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.methods import METHODS
from gossamer.methods.contract import AnyMethod, Method
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.release.verify import verify
from gossamer.testing import MethodTests
from gossamer.testing.trial_run import Subject

PAGE = Path(__file__).resolve().parents[2] / "docs/methods/adding-one.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
TEXT, OF_TABLES = BLOCKS[:2]
TOY = next(block for block in BLOCKS if "toy = Records" in block)
MOST_LINES, MOST_NAMES = 52, 31


def imported(name: str, text: str, folder: Path) -> Iterator[ModuleType]:
    """The text as a module."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The smallest method."""
    yield from imported("tiny", TEXT, tmp_path_factory.mktemp("tutorial"))


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The smallest method for tables."""
    yield from imported("columns", OF_TABLES, tmp_path_factory.mktemp("tables"))


class TestTiny(MethodTests):
    method = "tiny"
    small: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 1.0}
    toy: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 0.1}

    @pytest.fixture
    def subject(self, tiny: ModuleType) -> Subject:
        return Subject(method=tiny.Tiny(), small=self.small, toy=self.toy)


class TestColumns(MethodTests):
    """Independent columns do not learn the toy of tables, where a column follows from the label."""

    method = "columns"
    small: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 1.0}
    card = TableCard(
        columns=(
            Column(name="side", kind="category", values=("left", "right")),
            Column(name="size", kind="number", bounds=(0, 10), bins=4),
            Column(name="class", kind="category", values=("a", "b")),
        ),
        label="class",
        declared_size=200,
    )
    test_learns_a_toy = None

    @pytest.fixture
    def subject(self, columns: ModuleType) -> Subject:
        return Subject(method=columns.Columns(), small=self.small, card=self.card)


@pytest.mark.parametrize("text", [TEXT, OF_TABLES])
def test_it_is_short_and_has_public_names_alone(text: str) -> None:
    assert len([line for line in text.split("\n") if line.strip()]) <= MOST_LINES
    assert set(re.findall(r"^from (gossamer\S*)", text, re.MULTILINE)) == {"gossamer.methods", "gossamer.privacy"}


def test_a_query_is_debugged_on_toy_records(tiny: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    exec(TOY, vars(tiny))
    assert capsys.readouterr().out == "tensor(0.)\n"


def test_it_is_fitted_sampled_and_verified(
    gossamer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    labels = np.arange(160) % 2
    np.savez("data.npz", images=np.full((160, 28, 28), 200, np.uint8) * (labels[:, None, None] == 1), labels=labels)
    DataCard(shape=(1, 28, 28), classes=2, declared_size=160).save("card.toml")
    budget = ("--epsilon", 10, "--delta", 1e-4)
    made = gossamer("fit", "tiny:Tiny", "--data", "data.npz", "--card", "card.toml", *budget, "--out", "run")
    assert made.status == 0, made.err
    assert verify(tmp_path / "run").ok
    with np.errstate(all="raise"):
        synthesizer = Synthesizer.load(tmp_path / "run")
        samples = synthesizer.sample(20, labels=np.arange(20) % 2, seed=0)
    bright = samples.images.reshape(20, -1).mean(1)
    assert bright[1::2].mean() > bright[::2].mean() + 50
    (query,) = synthesizer.job.queries
    assert [(query.mechanism.event, query.times)] == synthesizer.job.plan
    assert query.times == synthesizer.certificate.plan[0]["count"] == 1
    plugins.remove("method", "tiny")


def names(kind: type) -> set[str]:
    """What an author may set or override."""
    return {name for name in [*vars(kind), *vars(kind).get("__annotations__", {})] if not name.startswith("_")}


def test_the_contract_has_few_names_and_the_page_lists_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## Which names you meet") : page.index("## 1. Say what a run costs")]
    named = set(re.findall(r"`(\w+)`", section))
    assert names(Method) - named == set()
    assert len(names(Method)) <= MOST_NAMES
    assert f"A `Method` has {len(names(Method))} names" in section


def test_no_method_of_gossamer_has_a_name_of_its_own_that_others_ask_for() -> None:
    """What `run/` asks a method is in the contract, so that a method of another package can have it."""
    method: AnyMethod
    for method in METHODS.values():
        own = {name for name in vars(type(method)) if not name.startswith("_")}
        assert own <= names(Method) | {"labelling", "check_labelling"}, method.name
