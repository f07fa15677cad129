"""How processes take memory from the kernel."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_THP_DISABLE = 41  # linux/prctl.h


def use_small_pages() -> None:
    """Take no huge pages from now on; processes that this one starts do not either. Linux only.

    numpy and Arrow ask for them. They are cut from the largest free blocks, which in a virtual machine the
    host may long have taken back: then each is fetched anew and zeroed, which takes several times as long as
    small pages that were in use a moment ago.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)  # an old kernel's refusal does no harm
