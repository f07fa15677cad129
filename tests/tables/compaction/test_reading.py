"""How files are divided among tasks: each row group once, large files cut, small ones together."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.clustering.planning import RewriteGroup, TableFile
from hipslake.steps.compact_table.file_parts import gathered, parts_of, read_rows
from hipslake.tables.compaction_protocol import Share
from hipslake.tables.parquet_folder.folder_access import FolderAccess
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20


def group(*sizes: int) -> RewriteGroup:
    files = tuple(TableFile(f"/{at}.parquet", 100, size, "", None) for at, size in enumerate(sizes))
    return RewriteGroup("", files, 1)


@given(st.integers(0, 50), st.integers(1, 20))
def test_shares_of_a_file_have_each_row_group_once(row_groups: int, total: int) -> None:
    found = [group for number in range(total) for group in Share(number, total).of(row_groups)]
    assert found == list(range(row_groups))


def test_a_large_file_is_read_by_several_tasks_and_small_ones_by_few() -> None:
    large = parts_of([group(1024 * MIB)], cores=2)
    assert len(large) == 16
    assert [part.share.number for task in large for part in task] == list(range(32))
    small = parts_of([group(*[10_000] * 5000), group(*[10_000] * 5000)], cores=2)
    assert len(small) <= 12
    assert [part.number for task in small for part in task] == list(range(10_000))


def test_the_number_of_cores_does_not_change_what_parts_there_are() -> None:
    groups = [group(70 * MIB, 5 * MIB), group(200 * MIB)]
    some, others = ([part for task in parts_of(groups, cores) for part in task] for cores in (1, 16))
    assert some == others


@pytest.mark.parametrize("row_group_rows", [7, 1000])
def test_rows_of_parts_are_those_of_the_file_and_know_their_place(
    tmp_path: Path, row_group_rows: int
) -> None:
    rows = pa.table({"x": range(100)})
    path = tmp_path / "file.parquet"
    pq.write_table(rows, path, row_group_size=row_group_rows)
    files = (TableFile(str(path), 100, 100 * MIB, "", None),)
    parts = parts_of([RewriteGroup("", files, 1)], cores=2)
    access = FolderAccess(str(tmp_path), str(tmp_path / "new"), rows.schema)
    found = [each for task in parts for each in read_rows(access, task, ["x"])]
    assert pa.Table.from_batches([each.rows for each in found]).equals(rows)
    places = {(each.part.number, each.first + at) for each in found for at in range(each.rows.num_rows)}
    assert len(places) == 100
    together = [
        each for task in parts for held in gathered(iter(read_rows(access, task, ["x"]))) for each in held
    ]
    assert [each.part.number for each in together] == [each.part.number for each in found]
