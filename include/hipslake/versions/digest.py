"""The checksum that a version's file has of itself, so that a single changed letter of it is noticed.

The key `sha256` comes last. Its digits are the SHA-256 of the file as it is with zeros in their place:

    sed 's/"sha256": "[0-9a-f]\\{64\\}"$/"sha256": "'$(printf 0%.0s $(seq 64))'"/' 00000003.json | sha256sum

Versions that older libraries committed have none.
"""

from __future__ import annotations

import hashlib
import re

UNSIGNED = "0" * 64
"""What stands in place of the digits while they are worked out."""

_LAST_KEY = re.compile(rb'"sha256": "([0-9a-f]{64})"\s*\}\s*\Z')
_TAIL = 160  # bytes at the end of a file that hold the key


def signed(data: bytes) -> bytes:
    """A metadata file, whose last key has zeros, with its checksum there."""
    start, stop = _place(data)
    return data[:start] + hashlib.sha256(data).hexdigest().encode() + data[stop:]


def is_signed(data: bytes) -> bool:
    """Whether a metadata file has a checksum of itself, right or wrong."""
    return _found(data) is not None


def is_intact(data: bytes) -> bool:
    """Whether a metadata file is, letter by letter, what was written; True if it has no checksum."""
    if not is_signed(data):
        return True
    start, stop = _place(data)
    plain = data[:start] + UNSIGNED.encode() + data[stop:]
    return hashlib.sha256(plain).hexdigest().encode() == data[start:stop]


def _found(data: bytes) -> re.Match[bytes] | None:
    return _LAST_KEY.search(data, max(0, len(data) - _TAIL))


def _place(data: bytes) -> tuple[int, int]:
    found = _found(data)
    if found is None:
        raise ValueError("the metadata has no place for a checksum")
    return found.span(1)
