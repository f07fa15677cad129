"""Timeouts of requests to stores and catalogs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from hipslake.errors import SpecError

CONNECT = "HIPSLAKE_STORE_CONNECT_SECONDS"
READ = "HIPSLAKE_STORE_READ_SECONDS"
REQUEST = "HIPSLAKE_STORE_REQUEST_SECONDS"
TRIES = "HIPSLAKE_STORE_TRIES"
SETTINGS = (CONNECT, READ, REQUEST, TRIES)

_MOST_SECONDS = 86400.0
_MOST_TRIES = 100


@dataclass(frozen=True)
class Timeouts:
    """The limits of a request to a store or a catalog.

    Attributes
    ----------
    connect : float
        Most seconds until a connection is made.
    read : float
        Most seconds without a byte while an answer is awaited or read; of S3, until its headers are there.
    request : float
        Most seconds from the start of a request to the last byte of its answer, and between the answers to
        two requests of one operation, such as the pages of a listing.
    tries : int
        Number of requests without an answer after which an operation fails.
    """

    connect: float = 10.0
    read: float = 60.0
    request: float = 300.0
    tries: int = 3

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Timeouts:
        """The limits that environment variables set; the defaults for those that are not set.

        Raises
        ------
        SpecError
            A variable is no number, or out of bounds.
        """
        return cls(
            connect=seconds_of(environment, CONNECT, cls.connect),
            read=seconds_of(environment, READ, cls.read),
            request=seconds_of(environment, REQUEST, cls.request),
            tries=_tries_of(environment),
        )

    def within(self, seconds: float) -> Timeouts:
        """The limits for an operation that may take some seconds in all: one try, in part of that time."""
        return Timeouts(
            connect=min(self.connect, seconds / 4),
            read=min(self.read, seconds / 4),
            request=min(self.request, seconds / 2),
            tries=1,
        )


@dataclass(frozen=True)
class Deadline:
    """The time at which all waiting for stores and catalogs ends.

    Attributes
    ----------
    at : float
        In seconds of `time.monotonic`; infinite if there is no deadline.
    seconds : float
        Seconds from the beginning to the deadline, for messages.
    setting : str
        The environment variable that sets it, for messages; "" if none does.
    """

    at: float = math.inf
    seconds: float = math.inf
    setting: str = ""

    def left(self) -> float:
        """Seconds until the deadline; 0 if it has passed."""
        return max(0.0, self.at - time.monotonic())

    def text(self) -> str:
        """The message of the error when the deadline has passed."""
        return f"no answer within {self.seconds:g} s{f' ({self.setting})' if self.setting else ''}"


_LIMITS: ContextVar[Timeouts | None] = ContextVar("timeouts", default=None)
_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def timeouts() -> Timeouts:
    """The limits in force: those of `within`, else of the environment; `SpecError` as of `Timeouts.of`."""
    return _LIMITS.get() or Timeouts.of(os.environ)


def deadline() -> Deadline:
    """The deadline in force; an infinite one outside of `within`."""
    return _DEADLINE.get() or Deadline()


@contextmanager
def within(end: Deadline) -> Iterator[None]:
    """Set a deadline for all requests to stores and catalogs in the block, in this thread."""
    limits = _LIMITS.set(Timeouts.of(os.environ).within(end.seconds))
    until = _DEADLINE.set(min(end, deadline(), key=lambda each: each.at))
    try:
        yield
    finally:
        _LIMITS.reset(limits)
        _DEADLINE.reset(until)


@contextmanager
def limited(**limits: float) -> Iterator[None]:
    """Replace limits, named as in `Timeouts`, inside the block, in this thread."""
    before = _LIMITS.set(replace(timeouts(), **limits))  # type: ignore[arg-type]
    try:
        yield
    finally:
        _LIMITS.reset(before)


def seconds_of(
    environment: Mapping[str, str],
    name: str,
    default: float,
    *,
    most: float = _MOST_SECONDS,
    zero: bool = False,
) -> float:
    """The seconds that a variable sets, more than 0 (or 0, if `zero`) and at most `most`, by default a day.

    Raises
    ------
    SpecError
        It is no such number.
    """
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= most or (seconds == 0 and not zero):
        least = "0" if zero else "above 0"
        raise SpecError(
            f"{name} is {text!r}, which is no number of seconds from {least} to {most:g}; "
            f"correct it, or leave it away for {default:g}"
        )
    return seconds


def set_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of these limits that are set: for workers on other machines."""
    return {name: environment[name] for name in SETTINGS if environment.get(name)}


def _tries_of(environment: Mapping[str, str]) -> int:
    text = environment.get(TRIES, "").strip()
    if not text:
        return Timeouts.tries
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _MOST_TRIES):
        raise SpecError(
            f"{TRIES} is {text!r}, which is no whole number from 1 to {_MOST_TRIES}; correct it, or leave it "
            f"away for {Timeouts.tries}"
        )
    return int(text)
