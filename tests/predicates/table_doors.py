"""The interval that a sink replaces, through whole sinks into an Iceberg table, against the reference."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from hipslake.specs.table_spec import TableSpec

from tests.predicates.catalog_doors import hold
from tests.predicates.reference import compared
from tests.tables.sinking import Lake

_KINDS = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
_PARTITIONS = ([], [], ["day(t)"], ["month(t)"], ["bucket[3](id)"])
_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND, _DAY = 1_000_000, 86_400_000_000
_NEAR = 20_000 * _DAY  # in 2024
_PLACES = (0, -_DAY, 400 * _DAY, _NEAR, _NEAR + _DAY, _NEAR + 31 * _DAY)


@dataclass
class SunkRows:
    """A table, and what it holds by the reference: ids, each with its time in µs since 1970 or null."""

    lake: Lake
    spec: TableSpec
    kind: pa.DataType
    rows: dict[int, int | None]
    used: int  # ids from here on are new

    def landed(self, times: list[int | None]) -> pa.Table:
        """New rows, as a source has them; the reference gets them too."""
        ids = range(self.used, self.used + len(times))
        self.used += len(times)
        self.rows.update(zip(ids, times, strict=True))
        column = pa.array(times, pa.timestamp("us"))
        stored = column.cast(pa.date32()) if pa.types.is_date(self.kind) else column.cast(self.kind)
        return pa.table({"id": pa.array(ids, pa.int64()), "t": stored})


def _moment(random: Random, kind: pa.DataType) -> int:
    """Near to others, so that intervals begin and end at a row's own time."""
    at = random.choice(_PLACES) + random.choice((0, 0, 1, -1, _SECOND, _DAY // 2, _DAY - 1))
    return at // _DAY * _DAY if pa.types.is_date(kind) else at


def sink_randomly(random: Random, folder: Path) -> SunkRows:
    """Some files of random times, null among them, in a table with or without partitions."""
    lake, kind = Lake(folder), random.choice(_KINDS)
    partition = random.choice(_PARTITIONS)
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    spec = lake.spec(mode="overwrite-interval", interval="t", source=source, partition=partition)
    sunk = SunkRows(lake, spec, kind, {}, 0)
    for number in range(random.randint(1, 3)):
        times = [
            None if random.random() < 0.15 else _moment(random, kind) for _ in range(random.randint(1, 12))
        ]
        lake.sink(lake.spec(name=f"other{number}", partition=partition), sunk.landed(times))
    return sunk


def replaces_an_interval(random: Random, sunk: SunkRows) -> None:
    """Rows of an interval that go, and others that come; the rest of the table stays."""
    first, last = sorted(_moment(random, pa.timestamp("us")) for _ in range(2))
    last += first == last
    for number, at in list(sunk.rows.items()):
        if compared(at, ">=", first) is True and compared(at, "<", last) is True:
            del sunk.rows[number]
    inside = [_moment(random, sunk.kind) for _ in range(8)]
    came = sunk.landed([at for at in inside if first <= at < last])
    start, end = (
        (_EPOCH + datetime.timedelta(microseconds=at)).replace(tzinfo=datetime.UTC) for at in (first, last)
    )
    sunk.lake.sink(sunk.spec, came, start=start, end=end, force=True)
    found: list[Any] = sunk.lake.rows(sunk.spec)["id"].to_pylist()
    hold("overwrite-interval", f"[{start}, {end}) of {sunk.kind} by {sunk.spec.partition}", found, sunk.rows)
