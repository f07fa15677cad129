"""Filters and conditions on columns of all types, respelt and made up."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
from hipslake.predicates.condition_text import parse_conditions
from hipslake.predicates.evaluation import passing
from hipslake.predicates.filter_text import parse_filter
from hipslake.predicates.pruning import pushed_down

from tests.fuzz.target import Case, Target
from tests.fuzz.typed import text_of, typed

SCHEMA = pa.schema(
    [
        ("mag", pa.float32()),
        ("id", pa.int64()),
        ("big", pa.uint64()),
        ("small", pa.int8()),
        ("name", pa.string()),
        ("long", pa.large_string()),
        ("raw", pa.binary()),
        ("fixed", pa.binary(4)),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("plain", pa.timestamp("ns")),
        ("hour", pa.time64("us")),
        ("price", pa.decimal128(20, 2)),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("list", pa.list_(pa.float64())),
        ("pair", pa.struct([("a", pa.int8())])),
        ("none", pa.null()),
        ("span", pa.duration("s")),
        ("half", pa.float16()),
        ("B-V", pa.float64()),
    ]
)
_NAMES = (*SCHEMA.names, '"B-V"', "nope", "id2")
_SIGNS = (
    "=",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "is",
    "is not",
    "between",
    "and",
    "or",
    "not",
)
_VALUES = (
    *(
        "1",
        "2.5",
        "-7e3",
        "'a'",
        "'2026-11-21'",
        "'2026-11-21T03:30:00Z'",
        "'21:30'",
        "true",
        "false",
        "null",
        "nan",
    ),
    *(
        "(1, 2)",
        "('a', 'b')",
        "1 and 2",
        "0.00000000000000000000000000000000000000000001",
        "'0000'",
        "'9999-12-31'",
    ),
    *("'2026-02-30'", "'2026-11-21T03:30:00.1234567890123'", "'+12026-01-01'", "1e400", "-1e400", "9" * 60),
)
_FILTERS = (
    "mag < 12 and name is not null",
    "id in (1, 2, 3) or not (ok and day >= '2026-11')",
    "ts between '2026-11-01' and '2026-11-02T03:30:00Z'",
    "\"B-V\" > 0.5 and price != 2.50 and hour < '21:30:00'",
    "mag is not nan and word = 'x' and big > 18446744073709551615",
)
_CONDITIONS = (
    "ok == True and 9.0 <= mag < 12.0 and HIP in [1, 2] and period is not null",
    '(C("ok") == True) & C("B-V").isin([1.5, 2.0]) & C("day").in_interval(date("2026-11-21"), None)',
    'name != "x" and ts >= datetime("2026-11-21T03:30:00+00:00")',
)
_CONDITION_WORDS = (
    *(
        "C(",
        ")",
        ".isin(",
        ".in_interval(",
        ".is_null()",
        ".not_null()",
        "date(",
        "datetime(",
        "True",
        "None",
        "lambda:",
    ),
    *(
        "__import__('os')",
        "C('x').__class__",
        "{1: 2}",
        "[i for i in x]",
        "f'{x}'",
        "1_0",
        "0o7",
        "1j",
        "b'x'",
        "...",
    ),
    *(
        "not",
        "|",
        "~",
        "**",
        "<<",
        "is",
        "is not",
        "in",
        "not in",
        ":=",
        "await x",
        "*x",
        "x if y else z",
        "10**10**10",
    ),
)


def _filter_of_all(random: Random) -> Case:
    """A comparison of any column with any value, joined with another."""
    if random.random() < 0.4:
        return text_of(_FILTERS, (*_NAMES, *_SIGNS, *_VALUES))(random)
    parts = [
        f"{random.choice(_NAMES)} {random.choice(_SIGNS[:13])} {random.choice(_VALUES)}" for _ in range(2)
    ]
    return Case(random.choice((" and ", " or ", " and not ")).join(parts[: random.randint(1, 2)]).encode())


@cache
def rows_of_nothing() -> pa.Table:
    return pa.table({field.name: pa.nulls(2, field.type) for field in SCHEMA}, schema=SCHEMA)


def _read_filter(case: Case, folder: Path) -> None:
    found = parse_filter(typed(case), SCHEMA)
    passing(found, rows_of_nothing())
    pushed_down(found, SCHEMA, SCHEMA)
    assert parse_filter(str(found), SCHEMA) == found


def _read_conditions(case: Case, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the old form is among the cases
        found = parse_conditions(typed(case), SCHEMA)
    found.on(SCHEMA.names).meeting(rows_of_nothing())


FILTER = Target("filter", _filter_of_all, _read_filter, share=6)
CONDITIONS = Target(
    "conditions", text_of(_CONDITIONS, (*_CONDITION_WORDS, *_NAMES, *_VALUES)), _read_conditions, share=5
)
