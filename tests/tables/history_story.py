"""What others do to a table of ours, and to the model of it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.types import LongType

from tests.tables.history_model import OUTSIDER, Row
from tests.tables.history_runs import FIRST, NIGHTS, Runs


@dataclass
class Story(Runs):
    """A table that others change between our runs."""

    def rollback(self) -> None:
        line = [one.snapshot_id for one in self.ancestors()[1:] if one.snapshot_id in self.states]
        if line:
            self.table.manage_snapshots().rollback_to_snapshot(self.random.choice(line)).commit()
            self.unsettled = True

    def branch(self) -> None:
        """Another line takes the place of the main one: of the past, or of a branch that was left."""
        known = [one.snapshot_id for one in self.table.snapshots() if one.snapshot_id in self.states]
        other = self.random.choice(known)
        self.table.manage_snapshots().set_current_snapshot(other).commit()
        self.unsettled = True

    def audited(self) -> None:
        """Rows go to a branch, which then becomes the main one."""
        table, before = self.table, self.state
        name = f"audit{len(self.told)}"
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, name).commit()
        rows = self.strange(0)
        if not rows:
            return
        table = self.table
        table.append(self.outside(rows), branch=name)
        head = self.table.refs()[name].snapshot_id
        self.states[head] = replace(before, rows=before.rows + rows)
        self.table.manage_snapshots().set_current_snapshot(head).commit()

    def cherry_pick(self) -> None:
        table, state = self.table, self.state
        line = {one.snapshot_id for one in self.ancestors()}
        picked = {one.summary["source-snapshot-id"] for one in self.ancestors() if one.summary}
        for snapshot in table.snapshots():
            summary = snapshot.summary
            if summary is None or snapshot.snapshot_id in line or str(snapshot.snapshot_id) in picked:
                continue
            key = summary["hipslake.sink"]
            if snapshot.snapshot_id not in self.states:
                continue
            of = self.states[snapshot.snapshot_id]
            parent = next(
                (s for s in table.snapshots() if s.snapshot_id == snapshot.parent_snapshot_id), None
            )
            added = summary.operation.value == "append" and parent is not None
            if not added or key is None:
                continue
            short = {"sample": ""}.get(key, key)
            short = self.short(short)
            if short in dict(state.sinks) or dict(of.sinks)[short].mode != "append":
                continue
            had = {file.file_path for file in live_files(table, parent)}
            files = [file for file in live_files(table, snapshot) if file.file_path not in had]
            if any(file.spec_id != table.spec().spec_id for file in files):
                continue
            told = {"source-snapshot-id": str(snapshot.snapshot_id)}
            with (
                table.transaction() as change,
                change.update_snapshot(snapshot_properties=told).fast_append() as append,
            ):
                for file in files:
                    append.append_data_file(file)
            mine = tuple(row for row in of.rows if row.owner == short)
            self.states[self.number] = state.with_sink(short, dict(of.sinks)[short], state.rows, mine)
            self.unsettled = True
            return

    def short(self, key: str) -> str:
        name, _, start = key.partition("/")
        return f"{name}{(dt.datetime.fromisoformat(start) - FIRST).days}"

    def delete(self) -> None:
        gone = {self.random.randrange(12), self.random.randrange(12)}
        before = self.state
        self.table.delete(" or ".join(f"id == {number}" for number in gone))
        self.states[self.number] = before.without(lambda row: row.id in gone)

    def append(self) -> None:
        rows, before = self.strange(self.random.randrange(NIGHTS)), self.state
        if rows:
            self.table.append(self.outside(rows))
            self.states[self.number] = replace(before, rows=before.rows + rows)

    def rewrite(self) -> None:
        """All rows, and some of them changed; in one commit."""
        before = self.state
        if not before.rows:
            return
        gone = {self.random.randrange(12) for _ in range(2)} if self.random.random() < 0.3 else set()
        changed = tuple(self.changed(row) for row in before.rows if row.id in gone)
        after = before.without(lambda row: row.id in gone, changed)
        self.table.overwrite(self.outside(after.rows))
        self.states[self.number] = after

    def take_away(self) -> None:
        """Some rows, or all, which come back in another commit."""
        before, gone = self.state, set(self.random.sample(range(12), self.random.choice([4, 12])))
        held = tuple(row for row in before.rows if row.id in gone)
        if not held or before.held:
            return
        self.table.delete(" or ".join(f"id == {number}" for number in gone))
        # An outsider's row that comes back is one more that came.
        self.states[self.number] = replace(before.without(lambda row: row.id in gone), held=held)

    def bring_back(self) -> None:
        before = self.state
        if not before.held:
            return
        mine = Counter(row for row in before.held if row.owner != OUTSIDER)
        other = Counter(row for row in before.lost) - mine
        rows = before.held
        if {row.value for row in other} & {row.value for row in rows}:
            rows = ()  # which of both come back nobody could tell
        if rows:
            self.table.append(self.outside(rows))
        lost = tuple((Counter(before.lost) - mine).elements()) if rows else before.lost
        after = replace(before, rows=before.rows + rows, lost=lost, held=(), brought=True)
        self.states[self.number] = after

    def add_first(self) -> None:
        """Changed rows come, and those that they were made of stay for the time being."""
        before, some = self.state, {self.random.randrange(12) for _ in range(3)}
        rows = tuple(self.changed(row) for row in before.rows if row.id in some and row.owner != OUTSIDER)
        if rows:
            self.table.append(self.outside(rows))
            self.states[self.number] = replace(before, rows=before.rows + rows)

    def remove_later(self) -> None:
        """The rows go of which others were made before."""
        before = self.state
        some = {(row.id, row.made_of) for row in before.rows if row.made_of}
        after = before.without(lambda row: (row.id, row.owner) in some)
        if after.rows != before.rows:
            self.table.overwrite(self.outside(after.rows))
            self.states[self.number] = after

    def changed(self, row: Row) -> Row:
        self.changes += 1
        return row._replace(x=10.0 + self.changes, owner=OUTSIDER, made_of=row.made_of or row.owner)

    def strange(self, night: int) -> tuple[Row, ...]:
        """Rows that no sink brings."""
        return tuple(row._replace(x=row.x + 0.25) for row in self.drawn(night, OUTSIDER, unique=False))

    def outside(self, rows: tuple[Row, ...]) -> pa.Table:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        days = [(FIRST + dt.timedelta(days=row.night)).date() for row in rows]
        given = {"id": [row.id for row in rows], self.x: [row.x for row in rows], "night": days}
        schema = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        columns = [
            pa.array(given.get(name, [None] * len(rows)), schema.field(name).type) for name in schema.names
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def expire(self) -> None:
        if self.unsettled:
            return
        table = self.table
        named = {ref.snapshot_id for ref in table.refs().values()}
        old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in named]
        some = old[: self.random.randrange(len(old) + 1)]
        if some:
            table.maintenance.expire_snapshots().by_ids(some).commit()
            self.expired = True

    def evolve_spec(self) -> None:
        if self.version == "1":  # there fields stay, as void ones, which the spec has to say
            return
        with self.table.update_spec() as update:
            if self.by_night:
                update.remove_field("night")
            else:
                update.add_identity("night")
        self.by_night = not self.by_night

    def evolve_schema(self) -> None:
        with self.table.update_schema(allow_incompatible_changes=True) as change:
            names = self.table.schema().column_names
            if "z" in names:
                change.delete_column("z")
            elif self.random.random() < 0.5:
                change.add_column("z", LongType())
            else:
                new = {"x": "y", "y": "x"}[self.x]
                change.rename_column(self.x, new)
                self.x = new

    def ancestors(self) -> list[Any]:
        from hipslake.tables.iceberg.snapshot_history import History

        return History(self.table).ancestors

    def go_on(self, steps: int) -> None:
        self.sink()
        for _ in range(steps):
            if not self.lake_has_table():
                self.sink()
                continue
            step = self.random.choice(
                [self.sink] * 10
                + [self.compaction] * 3
                + [self.vacuum, self.rollback, self.branch, self.audited, self.cherry_pick, self.delete]
                + [self.delete, self.append, self.rewrite, self.expire, self.evolve_spec, self.evolve_schema]
                + [self.take_away, self.add_first]
                + [self.bring_back] * (3 if self.state.held else 0)
                + [self.remove_later] * (3 if any(row.made_of for row in self.state.rows) else 0)
            )
            if step != self.sink:
                self.told.append(step.__name__)
            step()
            assert self.found() == self.due()
