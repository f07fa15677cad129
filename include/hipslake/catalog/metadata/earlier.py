"""Increments that metadata.json does not list: those before the newest ones, in a sidecar.

A catalog gains an increment every night, for years, and metadata.json is read whenever it is opened. So it
lists the newest ones only. Of the others it keeps what readers ask for most, their writes and sums; the rest
of what is known of them is read when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pydantic import Field, ValidationError

from hipslake.catalog.metadata.increments import Increment
from hipslake.catalog.partitions import Sidecar, read_sidecar, write_sidecar
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_told

MOST_LISTED = 32
"""Most increments that metadata.json lists."""

LISTED_AGAIN = 16
"""How many it goes on listing when there are more; so that not every night writes a sidecar."""

_SIDECAR = pa.struct({"path": pa.string(), "rows": pa.int64(), "sha256": pa.string()})
_SOURCE = pa.struct({"uri": pa.string(), "size": pa.int64(), "stamp": pa.string(), "rows": pa.int64()})
_LEAF = pa.struct({"order": pa.int32(), "npix": pa.int64(), "rows": pa.int64()})

INCREMENT_SCHEMA = pa.schema(
    {
        "ordinal": pa.int32(),
        "key": pa.string(),
        "end": pa.string(),
        "rows": pa.int64(),
        "write_id": pa.string(),
        "fingerprint": pa.string(),
        "sources": pa.struct(
            {
                "files": pa.int64(),
                "rows": pa.int64(),
                "bytes": pa.int64(),
                "entries": pa.list_(_SOURCE),
                "sidecar": _SIDECAR,
            }
        ),
        "rejects": pa.struct(
            {"rows": pa.int64(), "path": pa.string(), "reasons": pa.map_(pa.string(), pa.int64())}
        ),
        "coverage": _SIDECAR,
        "by_leaf": pa.bool_(),
        "leaves": pa.list_(_LEAF),
    }
)
"""A row is an increment, as metadata.json would tell it."""


class EarlierIncrements(Sidecar):
    """The increments before those that metadata.json lists; the sidecar has one row for each."""

    last: int = Field(ge=0, description="the greatest of their ordinals")
    writes: tuple[str, ...] = Field(min_length=1, description="the write of each, ascending by ordinal")
    total_rows: int
    rows_read: int = Field(description="from source files")
    rows_rejected: int

    def read(self, storage: Storage) -> tuple[Increment, ...]:
        """The increments, ascending by ordinal; `storage` is at the catalog's root.

        Raises
        ------
        CatalogFormatError
            The sidecar is damaged, or not the one that metadata.json describes.
        """
        where, table = storage.uri(self.path), read_sidecar(storage, self, INCREMENT_SCHEMA)
        with damage_told(where):
            rows = table.to_pylist(maps_as_pydicts="lossy")
        try:
            found = tuple(Increment.model_validate(row) for row in rows)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise CatalogFormatError(
                f"{where}: {key}: {first['msg']}; restore the file, or upgrade hipslake if it is older"
            ) from error
        if tuple(each.write_id for each in found) != self.writes or found[-1].ordinal != self.last:
            raise CatalogFormatError(f"{where}: not the increments that metadata.json describes")
        return found


def set_aside(increments: Sequence[Increment], storage: Storage, write_id: str) -> EarlierIncrements:
    """Put increments into a sidecar.

    Parameters
    ----------
    increments : sequence of Increment
        Ascending by ordinal; at least one.
    storage : Storage
        At the catalog's root.
    write_id : str
        The write that the sidecar belongs to.
    """
    table = pa.Table.from_pylist([_row(each) for each in increments], INCREMENT_SCHEMA)
    stored = write_sidecar(storage, write_id, "increments", table)
    return EarlierIncrements(
        **stored.model_dump(),
        last=increments[-1].ordinal,
        writes=tuple(each.write_id for each in increments),
        total_rows=sum(each.rows for each in increments),
        rows_read=sum(each.sources.rows for each in increments),
        rows_rejected=sum(each.rejects.rows for each in increments),
    )


def _row(increment: Increment) -> dict[str, Any]:
    told = increment.model_dump(mode="json")
    told["rejects"]["reasons"] = list(increment.rejects.reasons.items())
    return told
