"""Measured programs of the store benchmark: each runs in a process of its own, and says when it did what.

python -m benchmarks.store_runs open --catalog s3://lake/sky --ra 180 --dec 65
python -m benchmarks.store_runs night --warehouse s3://lake/living --landing s3://lake/landing --night 1
python -m benchmarks.store_runs bytes --folder s3://lake/bytes --megabytes 512
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
NIGHTLY = {
    "name": "stars",
    "mode": "append",
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "100000 rows",
}
OBJECT_BYTES = 32 << 20  # of an object whose bytes are weighed: a leaf file of common size


class Spans:
    """Stretches of a program: seconds of the monotonic clock, which a proxy has too, and of the processor."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self._open: dict[str, tuple[float, float]] = {}

    def begin(self, name: str) -> None:
        """Begin a stretch."""
        self._open[name] = time.monotonic(), time.process_time()

    def end(self, name: str, **more: Any) -> None:
        """End it, with what else is to be told of it."""
        began, cpu = self._open.pop(name)
        now = time.monotonic()
        span = {"name": name, "began": began, "ended": now, "cpu": time.process_time() - cpu}
        self.kept.append(span | more)

    def told(self, step: str, report: Any) -> None:
        """A step begins, or has ended."""
        if report is None:
            self.begin(step)
        else:
            self.end(step)

    @contextmanager
    def over(self, name: str) -> Iterator[dict[str, Any]]:
        """A stretch that is the block; what the block puts into the dictionary is told of it."""
        more: dict[str, Any] = {}
        self.begin(name)
        yield more
        self.end(name, **more)


def source_of_night(landing: str) -> dict[str, str]:
    """The source of the nights' catalog: a folder for each night."""
    return {"uri": f"{landing}/night={{{{ night }}}}/*.parquet", "format": "parquet"}


def folder_of_night(landing: str, night: int) -> str:
    """Where the files of a night lie."""
    return f"{landing}/night={FIRST + timedelta(days=night):%Y-%m-%d}"


def opened(spans: Spans, catalog: str, ra: float, dec: float, radius: float) -> None:
    """Open a catalog and read a cone."""
    from hipslake import Catalog
    from hipslake.sphere.regions import Cone

    with spans.over("open") as more:
        found = Catalog.open(catalog)
        more["leaves"] = found.metadata.groups[0].leaves
    with spans.over("cone") as more:
        more["rows"] = found.read(region=Cone(ra, dec, radius_deg=radius)).num_rows


def night(spans: Spans, warehouse: str, landing: str, number: int) -> None:
    """Publish a night, or the first version of its catalog, without Spark."""
    from hipslake.api.ingesting import ingested

    ingested(
        None,
        spec=NIGHTLY | {"source": source_of_night(landing)},
        warehouse=warehouse,
        interval=FIRST + timedelta(days=number),
        spark=False,
        told=spans.told,
    )


def moved(spans: Spans, folder: str, megabytes: int) -> None:
    """Write objects and read them again: as a whole, and as Parquet's readers do."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from hipslake.storage.folder import Storage

    storage = Storage.at(folder)
    numbers = range(max(1, (megabytes << 20) // OBJECT_BYTES))
    values = np.random.default_rng(1).integers(0, 1 << 62, OBJECT_BYTES // 8)
    sink = pa.BufferOutputStream()
    options = {"compression": "none", "use_dictionary": False, "row_group_size": len(values) // 4}
    pq.write_table(pa.table({"values": values}), sink, **options)
    data = sink.getvalue()
    storage.exists("nothing")  # the client is made, and connected
    total = len(numbers) * data.size
    with spans.over("write") as more:
        for number in numbers:
            storage.write(f"{number}.parquet", data)
        more["bytes"] = total
    with spans.over("read") as more:
        for number in numbers:
            if len(storage.read(f"{number}.parquet")) != data.size:
                raise SystemExit(f"object {number} has another length")
        more["bytes"] = total
    with spans.over("read as Parquet") as more:
        for number in numbers:
            with storage.arrow_file(f"{number}.parquet", data.size) as file:
                if pq.ParquetFile(file).read(use_threads=False).num_rows != len(values):
                    raise SystemExit(f"object {number} has other rows")
        more["bytes"] = total
    for number in numbers:
        storage.delete(f"{number}.parquet")


def main(argv: list[str] | None = None) -> None:
    """Run one program; the stretches go to standard output as a line of JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    programs = parser.add_subparsers(dest="program", required=True)
    one = programs.add_parser("open")
    one.add_argument("--catalog", required=True)
    for name in ("--ra", "--dec"):
        one.add_argument(name, type=float, required=True)
    one.add_argument("--radius", type=float, default=1.0, help="degrees")
    one = programs.add_parser("night")
    one.add_argument("--warehouse", required=True)
    one.add_argument("--landing", required=True)
    one.add_argument("--night", type=int, required=True)
    one = programs.add_parser("bytes")
    one.add_argument("--folder", required=True)
    one.add_argument("--megabytes", type=int, default=512)
    given = parser.parse_args(argv)
    spans = Spans()
    if given.program == "open":
        opened(spans, given.catalog, given.ra, given.dec, given.radius)
    elif given.program == "night":
        night(spans, given.warehouse, given.landing, given.night)
    else:
        moved(spans, given.folder, given.megabytes)
    print(json.dumps({"spans": spans.kept, "pid": os.getpid()}))


if __name__ == "__main__":
    main()
