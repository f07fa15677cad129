"""A keyed table in a catalog whose commits go wrong, beside a dict of what must be in it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import ConflictError, HipslakeError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.report import failure_of
from hipslake.steps.table_delete.table_deleting import delete_table_rows
from hipslake.steps.table_delete.table_rows_choice import TableRowsChoice
from hipslake.tables.iceberg.snapshot_history import WRITE_PROPERTY, summary_of
from hipslake.tables.opening import open_table

from tests.system.sinks import orphans
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.faults import assert_whole, swept, vacuumed
from tests.tables.sinking import Lake, utc

Step = Callable[[], object]
TABLE = "survey.sample"


class Wire(Protocol):
    """What lies between the library and a catalog."""

    faults: tuple[str, ...]  # the names of all that can be asked for

    def break_next(self, fault: str) -> None:
        """Let the next request to change the table meet a fault."""

    def before_next(self, step: Step) -> None:
        """Do something right before the next request to change the table."""

    def release(self) -> list[int]:
        """Let requests take effect, or be refused, that have not so far."""

    def clear(self) -> None:
        """Forget the faults that were not met."""


@dataclass
class FaultStory:
    """The table.

    Attributes
    ----------
    lake, other : Lake
        Two writers' landings, and one warehouse.
    behind, straight : dict
        The catalog as a spec says it, behind the wire and beside it.
    wire : Wire
    chance : random.Random
    write : str
        How rows go.
    """

    lake: Lake
    other: Lake
    behind: dict[str, Any]
    straight: dict[str, Any]
    wire: Wire
    chance: random.Random
    write: str
    due: dict[int, int] = field(default_factory=dict)
    nights: int = 0
    columns: int = 0
    lines: list[str] = field(default_factory=list)
    luck: random.Random = field(default_factory=lambda: random.Random(0))  # of what is held

    def spec_at(self, iceberg: dict[str, Any]) -> TableSpec:
        given = {"mode": "upsert", "key": "id", "write": self.write, "partition": ["bucket[2](id)"]}
        return self.lake.spec(iceberg=iceberg, **given)

    @property
    def spec(self) -> TableSpec:
        return self.spec_at(self.behind)

    def rows(self) -> pa.Table:
        ids = self.chance.sample(range(30), self.chance.randint(1, 8))
        self.nights += 1
        more = {f"c{number}": [number] * len(ids) for number in range(self.columns)}
        return pa.table({"id": pa.array(ids, pa.int64()), "value": [self.nights] * len(ids), **more})

    def sunk(self, lake: Lake | None = None) -> Step:
        """A sink of new rows; by another writer, if its landing is given."""
        rows, night = self.rows(), self.nights
        self.due |= dict.fromkeys(rows["id"].to_pylist(), night)
        where, spec = (self.lake, self.spec) if lake is None else (lake, self.spec_at(self.straight))
        uri = where.land(rows)
        start = utc(f"2026-{1 + night // 28:02d}-{1 + night % 28:02d}T00:00:00")
        return lambda: where.sink(spec, uri=uri, start=start)

    def widened(self) -> Step:
        """A sink of rows with a new column."""
        self.columns += 1
        return self.sunk()

    def deleted(self, bound: int | None = None) -> Step:
        """A delete of the rows of nights before one."""
        if bound is None:
            bound = self.chance.randint(max(0, self.nights - 3), self.nights)
        self.due = {key: value for key, value in self.due.items() if value >= bound}
        choice = TableRowsChoice(filters=f"value < {bound}")

        def delete() -> None:
            table, write = open_table(self.spec.iceberg, self.lake.warehouse, TABLE), self.spec.write
            delete_table_rows(table, TABLE, choice, ThisProcess(1), write=write, force=True)

        return delete

    def compacted(self) -> Step:
        asked = {"table": TABLE, "iceberg": self.behind, "full": True}
        return lambda: compact(compacting.request(self.lake.root, **asked))

    def aged(self) -> Step:
        """A vacuum of all snapshots but the newest."""
        return lambda: vacuumed(self.lake, self.spec)

    def done(self, step: Step) -> None:
        """Do a step, as often as a scheduler would; requests that are held take effect between, or later."""
        for _ in range(8):
            try:
                step()
            except HipslakeError as error:
                self.lines.append(f"  {type(error).__name__}: {error}")
                if not failure_of(error).retryable and not isinstance(error, ConflictError):
                    raise
                if self.luck.random() < 0.5:
                    self.lines.append(f"  released: {self.wire.release()}")
            else:
                return
        raise AssertionError("it does not come to an end")

    def holds(self) -> None:
        """The rows are those of the dict, and no write has made two snapshots."""
        table = self.lake.table(self.spec)
        found = table.scan(selected_fields=("id", "value")).to_arrow()
        rows = sorted(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))
        assert rows == sorted(self.due.items())
        writes = [summary_of(each).get(WRITE_PROPERTY) for each in table.snapshots()]
        assert len(set(writes)) == len(writes)

    def go_on(self, steps: int) -> None:
        """Do random steps with random faults, and look at the rows after each."""
        kinds = [self.sunk] * 4 + [self.deleted] * 2 + [self.compacted, self.aged, self.widened]
        for _ in range(steps):
            kind = self.chance.choice(kinds)
            faults = self.chance.sample(self.wire.faults, self.chance.choice([0, 1, 1, 2]))
            self.lines.append(f"{kind.__name__}: {faults}")
            if kind == self.sunk and self.chance.random() < 0.3:
                self.wire.before_next(self.sunk(self.other))
                self.lines.append("  overtaken")
            step = kind()
            for fault in faults:
                self.wire.break_next(fault)
            self.done(step)
            self.wire.clear()
            self.holds()

    def ended(self) -> None:
        """All that is held takes effect or is refused, the leftovers go, and the rows stay."""
        self.wire.clear()
        self.lines.append(f"released at the end: {self.wire.release()}")
        self.holds()
        self.done(self.sunk())
        swept(self.lake, self.spec)
        self.holds()
        table = self.lake.table(self.spec)
        assert_whole(table)
        assert [path for path in orphans(table) if not path.endswith(".metadata.json")] == []

    def lived(self, steps: int) -> None:
        """All of it; a note tells the story where it goes wrong."""
        try:
            self.done(self.sunk())
            self.go_on(steps)
            self.ended()
        except BaseException as error:
            error.add_note(f"{self.write}:\n" + "\n".join(self.lines))
            raise
