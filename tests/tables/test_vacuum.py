"""The vacuum of a table: which snapshots go, that their files go with them, and that nothing else does."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables import vacuum as vacuuming
from hipslake.tables.attempts import writes_of
from hipslake.tables.catalogs import open_catalog
from hipslake.tables.vacuum import TableVacuumOutcome, vacuum_table
from hipslake.tables.writes import finish, sweep_writes
from hipslake.versions.heartbeat import claim_write
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

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
