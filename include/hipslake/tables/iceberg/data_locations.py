"""Where the files of a table go, by its properties: the folder of data files, and in it that of a write."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise

DATA = "data"
"""The folder of a table's location in which data files lie, unless the table names another."""

DATA_PATH = "write.data.path"
"""The property of a table that names it."""

METADATA = "metadata"
"""The folder of a table's location for its own files, unless the table names another."""

METADATA_PATH = "write.metadata.path"
"""The property of a table that names it."""

SPREAD = "write.object-storage.enabled"
"""The property of a table whose files are to be spread over the prefixes of an object store."""

_HASH_BITS = 20
_PARTS = (0, 4, 8, 12, _HASH_BITS)  # folders of a hash, as Iceberg's own writers have them


def data_location(location: str, properties: Mapping[str, str]) -> str:
    """The folder that data files of a table go to."""
    return (properties.get(DATA_PATH) or f"{location.rstrip('/')}/{DATA}").rstrip("/")


def is_spread(properties: Mapping[str, str]) -> bool:
    """Whether files of a table are to be spread over the prefixes of an object store."""
    return properties.get(SPREAD, "false").strip().lower() == "true"


def folder_of_write(write_id: str, properties: Mapping[str, str]) -> str:
    """The folder of a write below that of the data files.

    Where files are to be spread, a hash of the write's id comes first: so those of different writes lie under
    different prefixes, and what a dead write has left is found without a list of all files.

    Examples
    --------
    >>> folder_of_write("20261122T0000-0123456789ab", {})
    '20261122T0000-0123456789ab'
    >>> folder_of_write("20261122T0000-0123456789ab", {SPREAD: "true"})
    '0001/0100/0011/10001001/20261122T0000-0123456789ab'
    """
    if not is_spread(properties):
        return write_id
    number = int.from_bytes(hashlib.sha256(write_id.encode()).digest()[:4], "big")
    bits = f"{number:032b}"[:_HASH_BITS]
    parts = [bits[start:stop] for start, stop in pairwise(_PARTS)]
    return "/".join([*parts, write_id])
