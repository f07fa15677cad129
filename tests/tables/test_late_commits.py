"""Commits that land long after they were asked for: no table loses a file of a snapshot to a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import CommitStateUnknownError, StorageError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg import commit as committing
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.commit_attempts import (
    announce_attempt,
    attempts_of,
    open_attempts,
    retract_attempt,
    writes_of,
)
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.iceberg.write_folders import sweep_writes
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from tests.system.sinks import orphans
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.sinking import Lake

Late = list[Callable[[], object]]


@pytest.fixture(params=["1", "2"])
def spec(request: pytest.FixtureRequest, lake: Lake) -> TableSpec:
    spec = lake.spec(properties={"format-version": request.param})
    lake.sink(spec, rows(0, 5))
    return spec


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Late:
    """The first request to commit is held up, and its client is told that nobody knows."""
    held: Late = []
    asked = SqlCatalog.commit_table

    def held_up(self: SqlCatalog, *given: Any) -> Any:
        if held:
            return asked(self, *given)
        held.append(lambda: asked(self, *given))
        raise CommitStateUnknownException("the network went away")

    monkeypatch.setattr(SqlCatalog, "commit_table", held_up)
    monkeypatch.setattr(committing, "_LOOKS", 1)
    return held


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


def swept(lake: Lake, spec: TableSpec) -> list[str]:
    """What a sweep removes to which everybody looks dead."""
    return sweep_writes(open_catalog(spec.iceberg, lake.warehouse), spec.table, stale_after=0)


def compacted(lake: Lake) -> None:
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, full=True))


@pytest.mark.parametrize("what", ["sink", "compaction"])
def test_a_commit_that_lands_after_a_sweep_has_all_its_files(
    lake: Lake, spec: TableSpec, late: Late, what: str
) -> None:
    due = list(range(5))
    if what == "sink":
        with pytest.raises(CommitStateUnknownError):
            lake.sink(spec, rows(5, 5))
        due = list(range(10))
    else:
        late.append(lambda: None)
        lake.sink(spec, rows(5, 5))
        due = list(range(10))
        late.clear()
        with pytest.raises(CommitStateUnknownError):
            compacted(lake)
    assert swept(lake, spec) == []
    late[0]()
    assert lake.rows(spec)["id"].to_pylist() == due
    swept(lake, spec)
    assert lake.rows(spec)["id"].to_pylist() == due
    if lake.table(spec).metadata.format_version == 2:
        assert attempts_of(lake.table(spec)) == []
        assert orphans(lake.table(spec)) == []


def test_a_commit_that_can_land_no_more_is_swept(lake: Lake, spec: TableSpec, late: Late) -> None:
    with pytest.raises(CommitStateUnknownError):
        lake.sink(spec, rows(5, 5))
    lake.sink(spec, rows(20, 2))
    if lake.table(spec).metadata.format_version == 1:  # it can, after a rollback, while there is a snapshot
        assert swept(lake, spec) == []
        table = lake.table(spec)
        old = next(one.snapshot_id for one in table.snapshots())
        table.maintenance.expire_snapshots().by_id(old).commit()
    removed = swept(lake, spec)
    assert any(path.startswith("data/") for path in removed)
    assert attempts_of(lake.table(spec)) == []
    with pytest.raises((CommitFailedException, ValueError)):
        late[0]()
    assert lake.rows(spec)["id"].to_pylist() == [0, 1, 2, 3, 4, 20, 21]
    assert len(live_files(lake.table(spec))) == 2


def test_an_attempt_of_which_half_is_there_is_open_until_it_is_taken_back(
    lake: Lake, spec: TableSpec
) -> None:
    table = lake.table(spec)
    attempt = announce_attempt(table, "20260101T0000-0123456789ab")
    assert open_attempts(table, [attempt]) == {attempt.write_id}
    for half in (b"", b"{", b'{"sequence": null}', b"[]"):
        writes_of(table).write(attempt.path, half)
        assert open_attempts(table, [attempt]) == {attempt.write_id}
    retract_attempt(table, attempt)
    assert open_attempts(table, [attempt]) == set()


def test_a_rollback_does_not_let_a_swept_commit_in(lake: Lake, spec: TableSpec, late: Late) -> None:
    base = lake.table(spec).metadata.current_snapshot_id
    assert base is not None
    with pytest.raises(CommitStateUnknownError):
        lake.sink(spec, rows(5, 5))
    lake.sink(spec, rows(20, 2))
    swept(lake, spec)
    lake.table(spec).manage_snapshots().rollback_to_snapshot(base).commit()
    swept(lake, spec)
    try:
        late[0]()
    except (CommitFailedException, ValueError):
        assert lake.rows(spec)["id"].to_pylist() == list(range(5))
    else:
        assert lake.rows(spec)["id"].to_pylist() == list(range(10))


def test_who_comes_back_after_a_sweep_does_not_ask(
    lake: Lake, spec: TableSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is stopped after its last look at the table, and before it puts up its attempt."""
    announce = committing.announce_attempt

    def stopped_before(*given: Any) -> Any:
        swept(lake, spec)
        return announce(*given)

    monkeypatch.setattr(committing, "announce_attempt", stopped_before)
    with pytest.raises(StorageError, match="this write was swept"):
        lake.sink(spec, rows(5, 5))
    monkeypatch.undo()
    assert lake.rows(spec)["id"].to_pylist() == list(range(5))
    assert attempts_of(lake.table(spec)) == []


def test_a_sink_whose_request_is_under_way_leaves_its_files_to_it(
    lake: Lake, spec: TableSpec, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of a conflict at its second try, and the first one may still land."""
    from sqlalchemy.exc import OperationalError

    tried = committing._commit_once

    def unknown(*given: Any) -> None:
        try:
            tried(*given)
        except CommitStateUnknownException as error:
            raise OperationalError("COMMIT", {}, error) from error

    monkeypatch.setattr(committing, "_commit_once", unknown)
    first, look = lake.rows(spec), committing._check_standing

    def conflict(*given: Any) -> None:
        if late and len(attempts_of(lake.table(spec))) == 1:
            late.append(lambda: None)
            monkeypatch.setattr(committing, "_check_standing", look)
            raise committing.ConflictError("others came")
        look(*given)

    monkeypatch.setattr(committing, "_check_standing", conflict)
    spec2 = lake.spec(name="more")
    lake.sink(spec2, rows(5, 5))
    assert lake.rows(spec).num_rows == first.num_rows + 5
    if lake.table(spec).metadata.format_version == 2:
        swept(lake, spec)
        with pytest.raises((CommitFailedException, ValueError)):
            late[0]()
    assert lake.rows(spec).num_rows == first.num_rows + 5
