"""The fixed cost of one Spark step: `spark-submit` of a job with one Python task that does nothing.

Two ways are measured: Spark as it comes, and as the project starts it. With `each`, every measure of the
project is also left out by itself, which says what it wins.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from hipslake.spark.settings import (
    JAVA_OPTIONS,
    LAUNCH,
    LOCAL_JAVA_OPTIONS,
    WORKERS,
    java_options,
    launch_settings,
)

from benchmarks.processes import ROOT, environment, run_measured

JOB = ROOT / "benchmarks" / "empty_job.py"
MASTER = "local[*,4]"
MARKS_FILE, BEGAN, WITHOUT = "HIPSLAKE_BENCH_MARKS", "HIPSLAKE_BENCH_BEGAN", "HIPSLAKE_BENCH_WITHOUT"
PHASES = ("jvm_and_interpreter", "imports", "session", "task", "end")
IN_THE_JOB = {
    "installed": "pyspark from zips",
    "session": "without the session's settings",
    "exit": "with `spark.stop()` at the end",
}


class Way(NamedTuple):
    """One way of starting the job."""

    name: str
    conf: dict[str, str]
    without: tuple[str, ...] = ()  # of IN_THE_JOB
    master: str = MASTER
    library: Path | None = None  # an archive that travels with the job
    variables: dict[str, str] = {}  # noqa: RUF012


def ways(*, each: bool) -> list[Way]:
    """Return what to measure."""
    ours = launch_settings(MASTER)
    found = [Way("Spark as it comes", {}, tuple(IN_THE_JOB)), Way("as the project starts it", ours)]
    if not each:
        return found
    for key in LAUNCH:
        found.append(Way(f"without {key}", {name: value for name, value in ours.items() if name != key}))
    for option in LOCAL_JAVA_OPTIONS:
        rest = " ".join(other for other in java_options() if other != option)
        found.append(Way(f"without {option}", ours | {JAVA_OPTIONS: rest}))
    if java_options() != LOCAL_JAVA_OPTIONS:
        bare = " ".join(LOCAL_JAVA_OPTIONS)
        found.append(Way("without the class-data archive", ours | {JAVA_OPTIONS: bare}))
    plain = {name: value for name, value in ours.items() if name not in WORKERS}
    found.append(Way("without the daemon that imports before it forks", plain))
    return [*found, *(Way(name, ours, (without,)) for without, name in IN_THE_JOB.items())]


def measure(folder: Path, *, repeats: int, each: bool) -> list[dict[str, Any]]:
    """Run every way in turn, `repeats` times; return medians in seconds, whole and per phase."""
    ways_ = ways(each=each)
    samples: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways_}
    for _ in range(repeats):
        for way in ways_:
            samples[way.name].append(once(way, folder))
    return [
        {"way": name, "repeats": repeats}
        | {key: median(sample[key] for sample in taken) for key in ("seconds", "cpu_seconds", *PHASES)}
        for name, taken in samples.items()
    ]


def once(way: Way, folder: Path) -> dict[str, float]:
    """Run the job once; return seconds, of the wall and of the processor, and those of each phase."""
    marks_file = folder / "marks.json"
    command = ["spark-submit", "--master", way.master]
    for key, value in way.conf.items():
        command += ["--conf", f"{key}={value}"]
    if way.library is not None:
        command += ["--py-files", str(way.library)]
    variables = environment() | way.variables | {MARKS_FILE: str(marks_file), WITHOUT: " ".join(way.without)}
    variables[BEGAN] = repr(time.time())
    usage = run_measured([*command, str(JOB)], log=folder / "step_cost.log", variables=variables)
    marks: list[float] = json.loads(marks_file.read_text())
    os.remove(marks_file)  # noqa: PTH107
    phases = [*marks, usage.seconds - sum(marks)]
    return {"seconds": usage.seconds, "cpu_seconds": usage.cpu_seconds} | dict(
        zip(PHASES, phases, strict=True)
    )


def table(costs: list[dict[str, Any]]) -> str:
    """Return the measures as a Markdown table, in seconds."""
    lines = [
        "| one Spark step | whole | processor | JVM and interpreter | imports | session | one task | end |",
        "|---|" + "---:|" * 7,
    ]
    for cost in costs:
        values = [cost[key] for key in ("seconds", "cpu_seconds", *PHASES)]
        lines.append(f"| {cost['way']} | " + " | ".join(f"{value:.1f}" for value in values) + " |")
    return "\n".join(lines)
