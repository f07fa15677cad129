"""The pages of tables and cubes tell what pyiceberg and the cube itself say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hipslake import Cube
from hipslake.cube.store.operations import append, build
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage
from hipslake.tables.clustering_ledger import ClusteringLedger, ClusteringPoint
from hipslake.tables.iceberg.clustering_properties import LEDGER

from tests.web.test_timeline import known_runs

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

TABLE = """\
name: sunk_stars
table: sky.sunk_stars
description: what was sunk
source: {catalog: stars}
partition: ["healpix[1]"]
sort: [mag desc]
"""


KEPT = ClusteringLedger(by="x", columns=("id", "mag"), counted=2, came=1000, rewritten=2500).with_point(
    ClusteringPoint(
        at=datetime(2026, 11, 20, tzinfo=UTC),
        files=2,
        came=100,
        rewritten=150,
        before=(3, 2, 1),
        after=(2, 1, 1),
    ),
    0,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a cube of two versions, and a table in the SQLite catalog of a state folder."""
    from hipslake.specs.table_place import IcebergSpec
    from hipslake.tables.iceberg.catalogs import open_catalog

    place = tmp_path_factory.mktemp("products")
    for folder in ("specs/tables", "specs/cubes", "warehouse/cubes"):
        (place / folder).mkdir(parents=True)
    (place / "specs/tables/sunk_stars.yaml").write_text(TABLE)
    rows = pa.table({"part": [0, 0, 1], "id": [1, 2, 3], "mag": [1.0, 2.0, 3.0]})
    cube = Storage.at(place / "warehouse" / "cubes" / "night")
    roles = CubeColumns(dimension_columns=("id",), partition_columns=("part",))
    build(cube, "night", roles, {"seed": rows})
    append(cube, {"seed": pa.table({"part": [1], "id": [4], "mag": [4.0]})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_STATE", str(place / "state"))
        catalog = open_catalog(IcebergSpec(), str(place / "warehouse"))
        catalog.create_namespace("sky")
        table = catalog.create_table("sky.sunk_stars", schema=rows.schema)
        table.append(rows)
        table.append(rows.slice(0, 1))
        with table.transaction() as transaction:
            transaction.set_properties({LEDGER: KEPT.model_dump_json()})
    return place


@pytest.fixture(scope="module")
def page(airflow: Path, place: Path) -> Iterator[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_STATE", str(place / "state"))
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        yield Page(place / "warehouse", place / "specs")
        purge_cached_app()


def told(page: Page, path: str, code: int = 200) -> Any:
    answer = page.as_user().get(f"/hipslake/api/{path}")
    assert answer.status_code == code, answer.text[:500]
    return answer.json()


def test_a_table_is_told(page: Page) -> None:
    with known_runs(
        ("iceberg_sink__sunk_stars", "one", None, "success"),
        ("iceberg_sink__sunk_stars", "two", None, "failed"),
    ):
        found = told(page, "tables/sunk_stars")
    assert (found["title"], found["rows"], found["files"], found["problem"]) == ("sky.sunk_stars", 4, 2, None)
    assert [each["rows"] for each in found["versions"]] == [4, 3]
    assert found["versions"][0]["version"] == found["version"]
    assert [column["name"] for column in found["columns"]] == ["part", "id", "mag"]
    assert found["partitioning"] == "healpix[1]"
    assert found["sorting"].startswith("mag")
    kept = found["clustering"]
    assert (kept["columns"], kept["came"], kept["rewritten"]) == (["id", "mag"], 1000, 2650)
    assert [(point["files"], point["after"]) for point in kept["points"]] == [(2, [2, 1, 1])]
    assert found["last_failed"]["run_id"] == "two"
    assert found["dags"] == {"sink": "iceberg_sink__sunk_stars"}
    told(page, "tables/other", 404)


def test_a_cube_is_told(page: Page, place: Path) -> None:
    with known_runs(("cube_build__night", "built", None, "success")):
        found = told(page, "cubes/night")
    cube = Cube.open(place / "warehouse" / "cubes" / "night")
    assert (found["version"], found["rows"]) == ("2", 4)
    assert [each["name"] for each in found["datasets"]] == cube.datasets
    assert found["partition_columns"] == ["part"]
    assert [each["version"] for each in found["versions"]] == [
        str(number) for number in range(cube.version, 0, -1)
    ]
    assert {column["name"] for column in found["datasets"][0]["columns"]} == {"part", "id", "mag"}
    assert found["last_run"]["run_id"] == "built"
    told(page, "cubes/other", 404)


@pytest.mark.parametrize(
    ("path", "dag_id"),
    [("tables/sunk_stars", "iceberg_sink__sunk_stars"), ("cubes/night", "cube_build__night")],
)
def test_a_table_and_a_cube_take_the_right_to_read_what_makes_them(
    page: Page, path: str, dag_id: str
) -> None:
    assert page.as_user(dag_id, role="VIEWER").get(f"/hipslake/api/{path}").status_code == 200
    assert (
        page.as_user("catalog_ingest__stars", role="VIEWER").get(f"/hipslake/api/{path}").status_code == 403
    )
    assert page.as_nobody().get(f"/hipslake/api/{path}").status_code == 401


def test_old_forms_in_the_spec_of_a_cube_are_told(page: Page, place: Path) -> None:
    spec = place / "specs" / "cubes" / "night.yaml"
    fields = (
        "name: night\ndimension_columns: [id]\npartition_columns: [part]\nseed: seed\n"
        "datasets: {seed: {catalog: stars}}\n"
    )
    asked = page.as_user()
    try:
        spec.write_text(f"{fields}conditions: 1 <= mag < 12\n")
        (note,) = asked.get("/hipslake/api/cubes/night").json()["spec_notes"]
        assert "'1 <= mag < 12' is in an old form" in note
        assert "write 'mag >= 1 and mag < 12'" in note
        spec.write_text(f"{fields}conditions: mag = 3\n")
        assert asked.get("/hipslake/api/cubes/night").json()["spec_notes"] == []
    finally:
        spec.unlink()
    assert asked.get("/hipslake/api/cubes/night").json()["spec_notes"] == []
