"""Settings for speed of a process that runs the library and nothing else."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys

_PR_SET_THP_DISABLE = 41  # linux/prctl.h
_COLLECTED_AFTER = (50_000, 20, 20)  # new objects, and collections of the younger generation


def tune_process() -> None:
    """Set up a process of our own: a command line, the driver of a Spark job, or one of its workers.

    Not for the processes of others that use the library. Garbage is collected less often, and not once more
    when the process ends: modules and models make hundreds of thousands of objects that all stay. To look
    through them took a sixth of the time of imports, and a fifth of a second at the end. There are no
    huge pages; and numpy, if it is imported later, starts no threads for linear algebra, of which the library
    has next to none.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*_COLLECTED_AFTER)
    atexit.register(gc.freeze)
    use_small_pages()


def use_small_pages() -> None:
    """Take no huge pages from now on; processes that this one starts do not either. Linux only.

    numpy and Arrow ask for them. They are cut from the largest free blocks, which in a virtual machine the
    host may long have taken back: then each is fetched anew and zeroed, which takes several times as long as
    small pages that were in use a moment ago.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)  # an old kernel's refusal does no harm
