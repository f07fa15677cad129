"""Avro files for tests: alerts as brokers send them, written by fastavro."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipslake.sources import Source

from tests.sources.reading import source

fastavro = pytest.importorskip("fastavro")

SOURCE = {
    "type": "record",
    "name": "diaSource",
    "namespace": "lsst.v1",
    "fields": [
        {"name": "diaSourceId", "type": "long"},
        {"name": "ra", "type": "double", "doc": "Right ascension [deg]"},
        {"name": "dec", "type": "double"},
        {"name": "psfFlux", "type": ["null", "float"], "default": None},
        {"name": "band", "type": ["null", "string"]},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
ALERT = {
    "type": "record",
    "name": "alert",
    "namespace": "lsst.v1",
    "fields": [
        {"name": "alertId", "type": "long"},
        {"name": "diaSource", "type": SOURCE},
        {"name": "prvDiaSources", "type": ["null", {"type": "array", "items": "diaSource"}]},
        {"name": "last", "type": ["null", "lsst.v1.diaSource"]},
        {"name": "cutout", "type": ["null", "bytes"]},
        {"name": "flags", "type": {"type": "array", "items": "boolean"}},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["new", "known"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "mark", "size": 4}},
    ],
}
FIRST = datetime(2026, 10, 1, tzinfo=UTC)


def dia_source(rng: np.random.Generator, number: int) -> dict[str, Any]:
    return {
        "diaSourceId": number,
        "ra": float(rng.uniform(0, 360)),
        "dec": float(rng.uniform(-90, 90)),
        "psfFlux": float(np.float32(rng.normal())) if number % 3 else None,
        "band": "ugrizy"[number % 6] if number % 5 else None,
        "seen": FIRST + timedelta(microseconds=number),
    }


def alerts(rows: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "alertId": number,
            "diaSource": dia_source(rng, number),
            "prvDiaSources": [dia_source(rng, at) for at in range(number % 4)] if number % 7 else None,
            "last": dia_source(rng, number + 1) if number % 2 else None,
            "cutout": rng.bytes(number % 50) if number % 3 else None,
            "flags": [bool(number & bit) for bit in (1, 2, 4)][: number % 4],
            "kind": ("new", "known")[number % 2],
            "mark": rng.bytes(4),
        }
        for number in range(rows)
    ]


def write(path: Path, schema: Any, records: list[Any], codec: str = "null", interval: int = 2000) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records, codec=codec, sync_interval=interval)


def avro(folder: Path, **options: Any) -> Source:
    return source("avro", f"{folder}/*.avro", **options)


def record_of(kind: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": kind}],
    }


SYNC = bytes(range(16))


def long(number: int) -> bytes:
    value, found = number << 1 ^ number >> 63, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def container_of(schema: Any, blocks: list[tuple[int, bytes]], codec: bytes = b"null") -> bytes:
    """A container file, byte by byte."""
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec}
    content = b"Obj\x01" + long(len(metadata))
    for key, value in metadata.items():
        content += long(len(key)) + key + long(len(value)) + value
    content += long(0) + SYNC
    for records, data in blocks:
        content += long(records) + long(len(data)) + data + SYNC
    return content
