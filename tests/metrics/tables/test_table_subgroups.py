"""Shares and accuracies of subgroups, by hand."""

import numpy as np
import pytest

from gossamer.data.columns.column import Column
from gossamer.errors import RequestError
from gossamer.metrics.tables.rows import Rows
from gossamer.metrics.tables.subgroups import accuracy_difference, chosen_columns, share_difference

SEX = Column(name="sex", kind="category", values=("f", "m"), outside="other", missing=True)


def of(*codes: int, units: list[int] | None = None) -> Rows:
    return Rows.of(np.array(codes, np.int32)[:, None], None if units is None else np.array(units))


def test_codes_are_called_what_they_stand_for() -> None:
    assert SEX.code_names == ["f", "m", "other", "missing"]
    age = Column(name="age", kind="integer", edges=(17, 18, 21, 2_000_000), zero=True, special=(-1,), missing=True)
    assert age.code_names == ["17", "18 to 20", "21 to 2000000", "0", "-1", "missing"]
    weight = Column(name="w", kind="number", bounds=(0, 1), bins=2, outside="other")
    assert weight.code_names == ["0 to 0.5", "0.5 to 1", "other"]
    day = Column(name="d", kind="date", edges=("2031-01-01", "2031-02-01", "2031-02-28"))
    assert day.code_names == ["2031-01-01 to 2031-01-31", "2031-02-01 to 2031-02-28"]
    for column in (SEX, age, weight, day):
        assert len(column.code_names) == column.size


def test_shares_are_those_of_samples_minus_those_of_units() -> None:
    samples, real = of(0, 0, 0, 1), of(0, 0, 0, 1, units=[3, 3, 3, 8])
    found = share_difference(samples, real, 0, 0)
    assert found is not None and found.value == pytest.approx(0.75 - 0.5) and found.low < 0 < found.high
    assert share_difference(samples, real, 0, 2) is None


def test_accuracies_of_a_subgroup_are_of_its_test_rows() -> None:
    tests = of(*[0] * 50, *[1] * 50, *[2])
    synthetic = np.arange(101) % 2 == 0  # half of both right
    real = np.arange(101) < 50  # all of the first right, none of the second
    right = synthetic, real
    first, second = (accuracy_difference(right, tests, 0, code) for code in (0, 1))
    assert first is not None and second is not None
    assert (first.value, second.value, first.n) == (-0.5, 0.5, 50)
    assert first.high < 0 < second.low
    alone = accuracy_difference(right, tests, 0, 2)
    assert alone is not None and alone.high - alone.low > 0.9  # one row says next to nothing
    assert accuracy_difference(right, tests, 0, 3) is None


def test_columns_of_subgroups_are_checked() -> None:
    wide = Column(name="age", kind="integer", bounds=(0, 99), bins=100)
    assert chosen_columns(("sex",), (wide, SEX)) == [1]
    with pytest.raises(RequestError, match=r"no column 'sexx'. Did you mean 'sex'\? Known: age, sex."):
        chosen_columns(("sexx",), (wide, SEX))
    with pytest.raises(RequestError, match="'age' has 100 values or bins, and at most 50"):
        chosen_columns(("age",), (wide, SEX))
