"""How a job's processes start: what they import, and from where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from hipslake.spark.daemon import IMPORTED
from hipslake.spark.exchange import collected, run_tasks
from pyspark.sql import SparkSession

HOME = Path(pyspark.__file__).parent
ZIPS = sorted((HOME / "python" / "lib").glob("*.zip"))
ROOT = Path(__file__).parents[2]


def python(program: str, **variables: str) -> str:
    """Run a program as Spark starts Python: its zips first on the path."""
    path = os.pathsep.join(map(str, [*ZIPS, ROOT / "include"]))
    environment = {**os.environ, "PYTHONPATH": path, "SPARK_HOME": str(HOME), **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


PREFERRED = """
from hipslake.spark.installed import prefer_installed_pyspark
prefer_installed_pyspark()
import pyspark, py4j
print(pyspark.__file__)
"""


def test_pyspark_comes_from_the_environment_and_not_from_zips() -> None:
    assert ZIPS
    assert python(PREFERRED).strip() == str(HOME / "__init__.py")


def test_the_zips_of_another_spark_are_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "python" / "lib"
    elsewhere.mkdir(parents=True)
    zips = [elsewhere / path.name for path in ZIPS]
    for copy, path in zip(zips, ZIPS, strict=True):
        copy.symlink_to(path)
    path = os.pathsep.join(map(str, [*zips, ROOT / "include"]))
    found = python(PREFERRED, PYTHONPATH=path, SPARK_HOME=str(tmp_path)).strip()
    assert Path(found).is_relative_to(elsewhere)


@pytest.mark.parametrize("quietly", [False, True])
def test_workers_whom_nobody_asks_any_more_end_without_a_word(quietly: bool) -> None:
    program = """
import socket, sys
from pyspark import daemon
from hipslake.spark.daemon import ending_quietly
ours, theirs = socket.socketpair()
theirs.close()
worker = ending_quietly(daemon.worker) if "quietly" in sys.argv else daemon.worker
sys.exit(worker(ours, True) == 0)
"""
    given = ["quietly"] if quietly else []
    told = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true"}
    command = [sys.executable, "-c", program, *given]
    done = subprocess.run(command, env=os.environ | told, capture_output=True, text=True, check=False)
    assert ("BrokenPipeError" in done.stderr) is not quietly
    assert done.returncode == (0 if quietly else 1)


def test_the_daemon_forks_with_everything_imported_and_hardly_a_thread_started() -> None:
    program = """
import sys
from pathlib import Path
from hipslake.spark.daemon import IMPORTED, prepare
prepare()
print(*(name for name in IMPORTED if name not in sys.modules))
print(*(task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()))
"""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("counts threads in /proc, which this system does not have")
    missing, threads = python(program, OMP_NUM_THREADS="1").split("\n")[:2]  # Spark sets it to a task's cores
    assert missing == ""
    assert set(threads.split()) <= {"python", "jemalloc_bg_thd"}
    assert threads.split().count("python") <= 1  # the main thread; jemalloc starts its own anew after a fork


def test_local_workers_have_the_imports_behind_them_and_take_small_pages(spark: SparkSession) -> None:
    def ask(number: int) -> list[pa.RecordBatch]:
        import sys

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        missing = [name for name in IMPORTED if name not in sys.modules]
        huge = [line for line in Path("/proc/self/status").read_text().split("\n") if "THP_enabled" in line]
        columns = {
            "daemon": [parent[2]],
            "missing": pa.array([missing], pa.list_(pa.string())),
            "huge": pa.array([huge], pa.list_(pa.string())),
        }
        return [pa.record_batch(columns)]

    result = "daemon string, missing array<string>, huge array<string>"
    told = collected(run_tasks(spark, sources=2, task=ask, result=result))
    assert told["daemon"].to_pylist() == ["hipslake.spark.daemon"] * 2
    assert told["missing"].to_pylist() == [[], []]
    assert all(pages in ([], ["THP_enabled:\t0"]) for pages in told["huge"].to_pylist())  # since Linux 5.0
