"""Runs of the benchmark of living catalogs: each in a process of its own, weighed step by step.

Bytes are those that the process read and wrote, as the kernel counts them. strace counts the files of the
catalogs that are opened; each step first makes a file of its name, by which the trace is told apart.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import ROOT, environment

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
PLACED = {"position": {"ra": "ra", "dec": "dec"}, "threshold": "100000 rows"}
UPSERT = {"mode": "upsert", "key": "id", "operation": {"column": "op"}} | PLACED
CATALOGS: dict[str, dict[str, Any]] = {
    "stars": UPSERT | {"index": ["id"]},
    "others": {"mode": "append", "margin": {"arcsec": [5]}} | PLACED,
    "objects": {"mode": "append", "co_partitioned": ["id"], "index": ["id"]}
    | PLACED
    | {"threshold": "10000 rows"},
    "sources": UPSERT | {"position_from": {"catalog": "objects", "on": {"object_id": "id"}}},
    "scattered": UPSERT,
}
JOINS: dict[str, dict[str, Any]] = {
    "match": {
        "type": "crossmatch",
        "left": {"catalog": "stars"},
        "right": {"catalog": "others", "columns": ["id", "value_0"]},
        "radius_arcsec": 2,
        "threshold": "100000 rows",
    },
    "light_curves": {
        "type": "equijoin",
        "left": {"catalog": "objects"},
        "right": {"catalog": "sources", "columns": ["time", "value_0"]},
        "on": {"id": "object_id"},
        "nested": {"time": "time"},
        "threshold": "10000 rows",
    },
}
WEIGHED = ("seconds", "bytes read", "bytes written")
INDEX = "index"
"""The step that follows the stars, not a catalog: the index of their keys."""
INDEXED = {INDEX: "stars", "index of objects": "objects"}
"""The catalogs that have an index of their keys, by the name of the step that builds it."""
VIEW = "view"
_MARKS = "steps"


def landed(place: Path, catalog: str, night: int) -> Path:
    """The folder of the files that a night brings to a catalog."""
    return place / "landing" / catalog / f"night-{night:02d}"


def land(place: Path, catalog: str, night: int, unit: int, rows: pa.Table) -> None:
    """Write what a night brings, of one unit."""
    folder = landed(place, catalog, night)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / f"unit-{unit:02d}.parquet", row_group_size=250_000)


def run(place: Path, what: str, *, night: int = 0, full: bool = False, trace: bool = False) -> dict[str, Any]:
    """Publish a night of a catalog, a join or an index, in a process of its own.

    Returns
    -------
    dict
        `steps`, with what each weighed, and `total`, of all; with `trace` also `files` that each step opened.
        Of joins, `report` has what their report says.
    """
    command = [sys.executable, "-m", "benchmarks.living_runs", "--place", str(place), "--what", what]
    command += ["--night", str(night), *(["--full"] if full else [])]
    traced = place / "trace"
    if trace:
        command = ["strace", "-f", "-z", "-e", "trace=openat", "-o", str(traced), *command]
    done = subprocess.run(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if trace:
        measured["files"] = _opened(traced, place)
    return measured


def leaves_of(place: Path, catalog: str) -> str:
    """SHA-256 of the list of the leaf files of a catalog, with the checksum of each."""
    from hipslake import Catalog

    opened = Catalog.open(place / "catalogs" / catalog)
    table = opened.metadata.partitions(None, opened.storage)
    listed = [table[name].to_pylist() for name in ("order", "npix", "rows", "sha256")]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def rows_of(place: Path, catalog: str, columns: list[str]) -> dict[int, str]:
    """SHA-256 of the rows of each unit of a catalog, in the order of their keys, read by pyarrow alone."""
    from hipslake import Catalog

    opened = Catalog.open(place / "catalogs" / catalog)
    table = opened.metadata.partitions(None, opened.storage)
    units: dict[int, list[str]] = {}
    for order, npix, path in zip(
        *(table[name].to_pylist() for name in ("order", "npix", "path")), strict=True
    ):
        units.setdefault(npix >> 2 * (order - 1), []).append(path)

    def of_unit(unit: int) -> tuple[int, str]:
        files = [pq.read_table(place / "catalogs" / catalog / path, columns=columns) for path in units[unit]]
        return unit, digest_of(pa.concat_tables(files).sort_by("id"))

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(of_unit, sorted(units)))


def digest_of(rows: pa.Table) -> str:
    """SHA-256 of the values of rows of numbers."""
    found = hashlib.sha256()
    for name in rows.column_names:
        found.update(rows[name].to_numpy().tobytes())
    return found.hexdigest()


class _Scale:
    """Weighs the steps of a run in this process."""

    def __init__(self, place: Path) -> None:
        self.marks = place / _MARKS
        self.marks.mkdir(exist_ok=True)
        self.steps: dict[str, dict[str, float]] = {}
        self._before = self._began = self._now()

    def told(self, step: str, report: Any) -> None:
        """A step begins, or has ended."""
        if report is None:
            self._mark(step)
            self._before = self._now()
            return
        now = self._now()
        self.steps[step] = {name: now[name] - self._before[name] for name in WEIGHED}
        self._mark("between")

    def total(self) -> dict[str, float]:
        """Of all since it was made."""
        now = self._now()
        return {name: now[name] - self._began[name] for name in WEIGHED}

    def _mark(self, step: str) -> None:
        (self.marks / step).write_text("")  # opened, as a trace is to show

    def _now(self) -> dict[str, float]:
        lines = Path("/proc/self/io").read_text().splitlines()
        told = {name: int(value) for name, value in (line.split(": ") for line in lines)}
        return dict(zip(WEIGHED, (time.perf_counter(), told["rchar"], told["wchar"]), strict=True))


def _opened(trace: Path, place: Path) -> dict[str, int]:
    """How many files of catalogs each step opened, folders left out."""
    found: Counter[str] = Counter()
    step, marks, catalogs = "between", f"{place / _MARKS}/", f"{place / 'catalogs'}/"
    for path, flags in re.findall(r'openat\([^"]*"([^"]*)", ([^,)]*)', trace.read_text(errors="replace")):
        if path.startswith(marks):
            step = path.removeprefix(marks)
        elif path.startswith(catalogs) and "O_DIRECTORY" not in flags:
            found[step] += 1
    return dict(found)


def _ingest(place: Path, name: str, night: int, scale: _Scale) -> dict[str, Any]:
    from hipslake.api.ingesting import ingested

    files = sorted(map(str, landed(place, name, night).glob("*.parquet")))
    ingested(
        files,
        spec=CATALOGS[name] | {"name": name},
        warehouse=place,
        interval=FIRST + timedelta(days=night),
        spark=False,
        told=scale.told,
    )
    return {}


def _join(place: Path, name: str, full: bool, scale: _Scale) -> dict[str, Any]:
    from hipslake.api.publishing import published_join

    spec = JOINS[name] | {"name": name}
    outcome = published_join(spec, warehouse=place, full=full, force=full, spark=False, told=scale.told)
    kind = "crossmatch" if spec["type"] == "crossmatch" else "equijoin"
    (path,) = Path(outcome.run_uri, "reports").glob(f"*{kind}.json")
    report = json.loads(path.read_text())
    return {name: report[name] for name in ("leaves_written", "leaves_kept", "full_because")}


def _index(place: Path, catalog: str, full: bool, scale: _Scale) -> dict[str, Any]:
    from hipslake.api.step_runner import StepRunner

    with StepRunner(place, "catalog_index", catalog, spark=False, told=scale.told) as runner:
        runner.resolve("resolve:published", catalog=catalog)
        report = runner.perform("index", published=True, full=full)
        runner.outcome(report.version)
    return {"files_kept": report.files_kept, "full_because": report.full_because}


def index_sums(place: Path) -> str:
    """The checksums of the files of the index, as text."""
    from hipslake import Catalog

    (index,) = Catalog.open(place / "catalogs" / "stars").metadata.indices
    return " ".join(file.sha256 for file in index.files)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--what", required=True)
    parser.add_argument("--night", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    scale = _Scale(given.place)
    if given.what in CATALOGS:
        report = _ingest(given.place, given.what, given.night, scale)
    elif given.what in INDEXED:
        report = _index(given.place, INDEXED[given.what], given.full, scale)
    else:
        report = _join(given.place, given.what, given.full, scale)
    print(json.dumps({"total": scale.total(), "steps": scale.steps, "report": report}))


if __name__ == "__main__":
    _main()
