"""Statistics of tables as others read them: a parser of Puffin files, written after the published format."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import datasketches
import mmh3
import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.table import Table
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.types import PrimitiveType

MAGIC = b"PFA1"
SEED = 9001


class ReadBlob(NamedTuple):
    """A blob of a file, and what the footer says of it."""

    told: dict[str, Any]
    payload: bytes

    @property
    def field(self) -> int:
        (number,) = self.told["fields"]
        return int(number)

    @property
    def ndv(self) -> int:
        return int(self.told["properties"]["ndv"])

    @property
    def sketch(self) -> Any:
        return datasketches.compact_theta_sketch.deserialize(self.payload, SEED)

    @property
    def hashes(self) -> set[int]:
        """Those that the sketch keeps: of version 3 of its format, uncompressed."""
        longs, version, family, _, _, flags = struct.unpack_from("<6B", self.payload)
        assert (version, family) == (3, 3)
        if flags & 4:
            return set()
        if longs == 1:
            return set(struct.unpack_from("<Q", self.payload, 8))
        count = struct.unpack_from("<I", self.payload, 8)[0]
        return set(struct.unpack_from(f"<{count}Q", self.payload, 8 * longs))


def parsed(content: bytes) -> tuple[dict[str, Any], list[ReadBlob], int]:
    """The footer of a file, its blobs, and the size of the footer in bytes."""
    assert content[:4] == content[-4:] == MAGIC
    size, flags = struct.unpack("<i4s", content[-12:-4])
    assert flags == bytes(4)
    assert content[-16 - size : -12 - size] == MAGIC
    footer = json.loads(content[-12 - size : -12].decode("utf-8"))
    blobs, end = [], 4
    for told in footer["blobs"]:
        assert told["offset"] == end, "one lies behind the other"
        end += told["length"]
        assert "compression-codec" not in told
        blobs.append(ReadBlob(told, content[told["offset"] : end]))
    assert end == len(content) - 16 - size, "and nothing else lies between"
    return footer, blobs, 16 + size


def statistics_of(table: Table, snapshot: int | None = None) -> dict[str, ReadBlob] | None:
    """The blobs of a snapshot by column, read in three ways that agree; None if it has no statistics."""
    number = snapshot or table.metadata.current_snapshot_id
    files = [each for each in table.metadata.statistics if each.snapshot_id == number]
    if not files:
        return None
    (file,) = files
    content = Path(file.statistics_path).read_bytes()
    _, blobs, footer_bytes = parsed(content)
    assert (file.file_size_in_bytes, file.file_footer_size_in_bytes) == (len(content), footer_bytes)
    theirs = PuffinFile(content)
    assert [theirs.get_blob_payload(each) for each in theirs.footer.blobs] == [each.payload for each in blobs]
    for told, blob in zip(file.blob_metadata, blobs, strict=True):
        assert (told.type, told.fields) == ("apache-datasketches-theta-v1", blob.told["fields"])
        assert (told.snapshot_id, told.sequence_number) == (
            blob.told["snapshot-id"],
            blob.told["sequence-number"],
        )
        assert told.properties == blob.told["properties"]
        assert blob.ndv == round(blob.sketch.get_estimate())
    names = {blob.field: table.schema().find_column_name(blob.field) for blob in blobs}
    return {names[blob.field] or "": blob for blob in blobs}


def ndv(table: Table, snapshot: int | None = None) -> dict[str, int] | None:
    """By column, how many distinct values a snapshot has."""
    found = statistics_of(table, snapshot)
    return None if found is None else {name: blob.ndv for name, blob in found.items()}


def distinct(rows: pa.Table | list[dict[str, Any]], *names: str) -> dict[str, int]:
    """By column, how many distinct values there are, in plain Python; nulls are none."""
    found = rows if isinstance(rows, list) else rows.to_pylist()
    return {name: len({row[name] for row in found if row[name] is not None}) for name in names}


def hashes_of(kind: PrimitiveType, values: Iterable[Any]) -> set[int]:
    """The hashes of values, one by one, by pyiceberg's serialization and the package mmh3."""
    return {mmh3.hash64(to_bytes(kind, value), SEED, signed=False)[0] >> 1 for value in values}
