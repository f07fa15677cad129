"""The connection of an Iceberg catalog: where it is, and the keys that it takes.

A table spec names an Airflow connection (`iceberg: {connection: ...}`). A task puts what it says into the
environment of its own process, in the variables that pyiceberg reads (`PYICEBERG_CATALOG__<NAME>__...`); the
driver of a Spark job inherits them. Workers need none: they write files, the driver commits. So no key is
ever part of a command line, a request, a log, a run folder or an XCom.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from hipslake.specs.table_place import IcebergSpec

_EXAMPLES = {
    "sql": '{"conn_type": "postgres", "host": "db", "login": "USER", "password": "SECRET", "schema": "lake"}',
    "rest": '{"conn_type": "http", "host": "https://catalog.example.org", "password": "TOKEN"}',
}
_TYPES = {"sql": ("postgres", "postgresql"), "rest": ("http", "https", "iceberg")}
_SSL = {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl"}
_OAUTH = {"scope", "audience", "resource", "oauth2-server-uri", "prefix"}
_EXTRA = {"sql": {*_SSL, "connect_timeout", "application_name"}, "rest": _OAUTH}


def use_iceberg_connection(spec: IcebergSpec) -> None:
    """Let this process, and those that it starts, reach an Iceberg catalog as its connection says.

    Where the spec names none, the environment stays as it is.

    Raises
    ------
    AirflowFailException
        If the connection is missing, is of another type, or asks for what is not supported.
    """
    if spec.connection is None:
        return
    try:
        connection = BaseHook.get_connection(spec.connection)
    except AirflowNotFoundException:
        raise AirflowFailException(
            f"The spec names the connection {spec.connection!r}, and there is none; "
            f"{_mend(spec.connection, spec.type)}"
        ) from None
    properties = properties_of(connection, spec.type)
    if spec.uri is not None:
        properties.pop("uri", None)
    prefix = f"PYICEBERG_CATALOG__{spec.name.upper()}__"
    for name in [name for name in os.environ if name.upper().startswith(prefix)]:
        del os.environ[name]  # of another connection, maybe: a token must not go to another address
    for name, value in properties.items():
        os.environ[prefix + name.upper().replace("-", "_")] = value


def properties_of(connection: Connection, kind: str) -> dict[str, str]:
    """Return what a connection says, as properties of a pyiceberg catalog.

    Parameters
    ----------
    connection : Connection
        Of type `postgres` for an SQL catalog; of type `http` or `iceberg` for a REST catalog, whose password
        is a token, or with a login the secret of an OAuth2 client.
    kind : str
        `sql` or `rest`.

    Raises
    ------
    AirflowFailException
        If it cannot be used; the message holds no secret.
    """
    extra: dict[str, Any] = connection.extra_dejson
    unknown = sorted(set(extra) - _EXTRA[kind])
    no_text = sorted(name for name, value in extra.items() if not isinstance(value, str))
    problem = ""
    if connection.conn_type not in _TYPES[kind]:
        problem = f"is of type {connection.conn_type!r}; a catalog of type {kind} takes {_TYPES[kind][0]!r}"
    elif not connection.host:
        problem = "has no host"
    elif kind == "rest" and connection.login and not connection.password:
        problem = "has a client id (login) without its secret (password)"
    elif unknown:
        problem = f"has {', '.join(unknown)} in its extra, which is not supported here"
    elif no_text:
        problem = f"has {', '.join(no_text)} in its extra, which must be text"
    if problem:
        raise AirflowFailException(
            f"Connection {connection.conn_id!r} {problem}; {_mend(connection.conn_id, kind)}"
        )
    return _database(connection, extra) if kind == "sql" else _service(connection, extra)


def _database(connection: Connection, extra: dict[str, str]) -> dict[str, str]:
    who = quote(connection.login or "", safe="")
    if connection.password:
        who += ":" + quote(connection.password, safe="")
    port = f":{connection.port}" if connection.port else ""
    options = f"?{urlencode(sorted(extra.items()))}" if extra else ""
    place = f"{connection.host}{port}/{quote(connection.schema or 'postgres', safe='')}"
    return {"uri": f"postgresql+psycopg2://{who + '@' if who else ''}{place}{options}"}


def _service(connection: Connection, extra: dict[str, str]) -> dict[str, str]:
    host = str(connection.host)
    if "://" not in host:
        host = f"{connection.schema or 'https'}://{host}" + (f":{connection.port}" if connection.port else "")
    properties = {"uri": host, **extra}
    if connection.login:
        properties["credential"] = f"{connection.login}:{connection.password}"
    elif connection.password:
        properties["token"] = connection.password
    return properties


def _mend(conn_id: str, kind: str) -> str:
    return (
        f"write it in the UI (Admin, Connections) or as AIRFLOW_CONN_{conn_id.upper()}, such as "
        f"{_EXAMPLES[kind]}; extra may hold {', '.join(sorted(_EXTRA[kind]))}"
    )
