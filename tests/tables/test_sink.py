"""Sinks into real Iceberg tables, on the engine of this process."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError, SchemaMismatchError, SpecError
from pyiceberg.transforms import parse_transform
from pyiceberg.types import LongType, StringType, TimestampType

from tests.tables.sinking import Lake


def sample(count: int = 1000, seed: int = 0, first: int = 0) -> pa.Table:
    """Rows of the RFC's table: id, data, category, ts; four years, some nulls."""
    random = np.random.default_rng(seed)
    start = np.datetime64("1968-01-01", "us")
    ts = start + random.integers(0, 4 * 365, count) * np.timedelta64(1, "D")
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count), pa.int64()),
            "data": pa.array(
                [f"d{n}" for n in random.integers(0, 1000, count)], mask=random.random(count) < 0.05
            ),
            "category": pa.array(random.choice(["a", "b", "銀河"], count)),
            "ts": pa.array(ts, mask=random.random(count) < 0.05),
        }
    )


RFC = [
    (1, "append", ["year(ts)"]),
    (2, "append", ["bucket[16](id)", "year(ts)"]),
    (3, "upsert", ["year(ts)"]),
    (4, "upsert", ["bucket[16](data)", "year(ts)"]),
]


def expected_values(rows: pa.Table, partition: list[str]) -> set[tuple[object, ...]]:
    """The partition values of rows, by pyiceberg."""
    kinds = {"id": LongType(), "data": StringType(), "ts": TimestampType()}
    columns = []
    for text in partition:
        name, _, source = text.rstrip(")").partition("(")
        apply = parse_transform(name).transform(kinds[source])
        values = rows[source].cast(pa.int64()) if source == "ts" else rows[source]
        columns.append([apply(value) for value in values.to_pylist()])
    return set(zip(*columns, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("case", "mode", "partition"), RFC)
def test_the_tables_of_the_rfc_get_one_file_per_partition_value(
    lake: Lake, case: int, mode: str, partition: list[str]
) -> None:
    key = {"key": "id"} if mode == "upsert" else {}
    spec = lake.spec(partition=partition, mode=mode, sort=["ts desc", "id"], **key)
    rows = sample()
    done = lake.sink(spec, rows)
    values = expected_values(rows, partition)
    assert done.case == case
    assert done.created
    assert (done.rows_in, done.rows_out) == (1000, 1000)
    assert done.expected_files == done.files_added == len(values)
    assert lake.rows(spec).equals(rows.cast(lake.rows(spec).schema))
    table = lake.table(spec)
    entries = table.inspect.files().to_pylist()
    assert {tuple(entry["partition"].values()) for entry in entries} == values
    assert lake.files(spec) == lake.live(spec)


@pytest.mark.parametrize(("case", "mode", "partition"), RFC)
def test_files_are_sorted_and_their_statistics_are_whole(
    lake: Lake, case: int, mode: str, partition: list[str]
) -> None:
    import pyarrow.parquet as pq

    key = {"key": "id"} if mode == "upsert" else {}
    spec = lake.spec(partition=partition, mode=mode, sort=["ts desc", "id"], **key)
    rows = sample().append_column(
        "flux", pa.array(np.where(np.arange(1000) % 7 == 0, np.nan, np.arange(1000.0)))
    )
    lake.sink(spec, rows)
    table = lake.table(spec)
    for entry in table.inspect.files().to_pylist():
        found = pq.read_table(entry["file_path"])
        assert found.sort_by([("id", "ascending")]).num_rows == entry["record_count"]
        ts = found["ts"].cast(pa.int64()).to_pylist()
        known = [value for value in ts if value is not None]
        assert ts == sorted(known, reverse=True) + [None] * (len(ts) - len(known))
        told = entry["readable_metrics"]
        assert told["id"]["lower_bound"] == min(found["id"].to_pylist())
        assert told["id"]["upper_bound"] == max(found["id"].to_pylist())
        assert told["ts"]["null_value_count"] == found["ts"].null_count
        assert told["flux"]["nan_value_count"] == np.isnan(found["flux"].to_numpy()).sum()
        assert told["id"]["value_count"] == found.num_rows
        ids = [found.schema.field(at).metadata[b"PARQUET:field_id"] for at in range(5)]
        assert ids == [b"1", b"2", b"3", b"4", b"5"]


def test_predicates_of_pyiceberg_find_their_rows(lake: Lake) -> None:
    spec = lake.spec(partition=["bucket[16](id)", "year(ts)"])
    rows = sample()
    lake.sink(spec, rows)
    table = lake.table(spec)
    assert table.scan("id = 77").to_arrow()["id"].to_pylist() == [77]
    assert len(list(table.scan("id = 77").plan_files())) < 6
    before = table.scan("ts < '1970-01-01T00:00:00'").to_arrow()
    expected = [t for t in rows["ts"].to_pylist() if t is not None and t < dt.datetime(1970, 1, 1)]
    assert before.num_rows == len(expected)


def test_a_second_append_adds_its_rows_and_its_columns(lake: Lake) -> None:
    spec = lake.spec(partition=["bucket[4](id)"])
    lake.sink(spec, sample(100))
    more = sample(50, first=100).append_column("mag", pa.array(np.arange(50, dtype=np.float32)))
    done = lake.sink(spec, more)
    assert not done.created
    assert done.columns_added == ("mag",)
    found = lake.rows(spec)
    assert found["id"].to_pylist() == list(range(150))
    assert found["mag"].to_pylist() == [None] * 100 + [float(n) for n in range(50)]
    lake.sink(spec, sample(10, first=150).drop_columns(["data"]))
    assert lake.rows(spec)["data"].null_count >= 10


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (
            pa.array(["x"]),
            "column 'id' is of type int32 there and string in the source; the table's is another",
        ),
        (pa.array([1], pa.int64()), "the table's is narrower, and would lose values"),
    ],
)
def test_a_column_of_another_type_is_refused(lake: Lake, column: pa.Array, told: str) -> None:
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": pa.array([1], pa.int32())}))
    with pytest.raises(SchemaMismatchError, match=told):
        lake.sink(spec, pa.table({"id": column}))
    assert lake.rows(spec).num_rows == 1


