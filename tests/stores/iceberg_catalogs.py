"""The services that a catalog of Iceberg tables may stand in: PostgreSQL, and two REST catalogs.

`rest` is SeaweedFS', whose tables lie in its own object store; `small rest` is that of `small_rest_catalog`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from tests.stores.postgres import find_postgres, running_postgres
from tests.stores.rest_catalog import WAREHOUSE, find_weed, running_rest_catalog
from tests.stores.small_rest_catalog import PREFIX, running_small_catalog

KINDS = ("postgresql", "rest", "small rest")


@dataclass(frozen=True)
class Service:
    """A running service.

    Attributes
    ----------
    iceberg : dict
        What a spec says of it, under `iceberg`.
    connection : dict
        The Airflow connection `survey`, which the spec names.
    """

    iceberg: dict[str, Any]
    connection: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """What the connection sets in the environment of a task."""
        from airflow.sdk import Connection
        from hipslake_airflow.hooks.iceberg import properties_of

        told = properties_of(Connection(conn_id="survey", **self.connection), self.iceberg["type"])
        return {f"PYICEBERG_CATALOG__SURVEY__{name.upper()}": value for name, value in told.items()}


@contextmanager
def running_service(kind: str, place: Path) -> Iterator[Service]:
    """Serve an empty catalog; skip the test where the program is not there.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    place : Path
        An existing folder of the test, which the small catalog has its tables and its database in.
    """
    iceberg = {"name": "survey", "connection": "survey"}
    if kind == "small rest":
        database = f"sqlite:///{place}/small.db?timeout=120"
        with running_small_catalog(database, str(place / "warehouse" / "tables")) as small:
            yield Service({"type": "rest", "warehouse": PREFIX, **iceberg}, small.connection)
        return
    if kind == "postgresql":
        programs = find_postgres()
        if programs is None:
            pytest.skip("there is no PostgreSQL; include/setup/setup.sh postgres gets it")
        with running_postgres(programs) as address:
            url = make_url(address)
            place = {"host": url.host, "port": url.port, "schema": url.database}
            who = {"login": url.username, "password": "sesame-of-the-lake"}
            yield Service({"type": "sql", **iceberg}, {"conn_type": "postgres", **place, **who})
        return
    program = find_weed()
    if program is None:
        pytest.skip("there is no SeaweedFS beside the interpreter that HIPSLAKE_PEERS_PYTHON names")
    with running_rest_catalog(program) as catalog, catalog.store.reached():
        yield Service({"type": "rest", "warehouse": WAREHOUSE, **iceberg}, catalog.connection)
