"""Sinks into tables that others rolled back, branched or compacted: nothing is skipped that is not there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.tables.sink_order import SinkOutcome
from pyiceberg.table import Table

from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.sinking import Lake, utc


def night(lake: Lake, day: int, ids: list[int], *, force: bool = False) -> SinkOutcome:
    """Sink the rows of a night in mode append; the same rows lie in the same file."""
    file = lake.root / "nights" / f"{day}-{'-'.join(map(str, ids))}.parquet"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": ids, "x": [0.5 * each for each in ids]}), file)
    start, end = utc(f"2026-10-{day:02d}T00:00:00"), utc(f"2026-10-{day + 1:02d}T00:00:00")
    return lake.sink(lake.spec(), uri=str(file), start=start, end=end, force=force)


def table_of(lake: Lake) -> Table:
    return lake.table(lake.spec())


def ids(lake: Lake) -> list[int]:
    return lake.rows(lake.spec())["id"].to_pylist()


def cluster(lake: Lake) -> None:
    """Compact the whole table."""
    report = compact(request(lake, full=True, mode="zorder", columns=["id"]), ThisProcess(2))
    assert report.rows_out == len(ids(lake))


def roll_back(lake: Lake, snapshot: int | None) -> None:
    assert snapshot is not None
    table_of(lake).manage_snapshots().rollback_to_snapshot(snapshot).commit()


@pytest.mark.parametrize("force", [False, True])
def test_a_night_that_was_rolled_back_is_sunk_again(lake: Lake, force: bool) -> None:
    first = night(lake, 1, [1, 2])
    night(lake, 2, [3])
    roll_back(lake, first.snapshot_id)
    assert ids(lake) == [1, 2]
    assert not night(lake, 2, [3], force=force).skipped
    assert ids(lake) == [1, 2, 3]
    assert night(lake, 2, [3]).skipped
    assert night(lake, 1, [1, 2]).skipped


def test_rows_that_a_rollback_brought_back_are_replaced_and_do_not_stay_beside_the_new_ones(
    lake: Lake,
) -> None:
    first = night(lake, 1, [1, 2])
    night(lake, 1, [7, 8])
    assert ids(lake) == [7, 8]
    roll_back(lake, first.snapshot_id)
    assert night(lake, 1, [1, 2]).skipped
    assert not night(lake, 1, [7, 8]).skipped
    assert ids(lake) == [7, 8]


def test_a_sink_that_stands_in_a_branch_only_is_none_of_the_table(lake: Lake) -> None:
    first = night(lake, 1, [1, 2])
    second = night(lake, 2, [3])
    assert second.snapshot_id is not None
    table_of(lake).manage_snapshots().create_branch(second.snapshot_id, "audit").commit()
    roll_back(lake, first.snapshot_id)
    assert not night(lake, 2, [3]).skipped
    assert ids(lake) == [1, 2, 3]


def test_other_rows_replace_those_that_compactions_have_rewritten(lake: Lake) -> None:
    night(lake, 1, [1, 2])
    for _ in range(2):
        cluster(lake)
        assert night(lake, 1, [1, 2]).skipped
    night(lake, 1, [4, 5, 6])
    assert ids(lake) == [4, 5, 6]
    cluster(lake)
    night(lake, 1, [9])
    assert ids(lake) == [9]


def test_a_compaction_that_is_rolled_back_leaves_its_rows_to_be_replaced(lake: Lake) -> None:
    first = night(lake, 1, [1, 2])
    cluster(lake)
    roll_back(lake, first.snapshot_id)
    night(lake, 1, [3])
    assert ids(lake) == [3]
