"""Tables whose Iceberg catalog an Airflow connection names are asked for as it says, for one request."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake.specs.spec_folder import SpecFolder
from hipslake_airflow.web.products import tables

from tests.stores.http_serving import PlainHandler, running_http

TOKEN = "a-token-of-the-lake"
SPEC = """\
name: stars
table: sky.stars
iceberg: {type: rest, name: lake, connection: survey_lake}
source: {catalog: stars}
partition: ["healpix[1]"]
"""


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[str | None]]]:
    """A catalog that refuses everybody, quoting the token, and what it was told of who asks."""
    asked: list[str | None] = []

    class Handler(PlainHandler):
        def reply(self, body: bytes) -> None:
            asked.append(self.headers.get("Authorization"))
            told = {"message": f"no {TOKEN} here", "type": "NotAuthorized", "code": 401}
            self.answer(401, json.dumps({"error": told}).encode())

    with running_http(Handler) as address:
        yield address, asked


@pytest.fixture
def folder(airflow: Path, tmp_path: Path) -> SpecFolder:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "stars.yaml").write_text(SPEC)
    return SpecFolder(tmp_path)


def test_a_table_is_asked_for_as_its_connection_says(
    folder: SpecFolder,
    refusing: tuple[str, list[str | None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, asked = refusing
    connection = {"conn_type": "http", "host": address, "password": TOKEN}
    monkeypatch.setenv("AIRFLOW_CONN_SURVEY_LAKE", json.dumps(connection))
    before = dict(os.environ)
    (table,) = tables(folder, str(tmp_path))
    assert asked
    assert set(asked) == {f"Bearer {TOKEN}"}
    assert table.problem is not None
    assert TOKEN not in table.problem
    assert dict(os.environ) == before


def test_a_connection_that_is_missing_is_told(
    folder: SpecFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SURVEY_LAKE", raising=False)
    (table,) = tables(folder, str(tmp_path))
    assert table.problem is not None
    assert "survey_lake" in table.problem
