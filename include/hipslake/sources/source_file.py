"""What the readers agree on: a source file, a split of it, and the batches that come out."""

from __future__ import annotations

from typing import Literal

from hipslake.specs.base import Frozen


class SourceFile(Frozen):
    """One input file as it was listed; the fingerprint of a run is made of these."""

    ordinal: int  # its place in the source order: files sorted by URI
    uri: str
    size: int  # bytes
    stamp: str  # etag where the store gives one, else the modification time in ISO 8601
    place: str | None = None  # the local folder that no link of its path leads out of; None: anywhere


class Split(Frozen):
    """The part of a source file that one task reads: row groups, bytes or rows [start, stop)."""

    ordinal: int  # its place in the source order, over all files
    file: SourceFile
    unit: Literal["row_groups", "bytes", "rows"]
    start: int
    stop: int
