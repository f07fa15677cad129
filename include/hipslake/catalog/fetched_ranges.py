"""Ranges of leaf files in stores that are to be fetched, so that what is read of the files is in memory."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

from hipslake.catalog.leaf_opening import read_errors
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile, Range
from hipslake.storage.request_pool import AskedRange


class RangeToFetch(NamedTuple):
    """Bytes [start, stop) of a file that are to be fetched, and the file that then holds them."""

    storage: Storage
    path: str
    start: int
    stop: int
    held: HeldFile

    @property
    def asked(self) -> AskedRange:
        """The range, for a pool."""
        return AskedRange(self.storage, self.path, self.start, self.stop)

    def hold(self, came: Future[Any]) -> None:
        """Hold what came; errors as of `read_errors`."""
        with read_errors(self.storage, self.path):
            self.held.hold(self.start, self.stop, came.result())


def pieces_of(
    storage: Storage, path: str, held: HeldFile, ranges: Iterable[Range], most: int
) -> list[RangeToFetch]:
    """What is to be fetched so that a leaf file holds some ranges; `most` as for `HeldFile.missing`."""
    return [RangeToFetch(storage, path, *each, held) for each in held.missing(ranges, most)]
