"""How much a file may grow while it is read: small files can stand for more than any disk holds."""

from __future__ import annotations

from hipslake.errors import InputError
from hipslake.sources.source_file import SourceFile

ALWAYS_FINE = 1 << 30
"""Bytes that any file may become."""
VALUES_RATIO = 1000
"""Bytes of values per byte of a file, at most, where values are stored once and named often."""
UNPACKED_RATIO = 100
"""Bytes of a temporary file per byte of the compressed one, at most."""


def most_bytes(file: SourceFile, ratio: int) -> int:
    """Return how many bytes a file may become."""
    return max(ALWAYS_FINE, ratio * file.size)


def check_expansion(found: int, file: SourceFile, ratio: int, what: str) -> None:
    """Refuse a file that becomes more than it may.

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
