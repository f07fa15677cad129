"""Partition values as columns that filters of users compare with."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import BinaryType, FixedType, IcebergType, UUIDType

from hipslake.tables.fitting import from_internal

_MICROS_PER_HOUR = 3_600_000_000


def partition_column(values: list[Any], transform: str, kind: IcebergType) -> pa.Array:
    """Partition values of Iceberg records in the form that filters of users have them.

    Years and months are their first days, hours moments; UUIDs and bytes are texts, the latter hexadecimal.
    """
    if transform in ("year", "month", "day"):
        unit = {"year": "Y", "month": "M", "day": "D"}[transform]
        mask = np.array([value is None for value in values], bool)
        periods = np.array([value or 0 for value in values], np.int64).astype(f"datetime64[{unit}]")
        return pa.array(periods.astype("datetime64[D]"), pa.date32(), mask=mask)
    if transform == "hour":
        return pa.array([None if v is None else v * _MICROS_PER_HOUR for v in values], pa.timestamp("us"))
    if isinstance(kind, UUIDType):
        return pa.array([None if v is None else str(uuid.UUID(bytes=_bytes(v))) for v in values], pa.string())
    if isinstance(kind, BinaryType | FixedType):
        return pa.array([None if v is None else _bytes(v).hex() for v in values], pa.string())
    return from_internal(values, schema_to_pyarrow(kind))


def _bytes(value: Any) -> bytes:
    return value.bytes if isinstance(value, uuid.UUID) else bytes(value)
