"""Checkpoints of a Delta table's log: what a version adds up to, in one Parquet file."""

from __future__ import annotations

import io
import json
import logging
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.errors import HipslakeError
from hipslake.storage.plain_json import plain_json
from hipslake.tables.delta.delta_actions import Action
from hipslake.tables.delta.delta_log import LAST_CHECKPOINT, LOG, DeltaLog, LogState

log = logging.getLogger(__name__)

_INTERVAL = "delta.checkpointInterval"
_RETENTION = "delta.deletedFileRetentionDuration"
_EVERY = 10  # versions, as in other engines
_WEEK = 7 * 86_400_000  # milliseconds: how long engines keep files that are removed, if a table says nothing
_TEXTS = pa.map_(pa.string(), pa.string())
_ROW_GROUP_ROWS = 1 << 16

_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _TEXTS),
                    ("deletionVector", _VECTOR),
                    ("baseRowId", pa.int64()),
                    ("defaultRowCommitVersion", pa.int64()),
                    ("clusteringProvider", pa.string()),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("deletionVector", _VECTOR),
                    ("baseRowId", pa.int64()),
                    ("defaultRowCommitVersion", pa.int64()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("createdTime", pa.int64()),
                    ("configuration", _TEXTS),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
    ]
)


def checkpoint_if_due(table: DeltaLog, state: LogState, version: int) -> None:
    """Write the checkpoint of a version that was just committed, if its turn has come.

    The commit stands without it, so what goes wrong is told in the log only. `state` is the newest version.
    """
    every = state.configuration.get(_INTERVAL, "")
    interval = int(every) if every.isdigit() and int(every) else _EVERY
    if version % interval:
        return
    try:
        if version not in table.checkpoints():
            write_checkpoint(table, state if state.version == version else table.at(version))
    except HipslakeError:
        log.warning(
            "Table %s: no checkpoint of version %d was written.", table.location, version, exc_info=True
        )


def write_checkpoint(table: DeltaLog, state: LogState) -> None:
    """Write the checkpoint of a version, and point to it, if it is the newest one."""
    actions = _checkpoint_actions(state, round(time.time() * 1000))
    buffer = io.BytesIO()
    schema = pa.schema([field for field in _SCHEMA if state.domains or field.name != "domainMetadata"])
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for first in range(0, len(actions), _ROW_GROUP_ROWS):
            some = actions[first : first + _ROW_GROUP_ROWS]
            rows = [
                {kind: _fitted(told, schema.field(kind).type) for kind, told in action.items()}
                for action in some
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    data = buffer.getvalue()
    table.storage.write(f"{LOG}/{state.version:020d}.checkpoint.parquet", data)
    if state.version > _pointed_to(table):
        told = {"version": state.version, "size": len(actions), "sizeInBytes": len(data)}
        table.storage.write(LAST_CHECKPOINT, json.dumps(told | {"numOfAddFiles": len(state.files)}).encode())


def _pointed_to(table: DeltaLog) -> int:
    try:
        return int(plain_json(table.storage.read(LAST_CHECKPOINT))["version"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return -1


def _checkpoint_actions(state: LogState, milliseconds: int) -> list[Action]:
    """What a version adds up to; files that were removed long ago are not mentioned any more."""
    since = milliseconds - retention_of(state)
    return [
        {"protocol": state.protocol},
        {"metaData": {"configuration": {}, **state.metadata}},
        *({"txn": told} for told in state.transactions.values()),
        *({"domainMetadata": told} for told in state.domains.values() if not told.get("removed")),
        *({"add": told} for told in state.files.values()),
        *(
            {"remove": told}
            for told in state.removed.values()
            if (told.get("deletionTimestamp") or 0) >= since
        ),
    ]


def retention_of(state: LogState) -> int:
    """How long the log remembers files that are removed, in milliseconds."""
    words = state.configuration.get(_RETENTION, "").replace("interval", " ").split()
    per = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000}
    per |= {"day": 86_400_000, "week": _WEEK}
    try:
        return int(words[0]) * per[words[1].rstrip("s").lower()]
    except (IndexError, KeyError, ValueError):
        return _WEEK


def _fitted(told: Any, kind: pa.DataType) -> Any:
    """A value of JSON as pyarrow takes it for a type: maps are pairs."""
    if told is None:
        return None
    if pa.types.is_map(kind):
        return list(told.items())
    if pa.types.is_struct(kind):
        return {field.name: _fitted(told.get(field.name), field.type) for field in kind}
    return told
