"""Tables that other engines have made: nothing of them is lost when their rows are written again."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.clustering.checksum import row_checksum
from hipslake.errors import PlanError, SchemaMismatchError, SpecError
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.iceberg.delete_index import LiveFiles
from hipslake.tables.opening import open_table
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.sinking import Lake, utc


def request(lake: Lake, **given: Any) -> compacting.CompactTableRequest:
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    return compacting.request(lake.root, table="survey.sample", iceberg=iceberg, **given)


def made(lake: Lake, *fields: NestedField, **given: Any) -> Table:
    catalog = open_catalog(lake.spec().iceberg, lake.warehouse)
    catalog.create_namespace("survey")
    identifiers = given.pop("identifier_field_ids", [])
    return catalog.create_table("survey.sample", Schema(*fields, identifier_field_ids=identifiers), **given)


def imported(table: Table, *tables: pa.Table, value: Any) -> None:
    """Files of a partitioned folder, which lack the column that their folder is named by."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for rows in tables:
            path = Path(table.location()) / f"{uuid.uuid4()}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path)
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=str(path),
                file_format=FileFormat.PARQUET,
                partition=Record(value),
                record_count=rows.num_rows,
                file_size_in_bytes=path.stat().st_size,
            )
            file.spec_id = 0
            append.append_data_file(file)


BY_NIGHT = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "night"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [
        (StringType(), "é", "é"),
        (LongType(), -5, -5),
        (DateType(), -1, dt.date(1969, 12, 31)),
        (TimestampType(), 1_000_001, dt.datetime(1970, 1, 1, 0, 0, 1, 1)),
        (DecimalType(9, 2), Decimal("-1.50"), Decimal("-1.50")),
        (FixedType(2), b"\x00\xff", b"\x00\xff"),
        (StringType(), None, None),
    ],
)
def test_a_column_that_only_the_partition_has_keeps_its_value(
    lake: Lake, kind: IcebergType, stored: Any, value: Any
) -> None:
    mapping = json.dumps([{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["night"]}])
    properties = {"schema.name-mapping.default": mapping}
    fields = NestedField(1, "id", LongType()), NestedField(2, "night", kind)
    table = made(lake, *fields, partition_spec=BY_NIGHT, properties=properties)
    imported(table, *(pa.table({"id": [3 * n, 3 * n + 1, 3 * n + 2]}) for n in range(2)), value=stored)
    compact(request(lake))
    assert lake.rows(lake.spec()).to_pylist() == [{"id": n, "night": value} for n in range(6)]
    imported(table.refresh(), pa.table({"id": [10, 11]}), value=stored)
    upsert = lake.spec(mode="upsert", key=["id"], partition=["night"])
    night = lake.table(upsert).schema().as_arrow().field("night").type
    lake.sink(upsert, pa.table({"id": [11], "night": pa.array([value], night)}))
    expected = [{"id": n, "night": value} for n in [*range(6), 10, 11]]
    assert lake.rows(upsert).to_pylist() == expected
    if isinstance(kind, DateType | TimestampType):
        imported(lake.table(upsert), pa.table({"id": [20]}), value=stored)
        source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
        over = lake.spec(
            name="over", mode="overwrite-interval", interval="night", source=source, partition=["night"]
        )
        none = pa.table({"id": pa.array([], pa.int64()), "night": pa.array([], night)})
        lake.sink(over, none, start=utc("1969-12-01T00:00:00"), end=utc("1970-02-01T00:00:00"))
        assert lake.table(over).scan().to_arrow().num_rows == 0


def test_required_and_nested_columns_stay_what_they_are(lake: Lake) -> None:
    parts = StructType(
        NestedField(10, "a", LongType(), required=True),
        NestedField(
            11,
            "m",
            MapType(12, StringType(), 13, ListType(14, DoubleType(), element_required=True), True),
        ),
    )
    table = made(
        lake,
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "s", parts),
        NestedField(3, "u", UUIDType()),
        identifier_field_ids=[1],
    )
    arrow = table.schema().as_arrow()
    values = [None, {"a": 1, "m": [("k", [1.0, -0.0]), ("", [])]}, {"a": 2, "m": None}]
    for first in (0, 10, 20):
        rows = [
            {"id": first + n, "s": values[n % 3], "u": uuid.UUID(int=n).bytes if n else None}
            for n in range(10)
        ]
        table.append(pa.Table.from_pylist(rows, schema=arrow))

    def content() -> int:
        return row_checksum(lake.rows(lake.spec()).cast(arrow))

    before = content()
    compact(request(lake))
    assert content() == before
    compact(request(lake, mode="hilbert", columns=["id"]))
    assert content() == before
    upsert = lake.spec(mode="upsert", key="id")
    lake.sink(upsert, lake.rows(upsert).slice(5, 3))
    assert content() == before
    lake.sink(lake.spec(name="few", mode="upsert", key="id"), pa.table({"id": [3, 100]}))
    found = lake.rows(upsert).to_pylist()
    assert [row["s"] for row in found if row["id"] in (3, 100)] == [None, None]
    assert len(found) == 31
    with pytest.raises(SchemaMismatchError, match="requires column id, which the source lacks"):
        lake.sink(lake.spec(name="other"), pa.table({"u": pa.array([None], pa.string())}).drop_columns(["u"])
                  .append_column("x", [[1]]))  # fmt: skip


