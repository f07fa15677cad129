"""Random writes of deletes, rewrites of all kinds, changes of the partition spec and vacuums."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from hipslake.errors import ConflictError
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.iceberg.delete_index import files_of_snapshot
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite
from hipslake.tables.opening import open_table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform

from tests.system.sinks import orphans
from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.writes_story import WritesStory

PARTITIONS: dict[str, tuple[str, Transform[Any, Any], str]] = {
    "band": ("band", IdentityTransform(), "band"),
    "bucket[3](id)": ("id", BucketTransform(3), "id_bucket_3"),
    "day(t)": ("t", DayTransform(), "t_day"),
}
ORDERS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "hilbert", "columns": ["id", "x"]},
    {"mode": "zorder", "columns": ["x", "v"]},
    {"mode": "sort", "sort": ["x desc nulls last", "id"]},
)


class RewritesStory(WritesStory):
    """As `WritesStory`, but all writers are of this library, and the table is partitioned in other ways."""

    def actions(self) -> list[Callable[[], None]]:
        own = [self.upsert, self.interval, self.delete_keys, self.delete_filter, self.changes, self.append]
        return [*own, *own, self.pack, self.pack, self.pack, self.pack, self.evolve, self.vacuum]

    def upsert(self) -> None:
        """Rows by their keys."""
        count = self.random.randint(1, 15 * self.size)
        rows = [self._row(number) for number in self.random.sample(range(80 * self.size), count)]
        self._sink("upsert", rows, mode="upsert", key=["id"], **self.writing())

    def evolve(self) -> None:
        """Another partition spec; files of older ones stay until they are rewritten."""
        chosen = self.random.sample(sorted(PARTITIONS), self.random.randint(0, 2))
        if chosen == self.partition:
            return
        with self.table.update_spec() as update:
            for name in self.partition:
                update.remove_field(PARTITIONS[name][2])
        with self.table.update_spec() as update:
            for name in chosen:
                update.add_field(*PARTITIONS[name])
        self.partition = chosen

    def pack(self) -> None:
        """A compaction; in some cases others change the table before it commits, or between two commits."""
        given: dict[str, Any] = {
            "delete_file_threshold": self.random.choice([1, 1, 2, None]),
            "max_commits": self.random.choice([1, 1, 4]),
            "manifests": self.random.random() < 0.3,
            "repartition": self.random.random() < 0.8,
            "target_file_size": self.random.choice(["2 KiB", "40 KiB"]),
            "group_size": self.random.choice(["4 KiB", "100 GiB"]),
            **self.random.choice(ORDERS),
        }
        bounded = self.random.random() < 0.2
        if bounded:
            given["max_rewrite_size"] = "160 KiB"
        meanwhile = self.random.choice([None, None, self.upsert, self.delete_keys, self.changes, self.pack])
        if meanwhile is not None:
            self._before_commit(self.random.choice([1, 1, 2]), meanwhile)
        told = None
        try:
            told = compact(request(self.lake, full=self.random.random() < 0.3, **given))
        except ConflictError:
            assert meanwhile is not None, self.told
        self.patch.undo()
        if meanwhile is None and told is not None:
            assert told.groups_refused == 0, self.told
            if given["delete_file_threshold"] == 1 and given["repartition"] and not bounded:
                assert files_of_snapshot(self.table).deletes == [], self.told
                present = self.table.spec().spec_id
                assert all(file.spec_id == present for file in live_files(self.table)), self.told

    def vacuum(self) -> None:
        """Old snapshots go, and what others have left; all that is there looks old."""
        table = self.table
        root = Path(table.location())
        left = [root / "data" / "band=g" / "left.parquet", root / "metadata" / "left-m0.avro"]
        for path in left:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"left")
        for path in root.rglob("*"):
            if path.is_file():
                os.utime(path, (0, 0))
        spec, keep = self.spec(), Retention.of(self.random.randint(1, 3), 0)
        later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        with closing(open_table(spec.iceberg, self.lake.warehouse, spec.table)) as named:
            told = named.vacuum(keep, now=later, dry_run=False, orphan_days=1)
        assert sorted(told.orphans) == sorted(map(str, left))
        assert len(self.table.snapshots()) <= keep.keep_versions
        assert orphans(self.table) == []

    def _before_commit(self, number: int, others: Callable[[], None]) -> None:
        commit, calls = IcebergRewrite.commit, iter(range(1, 1000))

        def second(rewrite: IcebergRewrite, *told: Any) -> Any:
            if next(calls) == number:
                self.patch.undo()
                others()
            return commit(rewrite, *told)

        self.patch.setattr(IcebergRewrite, "commit", second)
