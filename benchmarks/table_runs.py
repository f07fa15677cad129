"""One run of the table benchmark: a system does a task, its files are judged, and removed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from benchmarks import pyiceberg_tables, table_oracle
from benchmarks.processes import ProgramError, Usage, environment, run_measured
from benchmarks.runs import DONE, GIB, failure, read_into_memory, usage_of
from benchmarks.sizes import format_count
from benchmarks.table_rows import upsert_rows, upserted, write_rows

OURS, HILBERT, HERE = "hipslake", "hipslake_hilbert", "hipslake_here"
MERGE_ON_READ = "hipslake_merge_on_read"
PYARROW, POLARS, DUCKDB, DELTA, PYICEBERG = "pyarrow", "polars", "duckdb", "deltalake", "pyiceberg"
SINK, CLUSTER, UPSERT, FEW_KEYS = "sink", "cluster", "upsert", "few_keys"
IN_PLACE = (UPSERT, FEW_KEYS)
"""The tasks that begin at a table."""
SYSTEMS = {
    SINK: (OURS, HERE, PYARROW, POLARS, DUCKDB, PYICEBERG),
    CLUSTER: (OURS, HILBERT, HERE, DELTA, DUCKDB, POLARS, PYARROW),
    UPSERT: (OURS, HERE, PYICEBERG),
    FEW_KEYS: (OURS, MERGE_ON_READ),
}
UPSERT_SHARE = 10  # a batch has so many times fewer rows than the table
KEYS = 10_000  # of a batch of few keys

HERE_ROWS = 20_000_000  # the most that one process is asked for: it holds all rows at once

_OPTIONS = {HILBERT: "--curve=hilbert", HERE: "--engine=here", MERGE_ON_READ: "--write=merge-on-read"}
_IN_PEERS = (PYARROW, POLARS, DUCKDB, DELTA, PYICEBERG)


class Limits(NamedTuple):
    """What a run may take."""

    ceiling: int = 4 * GIB
    seconds: float = 1200.0
    cores: int = 2
    files: int = 64  # that clustered rows are cut into, about


class Bench:
    """The data of a benchmark, and the systems that take turns on them."""

    def __init__(self, folder: Path, peers_python: str, limits: Limits) -> None:
        self.folder = folder
        self.limits = limits
        self._peers_python = peers_python
        self._expected: dict[tuple[str, int], Any] = {}

    def run(self, task: str, system: str, rows: int) -> dict[str, Any]:
        """Let a system do a task once; return its measures, also of a run that came to no end."""
        source = self._prepare(task, rows)
        read_into_memory(source)
        measures = {"task": task, "system": system, "rows": rows, "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
        try:
            usage, report = self._perform(task, system, rows, source, self.limits.ceiling)
        except ProgramError as error:
            measures |= failure(error)
            if task not in IN_PLACE:
                self._clear()
                return measures
            # How long it takes says something even so.
            self._restore(task, rows)
            usage, report = self._perform(task, system, rows, source, None)
        else:
            measures |= {"outcome": DONE}
        measures |= usage_of(usage, report) | self._judge(task, rows, source, report["files"])
        self._clear()
        return measures

    @property
    def _output(self) -> Path:
        return self.folder / "output"

    def _clear(self) -> None:
        shutil.rmtree(self._output, ignore_errors=True)

    def _perform(
        self, task: str, system: str, rows: int, source: Path, ceiling: int | None
    ) -> tuple[Usage, dict[str, Any]]:
        report_file, program = self.folder / "report.json", system
        report_file.unlink(missing_ok=True)
        python = self._peers_python if system in _IN_PEERS else sys.executable
        options = task_options(task, rows, source, self._output, report_file, self.limits)
        if system in _OPTIONS:
            program = OURS
            options.append(_OPTIONS[system])
        os.sync()  # nobody pays for what another has left to write
        usage = run_measured(
            [python, "-m", f"benchmarks.{program}_tables", *options],
            log=self.folder / f"{task}_{system}.log",
            variables=environment() | {"POLARS_MAX_THREADS": str(self.limits.cores)},
            ceiling=ceiling,
            time_limit=self.limits.seconds,
        )
        report: dict[str, Any] = json.loads(report_file.read_text())
        return usage, report

    def _prepare(self, task: str, rows: int) -> Path:
        """Make what a task reads, and the table that it starts from; return the folder of the former."""
        if task in IN_PLACE:
            source = self._restore(task, rows)
        else:
            source = write_rows(self.folder, rows)
            self._restore(task, rows)
        return source

    def _restore(self, task: str, rows: int) -> Path:
        """Put the output folder as every run of a task finds it."""
        self._clear()
        if task not in IN_PLACE:
            self._output.mkdir(parents=True)
            return self._output
        base, source = (self.folder / f"{task}_{what}_{rows}" for what in ("base", "batch"))
        if not source.exists():
            table, batch = upsert_rows(rows, batch_rows(task, rows))
            shutil.rmtree(base, ignore_errors=True)
            self._output.mkdir(parents=True)
            pyiceberg_tables.prepare(self._output, table)
            self._output.rename(base)  # a table knows its own place: runs find it there again
            source.mkdir()
            pq.write_table(batch, source / "batch.parquet")
        shutil.copytree(base, self._output, copy_function=link_or_copy)
        return source

    def _judge(self, task: str, rows: int, source: Path, files: list[str]) -> dict[str, Any]:
        """What came out, and whether it is right."""
        if task in IN_PLACE:
            expected = self._once(task, rows, lambda _: upserted(*upsert_rows(rows, batch_rows(task, rows))))
            equal = pyiceberg_tables.read_sorted(self._output).equals(expected)
            size = sum(Path(path).stat().st_size for path in files)
            return {"files": len(files), "bytes": size, "right": equal}
        given = sorted(str(path) for path in source.iterdir())
        expected = self._once("source", rows, lambda _: table_oracle.outcome(given))
        found = table_oracle.outcome(files)
        right = (found.rows, found.sums) == (rows, expected.sums)
        judged: dict[str, Any] = {"files": found.files, "bytes": found.bytes, "right": right}
        if task == CLUSTER:
            judged |= table_oracle.touched(files, given)
        return judged

    def _once(self, what: str, rows: int, find: Callable[[int], Any]) -> Any:
        if (what, rows) not in self._expected:
            self._expected[what, rows] = find(rows)
        return self._expected[what, rows]


def task_options(task: str, rows: int, source: Path, output: Path, report: Path, limits: Limits) -> list[str]:
    """What the program of a system is told, as `benchmarks.table_task.perform` reads it."""
    told = {"task": task, "source": source, "output": output, "rows": rows, "report": report}
    told |= {"files": limits.files, "ceiling": limits.ceiling, "cores": limits.cores}
    return [f"--{name}={value}" for name, value in told.items()]


def batch_rows(task: str, rows: int) -> int:
    """The rows of the batch that comes into a table."""
    return rows // UPSERT_SHARE if task == UPSERT else KEYS


def link_or_copy(source: str, target: str) -> None:
    """Files of a table never change, but for its catalog's database."""
    if source.endswith((".parquet", ".avro", ".json")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def title(run: dict[str, Any]) -> str:
    """A run, for the log."""
    what = f"{run['task']} {format_count(run['rows'])} {run['system']}: {run['outcome']}"
    if "seconds" not in run:
        return f"{what}, {run['told'].splitlines()[0][:200]}"
    return (
        f"{what}, {run['seconds']:.1f} s, whole {run['whole_seconds']:.1f} s, "
        f"{run['peak_bytes'] / GIB:.2f} GiB, {run['files']} files{'' if run['right'] else ', WRONG'}"
    )
