"""What others have replaced, in whatever commits: a sink finds its rows again, or says that it cannot."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table_spec import TableSpec
from pyiceberg.table import Table

from tests.tables.row_deletes import delete_rows
from tests.tables.sinking import Lake, utc

FIRST = utc("2026-01-01T00:00:00")
SAME = r"others have put 1 other rows in the place of 1 of them.* set force"


def night(lake: Lake, number: int, *ids: int, x: float = 0.0, **given: object) -> None:
    start = FIRST + dt.timedelta(days=number)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "x": [x] * len(ids), "night": [number] * len(ids)})
    lake.sink(lake.spec(), rows, start=start, end=start + dt.timedelta(days=1), **given)


def stored(lake: Lake, spec: TableSpec | None = None) -> list[tuple[int, float]]:
    rows = lake.rows(spec or lake.spec()).to_pylist()
    return sorted((row["id"], row["x"]) for row in rows)


def rows_of(table: Table) -> pa.Table:
    return table.scan().to_arrow()


def with_other_x(rows: pa.Table, number: int) -> pa.Table:
    """A row, changed."""
    [some] = rows.filter(pc.equal(rows["id"], number)).to_pylist()
    return pa.Table.from_pylist([some | {"x": 99.0}], schema=rows.schema)


def without(rows: pa.Table, number: int) -> pa.Table:
    return rows.filter(pc.not_equal(rows["id"], number))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("logged", [None, "1"])
def test_rows_that_others_replaced_are_found_however_short_the_metadata_log_is(
    lake: Lake, logged: str | None
) -> None:
    """pyiceberg replaces rows by two snapshots of one commit; the log forgets which commits there were."""
    nights = 3 if logged else 22
    night(lake, 0, 1, 2, 3)
    if logged:
        with lake.table(lake.spec()).transaction() as change:
            change.set_properties({"write.metadata.previous-versions-max": logged})
    table = lake.table(lake.spec())
    table.overwrite(rows_of(table))
    for number in range(1, nights + 1):
        night(lake, number, 100 * number)
    night(lake, 0, 1, 2, 9)
    assert [number for number, _ in stored(lake)] == [1, 2, 9, *range(100, 100 * nights + 1, 100)]


@pytest.mark.parametrize("between", [False, True])
def test_rows_that_others_delete_and_bring_back_later_are_found(lake: Lake, between: bool) -> None:
    night(lake, 0, 1, 2, 3)
    table = lake.table(lake.spec())
    rows = rows_of(table)
    table.delete("id > 0")
    if between:
        night(lake, 1, 50)
    lake.table(lake.spec()).append(rows)
    night(lake, 0, 1, 2, 9)
    assert [number for number, _ in stored(lake)] == [1, 2, 9] + [50] * between


def test_the_row_that_went_last_comes_back_first(lake: Lake) -> None:
    """The row 1 of night 0 is deleted for good; then night 1 brings an equal one, which goes and comes."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    given = [
        {"start": FIRST + dt.timedelta(days=at), "end": FIRST + dt.timedelta(days=at + 1)} for at in (0, 1, 2)
    ]
    lake.sink(lake.spec(), rows, **given[0])
    lake.table(lake.spec()).delete("id == 1")
    lake.sink(lake.spec(), rows.slice(0, 1), **given[1])
    table = lake.table(lake.spec())
    everything = rows_of(table)
    table.delete("id > 0")
    lake.sink(lake.spec(), pa.table({"id": [7]}), **given[2])
    lake.table(lake.spec()).append(everything)
    with pytest.raises(PlanError, match=SAME):  # the row 1 might be a changed one
        lake.sink(lake.spec(), pa.table({"id": [3]}), **given[0])
    lake.sink(lake.spec(), pa.table({"id": [3]}), force=True, **given[0])
    assert sorted(lake.rows(lake.spec())["id"].to_pylist()) == [1, 3, 7]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("first", ["added", "removed"])
def test_a_row_that_others_changed_in_several_commits_is_told(lake: Lake, first: str, between: bool) -> None:
    night(lake, 0, 1, 2, 3)
    table = lake.table(lake.spec())
    rows = rows_of(table)
    changed = with_other_x(rows, 1)
    if first == "added":
        table.append(changed)
    else:
        table.delete("id == 1")
    if between:
        night(lake, 1, 50)
    table = lake.table(lake.spec())
    if first == "added":
        everything = rows_of(table)
        table.overwrite(
            everything.filter(
                pc.invert(pc.and_(pc.equal(everything["id"], 1), pc.equal(everything["x"], 0.0)))
            )
        )
    else:
        table.append(changed)
    was = stored(lake)
    with pytest.raises(PlanError, match=SAME):
        night(lake, 0, 1, 2, 3, x=5.0)
    assert stored(lake) == was
    lake.table(lake.spec()).delete("x == 99.0")
    night(lake, 0, 1, 2, 3, x=5.0)
    assert stored(lake) == [(1, 5.0), (2, 5.0), (3, 5.0), *([(50, 0.0)] if between else [])]


@pytest.mark.parametrize("between", [False, True])
def test_a_row_that_others_updated_by_a_delete_file_is_told_before_and_after_they_merge_it(
    lake: Lake, between: bool
) -> None:
    night(lake, 0, 1, 2, 3)
    [file] = lake.live(lake.spec())
    rows = rows_of(lake.table(lake.spec()))
    lake.table(lake.spec()).append(with_other_x(rows, 1))
    delete_rows(lake.table(lake.spec()), str(file), [0])
    if between:
        night(lake, 1, 50)
    with pytest.raises(PlanError, match="has delete files, and it cannot be told"):
        night(lake, 0, 1, 2, 3, x=5.0)
    table = lake.table(lake.spec())
    merged(table, rows_of(table))
    with pytest.raises(PlanError, match=SAME):
        night(lake, 0, 1, 2, 3, x=5.0)
    assert stored(lake) == [(1, 99.0), (2, 0.0), (3, 0.0), *([(50, 0.0)] if between else [])]


