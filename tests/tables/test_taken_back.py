"""Tables that others took back to before several sinks of an interval: no row comes twice, none is lost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink import sink_table as sink_module
from hipslake.tables.iceberg import stored_marks
from hipslake.tables.iceberg.snapshot_history import History
from pyiceberg.table import Table

from tests.tables.sinking import Lake, utc

pytestmark = pytest.mark.sampled(2)

FIRST = utc("2026-01-01T00:00:00")
VERSIONS = pytest.mark.parametrize("version", ["1", "2"])
UNKNOWN = "not known any more what stands of sample/2026-01-01"


def specified(lake: Lake, version: str, mode: str = "append") -> TableSpec:
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    more = {"append": {}, "upsert": {"key": "id"}, "overwrite-interval": {"interval": "ts"}}[mode]
    return lake.spec(mode=mode, source=source, properties={"format-version": version}, **more)


def night(number: int, *ids: int) -> pa.Table:
    start = dt.datetime(2026, 1, 1) + dt.timedelta(days=number)
    return pa.table({"id": list(ids), "ts": pa.array([start] * len(ids), pa.timestamp("us"))})


def interval(number: int) -> dict[str, dt.datetime]:
    start = FIRST + dt.timedelta(days=number)
    return {"start": start, "end": start + dt.timedelta(days=1)}


def ids(lake: Lake, spec: TableSpec) -> list[int]:
    return sorted(int(number) for number in lake.rows(spec)["id"].to_pylist())


def others_than(*numbers: int | None) -> Callable[[Table], list[int]]:
    return lambda table: [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in numbers]


def expired(lake: Lake, spec: TableSpec, *numbers: int | None) -> None:
    lake.table(spec).maintenance.expire_snapshots().by_ids([each for each in numbers if each]).commit()


def taken_back(lake: Lake, spec: TableSpec, number: int | None) -> None:
    assert number is not None
    lake.table(spec).manage_snapshots().set_current_snapshot(number).commit()


def replaced_twice(lake: Lake, spec: TableSpec, *, first_seen: int = 0) -> int | None:
    """Night 0 three times, then the table as of night 1 after the first, of which nothing tells any more."""
    for number in range(first_seen):
        lake.sink(spec, night(5 + number, 50 + number), **interval(5 + number))
    first = lake.sink(spec, night(0, 1, 2), **interval(0))
    then = lake.sink(spec, night(1, 10), **interval(1))
    lake.sink(spec, night(0, 3), **interval(0))
    lake.sink(spec, night(0, 4), **interval(0))
    expired(lake, spec, first.snapshot_id)
    taken_back(lake, spec, then.snapshot_id)
    return then.snapshot_id


@VERSIONS
@pytest.mark.parametrize("force", [False, True])
def test_an_interval_of_which_an_unknown_sink_stands_is_not_appended_again(
    lake: Lake, version: str, force: bool
) -> None:
    spec = specified(lake, version)
    replaced_twice(lake, spec)
    for rows in (night(0, 1, 2), night(0, 4), night(0, 9).slice(1)):
        with pytest.raises(PlanError, match=UNKNOWN):
            lake.sink(spec, rows, force=force, **interval(0))
    assert ids(lake, spec) == [1, 2, 10]


@pytest.mark.sampled(4)
@VERSIONS
@pytest.mark.parametrize("commits", ["none", "a sink", "sinks that pack it", "the sinks expire"])
def test_that_is_known_whatever_comes_after(
    lake: Lake, version: str, commits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when commits of others' intervals have corrected the properties, and packed the older ones."""
    spec = specified(lake, version)
    if commits == "sinks that pack it":
        monkeypatch.setattr(stored_marks, "KEPT", 2)
        monkeypatch.setattr(sink_module, "KEPT", 2)
    then = replaced_twice(lake, spec, first_seen=3 if commits == "sinks that pack it" else 0)
    there = ids(lake, spec)
    if commits != "none":
        for number in range(20, 24):
            lake.sink(spec, night(number, 100 + number), **interval(number))
            there.append(100 + number)
    if commits == "the sinks expire":
        table = lake.table(spec)
        current = table.metadata.current_snapshot_id
        expired(lake, spec, *others_than(current, then)(table))
    with pytest.raises(PlanError, match=UNKNOWN):
        lake.sink(spec, night(0, 1, 2), **interval(0))
    assert ids(lake, spec) == there


