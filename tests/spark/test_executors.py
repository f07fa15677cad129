"""How executors of a cluster are told to start, and blocks whose folder not all of them see."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from hipslake.engine.model import Block, Scratch
from hipslake.engine.scratch import blocks_in_folder
from hipslake.spark import one_machine, settings
from hipslake.spark.engine import SparkEngine
from hipslake.spark.one_machine import FolderMark, executors_at_one_address
from hipslake.spark.settings import executor_settings, launch_settings
from hipslake.spark.transport import BlocksOutOfReachError, ThroughFiles
from hipslake.storage.folder import Storage
from pyspark.sql import SparkSession

from tests.spark.number_exchange import RESULT, SOURCES, TARGETS, assert_all_came, receive, send

MASTER = {"spark.master": "spark://127.0.0.1:7077"}


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "spark.jsa"
    path.touch()
    monkeypatch.setenv(settings.CLASS_ARCHIVE, str(path))
    return path


@pytest.mark.parametrize("master", ["local", "local[2,4]", None])
def test_local_masters_have_no_executors_to_start(master: str | None) -> None:
    told = {} if master is None else {"spark.master": master}
    assert executor_settings(told, library=True) == {}


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "k8s://https://kubernetes"])
def test_what_an_administrator_has_told_executors_comes_last(master: str, archive: Path) -> None:
    told = {"spark.master": master, "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=4 -Dsite=x"}
    options = executor_settings(told, library=False)["spark.executor.defaultJavaOptions"].split()
    assert f"-XX:SharedArchiveFile={archive}" in options
    assert options[0] == "-XX:TieredStopAtLevel=1"
    assert options[-2:] == ["-XX:TieredStopAtLevel=4", "-Dsite=x"]


@pytest.mark.parametrize("collector", ["G1GC", "ParallelGC", "SerialGC", "ZGC"])
def test_executors_start_with_any_collector_of_their_administrator(archive: Path, collector: str) -> None:
    """A JVM that is told of two collectors does not start; an archive that is none is passed over."""
    ours = executor_settings(MASTER, library=True)["spark.executor.defaultJavaOptions"].split()
    archive.write_bytes(b"no archive")
    missing = [option.replace(str(archive), "/nowhere/spark.jsa") for option in ours]
    java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
    for options in (ours, missing):
        command = [java, *options, f"-XX:+Use{collector}", "-version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in (done.stdout + done.stderr).lower()


def test_the_daemon_is_ours_only_where_the_library_travels_and_no_other_is_wanted() -> None:
    daemon = "spark.python.daemon.module"
    assert executor_settings(MASTER, library=True)[daemon] == "hipslake_daemon"
    assert daemon not in executor_settings(MASTER, library=False)
    assert executor_settings(MASTER | {daemon: "theirs"}, library=True)[daemon] == "theirs"


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "local[2]"])
def test_drivers_on_this_machine_start_from_the_archive(master: str, archive: Path) -> None:
    told = launch_settings(master)
    options = [told.get(f"spark.driver.{kind}JavaOptions", "") for kind in ("default", "extra")]
    assert (str(archive) in " ".join(options)) is (master != "yarn")
    assert ("GC" in " ".join(options)) is (master == "local[2]")
    # The command line goes before spark-defaults.conf, where an administrator's extra options stand.
    assert bool(options[1]) is (master == "local[2]")


def started_daemon(folder: Path, *, library: bool = True, without: str = "") -> list[str]:
    """Start an executor's daemon from its own folder, with nothing of the project on its path.

    Returns where it has the library from, and which of the modules that it should import it has not.
    """
    package = Path(settings.__file__).parents[1]
    if library:
        with zipfile.ZipFile(folder / settings.LIBRARY, "w") as archive:
            for path in package.rglob("*.py"):
                archive.write(path, path.relative_to(package.parent))
    entry = folder / settings.DAEMON_ENTRY
    entry.write_text((package / "spark" / "executor_daemon.py").read_text())
    # Spark's daemon says where it listens, and ends when its standard input does.
    program = f"""
import runpy, sys
from pathlib import Path
if {without!r}:
    sys.modules[{without!r}] = None  # an import of it fails
try:
    runpy.run_module({entry.stem!r}, run_name="__main__")
except SystemExit:
    assert "pyspark.daemon" in sys.modules
    if "hipslake" in sys.modules:
        missing = [name for name in sys.modules["hipslake.spark.daemon"].IMPORTED if name not in sys.modules]
        print("told", sys.modules["hipslake"].__file__, *missing, file=sys.stderr)
    else:
        print("told", file=sys.stderr)
