"""The Delta table that rows of a spec go into: made if it is absent, given the columns that it lacks."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

import pyarrow as pa

from hipslake.errors import ConflictError, SchemaMismatchError, SpecError
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.delta.delta_actions import Action
from hipslake.tables.delta.delta_commit import commit_info, commit_metadata
from hipslake.tables.delta.delta_files import check_partition_types
from hipslake.tables.delta.delta_log import DeltaLog, LogState
from hipslake.tables.delta.delta_protocol import (
    NAIVE_TIMES,
    check_delta_writable,
    has_feature,
    needed_features,
    new_protocol,
    with_features,
)
from hipslake.tables.delta.delta_types import has_naive_times, kept_schema, schema_text
from hipslake.tables.fitting import WIDER, check_fields, holds_type

log = logging.getLogger(__name__)

_TRIES = 20


def shaped_delta(
    table: DeltaLog, spec: TableSpec, stored: pa.Schema
) -> tuple[LogState, bool, tuple[str, ...]]:
    """Return the table of a spec: created if absent, with columns added if the rows have more.

    Parameters
    ----------
    table : DeltaLog
    spec : TableSpec
    stored : pyarrow.Schema
        The columns of the rows, as tables keep them.

    Returns
    -------
    LogState
    bool
        Whether it was created.
    tuple of str
        The columns that were added.

    Raises
    ------
    SchemaMismatchError
        A column does not fit, or is missing; or the table is partitioned in another way.
    SpecError
        Delta has no such partitions.
    PlanError
        The table asks for more of its writers than is done here.
    ConflictError
        Others kept changing the schema at the same time.
    """
    columns, kept = _columns_and_schema(spec, stored)
    for _ in range(_TRIES):
        state, attempt = table.newest(), uuid.uuid4().hex
        if state is None:
            if commit_metadata(table, 0, _creation(spec, kept, columns, attempt), attempt):
                log.info("Created Delta table %s at %s.", spec.table, table.location)
                return _read(table, spec), True, ()
            continue
        check_delta_writable(state, spec.table)
        missing = _lacking(state, spec, kept, columns)
        if not missing:
            return state, False, ()
        if commit_metadata(table, state.version + 1, _addition(state, missing, attempt), attempt):
            names = tuple(field.name for field in missing)
            log.info("Delta table %s gets column %s.", spec.table, ", ".join(names))
            return _read(table, spec), False, names
    raise ConflictError(f"table {spec.table}: others kept changing its schema; try again later")


def lacking_columns(state: LogState, spec: TableSpec, stored: pa.Schema) -> tuple[str, ...]:
    """The columns that `shaped_delta` would add to a table; it raises the same errors."""
    columns, kept = _columns_and_schema(spec, stored)
    check_delta_writable(state, spec.table)
    return tuple(field.name for field in _lacking(state, spec, kept, columns))


def _columns_and_schema(spec: TableSpec, stored: pa.Schema) -> tuple[tuple[str, ...], pa.Schema]:
    """The columns that a spec partitions by, and those of the rows as a Delta table keeps them."""
    check_fields(spec, stored)
    columns, kept = _partition_columns(spec), kept_schema(stored)
    check_partition_types(kept, columns)
    return columns, kept


def _lacking(state: LogState, spec: TableSpec, kept: pa.Schema, columns: tuple[str, ...]) -> list[pa.Field]:
    missing = _missing(spec.table, state.schema, kept)
    if state.partition_columns != columns:
        raise SchemaMismatchError(
            f"table {spec.table} is partitioned by {', '.join(state.partition_columns) or 'nothing'}, "
            f"the spec says {', '.join(columns) or 'nothing'}; write what the table has"
        )
    return missing


def _read(table: DeltaLog, spec: TableSpec) -> LogState:
    state = table.newest()
    if state is None:
        raise ConflictError(f"table {spec.table} was dropped meanwhile; run it again")
    return state


def _partition_columns(spec: TableSpec) -> tuple[str, ...]:
    for field in spec.partition:
        if field.transform not in (TransformName.IDENTITY, TransformName.HEALPIX):
            raise SpecError(
                f"partition: {field}: a Delta table is partitioned by columns, not by transforms of them; "
                "name a column, or healpix[n]"
            )
    return tuple(field.column for field in spec.partition)


def partition_fields_of(state: LogState) -> tuple[PartitionField, ...]:
    """The fields that a table is partitioned by: its columns as they are."""
    return tuple(
        PartitionField(transform=TransformName.IDENTITY, source=name) for name in state.partition_columns
    )


def _creation(spec: TableSpec, schema: pa.Schema, columns: tuple[str, ...], attempt: str) -> list[Action]:
    now = round(time.time() * 1000)
    metadata: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "name": spec.table.rpartition(".")[2],
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_text(schema),
        "partitionColumns": list(columns),
        "createdTime": now,
        "configuration": dict(spec.properties),
    }
    info = commit_info("CREATE TABLE", {"mode": "ErrorIfExists"}, now, {"write": attempt})
    protocol = new_protocol(needed_features(schema, spec.properties))
    return [info, {"protocol": protocol}, {"metaData": metadata}]


def _addition(state: LogState, missing: list[pa.Field], attempt: str) -> list[Action]:
    now = round(time.time() * 1000)
    text = schema_text(pa.schema([*state.schema, *missing]), state.metadata["schemaString"])
    names = ", ".join(field.name for field in missing)
    actions: list[Action] = [commit_info("ADD COLUMNS", {"columns": names}, now, {"write": attempt})]
    naive = any(has_naive_times(field.type) for field in missing)
    if naive and not has_feature(state.protocol, NAIVE_TIMES):
        actions.append({"protocol": with_features(state.protocol, {NAIVE_TIMES})})
    return [*actions, {"metaData": {**state.metadata, "schemaString": text}}]


def _missing(table: str, standing: pa.Schema, kept: pa.Schema) -> list[pa.Field]:
    """The columns that a table has to get before the rows fit."""
    missing = []
    alike = {name.casefold(): name for name in standing.names}
    for field in kept:
        if field.name not in standing.names:
            if (other := alike.get(field.name.casefold())) is not None:
                raise SchemaMismatchError(
                    f"table {table}: column {field.name!r} differs by case only from {other!r} of the table, "
                    "and Delta does not tell the two apart; rename one of them, or leave the column out"
                )
            missing.append(field)
            continue
        old = standing.field(field.name).type
        if not (old == field.type or _holds(old, field.type)):
            narrowing = (old, field.type) in WIDER
            what = "is narrower, and would lose values" if narrowing else "is another type"
            raise SchemaMismatchError(
                f"table {table}: column {field.name!r} is of type {old} there and {field.type} in the "
                f"source; the table's {what}. Change the source, or leave the column out"
            )
    required = sorted(each.name for each in standing if not each.nullable and each.name not in kept.names)
    if required:
        raise SchemaMismatchError(
            f"table {table} requires column {', '.join(required)}, which the source lacks; add it to the "
            "source"
        )
    return missing


def _holds(table: pa.DataType, source: pa.DataType) -> bool:
    small = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}  # values are looked at as rows are written
    return holds_type(small.get(table, table), source)


def check_delta_written(name: str, written: LogState, standing: LogState) -> None:
    """Look whether files that were written in one schema of a table may be added to it in a later one.

    Raises
    ------
    ConflictError
        A column of the files is gone or of another type, or nulls are forbidden where there may be some; or
        the table is another one.
    """
    if written.metadata is standing.metadata:
        return
    old, new = written.schema, standing.schema
    others = [
        field.name for field in old if field.name not in new.names or new.field(field.name).type != field.type
    ]
    required = [
        field.name
        for field in new
        if not field.nullable and not (field.name in old.names and not old.field(field.name).nullable)
    ]
    if written.metadata.get("id") != standing.metadata.get("id"):
        what = "it was replaced by another table"
    elif written.partition_columns != standing.partition_columns:
        what = "it is partitioned in another way by now"
    elif others:
        what = f"column {', '.join(others)} is gone, or of another type, by now"
    elif required:
        what = f"column {', '.join(required)} is required by now"
    else:
        return
    raise ConflictError(f"table {name} was changed while rows were written: {what}; run it again")
