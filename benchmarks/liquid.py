"""What it costs to keep a table clustered over nights, and what it is worth: `make bench-liquid`.

A table is clustered by position, time and magnitude, and fed by 50 nights of 1% of its rows; behind each
sink, files are rewritten as the DAG does it. Every tenth night all its files are clustered anew, into files
of the same target size in a folder beside it, and the same seeded queries are asked of both: ranges of a
tenth of the rows in one column, and in all of them. Files count by the bounds in their own footers. Ends
with exit code 1 if a bar is missed: at most 5 bytes rewritten for each that came in, and at most 1.15 times
the files of the full clustering.

    python -m benchmarks.liquid                       2M rows, nights all over the sky and of one field each
    python -m benchmarks.liquid --rows 80M --files 300
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import open_source
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.compact_table.request import CompactTableReport, CompactTableRequest
from hipslake.steps.compact_table.run import run
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.opening import open_table
from hipslake.tables.sink_order import FileRows, SinkOrder, SinkOutcome

from benchmarks.processes import ROOT
from benchmarks.sizes import format_count, parse_count

COLUMNS = ("ra", "dec", "time", "mag")
NIGHTS, SHARE, EVERY, QUERIES, SIDE = 50, 0.01, 10, 1000, 0.1
BYTES_BAR, FILES_BAR = 5.0, 1.15
BASE_NIGHTS = 100
PART_ROWS = 1_000_000
SKIES = ("all", "field")
"""Where the rows of a night lie: all over the sky, or in a stripe of it that moves from night to night."""

Floats = np.ndarray


def rows_of(random: np.random.Generator, rows: int, first: int, nights: range, sky: str) -> pa.Table:
    """Rows of some nights."""
    night = random.choice(np.array(nights), rows)
    ra = random.uniform(0, 360, rows)
    if sky == "field":
        ra = (night * 137.5 + random.uniform(0, 60, rows)) % 360
    taken = (night * 86_400 + random.uniform(0, 30_000, rows)) * 1e6
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + rows)),
            "ra": ra,
            "dec": np.degrees(np.arcsin(random.uniform(-1, 1, rows))),
            "time": pa.array(taken.astype(np.int64), pa.timestamp("us", "UTC")),
            "mag": np.clip(25 - random.exponential(2, rows), 10, 25),
            "flux": pa.array(random.normal(0, 1, rows).astype(np.float32)),
        }
    )


class Lake:
    """A warehouse with one table, on disk."""

    def __init__(self, root: Path, target_bytes: int, cores: int) -> None:
        self.root, self.engine = root, ThisProcess(cores)
        self.spec = TableSpec.model_validate(
            {
                "name": "kept",
                "table": "bench.kept",
                "source": {"files": {"uri": "/nowhere/*.parquet", "format": "parquet"}},
                "iceberg": {"uri": f"sqlite:///{root}/iceberg.db"},
                "cluster_by": list(COLUMNS),
                "target_file_size": f"{target_bytes} B",
            }
        )

    @property
    def warehouse(self) -> str:
        return str(self.root / "warehouse")

    def sink(self, tables: Iterator[pa.Table]) -> SinkOutcome:
        """Sink some tables, by files of theirs."""
        landing = self.root / "landing"
        shutil.rmtree(landing, ignore_errors=True)
        landing.mkdir(parents=True)
        for at, table in enumerate(tables):
            pq.write_table(table, landing / f"{at:04d}.parquet", compression="zstd", compression_level=1)
        source = SourceSpec.model_validate({"uri": f"{landing}/*.parquet", "format": "parquet"})
        files = tuple(open_source(source).list_files())
        order = SinkOrder(
            spec=self.spec,
            warehouse=self.warehouse,
            rows=FileRows(source=source, files=files),
            write_id="20261122T0000-0123456789ab",
        )
        return sink(order, self.engine)

    def keep(self, number: int) -> CompactTableReport:
        """The run behind a sink."""
        spec = CompactionSpec.keeping(self.spec)
        folder = str(self.root / "runs" / f"{number:03d}")
        return run(CompactTableRequest(run_uri=folder, warehouse=self.warehouse, spec=spec), self.engine)

    def files(self) -> list[Path]:
        """The data files of the table."""
        table = open_table(self.spec.iceberg, self.warehouse, self.spec.table)
        try:
            return [Path(file.path) for file in table.existing().files]
        finally:
            table.close()

    def clustered_anew(self) -> list[Path]:
        """All rows clustered at once, into a folder: its files."""
        old, new = self.root / "links", self.root / "anew"
        for folder in (old, new):
            shutil.rmtree(folder, ignore_errors=True)
        old.mkdir()
        for at, path in enumerate(self.files()):
            (old / f"{at:06d}.parquet").hardlink_to(path)
        spec = CompactionSpec.model_validate(
            {
                "type": "compaction",
                "name": "anew",
                "folder": {"uri": str(old), "output": str(new)},
                "mode": "hilbert",
                "columns": list(COLUMNS),
                "target_file_size": str(self.spec.target_file_size),
            }
        )
        folder = str(self.root / "runs" / f"anew-{time.time_ns()}")
        run(CompactTableRequest(run_uri=folder, warehouse=self.warehouse, spec=spec), self.engine)
        return sorted(new.rglob("*.parquet"))


def bounds(files: list[Path]) -> tuple[Floats, Floats]:
    """The least and the greatest value of each column in each file, by its footer; float64[f, k]."""
    low, high = np.empty((len(files), len(COLUMNS))), np.empty((len(files), len(COLUMNS)))
    for at, path in enumerate(files):
        metadata = pq.read_metadata(path)
        names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        for column, name in enumerate(COLUMNS):
            place = names.index(name)
            found = [
                metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)
            ]
            raw = [(each.min_raw, each.max_raw) for each in found]
            low[at, column], high[at, column] = min(a for a, _ in raw), max(b for _, b in raw)
    return low, high


def queries(sample: pa.Table) -> dict[str, tuple[Floats, Floats]]:
    """By kind the ends of seeded queries, float64[q, k]: a tenth of the rows in each column that is named."""
    random = np.random.default_rng(7)
    ordered = [np.sort(_numbers(sample[name])) for name in COLUMNS]
    found = {}
    for kind in (*((at,) for at in range(len(COLUMNS))), tuple(range(len(COLUMNS)))):
        low, high = np.full((QUERIES, len(COLUMNS)), -np.inf), np.full((QUERIES, len(COLUMNS)), np.inf)
        for at in kind:
            first = random.uniform(0, 1 - SIDE, QUERIES)
            low[:, at] = np.quantile(ordered[at], first)
            high[:, at] = np.quantile(ordered[at], first + SIDE)
        found["all" if len(kind) > 1 else COLUMNS[kind[0]]] = low, high
    return found


def _numbers(column: pa.ChunkedArray) -> Floats:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_numpy().astype(np.float64)


def opened(files: list[Path], asked: dict[str, tuple[Floats, Floats]]) -> dict[str, float]:
    """How many files a query of each kind opens, mean."""
    low, high = bounds(files)
    return {
        kind: float(
            np.mean([((low <= b) & (high >= a)).all(axis=1).sum() for a, b in zip(*ends, strict=True)])
        )
        for kind, ends in asked.items()
    }


def measure(root: Path, rows: int, files: int, sky: str, cores: int) -> dict[str, Any]:
    """Nights into a table: what each has rewritten, and how many files queries open, beside a full one."""
    random = np.random.default_rng(1)
    night_rows = int(rows * SHARE)
    sample = rows_of(random, 50_000, 0, range(BASE_NIGHTS), sky)
    row_bytes = Lake(root, 1 << 20, cores).sink(iter([sample])).bytes / 50_000
    shutil.rmtree(root)
    lake = Lake(root, int(rows * row_bytes / files), cores)
    began = time.perf_counter()
    base = lake.sink(
        rows_of(random, min(PART_ROWS, rows - first), first, range(BASE_NIGHTS), sky)
        for first in range(0, rows, PART_ROWS)
    )
    lake.keep(0)
    told: dict[str, Any] = {
        "sky": sky,
        "rows": rows,
        "base": {"files": base.files_added, "bytes": base.bytes, "seconds": time.perf_counter() - began},
        "nights": [],
        "against full": [],
    }
    samples = [rows_of(random, 100_000, 0, range(BASE_NIGHTS), sky)]
    for number in range(1, NIGHTS + 1):
        night = rows_of(
            random,
            night_rows,
            rows + number * night_rows,
            range(BASE_NIGHTS + number, BASE_NIGHTS + number + 1),
            sky,
        )
        samples.append(night.slice(0, 1000))
        began = time.perf_counter()
        sunk = lake.sink(iter([night]))
        between = time.perf_counter()
        report = lake.keep(number)
        ended = time.perf_counter()
        told["nights"].append(
            {
                "came": sunk.bytes,
                "rewritten": report.removed.total_bytes,
                "written": report.added.total_bytes,
                "sink seconds": round(between - began, 2),
                "keep seconds": round(ended - between, 2),
            }
        )
        if number % EVERY == 0:
            asked = queries(pa.concat_tables(samples))
            now = lake.files()
            anew = lake.clustered_anew()
            kept, full = opened(now, asked), opened(anew, asked)
            ratios = {kind: kept[kind] / full[kind] for kind in kept}
            ratios["every query"] = sum(kept.values()) / sum(full.values())
            told["against full"].append(
                {
                    "night": number,
                    "files": len(now),
                    "full files": len(anew),
                    "kept": kept,
                    "full": full,
                    "ratio": ratios,
                }
            )
            print(f"{sky} night {number}: {_line(told)}", flush=True)
    return told


def _line(told: dict[str, Any]) -> str:
    came, rewritten = (sum(night[name] for night in told["nights"]) for name in ("came", "rewritten"))
    ratios = {kind: round(value, 3) for kind, value in told["against full"][-1]["ratio"].items()}
    last = told["against full"][-1]
    return (
        f"{rewritten / came:.2f} bytes rewritten per byte; {last['files']} files, {last['full files']} of a "
        f"full clustering; opened, in times of it: {ratios}"
    )


def judged(told: dict[str, Any]) -> list[tuple[str, float, float]]:
    """The bars: what, how much, and how much it may be."""
    came, rewritten = (sum(night[name] for night in told["nights"]) for name in ("came", "rewritten"))
    worst = max(each["ratio"]["every query"] for each in told["against full"])
    where = "one field" if told["sky"] == "field" else "all sky"
    name = f"{format_count(told['rows'])} rows, nights of {where}"
    return [
        (f"{name}: bytes rewritten per byte that came in", rewritten / came, BYTES_BAR),
        (f"{name}: files opened, in times of a full clustering, the worst of nights", worst, FILES_BAR),
    ]


def page(results: list[dict[str, Any]]) -> str:
    """The page of the documentation."""
    lines = [
        "# Tables that are kept clustered",
        "",
        f"{NIGHTS} nights of {SHARE:.0%} of the rows into a table that is clustered by {', '.join(COLUMNS)}, "
        "by `make bench-liquid`. Every tenth night, all its rows are clustered anew beside it, and the same "
        f"{QUERIES:,} seeded queries of each kind are asked of both; the table says the files that they "
        "open, in times of those of the full clustering. Of all queries together, no more than "
        f"{FILES_BAR} is allowed, and {BYTES_BAR:.0f} bytes rewritten for each that came in.",
        "",
        "A full clustering cuts a few files more of the same rows, since sizes are rounded otherwise. Single "
        "kinds of queries may open more than the mean: the table keeps the sum of all low.",
        "",
    ]
    for told in results:
        where = "of one field" if told["sky"] == "field" else "all over the sky"
        kinds = list(told["against full"][0]["ratio"])
        lines += [
            f"## {format_count(told['rows'])} rows, nights {where}",
            "",
            f"{told['base']['files']} files of {told['base']['bytes'] / told['base']['files'] / 2**20:.2f} "
            "MiB before the first night.",
            "",
            f"| night | bytes rewritten per byte | files | of a full clustering | {' | '.join(kinds)} |",
            f"|---|---|---|---|{'---|' * len(kinds)}",
        ]
        for each in told["against full"]:
            nights = told["nights"][: each["night"]]
            bytes_each = sum(n["rewritten"] for n in nights) / sum(n["came"] for n in nights)
            ratios = " | ".join(f"{each['ratio'][kind]:.2f}" for kind in kinds)
            files = f"{each['files']} | {each['full files']}"
            lines.append(f"| {each['night']} | {bytes_each:.2f} | {files} | {ratios} |")
        lines.append("")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write the page if it is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, nargs="+", default=[2_000_000])
    parser.add_argument("--files", type=int, default=300, help="of the table before the first night, about")
    parser.add_argument("--sky", nargs="+", choices=SKIES, default=list(SKIES))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="for the tables; by default a temporary one")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks/liquid.md")
    options = parser.parse_args(argv)
    results = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for rows in options.rows:
            for sky in options.sky:
                results.append(
                    measure(Path(folder) / f"{sky}_{rows}", rows, options.files, sky, options.cores)
                )
                shutil.rmtree(Path(folder) / f"{sky}_{rows}")
    if options.page:
        place = ROOT / "docs" / "benchmarks"
        (place / "liquid.md").write_text(page(results))
        (place / "liquid.json").write_text(json.dumps(results, indent=1) + "\n")
    bars = [bar for told in results for bar in judged(told)]
    for what, found, most in bars:
        print(f"{'yes' if found <= most else 'NO '}  {what}: {found:.3f}, at most {most}")
    return int(any(found > most for _, found, most in bars))


if __name__ == "__main__":
    sys.exit(main())
