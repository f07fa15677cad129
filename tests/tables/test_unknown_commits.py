"""Requests to commit that take effect at any time, or fail with any answer of a catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hipslake.errors import (
    CommitStateUnknownError,
    HipslakeError,
    StorageError,
)
from hipslake.tables.iceberg import commit as committing
from hipslake.tables.iceberg import iceberg_state
from hipslake.tables.iceberg.commit import snapshot_of
from hipslake.tables.iceberg.commit_attempts import attempts_of
from pyiceberg import exceptions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from tests.system.sinks import orphans
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.faults import (
    AFTER_ALL,
    NEVER,
    REFUSED,
    UNKNOWN,
    LostConnections,
    assert_whole,
    content,
    failing,
    held_up,
    night,
    raising,
    sink,
    swept,
    vacuumed,
)
from tests.tables.sinking import Lake

MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "merging append": {"properties": {"commit.manifest.min-count-to-merge": "2"}},
    "upsert": {"mode": "upsert", "key": "id"},
    "overwrite-interval": {
        "mode": "overwrite-interval",
        "interval": "ts",
        "source": {"files": {"uri": "/nowhere/night={{ night }}/*.parquet", "format": "parquet"}},
    },
}


pytestmark = pytest.mark.usefixtures("quick")


def compacted(lake: Lake) -> None:
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, full=True))


ONE = [(2,), (1,), (NEVER,), (AFTER_ALL,)]
TWO = [(3, NEVER), (NEVER, 3), (2, NEVER), (2, 3), (AFTER_ALL, 3), (AFTER_ALL, AFTER_ALL)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("what", "version", "times"),
    [
        *(("append", "2", times) for times in ONE + TWO[:2]),
        *(pytest.param("append", "2", times, marks=pytest.mark.slow) for times in TWO[2:]),
        *(("append", "1", times) for times in [(2,), (3, NEVER), (AFTER_ALL,)]),
        *((mode, "2", times) for mode in list(MODES)[1:] for times in [(2,), (3, NEVER)]),
        *(("compaction", "2", times) for times in [(2,), (3, NEVER), (AFTER_ALL,)]),
    ],
)
def test_a_request_that_takes_effect_at_any_time_leaves_the_table_whole(
    lake: Lake, what: str, version: str, times: tuple[int, ...]
) -> None:
    mode = MODES.get(what, {})
    given = {**mode, "properties": {"format-version": version, **mode.get("properties", {})}}
    spec = lake.spec(**given)
    sink(lake, spec, 1, night(1, range(4)))
    sink(lake, spec, 2, night(2, range(4, 8)))
    due = {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 8), 2)}
    lost = LostConnections(*times)
    if what == "compaction":
        compacted(lake)
    else:
        first = 6 if what == "upsert" else 8
        sink(lake, spec, 3, night(3, range(first, 12)))
        due |= dict.fromkeys(range(first, 12), 3)
    assert lost.asked >= 1 + (times[0] != 1)
    assert content(lake, spec) == sorted(due.items())
    assert_whole(lake.table(spec))
    if version == "2":
        assert orphans(lake.table(spec)) == []
        assert attempts_of(lake.table(spec)) == []
    lost.take_effect(AFTER_ALL)
    swept(lake, spec)
    assert content(lake, spec) == sorted(due.items())
    assert_whole(lake.table(spec))
    sink(lake, spec, 4, night(4, range(20, 22)))
    vacuumed(lake, spec)
    swept(lake, spec)
    assert content(lake, spec) == [*sorted(due.items()), (20, 4), (21, 4)]
    assert_whole(lake.table(spec))
    left = [path for path in orphans(lake.table(spec)) if not path.endswith(".metadata.json")]
    assert left == []


def test_a_request_that_takes_effect_when_its_writer_gives_up_has_its_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try finds a conflict; then the first one takes effect."""
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))
    held: list[Callable[[], object]] = []
    failing(held_up(OperationalError("COMMIT", {}, Exception("lost")), held))
    look = committing._check_standing

    def conflict(*given: Any) -> None:
        if held:
            held.pop()()
            raise committing.ConflictError("it is partitioned in another way now")
        look(*given)

    monkeypatch.setattr(committing, "_check_standing", conflict)
    sink(lake, spec, 2, night(2, range(4, 8)))
    assert content(lake, spec) == [(n, 1 + n // 4) for n in range(8)]
    assert_whole(lake.table(spec))
    assert orphans(lake.table(spec)) == []


def test_what_a_write_leaves_stays_if_later_snapshots_have_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own snapshot has expired before it tidies up."""
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))
    LostConnections(2)
    tidy = iceberg_state.finish

    def late(table: Table, write_id: str, *given: Any, **options: Any) -> None:
        monkeypatch.setattr(iceberg_state, "finish", tidy)
        own = snapshot_of(lake.table(spec), write_id)
        assert own is not None
        sink(lake, spec, 3, night(3, range(8, 12)))
        lake.table(spec).maintenance.expire_snapshots().by_id(own.snapshot_id).commit()
        tidy(table, write_id, *given, **options)

    monkeypatch.setattr(iceberg_state, "finish", late)
    sink(lake, spec, 2, night(2, range(4, 8)))
    assert content(lake, spec) == [(n, 1 + n // 4) for n in range(12)]
    assert_whole(lake.table(spec))


def test_the_first_snapshot_may_take_effect_after_commits_to_a_branch(lake: Lake) -> None:
    spec = lake.spec()
    failing(raising(exceptions.UnauthorizedError("401")))
    with pytest.raises(StorageError):
        sink(lake, spec, 1, night(1, range(4)))
    held: list[Callable[[], object]] = []
    failing(held_up(CommitStateUnknownException("504"), held))
    with pytest.raises(CommitStateUnknownError):
        sink(lake, spec, 1, night(1, range(4)))
    lake.table(spec).append(night(2, range(4, 8)))
    snapshot = lake.table(spec).metadata.current_snapshot_id
    assert snapshot is not None
    lake.table(spec).manage_snapshots().create_branch(snapshot, "work").remove_branch("main").commit()
    swept(lake, spec)
    held.pop()()
    assert content(lake, spec) == [(n, 1) for n in range(4)]
    assert_whole(lake.table(spec))


def test_leftovers_of_failed_tries_go_from_another_folder_of_metadata(lake: Lake) -> None:
    folder = lake.root / "elsewhere"
    spec = lake.spec(properties={"write.metadata.path": str(folder)})
    sink(lake, spec, 1, night(1, range(4)))
    LostConnections(3, NEVER)
    sink(lake, spec, 2, night(2, range(4, 8)))
    table = lake.table(spec)
    assert_whole(table)
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    named |= {snapshot.manifest_list for snapshot in table.snapshots()}
    named |= {m.manifest_path for snapshot in table.snapshots() for m in snapshot.manifests(table.io)}
    assert {path.name for path in folder.iterdir()} <= {path.rpartition("/")[2] for path in named}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("error", UNKNOWN, ids=str)
def test_after_an_answer_that_may_hide_a_commit_it_is_looked_for(lake: Lake, error: Exception) -> None:
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))
    failing(raising(error, taken=True))
    sink(lake, spec, 2, night(2, range(4, 8)))
    failing(raising(error))
    with pytest.raises(CommitStateUnknownError, match="is in no snapshot so far; run it again"):
        sink(lake, spec, 3, night(3, range(8, 12)))
    assert len(attempts_of(lake.table(spec))) == 1
    sink(lake, spec, 3, night(3, range(8, 12)))
    assert content(lake, spec) == [(n, 1 + n // 4) for n in range(12)]
    swept(lake, spec)
    assert orphans(lake.table(spec)) == []


@pytest.mark.parametrize(("error", "kind", "mend"), REFUSED, ids=lambda given: str(given)[:3])
def test_a_refusal_of_a_commit_is_told_with_its_mend(
    lake: Lake, error: Exception, kind: type[HipslakeError], mend: str
) -> None:
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))
    failing(raising(error))
    with pytest.raises(kind, match=mend) as caught:
        sink(lake, spec, 2, night(2, range(4, 8)))
    assert type(caught.value) is kind
    swept(lake, spec)
    assert orphans(lake.table(spec)) == []
    failing(raising(error))
    with pytest.raises(kind, match=mend):
        sink(lake, spec, 2, night(2, range(4, 8)))
    sink(lake, spec, 2, night(2, range(4, 8)))
    assert content(lake, spec) == [(n, 1 + n // 4) for n in range(8)]


def test_a_catalog_that_answers_nothing_after_a_commit_leaves_it_unknown(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))

    def away(catalog: SqlCatalog, given: tuple[Any, ...]) -> None:
        def unavailable(*told: Any) -> None:
            raise exceptions.ServiceUnavailableError("503")

        monkeypatch.setattr(SqlCatalog, "load_table", unavailable)
        raise exceptions.ServiceUnavailableError("503")

    failing(away)
    with pytest.raises(CommitStateUnknownError):
        sink(lake, spec, 2, night(2, range(4, 8)))
