"""The vacuum of a table: which snapshots go, that their files go with them, and that nothing else does."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import WriteMode
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.iceberg import expire_snapshots as vacuuming
from hipslake.tables.iceberg import orphan_files
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.commit_attempts import writes_of
from hipslake.tables.iceberg.delete_index import files_of_snapshot
from hipslake.tables.iceberg.expire_snapshots import vacuum_table
from hipslake.tables.iceberg.write_folders import finish, sweep_writes
from hipslake.tables.opening import open_table as open_iceberg
from hipslake.tables.protocol import TableVacuumOutcome, WriteChange
from hipslake.versions.heartbeat import claim_write
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from tests.system import forked, sinks
from tests.tables.sinking import Lake, utc

NIGHTS = 5
LATER = timedelta(days=30)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of ids 0 to 99, of which each night brings all values anew."""
    lake = Lake(tmp_path)
    for night in range(NIGHTS):
        sink(lake, night)
    return lake


@pytest.fixture
def spec(lake: Lake) -> TableSpec:
    return spec_of(lake)


def spec_of(lake: Lake) -> TableSpec:
    return lake.spec(partition=["bucket[2](id)"], mode="upsert", key="id")


def sink(lake: Lake, night: int) -> None:
    lake.sink(spec_of(lake), sinks.rows(0, 100, night), start=utc(f"2026-01-{night + 1:02d}T00:00:00"))


def vacuum(
    lake: Lake,
    keep_versions: int = 1,
    keep_days: float = 0,
    *,
    after: timedelta = LATER,
    dry_run: bool = False,
) -> TableVacuumOutcome:
    spec = spec_of(lake)
    return vacuum_table(
        open_catalog(spec.iceberg, lake.warehouse),
        spec.table,
        Retention.of(keep_versions, keep_days),
        now=datetime.now(UTC) + after,
        dry_run=dry_run,
    )


