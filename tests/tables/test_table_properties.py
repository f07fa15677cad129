"""What the properties of a table say of how it is written is done, or refused; by looks into its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.commit_attempts import writes_of
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.iceberg.data_locations import folder_of_write
from hipslake.tables.iceberg.delete_index import files_of_snapshot
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.write_folders import claim, sweep_writes
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import LongType

from tests.system.sinks import orphans
from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.parquet_pages import bloom_bytes, page_kinds, page_rows
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.sinking import Lake, utc

ROWS = 40_000


@pytest.fixture(scope="module")
def stars() -> pa.Table:
    random = np.random.default_rng(5)
    return pa.table(
        {
            "id": random.permutation(ROWS),
            "name": [f"a long name of the star {number % 1000:05d}" for number in range(ROWS)],
            "flux": [float("nan") if n % 100 == 0 else n / 7 for n in range(ROWS)],
            "is_new": pa.array([n % 2 == 0 for n in range(ROWS)]),
            "place": [{"ra": n / 100, "tags": [n % 3]} for n in range(ROWS)],
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def made(lake: Lake, rows: pa.Table, properties: dict[str, str], **given: Any) -> TableSpec:
    """A table with some properties, and rows of one sink."""
    spec = lake.spec(properties=properties, **given)
    lake.sink(spec, rows)
    return spec


def only(lake: Lake, spec: TableSpec) -> tuple[DataFile, pq.ParquetFile]:
    """The one data file of a table."""
    [file] = live_files(lake.table(spec))
    return file, pq.ParquetFile(file.file_path)


def chunks(file: pq.ParquetFile, name: str, group: int = 0) -> pq.ColumnChunkMetaData:
    found = (file.metadata.row_group(group).column(at) for at in range(file.metadata.num_columns))
    return next(chunk for chunk in found if chunk.path_in_schema == name)


@pytest.mark.parametrize(
    ("codec", "level", "wanted"),
    [
        (None, None, "ZSTD"),
        ("uncompressed", None, "UNCOMPRESSED"),
        ("GZIP", "9", "GZIP"),
        ("snappy", "3", "SNAPPY"),  # which has no levels
        ("lz4", None, "LZ4"),
        ("brotli", None, "BROTLI"),
    ],
)
def test_files_are_compressed(
    lake: Lake, stars: pa.Table, codec: str | None, level: str | None, wanted: str
) -> None:
    told = {"compression-codec": codec, "compression-level": level}
    properties = {f"write.parquet.{name}": each for name, each in told.items() if each is not None}
    _, file = only(lake, made(lake, stars, properties))
    assert chunks(file, "id").compression == wanted


def test_a_higher_level_makes_smaller_files(lake: Lake, stars: pa.Table) -> None:
    sizes = []
    for level in ("1", "19"):
        table = f"survey.level{level}"
        spec = made(lake, stars, {"write.parquet.compression-level": level}, table=table)
        sizes.append(only(lake, spec)[0].file_size_in_bytes)
    assert sizes[1] < sizes[0]


def test_row_groups_have_the_size_that_is_asked_for(lake: Lake, stars: pa.Table) -> None:
    spec = made(lake, stars, {"write.parquet.row-group-size-bytes": str(stars.nbytes // 8)})
    _, file = only(lake, spec)
    assert 8 <= file.metadata.num_row_groups <= 10
    spec = made(lake, stars, {"write.parquet.row-group-limit": "15000"}, table="survey.rows")
    _, file = only(lake, spec)
    rows = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
    assert rows == [15_000, 15_000, 10_000]


def test_pages_and_dictionaries_have_the_size_that_is_asked_for(lake: Lake, stars: pa.Table) -> None:
    plain = only(lake, made(lake, stars, {}))[0].file_path
    few = only(lake, made(lake, stars, {"write.parquet.page-row-limit": "1000"}, table="survey.a"))[
        0
    ].file_path
    small = {"write.parquet.page-size-bytes": "4096"}
    by_size = only(lake, made(lake, stars, small, table="survey.b"))[0].file_path
    assert page_rows(few, "id") == [1000] * (ROWS // 1000)
    assert len(page_rows(by_size, "id")) > 2 * len(page_rows(plain, "id"))
    limited = {"write.parquet.dict-size-bytes": "1024"}
    without = only(lake, made(lake, stars, limited, table="survey.c"))[1]
    assert "PLAIN" in chunks(without, "name").encodings  # it was given up
    versions = [
        only(lake, made(lake, stars, {"write.parquet.page-version": each}, table=f"survey.{each}"))[
            0
        ].file_path
        for each in ("v1", "v2")
    ]
    assert [page_kinds(path, "id") for path in versions] == [{0}, {3}]


def test_bloom_filters_are_written(lake: Lake, stars: pa.Table) -> None:
    enabled = "write.parquet.bloom-filter-enabled.column"
    properties = {f"{enabled}.id": "true", f"{enabled}.place.ra": "true", f"{enabled}.gone": "true"}
    properties |= {f"{enabled}.name": "false", f"{enabled}.is_new": "true", f"{enabled}.place": "true"}
    file, _ = only(lake, made(lake, stars, properties))
    sizes = bloom_bytes(file.file_path)
    assert sizes.keys() == {"id", "place.ra"}
    most = {**properties, "write.parquet.bloom-filter-max-bytes": "1024"}
    file, _ = only(lake, made(lake, stars, most, table="survey.most"))
    assert all(size < 1024 + 64 for size in bloom_bytes(file.file_path).values())
    loose = {**properties, "write.parquet.bloom-filter-fpp.column.id": "0.3"}
    file, _ = only(lake, made(lake, stars, loose, table="survey.loose"))
    assert bloom_bytes(file.file_path)["id"] < sizes["id"]


def test_files_have_no_statistics_of_columns_that_are_not_to_have_them(lake: Lake, stars: pa.Table) -> None:
    properties = {"write.parquet.stats-enabled.column.id": "false"}
    stored, file = only(lake, made(lake, stars, properties, mode="upsert", key="id"))
    assert not chunks(file, "id").is_stats_set
    assert chunks(file, "name").is_stats_set
    spec = lake.spec(mode="upsert", key="id")
    number = lake.table(spec).schema().find_field("id").field_id
    assert number not in stored.lower_bounds
    assert number not in stored.null_value_counts
    done = lake.sink(spec, stars.slice(0, 5), start=utc("2026-11-20T00:00"))
    assert done.rows_updated == 5  # no bounds tell that a file holds no key


@pytest.mark.parametrize(
    ("properties", "bounded", "counted_columns"),
    [
        ({}, {"id", "name", "flux", "is_new"}, 6),
        ({"default": "none"}, set(), 0),
        ({"default": "counts"}, set(), 6),
        ({"default": "none", "column.id": "full"}, {"id"}, 1),
        ({"column.id": "none", "column.name": "counts"}, {"flux", "is_new"}, 5),
        ({"max-inferred-column-defaults": "2"}, {"id", "name"}, 2),
        ({"max-inferred-column-defaults": "0", "column.flux": "full"}, {"flux"}, 1),
        ({"max-inferred-column-defaults": "0", "default": "full"}, {"id", "name", "flux", "is_new"}, 6),
        ({"max-inferred-column-defaults": "6"}, {"id", "name", "flux", "is_new"}, 6),
    ],
)
def test_manifests_have_the_metrics_that_are_asked_for(
    lake: Lake, stars: pa.Table, properties: dict[str, str], bounded: set[str], counted_columns: int
) -> None:
    spec = made(lake, stars, {f"write.metadata.metrics.{name}": told for name, told in properties.items()})
    file, _ = only(lake, spec)
    schema = lake.table(spec).schema()
    names = {number: schema.find_column_name(number) for number in schema.field_ids}
    assert {names[number] for number in file.lower_bounds} == bounded
    assert {names[number] for number in file.upper_bounds} == bounded
    assert len(file.value_counts) == counted_columns
    has_nan = "flux" in {names[number] for number in file.value_counts}
    assert (file.nan_value_counts or {}) == (
        {schema.find_field("flux").field_id: ROWS // 100} if has_nan else {}
    )
    assert counted(plain_rows(lake.table(spec))) == counted(stars.to_pylist())
    upsert = lake.spec(name="more", mode="upsert", key="id", partition=[])
    assert lake.sink(upsert, stars.slice(7, 9)).rows_updated == 9


def test_texts_are_cut_where_it_is_asked_for(lake: Lake, stars: pa.Table) -> None:
    spec = made(lake, stars, {"write.metadata.metrics.default": "truncate(3)"})
    file, _ = only(lake, spec)
    number = lake.table(spec).schema().find_field("name").field_id
    assert (file.lower_bounds[number], file.upper_bounds[number]) == (b"a l", b"a m")


def test_columns_that_a_table_is_sorted_by_have_bounds(lake: Lake, stars: pa.Table) -> None:
    properties = {"write.metadata.metrics.default": "none"}
    spec = made(lake, stars, properties, sort=["id", "bucket[4](name)"])
    file, _ = only(lake, spec)
    number = lake.table(spec).schema().find_field("id").field_id
    bounds = [from_bytes(LongType(), each[number]) for each in (file.lower_bounds, file.upper_bounds)]
    assert bounds == [0, ROWS - 1]
    assert file.lower_bounds.keys() == {number}


def test_files_have_the_size_that_the_table_asks_for(lake: Lake, stars: pa.Table) -> None:
    spec = made(lake, stars, {"write.target-file-size-bytes": "100000"})
    sizes = [file.file_size_in_bytes for file in live_files(lake.table(spec))]
    assert len(sizes) > 3
    assert max(sizes) < 160_000
    larger = lake.spec(name="larger", target_file_size="1 GiB")
    assert lake.sink(larger, stars).files_added == 1
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": "many"})
    with pytest.raises(
        SpecError, match=r"write\.target-file-size-bytes is 'many', no whole number from 1 on"
    ):
        lake.sink(lake.spec(name="more"), stars)
    default = made(lake, stars, {}, table="survey.default")
    assert lake.table(default).properties["write.target-file-size-bytes"] == str(128 << 20)


@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_files_are_spread_over_prefixes(lake: Lake, stars: pa.Table, write: str) -> None:
    spread = {"write.object-storage.enabled": "true"}
    spec = made(lake, stars, spread, mode="upsert", key="id", write=write)
    lake.sink(spec, stars.slice(5, 10), start=utc("2026-11-20T00:00"))
    compact(request(lake, full=True))
    table = lake.table(spec)
    root = Path(table.location()) / "data"
    for path in root.rglob("*.parquet"):
        *hash_of_write, write_id = path.relative_to(root).parts[:5]
        assert "/".join([*hash_of_write, write_id]) == folder_of_write(write_id, spread)
        assert [len(part) for part in hash_of_write] == [4, 4, 4, 8]
        assert set("".join(hash_of_write)) <= {"0", "1"}
    assert counted(plain_rows(table)) == counted(stars.to_pylist())
    assert orphans(table) == []


@pytest.mark.parametrize("was", ["true", "false"])
def test_what_dead_writes_left_is_swept_wherever_it_lies(lake: Lake, stars: pa.Table, was: str) -> None:
    spec = made(lake, stars, {"write.object-storage.enabled": was})
    table = lake.table(spec)
    dead = claim(table)
    writer = FileWriter.of(table, (), dead)
    written = writer.write(stars.slice(0, 5).cast(writer.arrow_schema), (), "left")
    with table.transaction() as transaction:
        transaction.set_properties({"write.object-storage.enabled": "true"})
    assert sweep_writes(open_catalog(spec.iceberg, lake.warehouse), spec.table, 0.0) != []
    assert not Path(written.path).exists()
    assert not writes_of(table).exists(dead)
    assert orphans(lake.table(spec)) == []


def test_data_and_metadata_lie_where_the_table_says(lake: Lake, stars: pa.Table) -> None:
    places = {what: str(lake.root / "elsewhere" / what) for what in ("data", "metadata")}
    properties = {f"write.{what}.path": place for what, place in places.items()}
    spec = made(lake, stars, properties, mode="upsert", key="id", write="merge-on-read")
    lake.sink(spec, stars.slice(5, 10), start=utc("2026-11-20T00:00"))
    table = lake.table(spec)
    found = files_of_snapshot(table)
    paths = [*(file.file_path for file, _ in found.data), *(each.entry.file_path for each in found.deletes)]
    assert len(paths) == 3
    assert all(path.startswith(f"{places['data']}/") for path in paths)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    own = [snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io))]
    assert all(path.startswith(f"{places['metadata']}/") for path in (table.metadata_location, *own))
    assert counted(plain_rows(table)) == counted(stars.to_pylist())
    compact(request(lake, full=True))
    assert counted(plain_rows(lake.table(spec))) == counted(stars.to_pylist())


def test_each_data_file_has_deletes_of_its_own_where_it_is_asked_for(lake: Lake, stars: pa.Table) -> None:
    properties = {"write.delete.granularity": "FILE", "write.delete.parquet.compression-codec": "gzip"}
    spec = made(lake, stars.slice(0, 1000), properties, mode="upsert", key="id", write="merge-on-read")
    lake.sink(lake.spec(name="more"), stars.slice(1000, 1000))
    done = lake.sink(spec, stars.slice(990, 20), start=utc("2026-11-20T00:00"))
    assert (done.delete_files, done.rows_updated) == (2, 20)
    for each in files_of_snapshot(lake.table(spec)).deletes:
        stored = pq.ParquetFile(each.entry.file_path)
        assert len(set(stored.read()["file_path"].to_pylist())) == 1
        assert chunks(stored, "pos").compression == "GZIP"
    assert counted(plain_rows(lake.table(spec))) == counted(stars.slice(0, 2000).to_pylist())


def test_summaries_tell_of_partitions_where_it_is_asked_for(lake: Lake, stars: pa.Table) -> None:
    properties = {"write.summary.partition-limit": "10"}
    partition = ["bucket[2](id)"]
    spec = made(lake, stars, properties, partition=partition, mode="upsert", key="id")
    lake.sink(spec, stars.slice(5, 10), start=utc("2026-11-20T00:00"))
    for snapshot in lake.table(spec).snapshots():
        assert snapshot.summary is not None
        told = snapshot.summary.additional_properties
        assert [name for name in told if name.startswith("partitions.id_bucket")] != []


def test_old_metadata_goes_where_it_is_asked_for(lake: Lake, stars: pa.Table) -> None:
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    spec = made(lake, stars.slice(0, 9), properties)
    for night in range(5):
        lake.sink(lake.spec(name=f"more_{night}"), stars.slice(9 * night + 9, 9))
    folder = Path(lake.table(spec).location()) / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) == 3
    assert len(lake.rows(spec)) == 54


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"write.format.default": "orc"}, r"write\.format\.default is 'orc', and only Parquet is written"),
        ({"write.location-provider.impl": "a.B"}, r"location-provider\.impl names a class that says where"),
        (
            {"write.py-location-provider.impl": "pyiceberg.table.locations.SimpleLocationProvider"},
            r"py-location-provider\.impl names a class",
        ),
        (
            {"write.object-storage.path": "/a"},
            r"object-storage\.path is given up by Iceberg; set write\.data",
        ),
        ({"write.folder-storage.path": "/a"}, r"folder-storage\.path is given up by Iceberg"),
        ({"encryption.key-id": "k"}, r"encryption\.key-id has the files of the table encrypted"),
        ({"write.parquet.compression-codec": "lzo"}, r"compression-codec is 'lzo'; it can be uncompressed, "),
        ({"write.parquet.compression-level": "99"}, r"compression-level is '99', no level of zstd"),
        ({"write.parquet.compression-level": "x"}, r"compression-level is 'x', no level of zstd"),
        ({"write.parquet.page-version": "v3"}, r"page-version is 'v3'; it can be v1, v2"),
        ({"write.parquet.page-size-bytes": "0"}, r"page-size-bytes is '0', no whole number from 1 on"),
        ({"write.parquet.row-group-size-bytes": "-1"}, r"row-group-size-bytes is '-1', no whole number"),
        ({"write.metadata.metrics.default": "some"}, r"none, counts, full or truncate\(<length>\): Unsupp"),
        ({"write.metadata.metrics.column.id": "truncate(0)"}, "Truncation length must be larger than 0"),
        (
            {
                "write.parquet.bloom-filter-enabled.column.id": "true",
                "write.parquet.bloom-filter-fpp.column.id": "1",
            },
            r"bloom-filter-fpp\.column\.id is '1', no number between 0 and 1",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    lake: Lake, stars: pa.Table, properties: dict[str, str], message: str
) -> None:
    spec = made(lake, stars.slice(0, 9), {})
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties(properties)
    before = lake.table(spec).current_snapshot()
    for change in (
        lambda: lake.sink(lake.spec(name="more"), stars.slice(9, 9)),
        lambda: compact(request(lake, full=True)),
    ):
        with pytest.raises(SpecError, match=rf"table survey\.sample: its propert.*{message}"):
            change()
    assert lake.table(spec).current_snapshot() == before


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"write.delete.format.default": "avro"}, "write.delete.format.default is 'avro', and only Parquet"),
        (
            {"write.delete.granularity": "row"},
            "write.delete.granularity is 'row'; it can be partition or file",
        ),
        ({"write.delete.parquet.compression-codec": "lzo"}, "compression-codec is 'lzo'; it can be"),
    ],
)
def test_what_cannot_be_done_with_deletes_is_refused(
    lake: Lake, stars: pa.Table, properties: dict[str, str], message: str
) -> None:
    upsert: dict[str, Any] = {"mode": "upsert", "key": "id", "write": "merge-on-read"}
    if "write.delete.parquet.compression-codec" in properties:
        with pytest.raises(SpecError, match=message):
            made(lake, stars.slice(0, 9), properties, **upsert)
        return
    spec = made(lake, stars.slice(0, 9), properties, **upsert)
    with pytest.raises(SpecError, match=message):
        lake.sink(spec, stars.slice(4, 2), start=utc("2026-11-20T00:00"))
