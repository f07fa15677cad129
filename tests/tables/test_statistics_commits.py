"""Statistics are set by the commit of their rows, or not at all: others between, retries, deaths, vacuums."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import HipslakeError, StorageError
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.iceberg import commit as committing
from hipslake.tables.iceberg import snapshot_statistics
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.expire_snapshots import vacuum_table
from hipslake.tables.protocol import TableVacuumOutcome
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.types import LongType

from tests.examples import examples
from tests.stores.postgres import find_postgres
from tests.system import forked
from tests.system.sinks import orphans
from tests.tables.counting import NIGHT, SECOND, counted, rows
from tests.tables.fault_story import FaultStory
from tests.tables.faults import REAL, failing, held_up, raising, swept
from tests.tables.puffin_reading import distinct, ndv, statistics_of
from tests.tables.sinking import Lake
from tests.tables.test_commit_faults import FAULTS, STORIES, RestWire, rest_story

NIGHTS = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
pytestmark = pytest.mark.usefixtures("quick")


def stats(lake: Lake, spec: TableSpec) -> set[str]:
    """The files of statistics that lie in the table's folder."""
    return {str(path) for path in (Path(lake.table(spec).location()) / "metadata").glob("*.stats")}


def named(lake: Lake, spec: TableSpec) -> set[str]:
    """And those that the table names."""
    return {each.statistics_path for each in lake.table(spec).metadata.statistics}


def whole(lake: Lake, spec: TableSpec) -> None:
    """The newest version has statistics of its rows, and there is no file of statistics besides."""
    assert ndv(lake.table(spec)) == distinct(lake.rows(spec), "id", "band")
    assert stats(lake, spec) == named(lake, spec)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something right before the next commit is asked for."""
    commit = committing._commit_once

    def second(*given: Any) -> None:
        monkeypatch.setattr(committing, "_commit_once", commit)
        act()
        commit(*given)

    monkeypatch.setattr(committing, "_commit_once", second)


# -- others ---------------------------------------------------------------------------------------------


def test_a_sink_of_others_with_statistics_comes_between(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    other = counted(lake, name="other")
    meanwhile(monkeypatch, lambda: lake.sink(other, rows(range(8, 20), "r")))
    outcome = lake.sink(spec, rows(range(19, 25), "i"))
    assert outcome.attempts == 2
    assert outcome.ndv == {"id": 25, "band": 3}
    whole(lake, spec)


def test_rows_of_others_without_statistics_come_between(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known is not told; the next sink reads what they have brought."""
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    meanwhile(monkeypatch, lambda: lake.table(spec).append(rows(range(8, 20), "r")))
    outcome = lake.sink(spec, rows(range(19, 25), "i"))
    assert outcome.attempts == 2
    assert outcome.ndv == {}
    assert ndv(lake.table(spec)) is None
    assert stats(lake, spec) == named(lake, spec)
    lake.sink(spec, rows([25], "z"))
    whole(lake, spec)


