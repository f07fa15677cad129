"""Rows of Iceberg tables in older partitions: rewrites move them into the present ones."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import ConflictError
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite
from pyiceberg.transforms import BucketTransform, MonthTransform

from tests.tables.compaction.compacting import before_commit, compact
from tests.tables.compaction.iceberg import dated, files_of, request, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import RowDelta
from tests.tables.sinking import Lake


@pytest.fixture
def repartitioned(tmp_path: Path) -> Lake:
    """A table by band, of which the newest rows are by month and bucket."""
    lake = Lake(tmp_path)
    for night in range(3):
        lake.sink(lake.spec(partition=["band"]), dated(600, night))
    with table_of(lake).update_spec() as update:
        update.remove_field("band")
        update.add_field("at", MonthTransform(), "at_month")
        update.add_field("id", BucketTransform(2), "id_bucket")
    lake.sink(lake.spec(partition=["month(at)", "bucket[2](id)"]), dated(300, 7))
    return lake


@pytest.mark.parametrize(
    "by", [{}, {"mode": "hilbert", "columns": ["flux"]}, {"mode": "sort", "sort": ["at"]}]
)
def test_files_of_older_partitions_are_rewritten_into_the_present_ones(
    repartitioned: Lake, by: dict[str, Any]
) -> None:
    lake = repartitioned
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, **by))
    assert report.files_repartitioned == 6
    assert "6 of the files are of an older partition spec; their rows move." in report.text
    assert counted(plain_rows(table_of(lake))) == before
    table = table_of(lake)
    for file in files_of(lake):
        assert file.spec_id == table.spec().spec_id
        rows = pq.read_table(file.file_path)
        for field, at in zip(table.spec().fields, range(2), strict=True):
            kind = table.schema().find_type(field.source_id)
            transform = field.transform.transform(kind)
            values = rows.column(table.schema().find_column_name(field.source_id))
            stored = [_internal(value) for value in values.to_pylist()]
            assert {transform(value) for value in stored} == {file.partition[at]}
    for _ in range(2):  # small files in one partition are packed, or clustered, by the next run
        compact(request(lake, **by))
    assert compact(request(lake, **by)).version == ""
    assert counted(plain_rows(table_of(lake))) == before
    places = Counter(tuple(file.partition[at] for at in range(2)) for file in files_of(lake))
    assert len(places) == 8
    assert by or set(places.values()) == {1}
    month = dt.datetime(2026, 2, 1)
    [read] = [table_of(lake).scan(f"at >= '{month.isoformat()}'").to_arrow().num_rows]
    assert read == sum(row["at"] is not None and row["at"] >= month for row in plain_rows(table_of(lake)))


def _internal(value: Any) -> Any:
    epoch = dt.datetime(1970, 1, 1)
    return (value - epoch) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value


def test_deletes_of_older_partitions_are_merged_as_their_rows_move(repartitioned: Lake) -> None:
    lake = repartitioned
    table = table_of(lake)
    old = next(file for file in files_of(lake) if file.spec_id != table.spec().spec_id)
    delta = RowDelta(table, old.spec_id)
    delta.positions([(old.file_path, 0), (old.file_path, 5)], [old.partition[0]])
    delta.commit()
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake))
    assert report.rows_deleted == 2
    assert counted(plain_rows(table_of(lake))) == before
    assert counted(table_of(lake).scan().to_arrow().to_pylist()) == before


def test_a_table_without_partitions_any_more_takes_the_rows_of_older_ones(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.sink(lake.spec(partition=["band"]), dated(600, 1))
    with table_of(lake).update_spec() as update:
        update.remove_field("band")
    before = counted(plain_rows(table_of(lake)))
    assert compact(request(lake, target_file_size="1 MiB")).added.files == 1
    assert counted(plain_rows(table_of(lake))) == before


def test_rows_that_are_deleted_in_a_present_partition_end_a_move(
    repartitioned: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = repartitioned
    moved = next(row for row in plain_rows(table_of(lake)) if row["id"] < 30_000 and row["at"] is not None)
    bucket = BucketTransform(2).transform(table_of(lake).schema().find_type("id"))(moved["id"])
    month = (moved["at"].year - 1970) * 12 + moved["at"].month - 1

    def deleted() -> None:
        delta = RowDelta(table_of(lake))
        delta.values(pa.table({"id": pa.array([moved["id"]], pa.int64())}), [month, bucket])
        delta.commit()

    before_commit(monkeypatch, IcebergRewrite, deleted)
    before = counted(plain_rows(table_of(lake)))
    with pytest.raises(ConflictError, match="rows of partitions were deleted by "):
        compact(request(lake))
    assert counted(plain_rows(table_of(lake))) == before
    monkeypatch.undo()
    assert compact(request(lake)).files_repartitioned == 6
    assert counted(plain_rows(table_of(lake))) == before


def test_files_of_older_partitions_stay_if_the_spec_says_so(repartitioned: Lake) -> None:
    report = compact(request(repartitioned, repartition=False))
    assert (report.files_repartitioned, report.removed.files) == (0, 0)
    assert report.text.count("6 files of an older partition spec stay as they are.") == 1
