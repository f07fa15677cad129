"""How much memory a process may take, by what the kernel says of the machine and of its control group."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hipslake.storage.available_memory import available_memory, machine_memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    told = tmp_path / "meminfo"
    told.write_text(f"MemTotal: {32 << 20} kB\nMemAvailable:   {8 << 20} kB\nBuffers: 5 kB\n")
    return told


def group_of(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 8 * GIB),
        ({"memory.max": "max\n", "memory.current": "5"}, 8 * GIB),
        ({"memory.max": str(64 * GIB), "memory.current": "5"}, 8 * GIB),
        ({"memory.max": str(4 * GIB), "memory.current": str(GIB)}, 3 * GIB),
        (
            {
                "memory.max": str(4 * GIB),
                "memory.current": str(3 * GIB),
                "memory.stat": f"anon 7\ninactive_file {2 * GIB}\n",
            },
            3 * GIB,
        ),
        ({"memory.max": str(GIB), "memory.current": str(2 * GIB)}, 0),
        (
            {
                "memory/memory.limit_in_bytes": str(2 * GIB),
                "memory/memory.usage_in_bytes": str(GIB),
                "memory/memory.stat": f"total_inactive_file {GIB // 2}\n",
            },
            3 * GIB // 2,
        ),
        (
            {"memory/memory.limit_in_bytes": str((1 << 63) - 4096), "memory/memory.usage_in_bytes": "5"},
            8 * GIB,
        ),
    ],
)
def test_the_smaller_of_what_the_machine_and_the_container_have_left(
    tmp_path: Path, machine: Path, files: dict[str, str], free: int
) -> None:
    assert available_memory(machine, group_of(tmp_path / "group", files)) == free


@pytest.mark.parametrize("text", [None, "", "MemTotal: 5 kB\n", "MemAvailable: much\n", "MemAvailable:\n"])
def test_a_kernel_that_does_not_say_it(tmp_path: Path, text: str | None) -> None:
    told = tmp_path / "meminfo"
    if text is not None:
        told.write_text(text)
    assert machine_memory(told) is None
    assert available_memory(told, tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not say it")
def test_this_machine_says_it() -> None:
    found, of_machine = available_memory(), machine_memory()
    assert found is not None
    assert of_machine is not None
    assert of_machine > 64 << 20
    assert 0 <= found <= 2 * of_machine
