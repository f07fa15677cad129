"""What a table keeps of its sinks: bounded, and still enough for no row to come twice."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink import known_sinks
from hipslake.tables.iceberg import stored_marks
from hipslake.tables.iceberg.stored_marks import EARLIER, OLDER, PREFIX, Earlier, StoredMarks
from hipslake.tables.marks import SinkMark, SnapshotPlace, packed, same_digest, unpacked
from hipslake.tables.sink_order import StreamBatch, VersionRows
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.sinking import Lake, utc

FIRST = utc("2026-01-01T00:00:00")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A warehouse whose tables keep three sinks."""
    monkeypatch.setattr(stored_marks, "KEPT", 3)
    monkeypatch.setattr(known_sinks, "KEPT", 3)
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
    return [name for name in lake.table(spec).properties if name.startswith((PREFIX, OLDER))]


def expired(lake: Lake, spec: TableSpec) -> None:
    """No snapshot tells of the older sinks."""
    table = lake.table(spec)
    current = table.metadata.current_snapshot_id
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != current]
    table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gone", [False, True])
def test_no_night_comes_twice_and_each_is_replaced_however_many_there_were(lake: Lake, gone: bool) -> None:
    spec = lake.spec()
    landed = {number: lake.land(night(number)) for number in (*range(9), 20)}
    for number in (0, 1, 2, 4, 5, 6, 7, 20):
        lake.sink(spec, uri=landed[number], **interval(number))
    assert len(kept(lake, spec)) == 4  # three nights, and all that were before
    if gone:
        expired(lake, spec)
    for number in (0, 2, 4, 5, 7):
        assert lake.sink(spec, uri=landed[number], **interval(number)).skipped
    for number in (0, 4):  # they came again, with other rows
        done = lake.sink(spec, night(number + 100), **interval(number))
        assert (done.rows_updated, done.rows_out) == (1, 1)
        if gone:
            expired(lake, spec)
    assert lake.sink(spec, uri=landed[2], force=True, **interval(2)).rows_updated == 1
    for number in (3, 8):  # late ones
        assert lake.sink(spec, night(number), **interval(number)).rows_out == 1
    assert ids(lake, spec) == [1, 2, 3, 5, 6, 7, 8, 20, 100, 104]
    assert len(kept(lake, spec)) == 4
    other = lake.spec(name="other")  # knows nothing of the nights of the first
    assert lake.sink(other, night(0), **interval(0)).rows_out == 1


def test_an_old_night_that_was_rolled_back_is_sunk_again(lake: Lake) -> None:
    spec = lake.spec()
    landed = {number: lake.land(night(number)) for number in range(7)}
    done = [lake.sink(spec, uri=landed[number], **interval(number)) for number in range(7)]
    assert done[0].snapshot_id is not None
    lake.table(spec).manage_snapshots().rollback_to_snapshot(done[0].snapshot_id).commit()
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped
    for number in (1, 2, 3, 6):
        assert not lake.sink(spec, uri=landed[number], **interval(number)).skipped
    expired(lake, spec)
    for number in (4, 5):
        assert not lake.sink(spec, uri=landed[number], **interval(number)).skipped
    assert ids(lake, spec) == list(range(7))


