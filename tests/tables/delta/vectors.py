"""Writes deletion vectors into Delta tables as other engines do, by Delta's published protocol."""

from __future__ import annotations

import base64
import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hipslake.tables.delta.delta_log import DeltaLog

KINDS = ("inline", "relative", "absolute")
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """Bytes as text, four as five characters."""
    return base64.b85encode(data + b"\0" * (-len(data) % 4)).decode().translate(str.maketrans(_B85, _Z85))


def roaring(positions: Sequence[int]) -> bytes:
    """A bitmap with one array container for each 65,536 positions, in the portable form; none above 2^32."""
    chunks: dict[int, list[int]] = {}
    for position in sorted(positions):
        chunks.setdefault(position >> 16, []).append(position & 0xFFFF)
    assert all(len(chunk) <= 4096 for chunk in chunks.values()), "those would be bitmaps"
    head = struct.pack("<II", 12346, len(chunks))
    head += b"".join(struct.pack("<HH", key, len(chunk) - 1) for key, chunk in chunks.items())
    offset = len(head) + 4 * len(chunks)
    offsets, data = b"", b""
    for chunk in chunks.values():
        offsets += struct.pack("<I", offset + len(data))
        data += struct.pack(f"<{len(chunk)}H", *chunk)
    whole = head + offsets + data
    return struct.pack("<iQI", 1681511377, 1, 0) + whole


def delete_by_vectors(location: Path, gone: Mapping[str, Sequence[int]], kind: str) -> None:
    """Commit vectors that take rows out of files, by path in the log; older vectors are replaced by them."""
    log = DeltaLog(str(location))
    state = log.newest()
    assert state is not None
    protocol: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = ["deletionVectors"]
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1_800_000_000_000, "operation": "DELETE", "operationParameters": {}}},
        {"protocol": protocol | {"readerFeatures": features, "writerFeatures": features}},
    ]
    blobs = {path: roaring(positions) for path, positions in gone.items()}
    told = {path: {"sizeInBytes": len(blob), "cardinality": len(gone[path])} for path, blob in blobs.items()}
    if kind == "inline":
        for path, blob in blobs.items():
            told[path] |= {"storageType": "i", "pathOrInlineDv": z85(blob)}
    else:
        number = uuid.uuid4()
        folder = location / ("ab" if kind == "relative" else "")
        folder.mkdir(exist_ok=True)
        content = b"\x01"
        for path, blob in blobs.items():
            told[path] |= {"offset": len(content)}
            content += struct.pack(">I", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
        file = folder / f"deletion_vector_{number}.bin"
        file.write_bytes(content)
        for path in blobs:
            if kind == "relative":
                told[path] |= {"storageType": "u", "pathOrInlineDv": "ab" + z85(number.bytes)}
            else:
                told[path] |= {"storageType": "p", "pathOrInlineDv": f"file://{file}"}
    for path, vector in told.items():
        entry = state.files[path]
        stats = json.loads(entry["stats"]) | {"tightBounds": False}
        removed = {name: entry[name] for name in ("path", "partitionValues", "size")}
        removed |= {name: entry[name] for name in ("deletionVector",) if name in entry}
        removed |= {"deletionTimestamp": 1_800_000_000_000, "dataChange": True, "extendedFileMetadata": True}
        added = entry | {"deletionVector": vector, "dataChange": True, "stats": json.dumps(stats)}
        actions += [{"remove": removed}, {"add": added}]
    path = location / "_delta_log" / f"{state.version + 1:020d}.json"
    with path.open("x") as commit:
        commit.write("".join(json.dumps(action) + "\n" for action in actions))


def data_files(location: Path) -> dict[str, Path]:
    """The live data files by their paths in the log."""
    state = DeltaLog(str(location)).newest()
    assert state is not None
    return {path: location / unquote(path) for path in sorted(state.files)}
