"""Deletion vectors of Delta tables: which rows of a data file are deleted, as a bitmap of their positions.

A vector stands in the log itself, or in a file with others. This is how it is read, by Delta's published
protocol; `hipslake.tables.delta.delta_vector_writer` writes some.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote
from uuid import UUID

import numpy as np
from pyroaring import BitMap64

from hipslake.errors import CorruptFileError
from hipslake.storage.folder import Storage
from hipslake.tables.deleted_rows import DeleteFile, Positions, Reading
from hipslake.tables.delta.delta_actions import Action, file_identity, whole_path

MAGIC = 1681511377
"""What a vector begins with."""

VECTORS = "_vectors"
"""The folder of a table's location in which vectors of ours lie, in one for each write.

Engines leave folders alone that begin with an underscore: a full vacuum of delta-rs (1.6) deletes files of
vectors elsewhere, also those that are needed.
"""

_UUID_CHARACTERS = 20
_NAME = re.compile(r"(?:.*/)?deletion_vector_[0-9a-f-]{36}\.bin")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)
_FROM_B85 = str.maketrans(_B85, _Z85)
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
        return self.positions()

    def positions(self) -> Positions:
        """The same."""
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
            path = f"{location.rstrip('/')}/{_relative(text)}"
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


def vector_path(told: Action) -> str | None:
    """The file of a deletion vector, by an `add` or `remove`, as the log has paths; None: it has none."""
    vector = told.get("deletionVector") or {}
    text = str(vector.get("pathOrInlineDv"))
    if vector.get("storageType") == "p":
        return text
    return quote(_relative(text), safe="/=:") if vector.get("storageType") == "u" else None


def is_vector_file(path: str) -> bool:
    """Whether a file has the name of one with deletion vectors."""
    return _NAME.fullmatch(path) is not None


def vector_name(identity: UUID) -> str:
    """What the file of some deletion vectors is called."""
    return f"deletion_vector_{identity}.bin"


def to_z85(data: bytes) -> str:
    """Bytes as text, five characters for four bytes; zeros are added where they are no multiple of four."""
    return base64.b85encode(data + bytes(-len(data) % 4)).decode().translate(_FROM_B85)


def _relative(text: str) -> str:
    folder, identity = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    return "/".join(part for part in (folder, vector_name(UUID(bytes=_from_z85(identity)))) if part)


def _from_z85(text: str) -> bytes:
    return base64.b85decode(text.translate(_TO_B85))


def still_deletes(before: Action, now: Action, location: str) -> bool:
    """Whether all rows of a file that were deleted still are, by its `add` then and now."""
    if file_identity(before) == file_identity(now):
        return True
    old, new = vector_of(before, location), vector_of(now, location)
    gone = np.empty(0, np.int64) if old is None else _positions_of_vector(old)
    return not len(gone) or (new is not None and bool(np.isin(gone, _positions_of_vector(new)).all()))


@lru_cache(_CACHED)
def _positions_of_vector(vector: DeletionVector) -> Positions:
    data = vector.inline or _read(vector)
    try:
        [magic] = struct.unpack_from("<i", data)
        if magic != MAGIC:
            raise ValueError(f"it begins with {magic}, not with {MAGIC}")
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
