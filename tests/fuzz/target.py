"""What is fuzzed: something that reads, and what it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hipslake.errors import HipslakeError

MOST_CHARACTERS = 10_000
"""No message is longer: it goes into reports, logs and the page."""
_STARVED = re.compile(r"\b(m|re)alloc of size|Unable to allocate|Cannot allocate")


@dataclass(frozen=True)
class Case:
    """One input.

    Parameters
    ----------
    data : bytes
        What is read.
    ending : str
        Of the file that it is kept in.
    told : dict
        What else the reader is told; plain values.
    """

    data: bytes
    ending: str = ".txt"
    told: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """Something that reads.

    Parameters
    ----------
    name : str
    make : callable
        An input, from a generator of random numbers.
    read : callable
        Reads an input; the folder is the input's own, and empty.
    share : int
        How many of all inputs it gets, beside the other targets.
    refusals : tuple of type
        The errors by which it may refuse an input.
    cpu_seconds : float
        An input that takes more of the processor hangs.
    more_bytes : int
        An input that takes so much more memory is at fault.
    """

    name: str
    make: Callable[[Random], Case]
    read: Callable[[Case, Path], None]
    share: int = 1
    refusals: tuple[type[Exception], ...] = (HipslakeError,)
    cpu_seconds: float = 10.0
    more_bytes: int = 512 << 20

    def case(self, seed: int, number: int) -> Case:
        """The input of a number: the same for the same seed."""
        random = Random(f"{seed}/{self.name}/{number}")
        while True:
            try:
                return self.make(random)
            except RecursionError:  # nested within what is nested, it cannot be written
                continue

    def verdict(self, case: Case, folder: Path) -> str:
        """Read an input; "read", or "refused".

        Raises
        ------
        BaseException
            Whatever is no error of ours.
        AssertionError
            An error of ours that says too little, or too much.
        """
        try:
            self.read(case, folder)
        except self.refusals as error:
            refusal = error
        else:
            return "read"
        said, kind = str(refusal), type(refusal).__name__
        assert said.strip(), f"{kind} says nothing"
        assert not _STARVED.search(said), f"{kind} blames the input for the memory: {said[:200]}"
        assert len(said) <= MOST_CHARACTERS, f"{kind} says {len(said)} characters: {said[:200]}"
        assert said.replace("\n", "").isprintable(), f"{kind} is not printable: {said[:2000]!r}"
        return "refused"


@contextmanager
def refusals() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Give what tries a use of an input and answers None where it is refused; at the end, raise the first.

    So one that is refused keeps no other from being tried.
    """
    refused: list[HipslakeError] = []

    def tried(use: Callable[[], Any]) -> Any:
        try:
            return use()
        except HipslakeError as error:
            refused.append(error)
            return None

    yield tried
    if refused:
        raise refused[0]
