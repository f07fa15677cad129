"""The table that rows of a spec go into: made if it is absent, changed so that they fit."""

from __future__ import annotations

import json
import logging
import uuid
from contextlib import suppress

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from sqlalchemy.exc import IntegrityError

from hipslake.clustering.range_ids import check_clustering_columns
from hipslake.errors import ConflictError
from hipslake.specs.table_spec import DEFAULT_FILE_SIZE, TableSpec
from hipslake.storage.folder import Storage
from hipslake.tables.alterations import EvolutionKind, TableAlteration
from hipslake.tables.fitting import check_fields
from hipslake.tables.iceberg.catalog_answers import unknown_outcome
from hipslake.tables.iceberg.catalogs import check_writable, find_table, has_namespace, open_table, reaching
from hipslake.tables.iceberg.clustering_properties import CLUSTER_BY, property_of
from hipslake.tables.iceberg.metadata_files import version_of
from hipslake.tables.iceberg.schemas import iceberg_schema
from hipslake.tables.iceberg.table_evolution import Evolution, planned_evolution
from hipslake.tables.iceberg.table_partitioning import partition_spec, sort_order

log = logging.getLogger(__name__)

FORMAT_VERSION = "2"
LOGGED_METADATA = "20"
"""So many older metadata files the log of a new table names; a vacuum deletes the others."""
SHAPED_BY = "hipslake.shaped-by"
"""Property of a table: the attempt that made it, or gave it its newest columns."""

_TRIES = 20


def fitting_table(
    catalog: Catalog, spec: TableSpec, stored: pa.Schema
) -> tuple[Table, bool, tuple[TableAlteration, ...]]:
    """Return the table of a spec: created if absent, changed as the spec allows if the rows do not fit.

    Parameters
    ----------
    catalog : Catalog
    spec : TableSpec
    stored : pyarrow.Schema
        The columns of the rows, as a table keeps them.

    Returns
    -------
    pyiceberg.table.Table
    bool
        Whether it was created.
    tuple of TableAlteration
        What was changed.

    Raises
    ------
    SchemaMismatchError
        A column does not fit, or is missing; or the table is partitioned in another way; and the spec does
        not allow to change that.
    ConflictError
        Others kept changing the schema at the same time.
    CommitStateUnknownError
        The catalog does not say whether the table was changed.
    """
    check_fields(spec, stored)
    for _ in range(_TRIES):
        table = find_table(catalog, spec.table)
        attempt = uuid.uuid4().hex
        if table is None:
            try:
                return _create(catalog, spec, stored, attempt), True, ()
            except TableAlreadyExistsError:  # another run was first
                _forget(catalog, spec.table, attempt, 0)
                continue
        check_writable(table)
        evolution = planned_evolution(table, spec, stored, allowed_to(spec))
        if not evolution.changes:
            return table, False, ()
        if _committed(catalog, table, spec.table, evolution, attempt):
            return open_table(catalog, spec.table), False, tuple(evolution.changes)
    raise ConflictError(f"table {spec.table}: others kept changing its schema; try again later")


def evolve_table(
    catalog: Catalog, spec: TableSpec, stored: pa.Schema | None, *, dry_run: bool
) -> tuple[TableAlteration, ...]:
    """Change a table so that a spec and rows fit to it; as `NamedTable.evolve`."""
    for _ in range(_TRIES):
        table, attempt = open_table(catalog, spec.table), uuid.uuid4().hex
        check_writable(table)
        evolution = planned_evolution(table, spec, stored, EvolutionKind)
        if dry_run or not evolution.changes:
            return tuple(evolution.changes)
        if _committed(catalog, table, spec.table, evolution, attempt):
            return tuple(evolution.changes)
    raise ConflictError(f"table {spec.table}: others kept changing its schema; try again later")


def allowed_to(spec: TableSpec) -> tuple[EvolutionKind, ...]:
    """What a sink may change of its table."""
    if spec.evolve == "all":
        return tuple(EvolutionKind)
    return (EvolutionKind.ADD, EvolutionKind.RENAME, EvolutionKind.CLUSTER)


def _committed(catalog: Catalog, table: Table, name: str, evolution: Evolution, attempt: str) -> bool:
    """Ask the catalog for changes that were planned; False if others were first."""
    evolution.transaction.set_properties({SHAPED_BY: attempt})
    try:
        with reaching(catalog.name):
            evolution.transaction.commit_transaction()
    except CommitFailedException:
        _forget(catalog, name, attempt, version_of(table.metadata_location) + 1)
        return False
    except CommitStateUnknownException as error:
        what = f"it is not known that {evolution.changes[0].text}"
        raise unknown_outcome(table, what, error) from error
    for each in evolution.changes:
        log.info("Table %s: %s.", name, each.text)
    return True


def _create(catalog: Catalog, spec: TableSpec, stored: pa.Schema, attempt: str) -> Table:
    schema = iceberg_schema(stored)
    namespace = spec.table.rpartition(".")[0]
    with reaching(catalog.name):
        if not has_namespace(catalog, namespace):
            # An SQL catalog tells of another run that was first by its database's error.
            with suppress(NamespaceAlreadyExistsError, IntegrityError):
                catalog.create_namespace(namespace)
    properties = {
        "format-version": FORMAT_VERSION,
        "write.target-file-size-bytes": str((spec.target_file_size or DEFAULT_FILE_SIZE).value),
        "commit.manifest-merge.enabled": "true",
        "write.metadata.previous-versions-max": LOGGED_METADATA,  # each holds what was sunk, of a year
        SHAPED_BY: attempt,
        **spec.properties,
    }
    if spec.cluster_by:
        check_clustering_columns(stored, spec.cluster_by)
        properties[CLUSTER_BY] = property_of(spec.cluster_by)
    with reaching(catalog.name):
        table = catalog.create_table(
            spec.table,
            schema,
            partition_spec=partition_spec(spec.partition, schema),
            sort_order=sort_order(spec.sort, schema),
            properties=properties,
        )
    log.info("Created table %s at %s, partitioned by %s.", spec.table, table.location(), table.spec())
    return table


def _forget(catalog: Catalog, name: str, attempt: str, version: int) -> None:
    """Delete the metadata file of an attempt that others were quicker than, unless the table names it."""
    table = find_table(catalog, name)
    if table is None:
        return
    log_of_it = (entry.metadata_file for entry in table.metadata.metadata_log)
    named = {path.rpartition("/")[2] for path in (table.metadata_location, *log_of_it)}
    folder = Storage.at(table.location()).sub("metadata")
    for entry in folder.list():
        if not entry.path.endswith(".metadata.json") or version_of(entry.path) != version:
            continue
        if entry.path in named:  # a request that was sent twice was refused the second time
            continue
        told = json.loads(folder.read(entry.path))
        if told.get("properties", {}).get(SHAPED_BY) == attempt:
            folder.delete(entry.path)
