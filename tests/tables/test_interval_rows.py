"""Which rows and files an interval replaces: against plain Python, for every type that has intervals."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hipslake.predicates.evaluation import truth
from hipslake.tables.file_pruning import files_in_interval, in_interval
from hipslake.tables.iceberg.data_files import IcebergFile
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

KINDS: list[tuple[pa.DataType, Any]] = [
    (pa.date32(), DateType()),
    (pa.timestamp("us"), TimestampType()),
    (pa.timestamp("us", "UTC"), TimestamptzType()),
]
MOMENTS = st.datetimes(datetime.datetime(2026, 11, 20), datetime.datetime(2026, 11, 23))


def cut_to(kind: pa.DataType, moment: datetime.datetime) -> datetime.datetime:
    """What a column of a type holds of a moment."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0) if kind == pa.date32() else moment


@pytest.mark.parametrize(("kind", "stored"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(values=st.lists(MOMENTS | st.none(), min_size=1, max_size=5), first=MOMENTS, last=st.none() | MOMENTS)
def test_rows_and_files_of_an_interval(
    kind: pa.DataType,
    stored: Any,
    values: list[datetime.datetime | None],
    first: datetime.datetime,
    last: datetime.datetime | None,
) -> None:
    there = [None if value is None else cut_to(kind, value) for value in values]
    inside = [None if at is None else first <= at and (last is None or at < last) for at in there]
    column = pa.array(there, pa.timestamp("us")).cast(pa.timestamp("us") if kind == pa.date32() else kind)
    rows = pa.table({"t": column.cast(kind)})
    start, end = (None if at is None else at.replace(tzinfo=datetime.UTC) for at in (first, last))
    assert start is not None
    found = truth(in_interval("t", start, end), rows).to_pylist()
    assert [each is True for each in found] == [each is True for each in inside]
    assert [each is None for each in found] == [each is None for each in inside]
    file = data_file(rows["t"], stored)
    whole, some = files_in_interval([file], rows.schema, "t", start, end)
    assert (whole == [file]) <= all(each is True for each in inside)
    assert (whole == [] and some == []) <= (True not in inside)
    if None not in inside and False not in inside:
        assert whole == [file]


def data_file(column: pa.ChunkedArray, stored: Any) -> IcebergFile:
    """What a manifest says of a file with one column."""
    ticks = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64()).drop_null().to_pylist()
    sides = [{1: to_bytes(stored, side(ticks))} if ticks else {} for side in (min, max)]
    entry: Any = SimpleNamespace(
        lower_bounds=sides[0],
        upper_bounds=sides[1],
        null_value_counts={1: column.null_count},
        record_count=len(column),
    )
    table: Any = SimpleNamespace(schema=lambda: Schema(NestedField(1, "t", stored)))
    return IcebergFile(entry, table)
