"""What is read for the sample of a rewrite: a part of files whose row groups are alike, and all of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.clustering.planning import RewriteGroup, TableFile
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import StorageError
from hipslake.steps.compact_table.file_parts import parts_of
from hipslake.steps.compact_table.rewrite_samples import SampleRowsTask
from hipslake.steps.tables import from_ipc
from hipslake.tables.alike_row_groups import alike_in_file, alike_row_groups
from hipslake.tables.compaction_protocol import WHOLE, Share
from hipslake.tables.parquet_folder.folder_access import FolderAccess
from hipslake.tables.stored_files import StoredFile

from tests.tables.compaction.compacting import compact, files_in, request, rows_in, stars, write_folder

ROWS, GROUP_ROWS = 8000, 1000


def columns(kind: str) -> dict[str, Any]:
    random = np.random.default_rng(3)
    values = random.uniform(-5, 5, ROWS)
    return {
        "random": {"x": values},
        "sorted": {"x": np.sort(values)},
        "one is sorted": {"x": values, "y": np.arange(ROWS)},
        "one value": {"x": np.full(ROWS, 7)},
        "some nulls": {"x": pa.array(values, mask=random.uniform(size=ROWS) < 0.3)},
        "a row group of nulls": {"x": pa.array(values, mask=np.arange(ROWS) < GROUP_ROWS)},
        "nulls alone": {"x": pa.nulls(ROWS, pa.int64())},
        "texts": {"x": [f"{number:.2f}" for number in values]},
        "nested": {"x": [{"a": 1} for _ in range(ROWS)]},
        "booleans": {"x": values > 0},
        "times": {"x": pa.array((values * 1e6).astype("M8[us]"))},
        "narrow in one group": {"x": np.where(np.arange(ROWS) < GROUP_ROWS, values / 2, values)},
        "not a number": {"x": np.where(random.uniform(size=ROWS) < 0.1, np.nan, values)},
        "infinite": {"x": np.where(random.uniform(size=ROWS) < 0.1, np.inf, values)},
    }[kind]


@pytest.mark.parametrize(
    ("kind", "alike"),
    [
        ("random", True),
        ("sorted", False),
        ("one is sorted", False),
        ("one value", True),
        ("some nulls", True),
        ("a row group of nulls", False),
        ("nulls alone", False),
        ("texts", False),
        ("nested", False),
        ("booleans", False),
        ("times", True),
        ("narrow in one group", False),
        ("not a number", True),
        ("infinite", False),
    ],
)
def test_row_groups_are_alike_where_their_bounds_are(tmp_path: Path, kind: str, alike: bool) -> None:
    table = pa.table(columns(kind) | {"other": np.arange(ROWS)})
    pq.write_table(table, tmp_path / "file.parquet", row_group_size=GROUP_ROWS)
    metadata = pq.read_metadata(tmp_path / "file.parquet")
    names = [name for name in table.column_names if name != "other"]
    assert alike_row_groups(metadata, names) == ((GROUP_ROWS,) * 8 if alike else ())


@pytest.mark.parametrize("name", ["a.b", "a"])
def test_a_column_with_a_dot_in_its_name_is_looked_at(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.parquet"
    for values, alike in ((np.arange(ROWS), False), (np.random.default_rng(1).permutation(ROWS), True)):
        pq.write_table(pa.table({"a.b": values}), path, row_group_size=GROUP_ROWS)
        found = alike_row_groups(pq.read_metadata(path), [name])
        assert bool(found) == (alike and name == "a.b")  # of a column that is not there nothing is known


def test_columns_are_found_by_their_ids(tmp_path: Path) -> None:
    def field(name: str, number: int) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})

    path = str(tmp_path / "file.parquet")
    stored = pa.schema([field("a", 1), field("b", 2)])
    mixed = np.random.default_rng(1).permutation(ROWS)
    table = pa.Table.from_arrays([pa.array(mixed), pa.array(np.arange(ROWS))], schema=stored)
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    now = pa.schema([field("b", 1), field("a", 2), field("new", 3)])
    assert alike_in_file(StoredFile(path), now, ["b", "new"])
    assert not alike_in_file(StoredFile(path), now, ["a"])
    with pytest.raises(StorageError, match="try again"):
        alike_in_file(StoredFile(f"{path}.gone"), now, ["a"])


class Watched(FolderAccess):
    """Notes what is read."""

    read_groups: list[tuple[str, int]]

    def read(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        groups = share.of(pq.read_metadata(path).num_row_groups)
        self.read_groups.extend((Path(path).name, group) for group in groups)
        return super().read(path, columns, share)


def sampled(folder: Path, share: float, schema: pa.Schema, seed: int = 0) -> tuple[list[pa.Table], Watched]:
    """The sample of each file, and what was read for it."""
    files = tuple(
        TableFile(str(path), path.stat().st_size, pq.read_metadata(path).num_rows, "", None)
        for path in sorted(folder.iterdir())
    )
    access = Watched(str(folder), str(folder), schema)
    object.__setattr__(access, "read_groups", [])
    parts = parts_of([RewriteGroup("", files, 4)], 1)
    counter = ThisProcess(1).counter()
    task = SampleRowsTask(access, parts, (share,), tuple(schema.names), seed, counter)
    found: dict[int, pa.Table] = {}
    for number in range(len(parts)):
        for batch in task(number):
            told = zip(batch["part"].to_pylist(), batch["rows"].to_pylist(), strict=True)
            found |= {part: from_ipc(rows) for part, rows in told}
    assert counter.value == sum(
        pq.read_metadata(folder / name).row_group(group).num_rows for name, group in access.read_groups
    )
    return [found[part] for part in sorted(found)], access


def mixed_and_sorted(folder: Path, files: int = 6) -> pa.Schema:
    """Files of which every second one is sorted; their numbers say which file they are of."""
    folder.mkdir()
    random = np.random.default_rng(2)
    for at in range(files):
        values = random.uniform(at, at + 1, ROWS)
        table = pa.table({"x": np.sort(values) if at % 2 else values})
        pq.write_table(table, folder / f"{at}.parquet", row_group_size=GROUP_ROWS)
    return table.schema


@pytest.mark.parametrize("seed", range(4))
def test_of_alike_row_groups_a_quarter_is_read_and_stands_for_all(tmp_path: Path, seed: int) -> None:
    schema = mixed_and_sorted(tmp_path / "files")
    samples, access = sampled(tmp_path / "files", 0.1, schema, seed)
    groups = {
        name: [group for other, group in access.read_groups if other == name]
        for name, _ in access.read_groups
    }
    assert [len(groups[f"{at}.parquet"]) for at in range(6)] == [2, 8] * 3
    for at, sample in enumerate(samples):  # as many rows of each, whatever was read
        values = sample["x"].to_numpy()
        assert at <= values.min()
        assert values.max() <= at + 1
        assert abs(len(values) - 0.1 * ROWS) < 5 * np.sqrt(0.1 * ROWS)
        assert abs(np.median(values) - at - 0.5) < 0.1
    again, _ = sampled(tmp_path / "files", 0.1, schema, seed)
    assert [each.equals(other) for each, other in zip(samples, again, strict=True)] == [True] * 6


def test_everything_is_read_where_a_quarter_has_too_few_rows(tmp_path: Path) -> None:
    schema = mixed_and_sorted(tmp_path / "files")
    _, access = sampled(tmp_path / "files", 0.3, schema)
    assert len(access.read_groups) == 6 * 8


def test_other_row_groups_are_read_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    table = pa.table({"x": np.random.default_rng(1).uniform(size=ROWS)})
    for at in range(40):
        pq.write_table(table, tmp_path / "files" / f"{at:02d}.parquet", row_group_size=GROUP_ROWS)
    _, access = sampled(tmp_path / "files", 0.01, table.schema)
    first = [group for _, group in access.read_groups if group < 4]
    assert len(first) == 40
    assert set(first) == {0, 1, 2, 3}


@pytest.mark.parametrize("mode", ["hilbert", "zorder"])
def test_files_are_as_even_as_by_a_sample_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    rows = stars(60_000)
    folder = tmp_path / "old"
    write_folder(folder, rows.slice(0, 30_000), files=3)
    write_folder(folder, rows.slice(30_000).sort_by("ra"), files=3)
    for path in files_in(folder):
        pq.write_table(pq.read_table(path, partitioning=None), path, row_group_size=500)
    monkeypatch.setattr("hipslake.clustering.file_placement._MOST_SAMPLED", 6000)
    even = []
    for name, one_in in (("new", 4), ("all", 1000)):
        monkeypatch.setattr("hipslake.steps.compact_table.rewrite_samples._ONE_GROUP_IN", one_in)
        asked = request(
            tmp_path,
            folder={"uri": str(folder), "output": str(tmp_path / name)},
            mode=mode,
            columns=["ra", "dec"],
            target_file_size="100 KiB",
        )
        compact(asked)
        assert rows_in(tmp_path / name).equals(rows_in(folder))
        sizes = [pq.read_metadata(path).num_rows for path in files_in(tmp_path / name)]
        even.append(max(sizes) / np.mean(sizes))
    assert len(sizes) > 8
    assert even[0] < 1.25
    assert even[0] < even[1] + 0.15
