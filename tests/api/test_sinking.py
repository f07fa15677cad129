"""`hipslake.sink`: batches of streams go into a table once, whatever is killed or done again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hipslake import Table, sink
from hipslake.errors import InputError, PlanError, SchemaMismatchError, SpecError
from hipslake.specs.table_place import IcebergSpec
from hipslake.tables.iceberg import commit as committing
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.marks import PREFIX
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table as IcebergTable

from tests.examples import examples
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.plain_reader import plain_rows

NAME = "survey.alerts"


class Killed(BaseException):
    """Stands for the end of a process."""


class Stream:
    """A query, the table that it feeds, and who dies at its commits."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.iceberg = {"uri": f"sqlite:///{root}/state/iceberg.db"}
        self.options = options

    def sink(self, rows: Any, number: int, **options: Any) -> Any:
        given = {"table": NAME, "key": ("alerts", number), "checkpoint": "first", **self.options, **options}
        return sink(rows, warehouse=self.root / "warehouse", iceberg=self.iceberg, **given)

    @property
    def table(self) -> IcebergTable:
        return open_table(open_catalog(IcebergSpec(**self.iceberg), str(self.root / "warehouse")), NAME)

    def rows(self) -> list[dict[str, Any]]:
        """What plain Python reads, which is what pyiceberg and this library read."""
        table = self.table
        found = sorted(plain_rows(table), key=lambda row: (row["id"], row["value"]))
        by = [("id", "ascending"), ("value", "ascending")]
        assert table.scan().to_arrow().select(["id", "value"]).sort_by(by).to_pylist() == [
            {"id": row["id"], "value": row["value"]} for row in found
        ]
        ours = Table.open(NAME, warehouse=self.root / "warehouse", iceberg=self.iceberg).read(["id", "value"])
        assert ours.num_rows == len(found)
        return found

    def dies(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        """Have the next commit die before it, or right after it."""
        once = committing._commit_once

        def die(*arguments: Any) -> None:
            patch.setattr(committing, "_commit_once", once)
            if moment == "after the commit":
                once(*arguments)
            raise Killed

        patch.setattr(committing, "_commit_once", die)


def rows(first: int, count: int = 3, value: int = 0) -> pa.Table:
    ids, values = pa.array(range(first, first + count), pa.int64()), pa.array([value] * count, pa.int64())
    return pa.table({"id": ids, "value": values})


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def ids(stream: Stream) -> list[int]:
    return [row["id"] for row in stream.rows()]


def test_batches_are_added_and_one_that_comes_again_is_passed_over(stream: Stream) -> None:
    first = stream.sink(rows(0), 0)
    assert (first.created, first.rows_out, first.skipped) == (True, 3, False)
    second = stream.sink(rows(3).to_pandas(), 1)
    again = stream.sink(rows(3), 1)
    assert (again.skipped, again.found_snapshot_id, again.found_rows) == (True, second.snapshot_id, 3)
    assert again.snapshot_id is None
    assert ids(stream) == list(range(6))
    assert not list((stream.root / "warehouse" / "_streams").rglob("*.parquet"))


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_batch_whose_process_died_comes_once(
    tmp_path: Path, moment: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path, mode=mode, by=["id"] if mode == "upsert" else [])
    stream.sink(rows(0), 0)
    stream.dies(moment, monkeypatch)
    with pytest.raises(Killed):
        stream.sink(rows(3), 1)
    assert ids(stream) == list(range(6 if moment == "after the commit" else 3))
    assert stream.sink(rows(3), 1).skipped == (moment == "after the commit")
    stream.sink(rows(6), 2)
    assert ids(stream) == list(range(9))


def test_a_batch_without_rows_is_not_committed(stream: Stream) -> None:
    assert stream.sink(rows(0, 0), 0).snapshot_id is None
    stream.sink(rows(0), 1)
    snapshot = stream.table.current_snapshot()
    assert stream.sink(rows(0, 0), 2).snapshot_id is None
    assert stream.table.current_snapshot() == snapshot


def test_an_older_batch_is_refused(stream: Stream) -> None:
    stream.sink(rows(0), 7)
    with pytest.raises(PlanError, match="query alerts up to 7, and this is batch 6"):
        stream.sink(rows(3), 6)
    with pytest.raises(PlanError, match="older state"):
        stream.sink(rows(3), 0, force=True)
    assert ids(stream) == [0, 1, 2]


def test_a_query_that_begins_anew_is_refused_unless_it_is_forced(stream: Stream) -> None:
    stream.sink(rows(0), 4)
    for number in (0, 4, 5):
        with pytest.raises(PlanError, match=r"checkpoint first, and this is batch \d of another one, second"):
            stream.sink(rows(3), number, checkpoint="second")
    stream.sink(rows(3), 0, checkpoint="second", force=True)
    assert stream.sink(rows(3), 0, checkpoint="second", force=True).skipped
    stream.sink(rows(6), 1, checkpoint="second")
    with pytest.raises(PlanError, match="checkpoint second"):
        stream.sink(rows(9), 5)  # the first one, if it still runs
    assert ids(stream) == list(range(9))


def test_queries_into_one_table_are_apart_and_each_has_one_mark(stream: Stream) -> None:
    for number in range(6):
        stream.sink(rows(10 * number, 1), number)
        stream.sink(rows(10 * number + 5, 1), number, key=("B / über", number), checkpoint=None)
    assert ids(stream) == [10 * number + more for number in range(6) for more in (0, 5)]
    assert len([name for name in stream.table.properties if name.startswith(PREFIX)]) == 2
    assert stream.sink(rows(0), 5, key=("B / über", 5)).skipped


def test_upserts_take_the_place_of_rows_of_their_key(tmp_path: Path) -> None:
    stream = Stream(tmp_path, mode="upsert", by="id", order_by="value", operation={"column": "op"})
    put = rows(0, 3, 1).append_column("op", pa.array(["I"] * 3))
    stream.sink(put, 0)
    changed = pa.table({"id": [1, 2, 3], "value": [5, 5, 5], "op": ["U", "D", "I"]})
    done = stream.sink(changed, 1)
    assert (done.rows_deleted, done.rows_updated) == (1, 1)
    assert stream.sink(put, 1).skipped
    assert [(row["id"], row["value"]) for row in stream.rows()] == [(0, 1), (1, 5), (3, 5)]


def test_partitions_give_the_files_of_a_batch_sink(tmp_path: Path) -> None:
    stream = Stream(tmp_path, partition=["bucket[4](id)"])
    assert stream.sink(rows(0, 200), 0).files_added == 4
    assert stream.sink(rows(200, 200), 1).files_added == 4


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"key": "alerts"}, SpecError, "give the name of the query and the number"),
        ({"key": ("alerts", True)}, SpecError, "give the name of the query and the number"),
        ({"key": ("alerts", -1)}, SpecError, "number: .*at least 0"),
        ({"mode": "overwrite-interval"}, SpecError, "interval"),
        ({"by": ["id"]}, SpecError, "key: mode append does not look at it"),
        ({"table": "alerts"}, SpecError, "is no table"),
        ({"partition": ["year(id)"]}, SpecError, "id"),
    ],
)
def test_what_fits_to_no_table_is_told(
    stream: Stream, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        stream.sink(rows(0), 0, **options)


def test_rows_that_do_not_fit_leave_the_table_and_come_again(stream: Stream) -> None:
    stream.sink(rows(0), 0)
    with pytest.raises(SchemaMismatchError):
        stream.sink(pa.table({"id": ["x"], "value": [1]}), 1)
    with pytest.raises(SpecError, match="data: is a int"):
        stream.sink(3, 1)
    with pytest.raises(InputError):
        stream.sink(pd.DataFrame({"id": [object()], "value": [1]}), 1)
    assert not stream.sink(rows(3), 1).skipped
    assert ids(stream) == list(range(6))


def test_a_table_that_was_taken_back_goes_on_with_what_is_not_in_it(stream: Stream) -> None:
    first = stream.sink(rows(0), 0)
    stream.sink(rows(3), 1)
    table = stream.table
    table.manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
    assert ids(stream) == [0, 1, 2]
    assert not stream.sink(rows(3), 1).skipped
    assert ids(stream) == list(range(6))


MOMENTS = st.sampled_from(["", "", "before the commit", "after the commit"])
OTHERS = st.sampled_from(["", "", "compaction", "delete", "column", "another sink"])
BATCHES = st.lists(
    st.tuples(st.lists(st.integers(0, 12), max_size=5), MOMENTS, OTHERS), min_size=2, max_size=7
)


@settings(max_examples=examples(40, part=10), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=BATCHES, upserts=st.booleans())
def test_any_stream_leaves_what_its_batches_say(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Any], upserts: bool
) -> None:
    """Against a dict (upsert) or a list (append) of Python, with deaths at commits, and changes by others."""
    options: dict[str, Any] = {"mode": "upsert", "by": "id"} if upserts else {}
    stream = Stream(tmp_path_factory.mktemp("stream"), partition=["bucket[3](id)"], **options)
    stream.sink(rows(100, 1, -1), 0)
    expected: Counter[tuple[int, int]] = Counter({(100, -1): 1})
    wide = False
    for number, (keys, moment, others) in enumerate(batches, 1):
        keys = sorted(set(keys)) if upserts else keys
        batch = pa.table(
            {"id": pa.array(keys, pa.int64()), "value": pa.array([number] * len(keys), pa.int64())}
        )
        wide |= others == "column"
        if wide:
            batch = batch.append_column("more", pa.array([1.5] * len(keys)))
        if moment and keys:
            with pytest.MonkeyPatch.context() as patch:
                stream.dies(moment, patch)
                with pytest.raises(Killed):
                    stream.sink(batch, number)
        if others == "compaction":
            compact(compacting.request(stream.root, table=NAME, iceberg=stream.iceberg, full=True))
        elif others == "delete":
            place = {"warehouse": stream.root / "warehouse", "iceberg": stream.iceberg}
            Table.open(NAME, **place).delete(filters=f"id = 100 and value < {number}", force=True)
            expected.pop((100, -1), None)
        elif others == "another sink":
            stream.sink(rows(200 + number, 1, 7), number, key=("others", number))
            expected[200 + number, 7] += 1
        done = stream.sink(batch, number)
        assert done.skipped == (moment == "after the commit" and bool(keys))
        if upserts:
            expected = Counter({each: n for each, n in expected.items() if each[0] not in keys})
        expected.update((key, number) for key in keys)
        assert Counter((row["id"], row["value"]) for row in stream.rows()) == +expected
