"""Iceberg catalogs and tables: opened, and made if they are absent."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as IcebergSortField
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import Config
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema, RequestException
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, SQLAlchemyError

from hipslake.errors import ConflictError, SchemaMismatchError, SpecError, StorageError
from hipslake.specs.environment import expand
from hipslake.specs.partitioning import PartitionField, SortField
from hipslake.specs.secrets import is_ambiguous, secrets_of, without
from hipslake.specs.table import IcebergSpec, TableSpec
from hipslake.storage import Storage
from hipslake.tables.schemas import iceberg_schema, iceberg_type, missing_columns
from hipslake.tables.standing_fields import partition_fields
from hipslake.tables.transforms import result_type

log = logging.getLogger(__name__)

TABLES = "tables"
"""The folder of the warehouse in which tables lie."""

SQLITE_FILE = "iceberg.db"
_LOCK_SECONDS = 120  # that a writer waits for others that write to SQLite
_TRIES = 20
_STORE_VARIABLES = {
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
FORMAT_VERSION = "2"
NEWEST_FORMAT = 2
LOGGED_METADATA = "20"
"""So many older metadata files the log of a new table names; a vacuum deletes the others."""
SHAPED_BY = "hipslake.shaped-by"
"""Property of a table: the attempt that made it, or gave it its newest columns."""


class OpenTable(NamedTuple):
    """A table that rows fit to."""

    table: Table
    created: bool
    columns_added: tuple[str, ...]


def open_catalog(spec: IcebergSpec, warehouse: str) -> Catalog:
    """Open the Iceberg catalog of a spec.

    What the environment says of the catalog (`PYICEBERG_CATALOG__<NAME>__...`) counts where the spec says
    nothing.

    Parameters
    ----------
    spec : IcebergSpec
    warehouse : str
        New tables of an SQL catalog lie in its folder `tables`, unless the spec names another place.

    Raises
    ------
    StorageError
        The catalog cannot be reached.
    SpecError
        Its address makes no sense.
    """
    known = _known(spec.name)
    given = {"type": spec.type, **_store_properties(), **spec.properties}
    if spec.warehouse:
        given["warehouse"] = expand(spec.warehouse)
    elif spec.type == "sql":  # a REST catalog knows best where its tables lie
        given["warehouse"] = f"{warehouse.rstrip('/')}/{TABLES}"
    if spec.uri is not None:
        given["uri"] = _database(spec.uri) if spec.type == "sql" else expand(spec.uri)
    elif "uri" not in known:
        if spec.connection is not None or spec.type == "rest":
            raise SpecError(
                f"iceberg: no address of catalog {spec.name!r} is known; give uri, or set "
                f"PYICEBERG_CATALOG__{spec.name.upper()}__URI (an Airflow connection does)"
            )
        given["uri"] = _database("sqlite:///${HIPSLAKE_STATE}/" + SQLITE_FILE)
    # pyiceberg read the environment when it was imported; a task sets it later.
    given = {**_texts(known), **given}
    if is_ambiguous(given["uri"]):
        raise SpecError(
            f"iceberg: the address of catalog {spec.name!r} has a user or password with @, ? or # in it, "
            "which end it; write them as %40, %3F and %23 (an Airflow connection does)"
        )
    with reaching(spec.name), _making_sense(spec, given["uri"]):
        try:
            return load_catalog(spec.name, **given)
        except DatabaseError:  # another process has just made the catalog's tables
            return load_catalog(spec.name, **given)


@contextmanager
def _making_sense(spec: IcebergSpec, address: str) -> Iterator[None]:
    """Tell of an address that is none, but not in others' words, which may hold parts of a password."""
    like = "http://catalog.example.org:8181" if spec.type == "rest" else "postgresql+psycopg2://db:5432/lake"
    scheme = address.partition(":")[0] if "://" in address else ""
    what = f"begins with {scheme + '://'!r}" if scheme else "has no scheme"
    try:
        yield
    except ModuleNotFoundError as error:
        raise SpecError(
            f"iceberg: the address of catalog {spec.name!r} {what}, which needs the Python package "
            f"{error.name}; install it, or take another scheme"
        ) from None
    except (ArgumentError, InvalidURL, InvalidSchema, MissingSchema, ValueError):
        raise SpecError(
            f"iceberg: the address of catalog {spec.name!r} {what}, and is none of a catalog of type "
            f"{spec.type}; write it as {like}, its port as a number"
        ) from None


