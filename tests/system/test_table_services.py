"""Iceberg catalogs in PostgreSQL and behind REST: many writers at once, conflicts, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import ConflictError, SpecError, StorageError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite

from tests.stores.iceberg_catalogs import KINDS, Service, running_service
from tests.stores.rest_catalog import find_weed, running_rest_catalog
from tests.system import sinks
from tests.tables.compaction import compacting
from tests.tables.sinking import Lake, utc

WRITERS = 3


@pytest.fixture(scope="module", params=KINDS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(request.param, tmp_path_factory.mktemp("small")) as running:
        yield running


@pytest.fixture
def reached(service: Service, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a spec says of a service that the environment leads to."""
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    return service.iceberg


def lakes_of(place: Path, count: int) -> list[Lake]:
    """Lakes with landings of their own, and one warehouse."""
    lakes = [Lake(place / f"{n}") for n in range(count)]
    for lake in lakes:
        lake.warehouse = str(place / "warehouse")
    return lakes


def ids(spec: TableSpec, warehouse: str) -> list[int]:
    with closing(open_catalog(spec.iceberg, warehouse)) as catalog:
        found: list[int] = open_table(catalog, spec.table).scan().to_arrow()["id"].to_pylist()
        return sorted(found)


def test_sinks_and_a_compaction_at_once_all_land(reached: dict[str, Any], tmp_path: Path) -> None:
    *lakes, compacted = lakes_of(tmp_path, WRITERS + 1)
    spec = compacted.spec(iceberg=reached, table="survey.crowd", partition=["bucket[2](id)"])
    compacted.sink(spec, sinks.rows(1000, 5, 0), start=utc("2025-01-01T00:00:00"))
    compacted.sink(spec, sinks.rows(1005, 5, 0), start=utc("2025-01-02T00:00:00"))

    def sink(number: int) -> int:
        rows = sinks.rows(10 * number, 10, number)
        done = lakes[number].sink(spec, rows, start=utc(f"2026-01-0{number + 1}T00:00:00"))
        return done.rows_out

    asked = compacting.request(tmp_path, table="survey.crowd", iceberg=reached)
    with ThreadPoolExecutor(WRITERS + 1) as pool:
        packed = pool.submit(compacting.compact, asked)
        assert list(pool.map(sink, range(WRITERS))) == [10] * WRITERS
        assert packed.result().removed.files >= 4
    assert ids(spec, compacted.warehouse) == [*range(10 * WRITERS), *range(1000, 1010)]


def test_of_two_compactions_of_the_same_files_one_stands(
    reached: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [lake] = lakes_of(tmp_path, 1)
    spec = lake.spec(iceberg=reached, table="survey.twice")
    for night in (1, 2):
        lake.sink(spec, sinks.rows(10 * night, 10, 0), start=utc(f"2026-01-0{night}T00:00:00"))
    commit = IcebergRewrite.commit
    asked = compacting.request(tmp_path, table="survey.twice", iceberg=reached)

    def overtaken(self: IcebergRewrite, *told: Any) -> str:
        monkeypatch.setattr(IcebergRewrite, "commit", commit)
        compacting.compact(compacting.request(tmp_path, table="survey.twice", iceberg=reached))
        return commit(self, *told)

    monkeypatch.setattr(IcebergRewrite, "commit", overtaken)
    with pytest.raises(ConflictError, match="2 files that were read are gone"):
        compacting.compact(asked)
    assert ids(spec, lake.warehouse) == [*range(10, 30)]


def test_a_service_that_refuses_or_is_gone_is_told_without_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = find_weed()
    if program is None:
        pytest.skip("there is no SeaweedFS beside the interpreter that HIPSLAKE_PEERS_PYTHON names")
    spec = Lake(tmp_path).spec(iceberg={"type": "rest", "name": "survey", "connection": "survey"})
    with running_rest_catalog(program) as catalog:
        monkeypatch.setenv("PYICEBERG_CATALOG__SURVEY__URI", catalog.uri)
        monkeypatch.setenv("PYICEBERG_CATALOG__SURVEY__TOKEN", catalog.token())
        with closing(open_catalog(spec.iceberg, str(tmp_path))) as opened:  # a token alone, and no warehouse
            assert opened.list_namespaces() == []
        for name, value in (("TOKEN", "a-wrong-secret"), ("CREDENTIAL", "astronomer:a-wrong-secret")):
            monkeypatch.delenv("PYICEBERG_CATALOG__SURVEY__TOKEN", raising=False)
            monkeypatch.setenv(f"PYICEBERG_CATALOG__SURVEY__{name}", value)
            with pytest.raises(StorageError, match="'survey' cannot be reached") as told:
                open_table(open_catalog(spec.iceberg, str(tmp_path)), spec.table)
            assert "look at its address, its keys" in str(told.value)
            assert "wrong-secret" not in str(told.value)
    with pytest.raises(StorageError, match="'survey' cannot be reached or does not answer"):
        open_catalog(spec.iceberg, str(tmp_path))


def test_a_connection_without_an_address_is_told(tmp_path: Path) -> None:
    spec = Lake(tmp_path).spec(iceberg={"name": "elsewhere", "connection": "elsewhere"})
    with pytest.raises(
        SpecError, match="no address of catalog 'elsewhere' is known; give uri, or set PYICEBERG"
    ):
        open_catalog(spec.iceberg, str(tmp_path))
