"""An operation on a store: the requests that it is, and how long it may wait for their answers."""

from __future__ import annotations

import math
import time

from hipslake.storage.timeouts import CONNECT, READ, REQUEST, TRIES, Deadline, Timeouts


class UnansweredError(Exception):
    """A last try got no answer. Not a `TimeoutError`, after which clients would try again."""


class Operation:
    """The state of a running operation: the time of its last answer, and the requests without one since."""

    def __init__(self, limits: Timeouts, end: Deadline, *, limited: bool) -> None:
        self.limits, self.end = limits, end
        self._limited = limited
        self._answered = time.monotonic()
        self._silent = 0
        self._began = False

    def begin(self) -> None:
        """Note that a request is sent; the time before the first one, to make a client, does not count."""
        if not self._began:
            self._began, self._answered = True, time.monotonic()

    def answered(self) -> None:
        """Note that a request was answered."""
        self._answered, self._silent = time.monotonic(), 0

    def count_silent(self, what: str) -> None:
        """Count a request without an answer; raises `UnansweredError` if it was the last try."""
        self._silent += 1
        self.check_tries(self._silent, what)

    def check_tries(self, silent: int, what: str) -> None:
        """Raise `UnansweredError` if a request was repeated as often as is allowed, without an answer."""
        if silent >= self.limits.tries:
            times = f", {silent} times ({TRIES})" if silent > 1 else ""
            raise UnansweredError(f"{what}{times}")

    def silence(self) -> str:
        """The message where an answer stopped coming."""
        return f"no byte came for {self.limits.read:g} s ({READ})"

    def no_connection(self) -> str:
        """The message where no connection was made."""
        return f"no connection within {self.limits.connect:g} s ({CONNECT})"

    def left(self) -> float:
        """Seconds that the operation may take until its next answer."""
        request = self._answered + self.limits.request - time.monotonic() if self._limited else math.inf
        return max(0.0, min(request, self.end.left()))

    def text(self) -> str:
        """The message of the error when no time is left."""
        if self.end.left() <= 0:
            return self.end.text()
        return f"a request was not answered to its end within {self.limits.request:g} s ({REQUEST})"
