"""What statistics of tables cost: `python -m benchmarks.table_statistics`.

The same rows are sunk with and without counting distinct values, in turns, each time into a table of its own
and in the same process; seconds of the processor are told beside those of the clock, as others may use the
machine. Then a few rows are added to a table with statistics, and to one without, whose
files are read for them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import open_source
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.sink_order import FileRows, SinkOrder, SinkOutcome

from benchmarks.machine import described_in_a_line

COUNTED = ("id", "object_id", "name", "flux")
"""All values differ in the first; the others repeat, texts and real numbers."""
FEW = 100  # of so many rows, one is added


def rows(count: int, first: int = 0) -> pa.Table:
    """Detections: an id, an object of ten detections each, its name, four measurements."""
    random = np.random.default_rng(first)
    objects = random.integers(0, max(count // 10, 1), count)
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "object_id": objects,
            "name": pa.array(np.char.add("object ", objects.astype(str))),
            "flux": np.round(random.normal(1000, 100, count), 1),
            **{f"m{at}": random.normal(20, 2, count) for at in range(3)},
        }
    )


class Bench:
    """A warehouse in a folder."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._tables = self._files = 0

    def land(self, table: pa.Table) -> SourceSpec:
        """Store rows."""
        self._files += 1
        path = self._place / "landing" / f"{self._files}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        return SourceSpec.model_validate({"uri": str(path), "format": "parquet"})

    def spec(self, **given: Any) -> TableSpec:
        """The spec of a new table."""
        self._tables += 1
        usual = {
            "name": "sample",
            "table": f"bench.t{self._tables}",
            "source": {"files": {"uri": "/nowhere/*.parquet", "format": "parquet"}},
            "iceberg": {"uri": f"sqlite:///{self._place}/state/iceberg.db"},
        }
        return TableSpec.model_validate(usual | given)

    def sink(self, spec: TableSpec, source: SourceSpec) -> tuple[SinkOutcome, float, float]:
        """Sink rows; also the seconds that it took, of the clock and of the processor."""
        given = FileRows(source=source, files=tuple(open_source(source).list_files()))
        order = SinkOrder(
            spec=spec,
            warehouse=str(self._place / "warehouse"),
            rows=given,
            write_id="20261122T0000-0123456789ab",
        )
        start, worked = time.perf_counter(), time.process_time()
        outcome = sink(order, ThisProcess(2))
        return outcome, time.perf_counter() - start, time.process_time() - worked


def main() -> None:
    """Measure, and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=4_000_000)
    asked.add_argument("--times", type=int, default=5)
    told = asked.parse_args()
    print(described_in_a_line())
    with tempfile.TemporaryDirectory(prefix="hipslake-bench-") as folder:
        measure(Bench(Path(folder)), told.rows, told.times)


def measure(bench: Bench, count: int, times: int) -> None:
    """Sink so many rows, so many times, and print what it took."""
    source = bench.land(rows(count))
    few = bench.land(rows(count // FEW, count))
    kinds: dict[str, dict[str, Any]] = {
        "without": {},
        "id": {"statistics": {"ndv": COUNTED[:1]}},
        f"{len(COUNTED)} columns": {"statistics": {"ndv": COUNTED}},
    }
    bench.sink(bench.spec(**kinds["id"]), few)  # imports are none of it
    clock: dict[str, list[float]] = {name: [] for name in kinds}
    worked: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(times):
        for name, given in kinds.items():
            _, seconds, busy = bench.sink(bench.spec(**given), source)
            clock[name].append(seconds)
            worked[name].append(busy)
    print(f"{count:,} rows of 7 columns, medians of {times} sinks in turns:")
    for name in kinds:
        more = (median(worked[name]) - median(worked["without"])) / count * 1e9
        print(
            f"  {name}: {median(clock[name]):.2f} s ({min(clock[name]):.2f} to {max(clock[name]):.2f}), "
            f"processor {median(worked[name]):.2f} s ({min(worked[name]):.2f} to {max(worked[name]):.2f}), "
            f"{more:+.0f} ns per row"
        )
    spec = bench.spec(statistics={"ndv": COUNTED})
    bench.sink(spec, source)
    outcome, seconds, _ = bench.sink(spec, few)
    told(f"{count // FEW:,} rows more", outcome, seconds)
    spec = bench.spec()
    bench.sink(spec, source)
    counted = spec.model_validate(spec.model_dump() | {"statistics": {"ndv": COUNTED}})
    outcome, seconds, _ = bench.sink(counted, few)
    told(f"{count // FEW:,} rows more, of a table without statistics", outcome, seconds)


def told(what: str, outcome: SinkOutcome, seconds: float) -> None:
    """Print what a sink took."""
    read = outcome.seconds["statistics"]
    print(f"  {what}: {seconds:.2f} s, of them {read:.2f} s for statistics of the rows that stay")


if __name__ == "__main__":
    main()
