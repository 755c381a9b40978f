import math

import pytest

from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, REPLACE_ONE, Guarantee, in_full, rounded_up


def test_prints_all_four_parts_and_rounds_up() -> None:
    guarantee = Guarantee(epsilon=9.98111, delta=1e-5, relation=ADD_OR_REMOVE_ONE, unit="record")
    assert str(guarantee) == "epsilon 9.982 at delta 1e-05, add-or-remove-one record"


def test_a_figure_that_is_exact_is_not_raised() -> None:
    assert "epsilon 0.300 " in str(Guarantee(epsilon=0.3, delta=1e-5, relation=REPLACE_ONE, unit="client"))


@pytest.mark.parametrize(
    ("bound", "digits", "printed"),
    [
        (9.9981, 3, "9.999"), (9.998, 3, "9.998"), (9.9980000001, 3, "9.999"), (math.nextafter(9.998, 10), 3, "9.999"),
        (4e-7, 3, "0.001"), (5e-324, 3, "0.001"), (0.0, 3, "0.000"), (1e22, 3, "10000000000000000000000.000"),
        (2.001, 2, "2.01"), (math.inf, 3, "infinity"),
    ],
)  # fmt: skip
def test_what_is_printed_is_never_less_than_the_bound(bound: float, digits: int, printed: str) -> None:
    assert rounded_up(bound, digits) == printed
    assert float(printed.replace("infinity", "inf")) >= bound


def test_a_delta_is_printed_with_all_its_digits() -> None:
    deltas = (1e-5, 1.2345612e-6, 1 / 3, 5e-324)
    assert all(float(in_full(delta)) == delta for delta in deltas)
    guarantee = Guarantee(epsilon=1.0, delta=1.2345612e-6, relation=REPLACE_ONE, unit="client")
    assert str(guarantee) == "epsilon 1.000 at delta 1.2345612e-06, replace-one client"


def test_infinity_is_said_in_words_and_survives_json() -> None:
    guarantee = Guarantee(epsilon=math.inf, delta=0.0, relation=REPLACE_ONE, unit="client")
    assert "infinity (no formal guarantee)" in str(guarantee)
    assert guarantee.to_json()["epsilon"] == "inf"
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


@pytest.mark.parametrize(
    "change",
    [{"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 1.0}, {"delta": -1e-9}, {"unit": ""}, {"relation": None}],
)
def test_refuses_what_makes_no_sense(change: dict) -> None:
    parts = {"epsilon": 1.0, "delta": 1e-5, "relation": ADD_OR_REMOVE_ONE, "unit": "record"}
    with pytest.raises(ValueError, match="must"):
        Guarantee(**{**parts, **change})


@pytest.mark.parametrize("missing", ["epsilon", "delta", "relation", "unit"])
def test_none_of_the_four_can_be_left_out(missing: str) -> None:
    parts = {"epsilon": 1.0, "delta": 1e-5, "relation": ADD_OR_REMOVE_ONE, "unit": "record"}
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        Guarantee(**parts)
