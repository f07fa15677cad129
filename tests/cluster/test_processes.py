"""Processes in the background: found whole, whatever they did to get lost, and nobody else's are touched."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hipslake_cluster.processes import Background

from tests.trust.waiting import until

# A child, one in a session of its own, and one without our mark that lost its parent.
SCATTERED = "sleep 100 & setsid sleep 101 & (env -u HIPSLAKE_SERVICE sleep 102 &) ; exec sleep 103"
STUBBORN = "trap '' TERM; sleep 100 & while true; do wait; done"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Background]:
    run = Background(tmp_path / "run", f"{tmp_path}#run")
    yield run
    run.kill()


def start(run: Background, script: str, processes: int) -> list[psutil.Process]:
    run.start(["bash", "-c", script], os.environ, run.folder.parent)
    until(lambda: len(run.family()) == processes, seconds=60, what=f"{processes} processes")
    return run.family()


def running(processes: list[psutil.Process]) -> list[int]:
    return [one.pid for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_a_kill_leaves_nothing_of_it(run: Background) -> None:
    family = start(run, SCATTERED, 4)
    assert run.kill() == 4
    assert running(family) == []
    assert run.pid is None
    assert run.was_started, "it is known that it should run"


def test_what_is_left_of_a_dead_leader_is_killed_before_it_starts_again(run: Background) -> None:
    family = start(run, SCATTERED, 4)
    assert run.pid is not None
    os.kill(run.pid, signal.SIGKILL)
    until(lambda: run.pid is None, seconds=60, what="its death")
    assert len(run.family()) == 3
    again = start(run, "exec sleep 50", 1)
    assert running(family) == []
    assert [one.pid for one in again] == [run.pid]


def test_it_is_asked_to_end_before_it_is_killed(run: Background) -> None:
    start(run, "trap 'echo asked; exit' TERM; echo ready; while true; do sleep 0.1; done", 2)
    until(lambda: "ready" in run.log.read_text(), seconds=60, what="its trap")
    assert run.stop(seconds=60) == 0
    assert run.log.read_text() == "ready\nasked\n"
    assert not run.was_started


def test_who_does_not_listen_is_killed(run: Background) -> None:
    family = start(run, STUBBORN, 2)
    assert run.stop(seconds=0.5) >= 1
    assert running(family) == []


def test_an_id_that_another_program_has_now_is_left_alone(run: Background) -> None:
    (other,) = start(run, "exec sleep 100", 1)
    entry = {"pid": os.getpid(), "started": psutil.Process().create_time() - 3600}
    (run.folder / "process.json").write_text(json.dumps(entry))
    assert run.pid is None
    # While the shell becomes the other program, nobody sees its environment.
    until(lambda: [one.pid for one in run.family()] == [other.pid], seconds=60, what="its mark")
    assert run.family() == [other], "and not this process"


def test_two_with_different_marks_do_not_meet(run: Background, tmp_path: Path) -> None:
    start(run, "exec sleep 100", 1)
    second = Background(tmp_path / "second", f"{tmp_path}#second")
    start(second, "exec sleep 100", 1)
    assert second.kill() == 1
    assert len(run.family()) == 1


def test_titles_written_over_the_environment_hide_nothing(run: Background) -> None:
    titled = (
        "import os, time; from setproctitle import setproctitle; setproctitle('x' * 9000);"
        "os.fork() or setproctitle('y' * 9000); time.sleep(100)"
    )
    run.start([sys.executable, "-c", titled], os.environ, run.folder.parent)
    until(lambda: len(run.family()) == 2, seconds=60, what="its fork")
    assert run.kill() == 2
