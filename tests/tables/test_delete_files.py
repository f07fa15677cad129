"""Rows that delete files take away are not read: by position, by value, by sequence and partition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.cube.store.dataset_sources import IcebergRows
from hipslake.errors import CorruptFileError, HipslakeError, PlanError
from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, StringType

from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import RowDelta
from tests.tables.sinking import Lake


def rows(*ids: int, band: str | None = "g", **more: Any) -> pa.Table:
    count = len(ids)
    given = {name: [value] * count for name, value in more.items()}
    return pa.table({"id": pa.array(ids, pa.int64()), "band": pa.array([band] * count, pa.string()), **given})


def opened(lake: Lake, version: int | None = None) -> OpenTable:
    spec = lake.spec()
    return OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse, version=version)


def ids(lake: Lake, version: int | None = None) -> list[int]:
    """The ids of a version, after a look whether it has the rows that plain Python reads."""
    read = opened(lake, version).read()
    if version is None:
        assert counted(read.to_pylist()) == counted(plain_rows(lake.table(lake.spec())))
    return sorted(read["id"].to_pylist())


def made(lake: Lake, *batches: pa.Table, **given: Any) -> Table:
    for number, batch in enumerate(batches):
        lake.sink(lake.spec(name=f"sink_{number}", **given), batch)
    return lake.table(lake.spec())


def places(lake: Lake) -> dict[int, tuple[str, int]]:
    """Where each id lies, by a plain look into all live files."""
    found = {}
    for path in lake.live(lake.spec()):
        for at, number in enumerate(pq.read_table(path)["id"].to_pylist()):
            found[number] = str(path), at
    return found


def committed(table: Table, *fill: Callable[[RowDelta], object], spec: int | None = None) -> int:
    delta = RowDelta(table.refresh(), spec)
    for each in fill:
        each(delta)
    return delta.commit()


def test_positions_go_in_whatever_order_and_however_often_they_are_told(lake: Lake) -> None:
    table = made(lake, rows(1, 2, 3, 4), rows(5, 6))
    at = places(lake)
    told = [at[6], at[4], at[1], at[4], ("/gone.parquet", 0), (at[1][0], 99)]
    more = pa.table({"row": [{"id": n} for n in range(6)], "x": range(6)})
    committed(table, lambda delta: delta.positions(told, more=more))
    assert ids(lake) == [2, 3, 5]
    assert lake.rows(lake.spec())["id"].to_pylist() == [2, 3, 5]  # so does pyiceberg
    assert opened(lake).rows is None
    before = opened(lake).versions()[0]
    assert (before.rows, ids(lake, before.version)) == (4, [1, 2, 3, 4])


def test_values_take_rows_of_older_files_only_and_positions_those_of_the_same_snapshot(lake: Lake) -> None:
    table = made(lake, rows(1, 2, 3))
    delta = RowDelta(table)  # as RisingWave and Flink write an update: 2 twice, 3 once, 9 put and deleted
    path = delta.data(rows(2, 2, 3, 9, band="new"))
    delta.values(pa.table({"id": pa.array([2, 3, 9], pa.int64())}))
    delta.positions([(path, 0), (path, 3)])
    delta.commit()
    assert ids(lake) == [1, 2, 3]
    assert sorted(opened(lake).read()["band"].to_pylist()) == ["g", "new", "new"]
    lake.sink(lake.spec(name="later"), rows(9))
    assert ids(lake) == [1, 2, 3, 9]


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        (pa.array([1, None, 3], pa.int64()), [None, 3]),
        (pa.array(["a", None, ""], pa.string()), [None, ""]),
        (pa.array([float("nan"), -0.0, 0.0, None, 1.5]), [float("nan"), -0.0]),
        (pa.array([dt.date(1969, 1, 1), None], pa.date32()), [dt.date(1969, 1, 1)]),
        (pa.array([Decimal("1.50"), Decimal("-1.50")]), [Decimal("1.50")]),
        (pa.array([True, False, None]), [False]),
        (pa.array([b"", b"x", None]), [b""]),
        (pa.array([dt.datetime(1, 1, 1), None], pa.timestamp("us")), [None]),
    ],
)
def test_values_of_any_type_are_equal_or_not(lake: Lake, values: pa.Array, gone: list[Any]) -> None:
    table = made(lake, pa.table({"id": range(len(values)), "x": values}))
    there = pa.array(gone, values.type)
    stays = [n for n, value in enumerate(values.to_pylist()) if str(value) not in map(str, gone)]
    committed(table, lambda delta: delta.values(pa.table({"x": there})))
    assert ids(lake) == stays
    committed(
        table, lambda delta: delta.values(pa.table({"x": there, "id": pa.array([stays[0]] * len(there))}))
    )
    assert ids(lake) == stays  # both columns count
    pair = pa.table({"x": values.take(pa.array([stays[0]])), "id": pa.array([stays[0]])})
    committed(table, lambda delta: delta.values(pair))
    assert ids(lake) == stays[1:]


def test_deletes_of_a_partition_stay_in_it_and_those_without_partitions_go_everywhere(lake: Lake) -> None:
    table = made(lake, rows(1, 2), partition=["band"])
    lake.sink(lake.spec(name="other", partition=["band"]), rows(1, 2, band=None))
    gone = pa.table({"id": pa.array([1], pa.int64())})
    committed(table, lambda delta: delta.values(gone, ["g"]))
    assert ids(lake) == [1, 2, 2]
    at = places(lake)[2]  # of one of both files; told in the partition of the other it does nothing
    other = ["g"] if "band=g" not in at[0] and pq.read_table(at[0])["band"][0].as_py() is None else [None]
    committed(table, lambda delta: delta.positions([at], other))
    assert ids(lake) == [1, 2, 2]
    with table.refresh().update_spec() as update:
        update.remove_field("band")
    everywhere = pa.table({"id": pa.array([2], pa.int64())})
    committed(table, lambda delta: delta.values(everywhere))
    assert ids(lake) == [1]
    path = next(str(file) for file in lake.live(lake.spec()))
    committed(table, lambda delta: delta.positions([(path, 0), (path, 1)]))  # of another spec than the file
    assert ids(lake) == [1]
    committed(
        table,
        lambda delta: delta.values(
            pa.table({"id": pa.array([1], pa.int64())}),
            [None],
        ),
        spec=0,
    )
    assert ids(lake) == []


def test_columns_are_known_by_their_ids_when_they_are_renamed_widened_dropped_or_new(lake: Lake) -> None:
    start = pa.table(
        {"id": [1, 2, 3, 4, 5], "n": pa.array([1, 2, 3, 4, None], pa.int32()), "band": list("abcde")}
    )
    table = made(lake, start)
    committed(table, lambda delta: delta.values(pa.table({"n": pa.array([1], pa.int32())})))
    with table.refresh().update_schema() as update:
        update.update_column("n", LongType())
        update.rename_column("n", "m")
    with table.refresh().update_schema() as update:
        update.add_column("n", LongType())
    committed(table, lambda delta: delta.values(pa.table({"m": pa.array([2], pa.int64())})))
    assert ids(lake) == [3, 4, 5]
    committed(table, lambda delta: delta.values(pa.table({"n": pa.array([7], pa.int64())})))
    assert ids(lake) == [3, 4, 5]  # in older files the new column is null
    with table.refresh().update_schema() as update:
        update.delete_column("m")
    assert ids(lake) == [3, 4, 5]  # and the dropped one still tells what went
    lake.sink(lake.spec(name="newer"), pa.table({"id": [6, 7], "n": [2, 8], "band": ["f", "g"]}))
    committed(table, lambda delta: delta.values(pa.table({"n": pa.array([8], pa.int64())})))
    with table.refresh().update_schema() as update:
        update.delete_column("n")
    with table.refresh().update_schema() as update:
        update.add_column("n", LongType())
    lake.sink(lake.spec(name="newest"), pa.table({"id": [8, 9], "n": [2, 8], "band": ["h", "i"]}))
    assert ids(lake) == [3, 4, 5, 6, 8, 9]  # the same name three times, and each delete is of its own column
    committed(table, lambda delta: delta.values(pa.table({"n": pa.array([2, None], pa.int64())})))
    assert ids(lake) == [9]


def test_a_column_that_only_the_partition_has_is_compared(lake: Lake) -> None:
    from pyiceberg.types import NestedField

    from tests.tables.test_foreign_tables import BY_NIGHT, imported
    from tests.tables.test_foreign_tables import made as made_by_others

    table = made_by_others(
        lake,
        NestedField(1, "id", LongType()),
        NestedField(2, "night", StringType()),
        partition_spec=BY_NIGHT,
        properties={"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'},
    )
    imported(table, pa.table({"id": [1, 2]}), value="a")
    both = pa.table({"id": pa.array([1], pa.int64()), "night": ["a"]})
    committed(table, lambda delta: delta.values(both, ["a"]))
    assert sorted(opened(lake).read()["id"].to_pylist()) == [2]


def _lacks_column(delta: RowDelta) -> None:
    delta.values(pa.table({"band": ["g"]}), ids=[1])


def _unknown_id(delta: RowDelta) -> None:
    delta.values(pa.table({"id": pa.array([1], pa.int64())}), ids=[999])


def _no_ids(delta: RowDelta) -> None:
    delta.values(pa.table({"id": pa.array([1], pa.int64())}), ids=[])


def _gone(delta: RowDelta) -> None:
    Path(delta.values(pa.table({"id": pa.array([1], pa.int64())}))).unlink()


def _damaged(delta: RowDelta) -> None:
    Path(delta.values(pa.table({"id": pa.array([1], pa.int64())}))).write_bytes(b"PAR1 no")


def _null_position(delta: RowDelta) -> None:
    path = next(iter(delta.table.scan().plan_files())).file.file_path
    delta.positions([(path, None)])  # type: ignore[list-item]


def _other_type(delta: RowDelta) -> None:
    delta.values(pa.table({"id": ["1"]}))


def _other_format(delta: RowDelta) -> None:
    delta.values(pa.table({"id": pa.array([1], pa.int64())}))
    delta.files[-1]._data[2] = FileFormat.AVRO


@pytest.mark.parametrize(
    ("fill", "kind", "message"),
    [
        (_lacks_column, CorruptFileError, "this delete file has no column id"),
        (_unknown_id, PlanError, "deletes by the values of field 999, which is no column"),
        (_no_ids, CorruptFileError, "does not say of which"),
        (_gone, CorruptFileError, "names this delete file, but it does not exist"),
        (_damaged, CorruptFileError, "is damaged, or is no Parquet file"),
        (_null_position, CorruptFileError, "a position delete has no path or no position"),
        (_other_format, PlanError, "is a delete file of format AVRO, and only Parquet is read"),
        (_other_type, HipslakeError, "is of type string, which is not read as int64"),
    ],
)
def test_delete_files_that_cannot_be_read_are_told(
    lake: Lake, fill: Callable[[RowDelta], None], kind: type[HipslakeError], message: str
) -> None:
    table = made(lake, rows(1, 2))
    committed(table, fill)
    with pytest.raises(kind, match=message):
        opened(lake).read()


def test_real_numbers_widened_since_are_equal_as_before(lake: Lake) -> None:
    table = made(lake, pa.table({"id": [1, 2, 3], "x": pa.array([0.1, float("nan"), 2.5], pa.float32())}))
    committed(table, lambda delta: delta.values(pa.table({"x": pa.array([0.1, float("nan")], pa.float32())})))
    with table.refresh().update_schema() as update:
        update.update_column("x", DoubleType())
    assert ids(lake) == [3]


def test_rows_of_many_row_groups_are_counted_through(lake: Lake) -> None:
    table = made(lake, rows(1))
    delta = RowDelta(table)
    path = delta.data(rows(*range(10, 110)))
    pq.write_table(pq.read_table(path), path, row_group_size=7)
    delta.positions([(path, at) for at in range(0, 100, 3)])
    delta.commit()
    assert ids(lake) == [1, *(n for n in range(10, 110) if (n - 10) % 3)]


def test_a_cube_reads_what_is_left(lake: Lake) -> None:
    table = made(lake, rows(1, 2, 3, 4))
    snapshot = committed(
        table,
        lambda delta: delta.values(pa.table({"id": pa.array([4], pa.int64())})),
        lambda delta: delta.positions([places(lake)[1]]),
    )
    spec = lake.spec()
    read = IcebergRows.of(spec.iceberg, lake.warehouse, spec.table, snapshot)
    found = [
        row for part in range(read.parts) for some in read.read(part, ["id"]) for row in some.to_pylist()
    ]
    assert sorted(row["id"] for row in found) == [2, 3]
