"""Puffin files of statistics: blobs behind one another, and a footer of JSON that says what each of them is.

Written after Iceberg's Puffin specification. pyiceberg reads such files, and writes none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.table.puffin import MAGIC_BYTES, PuffinFile

from hipslake.errors import CorruptFileError
from hipslake.library_version import __version__

THETA = "apache-datasketches-theta-v1"
"""The type of blobs that are Theta sketches of the values of a column."""
MOST_BYTES = 16 << 20
"""Of a blob, once it is unpacked: those that are larger are not read."""


@dataclass(frozen=True)
class Blob:
    """A blob of a file.

    Attributes
    ----------
    kind : str
    fields : tuple of int
        The ids of the columns that it is of.
    snapshot_id, sequence : int
        The snapshot that it was computed from, and its sequence number.
    payload : bytes
    properties : dict of str to str
    """

    kind: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence: int
    payload: bytes
    properties: dict[str, str] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """What footers and the metadata of tables say of it."""
        return {
            "type": self.kind,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence,
            "properties": self.properties,
        }


class WrittenPuffin(NamedTuple):
    """A file.

    Attributes
    ----------
    content : bytes
    footer_bytes : int
        The size of its footer, from the first magic to the last.
    """

    content: bytes
    footer_bytes: int


def puffin_of(blobs: Sequence[Blob]) -> WrittenPuffin:
    """A file of blobs, none of them compressed: hashes cannot be made smaller."""
    content, told = bytearray(MAGIC_BYTES), []
    for blob in blobs:
        told.append({**blob.told(), "offset": len(content), "length": len(blob.payload)})
        content += blob.payload
    properties = {"created-by": f"hipslake {__version__}"}
    payload = json.dumps({"blobs": told, "properties": properties}).encode()
    no_flags = bytes(4)
    footer = MAGIC_BYTES + payload + struct.pack("<i", len(payload)) + no_flags + MAGIC_BYTES
    return WrittenPuffin(bytes(content + footer), len(footer))


def blobs_of(content: bytes, kind: str) -> list[Blob]:
    """The blobs of one type in a file.

    Raises
    ------
    CorruptFileError
        It is no Puffin file, or has a footer or a blob that cannot be read.
    """
    try:
        file = PuffinFile(content)
        return [
            Blob(
                each.type,
                tuple(each.fields),
                each.snapshot_id,
                each.sequence_number,
                _payload(content, each.offset, each.length, each.compression_codec),
                dict(each.properties),
            )
            for each in file.footer.blobs
            if each.type == kind
        ]
    except (ValueError, IndexError, OSError) as error:
        raise CorruptFileError(f"no Puffin file that can be read: {' '.join(str(error).split())}") from None


def _payload(content: bytes, offset: int, length: int, codec: str | None) -> bytes:
    if offset < len(MAGIC_BYTES) or length < 0 or offset + length > len(content):
        raise ValueError(f"a blob of {length} bytes at {offset} does not lie in a file of {len(content)}")
    payload = content[offset : offset + length]
    if codec in ("lz4", "zstd"):
        with pa.CompressedInputStream(pa.BufferReader(payload), codec) as unpacked:
            payload = unpacked.read(MOST_BYTES + 1)
    elif codec is not None:
        raise ValueError(f"a blob is compressed by {codec}")
    if len(payload) > MOST_BYTES:
        raise ValueError(f"a blob has more than {MOST_BYTES} bytes")
    return payload