def _known(name: str) -> RecursiveDict:
    """What the environment says of a catalog; pyiceberg reads `_` in the names of variables as `-`."""
    config = Config()
    return config.get_catalog_config(name) or config.get_catalog_config(name.replace("_", "-")) or {}


def _texts(properties: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if isinstance(value, str)}


def _database(uri: str) -> str:
    """The URI of a database; that of a SQLite file is absolute, its folder made, and writers wait in line."""
    scheme, _, path = uri.partition(":///")
    if scheme != "sqlite":
        return expand(uri)
    path, _, options = path.partition("?")
    file = Path(expand(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    options = (
        options if "timeout=" in options else "&".join(filter(None, [options, f"timeout={_LOCK_SECONDS}"]))
    )
    return f"sqlite:///{file}?{options}"


def _store_properties() -> dict[str, str]:
    """Where object stores are, as this project's environment says it, in pyiceberg's words."""
    found = {}
    for name, variables in _STORE_VARIABLES.items():
        value = next((os.environ[v] for v in variables if os.environ.get(v)), None)
        if value:
            found[name] = value
    return found


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Tell that a catalog cannot be reached as an error of ours, which may pass."""
    try:
        yield
    except CommitStateUnknownException:
        raise  # whoever asks for a commit looks what became of it
    except (SQLAlchemyError, RESTError, RequestException, ConnectionError, TimeoutError) as error:
        secrets = secrets_of(_texts(_known(what)))
        told = without(str(error), secrets)
        raise StorageError(
            f"Iceberg catalog {what!r} cannot be reached or does not answer: "
            f"{''.join(told.splitlines()[:1]) or type(error).__name__}; look at its address, its keys, "
            "and whether it runs"
        ) from (error if told == str(error) else None)


def find_table(catalog: Catalog, name: str) -> Table | None:
    """Return a table of a catalog, None if there is none."""
    try:
        with reaching(catalog.name):
            return catalog.load_table(name)
    except NoSuchTableError:
        return None


def open_table(catalog: Catalog, name: str) -> Table:
    """Return a table of a catalog.

    Raises
    ------
    SpecError
        There is no such table; the message lists those of its namespace.
    """
    table = find_table(catalog, name)
    if table is not None:
        return table
    namespace = name.rpartition(".")[0]
    there = [".".join(other) for other in catalog.list_tables(namespace)] if _has(catalog, namespace) else []
    known = f"there are {', '.join(sorted(there))}" if there else f"namespace {namespace!r} holds no table"
    raise SpecError(f"catalog {catalog.name!r} has no table {name!r}; {known}")


def check_writable(table: Table) -> None:
    """Look that a table is of a format version that pyiceberg writes.

    Raises
    ------
    SpecError
        It is a newer one.
    """
    version = table.metadata.format_version
    if version > NEWEST_FORMAT:
        raise SpecError(
            f"table {'.'.join(table.name())} is of Iceberg's format version {version}; versions up to "
            f"{NEWEST_FORMAT} can be written. Let the engine that made it write it, or make one of version 2"
        )


def _has(catalog: Catalog, namespace: str) -> bool:
    return bool(namespace) and catalog.namespace_exists(namespace)


def fitting_table(catalog: Catalog, spec: TableSpec, stored: pa.Schema) -> OpenTable:
    """Return the table of a spec: created if absent, with columns added if the rows have more.

    Parameters
    ----------
    catalog : Catalog
    spec : TableSpec
    stored : pyarrow.Schema
        The columns of the rows, as a table keeps them.

    Raises
    ------
    SchemaMismatchError
        A column does not fit, or is missing; or the table is partitioned in another way.
    ConflictError
        Others kept changing the schema at the same time.
    """
    check_fields(spec, stored)
    for _ in range(_TRIES):
        table = find_table(catalog, spec.table)
        attempt = uuid.uuid4().hex
        if table is None:
            try:
                return OpenTable(_create(catalog, spec, stored, attempt), True, ())
            except TableAlreadyExistsError:  # another run was first
                _forget(find_table(catalog, spec.table), attempt, 0)
                continue
        check_writable(table)
        missing = missing_columns(spec.table, table.schema(), stored)
        check_partition(table, spec)
        if not missing:
            return OpenTable(table, False, ())
        try:
            with reaching(catalog.name), table.transaction() as transaction:
                transaction.set_properties({SHAPED_BY: attempt})
                with transaction.update_schema() as update:
                    for field in missing:
                        update.add_column(field.name, iceberg_type(field.type, iter(range(1, 10_000))))
        except CommitFailedException:
            _forget(table, attempt, version_of(table.metadata_location) + 1)
            continue
        names = tuple(field.name for field in missing)
        log.info("Table %s gets column %s.", spec.table, ", ".join(names))
        return OpenTable(open_table(catalog, spec.table), False, names)
    raise ConflictError(f"table {spec.table}: others kept changing its schema; try again later")


def check_fields(spec: TableSpec, stored: pa.Schema) -> None:
    """Look whether partition, sort order, key and interval name columns of the rows, of types that will do.

    Raises
    ------
    SchemaMismatchError
        There is no such column.
    SpecError
        A transform has no meaning for its column's type.
    """
    columns = ", ".join(stored.names)
    fields = [("partition", f) for f in spec.partition] + [("sort", f.field) for f in spec.sort]
    named = [(what, field.column) for what, field in fields]
    named += [("key", name) for name in spec.key]
    named += [("duplicates", name) for name in (spec.duplicates.last_by,) if name]
    named += [("interval", name) for name in (spec.interval,) if name]
    for what, name in named:
        if name not in stored.names:
            raise SchemaMismatchError(f"{what}: the rows have no column {name!r}; they have {columns}")
    if last_by := spec.duplicates.last_by:
        kind = stored.field(last_by).type
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise SpecError(
                f"duplicates: column {last_by!r} is of type {kind}, whose values have no order; take a "
                "number, a time or a text"
            )
    for _, field in fields:
        result_type(in_table(field), stored.field(field.column).type)
    for field in spec.partition:
        if field.name != field.column and field.name in stored.names:
            raise SchemaMismatchError(
                f"partition: the field of {field} is called {field.name!r}, and so is a column; rename "
                "the column"
            )


def in_table(field: PartitionField) -> PartitionField:
    """A field as the table sees it: a pixel is a column there."""
    return PartitionField.parse(f"{field.iceberg_transform}({field.column})")


def version_of(metadata_file: str) -> int:
    """The number of a metadata file: 0 for a new table, one more with each commit; -1 if it has none."""
    number = metadata_file.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdigit() else -1


def _forget(table: Table | None, attempt: str, version: int) -> None:
    """Delete the metadata file of an attempt that others were quicker than: no catalog ever named it."""
    if table is None:
        return
    folder = Storage.at(table.location()).sub("metadata")
    for entry in folder.list():
        if not entry.path.endswith(".metadata.json") or version_of(entry.path) != version:
            continue
        told = json.loads(folder.read(entry.path))
        if told.get("properties", {}).get(SHAPED_BY) == attempt:
            folder.delete(entry.path)


def _create(catalog: Catalog, spec: TableSpec, stored: pa.Schema, attempt: str) -> Table:
    schema = iceberg_schema(stored)
    namespace = spec.table.rpartition(".")[0]
    with reaching(catalog.name):
        if not _has(catalog, namespace):
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


def partition_spec(fields: tuple[PartitionField, ...], schema: Schema) -> PartitionSpec:
    """The Iceberg partition spec of some fields."""
    if not fields:
        return UNPARTITIONED_PARTITION_SPEC
    return PartitionSpec(
        *[
            IcebergField(
                source_id=schema.find_field(field.column).field_id,
                field_id=PARTITION_FIELD_ID_START + at,
                transform=parse_transform(field.iceberg_transform),
                name=field.name,
            )
            for at, field in enumerate(fields)
        ]
    )


def sort_order(fields: tuple[SortField, ...], schema: Schema) -> SortOrder:
    """The Iceberg sort order of some fields."""
    if not fields:
        return UNSORTED_SORT_ORDER
    return SortOrder(
        *[
            IcebergSortField(
                source_id=schema.find_field(sort.field.column).field_id,
                transform=parse_transform(sort.field.iceberg_transform),
                direction=SortDirection.DESC if sort.descending else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if sort.nulls_first else NullOrder.NULLS_LAST,
            )
            for sort in fields
        ]
    )


def check_partition(table: Table, spec: TableSpec) -> None:
    """Look whether a table is partitioned as a spec says.

    Raises
    ------
    SchemaMismatchError
        It is not: a sink does not repartition.
    """
    standing = [str(field) for field in partition_fields(table)]
    wanted = [str(in_table(field)) for field in spec.partition]
    if standing != wanted:
        raise SchemaMismatchError(
            f"table {spec.table} is partitioned by {', '.join(standing) or 'nothing'}, the spec says "
            f"{', '.join(wanted) or 'nothing'}; write into the spec what the table has, or sink into "
            "another table"
        )
