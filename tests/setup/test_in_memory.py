"""Where temporary files of tests lie: in memory if there is room, gone at the end, and never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "include" / "setup" / "in_memory.sh"
MEMORY = Path("/dev/shm")


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command by the script, where nothing says yet where temporary files lie."""
    kept = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        [SCRIPT, *command], env=kept | variables, capture_output=True, text=True, check=False
    )


def has_room() -> bool:
    """Whether there are 6 GiB for files in memory, and 4 GiB beside them."""
    if not MEMORY.exists():
        return False
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # less than may be had
    return available > 11 << 30 and shutil.disk_usage(MEMORY).free > 7 << 30 and _runs_programs()


def _runs_programs() -> bool:
    return not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC


def test_the_command_gets_its_arguments_and_its_code_is_passed_on() -> None:
    done = run("bash", "-c", 'echo "$1"; exit 7', "name", "two words")
    assert (done.stdout, done.stderr, done.returncode) == ("two words\n", "", 7)


def test_temporary_files_are_gone_when_the_command_ends() -> None:
    done = run("bash", "-c", 'touch "${TMPDIR:=$(mktemp -d)}/left"; ls -d "$TMPDIR"; echo ${TMPDIR%/*}')
    folder, above = done.stdout.split()
    if has_room():
        assert above == str(MEMORY)
    assert not Path(folder).exists() or above != str(MEMORY)


def test_a_folder_that_is_given_is_left_as_it_is(tmp_path: Path) -> None:
    done = run("bash", "-c", 'touch "$TMPDIR/left"; echo "$TMPDIR"', TMPDIR=str(tmp_path))
    assert done.stdout.strip() == str(tmp_path)
    assert (tmp_path / "left").exists()


@pytest.mark.parametrize("answer", ["1000000", ""])
def test_without_room_nothing_is_changed(tmp_path: Path, answer: str) -> None:
    df = tmp_path / "df"
    df.write_text(f"#!/bin/sh\necho Avail\necho {answer}\n")
    df.chmod(0o755)
    done = run("bash", "-c", 'echo "[$TMPDIR]"', PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.stdout == "[]\n"