def test_an_old_upsert_is_known(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id")
    landed = {number: lake.land(night(number)) for number in range(5)}
    for number, uri in landed.items():
        lake.sink(spec, uri=uri, **interval(number))
    expired(lake, spec)
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped
    lake.sink(spec, uri=landed[0], force=True, **interval(0))
    assert ids(lake, spec) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_intervals_that_earlier_versions_of_the_library_noted_are_known(lake: Lake, mode: str) -> None:
    spec = lake.spec(**({"mode": mode, "key": "id"} if mode == "upsert" else {}))
    lake.sink(spec, night(9), **interval(9))
    start, end = FIRST, FIRST + dt.timedelta(days=3)
    noted = Earlier(spec="sample", intervals=((start, end),)).model_dump_json(exclude_defaults=True)
    name = f"{EARLIER}{hashlib.sha256(b'sample').hexdigest()[:16]}"
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({name: noted})
    with pytest.raises(PlanError, match="was sunk before, and 3 others after it, so the table does not"):
        lake.sink(spec, night(2), **interval(2))
    assert lake.sink(spec, night(3), **interval(3)).rows_out == 1
    if mode == "upsert":
        lake.sink(spec, night(2), force=True, **interval(2))


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
    expired(lake, spec)
    assert lake.sink(spec, uri=landed[0]).skipped
    assert ids(lake, spec) == [0, 1, 2, 3, 4]
    for at in range(5, 9):
        lake.sink(lake.spec(name=f"spec_{at}"), night(at), whole=True)
    assert lake.sink(lake.spec(name="spec_5"), night(50), whole=True).rows_updated == 1  # these are never old


def test_other_properties_in_their_place_are_told(lake: Lake) -> None:
    spec = lake.spec()
    for number in range(4):
        lake.sink(spec, night(number), **interval(number))
    (name,) = [name for name in kept(lake, spec) if name.startswith(OLDER)]
    for text in ("{}", "e30=", base64.b64encode(zlib.compress(b'{"sinks": [[1]]}')).decode()):
        with lake.table(spec).transaction() as transaction:
            transaction.set_properties({name: text, f"{PREFIX}x": "by hand"})
        with pytest.raises(PlanError, match=r"does not say what was sunk before .*; remove it"):
            lake.sink(spec, night(9), **interval(9))


def test_what_earlier_versions_noted_is_told_apart_from_what_others_wrote(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, night(0), **interval(0))
    name = f"{EARLIER}{hashlib.sha256(b'sample').hexdigest()[:16]}"
    for text, there in ((Earlier(spec="sample").model_dump_json(), False), ("by hand", None)):
        with lake.table(spec).transaction() as transaction:
            transaction.set_properties({name: text})
        marks = StoredMarks(lake.table(spec))
        if there is None:
            with pytest.raises(PlanError, match="does not say what was sunk before; remove it"):
                marks.was_sunk_earlier("sample/whole", None)
        else:
            assert marks.was_sunk_earlier("sample/whole", None) is there


def test_a_mark_that_others_wrote_over_is_told(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, night(0), **interval(0))
    (name,) = [name for name in kept(lake, spec) if name.startswith(PREFIX)]
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({name: "by hand"})
    with pytest.raises(PlanError, match="remove it, if nothing of that interval is in the table"):
        lake.sink(spec, night(0), **interval(0))


TIMES = st.datetimes(timezones=st.just(dt.UTC))
PLACES = st.builds(SnapshotPlace, st.integers(0, 2**62), st.integers(0, 2**62))
SINKS = st.builds(
    SinkMark,
    key=st.text(),
    fingerprint=st.sampled_from(["", "0123456789abcdef" * 4]),
    content=st.sampled_from(["", "20260101T0000-0123456789ab", "f" * 64]),
    rows=st.integers(0, 2**62),
    write=st.text(),
    at=st.none() | TIMES,
    start=st.none() | TIMES,
    end=st.none() | TIMES,
    alone=st.booleans(),
    earliest=st.none() | PLACES,
    since=st.none() | PLACES,
    batch=st.none() | st.builds(StreamBatch, query=st.text(), number=st.integers(0, 2**62)),
)


@given(sinks=st.lists(SINKS, unique_by=lambda each: each.key), data=st.data())
def test_what_is_packed_is_found_again(sinks: list[SinkMark], data: st.DataObject) -> None:
    for at, each in enumerate(sinks):
        if data.draw(st.booleans()):
            uri, columns = data.draw(st.sampled_from("xy")), data.draw(st.sampled_from([None, ("a", "b")]))
            source = VersionRows(
                uri=uri, version=at + 1, increment="n", content=each.content, columns=columns
            )
            sinks[at] = each.model_copy(update={"source": source})
    found = unpacked(packed(sinks), "name")
    assert found.keys() == {each.key for each in sinks}
    for each in sinks:
        known = found[each.key]
        assert same_digest(known.fingerprint, each.fingerprint)
        assert same_digest(known.content, each.content)
        cut = {"fingerprint": known.fingerprint, "content": known.content}
        source = None if each.source is None else each.source.model_copy(update={"content": known.content})
        assert known == each.model_copy(update={**cut, "source": source})


def test_ten_years_of_nights_are_a_small_property() -> None:
    def one(number: int) -> SinkMark:
        start, end = interval(number).values()
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        write = f"{start:%Y%m%dT%H%M}-{digest[:12]}"
        key = f"detections/{start.isoformat()}"
        source = VersionRows(
            uri="s3://bucket/catalogs/detections", version=number, increment=key, content=write
        )
        given = {"rows": 100_000 + number, "write": write, "at": end, "start": start, "end": end}
        given["earliest"] = given["since"] = SnapshotPlace(4 * number + 1, 0)
        return SinkMark(key=key, fingerprint=digest, content=write, source=source, **given)

    assert len(packed(one(number) for number in range(3650))) < 70 * 3650
