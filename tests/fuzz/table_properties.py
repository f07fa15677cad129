"""What Iceberg tables say of their sinks, spoilt."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from hipslake.tables.iceberg.stored_marks import (
    EARLIER,
    OLDER,
    PREFIX,
    StoredMarks,
    mark_properties,
)
from hipslake.tables.marks import SinkMark
from hipslake.tables.parquet_folder.folder_access import mark_from

from tests.catalog.little import WRITE
from tests.fuzz.documents import WORDS
from tests.fuzz.mutation import hostile_value, nested, reshaped
from tests.fuzz.target import Case, Target, refusals


@cache
def _iceberg() -> Any:
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    return new_table_metadata(
        Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "memory://fuzz", {}
    )


def _properties(random: Random) -> Case:
    key, digest = "s/2026-11-21", hashlib.sha256(b"s/2026-11-21").hexdigest()[:16]
    sunk = {
        "key": key,
        "fingerprint": "f",
        "content": "c",
        "rows": 3,
        "write": WRITE,
        "start": "2026-11-21T00:00:00Z",
        "absent_on": 7,
        "earliest": [3, 0],
        "since": [1, 0],
    }
    earlier = {"spec": "s", "intervals": [["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]], "others": ["0"]}
    row = ["s/2026-01-01", "f" * 16, WRITE, 3, WRITE, None, "2026-01-01T00:00:00Z", None, True, [0, 1, "n"]]
    older = {
        "sources": [{"uri": "x", "columns": None, "filters": None}],
        "sinks": [row],
        "places": [[[3, 0], None]],
    }
    shaped = reshaped(random, older, WORDS) if random.random() < 0.7 else nested(random, 300)
    packed = zlib.compress(json.dumps(shaped).encode())
    told = {
        OLDER + "s": base64.b64encode(packed[: random.choice((None, None, -1, 5))]).decode(),
        PREFIX + digest: json.dumps(reshaped(random, sunk, WORDS) if random.random() < 0.7 else sunk),
        EARLIER + hashlib.sha256(b"s").hexdigest()[:16]: json.dumps(
            reshaped(random, earlier, WORDS) if random.random() < 0.7 else earlier
        ),
        PREFIX + "x": random.choice(("", "{}", "null", "[", "[" * 20_000, json.dumps(nested(random, 300)))),
        "mark": random.choice(
            (json.dumps(hostile_value(random, WORDS)), "[" * 20_000, '{"curve": 1}', "\x00")
        ),
    }
    return Case(json.dumps(told).encode(), ".json", {"key": key})


def _read_properties(case: Case, folder: Path) -> None:
    """What a table says of its sinks, in the properties that its metadata file holds."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.table import Table

    given = json.loads(case.data)
    metadata = _iceberg().model_copy(update={"properties": given})
    table = Table(("a", "b"), metadata, "memory://fuzz/m.json", load_file_io(), NoopCatalog("fuzz"))
    mark_from(given["mark"])
    key = case.told["key"]
    mine = SinkMark(key=key, fingerprint="g", content="d", rows=1, write=WRITE)
    with refusals() as tried:
        tried(lambda: StoredMarks(table).of(key))
        tried(lambda: StoredMarks(table).may_stand(key))
        tried(lambda: StoredMarks(table).was_sunk_earlier(key, None))
        tried(lambda: mark_properties(table, mine))


TARGET = Target("iceberg properties", _properties, _read_properties, share=2)