def test_a_narrower_column_is_widened(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": pa.array([2], pa.int64()), "x": pa.array([1.5], pa.float64())}))
    lake.sink(spec, pa.table({"id": pa.array([1], pa.int16()), "x": pa.array([0.5], pa.float32())}))
    assert lake.rows(spec).to_pydict() == {"id": [1, 2], "x": [0.5, 1.5]}


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (
            {"partition": ["nothing"]},
            SchemaMismatchError,
            "partition: the rows have no column 'nothing'; they have id",
        ),
        ({"sort": ["nothing"]}, SchemaMismatchError, "sort: the rows have no column 'nothing'"),
        ({"mode": "upsert", "key": "nothing"}, SchemaMismatchError, "key: the rows have no column 'nothing'"),
        ({"partition": ["year(id)"]}, SpecError, r"partition: year\(id\): column 'id' is of type int64"),
        (
            {"partition": ["healpix[5]"]},
            SchemaMismatchError,
            r"which healpix\[5\] needs, has no column '_healpix_29'",
        ),
    ],
)
def test_fields_that_do_not_fit_are_told(
    lake: Lake, given: dict[str, object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        lake.sink(lake.spec(**given), sample(3))


def test_a_column_without_an_order_cannot_say_which_row_is_the_last(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key=["id"], duplicates="last by v")
    with pytest.raises(SpecError, match=r"duplicates: column 'v' is of type list.*; take a number"):
        lake.sink(spec, pa.table({"id": [1, 1], "v": [[1], [2]]}))


def test_nulls_in_a_column_that_the_table_requires_are_told(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": [1, 2], "v": ["a", "b"]}))
    with lake.table(spec).update_schema(allow_incompatible_changes=True) as update:
        update._set_column_requirement("v", required=True)
    with pytest.raises(InputError, match=r"column 'v': 1 rows or more .* the table requires it; filter"):
        lake.sink(spec, pa.table({"id": [3, 4], "v": ["c", None]}))
    lake.sink(spec, pa.table({"id": [3], "v": ["c"]}))
    assert lake.rows(spec)["v"].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("v desc", ["nan", "5.0", "-0.5", "None"]),
        ("v desc nulls first", ["None", "nan", "5.0", "-0.5"]),
        ("v", ["None", "-0.5", "5.0", "nan"]),
        ("v nulls last", ["-0.5", "5.0", "nan", "None"]),
    ],
)
def test_nan_is_the_greatest_number_of_a_sort_order(lake: Lake, order: str, expected: list[str]) -> None:
    lake.sink(lake.spec(sort=[order]), pa.table({"id": [1, 2, 3, 4], "v": [5.0, float("nan"), None, -0.5]}))
    (path,) = lake.live(lake.spec())
    assert [str(value) for value in pq.read_table(path)["v"].to_pylist()] == expected


def test_a_table_that_is_partitioned_in_another_way_is_told(lake: Lake) -> None:
    lake.sink(lake.spec(partition=["year(ts)"]), sample(10))
    with pytest.raises(SchemaMismatchError, match=r"is partitioned by year\(ts\), the spec says category"):
        lake.sink(lake.spec(partition=["category"]), sample(10))


def test_a_table_is_partitioned_by_sky(lake: Lake) -> None:
    random = np.random.default_rng(1)
    pixels = random.integers(0, 12 * 4**29, 2000)
    rows = pa.table({"id": np.arange(2000), "_healpix_29": pixels})
    spec = lake.spec(partition=["healpix[1]"], sort=["_healpix_29"])
    done = lake.sink(spec, rows)
    assert done.files_added == 48
    found = lake.rows(spec)
    assert found["_healpix_1"].to_pylist() == (pixels >> 56).tolist()
    table = lake.table(spec)
    assert str(table.spec().fields[0].transform) == "identity"
    assert len(list(table.scan("_healpix_1 = 7").plan_files())) == 1
    low = 7 << 56
    assert (
        len(list(table.scan(f"_healpix_29 >= {low} and _healpix_29 < {low + (1 << 56)}").plan_files())) == 1
    )
