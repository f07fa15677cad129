"""How the API server asks the warehouse's store: as the connection says that tasks use, and not for long."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends
from hipslake.errors import StorageError
from hipslake.storage.access import CONNECTION, StoreAccess, asked_as
from hipslake.storage.timeouts import Deadline, seconds_of

from hipslake_airflow.bounded_pool import BoundedPool
from hipslake_airflow.hooks.storage import access_of

PAGE = "HIPSLAKE_PAGE_SECONDS"
_SECONDS = 10.0
_THREADS, _WAITING = 8, 128

Result = TypeVar("Result")

POOL = BoundedPool(_THREADS, _WAITING, "hipslake-page")
"""The threads of all requests: neither the event loop nor the threads of Airflow's API wait for a store."""


class Asking:
    """The store as one request asks it, which has so many seconds in all."""

    def __init__(self) -> None:
        seconds = seconds_of(os.environ, PAGE, _SECONDS)
        self._end = Deadline(time.monotonic() + seconds, seconds, PAGE)

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Return what `work` does in a thread of the page's own; it touches no session of the database.

        Raises
        ------
        StoreTimeoutError
            There was no answer in time.
        """

        def with_access() -> Result:
            with asked_as(store_access()):
                return work()

        return await POOL.run(with_access, self._end)


async def _asking() -> Asking:
    return Asking()


AskingDep = Annotated[Asking, Depends(_asking)]


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
