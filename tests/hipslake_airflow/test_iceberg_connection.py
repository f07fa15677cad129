"""The connection of an Iceberg catalog: what it may say, and that its secrets go nowhere but to pyiceberg."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException
from hipslake.specs.table_place import IcebergSpec
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake_airflow.hooks.iceberg import properties_of, use_iceberg_connection
from hipslake_airflow.operators.table import IcebergSinkOperator
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.engine import make_url

from tests.stores.postgres import find_postgres, running_postgres

SQL = IcebergSpec(type="sql", name="lake", connection="survey_lake")
REST = IcebergSpec(type="rest", name="lake", connection="survey_lake")
DATABASE = {
    "conn_type": "postgres",
    "host": "db.example.org",
    "port": 5433,
    "login": "ice",
    "password": "top/secret@1",
    "schema": "lake",
}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the connection, and let the environment be as it was after the test."""
    for name in ("URI", "TOKEN", "CREDENTIAL", "SCOPE", "OAUTH2_SERVER_URI"):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", "another's")

    def name_it(connection: dict[str, Any]) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SURVEY_LAKE", json.dumps(connection))

    return name_it


def environment() -> dict[str, str]:
    prefix = "PYICEBERG_CATALOG__LAKE__"
    return {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}


def test_a_database_is_given_by_its_address_and_nothing_else_is_kept(named: Any) -> None:
    named(DATABASE | {"extra": {"sslmode": "require"}})
    use_iceberg_connection(SQL)
    assert list(environment()) == ["URI"]
    url = make_url(environment()["URI"])
    assert (url.drivername, url.username, url.password) == ("postgresql+psycopg2", "ice", "top/secret@1")
    assert (url.host, url.port, url.database) == ("db.example.org", 5433, "lake")
    assert dict(url.query) == {"sslmode": "require"}


@pytest.mark.parametrize(
    ("connection", "told"),
    [
        ({"host": "https://c.org/v1", "password": "t"}, {"URI": "https://c.org/v1", "TOKEN": "t"}),
        ({"host": "c.org", "port": 8181, "schema": "http"}, {"URI": "http://c.org:8181"}),
        (
            {
                "host": "c.org",
                "login": "id",
                "password": "s",
                "extra": {"oauth2-server-uri": "https://o.org"},
            },
            {"URI": "https://c.org", "CREDENTIAL": "id:s", "OAUTH2_SERVER_URI": "https://o.org"},
        ),
    ],
)
def test_a_service_is_given_with_its_token_or_its_credential(
    named: Any, connection: dict[str, Any], told: dict[str, str]
) -> None:
    named({"conn_type": "http"} | connection)
    use_iceberg_connection(REST)
    assert environment() == told


def test_an_address_in_the_spec_goes_first(named: Any) -> None:
    named({"conn_type": "http", "host": "elsewhere.org", "password": "t"})
    use_iceberg_connection(REST.model_copy(update={"uri": "https://c.org"}))
    assert environment() == {"TOKEN": "t"}


def test_without_a_connection_the_environment_stays(named: Any) -> None:
    before = environment()
    use_iceberg_connection(IcebergSpec(name="lake"))
    assert environment() == before


@pytest.mark.parametrize(
    ("spec", "connection", "says"),
    [
        (SQL, None, "names the connection 'survey_lake', and there is none"),
        (
            SQL,
            DATABASE | {"conn_type": "mysql"},
            "is of type 'mysql'; a catalog of type sql takes 'postgres'",
        ),
        (SQL, DATABASE | {"host": None}, "has no host"),
        (SQL, DATABASE | {"extra": {"cursor": "x"}}, "has cursor in its extra, which is not supported"),
        (REST, DATABASE, "is of type 'postgres'; a catalog of type rest takes 'http'"),
        (REST, {"conn_type": "http", "host": "c.org", "login": "id"}, "without its secret"),
        (
            REST,
            {"conn_type": "http", "host": "c.org", "password": "top/secret@1", "extra": {"scope": 3}},
            "has scope in its extra, which must be text",
        ),
    ],
)
def test_connections_that_cannot_be_used_are_told_with_the_mend(
    named: Any, spec: IcebergSpec, connection: dict[str, Any] | None, says: str
) -> None:
    if connection is not None:
        named(connection)
    with pytest.raises(AirflowFailException, match=says) as raised:
        use_iceberg_connection(spec)
    assert "AIRFLOW_CONN_SURVEY_LAKE" in str(raised.value)
    assert "top/secret" not in str(raised.value)


def test_the_submitted_command_holds_no_secret(named: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2,4]"}')
    named(DATABASE)
    use_iceberg_connection(SQL)
    operator = IcebergSinkOperator(task_id="sink", run_uri="s3://bucket/runs/1", table="stars")
    hook = operator._get_hook()
    command = " ".join(hook._build_spark_submit_command(operator.application))
    assert "secret" not in command
    assert "secret" not in json.dumps(hook._env_vars)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, make test gets it")
    with running_postgres(programs) as address:
        yield address


@pytest.mark.system
def test_postgresql_holds_the_catalog(named: Any, postgres: str, tmp_path: Path) -> None:
    url = make_url(postgres)
    named(
        {
            "conn_type": "postgres",
            "host": url.host,
            "port": url.port,
            "login": url.username,
            "schema": url.database,
        }
    )
    for rows in (2, 4):  # the second time it stands already
        use_iceberg_connection(SQL)
        catalog = open_catalog(SQL, str(tmp_path))
        assert isinstance(catalog, SqlCatalog)
        catalog.create_namespace_if_not_exists("survey")
        table = catalog.create_table_if_not_exists("survey.stars", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
        assert catalog.load_table("survey.stars").scan().to_arrow().num_rows == rows
        catalog.engine.dispose()  # PostgreSQL waits for its clients before it stops


def test_properties_are_those_that_pyiceberg_knows() -> None:
    given = Connection(conn_id="c", conn_type="iceberg", host="https://c.org", login="id", password="s")
    assert properties_of(given, "rest") == {"uri": "https://c.org", "credential": "id:s"}
