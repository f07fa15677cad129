"""What it costs Airflow's DAG processor to parse the DAG files of many specs."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ROOT

SPEC = ROOT / "include" / "specs" / "catalogs" / "gaia_dr3.yaml"
BAR_SPECS, BAR = 1000, 60.0  # specs, processor seconds of a round


@dataclass(frozen=True)
class Round:
    """A round of the DAG processor over all DAG files, which it knew from a round before."""

    specs: int
    dags: int
    seconds: float
    processor: float
    ours: float  # processor seconds of reading specs and making DAG objects


@dataclass(frozen=True)
class Change:
    """What it takes to make the DAGs of the file that is parsed after one spec has changed."""

    specs: int
    folders: int  # with a DAG file each
    dags: int  # of the one that is parsed
    seconds: float  # median, by a process that has the pipelines imported


def changes(folder: Path, environment: Mapping[str, str], number: int, parts: Sequence[int]) -> list[Change]:
    """Change one of many specs, which lie in some numbers of folders, and make its DAG file's DAGs again."""
    found = []
    for folders in parts:
        root = folder / f"changed_{folders}"
        for each in range(number):
            write_spec(root / f"part_{each % folders}", f"survey_{each:04d}")
        code = (
            "import statistics, sys, time\n"
            "from pathlib import Path\n"
            "from hipslake_airflow import spec_dags\n"
            "path, seconds = Path(sys.argv[1], 'catalogs', 'survey_0000.yaml'), []\n"
            "spec_dags(sys.argv[1])\n"
            "for _ in range(5):\n"
            "    path.write_text(path.read_text() + '\\n')\n"
            "    start = time.perf_counter()\n"
            "    dags = spec_dags(sys.argv[1])\n"
            "    seconds.append(time.perf_counter() - start)\n"
            "print(len(dags), statistics.median(seconds))\n"
        )
        command = [sys.executable, "-c", code, str(root / "part_0")]
        told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        dags, seconds = told.stdout.split()[-2:]
        found.append(Change(number, folders, int(dags), float(seconds)))
        shutil.rmtree(root)
    return found


def measured(folder: Path, environment: Mapping[str, str], numbers: Sequence[int]) -> list[Round]:
    """Parse the DAG files of some numbers of specs, on the database that an environment names."""
    return [measure(folder, environment, number) for number in numbers]


def measure(folder: Path, environment: Mapping[str, str], number: int) -> Round:
    """Let a DAG processor make two rounds, each by a process of its own; the second one counts."""
    specs = folder / f"specs_{number}"
    for each in range(number):
        write_spec(specs, f"survey_{each:04d}")
    given = {**environment, "HIPSLAKE_SPECS": str(specs)}
    command = [sys.executable, "-m", "airflow", "dag-processor", "--num-runs", "1"]
    for _ in range(2):
        start, before = time.perf_counter(), _processor()
        subprocess.run(command, env=given, check=True, capture_output=True)
        seconds, processor = time.perf_counter() - start, _processor() - before
    code = (
        "import time; from hipslake_airflow import spec_dags; spec_dags(); start = time.process_time(); "
        "dags = spec_dags(); print(len(dags), time.process_time() - start)"
    )
    told = subprocess.run([sys.executable, "-c", code], env=given, check=True, capture_output=True, text=True)
    dags, ours = told.stdout.split()[-2:]
    shutil.rmtree(specs)
    return Round(number, int(dags), seconds, processor, float(ours))


def write_spec(specs: Path, name: str) -> None:
    """Write the demo's spec of Gaia under another name into a folder of specs."""
    path = specs / "catalogs" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SPEC.read_text().replace("name: gaia_dr3", f"name: {name}"))


def table_of_changes(found: Sequence[Change]) -> list[str]:
    """Return the lines of Markdown about changes."""
    return [
        "## One of many specs has changed",
        "",
        "The specs lie in one folder, or in several with a DAG file each, of which the file is parsed whose "
        "folder has changed. *Seconds* are those of reading its specs and making its DAG objects, in a "
        "process that has the pipelines imported.",
        "",
        "| specs | folders | DAGs of the file | seconds |",
        "|---:|---:|---:|---:|",
        *(f"| {each.specs:,} | {each.folders} | {each.dags:,} | {each.seconds:.2f} |" for each in found),
    ]


def table(rounds: Sequence[Round]) -> list[str]:
    """Return the lines of Markdown about rounds."""
    return [
        "## DAG files of many specs",
        "",
        "One round of the DAG processor over all DAG files, by a process of its own, with its start, and "
        "with all DAGs known from a round before. *Processor* is that of the DAG processor and of the "
        "processes that parse; of it, *ours* is reading specs and making DAG objects. The rest is Airflow's: "
        "it serializes each DAG, checks it against its schema, and compares it with its database.",
        "",
        "| specs | DAGs | seconds | processor | ours | processor ms per DAG |",
        "|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {each.specs:,} | {each.dags:,} | {each.seconds:.1f} | {each.processor:.1f} | {each.ours:.1f} "
            f"| {each.processor / each.dags * 1e3:.1f} |"
            for each in rounds
        ),
    ]


def is_met(rounds: Sequence[Round]) -> bool:
    """Whether a round over a thousand specs takes no more than a minute of one core."""
    return all(each.processor <= BAR for each in rounds if each.specs == BAR_SPECS)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
