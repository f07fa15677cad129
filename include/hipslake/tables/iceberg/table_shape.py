"""The table that rows of a spec go into: made if it is absent, given the columns that it lacks."""

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

from hipslake.errors import ConflictError
from hipslake.specs.table_spec import TableSpec
from hipslake.storage.folder import Storage
from hipslake.tables.fitting import check_fields
from hipslake.tables.iceberg.catalog_answers import unknown_outcome
from hipslake.tables.iceberg.catalogs import check_writable, find_table, has_namespace, open_table, reaching
from hipslake.tables.iceberg.metadata_files import version_of
from hipslake.tables.iceberg.schemas import iceberg_schema, missing_columns
from hipslake.tables.iceberg.table_partitioning import check_partition, partition_spec, sort_order

log = logging.getLogger(__name__)

FORMAT_VERSION = "2"
LOGGED_METADATA = "20"
"""So many older metadata files the log of a new table names; a vacuum deletes the others."""
SHAPED_BY = "hipslake.shaped-by"
"""Property of a table: the attempt that made it, or gave it its newest columns."""

_TRIES = 20


def fitting_table(
    catalog: Catalog, spec: TableSpec, stored: pa.Schema
) -> tuple[Table, bool, tuple[str, ...]]:
    """Return the table of a spec: created if absent, with columns added if the rows have more.

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
    tuple of str
        The columns that were added.

    Raises
    ------
    SchemaMismatchError
        A column does not fit, or is missing; or the table is partitioned in another way.
    ConflictError
        Others kept changing the schema at the same time.
    CommitStateUnknownError
        The catalog does not say whether the columns were added.
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
        missing = missing_columns(spec.table, table.schema(), stored)
        check_partition(table, spec)
        if not missing:
            return table, False, ()
        try:
            with reaching(catalog.name), table.transaction() as transaction:
                transaction.set_properties({SHAPED_BY: attempt})
                with transaction.update_schema() as update:
                    for field in iceberg_schema(pa.schema(missing)).fields:
                        update.add_column((field.name,), field.field_type)
        except CommitFailedException:
            _forget(catalog, spec.table, attempt, version_of(table.metadata_location) + 1)
            continue
        except CommitStateUnknownException as error:
            what = f"column {missing[0].name} is not known to be there"
            raise unknown_outcome(table, what, error) from error
        names = tuple(field.name for field in missing)
        log.info("Table %s gets column %s.", spec.table, ", ".join(names))
        return open_table(catalog, spec.table), False, names
    raise ConflictError(f"table {spec.table}: others kept changing its schema; try again later")


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
        "write.target-file-size-bytes": str(spec.target_file_size.value),
        "commit.manifest-merge.enabled": "true",
        "write.metadata.previous-versions-max": LOGGED_METADATA,  # each holds what was sunk, of a year
        SHAPED_BY: attempt,
        **spec.properties,
    }
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
