"""One run of the cube benchmark: a system builds a cube or answers a query, and its rows are judged."""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks import cube_oracle
from benchmarks.cube_oracle import Answer
from benchmarks.cube_rows import write_rows
from benchmarks.cube_task import BUILD, FRAME, QUERIES
from benchmarks.processes import ROOT, ProgramError, environment, run_measured
from benchmarks.runs import DONE, FAILED, GIB, Run, failure, usage_of
from benchmarks.sizes import format_count

OURS, HERE, EAGER, DASK = "hipslake", "hipslake_here", "kartothek_eager", "kartothek_dask"
SYSTEMS = (OURS, HERE, EAGER, DASK)
PEERS = (EAGER, DASK)
TASKS = (BUILD, *QUERIES)
SMALL_TASKS = (FRAME, "groups")  # a frame has to fit into memory, and kartothek reads all for every group
SMALL_CELLS = 5_000_000

_PROGRAMS = {
    OURS: ("hipslake_cube", "spark"),
    HERE: ("hipslake_cube", "here"),
    EAGER: ("kartothek_cube", "eager"),
    DASK: ("kartothek_cube", "dask"),
}


class Limits(NamedTuple):
    """What a run may take."""

    ceiling: int = 4 * GIB
    seconds: float = 250.0
    cores: int = 2


class Bench:
    """The data of a benchmark, and the systems that take turns on them."""

    def __init__(self, folder: Path, peers_python: str, limits: Limits) -> None:
        self.folder = folder
        self.limits = limits
        self._peers_python = peers_python
        self._expected: dict[tuple[str, int], Answer] = {}

    def run(self, task: str, system: str, cells: int) -> Run:
        """Let a system do a task once; return its measures, also of a run that came to no end."""
        source = write_rows(self.folder, cells)
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
        measures: Run = {"task": task, "system": system, "rows": cells, "at": now}
        cube = self._cube(system, cells)
        if task == BUILD:
            shutil.rmtree(cube, ignore_errors=True)
            cube.mkdir(parents=True)
        else:
            built = self._queried(system, cells)
            if built is None:
                return measures | {"outcome": FAILED, "told": "there is no cube of its own to query"}
            cube = built
        shutil.rmtree(self._output, ignore_errors=True)
        self._output.mkdir(parents=True)
        try:
            measures |= self._perform(task, system, source, cube)
        except ProgramError as error:
            measures |= failure(error)
            if task == BUILD:
                shutil.rmtree(cube)
        else:
            measures |= {"outcome": DONE} | self._judge(task, cells, cube)
        shutil.rmtree(self._output)
        return measures

    @property
    def _output(self) -> Path:
        return self.folder / "output"

    def _cube(self, system: str, cells: int) -> Path:
        return self.folder / f"cube_{system}_{cells}"

    def _queried(self, system: str, cells: int) -> Path | None:
        """The cube that a system queries: the best that its library has built; with dask, files are many."""
        order = (EAGER, DASK) if system in PEERS else (OURS, HERE)
        return next((cube for each in order if (cube := self._cube(each, cells)).exists()), None)

    def _perform(self, task: str, system: str, source: Path, cube: Path) -> Run:
        report_file = self.folder / "report.json"
        report_file.unlink(missing_ok=True)
        program, engine = _PROGRAMS[system]
        variables = environment()
        if system in PEERS:
            variables["PYTHONPATH"] = str(ROOT)
        options = [f"--task={task}", f"--engine={engine}", f"--source={source}", f"--cube={cube}"]
        options += [f"--output={self._output}", f"--report={report_file}"]
        python = self._peers_python if system in PEERS else sys.executable
        os.sync()  # nobody pays for what another has left to write
        usage = run_measured(
            [python, "-m", f"benchmarks.{program}", *options],
            log=self.folder / f"{task}_{system}.log",
            variables=variables,
            ceiling=self.limits.ceiling,
            time_limit=self.limits.seconds,
        )
        return usage_of(usage, json.loads(report_file.read_text()))

    def _judge(self, task: str, cells: int, cube: Path) -> Run:
        if task == BUILD:
            return weighed(cube)  # its rows are judged by the queries
        if (task, cells) not in self._expected:
            self._expected[task, cells] = cube_oracle.expected(task, cells)
        right = cube_oracle.found(self._output) == self._expected[task, cells]
        return weighed(self._output) | {"right": right, "answered": self._expected[task, cells].rows}


def weighed(folder: Path) -> Run:
    """How many Parquet files a folder holds, and the bytes of all files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        "files": sum(path.suffix == ".parquet" for path in files),
        "bytes": sum(path.stat().st_size for path in files),
    }


def title(run: Run) -> str:
    """A run, for the log."""
    what = f"{run['task']} {format_count(run['rows'])} {run['system']}: {run['outcome']}"
    if "seconds" not in run:
        return f"{what}, {run['told'].splitlines()[0][:200]}"
    took = f"{run['seconds']:.2f} s, whole {run['whole_seconds']:.1f} s, CPU {run['cpu_seconds']:.0f} s"
    right = "" if run.get("right", True) else ", WRONG"
    return f"{what}, {took}, {run['peak_bytes'] / GIB:.2f} GiB, {run['files']} files{right}"
