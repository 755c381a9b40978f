"""Formulas of columns of numbers, such as `principal + interest + fees` or `(left - came) / 3600`."""

import ast
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

_OPERATORS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}
_MOST_DIGITS = 9
_MOST_LETTERS = 1_000
_LARGEST = 2**53

Numbers: TypeAlias = tuple[np.ndarray, int | None]
"""Values, float64 [n], NaN where there is none, and their digits after the point. None: as many as they need."""


def compute(formula: str, column: Callable[[str], Numbers]) -> Numbers:
    """The values of a formula. There is none where a part is missing, or where the result is no finite number below 2^53.

    Sums and products are rounded to the digits that their parts have, so that 0.1 + 0.2 is 0.3.

    Args:
        formula: sums, differences, products and ratios of columns and numbers. The name of a column is in single quotes, unless
            it has letters, digits and _ alone.
        column: gives the values of a column, by its name.

    Raises:
        ValueError: it is no such formula, or names no column.
    """
    try:
        if len(formula) > _MOST_LETTERS:
            raise ValueError
        with np.errstate(all="ignore"):
            values, digits = _value(ast.parse(formula.strip(), mode="eval").body, column)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError from None
    if not np.ndim(values):
        raise ValueError
    return np.where(np.abs(values) < _LARGEST, values, np.nan), digits


def _value(node: ast.expr, column: Callable[[str], Numbers]) -> Numbers:
    match node:
        case ast.Name(id=name) | ast.Constant(value=str(name)):
            return column(name)
        case ast.Constant(value=int(number) | float(number)):
            text = repr(number)
            return np.array(float(number)), None if "e" in text else len(text.partition(".")[2].rstrip("0"))
        case ast.UnaryOp(op=ast.USub(), operand=part):
            values, digits = _value(part, column)
            return -values, digits
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            (one, of_one), (other, of_other) = _value(left, column), _value(right, column)
            values = _OPERATORS[type(operator)](one, other)
            if of_one is None or of_other is None or isinstance(operator, ast.Div):
                return values, None
            digits = of_one + of_other if isinstance(operator, ast.Mult) else max(of_one, of_other)
            return (np.round(values, digits), digits) if digits <= _MOST_DIGITS else (values, None)
    raise ValueError
