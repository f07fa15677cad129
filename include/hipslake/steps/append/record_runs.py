"""Mode upsert: what a merge changes of the key records of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.records.record_lookup import BY_ROW, lookup
from hipslake.catalog.records.record_rows import key_of, records_schema
from hipslake.catalog.records.records_change import RecordsChange
from hipslake.catalog.records.run_files import FILE_ROWS, KeySpan, read_span
from hipslake.catalog.records.run_merging import IN_A_NIGHT, merge_runs
from hipslake.catalog.schema import check_columns
from hipslake.errors import ConflictError
from hipslake.steps.append.append_run import AppendRun
from hipslake.steps.append.set_aside import joined_columns, set_aside_rows
from hipslake.steps.append.settled_night import SettledNight
from hipslake.steps.append.state import Attempt

if TYPE_CHECKING:
    from hipslake.steps.append.merge import Merged


def check_records_fit(merged: Merged, base: CatalogMetadata, schema: pa.Schema) -> None:
    """Check that no other run has brought records of the same keys since a merge began.

    Parameters
    ----------
    merged : Merged
    base : CatalogMetadata
        The version that it is to be applied to.
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.

    Raises
    ------
    ConflictError
        One has, or may have.
    """
    run, before = merged.run, merged.base
    known = set(before.increment_writes) if before is not None else set()
    now = set(base.increment_writes)
    if known == now:
        return
    if before is None or known - now:
        raise ConflictError("other runs have replaced records that the rows were held against")
    theirs = [
        each.changes.run for each in base.increments_of(now - known, run.catalog) if each.changes is not None
    ]
    replaced = before.increment(run.key, run.catalog)
    mine = [
        each.changes.run
        for each in (merged.increment, replaced)
        if each is not None and each.changes is not None
    ]
    if len(theirs) < len(now - known) or sum(each.rows for each in mine) > FILE_ROWS:
        raise ConflictError("other runs have brought records, which may be of the same keys")
    records = records_schema(schema, run.frozen.spec.key, run.frozen.spec.order_by)
    by = key_of(records)
    for rows in read_span(run.catalog, mine, records, by, KeySpan()):
        if lookup(run.catalog, theirs, records, rows.select(by.names)).num_rows:
            raise ConflictError("other runs have brought records of the same keys")


def records_change(
    run: AppendRun, base: CatalogMetadata | None, attempt: Attempt, schema: pa.Schema, settled: SettledNight
) -> RecordsChange:
    """Set the superseded rows of a merge aside, and merge runs where they have come to be many.

    Parameters
    ----------
    run : AppendRun
    base : CatalogMetadata or None
        The version that was merged with.
    attempt : Attempt
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.
    settled : SettledNight
    """
    spec, catalog, engine, write_id = run.frozen.spec, run.catalog, run.engine, attempt.write_id
    schemas = check_columns(spec, schema)
    with run.phases("set aside"):
        superseded = set_aside_rows(catalog, run.folder.storage, write_id, schemas, settled, engine)
    change = RecordsChange(ordinal=attempt.ordinal, run=settled.changes.run, superseded=superseded)
    after = change.applied(
        base.key_records if base else None, key=spec.key, order_by=spec.order_by, rows_superseded=0
    )
    records = records_schema(schema, spec.key, spec.order_by)
    with run.phases("merge runs"):
        merged = merge_runs(
            catalog,
            engine,
            after.runs,
            records,
            key_of(records),
            write_id=write_id,
            name="merged",
            most=IN_A_NIGHT,
        )
        merged_superseded = merge_runs(
            catalog,
            engine,
            after.superseded,
            joined_columns(schemas),
            BY_ROW,
            write_id=write_id,
            name="merged_superseded",
            most=IN_A_NIGHT,
        )
    return RecordsChange(
        ordinal=attempt.ordinal,
        run=settled.changes.run,
        superseded=superseded,
        merged=merged,
        merged_superseded=merged_superseded,
    )
