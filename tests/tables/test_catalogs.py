"""Iceberg catalogs: where the environment says they are, and what is told when they do not answer."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest
from hipslake.errors import SpecError, StorageError
from hipslake.specs.table_place import IcebergSpec
from hipslake.tables.iceberg.catalogs import open_catalog
from pyiceberg.catalog.sql import SqlCatalog

from tests.stores.http_serving import PlainHandler, running_http


class _Refusing(PlainHandler):
    def reply(self, body: bytes) -> None:
        told = {"message": "no such token", "type": "NotAuthorized", "code": 401}
        self.answer(401, json.dumps({"error": told}).encode())


def test_a_rest_catalog_that_does_not_run_is_told(tmp_path: Path) -> None:
    with running_http(_Refusing) as closed:
        pass
    with pytest.raises(StorageError, match="catalog 'lake' cannot be reached or does not answer"):
        open_catalog(IcebergSpec(type="rest", name="lake", uri=closed), str(tmp_path))


def test_a_rest_catalog_that_refuses_is_told_without_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "sesame")
    with (
        running_http(_Refusing) as address,
        pytest.raises(StorageError, match="look at its address, its keys") as told,
    ):
        open_catalog(IcebergSpec(type="rest", name="lake", uri=address), str(tmp_path))
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
    with running_http(_Refusing) as closed:
        pass
    address = closed.replace("//", "//me:open%2Fsesame@") + "/opensesame"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", address)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "opensesame")  # stands in the address too
    with pytest.raises(StorageError, match=r"does not answer: .*\*\*\*") as raised:
        open_catalog(IcebergSpec(type="rest", name="lake", connection="lake"), str(tmp_path))
    assert "sesame" not in "".join(traceback.format_exception(raised.value))
