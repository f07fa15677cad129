"""Iceberg catalogs: opened, their tables loaded, and what both raise as errors of ours."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
)
from pyiceberg.table import Table
from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import Config
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError

from hipslake.errors import (
    SpecError,
    StorageError,
    StoreTimeoutError,
)
from hipslake.specs.environment import expand, with_variables
from hipslake.specs.secrets import is_ambiguous, secrets_of, without
from hipslake.specs.table_place import IcebergSpec
from hipslake.storage.access import access_asked
from hipslake.storage.timeouts import timeouts
from hipslake.tables.iceberg.file_properties import check_properties
from hipslake.tables.iceberg.metadata_files import metadata_failures

TABLES = "tables"
"""The folder of the warehouse in which tables lie."""

SQLITE_FILE = "iceberg.db"
_LOCK_SECONDS = 120  # that a writer waits for others that write to SQLite
_LIBPQ = ("postgresql", "postgresql+psycopg2", "postgresql+psycopg")
_KEY_VARIABLES = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
}
_STORE_VARIABLES = {
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_EXAMPLES = {"rest": "http://catalog.example.org:8181", "hive": "thrift://metastore.example.org:9083"}
_PACKAGES = {"glue": "pyiceberg[glue]", "hive": "pyiceberg[hive]"}
NEWEST_FORMAT = 2


def _of_thrift() -> tuple[type[Exception], ...]:
    """The errors of a Hive metastore; none without the package that comes with `pyiceberg[hive]`."""
    try:
        return (import_module("thrift.Thrift").TException,)
    except ModuleNotFoundError:
        return ()


def _of_requests(name: str) -> tuple[type[Exception], ...]:
    """An exception of `requests`; none where it is not imported, which takes a while and only REST needs."""
    module = sys.modules.get("requests.exceptions")
    return () if module is None else (getattr(module, name),)


SERVICE_FAILURES: tuple[type[Exception], ...] = (
    SQLAlchemyError,
    RESTError,
    BotoCoreError,
    ClientError,
    ConnectionError,
    TimeoutError,
    *_of_thrift(),
)
"""Errors of a catalog's service, and of the way to it, but for those of `requests`: see `_of_requests`."""

_CONNECTED: ContextVar[Mapping[str, Mapping[str, str]]] = ContextVar("connected catalogs")


@contextmanager
def connected(name: str, properties: Mapping[str, str]) -> Iterator[None]:
    """Reach a catalog by some properties in the block, in this thread, whatever the environment says of it.

    For processes that several users share: a task sets its environment.
    """
    before = _CONNECTED.set({**_CONNECTED.get({}), name: properties})
    try:
        yield
    finally:
        _CONNECTED.reset(before)


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
        # That of a REST catalog is a name, which the catalog knows.
        given["warehouse"] = (with_variables if spec.type == "rest" else expand)(spec.warehouse)
    elif spec.type != "rest":  # which knows best where its tables lie
        given["warehouse"] = f"{warehouse.rstrip('/')}/{TABLES}"
    if spec.uri is not None:
        given["uri"] = _database(spec.uri) if spec.type == "sql" else expand(spec.uri)
    elif "uri" not in known and spec.type != "glue":
        if spec.connection is not None or spec.type == "rest":
            raise SpecError(
                f"iceberg: no address of catalog {spec.name!r} is known; give uri, or set "
                f"PYICEBERG_CATALOG__{spec.name.upper()}__URI (an Airflow connection does)"
            )
        given["uri"] = _database("sqlite:///${HIPSLAKE_STATE}/" + SQLITE_FILE)
    # pyiceberg read the environment when it was imported; a task sets it later.
    given = {**_texts(known), **given}
    address = given.get("uri", "")
    if is_ambiguous(address):
        raise SpecError(
            f"iceberg: the address of catalog {spec.name!r} has a user or password with @, ? or # in it, "
            "which end it; write them as %40, %3F and %23 (an Airflow connection does)"
        )
    with reaching(spec.name), _making_sense(spec, address):
        if spec.type == "rest":
            # Its client takes a while to import, which tables of other catalogs do without.
            from hipslake.tables.iceberg.rest_catalog import LimitedRestCatalog

            conf: dict[str, Any] = {**known, **given}
            return LimitedRestCatalog(spec.name, **conf)
        try:
            return load_catalog(spec.name, **given)
        except DatabaseError:  # another process has just made the catalog's tables
            return load_catalog(spec.name, **given)


@contextmanager
def _making_sense(spec: IcebergSpec, address: str) -> Iterator[None]:
    """Raise a `SpecError` for a malformed address, without the original message: it may quote a password."""
    like = _EXAMPLES.get(spec.type, "postgresql+psycopg2://db:5432/lake")
    scheme = address.partition(":")[0] if "://" in address else ""
    what = f"begins with {scheme + '://'!r}" if scheme else "has no scheme"
    try:
        yield
    except (NotInstalledError, ModuleNotFoundError) as error:
        if spec.type in _PACKAGES:
            raise SpecError(
                f"iceberg: a catalog of type {spec.type} needs Python packages that are not there; "
                f'pip install "{_PACKAGES[spec.type]}"'
            ) from None
        if isinstance(error, NotInstalledError):
            raise
        raise SpecError(
            f"iceberg: the address of catalog {spec.name!r} {what}, which needs the Python package "
            f"{error.name}; install it, or take another scheme"
        ) from None
    except ValidationError:  # of an answer
        raise
    except (ArgumentError, ValueError):  # the latter of `requests`, too
        raise SpecError(
            f"iceberg: the address of catalog {spec.name!r} {what}, and is none of a catalog of type "
            f"{spec.type}; write it as {like}, its port as a number"
        ) from None


