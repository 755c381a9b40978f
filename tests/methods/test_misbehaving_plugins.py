"""Methods of other packages that misbehave: each is refused with a message that can be read, or does no harm."""

import importlib
import inspect
import itertools
import json
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from installed import on_path, write_dist_info

from gossamer import plugins
from gossamer.errors import RequestError
from gossamer.methods import METHODS, registry
from gossamer.methods.contract import presets_of
from gossamer.privacy.confined import Confined

HEAD = """
from dataclasses import dataclass
import class_means.loop
from class_means import ClassMeans, Config, loop
from gossamer.methods.contract import BaseConfig, Method
from gossamer.privacy.accounting import events
"""
WORKS = HEAD + 'class Mine(ClassMeans):\n    "Mine."\n    name, title = "mine", "Mine"\n'
CONFIG = HEAD + (
    "@dataclass(frozen=True, kw_only=True)\nclass Own(Config):\n    {field}\n\n"
    'class Mine(ClassMeans):\n    "Mine."\n    name, title, config_type = "mine", "Mine", Own\n'
)
numbers = itertools.count()


@contextmanager
def installed(folder: Path, source: str, *, name: str = "mine", object_: str = "Mine") -> Iterator[str]:
    """A package with one module, which gives a method of this name. Yields the name of the module."""
    module = f"misbehaving_{next(numbers)}"
    site = folder / module
    write_dist_info(site, f"package-of-{name}", {"gossamer.methods": {name: f"{module}:{object_}"}})
    (site / f"{module}.py").write_text(source)
    with on_path(site):
        yield module


