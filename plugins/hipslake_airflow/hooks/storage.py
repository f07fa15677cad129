"""The object store's connection: where credentials come from, and how they reach the work.

`HIPSLAKE_STORAGE_CONN` names an Airflow connection of type `aws`. A task puts it into the environment of its
own process: the library's clients find it there, and so does the driver of a Spark job, which inherits it and
hands it to its executors. It is never part of a command line, a request, a log or a run folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from hipslake.storage.access import CONNECTION, StoreAccess

if TYPE_CHECKING:
    from airflow.sdk import Connection

EXAMPLE = (
    '{"conn_type": "aws", "login": "KEY", "password": "SECRET", '
    '"extra": {"endpoint_url": "https://store.example.org"}}'
)
_KNOWN = {"aws_session_token", "region_name", "endpoint_url", "profile_name"}


def use_storage_connection() -> None:
    """Let this process, and those that it starts, reach stores as the connection says.

    For a task's own process. Where `HIPSLAKE_STORAGE_CONN` is not set, the machine's own credentials hold.

    Raises
    ------
    AirflowFailException
        If the connection is missing, is not of type `aws`, or asks for what is not supported.
    """
    conn_id = os.environ.get(CONNECTION)
    if conn_id:
        try:
            connection = BaseHook.get_connection(conn_id)
        except AirflowNotFoundException:
            raise _missing(conn_id) from None
        access_of(connection).apply(os.environ)


async def storage_access() -> StoreAccess | None:
    """Return what the connection says, for a process that is not the task's own; None if none is named."""
    conn_id = os.environ.get(CONNECTION)
    if not conn_id:
        return None
    try:
        connection = await BaseHook.aget_connection(conn_id)
    except AirflowNotFoundException:
        raise _missing(conn_id) from None
    return access_of(connection)


def access_of(connection: Connection) -> StoreAccess:
    """Return what a connection of type `aws` says, in the words of Airflow's Amazon provider."""
    extra: dict[str, Any] = connection.extra_dejson
    unknown = sorted(set(extra) - _KNOWN)
    no_text = sorted(name for name, value in extra.items() if not isinstance(value, str))
    problem = ""
    if connection.conn_type != "aws":
        problem = f"is of type {connection.conn_type!r}, not 'aws'"
    elif bool(connection.login) != bool(connection.password):
        problem = "has a key without its secret (login and password), or the other way round"
    elif unknown:
        problem = f"has {', '.join(unknown)} in its extra, which is not supported here"
    elif no_text:
        problem = f"has {', '.join(no_text)} in its extra, which must be text"
    if problem:
        raise AirflowFailException(
            f"Connection {connection.conn_id!r} {problem}; {_mend(connection.conn_id)}"
        )
    return StoreAccess(
        key=connection.login or None,
        secret=connection.password or None,
        token=extra.get("aws_session_token"),
        region=extra.get("region_name"),
        endpoint=extra.get("endpoint_url"),
        profile=extra.get("profile_name"),
    )


def _missing(conn_id: str) -> AirflowFailException:
    return AirflowFailException(
        f"{CONNECTION} names the connection {conn_id!r}, and there is none; {_mend(conn_id)}"
    )


def _mend(conn_id: str) -> str:
    return (
        f"write it in the UI (Admin, Connections) or as AIRFLOW_CONN_{conn_id.upper()}, such as {EXAMPLE}; "
        f"extra may hold {', '.join(sorted(_KNOWN))}"
    )
