"""What a table keeps of its sinks: bounded, and still enough for no row to come twice."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import PlanError
from hipslake.spark import sink as sink_module
from hipslake.specs.table import TableSpec
from hipslake.tables import sunk
from hipslake.tables.sunk import EARLIER, PREFIX, Earlier, Sunk
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.sinking import Lake, utc

FIRST = utc("2026-01-01T00:00:00")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A warehouse whose tables keep three sinks."""
    monkeypatch.setattr(sunk, "KEPT", 3)
    monkeypatch.setattr(sink_module, "KEPT", 3)
    return Lake(tmp_path)


def night(number: int) -> pa.Table:
    start = dt.datetime(2026, 1, 1) + dt.timedelta(days=number)
    return pa.table({"id": [number], "ts": pa.array([start], pa.timestamp("us")), "value": [1.0]})


def interval(number: int) -> dict[str, dt.datetime]:
    start = FIRST + dt.timedelta(days=number)
    return {"start": start, "end": start + dt.timedelta(days=1)}


def ids(lake: Lake, spec: TableSpec) -> list[int]:
    return [int(number) for number in lake.rows(spec)["id"].to_pylist()]


def kept(lake: Lake, spec: TableSpec) -> list[str]:
    return [name for name in lake.table(spec).properties if name.startswith((PREFIX, EARLIER))]


def test_no_night_comes_twice_however_many_there_were(lake: Lake) -> None:
    spec = lake.spec()
    landed = {number: lake.land(night(number)) for number in (*range(9), 20)}
    for number in (0, 1, 2, 4, 5, 6, 7, 20):
        lake.sink(spec, uri=landed[number], **interval(number))
    assert len(kept(lake, spec)) == 4  # three nights, and all that were before
    for number in (0, 2, 4, 5):
        with pytest.raises(PlanError, match="was sunk before, and 3 others after it, so the table does not"):
            lake.sink(spec, uri=landed[number], **interval(number))
        with pytest.raises(PlanError, match="was sunk before"):
            lake.sink(spec, night(number + 100), force=True, **interval(number))
    assert lake.sink(spec, uri=landed[7], **interval(7)).skipped
    for number in (3, 8):  # late ones
        assert lake.sink(spec, night(number), **interval(number)).rows_out == 1
    assert ids(lake, spec) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 20]
    assert len(kept(lake, spec)) == 4
    other = lake.spec(name="other")  # knows nothing of the nights of the first
    assert lake.sink(other, night(0), **interval(0)).rows_out == 1


def test_an_old_upsert_is_repeated_only_by_force(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id")
    landed = {number: lake.land(night(number)) for number in range(5)}
    for number, uri in landed.items():
        lake.sink(spec, uri=uri, **interval(number))
    with pytest.raises(PlanError, match=r"was sunk before, .* set force, if no later rows are to stay"):
        lake.sink(spec, uri=landed[0], **interval(0))
    lake.sink(spec, uri=landed[0], force=True, **interval(0))
    assert ids(lake, spec) == [0, 1, 2, 3, 4]
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped


def test_an_old_interval_is_overwritten_again(lake: Lake) -> None:
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    spec = lake.spec(mode="overwrite-interval", interval="ts", source=source)
    for number in range(5):
        lake.sink(spec, night(number), **interval(number))
    done = lake.sink(spec, night(0), **interval(0))
    assert (done.rows_updated, done.rows_out) == (1, 1)
    assert ids(lake, spec) == [0, 1, 2, 3, 4]


def test_what_is_of_no_interval_is_known_too(lake: Lake) -> None:
    spec = lake.spec()
    landed = [lake.land(night(number)) for number in range(5)]
    for uri in landed:
        lake.sink(spec, uri=uri)
    with pytest.raises(PlanError, match="was sunk before"):
        lake.sink(spec, uri=landed[0])
    assert ids(lake, spec) == [0, 1, 2, 3, 4]
    for at in range(5, 9):
        lake.sink(lake.spec(name=f"spec_{at}"), night(at), whole=True)
    assert lake.sink(lake.spec(name="spec_5"), night(50), whole=True).rows_updated == 1  # these are never old


def test_other_properties_in_their_place_are_told(lake: Lake) -> None:
    spec = lake.spec()
    for number in range(4):
        lake.sink(spec, night(number), **interval(number))
    (name,) = [name for name in kept(lake, spec) if name.startswith(EARLIER)]
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({name: "{}", f"{PREFIX}x": "by hand"})
    with pytest.raises(PlanError, match="does not say what was sunk before; remove it"):
        lake.sink(spec, night(9), **interval(9))


SINKS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=20)


@given(batches=st.lists(SINKS, max_size=4), asked=st.integers(-1, 35))
def test_older_sinks_hold_the_intervals_that_they_were_of(
    batches: list[list[tuple[int, int]]], asked: int
) -> None:
    def at(hour: int) -> dt.datetime:
        return FIRST + dt.timedelta(hours=hour)

    def one(start: int, hours: int) -> Sunk:
        end = at(start + hours) if hours else None
        given = {"fingerprint": "", "content": "", "rows": 1, "write": "", "start": at(start), "end": end}
        return Sunk(key=f"sample/{at(start)}", **given)

    earlier, covered, points = Earlier(spec="sample"), set(), set()
    for batch in batches:
        earlier = earlier.with_sinks(one(*each) for each in batch)
        earlier = Earlier.model_validate_json(earlier.model_dump_json(exclude_defaults=True))
        covered |= {hour for start, hours in batch for hour in range(start, start + hours)}
        points |= {start for start, hours in batch if not hours}
    assert earlier.holds(f"sample/{at(asked)}", at(asked)) == (asked in covered | points)
    assert len(earlier.intervals) == len([hour for hour in covered if hour - 1 not in covered])
