"""Waiting between two tries."""

from __future__ import annotations

import random
import time


def wait_for_others(tries: int, *, first: float = 0.2, longest: float = 20.0) -> None:
    """Sleep before the next try: exponential backoff with jitter, so that writers do not meet again.

    Parameters are those of `pause_after`.
    """
    time.sleep(pause_after(tries, first=first, longest=longest))


def pause_after(tries: int, *, first: float, longest: float) -> float:
    """The seconds before the next try.

    Parameters
    ----------
    tries : int
        That have failed so far, from 1 on.
    first, longest : float
        Seconds: half to one and a half times `first` after the first try, twice that after each further
        one, up to `longest`.
    """
    return min(first * 2 ** (tries - 1), longest) * random.uniform(0.5, 1.5)
