"""Numbers as people of several countries write them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.data.columns.numbers import Form


def read(example: str, *texts: str, decimal: str = ".") -> list[float | None]:
    """The numbers of texts; None: they are none."""
    numbers, fits = Form.of(example, decimal).read(pa.array(texts))
    assert np.array_equal(fits, ~np.isnan(numbers))
    return [number if fit else None for number, fit in zip(numbers.tolist(), fits.tolist(), strict=True)]


COUNTRIES = {
    "United States": ("$1,234.50", ["$1,234.50", "-$7,654,321.00", "$0.99", "1234.5", "$-12"]),
    "Germany": ("1.234,50 €", ["1.234,50 €", "-7.654.321,00 €", "0,99 €", "1234,5", "-12€"]),
    "France": ("1 234,50 €", ["1\u202f234,50\u00a0€", "-7 654 321,00 €", "0,99 €", "1234,5", "-12"]),
    "Switzerland": ("CHF 1'234.50", ["CHF 1'234.50", "-CHF 7’654’321.00", "CHF 0.99", "1234.5", "CHF -12"]),
    "Brazil": ("R$ 1.234,50", ["R$ 1.234,50", "R$ -7.654.321,00", "R$ 0,99", "1234,5", "-R$12"]),
}
NUMBERS = [1234.5, -7_654_321, 0.99, 1234.5, -12]


@pytest.mark.parametrize("country", COUNTRIES)
def test_money(country: str) -> None:
    example, texts = COUNTRIES[country]
    assert read(example, *texts) == NUMBERS
    form = Form.of(example)
    assert form.example == example.replace(",50", ",00").replace(".50", ".00")
    assert read(example, *form.write(NUMBERS)) == NUMBERS


def test_parentheses_are_a_minus() -> None:
    texts = ["(1,234.50)", " ($12) ", "$(0.99)", "$ (3)", "(7)"]
    assert read("$1,234.50", *texts) == [-1234.5, -12, -0.99, -3, -7]
    assert read("1234.5", "(7.25)") == [-7.25] and read("1.234,5 €", "(1.234,50 €)") == [-1234.5]
    assert read("1234", "(-7)", "()", "(7", "7)", "((7))", "(7) 8", "5 (7)", "(x)") == [None] * 8


def test_how_negative_numbers_are_written() -> None:
    assert Form.of("$1,234.50").write([-1234.5, -0.001, 0, 1e6]) == ["-$1,234.50", "$0.00", "$0.00", "$1,000,000.00"]
    assert Form.of("1.234,5 €").write([-1234.56]) == ["-1.234,6 €"]
    assert Form(decimal=",").write([-0.25, 1e-7]) == ["-0,25", "1e-07"]


def test_percent_is_no_division() -> None:
    assert read("1,234 %", "12 %", "12%", "-3.5 %", "12", "% 12") == [12, 12, -3.5, 12, None]


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ("1,234.50", "1,23"), ("1,234.50", "12,34.5"), ("1,234.50", "1,2345"), ("1,234.50", "1.234,50"), ("1,234.50", ",123"),
        ("1.234,50", "1.23"), ("1.234,50", "1.234.5"), ("1.234,50", "0.5"), ("1.234,50", "1,234.50"), ("1234,5", "1.234"),
        ("1 234,50", "1 23"), ("1'234.50", "1'23"), ("1234.50", "1,234"), ("1234.50", "1 234"),
        ("$1,234", "€5"), ("$1,234", "5$"), ("$1,234", "-$-5"), ("$1,234", "--5"), ("$1,234", "$"),
        ("1234", "1_000"), ("1234", "٣"), ("1234", "inf"), ("1234", "nan"), ("1234", "1e999"), ("1234", "1 e5"), ("1234", "."),
        ("1234", ""), ("1234", "0x"), ("1234", "0x1G"), ("1234", "12a"),
    ],
)  # fmt: skip
def test_what_is_no_number(example: str, text: str) -> None:
    assert read(example, text, "5") == [None, 5]


def test_what_programs_take_for_numbers() -> None:
    texts = ["1e5", "+5", "1E-2", ".5", "5.", " 7 ", "true", "FALSE", "0x1A", "-0"]
    assert read("1234", *texts) == [1e5, 5, 0.01, 0.5, 5, 7, 1, 0, 26, 0]


def test_the_decimal_point_of_the_table_is_for_examples_that_show_none() -> None:
    assert read("1234", "1,5", "1.5", decimal=",") == [1.5, None]
    assert read("1 234", "1,5", "1.5", decimal=",") == [1.5, None]
    assert read("1.234", "1,5", "1.500") == read("1.234", "1,5", "1.500", decimal=",") == [1.5, 1500]
    assert read("1,234", "1.5", "1,500", decimal=",") == [1.5, 1500]


@pytest.mark.parametrize(
    "example", ["1.234.5", "1,234,5", "12.34", "1234-", "(1,234)", "1235", "5 1234", "", "€", "1;234", "-1234"]
)
def test_what_is_no_example(example: str) -> None:
    with pytest.raises(ValueError):
        Form.of(example)


@given(
    st.sampled_from([country[0] for country in COUNTRIES.values()] + ["1234.5", "1234,5", "1,234 %"]),
    st.lists(st.floats(-1e12, 1e12), min_size=1),
)
def test_reading_undoes_writing(example: str, numbers: list[float]) -> None:
    form = Form.of(example)
    assert form.digits is not None
    rounded = [float(f"{number:.{form.digits}f}") for number in numbers]
    assert read(example, *form.write(numbers)) == rounded
