"""What certifies a run and writes its report cannot reach its records."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.data.records import Records
from gossamer.privacy.confined import Confined
from gossamer.run.training.open_run import OpenRun


def reachable(start: object) -> Iterator[object]:
    """Everything that attributes, items and closures of our own objects lead to."""
    seen: set[int] = set()
    waiting: list[Any] = [start]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif callable(value):
            waiting += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
            waiting.append(getattr(value, "__self__", None))
        if type(value).__module__.startswith("gossamer."):
            waiting += getattr(value, "__dict__", {}).values()
            if dataclasses.is_dataclass(value):
                waiting += [getattr(value, field.name) for field in dataclasses.fields(value)]


def test_the_walk_sees_what_attributes_items_and_closures_hold() -> None:
    records = Records.__new__(Records)

    def holds(_ignored: int) -> Records:
        return records

    assert any(value is records for value in reachable({"a": [holds]}))


def test_a_run_that_is_certified_leads_to_no_record(
    gossamer: Callable[..., Any], fit_words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither to `Records` nor to the `Confined` that isolates them."""
    runs = []
    whole = OpenRun.finish

    def watched(run: Any, state: Any) -> Any:
        runs.append(run)
        held = [value for value in reachable(run) if isinstance(value, Records | Confined)]
        assert held == []
        return whole(run, state)

    monkeypatch.setattr(OpenRun, "finish", watched)
    answer = gossamer(*fit_words)
    assert answer.status == 0, answer.err
    assert len(runs) == 1 and runs[0].folder.path == tmp_path / "run"
