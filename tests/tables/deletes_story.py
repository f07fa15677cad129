"""Random operations on a table that several writers change, against a dict in plain Python.

Others write as streams do (RisingWave, Flink: data files, equality deletes of older rows and position deletes
of rows in the same commit), or as Spark does in merge-on-read (position deletes). This library sinks and
compacts in between, also while others delete. After each commit the rows are those of the dict.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.api.table import Table as OpenTable
from hipslake.errors import ConflictError
from hipslake.tables.iceberg.delete_index import files_of_snapshot
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite
from pyiceberg.table import Table

from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import RowDelta
from tests.tables.table_story import Row, TableStory, schema_of
from tests.tables.test_commit import Interrupted


class DeletesStory(TableStory):
    """An Iceberg table that others delete rows of, by position and by value."""

    first = dt.datetime(2026, 1, 1)
    schema = schema_of(None)
    bands = ("g", "r", None, "")

    def actions(self) -> list[Callable[[], None]]:
        return [
            self.stream,
            self.stream,
            self.positions,
            self.values,
            self.upsert,
            self.interval,
            self.append,
            self.pack,
        ]

    def check(self) -> None:
        opened = self.opened()
        wanted = counted([dict(row) for row in self.rows.values()])
        found = counted(opened.read().to_pylist())
        assert found == wanted, (self.told, found - wanted, wanted - found)
        assert opened.rows in (None, len(self.rows))
        deletes = files_of_snapshot(self.table).deletes
        if all(each.by_position for each in deletes):  # pyiceberg reads no others
            assert counted(self.table.scan().to_arrow().to_pylist()) == wanted, self.told
        if self.random.random() < 0.2:
            assert counted(plain_rows(self.table)) == wanted, self.told

    # What others do

    def stream(self) -> None:
        """Puts and deletes of keys in one commit; a key may come several times."""
        ids = self.random.choices(range(60 * self.size), k=self.random.randint(1, 25 * self.size))
        self._stream(ids)

    def positions(self) -> None:
        """Deletes of rows by where they lie."""
        gone = self._some_ids(6 * self.size)
        at = self._places()
        delta = RowDelta(self.table)
        by_place: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
        for number in gone:
            by_place.setdefault(self._place(self.rows[number]["band"]), []).append(at[self.rows[number]["v"]])
        for place, some in by_place.items():
            self.random.shuffle(some)
            delta.positions([*some, some[0]], place)
        if by_place:
            delta.commit()
        self._forget(gone)

    def values(self) -> None:
        """Deletes of all rows with some values, that are no keys."""
        if self.partition:
            band, x = self.random.choice(self.bands), self.random.choice([0.0, 1.5, None])
            self._delete_values(pa.table({"x": pa.array([x], pa.float64())}), [band])
            self._forget([n for n, row in self.rows.items() if (row["band"], row["x"]) == (band, x)])
        else:
            pairs = [(self.random.choice(self.bands), self.random.choice([0.0, 1.5, None])) for _ in range(2)]
            bands, numbers = zip(*pairs, strict=True)
            told = pa.table({"x": pa.array(numbers, pa.float64()), "band": pa.array(bands, pa.string())})
            self._delete_values(told, [])
            self._forget([n for n, row in self.rows.items() if (row["band"], row["x"]) in pairs])

    # What this library does

    def append(self) -> None:
        self._sink("append", self._new(self.random.randint(1, 10 * self.size)))

    def upsert(self) -> None:
        """Rows by their keys; in half of the cases others delete some rows meanwhile."""
        rows = [
            self._row(number)
            for number in self.random.sample(range(80 * self.size), self.random.randint(1, 15 * self.size))
        ]
        engine = self.lake.engine
        if self.random.random() < 0.5:
            gone = self._some_ids(5 * self.size)
            self.lake.engine = Interrupted(lambda: self._delete_keys(gone))
        self._sink("upsert", rows, mode="upsert", key=["id"], **self.writing())
        self.lake.engine = engine

    def pack(self) -> None:
        """A compaction; in some cases others delete rows meanwhile, by position or by value."""
        given: dict[str, Any] = {"delete_file_threshold": self.random.choice([1, 1, 2, None])}
        if self.random.random() < 0.5:
            given |= {"mode": "hilbert", "columns": ["id", "x"]}
        if self.partition and self.random.random() < 0.3:
            given["partitions"] = "band = 'g'"
        full = self.random.random() < 0.3
        meanwhile = self.random.choice([None, None, "keys", "stream", "positions"])
        before = self.table.current_snapshot()
        if meanwhile is not None:
            self._meanwhile(meanwhile)
        try:
            compact(request(self.lake, full=full, **given))
        except ConflictError:
            assert meanwhile == "positions", self.told
        self.patch.undo()
        after = self.table.current_snapshot()
        everything = given["delete_file_threshold"] == 1 and "partitions" not in given
        if everything and (meanwhile is None or before == after):
            assert files_of_snapshot(self.table).deletes == [], self.told

    # Parts

    @property
    def table(self) -> Table:
        return self.lake.table(self.spec())

    def opened(self) -> OpenTable:
        spec = self.spec()
        return OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=self.lake.warehouse)

    def _meanwhile(self, what: str) -> None:
        commit = IcebergRewrite.commit

        def second(rewrite: IcebergRewrite, *told: Any) -> str:
            self.patch.undo()
            if what == "keys":
                self._delete_keys(self._some_ids(5 * self.size))
            else:
                getattr(self, what)()
            return commit(rewrite, *told)

        self.patch.setattr(IcebergRewrite, "commit", second)

    def _stream(self, ids: list[int]) -> None:
        delta = RowDelta(self.table)
        puts: dict[tuple[Any, ...], list[Row]] = {}
        latest: dict[int, tuple[tuple[Any, ...], int] | None] = {}
        left_out: dict[tuple[Any, ...], list[int]] = {}
        for number in ids:
            if (stale := latest.get(number)) is not None:
                left_out.setdefault(stale[0], []).append(stale[1])
            latest[number] = None
            if self.random.random() < 0.75:
                row = self._row(number)
                some = puts.setdefault(self._place(row["band"]), [])
                latest[number] = self._place(row["band"]), len(some)
                some.append(row)
        older: dict[tuple[Any, ...], list[int]] = {}
        for number in latest:
            bands = {self._place(band) for band in self.bands} if self.random.random() < 0.2 else set()
            if number in self.rows:
                bands.add(self._place(self.rows[number]["band"]))
            for place in bands:
                older.setdefault(place, []).append(number)
        for place, some in puts.items():
            path = delta.data(pa.Table.from_pylist(some, self.schema), place)
            if at := left_out.get(place):
                delta.positions([(path, position) for position in at], place)
        for place, numbers in older.items():
            delta.values(pa.table({"id": pa.array(numbers, pa.int64())}), place)
        if not delta.files:
            return
        delta.commit()
        self.operations += len(ids)
        for number, where in latest.items():
            self.rows.pop(number, None)
            if where is not None:
                self.rows[number] = puts[where[0]][where[1]]

    def _delete_keys(self, gone: list[int]) -> None:
        delta = RowDelta(self.table)
        by_place: dict[tuple[Any, ...], list[int]] = {}
        for number in gone:
            by_place.setdefault(self._place(self.rows[number]["band"]), []).append(number)
        for place, some in by_place.items():
            delta.values(pa.table({"id": pa.array(some, pa.int64())}), place)
        if by_place:
            delta.commit()
        self._forget(gone)

    def _delete_values(self, rows: pa.Table, place: list[Any]) -> None:
        delta = RowDelta(self.table)
        delta.values(rows, place)
        delta.commit()

    def _place(self, band: str | None) -> tuple[Any, ...]:
        return (band,) if self.partition else ()

    def _places(self) -> dict[int, tuple[str, int]]:
        """Where each row lies that was ever written, and still is in a file, by its number."""
        found = {}
        for path in self.lake.live(self.spec()):
            for at, number in enumerate(pq.read_table(path)["v"].to_pylist()):
                found[number] = str(path), at
        return found
