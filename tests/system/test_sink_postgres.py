"""An Iceberg catalog in PostgreSQL, found by the environment, as a connection sets it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hipslake.errors import SpecError, StorageError
from hipslake.tables.catalogs import open_catalog, open_table

from tests.stores.postgres import find_postgres, running_postgres
from tests.system import sinks
from tests.tables.sinking import Lake, utc


def test_sinks_at_once_into_a_catalog_in_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; include/setup/setup.sh postgres gets it")
    with running_postgres(programs) as uri:
        monkeypatch.setenv("PYICEBERG_CATALOG__SURVEY__URI", uri)
        lakes = [Lake(tmp_path / f"{n}") for n in range(3)]
        for lake in lakes:
            lake.warehouse = str(tmp_path / "warehouse")
        spec = lakes[0].spec(iceberg={"name": "survey", "connection": "survey"}, partition=["bucket[2](id)"])

        def sink(number: int) -> int:
            rows = sinks.rows(10 * number, 10, number)
            done = lakes[number].sink(spec, rows, start=utc(f"2026-01-0{number + 1}T00:00:00"))
            return done.rows_out

        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(sink, range(3))) == [10, 10, 10]
        with closing(open_catalog(spec.iceberg, lakes[0].warehouse)) as catalog:
            found = open_table(catalog, spec.table).scan().to_arrow()
        assert sorted(found["id"].to_pylist()) == list(range(30))
    with pytest.raises(StorageError, match="Iceberg catalog 'survey' cannot be reached or does not answer"):
        open_catalog(spec.iceberg, lakes[0].warehouse)


def test_a_connection_without_an_address_is_told(tmp_path: Path) -> None:
    spec = Lake(tmp_path).spec(iceberg={"name": "elsewhere", "connection": "elsewhere"})
    with pytest.raises(
        SpecError, match="no address of catalog 'elsewhere' is known; give uri, or set PYICEBERG"
    ):
        open_catalog(spec.iceberg, str(tmp_path))
