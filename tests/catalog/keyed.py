"""Keys and records of tests: small integers stand for keys of any type, in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hipslake.catalog.metadata import RecordRun
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.records.record_rows import key_of
from hipslake.catalog.records.run_files import run_folder, write_run_files
from hipslake.storage.folder import Storage

WRITE = "20261121T0330-7f3a"

KINDS: dict[str, tuple[dict[str, pa.DataType], Any]] = {
    "int64": ({"id": pa.int64()}, lambda n: (n * 10**15 - 5 * 10**17,)),
    "int16": ({"id": pa.int16()}, lambda n: (n - 500,)),
    "uint64": ({"id": pa.uint64()}, lambda n: (n + 2**63 - 500,)),
    "string": ({"name": pa.string()}, lambda n: (f"{n // 100:d}é{'x' * (n % 100 // 10)}{n % 10:d}",)),
    "dictionary": ({"name": pa.dictionary(pa.int32(), pa.string())}, lambda n: (f"{n:04d}",)),
    "bool and int": ({"new": pa.bool_(), "id": pa.int32()}, lambda n: (n >= 500, n % 500)),
    "date": ({"day": pa.date32()}, lambda n: (date(1969, 1, 1) + timedelta(days=n),)),
    "time": ({"at": pa.time64("us")}, lambda n: (time(n // 60 % 24, n % 60, 0, n),)),
    "timestamp": (
        {"at": pa.timestamp("us", "UTC")},
        lambda n: (datetime(1969, 12, 31, tzinfo=UTC) + timedelta(minutes=n, microseconds=n),),
    ),
    "timestamp of seconds": (
        {"at": pa.timestamp("s")},
        lambda n: (datetime(1969, 12, 31) + timedelta(hours=n),),
    ),
    "decimal32": ({"code": pa.decimal32(7, 2)}, lambda n: (Decimal(n - 500) / 4,)),
    "decimal": ({"code": pa.decimal128(30, 3)}, lambda n: (Decimal(n - 500) * 10**20,)),
    "bytes": ({"code": pa.binary()}, lambda n: (n.to_bytes(2, "big"),)),
    "fixed bytes": ({"code": pa.binary(3)}, lambda n: (n.to_bytes(3, "big"),)),
    "two": (
        {"field": pa.string(), "day": pa.date32(), "id": pa.int64()},
        lambda n: ("dé"[n // 900], date(2026, 1, 1) + timedelta(days=n % 900 // 30), n % 30),
    ),
}
"""By name: the columns of a key, and the key that a number from 0 to 999 stands for."""


def text_order(number: int) -> tuple[Any, ...]:
    """A number as a key of kind `string` is not in the order of numbers; all others are."""
    key: tuple[Any, ...] = KINDS["string"][1](number)
    return tuple(part.encode() for part in key)


def key_columns(kind: str, numbers: Sequence[int]) -> pa.Table:
    """The key columns of rows, as a source has them."""
    columns, value = KINDS[kind]
    keys = [value(number) for number in numbers]
    fields = [pa.field(name, of) for name, of in columns.items()]
    arrays = []
    for at, field in enumerate(fields):
        values = [key[at] for key in keys]
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(values, plain)
        arrays.append(array.dictionary_encode() if pa.types.is_dictionary(field.type) else array)
    return pa.table(arrays, schema=pa.schema(fields))


def run_of_records(
    storage: Storage, records: pa.Table, name: str, ordinals: Iterable[int] | None = None
) -> RecordRun:
    """The run of some records; those of all ordinals in it count unless others are given."""
    found = np.unique(records["_row"].to_numpy() >> 40).tolist()
    files = write_run_files(storage, run_folder(WRITE, name), 0, records, key_of(records.schema))
    return described_run(storage, WRITE, name, files, found if ordinals is None else ordinals)
