"""Source files and their splits, and the limits of their expansion while they are read."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from hipslake.errors import InputError

ALWAYS_FINE = 1 << 30
"""Bytes that any file may become."""
VALUES_RATIO = 1000
"""Bytes of values per byte of a file, at most, where values are stored once and named often."""
LONGEST_ROW = 64 << 20
"""Bytes of a row, or of a value, that are read at once."""
UNPACKED_RATIO = 100
"""Bytes of a temporary file per byte of the compressed one, at most."""
LIST_AGAIN = "start a new run, or clear this one from the task that lists the files (`inputs`) on"
"""What to do about a file that is not the one that a run listed."""


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))  # a run may have very many
class SourceFile:
    """One input file as it was listed; the fingerprint of a run is made of these."""

    ordinal: int  # its place in the source order: files sorted by URI
    uri: str
    size: int  # bytes
    stamp: str  # etag where the store gives one, else the modification time in ISO 8601
    place: str | None = None  # the local folder that no link of its path leads out of; None: anywhere

    @property
    def is_local(self) -> bool:
        """Whether it lies on a file system of this machine."""
        return "://" not in self.uri


class SeekPoint(NamedTuple):
    """A place in a compressed file from which on it can be unpacked without what stands before.

    Attributes
    ----------
    bits : int
        Of the file before it.
    content : int
        Bytes that these unpack to.
    window : bytes
        The last of these, to which what follows may refer.
    """

    bits: int
    content: int
    window: bytes


class Split(NamedTuple):
    """The part of a source file that one task reads: [start, stop).

    Row groups, bytes, rows, or bytes of the content that a compressed file unpacks to, from a point in it on.
    """

    ordinal: int  # its place in the source order, over all files
    file: SourceFile
    unit: Literal["row_groups", "bytes", "rows", "content"]
    start: int
    stop: int
    point: SeekPoint | None = None


def most_bytes(file: SourceFile, ratio: int) -> int:
    """Return the most bytes that a file may expand to."""
    return max(ALWAYS_FINE, ratio * file.size)


def check_expansion(found: int, file: SourceFile, ratio: int, what: str) -> None:
    """Raise `InputError` for a file that expands beyond its limit.

    Raises
    ------
    InputError
        It does; the message names the file and `what` grows.
    """
    if found > (most := most_bytes(file, ratio)):
        raise InputError(
            f"{file.uri}: {what} of more than {most >> 20} MiB come of {file.size} bytes; write "
            "the file with less repetition, or split it"
        )
