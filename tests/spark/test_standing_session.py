"""A Spark session that stands: who gets it, and what is left of a step that is killed in it.

Steps are processes of their own here: this one may have a session of its own, which is not left for another.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hipslake.spark.attached import NoSessionError, attached_session
from hipslake.spark.standing_session import MOST_ENVIRONMENTS, listen
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PATHS = [str(ROOT / "include"), str(ROOT / "plugins"), str(ROOT)]
MASTER = "local[2,4]"
WITHIN = 120.0  # seconds for a session to stand, on a busy machine

STEP = """
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
from hipslake.spark import attached
from hipslake.spark.attached import LostSessionError, NoSessionError, attached_session
from hipslake.spark.engine import SparkEngine

places, folder, what = sys.argv[1].split(os.pathsep), Path(sys.argv[2]), sys.argv[3]
schema = pa.schema([("n", pa.int64())])

def count(number):
    counter.add(number)
    yield pa.record_batch([[number * 10]], schema)

def write_on(number):
    for _ in range(1200):
        with (folder / f"written_{number}").open("a") as file:
            file.write("x")
        time.sleep(0.05)
    yield pa.record_batch([[number]], schema)

def fail_late(number):
    if number == 0:
        time.sleep(1.0)
        raise RuntimeError("of this task")
    yield from write_on(number)

if what == "another library":
    attached.library_stamp = lambda: "another"
if what == "gives up":
    signal.signal(signal.SIGUSR1, lambda *_: attached.give_up())
def use(place):
    global counter
    master = "local[7]" if what == "another master" else "MASTER"
    with attached_session(place, master=master, name=what) as spark:
        print(spark.sparkContext.applicationId, flush=True)
        engine = SparkEngine(spark)
        if what == "holds":
            sys.stdin.readline()
        if what == "fails":
            raise ValueError("as a step does")
        if what in ("works on", "gives up"):
            engine.run(write_on, tasks=2, result=schema)
        if what == "fails in Spark":
            engine.run(fail_late, tasks=2, result=schema)
        if what == "shuffles":
            spark.range(0, 1000000, 1, 4).repartition(3).selectExpr("sum(id)").toArrow()
        for _ in range(2):
            counter = engine.counter()
            print(*engine.run(count, tasks=4, result=schema)["n"].to_pylist(), counter.value, flush=True)

for place in places:
    try:
        use(Path(place))
    except (NoSessionError, LostSessionError, ValueError) as error:
        print(type(error).__name__, error, flush=True)
    except Exception as error:
        sizes = [each.stat().st_size for each in folder.glob("written_*")]
        print("Other", len(sizes), flush=True)
        time.sleep(1.0)
        print(sizes == [each.stat().st_size for each in folder.glob("written_*")], flush=True)
""".replace("MASTER", MASTER)


def environment() -> dict[str, str]:
    path = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return os.environ | {"PYTHONPATH": path, "HIPSLAKE_SPARK_MASTER": MASTER}


def start(place: Path | list[Path], folder: Path, what: str, **given: str) -> subprocess.Popen[str]:
    """Start a process that uses the session, or one after the other, for something."""
    places = os.pathsep.join(map(str, place if isinstance(place, list) else [place]))
    return subprocess.Popen(
        [sys.executable, "-c", STEP, places, str(folder), what],
        env=environment() | given,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def told(place: Path | list[Path], folder: Path, what: str, **given: str) -> list[str]:
    """What such a process has printed, line by line."""
    with start(place, folder, what, **given) as process:
        return process.communicate(timeout=WITHIN)[0].splitlines()


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def stands(place: Path) -> bool:
    """Whether somebody listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(place))
        except OSError:
            return False
    return True


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, psutil.Process]]:
    """The socket of a session that stands, and the process that keeps it."""
    place = tmp_path_factory.mktemp("s") / "own" / "s.sock"
    log = (place.parent.parent / "log").open("w")
    local = place.parent.parent / "local"
    local.mkdir()
    command = [sys.executable, "-m", "hipslake.spark.standing_session", str(place)]
    given = environment() | {"SPARK_LOCAL_DIRS": str(local)}
    process = subprocess.Popen(command, env=given, stdout=log, stderr=log)
    try:
        eventually(lambda: stands(place))
        yield place, psutil.Process(process.pid)
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(60)
        log.close()
        _, left = psutil.wait_procs(family, timeout=30)
        for each in left:
            each.kill()
    assert process.returncode == 0
    assert left == []
    assert not place.exists()


def jvms(keeper: psutil.Process) -> list[psutil.Process]:
    return [each for each in keeper.children(recursive=True) if each.name() == "java"]


