"""How much memory this process may still take: what the machine has left, and what its container may have."""

from __future__ import annotations

from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
_GROUP_FILES = (  # of a control group: its limit, what it uses, and of which kinds, by version
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def machine_memory(told: Path = _MACHINE) -> int | None:
    """Return the bytes that the machine has available; None where its kernel does not say."""
    kilobytes = _number_of("MemAvailable:", told)
    return None if kilobytes is None else 1024 * kilobytes


def available_memory(machine: Path = _MACHINE, group: Path = _GROUP) -> int | None:
    """Return the bytes that this process may still take; None where the kernel does not say.

    Parameters
    ----------
    machine : Path
        `/proc/meminfo`.
    group : Path
        Where the control group of this process is mounted (version 2 or 1), whose limit a container sets.
        What it holds of files that nobody has open counts as available.
    """
    found = machine_memory(machine)
    if found is None:
        return None
    for limit, used, kinds, files in _GROUP_FILES:
        try:
            free = int((group / limit).read_text()) - int((group / used).read_text())
        except (OSError, ValueError):  # there is no such group, or "max": no limit
            continue
        found = min(found, free + (_number_of(files, group / kinds) or 0))
    return max(found, 0)


def _number_of(name: str, told: Path) -> int | None:
    """The number behind a name, of a file of the kernel that has one per line; None if there is none."""
    try:
        words = (line.split() for line in told.read_text().splitlines())
        return next(int(line[1]) for line in words if line[:1] == [name])
    except (OSError, ValueError, IndexError, StopIteration):
        return None
