"""Columns of every Arrow type, nulls and edge values included, are published as the source has them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.sources.widening import with_joint_dictionaries
from pyspark.sql import SparkSession

from tests.spark.running import Run, land, read_file, same_rows, stars, uniform

ROWS = 400
LAST = 2**63 - 1

VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "bool": (pa.bool_(), [True, False, None]),
    "int8": (pa.int8(), [-128, 127, 0, None]),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "int64": (pa.int64(), [-(2**63), LAST, 2**53 + 1, -(2**53) - 1, 0, None]),
    "uint8": (pa.uint8(), [0, 255, None]),
    "uint16": (pa.uint16(), [0, 2**16 - 1, None]),
    "uint32": (pa.uint32(), [0, 2**32 - 1, None]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, 2**63, 2**53 + 1, None]),
    "float16": (pa.float16(), [np.float16(1.5), np.float16("inf"), np.float16("nan"), None]),
    "float32": (pa.float32(), [1e-45, 3.4e38, -0.0, float("nan"), float("-inf"), None]),
    "float64": (pa.float64(), [5e-324, 1.7e308, -0.0, float("nan"), float("inf"), None]),
    "decimal32": (pa.decimal128(9, 2), [Decimal("1234567.89"), Decimal("-0.01"), None]),
    "decimal128": (pa.decimal128(38, 10), [Decimal("9" * 28 + ".0123456789"), Decimal(-1), None]),
    "decimal256": (pa.decimal256(76, 0), [Decimal("9" * 76), Decimal("-" + "9" * 76), None]),
    "string": (pa.string(), ["", "Sirius", "Σείριος", "a\nb\x00c", None]),
    "large_string": (pa.large_string(), ["", "long" * 500, None]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "large_binary": (pa.large_binary(), [b"", b"\x00\xff" * 300, None]),
    "fixed_binary": (pa.binary(5), [b"12345", b"\x00" * 5, None]),
    "date32": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
    "date64": (pa.date64(), [date(1970, 1, 1), date(2026, 11, 21), None]),
    "time32": (pa.time32("ms"), [time(23, 59, 59, 999000), time(0), None]),
    "time64": (pa.time64("us"), [time(23, 59, 59, 999999), None]),
    "time64_ns": (pa.time64("ns"), [86_399_999_999_999, 0, None]),
    "timestamp_s": (pa.timestamp("s"), [datetime(1, 1, 1), datetime(9999, 12, 31), None]),
    "timestamp_ms": (pa.timestamp("ms", "Europe/Berlin"), [datetime(2026, 3, 29, 1, 30), None]),
    "timestamp_us": (pa.timestamp("us", "UTC"), [-(2**63), LAST, 0, None]),
    "timestamp_ns": (pa.timestamp("ns"), [-(2**63), LAST, 1, None]),
    "duration": (pa.duration("us"), [timedelta(days=-1), timedelta(microseconds=1), None]),
    "list": (pa.list_(pa.float32()), [[], [1.5, None], None]),
    "large_list": (pa.large_list(pa.string()), [[], ["a", None, ""], None]),
    "fixed_list": (pa.list_(pa.int16(), 3), [[1, 2, 3], [-1, 0, 1], None]),
    "struct": (
        pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
        [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", LAST)], [], None]),
    "spectra": (
        pa.list_(pa.struct([("wave", pa.float64()), ("flags", pa.list_(pa.bool_()))])),
        [[{"wave": 0.5, "flags": [True, None]}, None], [], None],
    ),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["red", "giant", None]),
    "small_dictionary": (pa.dictionary(pa.int8(), pa.string()), ["blue", "", None]),
    "ordered": (pa.dictionary(pa.int8(), pa.string(), ordered=True), ["low", "high", None]),
    "null": (pa.null(), [None]),
    "all_null": (pa.float64(), [None]),
}  # fmt: skip


def every_type() -> pa.Table:
    """Rows with the values of each type in turn, repeated at a pace of their own."""
    source = stars(*uniform(ROWS))
    for name, (kind, values) in VALUES.items():
        cycled = [values[(row + row // 7) % len(values)] for row in range(ROWS)]
        if pa.types.is_dictionary(kind):
            column = pa.array(cycled, kind.value_type).dictionary_encode().cast(kind)
        else:
            column = pa.array(cycled, kind)
        described = pa.field(f"c_{name}", kind, metadata={"unit": f"unit of {name}"})
        source = source.append_column(described, column)
    return source.append_column(
        pa.field("strict", pa.int32(), nullable=False), pa.array(range(ROWS), pa.int32())
    )


def test_every_arrow_type_is_carried_through_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    source = every_type()
    land(tmp_path, source, row_group_rows=50)
    # What Parquet itself makes of the source: seconds, say, come back as milliseconds.
    source = pa.concat_tables(read_file(path) for path in sorted((tmp_path / "landing").iterdir()))
    run = Run.start(spark, tmp_path, threshold="40 rows")
    run.ingest(count={"split_target_bytes": 20_000}, write={"block_bytes": 6000})
    published = run.published().drop_columns(["_healpix_29"])
    assert published.schema.names == source.schema.names
    assert published.schema.types == [with_joint_dictionaries(kind) for kind in source.schema.types]
    assert [field.nullable for field in published.schema] == [field.nullable for field in source.schema]
    for field in published.schema:
        if field.name.startswith("c_"):
            assert field.metadata[b"unit"] == f"unit of {field.name[2:]}".encode()
    source = source.cast(published.schema)
    for name in source.column_names:
        assert same_rows(published.select({"id": 0, name: 0}), source.select({"id": 0, name: 0})), name


@pytest.mark.parametrize("files", [True, False], ids=["files", "row groups of one file"])
def test_together_they_may_have_more_words_than_the_numbers_of_one_dictionary_go(
    spark: SparkSession, tmp_path: Path, files: bool
) -> None:
    small = pa.dictionary(pa.int8(), pa.string())
    source = stars(*uniform(ROWS))
    words = pa.array([f"word {row}" for row in range(ROWS)])
    (tmp_path / "landing").mkdir()
    tables = []
    for low in range(0, ROWS, 100):
        own = words.slice(low, 100).dictionary_encode().cast(small)
        nested = pa.ListArray.from_arrays(pa.array(range(101), pa.int32()), own)
        table = source.slice(low, 100).append_column("word", own).append_column("in_list", nested)
        tables.append(table)
    if files:
        for number, table in enumerate(tables):
            pq.write_table(table, tmp_path / "landing" / f"{number:03}.parquet")
    else:  # pyarrow itself cannot read nested dictionaries from several row groups
        tables = [table.drop_columns("in_list") for table in tables]
        with pq.ParquetWriter(tmp_path / "landing" / "all.parquet", tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
    run = Run.start(spark, tmp_path, threshold="250 rows")
    run.ingest()
    published = run.published()
    assert published.schema.field("word").type == pa.dictionary(pa.int32(), pa.string())
    expected = dict(zip(source["id"].to_pylist(), words.to_pylist(), strict=True))
    assert {row["id"]: row["word"] for row in published.to_pylist()} == expected
    if files:
        assert {row["id"]: row["in_list"] for row in published.to_pylist()} == {
            n: [word] for n, word in expected.items()
        }


def test_rows_without_any_identity_are_kept_as_often_as_they_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A multiset: rows that are equal in every column, on one place, none lost and none doubled."""
    ra, dec = uniform(40)
    source = pa.table(
        {"ra": np.repeat(ra, 15), "dec": np.repeat(dec, 15), "flag": [n % 4 == 0 for n in range(600)]}
    )
    land(tmp_path, source)
    run = Run.start(spark, tmp_path, threshold="100 rows")
    run.ingest(write={"block_bytes": 500, "target_bytes": 2000})
    counts = [
        table.group_by(["ra", "dec", "flag"])
        .aggregate([([], "count_all")])
        .sort_by([("ra", "ascending"), ("flag", "ascending")])
        for table in (source, run.published())
    ]
    assert counts[0].equals(counts[1])


def test_numbers_of_csv_files_keep_all_their_digits(spark: SparkSession, tmp_path: Path) -> None:
    ids = [-(2**63), LAST, 2**53 + 1, -1]
    big = [2**64 - 1, 2**63, 0, 1]
    longer = [str(10**30 + n) for n in range(4)]
    lines = [
        f"{a},{b},{c},{10 * n}.125,{n}.5" for n, (a, b, c) in enumerate(zip(ids, big, longer, strict=True))
    ]
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "stars.csv").write_text("\n".join(["id,big,longer,ra,dec", *lines]) + "\n")
    source = {"uri": f"{tmp_path}/landing/*.csv", "format": "csv"}
    run = Run.start(spark, tmp_path, source=source)
    run.ingest(count={"split_target_bytes": 60})
    published = run.published().sort_by("ra")
    assert published["id"].to_pylist() == ids
    assert published["big"].to_pylist() == big
    assert published["longer"].to_pylist() == longer
    assert pq.read_schema(next(iter(run.leaf_files().values()))).field("id").type == pa.int64()
