"""Random operations on a Delta table that several writers change, against a dict in plain Python.

This library sinks, deletes, compacts and vacuums, and in some cases does one while it does another; delta-rs,
where it is there, inserts, deletes, updates, merges and compacts in between. After each the rows are those of
the dict, as we read them, as plain Python reads the log, and as other engines read it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
from tests.tables.table_story import Row, TableStory, schema_of

OTHERS = Path(__file__).with_name("others_change_delta.py")


class DeltaStory(TableStory):
    """A Delta table that delta-rs changes, too, if `python` is given.

    Parameters
    ----------
    lake : DeltaLake
    patch, seed, partition, size
        As of `TableStory`.
    python : str, optional
        The interpreter of those who write too; None: nobody does.
    modes : sequence of str
        How rows go.
    """

    first = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    schema = schema_of("UTC")
    bands = ("g", "r/1 %", None)
    lake: DeltaLake

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
        self.python = python
        self.modes = modes
        self._is_cut = False
        super().__init__(lake, patch, seed, partition, size)

    @property
    def location(self) -> Path:
        """Where the table lies."""
        return self.lake.location(self.spec())

    def actions(self) -> list[Callable[[], None]]:
        ours = [self.append, self.upsert, self.interval, self.delete_keys, self.delete_filter, self.pack]
        ours += [self.changes, self.changes, self.pack, self.vacuum]
        theirs = [self.insert, self.delete, self.update, self.merge, self.optimize] if self.python else []
        theirs += [self.vectors] if "merge-on-read" in self.modes else []
        return [*ours, *theirs]

    def writing(self) -> dict[str, Any]:
        return {"write": self.random.choice(list(self.modes))}

    def opened(self) -> Table:
        return Table.open(self.location)

    def check(self) -> None:
        wanted = counted([dict(row) for row in self.rows.values()])
        opened = self.opened()
        found = counted(opened.read().to_pylist())
        assert found == wanted, (self.told, found - wanted, wanted - found)
        assert opened.rows == len(self.rows)
        if not self._is_cut and self.python is None:
            assert counted(plain_delta_rows(self.location)) == wanted, self.told

    def check_by_peers(self, folder: Path, only: tuple[str, ...] = ()) -> None:
        """Look whether other engines read the same; `only` names some of them."""
        assert self.python is not None
        for peer, read in by_peers(self.python, self.location, folder, only).items():
            found = pa.table({field.name: read[field.name].cast(field.type) for field in self.schema})
            unseen = self._escaped if peer == "polars" else set()
            wanted = [dict(row) for row in self.rows.values() if row["band"] not in unseen]
            got = [row for row in found.to_pylist() if row["band"] not in unseen]
            assert counted(got) == counted(wanted), (peer, self.told)

    @property
    def _escaped(self) -> set[str]:
        """Bands of whose vectors polars knows nothing: see `test_polars_misses_vectors_of_escaped_paths`."""
        if not (self.partition and "merge-on-read" in self.modes):
            return set()
        return {band for band in self.bands if band is not None and quote(band) != band}

    # What this library does

    def append(self) -> None:
        rows = self._new(self.random.randint(1, 10 * self.size))
        self.perhaps_meanwhile(keys=False)
        self._sink("append", rows)

    def upsert(self) -> None:
        """Rows by their keys."""
        numbers = self.random.sample(range(80 * self.size), self.random.randint(1, 15 * self.size))
        rows = [self._row(number) for number in numbers]
        self.perhaps_meanwhile()
        self._sink("upsert", rows, mode="upsert", key=["id"], **self.writing())

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
        meanwhile = self.perhaps_meanwhile()
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
        return super().spec(properties={"delta.checkpointInterval": "5"}, **given)

    def perhaps_meanwhile(self, *, keys: bool = True) -> bool:
        if self.random.random() >= 0.4:
            return False
        real = delta_commit.create_version

        def second(*told: Any) -> Any:
            self.patch.setattr(delta_commit, "create_version", real)
            if keys and self.random.random() < 0.5:
                rows = [self._row(number) for number in self.random.sample(range(80 * self.size), 4)]
                self._sink("meanwhile", rows, mode="upsert", key=["id"], **self.writing())
            else:
                self._sink("meanwhile", self._new(3, since=300 * self.size))
            return real(*told)

        self.patch.setattr(delta_commit, "create_version", second)
        return True

    def _others(self, what: str, rows: list[Row], argument: str = "") -> None:
        assert self.python is not None
        path = self.lake.root / "theirs.parquet"
        pq.write_table(pa.Table.from_pylist(rows, self.schema), path)
        partition = json.dumps(self.partition)
        run_peer(self.python, OTHERS, str(self.location), what, str(path), partition, argument)
        self.operations += len(rows)