@VERSIONS
def test_overwriting_the_interval_settles_it(lake: Lake, version: str) -> None:
    spec, overwriting = specified(lake, version), specified(lake, version, "overwrite-interval")
    replaced_twice(lake, spec)
    landed = lake.land(night(0, 7))
    lake.sink(overwriting, uri=landed, **interval(0))
    assert ids(lake, spec) == [7, 10]
    assert lake.sink(overwriting, uri=landed, **interval(0)).skipped
    lake.sink(spec, night(0, 8), **interval(0))
    assert ids(lake, spec) == [8, 10]


@VERSIONS
def test_an_upsert_of_unknown_rows_has_to_be_forced(lake: Lake, version: str) -> None:
    spec = specified(lake, version, "upsert")
    replaced_twice(lake, spec)
    with pytest.raises(PlanError, match=UNKNOWN):
        lake.sink(spec, night(0, 2, 9), **interval(0))
    lake.sink(spec, night(0, 2, 9), force=True, **interval(0))
    assert ids(lake, spec) == [1, 2, 9, 10]


@VERSIONS
def test_an_interval_that_was_never_sunk_before_is_sunk_again(lake: Lake, version: str) -> None:
    """The table is taken back to before all of its sinks, and snapshots have expired on the way there."""
    spec = specified(lake, version)
    old = lake.sink(spec, night(1, 10), **interval(1))
    then = lake.sink(spec, night(2, 20), **interval(2))
    sinks = [lake.sink(spec, night(0, number), **interval(0)) for number in (1, 2, 3)]
    expired(lake, spec, old.snapshot_id, sinks[0].snapshot_id)
    taken_back(lake, spec, then.snapshot_id)
    lake.sink(spec, night(0, 1), **interval(0))
    assert ids(lake, spec) == [1, 10, 20]


@VERSIONS
def test_a_line_that_was_left_comes_back_with_what_stood_there(lake: Lake, version: str) -> None:
    """SinkMark anew on another line meanwhile; the snapshot of the first sink of the old line has expired."""
    spec = specified(lake, version)
    base = lake.sink(spec, night(1, 10), **interval(1))
    first = lake.sink(spec, night(0, 1, 2), **interval(0))
    left = lake.sink(spec, night(2, 20), **interval(2))
    taken_back(lake, spec, base.snapshot_id)
    lake.sink(spec, night(3, 30), **interval(3))  # nothing of night 0 stands here
    expired(lake, spec, first.snapshot_id)
    taken_back(lake, spec, left.snapshot_id)
    with pytest.raises(PlanError, match=UNKNOWN):
        lake.sink(spec, night(0, 1, 2), **interval(0))
    assert ids(lake, spec) == [1, 2, 10, 20]


def test_a_sink_whose_snapshot_would_be_known_does_not_stand(lake: Lake) -> None:
    """The second of three has expired, and the table is back at a snapshot that is older than it."""
    spec = specified(lake, "2")
    landed = [lake.land(night(0, 1, 2)), lake.land(night(0, 3))]
    lake.sink(spec, uri=landed[0], **interval(0))
    then = lake.sink(spec, night(1, 10), **interval(1))
    second = lake.sink(spec, uri=landed[1], **interval(0))
    lake.sink(spec, night(0, 4), **interval(0))
    expired(lake, spec, second.snapshot_id)
    taken_back(lake, spec, then.snapshot_id)
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped
    assert not lake.sink(spec, uri=landed[1], **interval(0)).skipped
    assert ids(lake, spec) == [3, 10]


def test_a_table_that_others_replaced_has_none_of_its_sinks(lake: Lake) -> None:
    """CREATE OR REPLACE: the new snapshot has no parent, and those before it are still there."""
    spec = specified(lake, "2")
    lake.sink(spec, night(0, 1, 2), **interval(0))
    lake.table(spec).append(lake.table(spec).scan().to_arrow())
    table = lake.table(spec)
    current = table.current_snapshot()
    assert current is not None
    orphan = current.model_copy(update={"parent_snapshot_id": None})
    kept = [one for one in table.snapshots() if one.snapshot_id != current.snapshot_id]
    table.metadata = table.metadata.model_copy(update={"snapshots": [*kept, orphan]})
    assert [one.snapshot_id for one in History(table).ancestors] == [current.snapshot_id]
    standing = stored_marks.StoredMarks(table)
    assert [standing.of(key) for key in standing.keys] == [None]
    assert not any(standing.may_stand(key) for key in standing.keys)
