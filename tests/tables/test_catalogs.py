"""Iceberg catalogs: where the environment says they are, and what is told when they do not answer."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hipslake.errors import SpecError, StorageError
from hipslake.specs.table_place import IcebergSpec
from hipslake.tables.iceberg.catalogs import open_catalog
from pyiceberg.catalog.sql import SqlCatalog


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "no such token", "type": "NotAuthorized", "code": 401}}')

    def log_message(self, *told: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_rest_catalog_that_does_not_run_is_told(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Refusing) as closed:
        port = closed.server_port
    with pytest.raises(StorageError, match="catalog 'lake' cannot be reached or does not answer"):
        open_catalog(IcebergSpec(type="rest", name="lake", uri=f"http://127.0.0.1:{port}"), str(tmp_path))


def test_a_rest_catalog_that_refuses_is_told_without_the_token(
    tmp_path: Path, server: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "sesame")
    spec = IcebergSpec(type="rest", name="lake", uri=f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(StorageError, match="look at its address, its keys") as told:
        open_catalog(spec, str(tmp_path))
    assert "sesame" not in str(told.value)


@pytest.mark.parametrize("name", ["lake", "my_lake"])
def test_the_environment_says_where_a_catalog_of_any_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    uri = f"sqlite:///{tmp_path}/{name}.db"
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__URI", uri)
    catalog = open_catalog(IcebergSpec(name=name, connection="survey_lake"), str(tmp_path))
    assert isinstance(catalog, SqlCatalog)
    assert str(catalog.engine.url) == uri
    catalog.close()


@pytest.mark.parametrize(
    ("kind", "uri", "told"),
    [
        ("sql", "postgresql+psycopg2://me:${P}@db:port/lake", "its port as a number"),
        ("sql", "postgrsql://me:${P}@db/lake", "begins with 'postgrsql://', and is none"),
        ("sql", "somewhere", "has no scheme, and is none of a catalog of type sql"),
        ("sql", "postgresql+psycopg2://me:${P}@x@db/lake", "write them as %40"),
        ("rest", "http://me:${P}@db:port", "its port as a number"),
        ("rest", "ftp://me:${P}@db", "begins with 'ftp://', and is none of a catalog of type rest"),
        ("rest", "db:8181", "has no scheme"),
    ],
)
def test_an_address_that_is_none_is_told_for_good_and_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, uri: str, told: str
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri.replace("${P}", "opensesame"))
    with pytest.raises(SpecError, match=told) as raised:
        open_catalog(IcebergSpec(type=kind, name="lake", connection="lake"), str(tmp_path))
    shown = "".join(traceback.format_exception(raised.value))
    assert "opensesame" not in shown
    assert not raised.value.retryable


def test_a_password_that_a_message_shows_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), _Refusing) as closed:
        port = closed.server_port
    address = f"http://me:open%2Fsesame@127.0.0.1:{port}/opensesame"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", address)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "opensesame")  # stands in the address too
    with pytest.raises(StorageError, match=r"does not answer: .*\*\*\*") as raised:
        open_catalog(IcebergSpec(type="rest", name="lake", connection="lake"), str(tmp_path))
    assert "sesame" not in "".join(traceback.format_exception(raised.value))
