"""Stamps of leaf files of others: what the store said of them when they were adopted, and says now.

A stamp is the ETag of an object, or when a file was written. A catalog that is opened where it lies has none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq
from cachetools import TTLCache, cached

from hipslake.errors import VerificationError
from hipslake.storage.entry import Entry
from hipslake.storage.folder import Storage

STAMP_SCHEMA = pa.schema(
    [pa.field("path", pa.string(), nullable=False), pa.field("stamp", pa.string(), nullable=False)]
)
"""Columns of a sidecar of stamps: paths relative to the catalog's root, and the stamps of these files."""

_ASKED_AGAIN = 60  # seconds after which a store is asked again for the stamp of an object


def check_stamps(storage: Storage, stamps: str, files: Iterable[str]) -> None:
    """Look whether leaf files are those that were adopted.

    Parameters
    ----------
    storage : Storage
        At the root of the catalog that adopted them.
    stamps : str
        Path of the sidecar of stamps; "" if there is none.
    files : iterable of str
        Paths of the files.

    Raises
    ------
    FileNotFoundError
        One is gone.
    VerificationError
        One was written since, or was not there; or the sidecar is missing or damaged.
    """
    if not stamps:
        return
    known = _known(storage, stamps)
    for path in files:
        then = known.get(path)
        now = _object(storage, path) if "://" in storage.uri(path) else storage.entry(path)
        if then is None or (then and now.stamp and then != now.stamp):
            what = "was not there" if then is None else f"was another one ({then}, and is {now.stamp} now)"
            raise VerificationError(
                f"{storage.uri(path)} {what} when the catalog was adopted: others have changed it; adopt it "
                "anew, with 'force'"
            )


@functools.lru_cache(maxsize=64)
def _known(storage: Storage, stamps: str) -> Mapping[str, str]:
    """The stamps in a sidecar, by path; it is never written again."""
    try:
        table = pq.read_table(pa.BufferReader(storage.read(stamps)), schema=STAMP_SCHEMA)
    except (FileNotFoundError, pa.ArrowException) as error:
        raise VerificationError(
            f"{storage.uri(stamps)} cannot be read ({error}); by it, leaf files that others have changed are "
            "known: restore it, or adopt the catalog anew"
        ) from error
    return dict(zip(table["path"].to_pylist(), table["stamp"].to_pylist(), strict=True))


@cached(TTLCache(maxsize=100_000, ttl=_ASKED_AGAIN), lock=Lock())
def _object(storage: Storage, path: str) -> Entry:
    return storage.entry(path)
