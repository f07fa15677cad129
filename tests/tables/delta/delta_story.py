"""Random operations on a Delta table that several writers change, against a dict in plain Python.

This library sinks, deletes, compacts and vacuums, and in some cases does one while it does another; delta-rs,
where it is there, inserts, deletes, updates, merges and compacts in between. After each the rows are those of
the dict, as we read them, as plain Python reads the log, and as other engines read it.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table
from hipslake.errors import ConflictError
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.delta import delta_commit
from hipslake.tables.opening import open_table

from tests.peers.running import run_peer
from tests.tables.compaction.compacting import compact, request
from tests.tables.delta.delta_lake import DeltaLake, by_peers, plain_delta_rows
from tests.tables.delta.vectors import KINDS, data_files, delete_by_vectors, vectors_of
from tests.tables.plain_reader import counted

BANDS = ("g", "r/1 %", None)
FIRST = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("band", pa.string()),
        ("x", pa.float64()),
        ("t", pa.timestamp("us", "UTC")),
        ("v", pa.int64()),
    ]
)
RECORDS = SCHEMA.append(pa.field("op", pa.string()))
OTHERS = Path(__file__).with_name("others_change_delta.py")
Row = dict[str, Any]


class DeltaStory:
    """A table, and what it should hold.

    Parameters
    ----------
    lake : DeltaLake
    patch : pytest.MonkeyPatch
    seed : int
    partition : list of str
        By nothing or by band.
    python : str, optional
        The interpreter of those who write too; None: nobody does.
    size : int
        How many times as many rows a commit has.
    modes : sequence of str
        How rows go.
    """

    def __init__(
        self,
        lake: DeltaLake,
        patch: pytest.MonkeyPatch,
        seed: int,
        partition: list[str],
        python: str | None = None,
        size: int = 1,
        modes: Sequence[str] = ("copy-on-write",),
    ) -> None:
        self.lake = lake
        self.patch = patch
        self.random = random.Random(seed)
        self.partition = partition
        self.python = python
        self.size = size
        self.modes = modes
        self.rows: dict[int, Row] = {}
        self.operations = 0
        self.told: list[str] = []
        self._written = 0
        self._is_cut = False
        self._sink("append", self._new(20 * size))

    @property
    def location(self) -> Path:
        """Where the table lies."""
        return self.lake.location(self.spec())

    def step(self) -> None:
        """Do something, and look."""
        ours = [self.append, self.upsert, self.interval, self.delete_keys, self.delete_filter, self.pack]
        ours += [self.changes, self.changes, self.pack, self.vacuum]
        theirs = [self.insert, self.delete, self.update, self.merge, self.optimize] if self.python else []
        theirs += [self.vectors] if "merge-on-read" in self.modes else []
        does = self.random.choice([*ours, *theirs])
        self.told.append(does.__name__)
        does()
        self.patch.undo()
        self.check()

    def check(self) -> None:
        wanted = counted([dict(row) for row in self.rows.values()])
        opened = Table.open(self.location)
        found = counted(opened.read().to_pylist())
        assert found == wanted, (self.told, found - wanted, wanted - found)
        assert opened.rows == len(self.rows)
        if not self._is_cut and self.python is None:
            assert counted(plain_delta_rows(self.location)) == wanted, self.told

    def check_by_peers(self, folder: Path, only: tuple[str, ...] = ()) -> None:
        """Look whether other engines read the same; `only` names some of them."""
        assert self.python is not None
        wanted = counted([dict(row) for row in self.rows.values()])
        for peer, read in by_peers(self.python, self.location, folder, only).items():
            found = pa.table({field.name: read[field.name].cast(field.type) for field in SCHEMA})
            assert counted(found.to_pylist()) == wanted, (peer, self.told)

    # What this library does

    def append(self) -> None:
        rows = self._new(self.random.randint(1, 10 * self.size))
        self._perhaps_meanwhile(keys=False)
        self._sink("append", rows)

    def upsert(self) -> None:
        """Rows by their keys."""
        numbers = self.random.sample(range(80 * self.size), self.random.randint(1, 15 * self.size))
        rows = [self._row(number) for number in numbers]
        self._perhaps_meanwhile()
        self._sink("upsert", rows, mode="upsert", key=["id"], **self._writing())

    def interval(self) -> None:
        """All rows of some days, whoever wrote them."""
        first = self.random.randint(0, 5)
        start, end = FIRST + first * DAY, FIRST + (first + self.random.randint(1, 2)) * DAY
        self._forget([n for n, row in self.rows.items() if start <= row["t"] < end])
        rows = [row | {"t": start} for row in self._new(self.random.randint(0, 5 * self.size))]
        source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
        given = {"mode": "overwrite-interval", "interval": "t", "source": source}
        self._sink("interval", rows, start=start, end=end, **given, **self._writing())

    def delete_keys(self) -> None:
        """Some keys that there are, some twice, and some that there are not."""
        gone = self._some_ids(6 * self.size)
        missing = [each for each in self.random.sample(range(400 * self.size), 3) if each not in self.rows]
        before = Table.open(self.location)
        table = before.delete([*gone, *missing, *gone[:2]], key="id", force=True, **self._writing())
        if gone:
            assert table.deletion is not None
            assert (table.deletion.rows, table.deletion.missing_keys) == (len(gone), len(missing))
        else:
            assert table.version == before.version
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
                (row["t"] - FIRST).days >= day and row["band"] == "g"
            ),
            "x < 0": lambda row: row["x"] is not None and row["x"] < 0,
        }
        text = self.random.choice(list(tests))
        self._perhaps_meanwhile()
        table = Table.open(self.location).delete(filters=text, force=True, **self._writing())
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
        spec = self.spec(name=f"changes_{self._written}", **given, **self._writing())
        told = self.lake.sink(spec, *_tables([found[::2], found[1::2]], RECORDS))
        assert (told.outdated, told.missing_deletes, told.rows_deleted) == (outdated, missing, deleted)
        self.operations += len(found)
        self.rows = rows

    def pack(self) -> None:
        """A compaction; in some cases something else is done meanwhile."""
        by = self.random.choice(
            [
                {},
                {"mode": "hilbert", "columns": ["id", "x"]},
                {"mode": "zorder", "columns": ["t", "id"]},
                {"mode": "sort", "sort": ["band nulls first", "id desc"]},
            ]
        )
        size = self.random.choice(["3 KiB", "40 KiB"])
        given = {**by, "target_file_size": size, "max_commits": self.random.choice([1, 3])}
        if self.partition and self.random.random() < 0.3:
            given["partitions"] = "band = 'g'"
        full = self.random.random() < 0.3
        meanwhile = self._perhaps_meanwhile()
        try:
            compact(request(self.lake.root, table=self.spec().table, format="delta", full=full, **given))
        except ConflictError:
            assert meanwhile, self.told

    def vacuum(self) -> None:
        """All but the last three versions go."""
        spec = self.spec()
        table = open_table(spec.place, self.lake.warehouse, spec.table)
        later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        done = table.vacuum(Retention(keep_versions=3, keep_days=0), now=later, dry_run=False, orphan_days=1)
        assert done.orphans == ()
        self._is_cut |= bool(done.expired)

    # What others do

    def vectors(self) -> None:
        """Some rows go by vectors of another writer, which names those that are gone already too."""
        ids = set(self._some_ids(6 * self.size))
        gone = {}
        for path, file in data_files(self.location).items():
            stored = pq.ParquetFile(file).read(["id"])["id"].to_pylist()
            before = vectors_of(self.location, path)
            if at := {number for number, each in enumerate(stored) if each in ids} - before:
                gone[path] = sorted(at | before)
        delete_by_vectors(self.location, gone, self.random.choice(KINDS))
        self._forget(sorted(ids))

    # What delta-rs does

    def insert(self) -> None:
        rows = self._new(self.random.randint(1, 10 * self.size))
        self._others("insert", rows)
        self.rows |= {row["id"]: row for row in rows}

    def delete(self) -> None:
        low = self.random.randint(0, 80 * self.size)
        self._others("delete", [], f"id >= {low} and id < {low + 5 * self.size}")
        self._forget([number for number in self.rows if low <= number < low + 5 * self.size])

    def update(self) -> None:
        low = self.random.randint(0, 80 * self.size)
        self._others("update", [], f"id >= {low} and id < {low + 5 * self.size}")
        for number, row in self.rows.items():
            if low <= number < low + 5 * self.size:
                self.rows[number] = row | {"x": 7.25}

    def merge(self) -> None:
        numbers = self.random.sample(range(80 * self.size), self.random.randint(1, 15 * self.size))
        rows = [self._row(number) for number in numbers]
        self._others("merge", rows)
        self.rows |= {row["id"]: row for row in rows}

    def optimize(self) -> None:
        self._others(self.random.choice(["compact", "z_order"]), [])

    # Parts

    def spec(self, **given: Any) -> TableSpec:
        return self.lake.spec(partition=self.partition, properties={"delta.checkpointInterval": "5"}, **given)

    def _perhaps_meanwhile(self, *, keys: bool = True) -> bool:
        """Let some other rows come right before the next commit, some by their keys; whether they will."""
        if self.random.random() >= 0.4:
            return False
        real = delta_commit.create_version

        def second(*told: Any) -> Any:
            self.patch.setattr(delta_commit, "create_version", real)
            if keys and self.random.random() < 0.5:
                rows = [self._row(number) for number in self.random.sample(range(80 * self.size), 4)]
                self._sink("meanwhile", rows, mode="upsert", key=["id"], **self._writing())
            else:
                self._sink("meanwhile", self._new(3, since=300 * self.size))
            return real(*told)

        self.patch.setattr(delta_commit, "create_version", second)
        return True

    def _writing(self) -> dict[str, Any]:
        return {"write": self.random.choice(list(self.modes))}

    def _others(self, what: str, rows: list[Row], argument: str = "") -> None:
        assert self.python is not None
        path = self.lake.root / "theirs.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
        partition = json.dumps(self.partition)
        run_peer(self.python, OTHERS, str(self.location), what, str(path), partition, argument)
        self.operations += len(rows)

    def _forget(self, ids: list[int]) -> None:
        self.operations += len(ids)
        for number in ids:
            del self.rows[number]

    def _sink(self, name: str, rows: list[Row], **given: Any) -> None:
        order = {part: given.pop(part) for part in ("start", "end") if part in given}
        self._written += 1
        spec = self.spec(name=f"{name}_{self._written}", **given)
        self.lake.sink(spec, pa.Table.from_pylist(rows, SCHEMA), **order)
        self.operations += len(rows)
        self.rows |= {row["id"]: row for row in rows}

    def _new(self, count: int, since: int = 0) -> list[Row]:
        last = 300 * self.size if since == 0 else 400 * self.size
        free = [number for number in range(since, last) if number not in self.rows]
        return [self._row(number) for number in self.random.sample(free, min(count, len(free)))]

    def _row(self, number: int) -> Row:
        self._written += 1
        return {
            "id": number,
            "band": self.random.choice(BANDS),
            "x": self.random.choice([0.0, 1.5, -2.0, None]),
            "t": FIRST + self.random.randint(0, 6 * 24) * dt.timedelta(hours=1),
            "v": self._written,
        }

    def _some_ids(self, most: int) -> list[int]:
        count = min(len(self.rows), self.random.randint(0, most))
        return self.random.sample(sorted(self.rows), count)


def _tables(parts: list[list[Row]], schema: pa.Schema) -> list[pa.Table]:
    return [pa.Table.from_pylist(part, schema) for part in parts if part]
