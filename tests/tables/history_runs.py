"""A table, a plain model of it, and our runs on both."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hipslake.errors import PlanError
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.catalogs import open_catalog
from hipslake.tables.vacuum import vacuum_table
from pyiceberg.table import Table

from tests.compaction import compacting
from tests.compaction.compacting import compact
from tests.tables.history_model import Content, Row, State
from tests.tables.sinking import Lake, utc

FIRST = utc("2026-01-01T00:00:00")
NIGHTS = 4


@dataclass
class Runs:
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

    def __post_init__(self) -> None:
        self.changes = 0
        self.rows_of: dict[str, tuple[Row, ...]] = {}

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
        """Only where others have interfered, or snapshots are gone; nearly always of sinks in mode append."""
        if "it is not known any more what stands of" in message:
            assert self.expired, message
            assert mode == "append" or (mode == "upsert" and not force), message
            self.errors["taken back and expired"] += 1
            return
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
