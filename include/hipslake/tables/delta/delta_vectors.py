"""Deletion vectors of Delta tables: which rows of a data file are deleted, as a bitmap of their positions.

A vector stands in the log itself, or in a file with others. It is read by Delta's published protocol, and
never written: who changes such a file writes anew what stays of it.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from pyroaring import BitMap64

from hipslake.errors import CorruptFileError
from hipslake.storage.folder import Storage
from hipslake.tables.deleted_rows import DeleteFile, Positions, Reading
from hipslake.tables.delta.delta_actions import Action, whole_path

_MAGIC = 1681511377
_UUID_CHARACTERS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)
_CACHED = 64  # vectors


@dataclass(frozen=True)
class DeletionVector(DeleteFile):
    """A vector, and where it stands.

    Attributes
    ----------
    path : str
        Of its file; of one that stands in the log, of the table.
    offset, size : int
        Where it begins in its file, and its bytes.
    inline : bytes
        What stands in the log; nothing if it is in a file.
    """

    offset: int = 0
    size: int = 0
    inline: bytes = b""

    def positions_in(self, data_file: str, read: Reading) -> Positions:
        """The positions that it deletes, ascending; it is of one data file only."""
        return _positions_of_vector(self)


def deleted_count(entry: Action) -> int:
    """How many rows of a file its deletion vector takes, by its `add`."""
    return int((entry.get("deletionVector") or {}).get("cardinality") or 0)


def vector_of(entry: Action, location: str) -> DeletionVector | None:
    """The deletion vector of a data file, by its `add`; None if it has none.

    Raises
    ------
    CorruptFileError
        It is told in no form that is known.
    """
    told: dict[str, Any] | None = entry.get("deletionVector")
    if not told:
        return None
    try:
        kind, text, size = told["storageType"], str(told["pathOrInlineDv"]), int(told["sizeInBytes"])
        if kind == "i":
            return DeletionVector(location, size=size, inline=_from_z85(text)[:size])
        if kind == "u":
            folder, identity = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            name = f"deletion_vector_{UUID(bytes=_from_z85(identity))}.bin"
            path = "/".join(part for part in (location.rstrip("/"), folder, name) if part)
        elif kind == "p":
            path = whole_path(location, text)
        else:
            raise ValueError(f"storageType is {kind!r}")
        return DeletionVector(path, offset=int(told.get("offset") or 0), size=size)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{entry['path']}: the log tells its deletion vector in a form that is not known ({error}); "
            "have the engine that wrote it rewrite the file"
        ) from None


def _from_z85(text: str) -> bytes:
    return base64.b85decode(text.translate(_TO_B85))


@lru_cache(_CACHED)
def _positions_of_vector(vector: DeletionVector) -> Positions:
    data = vector.inline or _read(vector)
    try:
        [magic] = struct.unpack_from("<i", data)
        if magic != _MAGIC:
            raise ValueError(f"it begins with {magic}, not with {_MAGIC}")
        return np.array(BitMap64.deserialize(data[4:]).to_array(), np.int64)
    except (struct.error, ValueError) as error:
        raise CorruptFileError(
            f"{vector.path}: the deletion vector at {vector.offset} is damaged ({error}); restore it"
        ) from None


def _read(vector: DeletionVector) -> bytes:
    storage, name = Storage.of_file(vector.path)
    try:
        found = storage.read_range(name, vector.offset, vector.offset + vector.size + 8)
    except FileNotFoundError:
        raise CorruptFileError(f"{vector.path}: this file of deletion vectors is gone; restore it") from None
    data = found[4 : 4 + vector.size]
    size, check = found[:4], found[4 + vector.size :]
    if size != struct.pack(">i", vector.size) or check != struct.pack(">I", zlib.crc32(data)):
        raise CorruptFileError(
            f"{vector.path}: the deletion vector at {vector.offset} is cut or damaged; restore it"
        )
    return data
