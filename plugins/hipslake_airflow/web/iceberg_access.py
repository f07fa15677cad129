"""How the API server reaches Iceberg catalogs: as the connection says that a spec names, for one request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hipslake.errors import StorageError
from hipslake.specs.table_place import IcebergSpec

from hipslake_airflow.hooks.iceberg import properties_of


@contextmanager
def iceberg_connection(spec: IcebergSpec) -> Iterator[None]:
    """Reach the catalog of a spec by the connection that it names; else by the environment.

    Raises
    ------
    StorageError
        The connection is missing, or is none of such a catalog.
    """
    if spec.connection is None:
        yield
        return
    from airflow.exceptions import AirflowException
    from airflow.models.connection import Connection
    from hipslake.tables.iceberg.catalogs import connected

    try:
        properties = properties_of(Connection.get_connection_from_secrets(spec.connection), spec.type)
    except AirflowException as error:
        raise StorageError(
            f"the catalog of connection {spec.connection!r} cannot be reached: {error}"
        ) from error
    if spec.uri is not None:
        properties.pop("uri", None)
    with connected(spec.name, properties):
        yield
