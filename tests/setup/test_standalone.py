"""Stopping Airflow: everything that it started ends, also what left its process group or lost its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parents[2] / "include" / "setup" / "standalone.py"
POLITE = "trap 'kill $(jobs -p); exit' INT; sleep 100 & sleep 100 & echo $!; wait"
STUBBORN = "trap '' INT; sleep 100 & setsid sleep 100 & echo $!; wait; wait"


def down(home: Path) -> str:
    """Run `standalone.py down` with little patience; return what it says."""
    environment = os.environ | {"AIRFLOW_HOME": str(home), "HIPSLAKE_DOWN_SECONDS": "0.3"}
    command = [sys.executable, str(SCRIPT), "down"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], psutil.Process]]:
    """Start a shell script as `up` starts Airflow; it prints one line when it is ready."""
    started: list[subprocess.Popen[str]] = []

    def start_one(text: str) -> psutil.Process:
        # An interrupt that is ignored, as below `nohup` and in scripts' background jobs, cannot be trapped.
        leader = subprocess.Popen(
            ["env", "--default-signal=INT", "bash", "-c", text],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(leader)
        assert leader.stdout is not None
        leader.stdout.readline()
        process = psutil.Process(leader.pid)
        entry = {"pid": leader.pid, "started": process.create_time(), "url": "http://127.0.0.1:1"}
        (tmp_path / "standalone.json").write_text(json.dumps(entry))
        return process

    yield start_one
    for leader in started:
        with leader:
            leader.kill()


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that run and are no zombies."""
    running = [process for process in processes if process.is_running()]
    return [process for process in running if process.status() != psutil.STATUS_ZOMBIE]


def test_nothing_to_stop_is_fine(tmp_path: Path) -> None:
    assert down(tmp_path) == "hipslake: Airflow is not running\n"


def test_an_interrupt_is_enough_for_the_polite(
    tmp_path: Path, start: Callable[[str], psutil.Process]
) -> None:
    leader = start(POLITE)
    family = [leader, *leader.children(recursive=True)]
    assert len(family) == 3
    assert down(tmp_path).endswith("hipslake: Airflow is stopped\n")
    assert alive(family) == []
    assert down(tmp_path) == "hipslake: Airflow is not running\n"


def test_what_ignores_the_interrupt_or_left_the_session_is_ended_too(
    tmp_path: Path, start: Callable[[str], psutil.Process]
) -> None:
    leader = start(STUBBORN)
    family = [leader, *leader.children(recursive=True)]
    assert len(family) == 3
    assert "still running were ended" in down(tmp_path)
    assert alive(family) == []


def test_orphans_of_a_killed_airflow_are_found(
    tmp_path: Path, start: Callable[[str], psutil.Process]
) -> None:
    leader = start(POLITE)
    orphans = leader.children(recursive=True)
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    assert len(alive(orphans)) == 2
    assert "Airflow is stopped" in down(tmp_path)
    assert alive(orphans) == []


def test_an_id_that_another_program_has_now_is_left_alone(
    tmp_path: Path, start: Callable[[str], psutil.Process]
) -> None:
    leader = start(POLITE)
    entry = {"pid": leader.pid, "started": leader.create_time() - 3600, "url": "http://127.0.0.1:1"}
    (tmp_path / "standalone.json").write_text(json.dumps(entry))
    assert down(tmp_path) == "hipslake: Airflow is not running\n"
    assert alive([leader]) == [leader]
