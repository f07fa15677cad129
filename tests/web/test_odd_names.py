"""Columns whose names are odd are read, sorted by, told and downloaded as others are."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from astropy.io import fits, votable
from hipslake import Catalog

if TYPE_CHECKING:
    from starlette.testclient import TestClient

ROWS = 30
NAMES = (
    *(
        'a"b',
        "x/y",
        "naïve",
        "two\nlines",
        " ",
        "a,b",
        "<b>&",
        "_",
        "1",
        "select",
        "a.b",
        "x`y",
        "it's",
        "\t",
    ),
    *("é" * 100, "{{x}}", "%00", "#h", "col1", "-", "=1+1", "..", "../../etc/passwd"),
)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    rng = np.random.default_rng(2)
    rows = pa.table({"ra": rng.uniform(0, 360, ROWS), "dec": rng.uniform(-80, 80, ROWS)})
    for name in NAMES:
        rows = rows.append_column(name, pa.array(rng.permutation(ROWS)))
    spec = {"name": "odd", "position": {"ra": "ra", "dec": "dec"}}
    return hipslake.ingest(rows, spec=spec, warehouse=tmp_path_factory.mktemp("odd"), spark=False)


@pytest.fixture(scope="module")
def user(airflow: Path, catalog: Catalog) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        warehouse = Path(catalog.uri).parents[1]
        (warehouse / "specs" / "catalogs").mkdir(parents=True)
        yield Page(warehouse, warehouse / "specs").as_user()
        purge_cached_app()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_column_is_what_its_name_says(user: TestClient, catalog: Catalog, name: str) -> None:
    address = "/hipslake/api/catalogs/odd"
    expected = catalog.read([name])[name].to_pylist()
    found = user.get(f"{address}/rows", params={"columns": [name], "limit": 100}).json()
    assert ([each["name"] for each in found["columns"]], found["data"]) == ([name], [expected])
    least = user.get(f"{address}/rows", params={"columns": [name], "sort": name, "limit": 5}).json()
    assert least["data"] == [[0, 1, 2, 3, 4]]
    assert user.get(f"{address}/column", params={"column": name}).json()["max"] == ROWS - 1
    files = {
        kind: user.get(f"{address}/download", params={"columns": [name], "format": kind})
        for kind in ("parquet", "csv", "votable", "fits")
    }
    assert pq.read_table(io.BytesIO(files["parquet"].content)).to_pydict() == {name: expected}
    csv = pacsv.read_csv(
        io.BytesIO(files["csv"].content), parse_options=pacsv.ParseOptions(newlines_in_values=True)
    )
    assert csv.to_pydict() == {name: expected}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = votable.parse(io.BytesIO(files["votable"].content)).get_first_table()
    assert table.fields[0].name == name
    assert np.asarray(table.array).astype([("x", "i8")])["x"].tolist() == expected
    if not (name.isascii() and name.isprintable() and name.strip()):
        assert files["fits"].status_code == 422
        assert repr(name) in files["fits"].json()["detail"]
        return
    with fits.open(io.BytesIO(files["fits"].content)) as hdus:
        assert hdus[1].columns.names == [name]
        assert hdus[1].data.field(0).tolist() == expected
