"""Random histories of a table, ours and others', held against a plain model: rows with their owners.

Each step is one of our runs (a sink in one of the modes, again, with other rows, or by force; a compaction; a
vacuum) or what pyiceberg does as an outsider (a rollback, a branch that takes the place of the main one, a
cherry-pick, a delete, an append, a rewriting, in one commit or in two with others between, an expiry, another
spec, another column). After each of our runs the rows are those of the model, or it ended in an error that
the model allows; and where others have changed rows of a sink, it did end in an error.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table import TableSpec
from hipslake.specs.vacuum import Retention
from hipslake.tables.catalogs import open_catalog
from hipslake.tables.data_files import live_files
from hipslake.tables.vacuum import vacuum_table
from pyiceberg.table import Table
from pyiceberg.types import LongType

from tests.compaction import compacting
from tests.compaction.compacting import compact
from tests.tables.history_model import OUTSIDER, Content, Row, State
from tests.tables.sinking import Lake, utc

FIRST = utc("2026-01-01T00:00:00")
NIGHTS = 4


@dataclass
class Story:
    """A table, its model, and what came of the runs."""

    lake: Lake
    random: random.Random
    version: str
    one_spec: bool  # for all modes
    states: dict[int | None, State] = field(default_factory=lambda: {None: State()})
    x: str = "x"  # what the column is called by now
    by_night: bool = False
    expired: bool = False
    unsettled: bool = False  # a rollback that no commit of ours has seen yet
    told: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    runs: int = 0

    # -- what is there

    def spec(self, **given: Any) -> TableSpec:
        more = {"mode": "append"} | given
        return self.lake.spec(
            partition=["night"] if self.by_night else [],
            properties={
                "format-version": self.version,
                "write.metadata.previous-versions-max": "1" if self.version == "2" else "20",
            },
            **more,
        )

    @property
    def table(self) -> Table:
        return self.lake.table(self.spec())

    @property
    def number(self) -> int | None:
        return self.table.metadata.current_snapshot_id

    @property
    def state(self) -> State:
        return self.states[self.number]

    def found(self) -> Counter[tuple[int, float, int]]:
        rows = self.table.scan(selected_fields=("id", self.x, "night")).to_arrow().to_pylist()
        return Counter((row["id"], row[self.x], row["night"].toordinal()) for row in rows)

    def due(self) -> Counter[tuple[int, float, int]]:
        day = FIRST.toordinal()
        return Counter((row.id, row.x, day + row.night) for row in self.state.rows)

    # -- our runs

    def drawn(self, night: int, owner: str, *, unique: bool) -> tuple[Row, ...]:
        count = self.random.choice([0, 1, 3, 5])
        ids = [self.random.randrange(12) for _ in range(count)]
        ids = sorted(set(ids)) if unique else ids
        return tuple(Row(number, self.random.choice([0.0, 0.5]), night, owner) for number in ids)

    def landed(self, rows: tuple[Row, ...]) -> str:
        days = [(FIRST + dt.timedelta(days=row.night)).date() for row in rows]
        table = pa.table(
            {
                "id": pa.array([row.id for row in rows], pa.int64()),
                self.x: pa.array([row.x for row in rows], pa.float64()),
                "night": pa.array(days, pa.date32()),
            }
        )
        return self.lake.land(table)

    def sink(self) -> None:
        mode = self.random.choice(["append"] * 4 + ["upsert", "overwrite-interval"])
        night = self.random.randrange(NIGHTS)
        name = "m" if self.one_spec else {"append": "a", "upsert": "u", "overwrite-interval": "o"}[mode]
        key, state = f"{name}{night}", self.state if self.lake_has_table() else State()
        known = dict(state.sinks).get(key)
        again = known is not None and self.random.random() < 0.3
        rows = self.drawn(night, key, unique=mode == "upsert")
        if again and known is not None:
            if known.column != self.x or (mode == "upsert" and known.mode != mode):
                return  # its rows may have the key of one another
            uri, rows = known.uri, self.rows_of[known.uri]
        else:
            uri = self.landed(rows)
            self.rows_of[uri] = rows
        force = self.random.random() < 0.2
        source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
        more: dict[str, Any] = {"upsert": {"key": "id", "source": source}, "append": {}}.get(
            mode, {"interval": "night", "source": source}
        )
        start = FIRST + dt.timedelta(days=night)
        given = {"start": start, "end": start + dt.timedelta(days=1), "force": force}
        content = Content(uri, self.x, self.by_night, mode)
        self.told.append(f"sink {key} {uri[-20:]} force={force} rows={[row[:2] for row in rows]}")
        self.runs += 1
        try:
            done = self.lake.sink(self.spec(name=name, mode=mode, **more), uri=uri, **given)
        except PlanError as error:
            self.refused(str(error), key, state, mode, force=force)
            return
        skipped = known == content and not force
        assert done.skipped == skipped, f"skipped is {done.skipped}"
        if not skipped:
            gone: Callable[[Row], bool] = {
                "append": lambda row: row.owner == key,
                "upsert": lambda row: row.id in {new.id for new in rows},
                "overwrite-interval": lambda row: row.night == night,
            }[mode]
            stay = tuple(row for row in state.rows if not gone(row))
            told = mode != "append" or force or self.expired or not state.has_changed(key)
            assert told, "changed rows stand beside the new ones"
            self.states[self.number] = state.with_sink(key, content, stay, rows)
            self.unsettled = False

    def refused(self, message: str, key: str, state: State, mode: str, *, force: bool) -> None:
        """Only of sinks in mode append, where others have interfered, or snapshots are gone."""
        assert mode == "append", message
        if "lie in files with others by now" in message:
            known = dict(state.sinks).get(key)
            mixed = known is not None and known.mode != "append"
            assert self.expired or mixed, message
            self.errors["of another mode" if mixed else "snapshots expired"] += 1
        elif "are not in the table by their values" in message:
            assert self.expired, message
            assert not force, message
            self.errors["deleted and expired"] += 1
        else:
            assert "other rows in the place of" in message, message
            assert state.may_have_changed(key), message
            assert not force, message
            self.errors["changed by others"] += 1

    def lake_has_table(self) -> bool:
        from hipslake.tables.catalogs import find_table

        spec = self.spec()
        return find_table(open_catalog(spec.iceberg, self.lake.warehouse), spec.table) is not None

    def compaction(self) -> None:
        more = self.random.choice([{}, {"mode": "zorder", "columns": ["id"]}])
        iceberg = {"uri": f"sqlite:///{self.lake.root}/state/iceberg.db"}
        before, number = self.state, self.number
        self.runs += 1
        compact(compacting.request(self.lake.root, table="survey.sample", iceberg=iceberg, full=True, **more))
        if self.number != number:
            self.unsettled = False
        self.states[self.number] = before

    def vacuum(self) -> None:
        catalog = open_catalog(self.spec().iceberg, self.lake.warehouse)
        now = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        keep = Retention(keep_versions=self.random.choice([1, 3]), keep_days=0)
        self.runs += 1
        if vacuum_table(catalog, "survey.sample", keep, now=now, dry_run=False).expired:
            self.expired, self.unsettled = True, False

    # -- what others do

    def rollback(self) -> None:
        line = self.reachable(one.snapshot_id for one in self.ancestors()[1:])
        if line:
            self.table.manage_snapshots().rollback_to_snapshot(self.random.choice(line)).commit()
            self.unsettled = True

    def reachable(self, numbers: Iterable[int]) -> list[int]:
        """Of a key the table tells of the last sink and the one before; of older ones their snapshots do."""
        known = [number for number in numbers if number in self.states]
        if not (self.one_spec and self.expired):
            return known
        return [number for number in known if self.states[number].sinks == self.state.sinks]

    def branch(self) -> None:
        """Another line takes the place of the main one: of the past, or of a branch that was left."""
        other = self.random.choice(self.reachable(one.snapshot_id for one in self.table.snapshots()))
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
        from hipslake.tables.lineage import History

        return History(self.table).ancestors

    def __post_init__(self) -> None:
        self.changes = 0
        self.rows_of: dict[str, tuple[Row, ...]] = {}

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


def lived(root: Path, seed: int, steps: int) -> Story:
    chance = random.Random(seed)
    story = Story(Lake(root), chance, chance.choice(["1", "2", "2"]), chance.random() < 0.3)
    try:
        story.go_on(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}, version {story.version}:\n" + "\n".join(story.told))
        raise
    return story


def held(tmp_path: Path, seeds: range, steps: int) -> None:
    """Errors are few, and each is of a kind that is known."""
    stories = [lived(tmp_path / str(seed), seed, steps) for seed in seeds]
    runs = sum(story.runs for story in stories)
    errors = sum((story.errors for story in stories), Counter())
    assert runs > len(seeds) * steps // 3
    assert errors.total() < 0.1 * runs, (errors, runs)


def test_after_each_run_the_rows_are_right(tmp_path: Path) -> None:
    held(tmp_path, range(8), 25)


@pytest.mark.slow
def test_after_each_of_many_runs_the_rows_are_right(tmp_path: Path) -> None:
    held(tmp_path, range(1000, 1200), 60)
