"""What was worked out once is kept, up to so many bytes; what was not used for longest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import TIMEOUT_MAX, Lock
from typing import TypeVar, cast

from hipslake.errors import StoreTimeoutError
from hipslake.storage.timeouts import deadline

Value = TypeVar("Value")


class Kept:
    """Values by key, for several threads. Who asks for a value that is being made waits for it.

    Parameters
    ----------
    most_bytes : int
        What the values may weigh together. A heavier one is handed out and not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._values: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._making: dict[Hashable, Lock] = {}

    def get(self, key: Hashable, make: Callable[[], Value], weigh: Callable[[Value], int]) -> Value:
        """The value of a key, made if it is not there.

        Parameters
        ----------
        key : hashable
            Two values of one key are alike.
        make : callable
            Gives the value; what it raises is passed on, and the next one tries again.
        weigh : callable
            From a value to its bytes.

        Raises
        ------
        StoreTimeoutError
            Another makes it, and was not done by the deadline of who asks.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return cast("Value", self._values[key][0])
            making = self._making.setdefault(key, Lock())
        end = deadline()
        if not making.acquire(timeout=min(end.left(), TIMEOUT_MAX)):
            raise StoreTimeoutError(f"another request reads the same from its store, and gave {end.told()}")
        try:
            with self._lock:
                if key in self._values:
                    return cast("Value", self._values[key][0])
            try:
                value = make()
                self._keep(key, value, weigh(value))
            finally:
                with self._lock:
                    self._making.pop(key, None)
        finally:
            making.release()
        return value

    def _keep(self, key: Hashable, value: object, weight: int) -> None:
        if weight > self._most:
            return
        with self._lock:
            self._values[key] = (value, weight)
            self._bytes += weight
            while self._bytes > self._most:
                _, (_, lighter) = self._values.popitem(last=False)
                self._bytes -= lighter
