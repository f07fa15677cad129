"""The Delta benchmark lets both systems start from one table, and judges what delta-rs finds in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.delta_page import BOX, draw, markdown, verdicts
from benchmarks.delta_runs import MERGE, PEER, SYSTEMS, DeltaBench
from benchmarks.delta_table import row_sums
from benchmarks.runs import DONE, LATE
from benchmarks.table_oracle import KINDS
from benchmarks.table_rows import upsert_rows, upserted
from benchmarks.table_runs import CLUSTER, HERE, HILBERT, OURS, Limits
from tests.benchmarks.records import done, ended, record

SECONDS = 1200.0
ALL = 80_000_000
RUNS = [
    *(done(CLUSTER, system, ALL, 50, **dict.fromkeys(KINDS, 8.0)) for system in (OURS, HILBERT)),
    done(CLUSTER, PEER, ALL, 214, **dict.fromkeys(KINDS, 30.0)),
    done(MERGE, OURS, ALL, 60),
    done(MERGE, PEER, ALL, 300),
]


def failures(runs: list[dict[str, Any]]) -> list[str]:
    return [verdict.what for verdict in verdicts(runs, SECONDS) if not verdict.passed]


def test_sums_bind_the_values_of_a_row_together() -> None:
    table, batch = upsert_rows(1000, 100)
    rows = upserted(table, batch)
    whole = row_sums(rows.to_batches())
    assert whole[0] == 1050
    assert row_sums(upserted(table, batch, in_order=False).to_batches(max_chunksize=7)) == whole
    exchanged = rows.set_column(1, "g_mag", pa.concat_tables([rows.slice(1), rows.slice(0, 1)])["g_mag"])
    assert row_sums(exchanged.to_batches()) != whole
    assert row_sums(pa.concat_tables([rows.slice(1), rows.slice(5, 1)]).to_batches()) != whole


@pytest.mark.slow
def test_both_systems_leave_the_rows_that_they_should(tmp_path: Path, peers_python: str) -> None:
    bench = DeltaBench(tmp_path, peers_python, Limits(files=4))
    for task, systems in SYSTEMS.items():
        for system in systems:
            run = bench.run(task, system, 3000)
            assert run["outcome"] == DONE, run
            assert run["right"], run
            assert (BOX in run) == (task == CLUSTER)
    assert not (tmp_path / "delta_output").exists()


def test_a_sound_benchmark_clears_all_bars() -> None:
    assert failures(RUNS) == []
    late = ended(MERGE, PEER, ALL) | {"outcome": LATE, "told": "took more than 1200 s"}
    told = [verdict.what for verdict in verdicts([*RUNS[:-1], late], SECONDS) if verdict.passed]
    assert "merge 80M: at least, delta-rs over hipslake, whole process" in told


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (ended(CLUSTER, HILBERT, 5_000_000), "cluster: ours finishes under the ceiling, at 5M, 80M"),
        (done(MERGE, HERE, 2_000_000, 20, right=False), "every outcome holds the rows"),
        (done(CLUSTER, PEER, ALL, 1, **dict.fromkeys(KINDS, 30.0)), "cluster 80M: delta-rs over hipslake,"),
        (done(MERGE, OURS, ALL, 500), "merge 80M: delta-rs over hipslake, whole process"),
        (done(CLUSTER, OURS, ALL, 50, **dict.fromkeys(KINDS, 40.0)), "files that a box touches, hipslake"),
    ],
)
def test_every_bar_can_be_missed(run: dict[str, Any], what: str) -> None:
    assert any(what in failure for failure in failures([*RUNS, run]))


def test_the_page_tells_runs_that_failed_and_the_sweep_is_drawn(tmp_path: Path) -> None:
    result = record(
        lambda runs: verdicts(runs, SECONDS),
        [*RUNS, ended(MERGE, PEER, 20_000_000)],
        limits=Limits()._asdict(),
    )
    page = markdown(result)
    assert "| 20M | delta-rs `merge`; **over the ceiling of 4 GiB: held 4.10 GiB after 9 s** |" in page
    assert "| 80M | hipslake, Hilbert | 55.0 | 50.0 | 50 | 1.00 | 0.10 | 144 | 0.7 | 8.0 |" in page
    assert "| 0.27 | <= 0.5 | pass |" in page
    draw(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
