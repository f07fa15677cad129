"""The cube benchmark judges answers by their rows alone, and every bar of it can be missed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.cube_bars import faster_from, verdicts
from benchmarks.cube_oracle import expected, found
from benchmarks.cube_page import draw, markdown
from benchmarks.cube_rows import rows_of, write_rows
from benchmarks.cube_runs import DASK, EAGER, HERE, OURS, Bench, Limits
from benchmarks.cube_task import BUILD, DATASETS, EPOCHS, FRAME, FULL, QUERIES, SELECTIVE
from benchmarks.runs import DONE
from tests.benchmarks import records
from tests.benchmarks.records import ended, failures, record

CELLS = 2000
M = 1_000_000


def joined() -> Any:
    """All that is known of every cell, by pandas."""
    frames = [
        rows_of(name, CELLS, 0, CELLS // EPOCHS if name == "objects" else CELLS).to_pandas()
        for name in DATASETS
    ]
    whole = frames[0]
    for other in frames[1:]:
        whole = whole.merge(other)
    return whole.sample(frac=1, random_state=1)


ANSWERS = {
    FULL: lambda whole: whole,
    "restricted": lambda whole: whole[whole.good],
    "groups": lambda whole: whole[["pixel", "source_id", "epoch", "flux", "parallax", "kind"]],
    "projection": lambda whole: whole[["pixel", "source_id", "parallax"]].drop_duplicates(),
    SELECTIVE: lambda whole: whole[whole.night == QUERIES[SELECTIVE]["conditions"]["night"]],
}


@pytest.mark.parametrize("task", list(ANSWERS))
def test_the_oracle_expects_what_pandas_joins(tmp_path: Path, task: str) -> None:
    rows = pa.Table.from_pandas(ANSWERS[task](joined()), preserve_index=False)
    half = rows.num_rows // 2
    for at, part in enumerate((rows.slice(half), rows.slice(0, half))):
        pq.write_table(part, tmp_path / f"{at}.parquet")
    assert found(tmp_path) == expected(task, CELLS)
    assert expected(task, CELLS).rows == rows.num_rows


def test_a_row_that_is_joined_to_the_wrong_one_is_seen(tmp_path: Path) -> None:
    rows = pa.Table.from_pandas(joined(), preserve_index=False)
    shifted = pa.concat_tables([rows.slice(1), rows.slice(0, 1)])["flux"].combine_chunks()
    wrong = rows.set_column(rows.column_names.index("flux"), "flux", shifted)
    pq.write_table(wrong, tmp_path / "answer.parquet")
    assert found(tmp_path) != expected(FULL, CELLS)


def test_every_file_of_the_source_touches_many_partitions(tmp_path: Path) -> None:
    source = write_rows(tmp_path, CELLS)
    pixels = pq.read_table(source / "detections" / "0000.parquet")["pixel"].to_numpy()
    assert len(set(pixels[:400].tolist())) == 48


@pytest.mark.slow
def test_ours_build_and_answer_and_are_right(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sys.executable, Limits())
    for task in (BUILD, FULL, "groups"):
        run = bench.run(task, HERE, CELLS)
        assert run["outcome"] == DONE, run
        assert run.get("right", True), run
        assert run["files"] > 0
    assert "no cube" in bench.run(FULL, EAGER, CELLS)["told"]


def done(task: str, system: str, rows: int, seconds: float, **more: Any) -> dict[str, Any]:
    """A run that went well; starting Spark took five seconds besides, and the others one."""
    more = {"whole_seconds": seconds + (5 if system == OURS else 1), "files": 48} | more
    return records.done(task, system, rows, seconds, **more)


RUNS = [
    *(done(task, OURS, 2 * M, 1) for task in (BUILD, FULL, FRAME)),
    *(done(task, EAGER, 2 * M, 2) for task in (BUILD, FULL, FRAME, SELECTIVE)),
    done(SELECTIVE, HERE, 2 * M, 0.1),
    done(BUILD, OURS, 20 * M, 10),
    ended(BUILD, EAGER, 20 * M),
    done(BUILD, DASK, 20 * M, 20),
]


def test_a_sound_benchmark_clears_all_bars_though_the_peer_fails() -> None:
    assert failures(verdicts, RUNS) == []
    assert faster_from(RUNS, BUILD, OURS, "seconds") == 2 * M
    assert faster_from(RUNS, BUILD, OURS, "whole_seconds") == 20 * M


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (ended(FULL, OURS, 20 * M), "ours finishes under the ceiling"),
        (done(BUILD, OURS, 50 * M, 9, peak_bytes=5 * 2**30), "ours finishes under the ceiling"),
        (done(FULL, DASK, 2 * M, 2, right=False), "every answer holds the rows"),
        (done(FULL, DASK, 2 * M, 0.4), "full of 2M, started"),
        (done(SELECTIVE, DASK, 2 * M, 0.01), "selective of 2M, started"),
        (done(BUILD, EAGER, 20 * M, 8), "build of 20M, whole process"),
    ],
)
def test_every_bar_can_be_missed(run: dict[str, Any], what: str) -> None:
    assert any(what in failure for failure in failures(verdicts, [*RUNS, run]))


def test_the_page_tells_runs_that_failed_and_the_sweep_is_drawn(tmp_path: Path) -> None:
    result = record(verdicts, RUNS, limits=Limits()._asdict())
    page = markdown(result)
    assert "| 20M | kartothek, eager; **over the ceiling of 4 GiB: held 4.10 GiB after 9 s** |" in page
    assert "| 20M | kartothek, dask | 21.0 | 20.00 | 20.0 | 1.00 | 48 | 100.0 |" in page
    assert "| build | 2M | 20M | never | never |" in page
    assert "| 1.40 | > 1 | pass |" in page
    draw(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
