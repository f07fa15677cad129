"""Statistics through compactions, changes of columns, and files that others have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasketches
import pyarrow as pa
import pytest
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.types import LongType, PrimitiveType

from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.counting import counted, lose, restore, rows, untold
from tests.tables.deletes_story import DeletesStory
from tests.tables.puffin_reading import distinct, hashes_of, ndv, statistics_of
from tests.tables.sinking import Lake
from tests.tables.writes_story import WritesStory


class CountedStory(DeletesStory):
    """Whatever is done, statistics are those of the rows, and every sink sets some."""

    def spec(self, **given: Any) -> TableSpec:
        return counted(self.lake, "id", "band", "x", "t", "v", partition=self.partition, **given)

    def check(self) -> None:
        super().check()
        found = ndv(self.table)
        if found is not None:
            assert found == distinct(list(self.rows.values()), "id", "band", "x", "t", "v"), self.told
        else:
            assert self.told[-1] not in ("append", "interval"), self.told


class WrittenStory(CountedStory, WritesStory):
    """The same, while rows of others come before commits, and rows go by files of deletes."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("partition", [[], ["band"]])
@pytest.mark.parametrize("story", [CountedStory, WrittenStory])
def test_statistics_are_never_those_of_other_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, story: type[DeletesStory], partition: list[str], seed: int
) -> None:
    told = story(lake, monkeypatch, seed, partition)
    found = 0
    for _ in range(12):
        told.step()
        found += ndv(told.table) is not None
    assert found >= 3


def test_a_compaction_takes_statistics_over(lake: Lake) -> None:
    spec = counted(lake)
    for at in range(4):
        lake.sink(spec, rows(range(at * 5, at * 5 + 8), "gri"[at % 3]))
    before = lake.table(spec)
    told = statistics_of(before)
    assert compact(request(lake, full=True)).ok
    after = lake.table(spec)
    assert after.metadata.current_snapshot_id != before.metadata.current_snapshot_id
    assert statistics_of(after) == told, "they say from which snapshot they were computed"
    paths = {each.statistics_path for each in after.metadata.statistics}
    assert len(paths) == len(after.metadata.statistics), "each snapshot has a file of its own"
    gone = lose(lake, spec)
    lake.sink(spec, rows(range(1000, 1002), "z"))
    assert ndv(lake.table(spec)) == {"id": 25, "band": 4}
    restore(gone)
    assert distinct(lake.rows(spec), "id", "band") == {"id": 25, "band": 4}


def test_merged_manifests_leave_statistics(lake: Lake) -> None:
    spec = counted(lake)
    for at in range(12):
        lake.sink(spec, rows([at], str(at % 3)))
    before = lake.table(spec)
    assert compact(request(lake, manifests=True, min_files=1000, delete_file_threshold=None)).ok
    after = lake.table(spec)
    assert lake.live(spec) == sorted(Path(file.file_path) for file in live_files(before))
    assert after.metadata.current_snapshot_id != before.metadata.current_snapshot_id
    assert statistics_of(after) == statistics_of(before)


def test_a_compaction_gives_no_statistics_to_a_table_without(lake: Lake) -> None:
    for at in range(4):
        lake.sink(lake.spec(), rows(range(at * 5, at * 5 + 8)))
    assert compact(request(lake, full=True)).ok
    assert lake.table(lake.spec()).metadata.statistics == []


# -- columns -------------------------------------------------------------------------------------------------


def test_columns_are_known_by_their_ids(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    gone = lose(lake, spec)
    renamed = counted(lake, "id", "filter", rename={"band": "filter"})
    lake.sink(renamed, rows(range(5, 15), "r").rename_columns(["id", "filter"]))
    assert ndv(lake.table(spec)) == {"id": 15, "filter": 2}
    restore(gone)
    assert distinct(lake.rows(spec), "id", "filter") == {"id": 15, "filter": 2}


def test_a_column_that_comes_back_is_another_one(lake: Lake) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10), "old"))
    with lake.table(spec).update_schema() as update:
        update.delete_column("band")
    lake.sink(spec, rows(range(10, 20), "new"))
    assert ndv(lake.table(spec)) == {"id": 20, "band": 1} == distinct(lake.rows(spec), "id", "band")


@pytest.mark.parametrize("written_by_others", [False, True])
def test_values_are_hashed_anew_where_a_type_was_widened(lake: Lake, written_by_others: bool) -> None:
    """A short number and a long one have other bytes: their sketches cannot be united."""
    schema = pa.schema([("n", pa.int32()), ("x", pa.float32())])
    spec = counted(lake, "n", "x")
    lake.sink(spec, pa.table({"n": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, schema))
    if written_by_others:
        untold(lake.table(spec))
    wide = pa.schema([("n", pa.int64()), ("x", pa.float64())])
    evolving = counted(lake, "n", "x", evolve="all")
    lake.sink(evolving, pa.table({"n": [3, 4], "x": [3.0, 4.0]}, wide))
    found = statistics_of(lake.table(spec))
    assert found is not None
    assert {name: blob.ndv for name, blob in found.items()} == {"n": 4, "x": 4}
    for name, blob in found.items():
        kind = lake.table(spec).schema().find_field(name).field_type
        assert str(kind) in ("long", "double")
        assert isinstance(kind, PrimitiveType)
        assert blob.hashes == hashes_of(kind, [1, 2, 3, 4] if name == "n" else [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("written_by_others", [False, True])
def test_a_compaction_drops_statistics_of_another_type(lake: Lake, written_by_others: bool) -> None:
    schema = pa.schema([("n", pa.int32()), ("id", pa.int64())])
    spec = counted(lake, "n", "id")
    for at in range(4):
        lake.sink(spec, pa.table({"n": [at, at + 1], "id": [at, at]}, schema))
    if written_by_others:
        untold(lake.table(spec))
    with lake.table(spec).update_schema() as update:
        update.update_column("n", LongType())
    assert compact(request(lake, full=True)).ok
    assert ndv(lake.table(spec)) == {"id": 4}


# -- files of others -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_statistics_of_others_are_gone_on_with(lake: Lake, codec: str | None) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    untold(lake.table(spec), codec=codec)
    gone = lose(lake, spec)
    lake.sink(spec, rows(range(5, 15), "r"))
    assert ndv(lake.table(spec)) == {"id": 15, "band": 2}
    restore(gone)
    assert compact(request(lake, full=True)).ok
    assert ndv(lake.table(spec)) == {"id": 15, "band": 2}


def other_seed() -> bytes:
    made = datasketches.update_theta_sketch(seed=7)
    made.update(1)
    stored: bytes = made.compact().serialize()
    return stored


@pytest.mark.parametrize("damage", ["gone", "no puffin", "no sketch", "other seed", "cut", "codec"])
def test_statistics_that_cannot_be_read_are_counted_again(lake: Lake, damage: str) -> None:
    spec = counted(lake)
    lake.sink(spec, rows(range(10)))
    table = lake.table(spec)
    path = Path(table.metadata.statistics[0].statistics_path)
    if damage == "gone":
        path.unlink()
    elif damage == "no puffin":
        path.write_bytes(b"PFA1" * 100)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    elif damage == "codec":
        untold(table, codec="gzip")
    else:
        untold(table, change=b"nothing" if damage == "no sketch" else other_seed())
    lake.sink(spec, rows(range(5, 15), "r"))
    assert ndv(lake.table(spec)) == {"id": 15, "band": 2}
