"""Distinct values of every type are counted exactly: hash by hash, as pyiceberg and mmh3 have them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from tests.examples import examples
from tests.tables.counting import counted, rows
from tests.tables.puffin_reading import hashes_of, ndv, statistics_of
from tests.tables.sinking import Lake

PART = pa.struct([("ra", pa.float64()), ("deep", pa.struct([("n", pa.int32())]))])
SCHEMA = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(20, 3)),
        ("date", pa.date32()),
        ("time", pa.time64("us")),
        ("timestamp", pa.timestamp("us")),
        ("timestamptz", pa.timestamp("us", "UTC")),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("fixed", pa.binary(3)),
        ("uuid", pa.uuid()),
        ("nothing", pa.int64()),
        ("part", PART),
    ]
)
COLUMNS = (*(name for name in SCHEMA.names if name != "part"), "part.ra", "part.deep.n")
MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
FLOATS = st.sampled_from([float("nan"), 0.0, -0.0, 1.5, float("inf"), 2.0**-149])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": FLOATS,
    "double": FLOATS,
    "decimal": st.decimals(-(10**16), 10**16, places=3),
    "date": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "time": st.times(),
    "timestamp": MOMENTS,
    "timestamptz": MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "string": st.text(max_size=3),
    "binary": st.binary(max_size=3),
    "fixed": st.binary(min_size=3, max_size=3),
    "uuid": st.uuids(),
    "nothing": st.none(),
}
ROW = st.fixed_dictionaries(
    {name: st.none() | drawn for name, drawn in VALUES.items()}
    | {
        "part": st.none()
        | st.fixed_dictionaries(
            {
                "ra": st.none() | FLOATS,
                "deep": st.none() | st.fixed_dictionaries({"n": st.none() | st.integers(0, 3)}),
            }
        )
    }
)


def value_at(row: dict[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = None if value is None else value[name]
    return value


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=3))
def test_values_of_every_type_are_counted_exactly(
    tmp_path_factory: pytest.TempPathFactory, nights: list[list[dict[str, Any]]]
) -> None:
    """Hash by hash: by pyiceberg's serialization, the package mmh3, and sets of Python."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    spec = counted(lake, *COLUMNS, partition=["bucket[2](long)"])
    for night in nights:
        outcome = lake.sink(spec, pa.Table.from_pylist(night, SCHEMA))
    table = lake.table(spec)
    found = statistics_of(table)
    assert found is not None
    assert set(found) == set(COLUMNS)
    for name, blob in found.items():
        kind = table.schema().find_field(name).field_type
        assert isinstance(kind, PrimitiveType)
        values = [each for night in nights for row in night if (each := value_at(row, name)) is not None]
        if isinstance(kind, FloatType | DoubleType):  # NaN is one value, and 0.0 and -0.0 are two
            exact = {repr(value): value for value in values}
        else:
            exact = {value: value for value in values}
        hashes = hashes_of(kind, exact.values())
        assert blob.hashes == hashes, name
        assert blob.ndv == len(exact) == outcome.ndv[name]


@pytest.mark.parametrize("partition", [[], ["bucket[4](id)"]])
def test_many_values_are_within_the_error_of_a_sketch(lake: Lake, partition: list[str]) -> None:
    spec = counted(lake, partition=partition, target_file_size="8 KiB")
    for first in (0, 20_000):
        lake.sink(spec, rows(range(first, first + 30_000), str(first)))
    found = ndv(lake.table(spec))
    assert found is not None
    assert found["band"] == 2
    assert abs(found["id"] / 50_000 - 1) < 4 / 4095**0.5
    assert len(lake.live(spec)) >= 8