def merged(table: Table, rows: pa.Table) -> None:
    """Write all rows anew; delete files stay without a file that they are of, and go."""
    from pyiceberg.manifest import ManifestContent
    from pyiceberg.table.update.snapshot import _DeleteFiles

    kept = _DeleteFiles._existing_manifests

    def of_data(self: _DeleteFiles) -> list[object]:
        return [each for each in kept(self) if each.content == ManifestContent.DATA]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_DeleteFiles, "_existing_manifests", of_data)
        table.overwrite(rows)


def test_deleted_rows_are_no_changed_ones_because_others_add_rows_of_their_own(lake: Lake) -> None:
    night(lake, 0, 1, 2, 3)
    table = lake.table(lake.spec())
    rows = rows_of(table)
    table.delete("id == 3")
    other = rows.slice(0, 1).set_column(0, rows.schema.field("id"), pa.array([77], pa.int64()))
    lake.table(lake.spec()).append(other)
    night(lake, 1, 50)
    night(lake, 0, 1, 2, 9, x=5.0)
    assert stored(lake) == [(1, 5.0), (2, 5.0), (9, 5.0), (50, 0.0), (77, 0.0)]


@pytest.mark.parametrize(("number", "is_one"), [(4, False), (1, True)])
def test_identifier_fields_tell_which_rows_are_changed_ones(lake: Lake, number: int, is_one: bool) -> None:
    """No column by itself tells rows of the night apart, and the table says that two of them do together."""
    start = {"start": FIRST, "end": FIRST + dt.timedelta(days=1)}
    rows = pa.table({"id": [1, 1, 2], "visit": [1, 2, 2], "x": [0.0, 0.0, 0.0]})
    lake.sink(lake.spec(), rows, **start)
    with lake.table(lake.spec()).update_schema(allow_incompatible_changes=True) as change:
        change.update_column("id", required=True)
        change.update_column("visit", required=True)
        change.set_identifier_fields("id", "visit")
    table = lake.table(lake.spec())
    there = rows_of(table)
    table.delete("id == 1 and visit == 1")
    other = pa.Table.from_pylist([{"id": number, "visit": 1, "x": 9.0}], schema=there.schema)
    lake.table(lake.spec()).append(other)
    more = pa.table({"id": [5], "visit": [5], "x": [5.0]})
    if is_one:
        with pytest.raises(PlanError, match=SAME):
            lake.sink(lake.spec(), more, **start)
    else:
        lake.sink(lake.spec(), more, **start)
        assert stored(lake) == [(4, 9.0), (5, 5.0)]


def test_where_no_column_tells_rows_apart_any_row_may_be_a_changed_one(lake: Lake) -> None:
    start = {"start": FIRST, "end": FIRST + dt.timedelta(days=1)}
    lake.sink(lake.spec(), pa.table({"id": [1, 1, 2], "x": [0.0, 1.0, 2.0]}), **start)
    lake.table(lake.spec()).delete("x == 0.0")
    lake.table(lake.spec()).append(pa.table({"id": [8], "x": [9.0]}))
    with pytest.raises(PlanError, match=SAME):
        lake.sink(lake.spec(), pa.table({"id": [5], "x": [5.0]}), **start)
    lake.sink(lake.spec(), pa.table({"id": [5], "x": [5.0]}), force=True, **start)
    assert stored(lake) == [(5, 5.0), (8, 9.0)]


def test_rows_of_others_in_the_files_of_an_upsert_do_not_go_with_its_own(lake: Lake) -> None:
    """As many of its own rows were deleted elsewhere as its files hold of others."""
    upsert = lake.spec(mode="upsert", key=["id"], partition=["day"])
    first = pa.table({"id": [1, 7], "day": [1, 1], "x": [0.0, 0.0]})
    second = pa.table({"id": [1, 2], "day": [1, 2], "x": [1.0, 1.0]})
    given = [
        {"start": FIRST + dt.timedelta(days=at), "end": FIRST + dt.timedelta(days=at + 1)} for at in (0, 1)
    ]
    lake.sink(upsert, first, **given[0])
    lake.sink(upsert, second, **given[1])
    lake.table(upsert).delete("id == 2")
    append = lake.spec(partition=["day"])
    with pytest.raises(PlanError, match="lie in files with others by now"):
        lake.sink(append, second.set_column(2, "x", [[5.0, 5.0]]), **given[1])
    assert stored(lake) == [(1, 1.0), (7, 0.0)]


def test_a_sink_says_whether_its_files_hold_rows_of_others(lake: Lake) -> None:
    from hipslake.tables.iceberg.stored_marks import StoredMarks

    upsert = lake.spec(mode="upsert", key=["id"])
    given = [
        {"start": FIRST + dt.timedelta(days=at), "end": FIRST + dt.timedelta(days=at + 1)} for at in (0, 1)
    ]
    lake.sink(upsert, pa.table({"id": [1, 7]}), **given[0])
    lake.sink(upsert, pa.table({"id": [1, 2]}), **given[1])
    standing = StoredMarks(lake.table(upsert))
    told = [standing.of(key) for key in standing.keys]
    assert sorted((each.start.day, each.alone) for each in told if each and each.start) == [
        (1, True),
        (2, False),
    ]
