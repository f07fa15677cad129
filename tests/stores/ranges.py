"""Ranges of files, asked for together."""

from __future__ import annotations

from collections.abc import Sequence

from hipslake.storage.folder import Storage
from hipslake.storage.request_pool import AskedRange, RequestPool


def read_ranges(storage: Storage, asked: Sequence[tuple[str, int, int]]) -> list[bytes]:
    """The bytes of some ranges: paths, starts, and stops."""
    with RequestPool() as pool:
        return [bytes(came.result()) for came in pool.ranges([AskedRange(storage, *each) for each in asked])]
