"""`make bench-small`: a large catalog matched with a small one, and the pairs of a crowd counted.

A catalog over the whole sky and 75,000 positions, half of them beside rows of it: the nearest within an
arcsecond, matched by the steps of `catalog_crossmatch`, published. The small side is held by every task, so
that neither has a margin. Then catalogs of 1,000 to 100,000 positions, beside LSDB, whole leaves and a k-d
tree; and two crowds of a patch of the sky, of which all pairs in a radius are counted.

    python -m benchmarks.small_sides                     20M rows, and crowds of 1M
    python -m benchmarks.small_sides --rows 200M --page  the page goes to docs/
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from hipslake import Catalog

from benchmarks import machine, small_side_matches
from benchmarks.processes import ROOT, run_measured
from benchmarks.sizes import format_count, parse_count
from benchmarks.small_side_skies import (
    CROWD,
    LARGE,
    LITTLE_ROWS,
    OTHER_CROWD,
    PATCH,
    SMALL,
    SMALL_ROWS,
    WHOLE,
    crowd_radius,
    little_name,
    publish_crowds,
    publish_large,
    publish_little,
    publish_small,
)

CORES, CROWD_ROWS, REPEATS = 2, 1_000_000, 3
RADIUS = 1.0  # arcseconds
PAIRS_PER_ROW = (20, 100)
ROWS_BAR, PAIRS_BAR = 2.0, 2.7  # millions a second and core
BINS = 20
GIB = 2**30
HERE, SPARK, COUNT = "in one process", "in a Spark job", "count"
SPEC = """\
name: matched
type: crossmatch
left: {{catalog: {left}}}
right: {{catalog: {right}}}
radius_arcsec: {radius}
"""


def publish(folder: Path, rows: int) -> Path:
    """Build all catalogs that are not there; return the warehouse."""
    warehouse = folder / f"small_{format_count(rows)}"
    held = warehouse / "catalogs"
    if not _has(held / LARGE, rows):
        shutil.rmtree(held / LARGE, ignore_errors=True)
        publish_large(warehouse, rows)
    if not _has(held / SMALL, SMALL_ROWS):
        publish_small(warehouse, SMALL_ROWS)
    if not all(_has(held / name, CROWD_ROWS) for name in (CROWD, OTHER_CROWD)):
        publish_crowds(warehouse, CROWD_ROWS)
    for place in (PATCH, WHOLE):
        for little in LITTLE_ROWS:
            if not _has(held / little_name(place, little), little):
                publish_little(warehouse, place, little)
    return warehouse


def _has(catalog: Path, rows: int) -> bool:
    return (catalog / "metadata.json").exists() and Catalog.open(catalog).metadata.total_rows == rows


def match(warehouse: Path, scratch: Path, way: str, left: str, right: str) -> dict[str, Any]:
    """Match two catalogs and publish the outcome; what the steps took."""
    from hipslake.engine.this_process import ThisProcess
    from hipslake.steps.ingest import publish as publishing
    from hipslake.steps.ingest.request import PublishReport, PublishRequest
    from hipslake.steps.join import resolve_crossmatch
    from hipslake.steps.join import run as joining
    from hipslake.steps.join.request import (
        CrossmatchReport,
        CrossmatchRequest,
        ResolveCrossmatchReport,
        ResolveCrossmatchRequest,
    )
    from hipslake.steps.run import run_uri
    from hipslake.steps.upkeep import hats_view, verify
    from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest, VerifyReport, VerifyRequest

    from benchmarks.our_steps import SESSION_PHASES, RunSteps

    spec_file = scratch / "matched.yaml"
    spec_file.write_text(SPEC.format(left=left, right=right, radius=RADIUS))
    run = run_uri(str(warehouse), "catalog_crossmatch__matched", f"benchmark-{secrets.token_hex(4)}")
    steps = RunSteps(run, scratch)
    resolving = ResolveCrossmatchRequest(
        run_uri=run,
        dag_id="catalog_crossmatch__matched",
        run_id="benchmark",
        warehouse=str(warehouse),
        spec_file=str(spec_file),
        force=True,
    )
    steps.here(resolve_crossmatch.run, resolving, ResolveCrossmatchReport)
    matching = CrossmatchRequest(run_uri=run)
    if way == SPARK:
        steps.in_spark("crossmatch_catalogs", matching, CrossmatchReport)
    else:
        steps.here(lambda asked: joining.run(asked, ThisProcess(CORES)), matching, CrossmatchReport)
    steps.here(lambda asked: verify.run(asked, ThisProcess()), VerifyRequest(run_uri=run), VerifyReport)
    steps.here(publishing.run, PublishRequest(run_uri=run), PublishReport)
    steps.here(hats_view.run, HatsViewRequest(run_uri=run), HatsViewReport)
    up = {
        step: sum(seconds for phase, seconds in report.seconds.items() if phase not in SESSION_PHASES)
        for step, report in steps.reports.items()
        if step != "verify"
    }
    told: Any = steps.reports["resolve"]
    return {
        "seconds": sum(up.values()),
        "phases": up,
        "small_side": told.small_side,
        "pairs": steps.reports["crossmatch"].rows_out,
    }


def count(warehouse: Path, pairs_per_row: float, *, binned: bool, rows: bool) -> dict[str, Any]:
    """Count the pairs of the crowds, or give them as rows; wall and processor seconds of the call alone."""
    left, right = (Catalog.open(warehouse / "catalogs" / name) for name in (CROWD, OTHER_CROWD))
    radius = crowd_radius(CROWD_ROWS, pairs_per_row)
    edges = [radius * edge / BINS for edge in range(BINS + 1)] if binned else None
    started = time.perf_counter(), time.process_time()
    asked = {"radius_arcsec": radius, "neighbours": "all"}
    if rows:
        found = left.crossmatch(right, **asked)
    else:
        found = left.crossmatch(right, count_only=True, separation_bins=edges, **asked)
    return {
        "seconds": time.perf_counter() - started[0],
        "cpu": time.process_time() - started[1],
        "pairs": found.num_rows if rows else found.rows,
        "binned": None if rows or found.separations is None else int(found.separations.sum()),
    }


def measure(folder: Path, warehouse: Path, *inner: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    scratch, report = folder / "scratch", folder / "report.json"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(warehouse / "catalogs" / "matched", ignore_errors=True)
    scratch.mkdir(parents=True)
    os.sync()  # nobody pays for what another has left to write
    command = [sys.executable, "-m", "benchmarks.small_sides", f"--warehouse={warehouse}"]
    usage = run_measured(
        [*command, f"--report={report}", f"--scratch={scratch}", *inner], log=folder / "small_sides.log"
    )
    found: dict[str, Any] = json.loads(report.read_text())
    return found | {"whole": usage.seconds, "whole_cpu": usage.cpu_seconds, "peak": usage.peak_bytes}


def page(
    runs: list[dict[str, Any]], around: tuple[list[str], dict[str, bool]], options: Any
) -> tuple[str, bool]:
    """The outcome as a page, and whether every bar was kept."""
    rows, more = options.rows, "" if options.repeats == REPEATS else f" --repeats {options.repeats}"
    lines = [
        "# Small sides and counting",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {machine.described_in_a_line()}. Made by `make bench-small "
        f'ARGS="--rows {format_count(rows)}{more} --page"`.',
        "",
        f"A catalog of {format_count(rows)} rows over the whole sky (id, ra, dec, mag) and one of "
        f"{SMALL_ROWS:,} positions, neither with a margin: the nearest within {RADIUS:g} arcsec, all "
        "columns, the outcome published. `session up` leaves out what starting interpreters and Spark costs, "
        "and verify. Rows are those of the large side: a second and core of them by the wall time on "
        f"{CORES} cores, session up; and by the processor time of whole processes.",
        "",
        "| left x right | the step | small side | session up, s | whole, s | CPU, s | peak, GiB | pairs | "
        "M rows/s and core | by CPU |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    bars: dict[str, bool] = {}
    matches = [run for run in runs if run["what"] != COUNT]
    for kind in dict.fromkeys((run["left"], run["right"], run["what"]) for run in matches):
        mine = [run for run in matches if (run["left"], run["right"], run["what"]) == kind]
        told = {name: median(run[name] for run in mine) for name in ("seconds", "whole", "whole_cpu", "peak")}
        speed, by_cpu = rows / told["seconds"] / CORES / 1e6, rows / told["whole_cpu"] / 1e6
        lines.append(
            f"| {kind[0]} x {kind[1]} | {kind[2]} | {mine[0]['small_side']} | {told['seconds']:.1f} "
            f"| {told['whole']:.1f} | {told['whole_cpu']:.0f} | {told['peak'] / GIB:.2f} "
            f"| {mine[0]['pairs']} | {speed:.2f} | {by_cpu:.2f} |"
        )
        bars[f"{kind[0]} x {kind[1]}, {kind[2]}: {ROWS_BAR:g}M rows a second and core"] = speed >= ROWS_BAR
        bars[f"{kind[0]} x {kind[1]}, {kind[2]}: all runs give as many pairs"] = (
            len({run["pairs"] for run in mine}) == 1
        )
    lines += around[0]
    bars |= around[1]
    lines += [
        "",
        f"Two crowds of {format_count(CROWD_ROWS)} rows in the same four square degrees: all pairs within a "
        "radius are counted by `crossmatch(count_only=True)`, their separations in bins or not, or given as "
        "rows. Seconds of the call, which reads both catalogs.",
        "",
        "| pairs of a row | what | pairs | seconds | CPU, s | M pairs/s and core, by CPU |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    counts = [run for run in runs if run["what"] == COUNT]
    walls: dict[tuple[int, str], float] = {}
    for per_row, binned, given in dict.fromkeys((run["per_row"], run["bins"], run["rows"]) for run in counts):
        kind = (per_row, binned, given)
        mine = [run for run in counts if (run["per_row"], run["bins"], run["rows"]) == kind]
        wall, cpu = (median(run[name] for run in mine) for name in ("seconds", "cpu"))
        speed, what = mine[0]["pairs"] / cpu / 1e6, "rows" if given else f"{BINS} bins" if binned else "count"
        walls[per_row, what] = wall
        lines.append(f"| {per_row} | {what} | {mine[0]['pairs']} | {wall:.1f} | {cpu:.1f} | {speed:.2f} |")
        if per_row == max(PAIRS_PER_ROW):
            bars[f"{per_row} pairs of a row, {what}: {PAIRS_BAR:g}M pairs a second and core"] = (
                speed >= PAIRS_BAR
            )
        if binned:
            bars[f"{per_row} pairs of a row: every pair is in a bin"] = all(
                run["binned"] == run["pairs"] for run in mine
            )
    share = walls[min(PAIRS_PER_ROW), "count"] / walls[min(PAIRS_PER_ROW), "rows"]
    bars[f"{min(PAIRS_PER_ROW)} pairs of a row: a count takes {share:.2f} of the time of rows, 0.5"] = (
        share <= small_side_matches.COUNT_BAR
    )
    bars[f"{min(PAIRS_PER_ROW)} pairs of a row: as many are counted as given"] = (
        len({run["pairs"] for run in counts if run["per_row"] == min(PAIRS_PER_ROW)}) == 1
    )
    lines += ["", *(f"- {bar}: {'pass' if kept else '**FAIL**'}" for bar, kept in bars.items())]
    return "\n".join(lines) + "\n", all(bars.values())


def main(options: Any) -> int:
    """Measure by turns, print the page, and keep it if it is asked for."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    options.folder.mkdir(parents=True, exist_ok=True)
    warehouse = publish(options.folder, options.rows)
    runs = []
    for _ in range(options.repeats):
        for left, right, way in (
            (LARGE, SMALL, HERE),
            (SMALL, LARGE, HERE),
            (LARGE, SMALL, SPARK),
            (SMALL, LARGE, SPARK),
        ):
            told = measure(options.folder, warehouse, f"--run={way}", f"--left={left}", f"--right={right}")
            runs.append(told | {"what": way, "left": left, "right": right})
            print(f"{left} x {right} {way}: {runs[-1]['seconds']:.1f} s", flush=True)
        for per_row in PAIRS_PER_ROW:
            # With rows only where they fit into memory.
            for flag in ([], ["--bins"], *([["--with-rows"]] if per_row == min(PAIRS_PER_ROW) else [])):
                told = measure(
                    options.folder, warehouse, f"--run={COUNT}", f"--pairs-per-row={per_row}", *flag
                )
                kind = {"per_row": per_row, "bins": "--bins" in flag, "rows": "--with-rows" in flag}
                runs.append(told | {"what": COUNT} | kind)
                print(f"{per_row} pairs of a row: {runs[-1]['cpu']:.1f} s of CPU", flush=True)
    around = _around(options, warehouse)
    text, passed = page(runs, around, options)
    print(text)
    place = ROOT / "docs" / "benchmarks" if options.page else options.folder
    (place / "small_sides.md").write_text(text)
    return 0 if passed else 1


