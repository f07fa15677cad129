"""Random operations that write deletes in either mode, against a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.sink_order import SinkOutcome

from tests.tables.deletes_story import DeletesStory
from tests.tables.table_story import Row
from tests.tables.test_commit import Interrupted

MODES = ("copy-on-write", "merge-on-read")


class WritesStory(DeletesStory):
    """As `DeletesStory`, with deletes and records of changes by this library, written in either mode."""

    def actions(self) -> list[Callable[[], None]]:
        own = [self.upsert, self.interval, self.delete_keys, self.delete_filter, self.changes, self.changes]
        return [*own, *own, self.stream, self.positions, self.append, self.pack, self.pack]

    def writing(self) -> dict[str, Any]:
        return {"write": self.random.choice(MODES)}

    def _sink_changes(self, spec: TableSpec, parts: list[pa.Table], rows: dict[int, Row]) -> SinkOutcome:
        """In some cases others add a row of another key meanwhile: the sink is committed on top of it."""
        engine = self.lake.engine
        if self.random.random() < 0.3 and self.table.current_snapshot() is not None:
            other = self._row(400 * self.size + self._written)
            rows[other["id"]] = other
            self.lake.engine = Interrupted(lambda: self._add_by_others(other))
        told = self.lake.sink(spec, *parts)
        self.lake.engine = engine
        return told

    def _add_by_others(self, row: Row) -> None:
        self.lake.sink(self.spec(name=f"other_{self._written}"), pa.Table.from_pylist([row], self.schema))
