"""Random operations on a table, against a dict in plain Python: what stories of all formats share."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hipslake.api.table import Table
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.sink_order import SinkOutcome

from tests.tables.sinking import Lake

DAY = dt.timedelta(days=1)
Row = dict[str, Any]


def schema_of(timezone: str | None) -> pa.Schema:
    """The columns of a story's table, with times in a time zone or in none."""
    return pa.schema(
        [
            ("id", pa.int64()),
            ("band", pa.string()),
            ("x", pa.float64()),
            ("t", pa.timestamp("us", timezone)),
            ("v", pa.int64()),
        ]
    )


class TableStory:
    """A table, and what it should hold; of a row, `v` is the order of the record that put it.

    Subclasses say what may be done, `actions`, and how it is looked whether the rows are right, `check`.

    Parameters
    ----------
    lake : Lake
    patch : pytest.MonkeyPatch
    seed : int
    partition : list of str
        By nothing or by band.
    size : int
        How many times as many rows a commit has.
    """

    first: ClassVar[dt.datetime]
    schema: ClassVar[pa.Schema]
    bands: ClassVar[tuple[str | None, ...]]

    def __init__(
        self, lake: Lake, patch: pytest.MonkeyPatch, seed: int, partition: list[str], size: int = 1
    ) -> None:
        self.lake = lake
        self.patch = patch
        self.random = random.Random(seed)
        self.partition = partition
        self.size = size
        self.rows: dict[int, Row] = {}
        self.operations = 0
        self.told: list[str] = []
        self._written = 0
        self._sink("append", self._new(20 * size))

    def step(self) -> None:
        """Do something, and look."""
        does = self.random.choice(self.actions())
        self.told.append(does.__name__)
        does()
        self.patch.undo()
        self.check()

    def actions(self) -> list[Callable[[], None]]:
        """What may be done."""
        raise NotImplementedError

    def check(self) -> None:
        """Look whether the table has the rows of the dict."""
        raise NotImplementedError

    def opened(self) -> Table:
        """The table as users open it."""
        raise NotImplementedError

    def spec(self, **given: Any) -> TableSpec:
        return self.lake.spec(partition=self.partition, **given)

    def writing(self) -> dict[str, Any]:
        """What the spec of a sink says of how it writes."""
        return {}

    def perhaps_meanwhile(self, *, keys: bool = True) -> bool:
        """Let some other rows come right before the next commit, some by their keys; whether they will."""
        return False

    def interval(self) -> None:
        """All rows of some days, whoever wrote them."""
        first = self.random.randint(0, 5)
        start, end = self.first + first * DAY, self.first + (first + self.random.randint(1, 2)) * DAY
        self._forget([n for n, row in self.rows.items() if start <= row["t"] < end])
        rows = [row | {"t": start} for row in self._new(self.random.randint(0, 5 * self.size))]
        source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
        given = {"mode": "overwrite-interval", "interval": "t", "source": source, **self.writing()}
        self._sink("interval", rows, start=in_utc(start), end=in_utc(end), **given)

    def delete_keys(self) -> None:
        """Some keys that there are, some twice, and some that there are not."""
        gone = self._some_ids(6 * self.size)
        missing = [each for each in self.random.sample(range(400 * self.size), 3) if each not in self.rows]
        before = self.opened()
        table = before.delete([*gone, *missing, *gone[:2]], key="id", force=True, **self.writing())
        if gone:
            assert table.deletion is not None
            assert (table.deletion.rows, table.deletion.missing_keys) == (len(gone), len(missing))
        else:
            assert self.opened().version == table.version == before.version
        self._forget(gone)

    def delete_filter(self) -> None:
        """What a filter is true for, on columns with nulls and bounds."""
        day = self.random.randint(0, 6)
        low = self.random.randint(0, 400 * self.size)
        high = low + 20 * self.size
        tests: dict[str, Callable[[Row], bool]] = {
            f"id >= {low} and id < {high}": lambda row: low <= row["id"] < high,
            "band is null and x > 0": lambda row: row["band"] is None and (row["x"] or 0) > 0,
            f"t >= '2026-01-0{day + 1}' and band = 'g'": lambda row: (
                (row["t"] - self.first).days >= day and row["band"] == "g"
            ),
            "x < 0": lambda row: row["x"] is not None and row["x"] < 0,
        }
        text = self.random.choice(list(tests))
        self.perhaps_meanwhile()
        table = self.opened().delete(filters=text, force=True, **self.writing())
        gone = [number for number, row in self.rows.items() if tests[text](row)]
        if gone:
            assert table.deletion is not None
            assert table.deletion.rows == len(gone), (text, self.told)
        self._forget(gone)

    def changes(self) -> None:
        """Records that insert, update and delete, several of a key; some are older than what stands."""
        found: list[Row] = []
        rows = dict(self.rows)
        for _ in range(self.random.randint(1, 25 * self.size)):
            number = self.random.randrange(80 * self.size)
            record = self._row(number) | {"op": self.random.choice("IUUD")}
            if number in rows and self.random.random() < 0.2:
                record["v"] = rows[number]["v"] - self.random.randint(1, 5)
            if not any((each["id"], each["v"]) == (number, record["v"]) for each in found):
                found.append(record)
        last: dict[int, Row] = {}
        for record in found:
            if record["id"] not in last or record["v"] > last[record["id"]]["v"]:
                last[record["id"]] = record
        outdated = missing = deleted = 0
        for number, record in last.items():
            if number in rows and rows[number]["v"] > record["v"]:
                outdated += 1
            elif record["op"] == "D":
                deleted += number in rows
                missing += number not in rows
                rows.pop(number, None)
            else:
                rows[number] = {name: value for name, value in record.items() if name != "op"}
        self._written += 1
        given = {"mode": "upsert", "key": ["id"], "order_by": "v", "operation": {"column": "op"}}
        spec = self.spec(name=f"changes_{self._written}", **given, **self.writing())
        schema = self.schema.append(pa.field("op", pa.string()))
        parts = [pa.Table.from_pylist(part, schema) for part in (found[::2], found[1::2]) if part]
        told = self._sink_changes(spec, parts, rows)
        assert (told.outdated, told.missing_deletes, told.rows_deleted) == (outdated, missing, deleted)
        self.operations += len(found)
        self.rows = rows

    def _sink_changes(self, spec: TableSpec, parts: list[pa.Table], rows: dict[int, Row]) -> SinkOutcome:
        """Sink records; `rows` is what the table should hold afterwards."""
        return self.lake.sink(spec, *parts)

    def _sink(self, name: str, rows: list[Row], **given: Any) -> None:
        order = {part: given.pop(part) for part in ("start", "end") if part in given}
        self._written += 1
        spec = self.spec(name=f"{name}_{self._written}", **given)
        self.lake.sink(spec, pa.Table.from_pylist(rows, self.schema), **order)
        self.operations += len(rows)
        self.rows |= {row["id"]: row for row in rows}

    def _forget(self, ids: list[int]) -> None:
        self.operations += len(ids)
        for number in ids:
            del self.rows[number]

    def _new(self, count: int, since: int = 0) -> list[Row]:
        """Rows of numbers that the table does not have; those from 300 * size on are asked for by `since`."""
        last = 300 * self.size if since == 0 else 400 * self.size
        free = [number for number in range(since, last) if number not in self.rows]
        return [self._row(number) for number in self.random.sample(free, min(count, len(free)))]

    def _row(self, number: int) -> Row:
        self._written += 1
        return {
            "id": number,
            "band": self.random.choice(self.bands),
            "x": self.random.choice([0.0, 1.5, -2.0, None]),
            "t": self.first + self.random.randint(0, 6 * 24) * dt.timedelta(hours=1),
            "v": self._written,
        }

    def _some_ids(self, most: int) -> list[int]:
        count = min(len(self.rows), self.random.randint(0, most))
        return self.random.sample(sorted(self.rows), count)


def in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC)
