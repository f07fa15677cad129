"""What a file costs an ingest, counted in operations: it must not grow with the number of files."""

from __future__ import annotations

import pickle
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.layouts import rejects_root
from hipslake.engine import model
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import SourceFile, Split, open_source
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import write
from hipslake.steps.ingest.request import WriteReport, WriteRequest
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.report import perform
from hipslake.steps.tables import read_table
from hipslake.storage.local import LocalFiles

from tests.steps.in_process import count, freeze, ingest, make_plan, start, write_leaves, write_spec

NUMBERS = (80, 160, 320)
ROWS = 5


def land(folder: Path, files: int) -> pa.Table:
    """Files of a few stars, each all over the sky; all rows, in source order."""
    rng = np.random.default_rng(files)
    rows = files * ROWS
    table = pa.table(
        {
            "id": np.arange(rows),
            "ra": rng.uniform(0, 360, rows),
            "dec": np.degrees(np.arcsin(rng.uniform(-1, 1, rows))),
            "name": [f"star {number}" for number in range(rows)],
        }
    )
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(table.slice(number * ROWS, ROWS), folder / f"{number:06d}.parquet")
    return table


@contextmanager
def counted(counts: Counter[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count calls of Python functions, files opened, and listings."""

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            counts["calls"] += 1

    def noted(owner: Any, name: str, what: str) -> None:
        whole = getattr(owner, name)

        def noting(*given: Any, **named: Any) -> Any:
            counts[what] += 1
            return whole(*given, **named)

        monkeypatch.setattr(owner, name, noting)

    with monkeypatch.context() as patched:
        monkeypatch = patched
        noted(LocalFiles, "arrow_file", "opened")
        noted(LocalFiles, "glob", "listings")
        threading.setprofile(called)
        sys.setprofile(called)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def test_a_file_costs_the_same_among_few_and_among_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals: list[Counter[str]] = []
    for files in (2, *NUMBERS):  # the first run pays for what is imported and cached once
        place = tmp_path / str(files)
        land(place / "landing", files)
        spec = write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", threshold="1000000 rows")
        folder = start(place / "warehouse", spec)
        counts: Counter[str] = Counter()
        with counted(counts, monkeypatch):
            freeze(folder)
            count(folder)
            make_plan(folder)
            write_leaves(folder)
        assert counts["listings"] == 1
        totals.append(counts)
    _, few, more, many = totals
    first, then = (
        {what: (after[what] - before[what]) / (at - earlier) for what in ("calls", "opened")}
        for (earlier, before), (at, after) in pairwise(zip(NUMBERS, (few, more, many), strict=True))
    )
    assert then["opened"] == first["opened"] == 2  # for its header, and to count and keep its rows
    assert then["calls"] <= 1.05 * first["calls"]
    assert first["calls"] < 1500


def test_small_files_share_the_blocks_that_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = 200
    land(tmp_path / "landing", files)
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", threshold="50 rows")
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    count(folder, keep_rows=False)
    make_plan(folder)
    sent: list[int] = []
    whole = model.cut

    def noting(rows: pa.RecordBatch, block_bytes: int) -> Iterator[pa.RecordBatch]:
        sent.append(rows.num_rows)
        return whole(rows, block_bytes)

    monkeypatch.setattr(model, "cut", noting)
    engine = ThisProcess(2)
    asked = WriteRequest(run_uri=folder.uri, target_bytes=4096)
    report = perform(lambda request: write.run(request, engine), asked, WriteReport)
    assert report.tasks > 10
    assert sum(sent) == files * ROWS
    assert len(sent) <= len(SplitTable.read(folder.storage, folder.SPLITS).splits.runs(2)) * report.tasks
    assert len(sent) < files


def test_what_goes_to_a_task_is_a_few_bytes_for_each_file(tmp_path: Path) -> None:
    land(tmp_path / "landing", 100)
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    source = open_source(FrozenRun.of(start(tmp_path / "warehouse", spec)).source)
    splits = source.splits(source.list_files())
    listed = SplitList.of(splits)
    assert list(listed.between(0, 100)) == splits
    assert [listed[at] for at in (0, 57, 99)] == [splits[at] for at in (0, 57, 99)]
    longest = max(
        len(split.file.uri) + len(split.file.stamp) + len(split.file.place or "") for split in splits
    )
    assert len(pickle.dumps((source, listed))) < 100 * (longest + 80) + 4000
    assert pickle.loads(pickle.dumps(source)).splits([]) == []


def test_rows_of_very_many_files_are_theirs(tmp_path: Path) -> None:
    table = land(tmp_path / "landing", 150)
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", threshold="100 rows")
    folder = start(tmp_path / "warehouse", spec)
    ingest(folder)
    paths = read_table(folder.storage, folder.PARTITIONS)["path"].to_pylist()
    files = [f"{FrozenRun.of(folder).catalog_uri}/{path}" for path in paths]
    found = pa.concat_tables([pq.read_table(path, columns=table.column_names) for path in files])
    assert len(files) > 10
    assert found.sort_by("id").equals(table)


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_bad_rows_of_many_files_are_told_by_file_and_row(tmp_path: Path, format_: str) -> None:
    landing, bad = tmp_path / "landing", {(3, 2), (3, 5), (4, 1), (77, 4), (119, 5)}
    landing.mkdir()
    for number in range(120):
        dec = [95.0 if (number, row) in bad else 10.0 for row in range(1, ROWS + 1)]
        rows = pa.table({"id": np.arange(ROWS) + number * ROWS, "ra": np.linspace(0, 350, ROWS), "dec": dec})
        path = landing / f"{number:06d}.{format_}"
        pq.write_table(rows, path) if format_ == "parquet" else csv.write_csv(rows, path)
    more = "bad_rows: {policy: quarantine, max_fraction: 0.5}"
    spec = write_spec(tmp_path / "stars.yaml", f"{landing}/*.{format_}", more=more)
    spec.write_text(spec.read_text().replace("format: parquet", f"format: {format_}"))
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    report = count(folder)
    first = min(bad)
    assert report.examples[0].startswith(f"{landing}/{first[0]:06d}.{format_}, row {first[1]}:")
    assert len(report.examples) == len(bad)
    make_plan(folder)
    assert write_leaves(folder).rows_out == 120 * ROWS - len(bad)
    run = FrozenRun.of(folder)
    kept = pq.ParquetDataset(f"{run.catalog_uri}/{rejects_root(run.write_id)}").read()
    told = zip(kept["_reject_file"].to_pylist(), kept["_reject_row"].to_pylist(), strict=True)
    assert {(int(Path(file).stem), row) for file, row in told} == bad
    assert set(kept["id"].to_pylist()) == {file * ROWS + row - 1 for file, row in bad}


@pytest.mark.parametrize("count", [1, 2, 5, 7, 10])
def test_few_splits_are_a_task_each(count: int) -> None:
    file = SourceFile(ordinal=0, uri="f", size=1 << 30, stamp="")
    splits = SplitList.of(Split(at, file, "content", at, at + 1) for at in range(count))
    assert splits.runs(2) == tuple((at, at + 1) for at in range(count))


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
def test_the_last_tasks_are_small(cores: int) -> None:
    """Each core ends with some: so none waits long for the others."""
    file = SourceFile(ordinal=0, uri="f", size=1 << 30, stamp="")
    splits = SplitList.of(Split(at, file, "content", at, at + 1) for at in range(60 * cores))
    sizes = [last - first for first, last in splits.runs(cores)]
    assert sizes == [12] * 4 * cores + [4] * 3 * cores


def test_tasks_read_as_many_bytes_each() -> None:
    sizes = [1 << 20] * 30_000 + [8 << 30] * 3
    files = [SourceFile(ordinal=at, uri=f"f{at}", size=size, stamp="") for at, size in enumerate(sizes)]
    splits: list[Split] = []
    for file in files:
        for start_at in range(0, file.size, 256 << 20):
            stop = min(start_at + (256 << 20), file.size)
            splits.append(Split(len(splits), file, "bytes", start_at, stop))
    runs = SplitList.of(splits).runs(2)
    assert [first for first, _ in runs] == [0, *(last for _, last in runs[:-1])]
    assert runs[-1][1] == len(splits)
    assert 15 <= len(runs) <= 25
    many = [last - first for first, last in runs[:10]]
    assert max(many) < 3000
    assert max(last - first for first, last in runs[-3:]) <= 24
