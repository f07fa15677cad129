"""Iceberg tables in Glue's catalog, as moto plays it; one writer, as moto looks at no versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import NotWritableError, SpecError, StorageError
from hipslake.specs.table_place import IcebergSpec
from hipslake.tables.iceberg import commit as committing
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.glue import GlueCatalog

from tests.stores.s3_server import REGION, S3Server
from tests.system import sinks
from tests.tables.compaction import compacting
from tests.tables.sinking import Lake, utc


@pytest.fixture
def glue(s3_server: S3Server) -> dict[str, Any]:
    """The catalog as a spec says it."""
    return {
        "type": "glue",
        "name": "glue",
        "properties": {"glue.endpoint": s3_server.endpoint, "glue.region": REGION},
    }


def test_sinks_upserts_and_compactions_go_through_glue(glue: dict[str, Any], tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    spec = lake.spec(iceberg=glue, table="survey_glue.nights", mode="upsert", key="id")
    for night, (first, value) in enumerate([(0, 1), (5, 2)]):
        rows, start = sinks.rows(first, 10, value), utc(f"2026-01-0{night + 1}T00:00:00")
        assert not lake.sink(spec, rows, start=start).skipped
    assert lake.sink(spec, uri=str(tmp_path / "landing" / "0001" / "*.parquet"), start=start).skipped
    due = [{"id": n, "value": 1 if n < 5 else 2} for n in range(15)]
    assert lake.rows(spec).to_pylist() == due
    done = compacting.compact(
        compacting.request(tmp_path, table="survey_glue.nights", iceberg=glue, full=True)
    )
    assert (done.rows_in, done.rows_out, bool(done.version)) == (15, 15, True)
    plain = load_catalog("plain", type="glue", **glue["properties"]).load_table("survey_glue.nights")
    assert plain.scan().to_arrow().sort_by("id").to_pylist() == due
    assert plain.location() == f"{lake.warehouse}/tables/survey_glue.db/nights"


def test_what_glue_answers_is_told(
    glue: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ClientError, EndpointConnectionError

    monkeypatch.setattr(committing, "_LOOKS", 1)
    lake = Lake(tmp_path)
    spec = lake.spec(iceberg=glue, table="survey_glue.denied")
    lake.sink(spec, sinks.rows(0, 5, 1))

    def denied(*given: Any, **named: Any) -> None:
        told = {"Error": {"Code": "AccessDeniedException", "Message": "not this user"}}
        raise ClientError(told, "UpdateTable")  # type: ignore[arg-type]

    monkeypatch.setattr(GlueCatalog, "_update_glue_table", denied)
    with pytest.raises(NotWritableError, match="does not let this user commit"):
        lake.sink(spec, sinks.rows(5, 5, 1), start=utc("2026-01-01T00:00:00"))

    def gone(*given: Any) -> None:
        raise EndpointConnectionError(endpoint_url="https://glue")

    monkeypatch.setattr(GlueCatalog, "load_table", gone)
    with pytest.raises(StorageError, match="'glue' cannot be reached"):
        open_table(open_catalog(spec.iceberg, str(tmp_path)), spec.table)


def test_a_catalog_whose_package_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.hive", None)
    hive = IcebergSpec.model_validate({"type": "hive", "name": "h", "uri": "thrift://127.0.0.1:9"})
    with pytest.raises(SpecError, match=r'pip install "pyiceberg\[hive\]"'):
        open_catalog(hive, str(tmp_path))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"type": "glue", "uri": "https://glue"}, "Glue is found by its region"),
        ({"type": "glue", "connection": "aws"}, "a catalog of type glue takes none"),
        ({"type": "hive"}, "a Hive metastore has an address"),
        ({"type": "hive", "uri": "thrift://m:9083", "connection": "h"}, "a catalog of type hive takes none"),
    ],
)
def test_what_such_a_catalog_cannot_be_given_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        IcebergSpec.model_validate(given)