UNUSABLE = {
    "import error": ("import no_such_module_anywhere", "cannot be imported (ModuleNotFoundError: No module named"),
    "syntax error": ("class", "cannot be imported (SyntaxError"),
    "ends the process": ("raise SystemExit(3)", "cannot be imported (SystemExit: 3)"),
    "no such object": ("Yours = 1", "cannot be imported (AttributeError"),
    "no method": ("class Mine: pass", "is not a gossamer.methods.Method"),
    "abstract": (HEAD + "class Mine(Method): name = title = 'mine'", "cannot be made (TypeError"),
    "another name": (WORKS.replace('"mine"', '"yours"'), "calls itself 'yours'. A method has one name."),
    "no title": (WORKS.replace('title = "mine", "Mine"', 'title = "mine", None'), "has no title"),
    "two lines of title": (WORKS.replace('"mine", "Mine"', '"mine", "Mi\\nne"'), "has no title that is one line"),
    "no loop": (
        HEAD + "class Mine(Method):\n    name, title, config_type, queries = 'mine', 'Mine', Config, list",
        "has no loop",
    ),
    "config is no dataclass": (
        HEAD + "class Own(BaseConfig): steps: int = 1\nclass Mine(ClassMeans): name, title, config_type = 'mine', 'M', Own",
        "has no config_type that is a dataclass of BaseConfig",
    ),
    "config of another base": (
        HEAD + "@dataclass\nclass Own: steps: int = 1\nclass Mine(ClassMeans): name, title, config_type = 'mine', 'M', Own",
        "has no config_type that is a dataclass of BaseConfig",
    ),
    "field of a list": (CONFIG.format(field="sizes: list[int] | None = None"), "sizes is not a bool, an int, a float"),
    "field of a missing type": (CONFIG.format(field='size: "Missing" = 1'), "its types cannot be read (NameError"),
    "field without a default": (CONFIG.format(field="size: int"), "size has no default"),
    "field of a command": (CONFIG.format(field="data: str = ''"), "data is no name for a setting"),
    "field that is no flag": (CONFIG.format(field="_size: int = 1"), "_size is no name for a setting"),
    "noise with a default": (
        CONFIG.format(field="noise_multiplier: float = 0.0"), "noise_multiplier has a default other than FROM_EPSILON",
    ),
    "no noise": (
        HEAD + "@dataclass(frozen=True, kw_only=True)\nclass Own(BaseConfig): steps: int = 1\n"
        "class Mine(ClassMeans): name, title, config_type = 'mine', 'M', Own",
        "it has no noise_multiplier, which follows from epsilon",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_method_that_cannot_be_used_is_named_and_harms_no_other(
    case: str, gossamer: Callable[..., Any], tmp_path: Path
) -> None:
    source, message = UNUSABLE[case]
    with installed(tmp_path, source):
        assert message in METHODS.broken()["mine"]
        assert "mine" not in list(METHODS)
        help_ = gossamer("fit", "--help")
        assert help_.status == 0
        assert "dpgan" in help_.out and "mine" not in help_.out.split()
        refused = gossamer("fit", "mine", "--help")
        assert refused.status == 2
        assert message in refused.err and "\n" not in refused.err.strip()
        listed = gossamer("presets", "--json")
        assert listed.status == 0
        assert "dpgan" in listed.json["presets"]
        assert listed.err.count("not usable: the plug-in mine.") == 1 and message in listed.err
        assert gossamer("presets", "dpgan").err == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[quick\n", "has presets that cannot be read (TOMLDecodeError"),
        ("[a]\nsteps = 1\n", "a has no text `about`"),
        ("[a]\nabout = 'x'\nstepz = 1\n", "a has stepz, which is no setting"),
    ],
)
def test_a_damaged_file_of_presets(gossamer: Callable[..., Any], tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / "site" / "damaged_presets"
    write_dist_info(tmp_path / "site", "damaged", {"gossamer.methods": {"mine": "damaged_presets:Mine"}})
    folder.mkdir()
    (folder / "__init__.py").write_text(WORKS)
    (folder / "presets.toml").write_text(text)
    with on_path(tmp_path / "site"):
        assert message in METHODS.broken()["mine"]
        assert gossamer("presets").status == 0


def test_a_plugin_cannot_take_the_name_of_a_method_of_gossamer(
    gossamer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = METHODS["moments"]
    source = WORKS.replace('"mine"', '"moments"')
    with installed(tmp_path, source, name="moments"):
        assert METHODS["moments"] is own
        assert not METHODS.is_plugin("moments")
        assert "'moments' is a method of Gossamer" in METHODS.broken()["moments"]
        assert list(METHODS).count("moments") == 1
        assert "'moments' is a method of Gossamer" in gossamer("presets").err
    (tmp_path / "takes_a_name.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for words in (("fit", "takes_a_name:Mine", "--help"), ("--plugin", "takes_a_name:Mine", "presets")):
        refused = gossamer(*words)
        assert refused.status == 2
        assert "'moments' is a method of Gossamer. A plug-in needs another name." in refused.err
    with pytest.raises(RequestError, match="is a method of Gossamer"):
        METHODS["moments"] = own
    assert METHODS["moments"] is own
    assert ("method", "moments") not in plugins._added


def test_two_packages_with_one_name(tmp_path: Path, gossamer: Callable[..., Any]) -> None:
    with installed(tmp_path, WORKS) as module:
        write_dist_info(tmp_path / "other", "another-package", {"gossamer.methods": {"mine": f"{module}:Other"}})
        with on_path(tmp_path / "other"):
            refused = gossamer("fit", "mine", "--help")
    assert refused.status == 2
    assert "another-package 1.2.0 and package-of-mine 1.2.0 all add a method 'mine'" in refused.err


def test_a_method_without_docstring_shows_its_title_and_no_other_text(
    gossamer: Callable[..., Any], tmp_path: Path
) -> None:
    with installed(tmp_path, WORKS.replace('    "Mine."\n', "").replace('"Mine"', '"My title"')):
        help_ = gossamer("fit", "mine", "--help").out
    assert "My title" in help_
    assert "What the author of a method writes" not in help_


def test_settings_that_commands_need_are_all_refused() -> None:
    """The names of `registry.TAKEN` are those of the functions and options that have a METHOD."""
    functions = ("training.fit.fit", "training.plan.plan", "auditing.audit.audit")
    names = {
        name
        for function in functions
        for module, _, last in [f"gossamer.run.{function}".rpartition(".")]
        for name in inspect.signature(getattr(importlib.import_module(module), last)).parameters
    }
    assert names - registry.TAKEN - {"noise_seed"} == set()  # an argument for tests
    from gossamer.run.cli.commands import audit, fit, plan

    for group in (fit.fit, plan.plan, audit.audit):
        command = group.get_command(None, "moments")
        options = {parameter.name for parameter in command.params} - set(
            typing.get_type_hints(METHODS["moments"].config_type)
        )
        assert options - registry.TAKEN == set()


def test_the_settings_of_gossamers_own_methods_would_be_accepted() -> None:
    for method in METHODS.values():
        assert registry._problem_of(method.config_type, promises=not method.without_guarantee) == "", method.name
        registry._check_presets(presets_of(method), method.config_type)


SAMPLE = WORKS + "    def sample(self, *given):\n        x, y = super().sample(*given)\n        return "
PHASES = WORKS + "    def phases(self, config, card):\n        first, last = super().phases(config, card)\n        "
PLANS = (
    "import types, dp_accounting\n"
    + WORKS
    + (
        "    def queries(self, config, card):\n        from gossamer.methods import Query\n"
        "        return [Query('sums', types.SimpleNamespace(event=EVENT), 1)]"
    )
)
NEVER_BEGUN = {
    "phases raise": (PHASES + "raise ValueError('of no use')", "The plug-in 'mine' failed (ValueError: of no use). No budget"),
    "no phases": (PHASES + "return []", "phases that cannot be run: they are no list"),
    "not phases": (PHASES + "return ['training']", "one is no OnPublic, OnPrivate or OnReleased"),
    "one name twice": (PHASES + "return [last, last]", "each needs a name of its own"),
    "no relation": (WORKS + "    def relation(self, config): return 'some'", "under the relation 'some'"),
    "sample raises": (WORKS + "    def sample(self, *_): raise OSError('no disk')", "failed (OSError: no disk)"),
    "sample is none": (WORKS + "    def sample(self, *_): return None", "draws no pair of tensors"),
    "sample of another number": (SAMPLE + "x[:1], y[:1]", "floating-point [2, 1, 28, 28]"),
    "sample of another kind": (SAMPLE + "x.byte(), y", "images are torch.uint8"),
    "labels of another kind": (SAMPLE + "x, y.float()", "labels are torch.float32 [2]"),
    "labels out of range": (SAMPLE + "x, y + 2", "labels are not all from 0 to 1"),
    "pixels not finite": (SAMPLE + "x / 0 * 0, y", "pixels are not all finite"),
    "generator without classes": (
        WORKS.replace("class Mine", "import types, torch\nfake = types.SimpleNamespace(**vars(loop))\n"
        "class Start(loop.State):\n    @property\n    def released(self): return torch.nn.Linear(1, 1)\n"
        "fake.start = lambda run: Start(loop.start(run).net)\nclass Mine") + "    loop = fake",
        "a generator that is no torch.nn.Module with an attribute `classes`",
    ),
    "event of no accountant": (
        PLANS.replace("EVENT", "dp_accounting.dp_event.UnsupportedDpEvent()"), "UnsupportedDpEvent",
    ),
    "an event that costs nothing": (
        PLANS.replace("EVENT", "dp_accounting.NoOpDpEvent()"), "NoOpDpEvent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEVER_BEGUN)
def test_a_run_that_could_not_end_is_refused_before_it_uses_a_budget(
    case: str, gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path, state_home: Path
) -> None:
    source, message = NEVER_BEGUN[case]
    with installed(tmp_path, source):
        budget = ("--epsilon", 3, "--delta", 1e-3)
        refused = gossamer("fit", "mine", "--data", data, "--card", card, *budget, "--out", tmp_path / "run")
        assert refused.status in (1, 2)
        assert message in refused.err, refused.err
        assert "Please report it" not in refused.err
        advice = gossamer("recommend", "--card", card, "--epsilon", 3)
        assert advice.status == 0, advice.err
    assert not (tmp_path / "run").exists()
    assert not list(state_home.rglob("*.jsonl"))


def test_words_of_a_method_for_the_certificate_are_asked_for_before_a_record_is_read(
    gossamer: Callable[..., Any], card: Path, tmp_path: Path
) -> None:
    """The records are not there: who reads them first would say so."""
    words = WORKS + "    def bounds_units(self, card): return 'two\\nlines'"
    with installed(tmp_path, words):
        budget = ("--epsilon", 3, "--delta", 1e-3)
        gone = tmp_path / "gone.npz"
        refused = gossamer("fit", "mine", "--data", gone, "--card", card, *budget, "--out", tmp_path / "run")
    assert (refused.status, "bounds_units of mine is not one line of text" in refused.err) == (2, True), refused.err


LOOP = HEAD + (
    "import types\nown = types.SimpleNamespace(**vars(loop))\n{train}\nown.train = train\n"
    'class Mine(ClassMeans):\n    "Mine."\n    name, title, loop = "mine", "Mine", own\n'
)
ROUND = "def train(run, state, private):\n    "


def fitted(gossamer: Callable[..., Any], data: Path, card: Path, run: Path) -> Any:
    budget = ("--epsilon", 3, "--delta", 1e-3)
    return gossamer("fit", "mine", "--data", data, "--card", card, *budget, "--steps", 5, "--out", run)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (ROUND + "private.map(lambda held: 1 / 0)\n    yield {}", "inside Confined: error in <lambda>"),
        (
            ROUND + "from gossamer.errors import DataError\n    def read(held): raise DataError(str(held.images[0]))\n"
            "    private.map(read)\n    yield {}",
            "inside Confined: error in read",
        ),
        (ROUND + "raise ValueError('[[7 7 7]]')\n    yield {}", "The method 'mine', a plug-in, failed with ValueError"),
        (
            ROUND + "from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum as Sum\n"
            "    query = Sum(sampling_rate=0.5, max_norm=1.0, noise_multiplier=1.0)\n"
            "    private.release(query, loop.Sums(2, (1, 28, 28)))\n    yield {}",
            "",
        ),
        (ROUND + "yield from ()", "has used its whole plan"),
        (ROUND + "yield 5", "a step of the training gives no mapping of names to numbers"),
    ],
    ids=["error inside", "own error with a record", "error outside", "query without a plan", "no step", "no figures"],
)  # fmt: skip
def test_a_training_that_fails_says_no_more_than_where(
    train: str, message: str, gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    """What an author puts into an error inside `Confined` could be a record: it is withheld."""
    with installed(tmp_path, LOOP.format(train=train)):
        failed = fitted(gossamer, data, card, tmp_path / "run")
    assert failed.status in (1, 2)
    assert message in failed.err, failed.err
    assert "[[" not in failed.err
    assert "Please report it" not in failed.err
    assert not (tmp_path / "run" / "certificate.json").exists()


def test_a_query_without_a_plan_reads_no_record(data: Path, card: Path, tmp_path: Path) -> None:
    from gossamer.errors import UnplannedRelease
    from gossamer.run.training.fit import fit

    train = ROUND + (
        "from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum as Sum\n"
        "    query = Sum(sampling_rate=0.5, max_norm=1.0, noise_multiplier=1.0)\n"
        "    private.release(query, 'no query that could read')\n    yield {}"
    )
    with installed(tmp_path, LOOP.format(train=train)), pytest.raises(UnplannedRelease):
        fit("mine", data=data, card=card, epsilon=3.0, delta=1e-3, steps=5, out=tmp_path / "run")


def test_less_than_the_plan_is_certified_at_the_whole_plan(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    train = ROUND + "yield {}\n    yield {}"
    with installed(tmp_path, LOOP.format(train=train)):
        assert fitted(gossamer, data, card, tmp_path / "run").status == 0
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert 2.9 < certificate["guarantee"]["epsilon"] <= 3.0


def test_declassified_records_make_epsilon_infinite(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    assert hasattr(Confined, "declassify")
    train = ROUND + "records = private.declassify(reason='it wanted to look')\n    yield {'n': float(len(records))}"
    with installed(tmp_path, LOOP.format(train=train)):
        assert fitted(gossamer, data, card, tmp_path / "run").status == 0
        assert gossamer("verify", tmp_path / "run").status == 0
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["guarantee"]["epsilon"] == "inf"
    assert "No formal guarantee: epsilon is infinity, because it wanted to look" in json.dumps(certificate)


LOOKS = (
    ROUND
    + "records = private.declassify(reason='it wanted to look')\n    print('it has', len(records))\n    1 / 0\n    yield {}"
)


def test_declassified_records_of_a_run_that_never_ends_count_as_infinite(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    """Neither a crash nor `discard` brings the finite cost back."""
    with installed(tmp_path, LOOP.format(train=LOOKS)):
        assert "it has" in fitted(gossamer, data, card, tmp_path / "run").out
        for _ in range(2):
            told = json.loads(gossamer("budget", data, "--card", card, "--json").out)
            assert [run["epsilon"] for run in told["runs"]] == ["inf"]
            assert gossamer("discard", tmp_path / "run").status == 0 or not (tmp_path / "run").exists()
        assert not (tmp_path / "run").exists()


def test_where_a_limit_forbids_it_no_record_is_declassified(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    assert gossamer("budget", data, "--card", card, "--epsilon", 9, "--delta", 1e-3).status == 0
    with installed(tmp_path, LOOP.format(train=LOOKS)):
        result = fitted(gossamer, data, card, tmp_path / "run")
    assert result.status != 0 and "it has" not in result.out
    assert "it wanted to look" not in (tmp_path / "run" / "ledger.jsonl").read_text()


WORDS = {
    "no words": (
        "    @classmethod\n    def releases_public(cls, settings): return True",
        "releases_public of mine is not one line",
    ),
    "two lines": (
        "    def bounds_units(self, card): return 'by\\nmagic'",
        "bounds_units of mine is not one line of text",
    ),
    "a page": ("    def bounds_units(self, card): return 'x' * 1001", "bounds_units of mine is not one line of text"),
    "other facts": (
        "    def own_input(self, config): return {'reviewed': 'yes'}",
        "own_input of mine needs `what` and `tuned`",
    ),
    "words raise": (
        "    def own_input(self, config): raise KeyError('lost')",
        "The plug-in 'mine' failed (KeyError: 'lost')",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_for_the_certificate_are_asked_for_before_a_record_is_read(
    case: str, gossamer: Callable[..., Any], card: Path, tmp_path: Path
) -> None:
    source, message = WORDS[case]
    with installed(tmp_path, WORKS + source):
        budget = ("--card", card, "--epsilon", 3, "--delta", 1e-3)
        refused = gossamer("fit", "mine", "--data", tmp_path / "nowhere.npz", *budget, "--out", tmp_path / "run")
    assert refused.status == 2
    assert message in refused.err
    assert not (tmp_path / "run").exists()
