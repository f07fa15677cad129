"""Expressions of derived columns, on columns of all types: respelt, and made up."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
from hipslake.errors import SpecError
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.expression_functions import FUNCTIONS
from hipslake.predicates.expression_text import parse_expression

from tests.fuzz.filters import SCHEMA, rows_of_nothing
from tests.fuzz.target import Case, Target
from tests.fuzz.typed import text_of, typed

_SAMPLES = (
    "25 - 2.5 * log10(mag)",
    'where(ok and id > 0, mag / "B-V", null)',
    "cast(price, float64) ** 2 // -3 % small",
    "time_of_mjd(coalesce(mag, half, 0))",
    "bit_and(big, 7) != 0 or word in ('x', 'y')",
)
_NAMES = (*SCHEMA.names[:-1], '"B-V"', "nope")
_CONSTANTS = (
    "1",
    "2.5",
    "7e3",
    "'a'",
    "'2026-11-21'",
    "true",
    "null",
    "nan",
    "0",
    "9223372036854775807",
    "pi()",
)
_TYPES = ("float64", "int8", "string", "bool", "date32", "timestamp[us]", "decimal128(10, 2)", "binary", "x")
_SIGNS = ("+", "-", "*", "/", "//", "%", "**", "=", "!=", "<", ">=", "and", "or")


def _value(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.1:
        return random.choice(_NAMES if random.random() < 0.7 else _CONSTANTS)
    parts = [_value(random, depth - 1) for _ in range(3)]
    function = random.choice(sorted(FUNCTIONS))
    return random.choice(
        (
            f"{parts[0]} {random.choice(_SIGNS)} {parts[1]}",
            f"({parts[0]} {random.choice(_SIGNS)} {parts[1]})",
            f"{function}({', '.join(parts[: FUNCTIONS[function].least])})",
            f"where({parts[0]} {random.choice(_SIGNS[7:11])} {parts[1]}, {parts[1]}, {parts[2]})",
            f"cast({parts[0]}, '{random.choice(_TYPES)}')",
            f"{parts[0]} is {random.choice(('', 'not '))}{random.choice(('null', 'nan'))}",
            f"not {parts[0]}",
            f"-{parts[0]}",
        )
    )


def _expression(random: Random) -> Case:
    if random.random() < 0.3:
        words = (
            *_NAMES,
            *_CONSTANTS,
            *_SIGNS,
            "where(",
            "cast(",
            "(",
            ")",
            ",",
            "is",
            "null",
            "in",
            "between",
        )
        return text_of(_SAMPLES, words)(random)
    return Case(_value(random, random.randint(1, 4)).encode())


def _read_expression(case: Case, folder: Path) -> None:
    """An expression that fits the columns has values of the type that it says."""
    try:
        found = parse_expression(typed(case))
        kind = found.kind(SCHEMA)
        for rows in rows_of_nothing().to_batches():
            for some in (rows, rows.slice(0, 0)):
                values = found.values(some)
                assert values.type == kind
                assert len(values) == some.num_rows
        assert isinstance(values, pa.Array)
    except UnfitError as error:  # which its users tell with the file
        raise SpecError(str(error)) from None


EXPRESSION = Target("expression", _expression, _read_expression, share=4)