def _known(name: str) -> RecursiveDict:
    """The properties of a catalog in the environment; pyiceberg reads `_` in names of variables as `-`."""
    if (connection := _CONNECTED.get({}).get(name)) is not None:
        return RecursiveDict(connection)
    config = Config()
    return config.get_catalog_config(name) or config.get_catalog_config(name.replace("_", "-")) or {}


def _texts(properties: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if isinstance(value, str)}


def _database(uri: str) -> str:
    """The URI of a database; that of a SQLite file is absolute, its folder made, and writers wait in line."""
    scheme, _, path = uri.partition(":///")
    if scheme != "sqlite":
        return _connecting_in_time(expand(uri))
    path, _, options = path.partition("?")
    file = Path(expand(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    if "timeout=" not in options:
        options = "&".join(filter(None, [options, f"timeout={_LOCK_SECONDS}"]))
    return f"sqlite:///{file}?{options}"


def _connecting_in_time(uri: str) -> str:
    """The URI of a database server, with a limit for the time of connecting if its driver is libpq."""
    scheme, _, rest = uri.partition("://")
    if scheme not in _LIBPQ or "connect_timeout=" in uri:
        return uri
    seconds = max(2, math.ceil(timeouts().connect))  # less is none to libpq
    return f"{scheme}://{rest}{'&' if '?' in rest else '?'}connect_timeout={seconds}"


def _store_properties() -> dict[str, str]:
    """Where object stores are, and how long they are waited for, in pyiceberg's words."""
    limits, asked = timeouts(), {**os.environ, **access_asked()}
    found = {"s3.connect-timeout": f"{limits.connect:g}", "s3.request-timeout": f"{limits.read:g}"}
    for name, variables in _STORE_VARIABLES.items():
        value = next((asked[v] for v in variables if asked.get(v)), None)
        if value:
            found[name] = value
    # Keys in the environment are found by pyiceberg itself.
    given = access_asked()
    return found | {name: given[variable] for name, variable in _KEY_VARIABLES.items() if variable in given}


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Raise a retryable error of ours where a catalog cannot be reached."""
    try:
        yield
    except CommitStateUnknownException:
        raise  # the caller checks whether the commit stands
    except ValidationError as error:
        raise StorageError(
            f"Iceberg catalog {what!r} gave an answer that cannot be read ({told_of(what, error)}): it was "
            "cut off on its way, or does not follow the specification; run it again, and look at what stands "
            "between here and the catalog"
        ) from (None if _tells_secrets(what, error) else error)
    except (*SERVICE_FAILURES, *_of_requests("RequestException")) as error:
        is_late = isinstance(error, (TimeoutError, *_of_requests("Timeout")))
        kind = StoreTimeoutError if is_late else StorageError
        raise kind(
            f"Iceberg catalog {what!r} cannot be reached or does not answer: {told_of(what, error)}; look at "
            "its address, its keys, and whether it runs"
        ) from (None if _tells_secrets(what, error) else error)


def told_of(catalog: str, error: Exception) -> str:
    """The message of an error in one line, without the secrets of a catalog in the environment."""
    told = without(str(error), secrets_of(_texts(_known(catalog))))
    return "".join(told.splitlines()[:1]) or type(error).__name__


def _tells_secrets(catalog: str, error: Exception) -> bool:
    return without(str(error), secrets_of(_texts(_known(catalog)))) != str(error)


def find_table(catalog: Catalog, name: str) -> Table | None:
    """Return a table of a catalog, None if there is none."""
    try:
        with metadata_failures(name, "its metadata file"), reaching(catalog.name):
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
    there = catalog.list_tables(namespace) if has_namespace(catalog, namespace) else []
    names = ", ".join(sorted(".".join(other) for other in there))
    known = f"there are {names}" if names else f"namespace {namespace!r} holds no table"
    raise SpecError(f"catalog {catalog.name!r} has no table {name!r}; {known}")


def check_writable(table: Table) -> None:
    """Look that a table is of a format version that pyiceberg writes, and can be as its properties say.

    Raises
    ------
    SpecError
        It is of a newer one; or a property asks for what cannot be done.
    """
    version = table.metadata.format_version
    if version > NEWEST_FORMAT:
        raise SpecError(
            f"table {'.'.join(table.name())} is of Iceberg's format version {version}; versions up to "
            f"{NEWEST_FORMAT} can be written. Let the engine that made it write it, or make one of version 2"
        )
    check_properties(table)


def has_namespace(catalog: Catalog, namespace: str) -> bool:
    """Whether a catalog has a namespace; none has one without a name."""
    return bool(namespace) and catalog.namespace_exists(namespace)


def without_client_retries(table: Table) -> Table:
    """The table, with which pyiceberg asks the catalog once: between two tries it is for us to look."""
    metadata = table.metadata.model_copy(
        update={"properties": {**table.metadata.properties, "commit.retry.num-retries": "0"}}
    )
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