"""
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(pyspark.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    told = done.stderr.decode().splitlines()[-1].split()
    assert told[0] == "told", done.stderr.decode()
    return told[1:]


def test_an_executor_starts_the_daemon_of_the_library_beside_it(tmp_path: Path) -> None:
    assert started_daemon(tmp_path) == [f"{tmp_path / settings.LIBRARY}/hipslake/__init__.py"]


def test_an_executor_without_the_library_beside_it_starts_the_daemon_of_spark(tmp_path: Path) -> None:
    assert started_daemon(tmp_path, library=False) == []


def test_a_package_that_an_executor_lacks_does_not_keep_the_daemon_from_starting(tmp_path: Path) -> None:
    """The task that needs it says so, to the driver."""
    found = started_daemon(tmp_path, without="healpy")
    assert found[0] == f"{tmp_path / settings.LIBRARY}/hipslake/__init__.py"


def test_a_mark_is_seen_in_its_folder_on_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = FolderMark.put(tmp_path)
    assert mark.seen()
    monkeypatch.setattr(one_machine, "_BOOT", tmp_path / "boot")
    assert not mark.seen()  # a kernel that draws no id
    (tmp_path / "boot").write_text("another\n")
    assert not mark.seen()
    monkeypatch.undo()
    assert mark.seen()
    FolderMark.put(tmp_path)  # another folder at the same path
    assert not mark.seen()
    Path(mark.path).unlink()
    assert not mark.seen()


def test_a_mark_of_another_user_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that an executor wrote there, the driver could not remove."""
    mark, user = FolderMark.put(tmp_path), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert not mark.seen()


def test_a_mark_in_a_folder_that_cannot_be_written_to_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a container has mounted it for reading only; may this user, root may."""
    mark, asked = FolderMark.put(tmp_path), []

    def access(path: Path, mode: int) -> bool:
        asked.append(path)
        return not mode & os.W_OK

    monkeypatch.setattr(os, "access", access)
    assert not mark.seen()
    assert asked == [tmp_path]


def test_no_mark_is_seen_where_kernels_draw_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_machine, "_BOOT", tmp_path / "none")
    assert not FolderMark.put(tmp_path).seen()


def test_blocks_of_a_task_that_does_not_see_the_folder_travel_themselves(tmp_path: Path) -> None:
    mark = FolderMark.put(tmp_path)
    transport = ThroughFiles(str(tmp_path), 4, mark=mark)
    rows = pa.record_batch({"n": pa.array(range(100))})
    with transport.packing(0) as pack:
        reference = pack(1, rows)
    Path(mark.path).rename(tmp_path / "away")
    with transport.packing(1) as pack:
        whole = pack(1, rows)
    assert len(list((tmp_path / "1").iterdir())) == 1
    assert transport.unpacked([whole]) == [rows]
    with pytest.raises(BlocksOutOfReachError, match="on another machine"):
        transport.unpacked([whole, reference])
    (tmp_path / "away").rename(mark.path)
    assert transport.unpacked([reference, whole]) == [rows, rows]


def test_a_local_master_has_no_executors_at_an_address(spark: SparkSession) -> None:
    assert not executors_at_one_address(spark.sparkContext)


@pytest.mark.parametrize("lost", ["before the map tasks", "after a map task", "never"])
def test_an_exchange_goes_on_where_tasks_lose_sight_of_the_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr("hipslake.spark.engine.executors_at_one_address", lambda _: True)
    monkeypatch.setattr(SparkEngine, "on_this_machine", False)
    folder = tmp_path / "blocks"
    if lost == "before the map tasks":
        monkeypatch.setattr(SparkEngine, "_all_see", lambda self, mark: Path(mark.path).unlink() is None)

    def mapper(task: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        yield from send(task)
        if lost == "after a map task":
            (folder / one_machine._NAME).unlink(missing_ok=True)

    found = SparkEngine(spark).exchange(
        sources=SOURCES,
        mapper=mapper,
        targets=TARGETS,
        reducer=receive,
        result=RESULT,
        scratch=Scratch(folder, 1e3),
    )
    assert_all_came(found)
    assert not folder.exists()


def test_blocks_of_what_goes_to_a_store_wait_where_spark_has_its_own_files(spark: SparkSession) -> None:
    place = spark.sparkContext._temp_dir

    def reducer(target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        folders = len([*Path(place).glob("blocks-*/*/*.blocks")])  # those of map tasks
        rows = sum(block.rows.num_rows for block in blocks)
        yield pa.record_batch([pa.array([rows], pa.int32()), pa.array([folders], pa.int64())], schema=RESULT)

    found = SparkEngine(spark).exchange(
        sources=4,
        mapper=lambda task: iter([(0, pa.record_batch({"n": pa.array(range(10 + task))}))]),
        targets=1,
        reducer=reducer,
        result=RESULT,
        scratch=blocks_in_folder(Storage.at("memory://lake/write"), "exchange", 1e3),
    )
    assert found.to_pylist() == [{"target": 46, "n": 4}]
    assert not [*Path(place).glob("blocks-*")]
