"""Files whose writer counted days by the Julian calendar: no day of theirs is taken for another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.cube.store.row_sources import ParquetRows
from hipslake.errors import InputError
from hipslake.sources import open_source
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.calendars import check_calendar

from tests.compaction.compacting import compact, files_in, request
from tests.tables.sinking import Lake

VERSION = "org.apache.spark.version"
LEGACY = {VERSION: "3.5.1", "org.apache.spark.legacyDateTime": "", "org.apache.spark.timeZone": "UTC"}
LEGACY_INT96 = {VERSION: "3.5.1", "org.apache.spark.legacyINT96": "", "org.apache.spark.timeZone": "UTC"}
LAST_JULIAN, FIRST_GREGORIAN = dt.date(1582, 10, 14), dt.date(1582, 10, 15)
BEFORE, AFTER = dt.datetime(1899, 12, 31, 23, 59, 59), dt.datetime(1900, 1, 1)


def write(path: Path, column: pa.Array, told: dict[str, str], **options: Any) -> Path:
    table = pa.table({"id": range(len(column)), "t": column}).replace_schema_metadata(told)
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, row_group_size=2, **options)
    return path


def check(path: Path, groups: list[int]) -> None:
    with path.open("rb") as file:
        check_calendar(file, pq.read_metadata(path), ["id", "t"], groups, str(path))


def dates(early: bool) -> pa.Array:
    return pa.array([None, dt.date(2020, 1, 1), FIRST_GREGORIAN, LAST_JULIAN if early else None], pa.date32())


def times(early: bool, unit: str = "us") -> pa.Array:
    return pa.array([None, AFTER, AFTER, BEFORE if early else None], pa.timestamp(unit, "UTC"))


def nested(early: bool) -> pa.Array:
    days = [[], None, [{"d": FIRST_GREGORIAN}], [{"d": None}, {"d": LAST_JULIAN}] if early else []]
    return pa.array(days, pa.list_(pa.struct([("d", pa.date32())])))


def int96(early: bool) -> pa.Array:
    return times(early, "ns")


INT96 = {"use_deprecated_int96_timestamps": True}
PLAIN = {"write_statistics": False}
Made = Callable[[bool], pa.Array]


@pytest.mark.parametrize(
    ("told", "made", "options"),
    [
        (LEGACY, dates, {}),
        (LEGACY, dates, PLAIN),
        (LEGACY, nested, {}),
        (LEGACY, nested, PLAIN),
        (LEGACY, times, {}),
        (LEGACY, times, PLAIN),
        (LEGACY, lambda early: times(early, "ms"), {}),
        (LEGACY, lambda early: times(early, "ns"), {}),
        ({VERSION: "2.4.8"}, dates, {}),
        ({VERSION: "2.4.8"}, int96, INT96),
        ({VERSION: "3.0.3"}, int96, INT96),
        (LEGACY_INT96, int96, INT96),
        ({"writer.date.proleptic": "false"}, dates, {}),
    ],
)
def test_early_days_of_such_writers_are_refused_and_late_ones_are_not(
    tmp_path: Path, told: dict[str, str], made: Made, options: dict[str, Any]
) -> None:
    path = write(tmp_path / "a.parquet", made(True), told, **options)
    check(path, [0])
    with pytest.raises(
        InputError, match=r"a\.parquet: column 't' has values before 1\d{3}-\d\d-\d\d, counted"
    ):
        check(path, [0, 1])
    check(write(path, made(False), told, **options), [0, 1])


@pytest.mark.parametrize(
    ("told", "made", "options"),
    [
        ({}, dates, {}),
        ({VERSION: "3.0.0"}, dates, {}),
        ({VERSION: "4.2.0"}, times, {}),
        ({VERSION: "3.1.0"}, int96, INT96),
        (LEGACY_INT96, dates, {}),
        (LEGACY, int96, INT96),
        ({VERSION: "of my own"}, dates, {}),
        ({"writer.date.proleptic": "true"}, dates, {}),
        (LEGACY, lambda early: times(early).cast(pa.timestamp("us")), {}),  # without a zone
        # The schema that Spark 2 wrote stays in files that others make of its own.
        ({"org.apache.spark.sql.parquet.row.metadata": "{}"}, dates, {}),
    ],
)
def test_days_of_other_writers_are_what_they_are(
    tmp_path: Path, told: dict[str, str], made: Made, options: dict[str, Any]
) -> None:
    check(write(tmp_path / "a.parquet", made(True), told, **options), [0, 1])


def ingested(path: Path, root: Path) -> Iterator[Any]:
    source = open_source(SourceSpec(uri=str(path), format="parquet"))
    files = source.list_files()
    schema = source.schema(files)
    for split in source.splits(files):
        for batch in source.read(split, schema):
            yield from batch["t"].to_pylist()


def in_a_cube(path: Path, root: Path) -> Iterator[Any]:
    rows = ParquetRows.at(str(path))
    for part in range(rows.parts):
        for table in rows.read(part, ["t"]):
            yield from table["t"].to_pylist()


def compacted(path: Path, root: Path) -> Iterator[Any]:
    write(path.with_name("b.parquet"), dates(False), {})
    compact(request(root, full=True, folder={"uri": str(path.parent), "output": str(root / "out")}))
    for file in files_in(root / "out"):
        assert not any(b"spark" in name for name in pq.read_schema(file).metadata or {})
        yield from pq.read_table(file).sort_by("id")["t"].to_pylist()


def of_a_table(path: Path, root: Path) -> Iterator[Any]:
    lake = Lake(root)
    spec = lake.spec(mode="upsert", key=["id"])
    lake.sink(spec, pa.table({"id": [100], "t": pa.array([None], pa.date32())}))
    lake.table(spec).add_files([str(path)])
    lake.sink(spec, pa.table({"id": [0], "t": pa.array([None], pa.date32())}))
    yield from lake.rows(spec)["t"].to_pylist()


@pytest.mark.parametrize("door", [ingested, in_a_cube, compacted, of_a_table])
def test_every_reader_of_files_looks(tmp_path: Path, door: Callable[[Path, Path], Iterator[Any]]) -> None:
    path = write(tmp_path / "in" / "a.parquet", dates(True), LEGACY)
    with pytest.raises(InputError, match=r"a\.parquet: column 't' has values before 1582-10-15"):
        list(door(path, tmp_path))
    write(path, dates(False), LEGACY)
    assert dt.date(2020, 1, 1) in list(door(path, tmp_path / "later"))
