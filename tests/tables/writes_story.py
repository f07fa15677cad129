"""Random operations that write deletes in either mode, against a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hipslake.api.table import Table as OpenTable

from tests.tables.deletes_story import FIRST, SCHEMA, DeletesStory, Row
from tests.tables.test_commit import Interrupted

MODES = ("copy-on-write", "merge-on-read")
CHANGES = SCHEMA.append(pa.field("op", pa.string()))


class WritesStory(DeletesStory):
    """As `DeletesStory`; of a row, `v` is the order of the record that put it."""

    def actions(self) -> list[Callable[[], None]]:
        own = [self.upsert, self.interval, self.delete_keys, self.delete_filter, self.changes, self.changes]
        return [*own, *own, self.stream, self.positions, self.append, self.pack, self.pack]

    def writing(self) -> dict[str, Any]:
        return {"write": self.random.choice(MODES)}

    def delete_keys(self) -> None:
        """Some keys that there are, some twice, and some that there are not."""
        gone = self._some_ids(6 * self.size)
        missing = [
            number for number in self.random.sample(range(400 * self.size), 3) if number not in self.rows
        ]
        before = self.table.current_snapshot()
        table = self._opened().delete([*gone, *missing, *gone[:2]], key="id", force=True, **self.writing())
        if gone:
            assert table.deletion is not None
            assert (table.deletion.rows, table.deletion.missing_keys) == (len(gone), len(missing))
        else:
            assert self.table.current_snapshot() == before
        self._forget(gone)

    def delete_filter(self) -> None:
        """What a filter is true for, on columns with nulls and bounds."""
        day = self.random.randint(0, 6)
        low = self.random.randint(0, 400 * self.size)
        tests: dict[str, Callable[[Row], bool]] = {
            f"id >= {low} and id < {low + 20 * self.size}": lambda row: (
                low <= row["id"] < low + 20 * self.size
            ),
            "band is null and x > 0": lambda row: row["band"] is None and (row["x"] or 0) > 0,
            f"t >= '2026-01-0{day + 1}' and band = 'g'": lambda row: (
                (row["t"] - FIRST).days >= day and row["band"] == "g"
            ),
            "x < 0": lambda row: row["x"] is not None and row["x"] < 0,
        }
        text = self.random.choice(list(tests))
        gone = [number for number, row in self.rows.items() if tests[text](row)]
        table = self._opened().delete(filters=text, force=True, **self.writing())
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
            if any((each["id"], each["v"]) == (number, record["v"]) for each in found):
                continue
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
        spec = self.spec(
            name=f"changes_{self._written}",
            mode="upsert",
            key=["id"],
            order_by="v",
            operation={"column": "op"},
            **self.writing(),
        )
        parts = [found[at::2] for at in range(2)]
        tables = [pa.Table.from_pylist(part, CHANGES) for part in parts if part]
        engine = self.lake.engine
        if self.random.random() < 0.3 and self.table.current_snapshot() is not None:
            # Others compact nothing of it, but add a row of another key: the sink is committed on top of it.
            other = self._row(400 * self.size + self._written)
            rows[other["id"]] = other
            self.lake.engine = Interrupted(lambda: self._stream_rows([other]))
        told = self.lake.sink(spec, *tables)
        self.lake.engine = engine
        assert (told.outdated, told.missing_deletes, told.rows_deleted) == (outdated, missing, deleted)
        again = self.lake.table(spec).current_snapshot()
        assert again is not None
        self.operations += len(found)
        self.rows = rows

    def _stream_rows(self, rows: list[Row]) -> None:
        spec = self.spec(name=f"other_{self._written}")
        self.lake.sink(spec, pa.Table.from_pylist(rows, SCHEMA))

    def _opened(self) -> OpenTable:
        spec = self.spec()
        return OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=self.lake.warehouse)
