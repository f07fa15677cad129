"""Tables whose distinct values are counted, for tests; and statistics as others write them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.puffin_file import THETA, Blob, puffin_of
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile

from tests.tables.puffin_reading import parsed
from tests.tables.sinking import Lake, utc

NIGHT = {"start": utc("2026-01-01T00:00:00"), "end": utc("2026-01-02T00:00:00")}
SECOND = {"start": utc("2026-01-02T00:00:00"), "end": utc("2026-01-03T00:00:00")}


def rows(ids: range | list[int], band: str | None = "g") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "band": pa.array([band] * len(ids), pa.string())})


def counted(lake: Lake, *names: str, **given: Any) -> TableSpec:
    recompute = given.pop("recompute", True)
    return lake.spec(statistics={"ndv": list(names or ("id", "band")), "recompute": recompute}, **given)


def lose(lake: Lake, spec: TableSpec) -> list[Path]:
    """Take away the data files of a table: what reads them now fails."""
    gone = lake.live(spec)
    for path in gone:
        path.rename(path.with_suffix(".lost"))
    return gone


def restore(gone: list[Path]) -> None:
    for path in gone:
        path.with_suffix(".lost").rename(path)


def untold(table: Table, *, codec: str | None = None, change: bytes | None = None) -> None:
    """Let the statistics of a table be as others write them: compressed, without what only we say."""
    (file,) = [e for e in table.metadata.statistics if e.snapshot_id == table.metadata.current_snapshot_id]
    _, blobs, _ = parsed(Path(file.statistics_path).read_bytes())
    plain = []
    for blob in blobs:
        properties = {"ndv": blob.told["properties"]["ndv"]}
        payload = blob.payload if change is None else change
        where = blob.told["snapshot-id"], blob.told["sequence-number"]
        plain.append(Blob(THETA, (blob.field,), *where, payload, properties))
    content = puffin_of(plain).content if codec is None else compressed(plain, codec)
    path = Path(file.statistics_path).with_suffix(".others")
    path.write_bytes(content)
    told = file.model_dump(by_alias=True) | {
        "statistics-path": str(path),
        "file-size-in-bytes": len(content),
        "blob-metadata": [each.told() for each in plain],
    }
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(told))


def compressed(blobs: list[Blob], codec: str) -> bytes:
    content, told = bytearray(b"PFA1"), []
    for blob in blobs:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as out:
            out.write(blob.payload)
        packed = sink.getvalue().to_pybytes()
        told.append(
            {**blob.told(), "offset": len(content), "length": len(packed), "compression-codec": codec}
        )
        content += packed
    footer = json.dumps({"blobs": told}).encode()
    return bytes(content) + b"PFA1" + footer + struct.pack("<i", len(footer)) + bytes(4) + b"PFA1"