def files(lake: Lake) -> dict[str, int]:
    """Every file of the table, and its size."""
    root = Path(lake.table(spec_of(lake)).location())
    return {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def values(lake: Lake, snapshot: int | None = None) -> list[int]:
    table = lake.table(spec_of(lake))
    return sorted(set(table.scan(snapshot_id=snapshot).to_arrow()["value"].to_pylist()))


def snapshots(lake: Lake) -> list[int]:
    return [snapshot.snapshot_id for snapshot in lake.table(spec_of(lake)).snapshots()]


def test_old_snapshots_go_with_their_files(lake: Lake, spec: TableSpec) -> None:
    before, ids = files(lake), snapshots(lake)
    outcome = vacuum(lake, keep_versions=2)
    assert outcome.kept == (*ids[-2:],)
    assert outcome.expired == (*ids[:-2],)
    assert snapshots(lake) == ids[-2:]
    assert [values(lake, number) for number in ids[-2:]] == [[NIGHTS - 2], [NIGHTS - 1]]
    assert sinks.orphans(lake.table(spec)) == []
    gone = before.keys() - files(lake).keys()
    assert outcome.files == len(gone)
    assert outcome.bytes == sum(before[path] for path in gone)
    assert len([path for path in gone if path.endswith(".parquet")]) == 2 * (NIGHTS - 2)
    assert not [path for path in (Path(spec_location(lake)) / "data").iterdir() if not any(path.iterdir())]


def spec_location(lake: Lake) -> str:
    return lake.table(spec_of(lake)).location()


def test_young_snapshots_stay(lake: Lake) -> None:
    assert vacuum(lake, keep_days=1, after=timedelta(0)).expired == ()
    assert vacuum(lake, keep_days=31).expired == ()
    assert len(vacuum(lake, keep_days=29).expired) == NIGHTS - 1


def test_a_dry_run_says_what_would_go_and_changes_nothing(lake: Lake) -> None:
    before = files(lake)
    told = vacuum(lake, keep_versions=3, dry_run=True)
    assert files(lake) == before
    done = vacuum(lake, keep_versions=3)
    assert (told.kept, told.expired, told.files, told.bytes) == (
        done.kept,
        done.expired,
        done.files,
        done.bytes,
    )


def test_what_tags_and_branches_name_stays(lake: Lake, spec: TableSpec) -> None:
    ids = snapshots(lake)
    with lake.table(spec).manage_snapshots() as manage:
        manage.create_tag(ids[1], "release").create_branch(ids[2], "work")
    assert vacuum(lake).kept == (ids[1], ids[2], ids[-1])
    assert values(lake, ids[1]) == [1]
    assert values(lake, ids[2]) == [2]


def test_what_a_write_may_read_stays_until_it_ends(lake: Lake, spec: TableSpec) -> None:
    table = lake.table(spec)
    began = datetime.fromtimestamp(table.snapshots()[0].timestamp_ms / 1000, UTC)
    write = claim_write(writes_of(table), began)
    assert vacuum(lake).expired == ()
    finish(lake.table(spec), write, (), attempts=1)
    assert len(vacuum(lake).expired) == NIGHTS - 1


def test_a_sink_that_is_quicker_survives(
    lake: Lake, spec: TableSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = vacuuming._drop

    def overtaken(table: Table, gone: list[Snapshot]) -> None:
        monkeypatch.setattr(vacuuming, "_drop", drop)
        sink(lake, NIGHTS)
        drop(table, gone)

    monkeypatch.setattr(vacuuming, "_drop", overtaken)
    outcome = vacuum(lake)
    assert len(outcome.expired) >= NIGHTS - 1
    assert values(lake) == [NIGHTS]
    assert sinks.orphans(lake.table(spec)) == []


def test_metadata_that_dropped_off_the_log_goes(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    spec = lake.spec(properties={"write.metadata.previous-versions-max": "2"})
    for night in range(NIGHTS):
        lake.sink(spec, sinks.rows(10 * night, 10, night), start=utc(f"2026-01-{night + 1:02d}T00:00:00"))
    folder = Path(lake.table(spec).location()) / "metadata"
    assert len([*folder.glob("*.metadata.json")]) > NIGHTS
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    vacuum_table(catalog, spec.table, Retention.of(1, 0.0), now=datetime.now(UTC) + LATER, dry_run=False)
    named = [entry.metadata_file for entry in lake.table(spec).metadata.metadata_log]
    present = {str(path) for path in folder.glob("*.metadata.json")}
    assert present == {*named, lake.table(spec).metadata_location}
    assert lake.rows(spec)["id"].to_pylist() == [*range(10 * NIGHTS)]


def die_at_the_files(root: str) -> None:
    """Vacuum, and die when the snapshots are dropped, before any of their files is deleted."""

    def die(*told: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    vacuuming.delete_unneeded = die  # type: ignore[assignment]
    vacuum(Lake(Path(root)))


@pytest.mark.parametrize("by", ["a vacuum", "a sweep of the next sink"])
def test_a_vacuum_that_is_killed_is_completed(lake: Lake, spec: TableSpec, by: str) -> None:
    process = forked.start(die_at_the_files, str(lake.root))
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert len(snapshots(lake)) == 1
    left = [path for path in sinks.orphans(lake.table(spec)) if path.endswith(".parquet")]
    assert len(left) == 2 * (NIGHTS - 1)
    for beat in (Path(spec_location(lake)) / "_writes").glob("*/_heartbeat.json"):
        os.utime(beat, (0, 0))  # long ago
    if by == "a vacuum":
        vacuum(lake)
    else:
        sweep_writes(open_catalog(spec.iceberg, lake.warehouse), spec.table)
    assert sinks.orphans(lake.table(spec)) == []
    assert values(lake) == [NIGHTS - 1]


def test_an_empty_table_is_left_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.sink(spec_of(lake), pa.table({"id": pa.array([], pa.int64()), "value": pa.array([], pa.int64())}))
    assert vacuum(lake).expired == ()


def left_by_others(lake: Lake, *, days: float) -> list[Path]:
    """Files that another engine has written and never committed."""
    root = Path(spec_location(lake))
    paths = [
        root / "data" / "id_bucket=0" / "00000-0-left.parquet",
        root / "metadata" / "0123-m0.avro",
        root / "data" / "_temporary" / "0.parquet",
        root / "data" / ".hidden.parquet",
        root / "metadata" / "version-hint.text",
        root / "elsewhere" / "0.parquet",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - days * 24 * 3600))
    return paths


def orphaned(lake: Lake, days: float | None, *, dry_run: bool) -> TableVacuumOutcome:
    spec = spec_of(lake)
    return vacuum_table(
        open_catalog(spec.iceberg, lake.warehouse),
        spec.table,
        Retention.of(100, 100),
        now=datetime.now(UTC),
        dry_run=dry_run,
        orphan_days=days,
    )


def test_files_that_were_never_committed_go_once_they_are_old(lake: Lake) -> None:
    before, rows = files(lake), values(lake)
    left = left_by_others(lake, days=3)
    for days in (None, 3.5):
        assert orphaned(lake, days, dry_run=False).orphans == ()
        assert all(path.exists() for path in left)
    for dry_run in (True, False):
        outcome = orphaned(lake, 2.5, dry_run=dry_run)
        assert sorted(outcome.orphans) == sorted(map(str, left[:2]))
        assert outcome.orphan_bytes == 8
        assert [path.exists() for path in left] == [dry_run, dry_run, True, True, True, True]
    assert before.keys() <= files(lake).keys()
    assert values(lake) == rows
    assert orphaned(lake, 2.5, dry_run=False).orphans == ()


def test_what_a_branch_or_a_living_write_needs_is_no_orphan(lake: Lake) -> None:
    table = lake.table(spec_of(lake))
    oldest = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_branch(oldest, "audit").commit()
    living = claim_write(writes_of(table), datetime.now(UTC))
    data = Path(table.location()) / "data" / living / "0.parquet"
    data.parent.mkdir()
    data.write_bytes(b"x")
    for path in files(lake):
        os.utime(path, (0, 0))
    writing = Path(table.location()) / "_writes" / living
    for path in writing.rglob("*"):
        os.utime(path)
    assert orphaned(lake, 1, dry_run=False).orphans == ()
    assert data.exists()
    assert values(lake, oldest) == [0]


def test_a_write_that_commits_while_orphans_are_looked_for_loses_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are old, and listed, before it commits; and its sign of life goes with the commit."""
    spec = spec_of(lake)
    with closing(open_iceberg(spec.iceberg, lake.warehouse, spec.table)) as named:
        state = named.existing()
        with state.writing() as write:
            writer = write.writer(())
            bucket = BucketTransform(2).transform(LongType())(500)
            new = writer.write_file(sinks.rows(500, 1, 9).cast(writer.arrow_schema), (bucket,), "0")
            for path in files(lake):
                if "_writes" not in path:
                    os.utime(path, (0, 0))
            living = orphan_files.living_writes

            def committed(table: Table) -> list[str]:
                found = living(table)
                write.commit(WriteChange([new]), lambda now: None)
                return found

            monkeypatch.setattr(orphan_files, "living_writes", committed)
            assert orphaned(lake, 1, dry_run=False).orphans == ()
    assert Path(new.path).exists()
    assert 9 in values(lake)


def test_files_of_deletes_and_of_statistics_are_no_orphans(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.sink(spec_of(lake), sinks.rows(0, 100, 0), start=utc("2026-01-01T00:00:00"))
    spec = spec_of(lake).model_copy(update={"write": WriteMode.MERGE_ON_READ})
    lake.sink(spec, sinks.rows(0, 5, 1), start=utc("2026-01-02T00:00:00"))
    table = lake.table(spec)
    assert [each.by_position for each in files_of_snapshot(table).deletes] == [True, True]
    snapshot = table.snapshots()[-1].snapshot_id
    sketch = Path(table.location()) / "metadata" / "sketch.puffin"
    sketch.write_bytes(b"PFA1")
    told = {"snapshot-id": snapshot, "file-size-in-bytes": 4, "file-footer-size-in-bytes": 0}
    told |= {"statistics-path": str(sketch), "blob-metadata": []}
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(told))
    before = files(lake)
    for path in before:
        os.utime(path, (0, 0))
    assert orphaned(lake, 1, dry_run=False).orphans == ()
    assert files(lake).keys() >= before.keys()
    assert values(lake) == [0, 1]


def test_files_that_others_may_name_too_are_not_deleted(lake: Lake, spec: TableSpec) -> None:
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({"gc.enabled": "False"})
    before = files(lake)
    for dry_run in (True, False):
        with pytest.raises(SpecError, match=r"survey\.sample: its property gc\.enabled is false"):
            vacuum(lake, dry_run=dry_run)
    assert files(lake) == before
