"""JSON documents of a warehouse, spoilt as values and as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.catalog.little import WRITE
from tests.fuzz.mutation import NUMBERS, reshaped, spoilt
from tests.fuzz.target import Case

WORDS = (
    *(
        "0-3,7",
        "0-99999999999",
        "9-1",
        "-1",
        "1,,2",
        "1-2-3",
        "a-b",
        "0-12",
        "4-",
        "00000000000000000001",
        "0 - 3",
    ),
    *(
        "../x",
        "/etc/passwd",
        "a/../../b",
        "s3://b/x",
        "memory://x",
        WRITE,
        "hats",
        "hipscat",
        "20000 rows",
        "icrs",
    ),
    *("2026-11-21T03:30:00Z", "0001-01-01T00:00:00+14:00", "AAAA", "/////w==", "f" * 64, "main"),
)


def json_of(document: Callable[[], Any]) -> Callable[[Random], Case]:
    """What makes cases of a document."""

    def make(random: Random) -> Case:
        hostile = reshaped(random, document(), (*WORDS, *NUMBERS), most=random.choice((1, 1, 2, 4)))
        if random.random() < 0.02:
            return Case((b"[" * 100_000) if random.random() < 0.5 else b'{"a":' * 50_000, ".json")
        data = json.dumps(hostile).encode()
        if random.random() < 0.25:
            data = spoilt(random, data, most=random.choice((1, 3)))
        return Case(data, ".json")

    return make