def test_a_partition_field_that_a_table_of_version_1_has_dropped_is_void(lake: Lake) -> None:
    fields = NestedField(1, "id", LongType()), NestedField(2, "night", StringType())
    table = made(lake, *fields, partition_spec=BY_NIGHT, properties={"format-version": "1"})
    rows = pa.table({"id": [1, 2], "night": ["a", "b"]})
    lake.sink(lake.spec(partition=["night"]), rows)
    with table.refresh().update_spec() as update:
        update.remove_field("night")
    with pytest.raises(SchemaMismatchError, match=r"is partitioned by void\(night\), the spec says nothing"):
        lake.sink(lake.spec(name="other"), rows)
    for name in ("second", "third"):
        lake.sink(lake.spec(name=name, partition=["void(night)"]), rows)
    report = compact(request(lake))
    assert (report.removed.files, report.files_considered, report.files_repartitioned) == (4, 4, 2)
    present = lake.table(lake.spec()).spec().spec_id
    assert {file.spec_id for file in live_files(lake.table(lake.spec()))} == {present}
    assert lake.rows(lake.spec())["id"].to_pylist() == [1, 1, 1, 2, 2, 2]


def test_tables_of_a_version_that_cannot_be_written_are_told(lake: Lake) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1]}))
    place = Path(lake.table(lake.spec()).metadata_location)
    newer = json.loads(place.read_text()) | {"format-version": 3, "next-row-id": 0}
    for snapshot in newer["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    copied = place.with_name("00009-newer.metadata.json")
    copied.write_text(json.dumps(newer))
    catalog = open_catalog(lake.spec().iceberg, lake.warehouse)
    catalog.drop_table("survey.sample")
    catalog.register_table("survey.sample", str(copied))
    with pytest.raises(SpecError, match="is of Iceberg's format version 3; versions up to 2 can be written"):
        lake.sink(lake.spec(), pa.table({"id": [2]}))
    table = open_table(lake.spec().iceberg, lake.warehouse, "survey.sample")
    with pytest.raises(SpecError, match="format version 3"):
        table.compaction(Storage.at(lake.root / "run"))


def test_an_empty_table_has_nothing_to_compact(lake: Lake) -> None:
    made(lake, NestedField(1, "id", LongType()), NestedField(2, "night", StringType()))
    for given in ({}, {"mode": "hilbert", "columns": ["id"]}):
        assert "there is no file; nothing to do" in compact(request(lake, **given)).text
    none = pa.table({"id": pa.array([], pa.int64()), "night": pa.array([], pa.string())})
    assert lake.sink(lake.spec(mode="upsert", key="id"), none).rows_out == 0
    assert lake.rows(lake.spec()).num_rows == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["a.b", 'q"q', "it's", "銀 河", "x)y", "bucket[2](id)", "id desc", "%s", "{x}"]
)
def test_columns_of_any_name_are_partitioned_sorted_and_clustered_by(lake: Lake, name: str) -> None:
    rows = pa.table({"id": [1, 2, 3, 4], name: ["x", "y", None, "x"]})
    field = {"transform": "identity", "source": name}
    spec = lake.spec(partition=[field], sort=[{"field": field}])
    spec = type(spec).model_validate_json(spec.model_dump_json())
    for _ in range(2):
        lake.sink(spec, rows)
    quoted = name.replace('"', '""')
    assert compact(request(lake, partitions=f"\"{quoted}\" = 'x'")).removed.files == 2
    compact(request(lake, mode="zorder", columns=["id"]))
    up = lake.spec(name="up", mode="upsert", key=["id"], partition=[field])
    lake.sink(up, rows)
    assert lake.rows(spec)[name].to_pylist() == ["x", "y", None, "x"]


def test_data_files_go_where_the_table_says(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key=["id"])
    lake.sink(spec, pa.table({"id": [1, 2], "x": [1, 2]}))
    place = lake.root / "elsewhere" / "data files"
    with lake.table(spec).transaction() as change:
        change.set_properties(**{"write.data.path": f"{place}/"})
    before = set(lake.live(spec))
    for night in range(3):
        lake.sink(spec, pa.table({"id": [night + 2, night + 3], "x": [10, 10]}))
    fresh = set(map(str, lake.live(spec))) - set(map(str, before))
    assert fresh
    assert all(path.startswith(f"{place}/") for path in fresh)
    compact(request(lake, full=True, mode="hilbert", columns=["id"]))
    live = [str(path) for path in lake.live(spec)]
    assert all(path.startswith(f"{place}/") for path in live)
    assert dict(zip(*lake.rows(spec).to_pydict().values(), strict=True)) == {1: 1, 2: 10, 3: 10, 4: 10, 5: 10}
    again = compact(request(lake, mode="hilbert", columns=["id"], group_size="1 KiB"))
    assert (again.version, again.files_skipped) == ("", len(live))


def test_data_files_of_other_formats_are_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": [1]}))
    lake.sink(spec, pa.table({"id": [2]}))
    from hipslake.tables.iceberg import compacted_snapshot

    orc = [
        DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.file_path.replace(".parquet", ".orc"),
            file_format=FileFormat.ORC,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=100,
        )
        for file in live_files(lake.table(spec))
    ]
    for file in orc:
        file.spec_id = 0
    found = LiveFiles([(file, 1) for file in orc], [])
    monkeypatch.setattr(compacted_snapshot, "files_of_snapshot", lambda _: found)
    with pytest.raises(PlanError, match=r"\.orc is an .*ORC file, and only Parquet is read"):
        compact(request(lake, full=True))
