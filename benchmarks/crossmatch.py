"""`make bench-crossmatch`: our cross-match beside LSDB and a two-process scipy program, on two cores.

A synthetic Milky Way, and a quarter of its stars seen again, moved by 0.2 arcseconds: nearest partners within
2 arcseconds, three columns of each side, the outcome written. All read the same two catalogs, which are
ingested first.

    python -m benchmarks.crossmatch                    20M x 5M and 80M x 20M: the page goes to docs/
    python -m benchmarks.crossmatch --rows 2M --repeats 1
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.catalog.joining.pairing import Pairing
from hipslake.catalog.partitions import curve_sorted, leaf_spans
from hipslake.specs.join_specs import MatchOptions

from benchmarks import machine
from benchmarks.hipslake_ingest import ingest_spec
from benchmarks.leaf_encoding import ROW_GROUP_ROWS
from benchmarks.milky_way import FILE_ROWS, SEED, write_survey
from benchmarks.processes import ROOT, run_measured
from benchmarks.sizes import format_count, parse_count

CORES = 2
SIZES = [20_000_000, 80_000_000]
RADIUS, MOVED, MARGIN = 2.0, 0.2, 10  # arcseconds
OURS, PROGRAM, LIMIT, PEER = "hipslake", "hipslake_program", "scipy", "lsdb"
TITLES = {OURS: "hipslake", PROGRAM: "`hipslake match`", LIMIT: "scipy, two processes", PEER: "LSDB"}
SLOWDOWN_BAR = 1.6  # our time with the Spark session up, over scipy's
SPEEDUP_BARS = {20: 1.5, 80: 2.0}  # M rows: LSDB's whole process over ours
PROGRAM_BARS = {80: 2.5}  # and over `hipslake match`
MEMORY_BAR = 6 * 2**30
GIB = 2**30
LEAF = re.compile(r"(Npix=)?\d+\.parquet")  # what else lies there are maps, thumbnails and statistics
SPEC = """\
name: {name}
source: {{uri: "{source}/*.parquet", format: parquet}}
position: {{ra: ra, dec: dec, epoch: 2016.0}}
threshold: {threshold} rows
margin: {{arcsec: {margin}}}
parquet: {{compression: zstd, level: 1, row_group_rows: {row_group_rows}, floats: byte_stream_split}}
"""


class Verdict(NamedTuple):
    """One bar."""

    what: str
    measured: float | str
    bar: str
    passed: bool


def write_sources(folder: Path, rows: int) -> dict[str, Path]:
    """Write both surveys; sizes share the files of the larger one as hard links."""
    sides = {name: folder / f"{name}_{format_count(rows)}" for name in ("stars_a", "stars_b")}
    for side in sides.values():
        side.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(write_survey(folder / "stars", rows)):
        linked, seen_again = sides["stars_a"] / path.name, sides["stars_b"] / path.name
        if not linked.exists():
            linked.hardlink_to(path)
        if not seen_again.exists():
            pq.write_table(_seen_again(pq.read_table(path), number), seen_again)
    return sides


def _seen_again(stars: pa.Table, number: int) -> pa.Table:
    """A quarter of some stars, each a little beside where it stood."""
    rng = np.random.default_rng([SEED, number])
    some = stars.take(pa.array(rng.choice(len(stars), len(stars) // 4, replace=False)))
    step = MOVED / 3600
    dec = np.clip(some["dec"].to_numpy() + rng.normal(0, step, len(some)), -90, 90)
    ra = some["ra"].to_numpy() + rng.normal(0, step, len(some)) / np.cos(np.radians(dec))
    some = some.set_column(some.schema.get_field_index("ra"), "ra", pa.array(ra % 360.0))
    return some.set_column(some.schema.get_field_index("dec"), "dec", pa.array(dec))


def publish(folder: Path, rows: int, threshold: int) -> Path:
    """Ingest both surveys, the second with a margin; return the warehouse."""
    warehouse = folder / f"warehouse_{format_count(rows)}"
    for name, source in write_sources(folder, rows).items():
        if (warehouse / "catalogs" / name / "metadata.json").exists():
            continue
        spec = folder / f"{name}.yaml"
        spec.write_text(
            SPEC.format(
                name=name,
                source=source,
                threshold=threshold,
                margin=[MARGIN] if name == "stars_b" else [],
                row_group_rows=ROW_GROUP_ROWS,
            )
        )
        ingest_spec(spec, warehouse, folder)
    return warehouse


def list_work(warehouse: Path, path: Path) -> None:
    """Tell the scipy program which files there are: the left leaves, and what each right pixel needs."""
    left, right = (Catalog.open(warehouse / "catalogs" / name) for name in ("stars_a", "stars_b"))
    sides = ((left.storage, left.metadata), (right.storage, right.metadata))
    rows = Pairing.of(*sides, MatchOptions(radius_arcsec=RADIUS)).right_rows
    tables = [curve_sorted(each.table(right.storage)) for each in (right.metadata.group(), rows.margin)]
    homes = []
    for start, stop in zip(rows.homes.start.tolist(), rows.homes.stop.tolist(), strict=True):
        held = [file for table in tables for file in files_in(table, start, stop)]
        homes.append(
            {
                "start": start,
                "stop": stop,
                "files": [right.storage.uri(file["path"]) for file in held],
                "rows": sum(file["rows"] for file in held),
            }
        )
    paths = left.metadata.partitions(None, left.storage)["path"].to_pylist()
    leaves = [
        {"path": left.storage.uri(file), "start": start, "stop": stop}
        for file, start, stop in zip(
            paths, left.pixels.start.tolist(), left.pixels.stop.tolist(), strict=True
        )
    ]
    path.write_text(json.dumps({"homes": homes, "leaves": leaves}))


def files_in(table: pa.Table, start: int, stop: int) -> list[dict[str, Any]]:
    """The path and the rows of each file, of those along the curve, that shares pixels with [start, stop)."""
    starts, stops = leaf_spans(table)
    low, high = np.searchsorted(stops, start, "right"), np.searchsorted(starts, stop)
    found: list[dict[str, Any]] = table.select(["path", "rows"]).slice(low, high - low).to_pylist()
    return found


def run(system: str, folder: Path, warehouse: Path, rows: int, peers_python: str) -> dict[str, Any]:
    """Run one system once; return its measures. What it wrote is removed."""
    output, report_file = folder / "output", folder / "report.json"
    shutil.rmtree(output, ignore_errors=True)
    report_file.unlink(missing_ok=True)
    catalogs = warehouse / "catalogs"
    arguments = {
        OURS: [sys.executable, "-m", "benchmarks.hipslake_crossmatch", f"--warehouse={warehouse}"],
        PROGRAM: [sys.executable, "-m", "benchmarks.hipslake_program", "match", f"--warehouse={warehouse}"],
        LIMIT: [peers_python, "-m", "benchmarks.scipy_crossmatch", f"--work={folder / 'work.json'}"],
        PEER: [
            peers_python,
            "-m",
            "benchmarks.lsdb_crossmatch",
            f"--left={catalogs / 'stars_a'}",
            f"--right={catalogs / 'stars_b'}",
        ],
    }[system]
    os.sync()  # nobody pays for what another has left to write
    log = folder / f"{system}.log"
    usage = run_measured([*arguments, f"--output={output}", f"--report={report_file}"], log=log)
    report: dict[str, Any] = json.loads(report_file.read_text())
    files = (path for path in Path(report["dataset"]).rglob("*.parquet") if LEAF.fullmatch(path.name))
    written = [pq.read_metadata(path) for path in files]
    shutil.rmtree(output)
    shutil.rmtree(catalogs / "a_x_b", ignore_errors=True)
    return {
        "system": system,
        "rows": rows,
        "seconds": report["seconds"],
        "whole_seconds": usage.seconds - report.get("verify", 0.0),
        "cpu_seconds": usage.cpu_seconds,
        "peak_bytes": usage.peak_bytes,
        "phases": report["phases"],
        "pairs": sum(footer.num_rows for footer in written),
        "files": len(written),
    }


def verdicts(runs: list[dict[str, Any]]) -> list[Verdict]:
    """Judge the medians over the repeats."""
    found = []
    for rows in sorted({run["rows"] for run in runs}):
        mine = [run for run in runs if run["rows"] == rows]

        def told(system: str, key: str, mine: list[dict[str, Any]] = mine) -> float | None:
            values = [run[key] for run in mine if run["system"] == system]
            return median(values) if values else None

        size = f"{format_count(rows)} x {format_count(rows // 4)}"
        up, limit = told(OURS, "seconds"), told(LIMIT, "seconds")
        if up and limit:
            what = f"{size}: session up, over scipy"
            found.append(Verdict(what, up / limit, f"<= {SLOWDOWN_BAR}", up / limit <= SLOWDOWN_BAR))
        peer = told(PEER, "whole_seconds")
        for ours, least in ((OURS, SPEEDUP_BARS), (PROGRAM, PROGRAM_BARS)):
            whole, bar = told(ours, "whole_seconds"), least.get(rows // 10**6)
            if whole and peer and bar:
                what, ratio = f"{size}: LSDB over {TITLES[ours]}, whole process", peer / whole
                found.append(Verdict(what, ratio, f">= {bar}", ratio >= bar))
            if peak := told(ours, "peak_bytes"):
                what = f"{size}: peak memory of {TITLES[ours]}, GiB"
                found.append(Verdict(what, peak / GIB, "<= 6", peak <= MEMORY_BAR))
        pairs = {run["system"]: run["pairs"] for run in mine}
        equal = len(set(pairs.values())) == 1
        found.append(Verdict(f"{size}: equal numbers of pairs", str(pairs), "equal", equal))
    return found


def markdown(runs: list[dict[str, Any]], peers_python: str) -> str:
    """The page: the machine, a row per run, the bars."""
    told = machine.describe(peers_python)
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    lines = [
        "# Cross-match benchmark",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {told['processor']}, {told['cores']} cores, "
        f"{told['memory_bytes'] / GIB:.0f} GiB, {told['system']}, Python {told['python']}, {told['java']}. "
        f"Ours: {versions}.",
        "",
        f"A synthetic Milky Way, and a quarter of it moved by {MOVED} arcsec: nearest within {RADIUS:g} "
        "arcsec, three columns of each side, the outcome written. Made by `make bench-crossmatch`.",
        "",
        "`session up` leaves out what starting interpreters, Spark and dask costs; verify, which only we do, "
        "is left out of both. *hipslake* are the steps of the DAG, with Spark; `hipslake match` is the "
        "command, which works in its own process.",
        "",
        "| rows | system | session up, s | whole, s | CPU, s | peak, GiB | pairs | files |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {format_count(run['rows'])} | {TITLES[run['system']]} | {run['seconds']:.1f} "
        f"| {run['whole_seconds']:.1f} | {run['cpu_seconds']:.0f} | {run['peak_bytes'] / GIB:.2f} "
        f"| {run['pairs']} | {run['files']} |"
        for run in runs
    ]
    lines += ["", "| bar | measured | wanted | |", "|---|---:|---:|---|"]
    for verdict in verdicts(runs):
        shown = verdict.measured if isinstance(verdict.measured, str) else f"{verdict.measured:.2f}"
        passed = "pass" if verdict.passed else "**FAIL**"
        lines.append(f"| {verdict.what} | {shown} | {verdict.bar} | {passed} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, nargs="+", default=SIZES, help="of the left side")
    parser.add_argument("--systems", nargs="+", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf")
    parser.add_argument("--warehouse", type=Path, help="with stars_a and stars_b; made if not given")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument(
        "--results", type=Path, help="default: docs/benchmarks for a whole run, else --folder"
    )
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    options: Any = parser.parse_args(argv)
    if any(rows <= 0 or rows % FILE_ROWS for rows in options.rows):
        parser.error("--rows: give whole millions, such as 20M")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    options.folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for rows in options.rows:
        warehouse = (options.warehouse or publish(options.folder, rows, options.threshold)).resolve()
        if LIMIT in options.systems:
            list_work(warehouse, options.folder / "work.json")
        for _ in range(options.repeats):
            for system in options.systems:
                runs.append(run(system, options.folder, warehouse, rows, options.peers_python))
                print(f"{format_count(rows)} {system}: {runs[-1]['seconds']:.1f} s", flush=True)
    whole = options.rows == SIZES and options.systems == list(TITLES)
    results = options.results or (ROOT / "docs" / "benchmarks" if whole else options.folder / "results")
    results.mkdir(parents=True, exist_ok=True)
    (results / "crossmatch.md").write_text(markdown(runs, options.peers_python))
    print(markdown(runs, options.peers_python))
    return 0 if all(verdict.passed for verdict in verdicts(runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
