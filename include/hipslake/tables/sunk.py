"""What was sunk into a table: kept as its properties, which outlive snapshots, set by the commit itself."""

from __future__ import annotations

import hashlib

from pydantic import ValidationError
from pyiceberg.table import Table

from hipslake.errors import PlanError
from hipslake.specs.base import Frozen

PREFIX = "hipslake.sunk."


class Sunk(Frozen):
    """One sink that stands in a table."""

    key: str  # what the rows are of: `SinkOrder.key`
    fingerprint: str
    content: str  # what decided the rows, whatever the spec made of them
    rows: int  # that were added
    write: str  # id of the write


def sunk_properties(sunk: Sunk) -> dict[str, str]:
    """The property that a commit sets: one per key, so that sinks do not overwrite each other's."""
    return {_name(sunk.key): sunk.model_dump_json()}


def known_sink(table: Table, key: str) -> Sunk | None:
    """What was sunk under a key; None if nothing was.

    Raises
    ------
    PlanError
        The property is not ours.
    """
    text = table.properties.get(_name(key))
    if text is None:
        return None
    try:
        return Sunk.model_validate_json(text)
    except ValidationError as error:
        raise PlanError(
            f"table {'.'.join(table.name())}: property {_name(key)!r} does not say what was sunk "
            f"({error}); remove it, if nothing of that interval is in the table"
        ) from None


def _name(key: str) -> str:
    return PREFIX + hashlib.sha256(key.encode()).hexdigest()[:16]
