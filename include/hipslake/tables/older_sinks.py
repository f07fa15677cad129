"""Older sinks of a spec, packed into one property of the table: about 60 bytes each.

Each metadata file of a table holds all of its properties. Packed are those sinks that are not among the
newest, in what is needed to know whether the same rows come again, and to find the rows that they brought.
Digests are cut to 64 bits.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from hipslake.errors import PlanError
from hipslake.tables.marks import Sunk
from hipslake.tables.sink_order import CatalogRows

_DIGEST, _CUT = 64, 16  # hexadecimal digits
_MOST = 1 << 26  # bytes, unpacked: of a million nights


def packed(sinks: Iterable[Sunk]) -> str:
    """The text of a property.

    Parameters
    ----------
    sinks : iterable of Sunk
        Of one spec.
    """
    sources: list[dict[str, Any]] = []
    rows, places = [], []
    for sunk in sorted(sinks, key=lambda each: each.key):
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
    told = {"sources": sources, "sinks": rows, "places": places}
    text = json.dumps(told, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str, name: str) -> dict[str, Sunk]:
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
        found = [_sunk_of(row, told["sources"], *of) for row, of in zip(rows, places, strict=True)]
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


def _place_of(source: CatalogRows | None) -> dict[str, Any] | None:
    """What many sinks have in common."""
    if source is None:
        return None
    return {
        "uri": source.uri,
        "columns": None if source.columns is None else list(source.columns),
        "filters": source.filters,
    }


def _sunk_of(row: list[Any], sources: list[Mapping[str, Any]], earliest: Any, since: Any) -> Sunk:
    key, fingerprint, content, rows, write, at, start, end, alone, source = row
    place = None
    if source is not None:
        number, version, increment = source
        place = {**sources[number], "version": version, "increment": increment, "content": content}
    return Sunk.model_validate(
        {
            "key": key,
            "fingerprint": fingerprint,
            "content": content,
            "rows": rows,
            "write": write,
            "at": at,
            "start": start,
            "end": end,
            "alone": alone,
            "source": place,
            "earliest": earliest,
            "since": since,
        }
    )
