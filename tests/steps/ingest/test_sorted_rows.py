"""Rows that the histogram step keeps: what is merged of them is what the source gives, read once more."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.merging import keys_of
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import sorted_rows
from hipslake.steps.ingest.rows_to_merge import RowsToMerge
from hipslake.steps.ingest.sorted_rows import SortedRows
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table

from tests.steps.in_process import (
    freeze,
    make_plan,
    start,
    write_spec,
)
from tests.steps.kept_rows import counted, kept_files, kept_run, land, many_kinds, row_starts, written

GROUPS = """
column_groups:
  - {name: main, columns: [id, ra, dec, name]}
  - {name: phot, columns: [mag, flux, seen], threshold: 90 rows}
  - {name: rest, columns: "*", threshold: 20 KiB}
"""


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
@pytest.mark.parametrize(
    ("threshold", "more"),
    [("100 rows", ""), ("40 KiB", ""), ("100 rows", GROUPS)],
)
@pytest.mark.parametrize(("files", "order"), [(1, "mixed"), (4, "mixed"), (3, "curve"), (2900, "mixed")])
def test_leaves_are_those_of_the_source(
    layout: str, threshold: str, more: str, files: int, order: str, tmp_path: Path
) -> None:
    table = many_kinds(2900, seed=files)
    if order == "curve":  # stretches that the first chunk of a task tells are no good for its others
        table = table.sort_by([("dec", "ascending"), ("ra", "ascending")])
    source = land(tmp_path / "landing", table, min(files, 60))
    spec = write_spec(tmp_path / "stars.yaml", source, threshold=threshold, layout=layout, more=more)
    found = []
    for keep in (True, False):
        folder = start(tmp_path / f"warehouse-{keep}", spec)
        freeze(folder)
        report = counted(folder, keep=keep, split_bytes=4096 if files < 60 else 1 << 20)
        assert report.keeps_rows is keep
        assert bool(kept_files(folder)) is keep
        make_plan(folder)
        found.append(written(folder))
        assert not kept_files(folder)
    assert len(found[0]) > 20
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_tasks_rows_come_in_the_order_of_the_source(seed: int, tmp_path: Path) -> None:
    """The oracle is numpy: one stable sort of all rows."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 1500))
    table = many_kinds(rows, seed)
    source = land(tmp_path / "landing", table, int(rng.integers(1, 9)))
    spec = write_spec(tmp_path / "stars.yaml", source, more=GROUPS)  # groups are joined by `_row`
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    counted(folder, keep=True, cores=int(rng.integers(1, 5)), split_bytes=int(rng.integers(1000, 50_000)))
    make_plan(folder)
    kept = RowsToMerge.claimed(folder.storage, row_starts(folder))
    assert kept is not None
    cuts = [0, *sorted(rng.integers(0, 12 << 58, 5).tolist()), 12 << 58]
    for start_, stop in pairwise(cuts):
        batches = kept.batches("main", start_, stop)
        for batch in batches:
            keys = keys_of(batch)
            assert (keys[:-1] <= keys[1:]).all()
            assert (keys >= start_).all()
            assert (keys < stop).all()
    found = pa.Table.from_batches(kept.batches("main", 0, 12 << 58))
    numbers = found["_row"].to_numpy()
    assert np.array_equal(np.sort(numbers), np.arange(rows))
    assert np.array_equal(found["id"].to_numpy(), numbers)  # which the source numbers likewise
    assert RowsToMerge.claimed(folder.storage, row_starts(folder)) is None  # they are this attempt's
    counted(folder, keep=True)
    written(folder)
    leaves = read_table(folder.storage, RunFolder.PARTITIONS)["path"].to_pylist()
    catalog = Path(folder.uri).parents[2] / "catalogs" / "stars"
    for leaf in leaves:
        read = pq.ParquetFile(catalog / leaf).read()
        place = np.lexsort((read["_row"].to_numpy(), read["_healpix_29"].to_numpy()))
        assert np.array_equal(place, np.arange(len(place)))
        mine = table.take(read["_row"])
        for name in set(table.column_names) & set(read.column_names):
            assert read[name].to_pylist() == mine[name].to_pylist(), name


@pytest.mark.parametrize(
    ("memory", "cores", "keeps"), [(1 << 30, 4, True), (1 << 30, 8, False), (None, 8, True)]
)
def test_chunks_take_a_part_of_the_memory(
    memory: int | None,
    cores: int,
    keeps: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """16 MiB are sorted at once by each task. Where that is too much, the log says so."""
    caplog.set_level("INFO")
    folder = kept_run(tmp_path)
    monkeypatch.setattr(sorted_rows, "available_memory", lambda: memory)
    spec, schema = FrozenRun.of(folder).spec, folder.schema()
    caplog.clear()
    found = SortedRows.of(folder.storage, spec, schema, source_bytes=1, at_once=cores)
    assert (found is not None) is keeps
    assert (
        "to sort them takes 402653184 bytes of memory, of which 268435456 are allowed" in caplog.text
    ) is not keeps


@pytest.mark.parametrize("cores", [2, 8, 64])
@pytest.mark.parametrize("groups", [1, 5, 40, 300])
def test_no_more_files_are_open_than_a_process_may_have(
    cores: int, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept_run(tmp_path)
    spec, schema = FrozenRun.of(folder).spec, folder.schema()
    monkeypatch.setattr(
        sorted_rows, "check_columns", lambda *_: {str(number): schema for number in range(groups)}
    )
    monkeypatch.setattr(sorted_rows.resource, "getrlimit", lambda _: (1024, 1024))
    keeping = SortedRows.of(folder.storage, spec, schema, source_bytes=1, at_once=cores)
    if keeping is None:
        assert groups * cores > 256
    else:
        assert 1 <= keeping.stretches <= 16
        assert keeping.stretches * groups * cores <= 256
