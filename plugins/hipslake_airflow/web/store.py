"""How the API server reaches the warehouse's store: as the connection says that tasks use."""

from __future__ import annotations

import os

from hipslake.errors import StorageError
from hipslake.files.access import CONNECTION, StoreAccess

from hipslake_airflow.hooks.storage import access_of


def store_access() -> StoreAccess | None:
    """What `HIPSLAKE_STORAGE_CONN` says; None if it names no connection.

    It is for one request: the server's environment is shared with whatever else it serves.

    Raises
    ------
    StorageError
        The connection is missing, or is none that reaches a store.
    """
    from airflow.exceptions import AirflowException
    from airflow.models.connection import Connection

    conn_id = os.environ.get(CONNECTION)
    if not conn_id:
        return None
    try:
        return access_of(Connection.get_connection_from_secrets(conn_id))
    except AirflowException as error:
        raise StorageError(f"the warehouse's store cannot be reached: {error}") from error
