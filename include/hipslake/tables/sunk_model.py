"""What a table tells of one sink."""

from __future__ import annotations

from pydantic import AwareDatetime

from hipslake.specs.base import Frozen
from hipslake.tables.order import CatalogRows


class Sunk(Frozen):
    """One sink that stands in a table."""

    key: str  # what the rows are of: `SinkOrder.key`
    fingerprint: str
    content: str  # what decided the rows, whatever the spec made of them
    rows: int  # that were added
    write: str  # id of the write
    at: AwareDatetime | None = None  # when; None: the id of the write says it, to the minute
    start: AwareDatetime | None = None  # of the interval
    end: AwareDatetime | None = None
    whole: bool = False  # of all that a source has: there is one such sink per spec
    source: CatalogRows | None = None  # where these rows can be read again
    alone: bool | None = None  # the files of the write hold its rows only; None: that was not noted
    replaced: Sunk | None = None  # of that key, which stands again after a rollback
