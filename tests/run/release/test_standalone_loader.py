"""`load.py` of a table: it needs NumPy alone, and its rows are those of Gossamer. `test_release.py` tests that of pictures."""

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import ROWS
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import JunctionTree
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.privacy.certificate.certificate import sha256
from gossamer.run.release.standalone_loader import loader

BLOCKED = ("gossamer", "torch", "safetensors", "scipy", "pandas", "dp_accounting")
DAY = datetime.date
CARD = TableCard(
    columns=(
        Column(name="ill", kind="category", values=("yes", "no"), missing=True, outside="other"),
        Column(name="visits", kind="integer", bounds=(1, 400), bins=7, log=True, zero=True, special=(-1, 999)),
        Column(name="bill", kind="number", bounds=(0, 900), bins=6, decimals=2, zero=True, missing=True),
        Column(name="level", kind="number", edges=(0.5, 1.5, 40), outside="other", missing=True),
        Column(
            name="born", kind="date", bounds=(DAY(1950, 1, 1), DAY(2020, 12, 31)), bins=2, special=(DAY(1900, 1, 1),)
        ),
        Column(
            name="seen",
            kind="date",
            edges=(DAY(2020, 1, 1), DAY(2020, 3, 1), DAY(2021, 1, 1)),
            missing=True,
            at_least="born",
        ),
        Column(name="rooms", kind="integer", bounds=(1, 4), missing=True, missing_words=("3",), outside="clip"),
        Column(name="pay", kind="number", bounds=(-9000, 9000), format="€ 1.234,50", missing=True),
        Column(name="paid", kind="integer", bounds=(0, 9000), format="1'234"),
        Column(name="asleep", kind="boolean"),
        Column(name="awake", kind="boolean", missing=True, missing_words=("not known",)),
        Column(name="alive", kind="boolean", missing=True, outside="other"),
        Column(name="came", kind="datetime", bounds=("2020-01-01", "2020-01-03T12:00"), format="%d.%m.%y %H:%M"),
        Column(
            name="went",
            kind="datetime",
            bounds=("2020-01-02T00:00:00.25", "2020-01-02T00:01:00"),
            decimals=2,
            zone="Europe/Berlin",
            missing=True,
        ),
        Column(name="left", kind="datetime", bounds=("2020-01-01", "2020-01-03"), outside="other"),
        Column(name="stay", kind="duration", bounds=("1:00:00", "9 days"), special=("999 days",), missing=True),
        Column(name="wait", kind="duration", bounds=("0:00:00", "P1D"), zero=True, decimals=3),
        Column(name="gone", kind="date", after="born", bounds=(1, 400), bins=5, zero=True, format="%d/%m/%Y"),
        Column(name="grade", kind="category", values=("a", "b"), only=(("asleep", "True", "b"),)),
        Column(name="note", kind="category", values=("x", "y"), missing=True, missing_with="awake"),
        Column(name="rung", kind="duration", bounds=("00:00", "47:30"), format="%H:%M", bins=9),
        Column(name="meal", kind="duration", bounds=("7:00:00", "20:00:00"), format="%I:%M %p", step=900),
        Column(name="nights", kind="duration", bounds=("0 days", "30 days"), step=86_400),
        Column(name="began", kind="datetime", bounds=("2020-01-01", "2020-03-01"), step=3_600, bins=50),
    ),
    declared_size=1_000,
    label="ill",
    decimal=",",
    generated=(
        GeneratedColumn(name="id", kind="key", prefix="V", digits=6, start=7, place=0),
        GeneratedColumn(name="row", kind="key"),
        GeneratedColumn(name="told", kind="derived", follows="ill", mapping={"yes": "was ill", "no": "was well"}),
        GeneratedColumn(name="size", kind="derived", follows="level", mapping={"0.5": "low", "1.5": "high"}, place=5),
        GeneratedColumn(
            name="era", kind="derived", follows="seen", mapping={"2020-01-01": "before", "2020-02-10": "after"}
        ),
        GeneratedColumn(name="eyes", kind="derived", follows="asleep", mapping={"True": "shut", "False": "open"}),
        GeneratedColumn(
            name="part", kind="derived", follows="came", mapping={"2020-01-01": "first", "2020-01-02T06:00": "last"}
        ),
        GeneratedColumn(name="care", kind="derived", follows="wait", mapping={"0:00:00": "quick", "12:00:00": "slow"}),
        GeneratedColumn(name="both", kind="derived", formula="pay + bill - paid / 2", decimals=2),
        GeneratedColumn(name="age", kind="derived", formula="gone - born"),
        GeneratedColumn(name="again", kind="derived", follows="came"),
        GeneratedColumn(
            name="sort",
            kind="derived",
            follows=("asleep", "grade"),
            mapping=(("True", "a", "none"), ("True", "b", "s1"), ("False", "a", "s2"), ("False", "b", "s3")),
        ),
    ),
)


REST = [(column,) for column in range(7, len(CARD.columns))]


