"""A cache of bounded size, with one lock per key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import TIMEOUT_MAX, Lock
from typing import Any, TypeVar, cast

from cachetools import LRUCache
from hipslake.errors import StoreTimeoutError
from hipslake.storage.timeouts import deadline

Value = TypeVar("Value")


class SizedCache:
    """A cache for several threads that evicts the least recently used values; each value is computed once.

    A lock per key has other threads that ask for a value wait while it is computed.

    Parameters
    ----------
    most_bytes : int
        The size of all values together. A larger value is returned, but not cached.
    """

    def __init__(self, most_bytes: int) -> None:
        # A pair (value, bytes): sizes are computed outside of the lock.
        self._values: LRUCache[Hashable, tuple[Any, int]] = LRUCache(
            most_bytes, getsizeof=lambda pair: pair[1]
        )
        self._lock = Lock()
        self._computing: dict[Hashable, Lock] = {}

    def get(self, key: Hashable, compute: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """Return the value of a key; compute it if it is not cached.

        Parameters
        ----------
        key : hashable
        compute : callable
            Gives the value. An error is raised to the caller, and the next call computes again.
        size : callable
            From a value to its bytes.

        Raises
        ------
        StoreTimeoutError
            Another thread computes it, and did not finish before the deadline of this one.
        """
        with self._lock:
            if key in self._values:
                return cast("Value", self._values[key][0])
            computing = self._computing.setdefault(key, Lock())
        end = deadline()
        if not computing.acquire(timeout=min(end.left(), TIMEOUT_MAX)):
            raise StoreTimeoutError(f"another request reads the same from its store, and gave {end.text()}")
        try:
            with self._lock:
                if key in self._values:
                    return cast("Value", self._values[key][0])
            try:
                value = compute()
                pair = value, size(value)
                with self._lock:
                    if pair[1] <= self._values.maxsize:
                        self._values[key] = pair
            finally:
                with self._lock:
                    self._computing.pop(key, None)
        finally:
            computing.release()
        return value
