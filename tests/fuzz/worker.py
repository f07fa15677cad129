"""A process that fuzzes one target: it may die of an input, and its parent sees of which.

`python -m tests.fuzz.worker TARGET FOLDER SEED FIRST STOP` reads the inputs [FIRST, STOP), each in the empty
folder, and writes what came of it.
"""

from __future__ import annotations

import faulthandler
import gc
import resource
import shutil
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from tests.fuzz.deadly import DEADLY
from tests.fuzz.target import Target

MORE_MAPPED = 6 << 30
"""More address space is not given: who asks for it gets a MemoryError."""


def main(target_name: str, folder: Path, seed: int, first: int, stop: int) -> None:
    """Read some inputs; each gives two lines: before it is read, and what came of it."""
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # says where it hung, then dies
    target = _target(target_name)
    if target is not DEADLY:
        with suppress(Exception):  # imports are not what is measured; no input is read without the limits
            target.verdict(target.case(seed, -1), folder)
    _empty(folder)
    gc.freeze()
    _limit_mapped()
    for number in range(first, stop):
        print("begin", number, flush=True)
        case = target.case(seed, number)
        before = _peak_from_now()
        signal.setitimer(signal.ITIMER_PROF, target.cpu_seconds)  # who hangs dies of SIGPROF
        try:
            verdict = target.verdict(case, folder)
        except BaseException:
            verdict = "fault"
            sys.stderr.write(f"input {number}\n{traceback.format_exc(limit=-12)[-6000:]}\n\n")
        signal.setitimer(signal.ITIMER_PROF, 0)
        if _peak() - before > target.more_bytes:
            verdict = "memory"
            sys.stderr.write(f"input {number}\n{(_peak() - before) >> 20} MiB more\n\n")
        print("end", number, verdict, flush=True)
        _empty(folder)


def _target(name: str) -> Target:
    if name == DEADLY.name:
        return DEADLY
    from tests.fuzz.targets import TARGETS

    return TARGETS[name]


def _empty(folder: Path) -> None:
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def _peak_from_now() -> int:
    """Forget the most memory that this process has had, as the input was made; return what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """The most memory that this process has had; `getrusage` would tell that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def _limit_mapped() -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MORE_MAPPED, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
