"""Settings for speed of a process that runs the library and nothing else."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, find_spec
from typing import NoReturn

_PR_SET_THP_DISABLE = 41  # linux/prctl.h
_OF_A_COMMAND = 300_000  # objects: more than the modules and models of one are
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

KEPT_MILLISECONDS = "20000"
"""How long Arrow keeps memory that is free, instead of 10: the next batch would have to fetch it zeroed."""

_YOUNGER = 20  # collections of a generation, between two of the next


def tune_process(collected_after: int = 50_000) -> None:
    """Set up a process of our own: a command line, the driver of a Spark job, or one of its workers.

    Not for the processes of others that use the library. Garbage is collected less often, and not once more
    when the process ends: modules and models make some 200,000 objects that all stay. To look through them
    took a sixth of the time of imports, and a fifth of a second at the end. pydantic looks for no plugins
    among the packages that are installed. There are no huge pages. If they are imported later, numpy starts
    no threads for linear algebra, of which the library has next to none, and Arrow keeps memory that is free
    for a while, since it soon needs some again.

    Parameters
    ----------
    collected_after : int, optional
        New objects after which garbage is looked for. What garbage holds, such as rows, stays as long.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", KEPT_MILLISECONDS)
    gc.set_threshold(collected_after, _YOUNGER, _YOUNGER)
    atexit.register(gc.freeze)
    use_small_pages()


def tune_command() -> None:
    """Set up the process of a command line, which ends soon: as `tune_process` does, and for less garbage.

    Memory that is freed stays for what comes next, where the C library is glibc: it gives back, and fetches
    anew, page after page, each array of more than some 100 kB.
    """
    tune_process(_OF_A_COMMAND)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)


def end_process(code: int) -> NoReturn:
    """End a process of our own, whose work is done, without taking apart what it has in memory.

    What was registered to be called at the end is called, and what was printed is written; only modules and
    models are not freed one by one. Where threads still work, the process ends as others do, when they have
    ended.

    Parameters
    ----------
    code : int
        Of the exit.
    """
    for thread in threading.enumerate():
        if not (thread.daemon or thread is threading.current_thread()):
            sys.exit(code)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it, or it is closed
        sys.exit(code)
    os._exit(code)


def leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, but where a frame is asked for. For a process of our own.

    The first array that pyarrow makes of Python's values has it look whether pandas is there, which imports
    it: a quarter of a second, for a command that may take half a second else. pyarrow looks once, so it looks
    now, and finds none; `to_pandas` and `from_pandas` look again. Frames that are given to `pyarrow.array` or
    `pyarrow.table` are not told from other sequences then, and a timestamp or duration in nanoseconds becomes
    a Python value only if it is one of whole microseconds, as where pandas is not installed. No other thread
    may run yet. Without effect where pandas is imported already.
    """
    if "pandas" in sys.modules or find_spec("pandas") is None:
        return
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)


class _NoPandas:
    """Says that pandas is not there."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def import_when_used(*names: str) -> None:
    """Have modules run only when something of them is used first. For a process of our own.

    For modules of libraries that others of theirs import as a whole and a command seldom needs, such as a
    parser whose grammar takes longer to make than a small table to write. Python 3.11 does not make threads
    wait for each other that are the first to use one: so none that several threads may come to at once.

    Parameters
    ----------
    *names : str
        With their packages. Without effect for those that are imported already.
    """
    sys.meta_path.insert(0, _Lazy(frozenset(names)))


class _Lazy:
    """Finds some modules, and has them loaded lazily."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name in self._names else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def use_small_pages() -> None:
    """Take no huge pages from now on; processes that this one starts do not either. Linux only.

    numpy and Arrow ask for them. They are cut from the largest free blocks, which in a virtual machine the
    host may long have taken back: then each is fetched anew and zeroed, which takes several times as long as
    small pages that were in use a moment ago.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)  # an old kernel's refusal does no harm