def _around(options: Any, warehouse: Path) -> tuple[list[str], dict[str, bool]]:
    """The table of the small catalogs and its bars."""
    report = options.folder / "report.json"
    command = [sys.executable, "-m", "benchmarks.small_side_matches", str(warehouse)]
    run_measured([*command, str(options.repeats), str(report)], log=options.folder / "small_sides.log")
    peer: dict[str, float] = {}
    if options.peer:
        peer = small_side_matches.measure_peer(
            warehouse, options.folder, options.peers_python, options.repeats
        )
    return small_side_matches.lines(json.loads(report.read_text()), peer)


def run_inner(options: Any) -> None:
    """One measurement, in this process."""
    if options.run == COUNT:
        told = count(options.warehouse, options.pairs_per_row, binned=options.bins, rows=options.with_rows)
    else:
        told = match(options.warehouse, options.scratch, options.run, options.left, options.right)
    options.report.write_text(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, default=20_000_000, help="of the large catalog")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks/small_sides.md")
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="leave LSDB out")
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    parser.add_argument(
        "--run", choices=[HERE, SPARK, COUNT], help="for the benchmark itself, as those below"
    )
    parser.add_argument("--left")
    parser.add_argument("--right")
    parser.add_argument("--pairs-per-row", type=int)
    parser.add_argument("--bins", action="store_true")
    parser.add_argument("--with-rows", action="store_true")
    parser.add_argument("--warehouse", type=Path)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    if given.run:
        run_inner(given)
    else:
        given.folder = given.folder.resolve()
        sys.exit(main(given))
