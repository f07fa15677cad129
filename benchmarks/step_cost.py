"""The fixed cost of one Spark step: `spark-submit` of a job with one Python task that does nothing.

Two ways are measured: Spark as it comes, and with the settings of the house. With `each`, every setting of
the house is also left out by itself, which says what it wins.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from hipslake.spark.settings import LAUNCH, LOCAL_JAVA_OPTIONS, java_options

from benchmarks.processes import ROOT, environment, run_measured

JOB = ROOT / "benchmarks" / "empty_job.py"
MARKS_FILE, BEGAN, SESSION = "HIPSLAKE_BENCH_MARKS", "HIPSLAKE_BENCH_BEGAN", "HIPSLAKE_BENCH_SESSION"
PHASES = ("jvm_and_interpreter", "imports", "session", "task", "end")


class Way(NamedTuple):
    """One way of starting the job."""

    name: str
    conf: dict[str, str]
    java_options: tuple[str, ...]
    session: bool  # whether the job opens its session as the house does, or as Spark does by itself


def ways(*, each: bool) -> list[Way]:
    """Return what to measure."""
    all_options = java_options()
    house = Way("the house's settings", LAUNCH, all_options, True)
    found = [Way("Spark as it comes", {}, (), False), house]
    if not each:
        return found
    for key in LAUNCH:
        conf = {name: value for name, value in LAUNCH.items() if name != key}
        found.append(house._replace(name=f"without {key}", conf=conf))
    for option in LOCAL_JAVA_OPTIONS:
        rest = tuple(other for other in all_options if other != option)
        found.append(house._replace(name=f"without {option}", java_options=rest))
    if all_options != LOCAL_JAVA_OPTIONS:
        found.append(house._replace(name="without the class-data archive", java_options=LOCAL_JAVA_OPTIONS))
    return [*found, house._replace(name="without the session's settings", session=False)]


def measure(folder: Path, *, repeats: int, each: bool) -> list[dict[str, Any]]:
    """Run every way in turn, `repeats` times; return medians in seconds, whole and per phase."""
    ways_ = ways(each=each)
    samples: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways_}
    for _ in range(repeats):
        for way in ways_:
            samples[way.name].append(_once(way, folder))
    return [
        {"way": name, "repeats": repeats}
        | {key: median(sample[key] for sample in taken) for key in ("seconds", "cpu_seconds", *PHASES)}
        for name, taken in samples.items()
    ]


def _once(way: Way, folder: Path) -> dict[str, float]:
    marks_file = folder / "marks.json"
    command = ["spark-submit", "--master", "local[*,4]"]
    for key, value in way.conf.items():
        command += ["--conf", f"{key}={value}"]
    if way.java_options:
        command += ["--conf", f"spark.driver.extraJavaOptions={' '.join(way.java_options)}"]
    variables = environment() | {MARKS_FILE: str(marks_file), SESSION: "house" if way.session else "plain"}
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
