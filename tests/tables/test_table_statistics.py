"""Statistics of tables follow what sinks add and replace; and what cannot be counted is told."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.errors import MissingPackageError, SpecError
from hipslake.steps.sink.sink_statistics import SketchFilesTask
from hipslake.steps.sink.sink_try import NO_POSITIONS
from hipslake.tables.stored_files import StoredFile

from tests.tables.counting import NIGHT, SECOND, counted, lose, restore, rows
from tests.tables.puffin_reading import distinct, ndv, statistics_of
from tests.tables.sinking import Lake


def test_an_append_unites_sketches_and_reads_no_file_that_is_there(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(100)))
    gone = lose(lake, spec)
    lake.sink(spec, rows(range(50, 150), "r"))
    table = lake.table(spec)
    assert ndv(table) == {"id": 150, "band": 2}
    first, second = table.snapshots()
    assert ndv(table, first.snapshot_id) == {"id": 100, "band": 1}
    found = statistics_of(table)
    assert found is not None
    assert {blob.told["snapshot-id"] for blob in found.values()} == {second.snapshot_id}
    assert {blob.told["sequence-number"] for blob in found.values()} == {second.sequence_number}
    restore(gone)
    assert distinct(lake.rows(spec), "id", "band") == {"id": 150, "band": 2}


def test_a_table_of_format_version_1_has_statistics_too(lake: Lake) -> None:
    spec = counted(lake, properties={"format-version": "1"})
    lake.sink(spec, rows(range(3)))
    lake.sink(spec, rows(range(2, 5)))
    assert ndv(lake.table(spec)) == {"id": 5, "band": 1}


def test_what_others_add_is_read_alone(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(100)))
    gone = lose(lake, spec)
    lake.table(spec).append(rows(range(90, 120), "others"))
    assert ndv(lake.table(spec)) is None
    lake.sink(spec, rows(range(115, 130), "r"))
    assert ndv(lake.table(spec)) == {"id": 130, "band": 3}
    restore(gone)
    assert distinct(lake.rows(spec), "id", "band") == {"id": 130, "band": 3}


@pytest.mark.parametrize("recompute", [True, False])
def test_a_table_that_has_none_is_read_once(lake: Lake, recompute: bool) -> None:
    lake.sink(lake.spec(), rows(range(100)))
    assert lake.table(lake.spec()).metadata.statistics == []
    spec = counted(lake, recompute=recompute)
    lake.sink(spec, rows(range(90, 110), "r"))
    assert ndv(lake.table(spec)) == ({"id": 110, "band": 2} if recompute else None)
    if recompute:
        lose(lake, spec)
        lake.sink(spec, rows(range(105, 115), "i"))
        assert ndv(lake.table(spec)) == {"id": 115, "band": 3}


def test_an_empty_table_knows_all_its_rows(lake: Lake) -> None:
    """So the first rows have statistics, also where nothing may be read."""
    lake.sink(lake.spec(), rows([]))
    spec = counted(lake, recompute=False)
    lake.sink(spec, rows(range(3)))
    assert ndv(lake.table(spec)) == {"id": 3, "band": 1}


def test_a_column_that_is_counted_from_now_on_is_read_alone(lake: Lake) -> None:
    lake.sink(counted(lake, "id"), rows(range(10)))
    spec = counted(lake)
    lake.sink(spec, rows(range(5, 15), "r"))
    assert ndv(lake.table(spec)) == {"id": 15, "band": 2}
    lake.sink(counted(lake, "band", recompute=False), rows(range(100, 101), "i"))
    assert ndv(lake.table(spec)) == {"band": 3}


@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("recompute", [True, False])
def test_rows_that_an_upsert_replaces_do_not_count(lake: Lake, write: str, recompute: bool) -> None:
    spec = counted(lake, mode="upsert", key="id", write=write, recompute=recompute)
    lake.sink(spec, pa.concat_tables([rows(range(5), "g"), rows([5], "old")]))
    lake.sink(spec, rows([7, 8], "r"))
    assert ndv(lake.table(spec)) == {"id": 8, "band": 3}, "no row of these keys was there"
    lake.sink(spec, rows([5, 6], "i"))
    exact = distinct(lake.rows(spec), "id", "band")
    assert exact == {"id": 9, "band": 3}
    assert ndv(lake.table(spec)) == (exact if recompute else None)
    lake.sink(spec, rows([10], "z"))  # a new key: nothing goes
    assert ndv(lake.table(spec)) == ({"id": 10, "band": 4} if recompute else None)


@pytest.mark.parametrize("partition", [[], ["band"]])
def test_an_interval_that_is_replaced_does_not_count(lake: Lake, partition: list[str]) -> None:
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    spec = counted(lake, mode="overwrite-interval", interval="t", source=source, partition=partition)

    def night(day: int, ids: range, band: str) -> pa.Table:
        return rows(ids, band).append_column(
            "t", pa.array([dt.datetime(2026, 1, day)] * len(ids), pa.timestamp("us"))
        )

    lake.sink(spec, night(1, range(10), "g"), **NIGHT)
    lake.sink(spec, night(2, range(10, 20), "r"), **SECOND)
    lake.sink(spec, night(1, range(4), "i"), **NIGHT)
    assert ndv(lake.table(spec)) == {"id": 14, "band": 2} == distinct(lake.rows(spec), "id", "band")


def test_the_last_night_that_comes_again_reads_nothing_else(lake: Lake) -> None:
    """The statistics of the version before it tell of all rows that stay."""
    spec = counted(lake, source={"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}})
    lake.sink(spec, rows(range(10)), **NIGHT)
    gone = lose(lake, spec)
    lake.sink(spec, rows(range(10, 20), "r"), **SECOND)
    assert ndv(lake.table(spec)) == {"id": 20, "band": 2}
    lake.sink(spec, rows(range(10, 13), "i"), **SECOND)
    assert ndv(lake.table(spec)) == {"id": 13, "band": 2}
    restore(gone)
    assert distinct(lake.rows(spec), "id", "band") == {"id": 13, "band": 2}


def test_a_delete_leaves_none_and_the_next_sink_counts_again(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    opened = OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse)
    opened.delete(filters="id < 4", force=True)
    assert ndv(lake.table(spec)) is None
    lake.sink(spec, rows([20], "r"))
    assert ndv(lake.table(spec)) == {"id": 7, "band": 2}


def test_a_table_that_was_taken_back_goes_on_from_there(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    first = lake.table(spec).metadata.current_snapshot_id
    lake.sink(spec, rows(range(10, 20), "r"))
    assert first is not None
    lake.table(spec).manage_snapshots().rollback_to_snapshot(first).commit()
    lake.sink(spec, rows(range(5, 15), "i"))
    assert ndv(lake.table(spec)) == {"id": 15, "band": 2}


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", r"statistics\.ndv: there is no column 'none', .* there are band, id, many, part"),
        ("part.none", r"there is no column 'part\.none', and no part 'part\.none' of a struct"),
        ("part", r"column 'part' is of type struct<.*>, whose values are not counted; name a part of it"),
        ("many", r"column 'many' is of type list<.*>, whose values are not counted; name other columns"),
        ("many.n", r"there is no column 'many\.n'"),
        ("ID", r"there is no column 'ID'"),
    ],
)
def test_what_cannot_be_counted_is_told_before_anything_is_made(lake: Lake, name: str, message: str) -> None:
    nested = rows(range(2))
    nested = nested.append_column("part", pa.array([{"n": 1}, None], pa.struct([("n", pa.int64())])))
    nested = nested.append_column(
        "many", pa.array([[{"n": 1}], []], pa.list_(pa.struct([("n", pa.int64())])))
    )
    spec = counted(lake, "id", name)
    with pytest.raises(SpecError, match=message):
        lake.sink(spec, nested)
    with pytest.raises(SpecError):
        lake.table(spec)


def test_a_column_that_only_the_table_has_is_counted(lake: Lake) -> None:
    lake.sink(lake.spec(), rows(range(3)))
    spec = counted(lake)
    lake.sink(spec, pa.table({"id": pa.array([7, 8], pa.int64())}))
    assert ndv(lake.table(spec)) == {"id": 5, "band": 1}


def test_that_the_package_is_missing_is_told_before_anything_is_made(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingPackageError, match="datasketches"):
        lake.sink(counted(lake), rows(range(3)))
    with pytest.raises(SpecError):
        lake.table(counted(lake))
    lake.sink(lake.spec(), rows(range(3)))  # nothing else needs it


def test_nothing_is_imported_where_nothing_is_counted(tmp_path: Path) -> None:
    text = f"""
        import sys
        from pathlib import Path
        import pyarrow as pa
        from tests.tables.sinking import Lake
        from tests.tables.compaction.compacting import compact
        from tests.tables.compaction.iceberg import request

        lake = Lake(Path({str(tmp_path)!r}))
        for at in range(4):
            lake.sink(lake.spec(), pa.table({{"id": [at]}}))
        assert compact(request(lake, full=True)).ok
        assert not [name for name in sys.modules if "datasketches" in name]
        lake.sink(lake.spec(statistics={{"ndv": "id"}}), pa.table({{"id": [9]}}))
        assert "datasketches" in sys.modules
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nanobind" not in done.stderr


def test_rows_of_a_task_travel(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, rows(range(9)))
    path = lake.live(spec)[0]
    schema = pq.read_schema(path)
    task = SketchFilesTask(((StoredFile(str(path)), None),), NO_POSITIONS, schema, ("id",), 1)
    made = pickle.loads(pickle.dumps(task))
    assert list(made(0)) == list(task(0))
