"""Avro files, spoilt, and of hostile schemas."""

from __future__ import annotations

import io
import json
from functools import cache
from random import Random
from typing import Any

from tests.fuzz.mutation import hostile_text
from tests.fuzz.source_cases import by_words, case_of, read_as
from tests.fuzz.target import Target

_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "alert",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ra", "type": "double"},
        {"name": "mag", "type": ["null", "float"], "default": None},
        {"name": "band", "type": ["null", "string"], "default": None},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "stamp", "type": "bytes"},
        {
            "name": "source",
            "type": {"type": "record", "name": "src", "fields": [{"name": "flux", "type": "double"}]},
        },
        {"name": "earlier", "type": {"type": "array", "items": "src"}},
    ],
}
_WORDS = (
    *('"type"', '"record"', '"array"', '"map"', '"enum"', '"fixed"', '"items": "alert"'),
    *('"null"', '"long"', '"int"', '"boolean"', '"logicalType": "decimal"', '"name": ""'),
    *('"size": 99999999999', '"fields": []', "[]", "avro.codec", "deflate", "snappy", "Obj\x01"),
    *("{", "}", "avro.schema"),
)


@cache
def _avro() -> list[bytes]:
    import fastavro

    rows = [
        {
            "id": at,
            "ra": at * 3.5,
            "mag": None if at % 3 else 1.5,
            "band": "g" if at % 2 else None,
            "seen": at,
            "stamp": b"x" * at,
            "source": {"flux": at / 7},
            "earlier": [{"flux": 1.0}] * (at % 4),
        }
        for at in range(12)
    ]
    made = []
    for codec in ("null", "deflate"):
        sink = io.BytesIO()
        fastavro.writer(sink, _SCHEMA, rows, codec=codec, sync_interval=64, sync_marker=b"0123456789abcdef")
        made.append(sink.getvalue())
    return made


def _remade(random: Random, data: bytes) -> bytes:
    """The header with other words, or with a schema whose length is right and whose meaning is not."""
    if random.random() < 0.5:
        return by_words(_WORDS)(random, data)
    told = json.dumps(_SCHEMA)
    field = random.choice(_SCHEMA["fields"])
    kind = random.choice(
        ["int", "string", "bytes", "alert", "no such", {"type": "map", "values": "long"}, [], 7]
    )
    other = told.replace(json.dumps(field["type"]), json.dumps(kind), 1)
    if random.random() < 0.3:
        other = other.replace(json.dumps(field["name"]), json.dumps(hostile_text(random)), 1)
    return data.replace(told.encode(), other.encode().ljust(len(told))[: len(told)])


TARGET = Target("avro", case_of(_avro, ".avro", _remade, lambda random: {}), read_as("avro"), share=6)