def test_rows_come_between_while_others_go(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the sketches that were made, nor those of the new version are of the rows that stay."""
    spec = counted(lake, source=NIGHTS)
    lake.sink(spec, rows(range(10)), **NIGHT)
    lake.sink(spec, rows(range(10, 20), "r"), **SECOND)
    other = counted(lake, name="other")
    meanwhile(monkeypatch, lambda: lake.sink(other, rows(range(20, 30), "i")))
    outcome = lake.sink(spec, rows(range(10, 12), "z"), **SECOND)
    assert outcome.attempts == 2
    assert outcome.ndv == {}
    assert ndv(lake.table(spec)) is None
    lake.sink(spec, rows(range(10, 13), "z"), **SECOND)
    whole(lake, spec)


@pytest.mark.parametrize("conflict", [True, False])
def test_a_column_is_widened_between(lake: Lake, monkeypatch: pytest.MonkeyPatch, conflict: bool) -> None:
    """A sketch says of which type its values were; it is not united with those of another one."""

    def numbers(*some: int) -> pa.Table:
        return pa.table({"n": pa.array(some, pa.int32()), "id": pa.array(some, pa.int64())})

    spec = counted(lake, "n", "id")
    lake.sink(spec, numbers(1, 2))

    def widen() -> None:
        with lake.table(spec).update_schema() as update:
            update.update_column("n", LongType())
        if conflict:
            lake.sink(counted(lake, "n", "id", name="other"), numbers(1, 7))

    meanwhile(monkeypatch, widen)
    lake.sink(spec, numbers(2, 3))
    found = statistics_of(lake.table(spec))
    assert found is not None
    told = {name: (blob.ndv, blob.told["properties"]["hipslake.type"]) for name, blob in found.items()}
    assert told == ({"id": (4, "long")} if conflict else {"n": (3, "int"), "id": (3, "long")})
    lake.sink(spec, numbers(3, 4))
    assert ndv(lake.table(spec)) == dict.fromkeys(("n", "id"), 5 if conflict else 4)


# -- answers of catalogs ----------------------------------------------------------------------------------


def test_what_a_refused_commit_has_written_goes(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    failing(raising(CommitFailedException("other")), raising(CommitFailedException("other")))
    assert lake.sink(spec, rows(range(10, 20), "r")).attempts == 3
    whole(lake, spec)


@pytest.mark.parametrize("taken", [True, False])
def test_a_commit_whose_answer_is_lost_has_statistics_once(lake: Lake, taken: bool) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    uri = lake.land(rows(range(10, 20), "r"))
    failing(raising(CommitStateUnknownException("502"), taken=taken))
    if taken:
        assert lake.sink(spec, uri=uri).ndv == {"id": 20, "band": 2}
    else:
        with pytest.raises(HipslakeError, match="run it again: it finds out"):
            lake.sink(spec, uri=uri)
    assert lake.sink(spec, uri=uri).skipped is taken
    swept(lake, spec)
    whole(lake, spec)


def test_a_commit_that_takes_effect_after_its_retry_is_none(lake: Lake) -> None:
    """The retry's rows and statistics stand; the first one's files go."""
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    uri = lake.land(rows(range(10, 20), "r"))
    late: list[Callable[[], object]] = []
    failing(held_up(CommitStateUnknownException("504"), late))
    with pytest.raises(HipslakeError):
        lake.sink(spec, uri=uri)
    assert stats(lake, spec) - named(lake, spec), "it may still be needed"
    lake.sink(spec, uri=uri)
    with pytest.raises(CommitFailedException):
        late[0]()
    swept(lake, spec)
    whole(lake, spec)
    assert [path for path in orphans(lake.table(spec)) if not path.endswith(".metadata.json")] == []


@pytest.mark.parametrize("fault", ["500, done", "504, done later", "409, not done"])
def test_a_rest_catalog_takes_rows_and_statistics_together(tmp_path: Path, fault: str) -> None:
    with rest_story(tmp_path, 3, "copy-on-write") as story:
        assert isinstance(story.wire, RestWire)
        spec = counted(story.lake, iceberg=story.behind)
        lake = story.lake
        story.done(lambda: lake.sink(spec, rows(range(10))))
        uri = lake.land(rows(range(5, 15), "r"))
        FAULTS[fault](story.wire.proxy)
        story.done(lambda: lake.sink(spec, uri=uri))
        story.wire.clear()
        story.wire.release()
        swept(lake, spec)
        whole(lake, spec)
        story.done(lambda: lake.sink(spec, rows(range(100, 103), "i")))
        whole(lake, spec)


@dataclass
class CountedFaults(FaultStory):
    """Whatever fails, statistics are those of the rows of their version."""

    def spec_at(self, iceberg: dict[str, Any]) -> TableSpec:
        spec = super().spec_at(iceberg)
        return spec.model_validate(spec.model_dump() | {"statistics": {"ndv": ["id", "value"]}})

    def holds(self) -> None:
        super().holds()
        table = self.lake.table(self.spec)
        found = ndv(table)
        exact = {"id": len(self.due), "value": len(set(self.due.values()))}
        assert found in (None, exact)
        assert {each.snapshot_id for each in table.metadata.statistics} <= {
            each.snapshot_id for each in table.snapshots()
        }

    def ended(self) -> None:
        super().ended()
        assert ndv(self.lake.table(self.spec)) is not None


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(examples(5)))
@pytest.mark.parametrize("kind", STORIES)
@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_a_random_history_with_faults(tmp_path: Path, kind: str, write: str, seed: int) -> None:
    if kind == "postgresql" and find_postgres() is None:
        pytest.skip("there is no PostgreSQL; include/setup/setup.sh postgres gets it")
    with STORIES[kind](tmp_path, seed, write) as plain:
        places = plain.lake, plain.other, plain.behind, plain.straight
        CountedFaults(*places, plain.wire, random.Random(seed), write).lived(10)


# -- deaths -----------------------------------------------------------------------------------------------


def sink_and_die(root: str, uri: str, moment: str) -> None:
    """Sink files in a process that dies around the commit."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    lake = Lake(Path(root))
    if moment == "statistics":
        set_statistics = committing.set_statistics

        def after(*given: Any) -> None:
            set_statistics(*given)
            die()

        committing.set_statistics = after
    else:

        def commit_table(self: SqlCatalog, *given: Any) -> None:
            if moment == "after":
                REAL(self, *given)
            die()

        SqlCatalog.commit_table = commit_table  # type: ignore[method-assign, assignment]
    lake.sink(counted(lake), uri=uri)


@pytest.mark.parametrize("moment", ["statistics", "before", "after"])
def test_a_sink_that_is_killed_has_statistics_with_its_rows(lake: Lake, moment: str) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    uri = lake.land(rows(range(10, 20), "r"))
    process = forked.start(sink_and_die, str(lake.root), uri, moment)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert len(stats(lake, spec)) == 2
    assert ndv(lake.table(spec)) == distinct(lake.rows(spec), "id", "band")
    again = lake.sink(spec, uri=uri)
    assert again.skipped is (moment == "after")
    assert ndv(lake.table(spec)) == {"id": 20, "band": 2}
    for beat in (Path(lake.table(spec).location()) / "_writes").glob("*/_heartbeat.json"):
        os.utime(beat, (0, 0))  # long ago
    swept(lake, spec)
    whole(lake, spec)
    assert [path for path in orphans(lake.table(spec)) if not path.endswith(".metadata.json")] == []


def test_statistics_that_cannot_be_written_keep_the_rows_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that takes no file takes none of the commit either; the retry brings all."""
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    uri = lake.land(rows(range(10, 20), "r"))

    def refused(blobs: Any) -> Any:
        raise StorageError("no")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_statistics, "puffin_of", refused)
        with pytest.raises(StorageError):
            lake.sink(spec, uri=uri)
    assert lake.rows(spec).num_rows == 10
    lake.sink(spec, uri=uri)
    whole(lake, spec)


# -- vacuums ----------------------------------------------------------------------------------------------


def vacuum(lake: Lake, spec: TableSpec, **given: Any) -> TableVacuumOutcome:
    later = datetime.now(UTC) + timedelta(days=30)
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    return vacuum_table(catalog, spec.table, Retention.of(2, 0.0), now=later, **given)


def test_a_vacuum_takes_statistics_of_expired_snapshots_only(lake: Lake) -> None:
    spec = counted(lake)
    for at in range(4):
        lake.sink(spec, rows(range(at * 5, at * 5 + 8), "gri"[at % 3]))
    table = lake.table(spec)
    paths = {each.snapshot_id: each.statistics_path for each in table.metadata.statistics}
    dry = vacuum(lake, spec, dry_run=True)
    outcome = vacuum(lake, spec, dry_run=False)
    assert len(outcome.expired) == 2
    assert (dry.files, dry.bytes) == (outcome.files, outcome.bytes)
    assert stats(lake, spec) == named(lake, spec) == {paths[number] for number in outcome.kept}
    whole(lake, spec)
    lake.sink(spec, rows([100], "z"))
    whole(lake, spec)


def test_orphans_are_statistics_that_no_snapshot_names(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(5)))
    lake.sink(spec, rows(range(5, 9)))
    lost = Path(lake.table(spec).location()) / "metadata" / "of-others.stats"
    lost.write_bytes(b"PFA1")
    for path in stats(lake, spec):
        os.utime(path, (0, 0))
    assert vacuum(lake, spec, dry_run=True, orphan_days=1).orphans == (str(lost),)
    outcome = vacuum(lake, spec, dry_run=False, orphan_days=1)
    assert outcome.orphans == (str(lost),)
    assert stats(lake, spec) == named(lake, spec)
    whole(lake, spec)
