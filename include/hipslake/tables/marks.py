"""Marks: what a table keeps of each sink, so that the same rows do not come twice, and are found again.

Older marks of a spec are packed into one text, of about 60 bytes each, in what is needed to know whether the
same rows come again, and to find the rows that they brought. Digests are cut to 64 bits there.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import AwareDatetime

from hipslake.errors import PlanError
from hipslake.specs.base import Frozen
from hipslake.tables.sink_order import StreamBatch, VersionRows

PREFIX = "hipslake.sunk."
"""Properties of a table: its newest sinks, one by one."""

KEPT = 400
"""So many sinks a table keeps one by one: a year of nights."""


class SnapshotPlace(NamedTuple):
    """A snapshot's place among all of its table, ascending with the time of the commit.

    Attributes
    ----------
    sequence : int
        Its sequence number; 0 in tables of format version 1, which know none.
    milliseconds : int
        Its time, since 1970 UTC.
    """

    sequence: int
    milliseconds: int


class SinkMark(Frozen):
    """One sink whose rows a table has.

    With neither write nor digests: a key of which none is known to stand. It was sunk on another line of
    snapshots (`absent_on` is one of this line), or some sink of it may stand here, but nothing tells which.
    """

    key: str  # what the rows are of: `SinkOrder.key`
    fingerprint: str
    content: str  # what decided the rows, whatever the spec made of them
    rows: int  # that were added
    write: str  # id of the write
    at: AwareDatetime | None = None  # when; None: the id of the write says it, to the minute
    start: AwareDatetime | None = None  # of the interval
    end: AwareDatetime | None = None
    whole: bool = False  # of all that a source has: there is one such sink per spec
    source: VersionRows | None = None  # where these rows can be read again
    alone: bool | None = None  # the files of the write hold its rows only; None: that was not noted
    replaced: SinkMark | None = None  # of that key, which is part of the table again after a rollback
    earliest: SnapshotPlace | None = None  # its own snapshot lies here or later
    absent_on: int | None = None  # a snapshot; none of the key stands on what descends from it
    since: SnapshotPlace | None = None  # `earliest` of the first sink of the key
    batch: StreamBatch | None = None  # of a stream: the newest that the table has, with all before it


# The fields of a row of `packed`, in its order.
_PACKED = ("key", "fingerprint", "content", "rows", "write", "at", "start", "end", "alone", "source")
_DIGEST, _CUT = 64, 16  # hexadecimal digits
_MOST = 1 << 26  # bytes, unpacked: of a million nights


def packed(sinks: Iterable[SinkMark]) -> str:
    """The text of a property.

    Parameters
    ----------
    sinks : iterable of SinkMark
        Of one spec.
    """
    sources: list[dict[str, Any]] = []
    rows, places = [], []
    sinks = sorted(sinks, key=lambda each: each.key)
    for sunk in sinks:
        place = _place_of(sunk.source)
        if place is not None and place not in sources:
            sources.append(place)
        rows.append(
            [
                sunk.key,
                _cut(sunk.fingerprint),
                _cut(sunk.content),
                sunk.rows,
                sunk.write,
                sunk.at.isoformat() if sunk.at else None,
                sunk.start.isoformat() if sunk.start else None,
                sunk.end.isoformat() if sunk.end else None,
                sunk.alone,
                [sources.index(place), sunk.source.version, sunk.source.increment]
                if place is not None and sunk.source is not None
                else None,
            ]
        )
        places.append([sunk.earliest, sunk.since])
    told: dict[str, Any] = {"sources": sources, "sinks": rows, "places": places}
    if batches := {each.key: each.batch.model_dump(mode="json") for each in sinks if each.batch is not None}:
        told["batches"] = batches
    text = json.dumps(told, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str, name: str) -> dict[str, SinkMark]:
    """The sinks of a property, by key; the inverse of `packed`, but for what of digests is cut.

    Parameters
    ----------
    text, name : str
        Of the property.

    Raises
    ------
    PlanError
        It is not ours.
    """
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), _MOST)
        told = json.loads(data)
        rows = told["sinks"]
        places = told.get("places") or [[None, None]] * len(rows)  # earlier versions noted none
        batches = told.get("batches") or {}
        found = [
            _sunk_of(row, told["sources"], earliest, since, batches.get(row[0]))
            for row, (earliest, since) in zip(rows, places, strict=True)
        ]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, zlib.error) as error:
        raise PlanError(
            f"property {name!r} of the table does not say what was sunk before ({str(error)[:200]}); remove "
            "it, if nothing of these intervals is sunk again"
        ) from None
    return {sunk.key: sunk for sunk in found}


def same_digest(known: str, asked: str) -> bool:
    """Whether a digest that may have been cut is that of the same."""
    return asked.startswith(known) if len(known) == _CUT else asked == known


def _cut(digest: str) -> str:
    return digest[:_CUT] if len(digest) == _DIGEST else digest


def _place_of(source: VersionRows | None) -> dict[str, Any] | None:
    """What many sinks have in common."""
    return None if source is None else source.model_dump(mode="json", include={"uri", "columns", "filters"})


def _sunk_of(
    row: list[Any], sources: list[Mapping[str, Any]], earliest: Any, since: Any, batch: Any
) -> SinkMark:
    told = dict(zip(_PACKED, row, strict=True))
    if told["source"] is not None:
        number, version, increment = told["source"]
        whole = {"version": version, "increment": increment, "content": told["content"]}
        told["source"] = {**sources[number], **whole}
    return SinkMark.model_validate({**told, "earliest": earliest, "since": since, "batch": batch})


def spec_of(key: str) -> str:
    """The name of the spec of a sink, by its key."""
    return key.partition("/")[0]