def test_steps_use_one_application_after_another(keeper: tuple[Path, psutil.Process], tmp_path: Path) -> None:
    first, second = (told(keeper[0], tmp_path, "counts") for _ in range(2))
    assert first == second
    assert first[1:] == ["0 10 20 30 6"] * 2
    assert len(jvms(keeper[1])) == 1


def test_who_comes_while_it_is_in_use_is_told_so(keeper: tuple[Path, psutil.Process], tmp_path: Path) -> None:
    with start(keeper[0], tmp_path, "holds") as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        application = holder.stdout.readline().strip()
        (refused,) = told(keeper[0], tmp_path, "counts")
        assert refused.startswith("NoSessionError")
        assert "in use" in refused
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "0 10 20 30 6\n"
    assert told(keeper[0], tmp_path, "counts")[0] == application


def test_a_session_is_not_for_another_library_or_master(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    application = told(keeper[0], tmp_path, "counts")[0]
    for what, why in (("another library", "another state of the library"), ("another master", "local[7]")):
        (refused,) = told(keeper[0], tmp_path, what)
        assert refused.startswith("NoSessionError")
        assert why in refused
    assert told(keeper[0], tmp_path, "counts")[0] == application


def test_a_step_that_fails_leaves_the_session_as_it_was(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    application, failure = told(keeper[0], tmp_path, "fails")
    assert failure == "ValueError as a step does"
    assert told(keeper[0], tmp_path, "counts")[0] == application


@pytest.mark.parametrize("sign", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_nothing_of_a_step_goes_on_when_its_process_is_killed(
    keeper: tuple[Path, psutil.Process], tmp_path: Path, sign: signal.Signals
) -> None:
    written = [tmp_path / f"written_{number}" for number in range(2)]
    with start(keeper[0], tmp_path, "works on") as step:
        assert step.stdout is not None
        application = step.stdout.readline().strip()
        eventually(lambda: all(each.exists() for each in written))
        old = jvms(keeper[1])
        step.send_signal(sign)
    eventually(lambda: not any(each.is_running() for each in old))
    time.sleep(1.0)
    sizes = [each.stat().st_size for each in written]
    time.sleep(1.0)
    assert [each.stat().st_size for each in written] == sizes
    eventually(lambda: stands(keeper[0]) and told(keeper[0], tmp_path, "counts")[1:] == ["0 10 20 30 6"] * 2)
    assert told(keeper[0], tmp_path, "counts")[0] != application


@pytest.mark.slow
def test_a_step_is_told_when_its_jvm_dies_and_another_session_comes(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    with start(keeper[0], tmp_path, "works on") as step:
        assert step.stdout is not None
        application = step.stdout.readline().strip()
        eventually(lambda: (tmp_path / "written_0").exists())
        for each in jvms(keeper[1]):
            each.kill()
        assert step.stdout.readline().startswith("LostSessionError")
    eventually(lambda: stands(keeper[0]) and told(keeper[0], tmp_path, "counts")[1:] == ["0 10 20 30 6"] * 2)
    assert told(keeper[0], tmp_path, "counts")[0] != application


@pytest.mark.slow
def test_a_step_that_fails_in_spark_waits_until_its_tasks_have_ended_and_leaves_no_session(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    """It may be tried again at once; and a JVM that fails steps is not kept for others."""
    application, failure, quiet = told(keeper[0], tmp_path, "fails in Spark")
    assert (failure, quiet) == ("Other 1", "True")
    eventually(lambda: stands(keeper[0]) and told(keeper[0], tmp_path, "counts")[1:] == ["0 10 20 30 6"] * 2)
    assert told(keeper[0], tmp_path, "counts")[0] != application


@pytest.mark.slow
def test_a_step_may_end_the_session_with_what_it_runs(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    """As a task does that Airflow tells to end, before it is killed."""
    with start(keeper[0], tmp_path, "gives up") as step:
        assert step.stdout is not None
        step.stdout.readline()
        eventually(lambda: (tmp_path / "written_0").exists())
        old = jvms(keeper[1])
        step.send_signal(signal.SIGUSR1)
        assert step.stdout.readline().startswith("LostSessionError")
    eventually(lambda: not any(each.is_running() for each in old))
    eventually(lambda: stands(keeper[0]) and told(keeper[0], tmp_path, "counts")[1:] == ["0 10 20 30 6"] * 2)


def test_nothing_of_a_step_is_left_on_disk(keeper: tuple[Path, psutil.Process], tmp_path: Path) -> None:
    local = keeper[0].parent.parent / "local"

    def left() -> set[Path]:
        kept = [*local.rglob("shuffle_*"), *(each for each in local.rglob("pyspark-*") if each.is_dir())]
        return {each for each in kept if each.exists()}

    told(keeper[0], tmp_path, "counts")
    before = left()
    assert told(keeper[0], tmp_path, "shuffles")[1:] == ["0 10 20 30 6"] * 2
    told(keeper[0], tmp_path, "counts")  # who comes next gets it once the one before is over
    assert {each for each in left() - before if each.name.startswith("shuffle_")} == set()
    assert len(left()) == len(before)


@pytest.mark.parametrize(
    "given",
    [{"AWS_PROFILE": "a-profile"}, {"HIPSLAKE_STALE_SECONDS": "7"}, {"HTTPS_PROXY": "http://there:1"}],
)
def test_a_session_is_not_for_another_environment(
    keeper: tuple[Path, psutil.Process], tmp_path: Path, given: dict[str, str]
) -> None:
    eventually(lambda: stands(keeper[0]))
    (refused,) = told(keeper[0], tmp_path, "counts", **given)
    assert refused.startswith("NoSessionError")
    assert refused.endswith(f"another environment: {next(iter(given))}")
    assert next(iter(given.values())) not in refused


@pytest.mark.slow
def test_workers_have_what_a_step_hands_on_and_are_not_kept_for_ever(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    applications = []
    for tries in range(3, 3 + MOST_ENVIRONMENTS):
        found: list[str] = []

        def counts(tries: str = str(tries), found: list[str] = found) -> bool:
            found[:] = told(keeper[0], tmp_path, "counts", HIPSLAKE_STORE_TRIES=tries)
            return found[1:] == ["0 10 20 30 6"] * 2

        eventually(lambda: stands(keeper[0]) and counts())
        applications.append(found[0])
        daemons = [
            each
            for each in keeper[1].children(recursive=True)
            if each.ppid() in {jvm.pid for jvm in jvms(keeper[1])} and "python" in each.name()
        ]
        assert len(daemons) <= MOST_ENVIRONMENTS
    assert len(set(applications)) <= 2  # what steps hand on is not of itself another session
    eventually(lambda: stands(keeper[0]) and told(keeper[0], tmp_path, "counts")[1:] == ["0 10 20 30 6"] * 2)
    assert told(keeper[0], tmp_path, "counts")[0] != applications[0]


@pytest.mark.slow
def test_a_session_ends_with_the_process_that_keeps_it(tmp_path: Path) -> None:
    """Nobody would end it later: a keeper that is started anew does not know it."""
    place = tmp_path / "own" / "s"
    command = [sys.executable, "-m", "hipslake.spark.standing_session", str(place)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, env=environment(), stdout=log) as process,
    ):
        eventually(lambda: stands(place))
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    gone, left = psutil.wait_procs(family, timeout=30)
    for each in left:
        each.kill()
    assert gone
    assert left == []


def test_who_speaks_another_language_gets_nothing(
    keeper: tuple[Path, psutil.Process], tmp_path: Path
) -> None:
    eventually(lambda: stands(keeper[0]))
    for said in (b"", b"\n", b"[]\n", b"{}\n", b'{"library": 7}\n', b"GET / HTTP/1.1\r\n\r\n"):
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(str(keeper[0]))
            other.sendall(said)
            other.shutdown(socket.SHUT_WR)
            other.settimeout(WITHIN)
            assert b"secret" not in other.recv(1 << 16), said
        assert stands(keeper[0]), said
    assert told(keeper[0], tmp_path, "counts")[1:] == ["0 10 20 30 6"] * 2


def test_where_none_stands_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    places = [tmp_path / name for name in ("missing", "file", "dead")]
    refused = told(places, tmp_path, "counts")
    assert [
        line.startswith(f"NoSessionError no Spark session stands at {place}")
        for place, line in zip(places, refused, strict=True)
    ] == [True] * 3


def test_a_process_with_a_session_of_its_own_keeps_it(
    spark: SparkSession, keeper: tuple[Path, psutil.Process]
) -> None:
    with (
        pytest.raises(NoSessionError, match="of its own"),
        attached_session(keeper[0], master=MASTER, name="ours"),
    ):
        raise AssertionError
    assert spark.range(3).count() == 3


def test_the_socket_is_its_users_alone(tmp_path: Path) -> None:
    place = tmp_path / "own" / "s"
    for _ in range(2):  # in the place of one that nobody listens at any more
        listen(place).close()
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert place.stat().st_mode & 0o777 == 0o600
    place.parent.chmod(0o750)
    with pytest.raises(PermissionError, match="yours alone"):
        listen(place)
    with pytest.raises(OSError, match="too long for a socket"):
        listen(tmp_path / ("x" * 120) / "s")
