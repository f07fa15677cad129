"""Writes and reads deletion vectors of Delta tables in plain Python, by Delta's published protocol."""

from __future__ import annotations

import base64
import json
import struct
import time
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


def positions_of(vector: Mapping[str, Any], location: Path) -> list[int]:
    """The rows that a vector deletes, by what an `add` says of it; it has to be as the protocol says."""
    kind, text, size = vector["storageType"], vector["pathOrInlineDv"], vector["sizeInBytes"]
    if kind == "i":
        assert "offset" not in vector
        data = _from_z85(text)[:size]
    else:
        path = Path(text.removeprefix("file://"))
        if kind == "u":
            path = location / text[:-20] / f"deletion_vector_{uuid.UUID(bytes=_from_z85(text[-20:]))}.bin"
        content, at = path.read_bytes(), vector["offset"]
        assert content[0] == 1
        assert content[at : at + 4] == struct.pack(">I", size)
        data = content[at + 4 : at + 4 + size]
        assert content[at + 4 + size : at + 8 + size] == struct.pack(">I", zlib.crc32(data))
    magic, bitmaps = struct.unpack_from("<IQ", data)
    assert magic == 1681511377
    found, at = [], 12
    for _ in range(bitmaps):
        [high] = struct.unpack_from("<I", data, at)
        positions, at = _bitmap(data, at + 4)
        found += [(high << 32) + position for position in positions]
    assert at == len(data)
    assert found == sorted(set(found))
    assert vector["cardinality"] == len(found)
    return found


def _from_z85(text: str) -> bytes:
    return base64.b85decode(text.translate(str.maketrans(_Z85, _B85)))


def _bitmap(data: bytes, start: int) -> tuple[list[int], int]:
    """The numbers in a roaring bitmap in the portable form, and where it ends."""
    [cookie] = struct.unpack_from("<I", data, start)
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        at = start + 4 + (count + 7) // 8
        runs = [bool(data[start + 4 + number // 8] >> number % 8 & 1) for number in range(count)]
    else:
        assert cookie == 12346
        [count] = struct.unpack_from("<I", data, start + 4)
        at, runs = start + 8, [False] * count
    heads = [struct.unpack_from("<HH", data, at + 4 * number) for number in range(count)]
    at += 4 * count
    if not any(runs) or count >= 4:
        at += 4 * count  # offsets
    found: list[int] = []
    for (key, rows), is_run in zip(heads, runs, strict=True):
        if is_run:
            [stretches] = struct.unpack_from("<H", data, at)
            values = struct.unpack_from(f"<{2 * stretches}H", data, at + 2)
            pairs = zip(values[::2], values[1::2], strict=True)
            low = [first + more for first, length in pairs for more in range(length + 1)]
            at += 2 + 4 * stretches
        elif rows + 1 > 4096:
            bits = int.from_bytes(data[at : at + 8192], "little")
            low = [number for number in range(65536) if bits >> number & 1]
            at += 8192
        else:
            low = list(struct.unpack_from(f"<{rows + 1}H", data, at))
            at += 2 * (rows + 1)
        assert len(low) == rows + 1
        found += [(key << 16) + number for number in low]
    return found, at


def delete_by_vectors(location: Path, gone: Mapping[str, Sequence[int]], kind: str) -> None:
    """Commit vectors that take rows out of files, by path in the log; older vectors are replaced by them."""
    log = DeltaLog(str(location))
    state = log.newest()
    assert state is not None
    now = round(time.time() * 1000)
    protocol: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = ["deletionVectors"]
    enabled = {**state.configuration, "delta.enableDeletionVectors": "true"}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now, "operation": "DELETE", "operationParameters": {}}},
        {"protocol": protocol | {"readerFeatures": features, "writerFeatures": features}},
        {"metaData": {**state.metadata, "configuration": enabled}},
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
        removed |= {"deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
        added = entry | {"deletionVector": vector, "dataChange": True, "stats": json.dumps(stats)}
        actions += [{"remove": removed}, {"add": added}]
    path = location / "_delta_log" / f"{state.version + 1:020d}.json"
    with path.open("x") as commit:
        commit.write("".join(json.dumps(action) + "\n" for action in actions))


def vectors_of(location: Path, path: str) -> set[int]:
    """The rows of a data file that are deleted."""
    state = DeltaLog(str(location)).newest()
    assert state is not None
    vector = state.files[path].get("deletionVector")
    return set(positions_of(vector, location)) if vector else set()


def data_files(location: Path) -> dict[str, Path]:
    """The live data files by their paths in the log."""
    state = DeltaLog(str(location)).newest()
    assert state is not None
    return {path: location / unquote(path) for path in sorted(state.files)}
