"""Compaction of partitioned Iceberg tables: partitions stay apart, and a filter chooses among them."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import FilterError, SpecError
from hipslake.steps.compact_table.rewrite_plan import open_compacted, planned
from hipslake.tables.iceberg.data_files import live_files

from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import content, request, table_of
from tests.tables.sinking import Lake


@pytest.fixture
def by_name(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    spec = lake.spec(partition=["name", "bucket[2](id)"])
    for night in range(4):
        rows = stars(300, seed=night)
        names = pa.array(["a" if n % 2 else None for n in range(300)])
        lake.sink(spec, rows.set_column(rows.schema.get_field_index("name"), "name", names))
    return lake


def test_partitions_are_kept_apart_and_chosen_by_a_filter(by_name: Lake) -> None:
    before = content(by_name)
    report = compact(request(by_name, mode="zorder", columns=["ra"], partitions="name = 'a'"))
    assert (report.partitions, report.removed.files, report.added.files) == (2, 8, 2)
    assert content(by_name) == before
    files = live_files(table_of(by_name))
    assert sorted((file.partition[0] or "", file.partition[1]) for file in files) == sorted(
        [("a", 0), ("a", 1)] + [("", 0)] * 4 + [("", 1)] * 4
    )
    nothing = compact(request(by_name, partitions="name = 'b'"))
    assert "no file matches the filter; nothing to do" in nothing.text


DAY = dt.datetime(2026, 1, 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("values", "field", "filters"),
    [
        (
            pa.array([Decimal("-1.50"), Decimal("2.00"), Decimal("7.25"), None], pa.decimal128(38, 2)),
            "v",
            {"v < 0": [0], "v in (2, 7.25)": [1, 2], "v between -2 and 2.001": [0, 1], "v is null": [3]},
        ),
        (
            pa.array([dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 2, 1), None]),
            "v",
            {"v >= '2026'": [1, 2], "v = '1969-12-31'": [0], "v > '2026-01-01T12:00'": [2]},
        ),
        (
            pa.array([DAY, DAY + dt.timedelta(microseconds=1), DAY.replace(year=1960), None]),
            "v",
            {"v > '2026-01-01'": [1], "v <= '2026-01-01T00:00:00'": [0, 2], "v < '1970'": [2]},
        ),
        (
            pa.array([DAY, DAY + dt.timedelta(hours=1), None, None], pa.timestamp("us", "UTC")),
            "v",
            {"v = '2026-01-01'": [0], "v >= '2026-01-01T03:00:00+02:00'": [1], "v is null": [2, 3]},
        ),
        (
            pa.array([DAY, DAY + dt.timedelta(hours=1), DAY.replace(month=2), DAY.replace(year=1969)]),
            "hour(v)",
            {"v_hour = '2026-01-01T01:00'": [1], "v_hour < '1970'": [3]},
        ),
        (
            pa.array([DAY, DAY.replace(month=2), DAY.replace(year=1969, month=12), None]),
            "month(v)",
            {"v_month = '2026-02'": [1], "v_month < '1970-01-01'": [2], "v_month > '2025'": [0, 1]},
        ),
        (
            pa.array([DAY, DAY.replace(year=1969), None, None]),
            "year(v)",
            {"v_year >= '2026'": [0], "v_year < '1970'": [1]},
        ),
        (pa.array([True, False, None, True]), "v", {"v": [0, 3], "v = false": [1], "not v": [1]}),
        (
            pa.array(["", "it's", "銀", None]),
            "v",
            {"v = 'it''s'": [1], "v > 'z'": [2], "v in ('', '銀')": [0, 2]},
        ),
        (pa.array([b"", b"\xff", b"a", None]), "v", {"v = 'ff'": [1], "v in ('', '61')": [0, 2]}),
        (
            pa.array([1, -(2**63), 2**63 - 1, None], pa.int64()),
            "v",
            {"v < 0": [1], "v > 1.5": [2]},
        ),
        (pa.array([dt.time(1), dt.time(2, 30), None]), "v", {"v < '02:00'": [0], "v = '02:30:00'": [1]}),
    ],
)  # fmt: skip
def test_partitions_of_every_type_are_chosen_by_a_filter(
    tmp_path: Path, values: pa.Array, field: str, filters: dict[str, list[int]]
) -> None:
    lake = Lake(tmp_path)
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": values})
    lake.sink(lake.spec(partition=[field]), rows)
    for text, expected in filters.items():
        asked = request(lake, partitions=text, full=True)
        with closing(open_compacted(asked)) as table:
            chosen = planned(asked, table).considered
        found = {row["id"] for file in chosen for row in pq.read_table(file.path).to_pylist()}
        assert sorted(found) == expected, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v = 3", "column 'v' is of type date32.*; compare it with a 'date', not with 3"),
        ("v = 'yesterday'", "write 'yesterday' as one, such as '2026-11-01'"),
        ("v = true", "compare it with a 'date', not with true"),
        ("v is nan", "is of type date32.*, which has no NaN"),
        ("w = 1", "there is no column 'w'"),
    ],
)
def test_partition_filters_of_other_types_are_told(tmp_path: Path, text: str, message: str) -> None:
    lake = Lake(tmp_path)
    lake.sink(lake.spec(partition=["v"]), pa.table({"id": [1], "v": [dt.date(2026, 1, 1)]}))
    with pytest.raises(FilterError, match=message):
        compact(request(lake, partitions=text))


def test_clustering_by_a_partition_column_is_told(by_name: Lake) -> None:
    with pytest.raises(SpecError, match=r"table survey\.sample is partitioned by name"):
        compact(request(by_name, mode="zorder", columns=["ra", "name"]))
    assert compact(request(by_name, mode="zorder", columns=["id"])).added.files == 4  # a bucket has many ids
