"""The checks of the machine: one line for each thing that is wrong, naming the mend."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKS = Path(__file__).parents[2] / "include" / "setup" / "checks.sh"
TOOLS = ("bash", "dirname", "awk", "df", "env")


def check(*names: str, **environment: str) -> tuple[int, list[str]]:
    """Run checks; return the exit code and the lines on standard error."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["bash", CHECKS, *names], env=kept | environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A folder with the few tools that the checks use, to be the whole PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool} on this machine"))
    return folder


def program(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path


def java(path: Path, version: str) -> Path:
    """Write a program that answers `-version` as Java does: on standard error."""
    return program(path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.2", "25-ea"])
def test_java_from_17_on_passes(bare_path: Path, version: str) -> None:
    java(bare_path / "java", version)
    assert check("java", PATH=str(bare_path)) == (0, [])


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", "8"), ("11.0.22", "11"), ("16.0.1", "16")])
def test_java_that_is_too_old_is_named_with_the_mend(bare_path: Path, version: str, major: str) -> None:
    path = java(bare_path / "java", version)
    code, lines = check("java", PATH=str(bare_path))
    assert (code, len(lines)) == (1, 1)
    assert f"Java {major} at " in lines[0]
    assert path.name in lines[0]
    assert "apt install openjdk-17-jre-headless" in lines[0]


def test_missing_java_is_one_line_with_the_mend(bare_path: Path) -> None:
    code, lines = check("java", PATH=str(bare_path))
    assert (code, len(lines)) == (1, 1)
    assert "Java is missing" in lines[0]
    assert "apt install openjdk-17-jre-headless" in lines[0]


def test_java_home_goes_before_the_path(bare_path: Path, tmp_path: Path) -> None:
    java(bare_path / "java", "11.0.22")
    home = java(tmp_path / "java home" / "bin" / "java", "21.0.2").parents[1]
    assert check("java", PATH=str(bare_path), JAVA_HOME=str(home)) == (0, [])


def test_java_home_without_java_is_named(bare_path: Path, tmp_path: Path) -> None:
    java(bare_path / "java", "21.0.2")
    code, lines = check("java", PATH=str(bare_path), JAVA_HOME=str(tmp_path / "nowhere"))
    assert (code, len(lines)) == (1, 1)
    assert f"JAVA_HOME is {tmp_path / 'nowhere'}" in lines[0]


def test_python_that_is_too_old_is_named_with_the_mend(bare_path: Path) -> None:
    program(bare_path / "python3", '[[ $1 == --version ]] && echo "Python 3.10.12" || exit 1')
    code, lines = check("python", PATH=str(bare_path))
    assert (code, len(lines)) == (1, 1)
    assert "Python 3.11 or newer is needed, found 3.10.12" in lines[0]
    assert "apt install python3" in lines[0]


def test_a_newer_python_beside_an_old_one_is_found(bare_path: Path) -> None:
    program(bare_path / "python3", '[[ $1 == --version ]] && echo "Python 3.10.12" || exit 1')
    program(bare_path / "python3.12", "exit 0")
    assert check("python", "venv", PATH=str(bare_path)) == (0, [])


def test_a_named_python_is_taken_alone(bare_path: Path) -> None:
    program(bare_path / "python3", "exit 0")
    code, lines = check("python", PATH=str(bare_path), HIPSLAKE_PYTHON="/no/such/python")
    assert (code, len(lines)) == (1, 1)
    assert "/no/such/python" in lines[0]


def test_missing_venv_module_is_one_line_with_the_mend(bare_path: Path) -> None:
    program(bare_path / "python3", "[[ $2 != *venv* ]]")
    code, lines = check("python", "venv", PATH=str(bare_path))
    assert (code, len(lines)) == (1, 1)
    assert "has no venv module" in lines[0]
    assert "apt install python3-venv" in lines[0]


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port of 127.0.0.1 that a program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_port_is_one_line_naming_the_variable(taken_port: int) -> None:
    code, lines = check("port", HIPSLAKE_PORT=str(taken_port))
    assert (code, len(lines)) == (1, 1)
    assert f"port {taken_port} of 127.0.0.1 is taken" in lines[0]
    assert f"HIPSLAKE_PORT={taken_port + 1} make up" in lines[0]


def test_a_free_port_passes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert check("port", HIPSLAKE_PORT=str(port)) == (0, [])


@pytest.mark.parametrize("port", ["http", "80", "65000", "1e4", "-8080", "8080; true"])
def test_a_port_that_is_none_is_an_error(port: str) -> None:
    code, lines = check("port", HIPSLAKE_PORT=port)
    assert (code, len(lines)) == (1, 1)
    assert "must be a number from 1024 to 64000" in lines[0]


def full_disk(folder: Path, free_kilobytes: int) -> None:
    """Put a `df` on the PATH that reports so much room."""
    (folder / "df").unlink()
    program(folder / "df", f"echo head; echo /dev/vda1 100000 99000 {free_kilobytes} 99% /")


def test_a_full_disk_names_folder_and_variable(bare_path: Path, tmp_path: Path) -> None:
    full_disk(bare_path, 20 * 1024)
    places = {
        "HIPSLAKE_LANDING": "s3://bucket/landing",
        "HIPSLAKE_WAREHOUSE": str(tmp_path / "not there yet" / "warehouse"),
        "AIRFLOW_HOME": "gs://odd/but/no/df",
        "HIPSLAKE_SETUP_MEGABYTES": "0",
    }
    code, lines = check("space", PATH=str(bare_path), **places)
    assert (code, len(lines)) == (1, 1)
    assert f"only 20 MB are free at {tmp_path}" in lines[0]
    assert "HIPSLAKE_WAREHOUSE" in lines[0]


def test_enough_room_passes(bare_path: Path) -> None:
    full_disk(bare_path, 5_000_000)
    assert check("space", PATH=str(bare_path)) == (0, [])


def test_all_that_is_wrong_is_said_at_once(bare_path: Path, taken_port: int) -> None:
    code, lines = check("java", "python", "port", PATH=str(bare_path), HIPSLAKE_PORT=str(taken_port))
    assert (code, len(lines)) == (1, 3)


def test_without_a_python_of_3_8_the_peer_of_the_cube_benchmark_says_where_to_get_one(
    bare_path: Path,
) -> None:
    code, said = check("python38", PATH=str(bare_path), HOME=str(bare_path))
    assert (code, len(said)) == (1, 1)
    assert "Python 3.8 with its venv module is needed for kartothek" in said[0]
    assert "HIPSLAKE_PYTHON38=/path/to/python3.8" in said[0]
    newer = program(bare_path / "python3.9", "exit 1")
    assert str(newer) in check("python38", PATH=str(bare_path), HIPSLAKE_PYTHON38=str(newer))[1][0]
