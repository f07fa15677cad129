"""One run of the Delta benchmark: a system changes a Delta table, whose files are judged, and removed.

All start from the same table, which delta-rs has made of the same files. What a version names, delta-rs says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import table_oracle
from benchmarks.delta_table import BATCH, row_sums, table_in
from benchmarks.processes import CeilingError, ProgramError, Usage, environment, run_measured
from benchmarks.runs import DONE, failure, read_into_memory, usage_of
from benchmarks.table_rows import upsert_rows, upserted, write_rows
from benchmarks.table_runs import (
    CLUSTER,
    HERE,
    HILBERT,
    OURS,
    UPSERT_SHARE,
    Limits,
    link_or_copy,
    task_options,
)

PEER = "deltalake"
ON_READ = "hipslake_on_read"
MERGE = "merge"
SYSTEMS = {CLUSTER: (OURS, HILBERT, HERE, PEER), MERGE: (OURS, ON_READ, HERE, PEER)}

_OPTIONS = {
    HILBERT: ["--curve=hilbert"],
    HERE: ["--engine=here"],
    ON_READ: ["--write=merge-on-read", "--engine=sized"],
}
_FILE_ROWS = 10_000_000  # of a table that is merged into
_EXPECTED = "expected.json"


class DeltaBench:
    """The data of a benchmark, and the systems that take turns on them."""

    def __init__(self, folder: Path, peers_python: str, limits: Limits) -> None:
        self.folder = folder
        self.limits = limits
        self._peers_python = peers_python

    def run(self, task: str, system: str, rows: int) -> dict[str, Any]:
        """Let a system do a task once; return its measures, also of a run that came to no end."""
        source = self._restored(task, rows)
        for folder in (source, self._output):
            read_into_memory(folder)
        measures = {"task": task, "system": system, "rows": rows, "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
        try:
            usage, report = self._perform(task, system, rows, source, self.limits.ceiling)
        except ProgramError as error:
            measures |= failure(error)
            found = None
            if isinstance(error, CeilingError):  # how long it takes says something even so
                self._restored(task, rows)
                found = self._without_ceiling(task, system, rows, source)
            if found is None:
                self._clear()
                return measures
            usage, report = found
        else:
            measures |= {"outcome": DONE}
        measures |= usage_of(usage, report) | self._judge(task, rows, source)
        self._clear()
        return measures

    @property
    def _output(self) -> Path:
        return self.folder / "delta_output"

    def _clear(self) -> None:
        shutil.rmtree(self._output, ignore_errors=True)

    def _without_ceiling(
        self, task: str, system: str, rows: int, source: Path
    ) -> tuple[Usage, dict[str, Any]] | None:
        try:
            return self._perform(task, system, rows, source, None)
        except ProgramError:
            return None

    def _perform(
        self, task: str, system: str, rows: int, source: Path, ceiling: int | None
    ) -> tuple[Usage, dict[str, Any]]:
        program = "delta_rs_tables" if system == PEER else "hipslake_delta"
        python = self._peers_python if system == PEER else sys.executable
        command = self._command(python, program, task, source, rows)
        command += _OPTIONS.get(system, [])
        os.sync()  # nobody pays for what another has left to write
        usage = run_measured(
            command,
            log=self.folder / f"delta_{task}_{system}.log",
            variables=environment(),
            ceiling=ceiling,
            time_limit=self.limits.seconds,
        )
        return usage, self._report()

    def _command(self, python: str, program: str, task: str, source: Path, rows: int) -> list[str]:
        self._report_file.unlink(missing_ok=True)
        options = task_options(task, rows, source, self._output, self._report_file, self.limits)
        return [python, "-m", f"benchmarks.{program}", *options]

    @property
    def _report_file(self) -> Path:
        return self.folder / "delta_report.json"

    def _report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._report_file.read_text())
        return found

    def _asked(self, task: str, rows: int) -> list[str]:
        """Let delta-rs do something that is not measured; the files that it tells."""
        found: list[str] = self._told(task, rows)["files"]
        return found

    def _told(self, task: str, rows: int) -> dict[str, Any]:
        command = self._command(self._peers_python, "delta_rs_tables", task, self.folder, rows)
        subprocess.run(command, check=True, env=os.environ | environment())
        return self._report()

    def _restored(self, task: str, rows: int) -> Path:
        """Put the table as every run of a task finds it; return the folder of what comes."""
        self._clear()
        base, source = (self.folder / f"delta_{task}_{what}_{rows}" for what in ("base", "source"))
        if not base.exists():
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir(parents=True)
            table_in(self._output).mkdir(parents=True)
            (self._fill_cluster if task == CLUSTER else self._fill_merge)(rows, source)
            self._asked("prepare", rows)
            self._output.rename(base)
        shutil.copytree(base, self._output, copy_function=link_or_copy)
        return source

    def _fill_cluster(self, rows: int, source: Path) -> None:
        for path in write_rows(self.folder, rows).iterdir():
            for folder in (source, table_in(self._output)):
                (folder / path.name).hardlink_to(path)

    def _fill_merge(self, rows: int, source: Path) -> None:
        table, batch = upsert_rows(rows, rows // UPSERT_SHARE)
        pq.write_table(batch, source / BATCH, compression="zstd")
        for at in range(-(-rows // _FILE_ROWS)):
            path = table_in(self._output) / f"part-{at:05d}.parquet"
            pq.write_table(table.slice(at * _FILE_ROWS, _FILE_ROWS), path, compression="zstd")
        expected = row_sums(upserted(table, batch, in_order=False).to_batches())
        (source / _EXPECTED).write_text(json.dumps(expected))

    def _judge(self, task: str, rows: int, source: Path) -> dict[str, Any]:
        """What came out, and whether it is right."""
        files = self._asked("files", rows)
        size = sum(Path(path).stat().st_size for path in files)
        if task == MERGE:
            told = self._told("sums", rows)
            right = list(map(int, told["files"])) == json.loads((source / _EXPECTED).read_text())
            read = told["phases"]["read"]
            return {"files": len(files), "bytes": size, "right": right, "read_seconds": read}
        given = sorted(str(path) for path in source.iterdir())
        found, expected = table_oracle.outcome(files), table_oracle.outcome(given)
        right = (found.rows, found.sums) == (rows, expected.sums)
        measured = {"files": len(files), "bytes": size, "right": right}
        return measured | table_oracle.touched(files, given)
