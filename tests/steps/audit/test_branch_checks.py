"""The checks of an audit, beside plain Python and SQLite."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.specs.audit_spec import AuditSpec
from hipslake.steps.audit.branch_checks import BranchRows, column_checks
from hipslake.steps.audit.sql_check import sql_check
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True)
class Given(BranchRows):
    """Rows in memory, in batches."""

    table: pa.Table = field(default_factory=lambda: pa.table({}))

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches(max_chunksize=3)


def given_rows(table: pa.Table) -> Given:
    return Given((), table.schema, table)


def outcome(table: pa.Table, **spec: Any) -> dict[str, tuple[bool, str]]:
    checks = column_checks(AuditSpec.model_validate(spec), given_rows(table))
    return {each.check: (each.ok, each.found) for each in checks}


ints = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
floats = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]), st.floats(width=64))
bounds = st.one_of(st.integers(-4, 4), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(-4, 4))


@pytest.mark.properties
@given(
    rows=st.lists(st.tuples(ints, floats, st.one_of(st.none(), st.sampled_from("abcé"))), max_size=25),
    low=st.one_of(st.none(), bounds),
    high=bounds,
    unique=st.lists(st.sampled_from(["i", "x", "t"]), min_size=1, unique=True),
    least=st.integers(0, 20),
)
def test_checks_find_what_plain_python_finds(
    rows: list[tuple[Any, ...]], low: float | None, high: float, unique: list[str], least: int
) -> None:
    table = pa.table(
        {
            "i": pa.array([row[0] for row in rows], pa.int64()),
            "x": pa.array([row[1] for row in rows], pa.float64()),
            "t": pa.array([row[2] for row in rows], pa.string()),
        }
    )
    if low is not None and low > high:
        low, high = high, low
    limits = {"max": high} | ({} if low is None else {"min": low})
    found = outcome(
        table,
        rows={"min": least},
        not_null=["i", "t"],
        ranges={"i": limits, "x": limits, "t": {"min": "b"}},
        unique=unique,
    )
    assert next(ok for ok, _ in found.values()) is (len(rows) >= least)

    def passed(name: str) -> bool:
        [ok] = [ok for check, (ok, _) in found.items() if check.startswith(name)]
        return ok

    def outside(value: Any) -> bool:
        return value is not None and not ((low is None or value >= low) and value <= high)

    for at, name in enumerate(("i", "x")):
        wrong = [row[at] for row in rows if outside(row[at])]
        assert passed(f"ranges: {name} ") is not bool(wrong)
        if wrong:
            [told] = [told for check, (_, told) in found.items() if check.startswith(f"ranges: {name} ")]
            assert told.startswith(f"{len(wrong)} values do not")
    assert passed("ranges: t ") is not any(row[2] is not None and row[2] < "b" for row in rows)
    for at, name in ((0, "i"), (2, "t")):
        assert passed(f"not_null: {name}") is all(row[at] is not None for row in rows)
    keys = [tuple("nan" if value != value else value for value in key) for key in _keys(rows, unique)]
    again = sum(count - 1 for count in Counter(keys).values())
    assert passed("unique: ") is not bool(again)
    if again:
        [told] = [told for check, (_, told) in found.items() if check.startswith("unique: ")]
        assert told.startswith(f"{again} rows repeat another")


def test_reals_are_told_apart_as_by_group_by() -> None:
    strange = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    for kind in (pa.float32(), pa.float64()):
        table = pa.table({"x": pa.array([0.0, -0.0, math.nan, strange, 1.0, None, None], kind)})
        found = outcome(table, unique=["x"])["unique: x"]
        assert found == (False, "2 rows repeat another, such as 0.0, nan")


def _keys(rows: list[tuple[Any, ...]], names: list[str]) -> list[tuple[Any, ...]]:
    at = [("i", "x", "t").index(name) for name in names]
    chosen = [tuple(row[number] for number in at) for row in rows]
    return [key for key in chosen if None not in key]


@pytest.mark.parametrize(
    ("kind", "inside", "beyond", "limits"),
    [
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC), None),
        (pa.timestamp("us"), datetime(2026, 1, 2), datetime(2026, 3, 1), None),
        (pa.date32(), date(2026, 1, 2), date(2026, 3, 1), None),
        (pa.decimal128(9, 3), Decimal("1.500"), Decimal("7.001"), {"min": 1.5, "max": 7}),
        (pa.int32(), 7, 8, {"min": 0.5, "max": 7.9}),
        (pa.int32(), 7, -8, {"min": 0, "max": 1 << 40}),
        (pa.float32(), 7.0, math.nan, {"min": 0}),
        (pa.string(), "m", "z", {"min": "a", "max": "n"}),
    ],
)
def test_bounds_are_values_of_the_column(kind: pa.DataType, inside: Any, beyond: Any, limits: Any) -> None:
    limits = limits or {"min": "2026-01-01", "max": "2026-02-01T00:00:00"}
    for values, ok in (([inside, None], True), ([inside, beyond], False)):
        found = outcome(pa.table({"v": pa.array(values, kind)}), ranges={"v": limits})
        assert [each for each, _ in found.values()] == [ok]


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"not_null": ["rah"]}, SchemaMismatchError, "no column 'rah'; its columns are ra, flag, ts"),
        ({"ranges": {"ra": {"min": "now"}}}, SpecError, "'now' is a text, and the column is of type double"),
        ({"ranges": {"flag": {"min": 0}}}, SpecError, "ranges are of numbers, texts, dates and times"),
        ({"ranges": {"ts": {"min": "tonight"}}}, SpecError, "'tonight' is no value of type timestamp"),
        ({"unique": ["ra", "flux"]}, SpecError, "unique.flux: the column is of type list<item: double>"),
        ({"ranges": {"ts": {"min": 3}}}, SpecError, "3 is a number, and the column is of type timestamp"),
    ],
)
def test_checks_that_do_not_fit_are_refused(spec: dict[str, Any], error: type[Exception], says: str) -> None:
    table = pa.table(
        {"ra": [1.0], "flag": [True], "ts": pa.array([0], pa.timestamp("us")), "flux": [[1.0]]},
    )
    with pytest.raises(error, match=says):
        outcome(table, **spec)


@pytest.mark.properties
@given(rows=st.lists(st.tuples(st.integers(-5, 5), st.sampled_from("abc")), max_size=20))
def test_sql_gives_the_rows_that_sqlite_gives(rows: list[tuple[int, str]]) -> None:
    text = (
        "select b.t, count(*) from came c join branch b using (i) where c.i > 0 "
        "group by b.t having count(*) > 1"
    )
    table = pa.table({"i": pa.array([row[0] for row in rows], pa.int64()), "t": [row[1] for row in rows]})
    table = table.set_column(1, "t", table["t"].cast(pa.string()))
    found = sql_check(text, {"came": given_rows(table.slice(0, len(rows) // 2)), "branch": given_rows(table)})
    with sqlite3.connect(":memory:") as oracle:
        for name, some in (("came", rows[: len(rows) // 2]), ("branch", rows)):
            oracle.execute(f"create table {name} (i, t)")
            oracle.executemany(f"insert into {name} values (?, ?)", some)
        wanted = oracle.execute(text).fetchall()
    assert found.ok is not bool(wanted)
    if wanted:
        assert found.found.startswith(f"it gives {len(wanted)} rows")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select 1; select 2", "is 2 statements"),
        ("create table x as select 1", "has to be a SELECT"),
        ("copy came to '/tmp/x.csv'", "has to be a SELECT"),
        ("selekt 1", "DuckDB refuses it"),
        ("select * from nowhere", "DuckDB refuses it: .*it can name the tables came and branch"),
        ("select rah from came", "DuckDB refuses it: .*rah"),
        ("select * from read_csv('/etc/passwd')", "DuckDB refuses it"),
        ("select * from '/etc/passwd'", "DuckDB refuses it"),
        ("select * from read_text('/etc/passwd')", "DuckDB refuses it"),
        ("select * from batches", "DuckDB refuses it"),  # no variable of Python
    ],
)
def test_sql_that_is_no_check_is_refused(text: str, says: str) -> None:
    table = given_rows(pa.table({"ra": [1.0]}))
    with pytest.raises(SpecError, match=says):
        sql_check(text, {"came": table, "branch": table})


def test_one_row_of_sql_is_enough_to_fail() -> None:
    table = given_rows(pa.table({"ra": [1.0, 400.0], "name": ["a", "b"]}))
    found = sql_check("SELECT * FROM CAME WHERE ra > 360", {"came": table, "branch": table})
    assert (found.ok, found.found) == (False, "it gives 1 rows, such as (ra=400.0, name=b)")
    assert sql_check("from came where false", {"came": table, "branch": table}).ok