def random_field() -> MarkovField:
    """Cliques of one, two and three columns with random probabilities, and two columns with merged values."""
    stream = torch.Generator().manual_seed(4)
    net = MarkovField(CARD.domain, CARD.label_index)
    maps = [torch.arange(size) for size in CARD.domain]
    maps[1], maps[4] = maps[1].clamp(min=3) - 3, (maps[4] - 1).clamp(min=0)
    net.merge(maps, [torch.rand(size, generator=stream) for size in CARD.domain])
    tree = JunctionTree.over([(0, 1, 2), (2, 3), (1, 4), (5,), (0, 6), *REST], net.sizes, CARD.label_index)
    tables = [torch.rand(shape, generator=stream).double() ** 4 for shape in tree.shapes]
    net.take(tree, [table / table.sum() for table in tables])
    return net


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What load.py reads of a release, and load.py."""
    folder, method = tmp_path_factory.mktemp("release"), METHODS["marginals"]
    (folder / "model.safetensors").write_bytes(model_bytes(random_field()))
    facts = {"card": CARD.to_dict(), "model": {"sha256": sha256(folder / "model.safetensors")}}
    (folder / "certificate.json").write_text(json.dumps(facts))
    (folder / "load.py").write_text(loader(method.name), encoding="utf-8")
    return folder


def alone(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code beside load.py, in a process that has NumPy and none of what Gossamer needs else."""
    blocked = f"import sys\nfor name in {BLOCKED}: sys.modules[name] = None\nsys.path.insert(0, '.')\n"
    return subprocess.run(
        [sys.executable, "-I", "-B", "-c", blocked + code], cwd=folder, capture_output=True, text=True, check=False
    )


def test_every_method_of_tables_is_tried() -> None:
    assert [name for name in METHODS if METHODS[name].takes == "table"] == ["marginals"]


@pytest.mark.parametrize("seed", [5, 2**32 + 7])
def test_rows_of_the_loader_are_those_of_gossamer(release: Path, tmp_path: Path, seed: int) -> None:
    """Byte for byte, over the end of a piece."""
    job: Any = Job.of(METHODS["marginals"], {"noise_multiplier": 1.0}, CARD)
    certificate: Any = None
    samples = Synthesizer(random_field(), job, certificate, Path("RUN")).sample(ROWS + 300, seed=seed)
    samples.save(tmp_path / "ours.csv")
    answer = alone(
        release, f"import load; load.load().write({str(tmp_path / 'theirs.csv')!r}, {ROWS + 300}, seed={seed})"
    )
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "theirs.csv").read_bytes() == (tmp_path / "ours.csv").read_bytes()
    written = (tmp_path / "ours.csv").read_text()
    assert all(part in written for part in ("other", "-1", "1900-01-01", ";;", "999", "V000007;"))
    assert all(part in written for part in ("was ill", "was well", ";low;", ";high;", ";before", ";after"))
    assert all(f";{part}" in written for part in ("open;", "shut;", "first;", "last;", "quick;", "slow;"))
    assert all(part in written for part in (";s1\n", ";s2\n", ";s3\n")) and ";none\n" not in written
    forms = (r"-€ \d\.\d{3},\d\d", r"\d'\d{3}", "(True|False|);(True|False|other|)", r"02\.01\.20 \d\d:\d\d")
    forms += (r"2020-01-02 00:00:\d\d\.\d\d", r"\d days \d\d:\d\d:\d\d", r"0 days \d\d:\d\d:\d\d\.\d{3}")
    forms += (r"[0-4]\d:[0-5]\d;(0[789]|1[0-2]|0[1-8]):(00|15|30|45) [AP]M;\d+ days;2020-0\d-\d\d \d\d:00:00",)
    for form in forms:
        assert re.search(f";{form};", written), form


def test_columns_of_the_loader_are_arrays(release: Path) -> None:
    code = """
import load
release = load.load()
columns = release.sample(50)
print({name: str(values.dtype) for name, values in columns.items()})
print(len(set(map(len, columns.values()))), columns["bill"].tolist() != release.sample(50)["bill"].tolist())
print(release.sample(0))
"""
    answer = alone(release, code)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "{'id': 'object', 'ill': 'object', 'visits': 'int64', 'bill': 'float64', 'level': 'object', 'size': 'object', "
        "'born': 'datetime64[D]', 'seen': 'datetime64[D]', 'rooms': 'float64', 'pay': 'float64', 'paid': 'int64', "
        "'asleep': 'bool', 'awake': 'object', 'alive': 'object', 'came': 'datetime64[s]', 'went': 'datetime64[us]', "
        "'left': 'object', 'stay': 'timedelta64[s]', 'wait': 'timedelta64[us]', 'gone': 'datetime64[D]', "
        "'grade': 'object', 'note': 'object', 'rung': 'timedelta64[s]', 'meal': 'timedelta64[s]', "
        "'nights': 'timedelta64[s]', 'began': 'datetime64[s]', 'row': 'int64', 'told': 'object', "
        "'era': 'object', 'eyes': 'object', 'part': 'object', 'care': 'object', 'both': 'float64', 'age': 'float64', "
        "'again': 'datetime64[s]', 'sort': 'object'}",
        "1 True",
        "{}",
    ]


def test_the_loader_in_a_terminal(release: Path, tmp_path: Path) -> None:
    def said(*words: object) -> tuple[int, str]:
        command = [sys.executable, "-I", "-B", str(release / "load.py"), *map(str, words)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stderr

    out = tmp_path / "rows.csv"
    assert said(out, 12) == (0, "")
    written = out.read_text()
    assert written.splitlines()[0] == ";".join(column.name for column in CARD.written) and written.count("\n") == 13
    assert said(out, "many") == said() == (1, "usage: python load.py FILE.csv ROWS\n")
    assert said(out, 12)[0] == 1 and out.read_text() == written
    assert said(tmp_path / "none.csv", 0)[0] == 1 and not (tmp_path / "none.csv").exists()


def test_a_changed_model_is_not_loaded(release: Path, tmp_path: Path) -> None:
    for name in ("load.py", "certificate.json", "model.safetensors"):
        (tmp_path / name).write_bytes((release / name).read_bytes())
    with (tmp_path / "model.safetensors").open("ab") as file:
        file.write(b"x")
    answer = alone(tmp_path, "import load; load.load()")
    assert answer.returncode == 1 and "is not the model that the certificate was made for" in answer.stderr
