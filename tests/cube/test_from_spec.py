"""Cubes built as a spec says, from catalogs and Parquet files, held against pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.operations import build_from_spec
from hipslake.errors import (
    CatalogNotFoundError,
    CubeError,
    CubeRowsError,
    FilterError,
    SourceNotFoundError,
)
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.spec_folder import load_spec

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at

SPEC = {
    "name": "sky",
    "dimension_columns": ["id"],
    "partition_columns": ["pixel"],
    "pixel_orders": {"pixel": 2},
    "seed": "stars",
    "index_columns": ["number"],
    "suppress_index_on": ["id"],
    "datasets": {
        "stars": {"catalog": "stars", "columns": ["_healpix_29", "id", "mag"], "filters": "mag < 15"},
        "known": {"catalog": "known", "columns": ["id", "hip"], "rename": {"hip": "number"}},
        "features": {"parquet": "features/*.parquet", "partition_columns": []},
    },
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stars, some of which another catalog knows, and a table of features that has no positions."""
    root = tmp_path_factory.mktemp("warehouse")
    random = np.random.default_rng(5)
    ra, dec = sky(600)
    stars = rows_at(ra, dec, mag=random.uniform(10, 20, 600))
    known = stars.take(np.arange(0, 600, 3)).drop(["mag"]).append_column("hip", [np.arange(200)])
    published(f"{root}/catalogs", "stars", stars, threshold="100 rows")
    published(f"{root}/catalogs", "known", known, threshold="50 rows")
    (root / "features").mkdir()
    features = pa.table({"id": np.arange(0, 600, 2), "period": random.uniform(0, 5, 300)})
    pq.write_table(features.slice(0, 100), root / "features" / "a.parquet")
    pq.write_table(features.slice(100), root / "features" / "b.parquet")
    return root


def spec_for(warehouse: Path, **changes: object) -> CubeSpec:
    features = {"parquet": f"{warehouse}/features/*.parquet", "partition_columns": []}
    return CubeSpec.model_validate(SPEC | {"datasets": SPEC["datasets"] | {"features": features}} | changes)


def test_catalogs_and_tables_align_as_pandas_merges_them(warehouse: Path) -> None:
    build_from_spec(spec_for(warehouse), str(warehouse))
    found = Cube.open(cube_uri(str(warehouse), "sky")).query(conditions=C("number") >= 50)
    catalogs = {name: Catalog.open(f"{warehouse}/catalogs/{name}").to_pandas() for name in ("stars", "known")}
    stars = catalogs["stars"].query("mag < 15")[["_healpix_29", "id", "mag"]]
    known = catalogs["known"].query("hip >= 50")[["id", "hip"]].rename(columns={"hip": "number"})
    features = pd.read_parquet(warehouse / "features")
    expected = stars.merge(known, on="id").merge(features, on="id", how="left").sort_values("id")
    expected["pixel"] = expected["_healpix_29"] // 4**27
    assert len(expected) > 50
    pd.testing.assert_frame_equal(
        found.to_pandas(), expected[found.column_names].reset_index(drop=True), check_exact=True
    )


def test_a_cube_is_extended_by_what_its_spec_has_more(warehouse: Path) -> None:
    spec = spec_for(warehouse, name="grown")
    build_from_spec(spec, str(warehouse), datasets=["stars", "known"])
    cube = build_from_spec(spec, str(warehouse), datasets=["features"])
    assert (cube.version, cube.names) == (2, ["features", "known", "stars"])
    whole = build_from_spec(spec_for(warehouse, name="whole"), str(warehouse))
    one, other = (Cube.open(cube_uri(str(warehouse), each.cube)).query() for each in (cube, whole))
    assert one.equals(other)


@pytest.mark.parametrize(
    ("dataset", "error", "said"),
    [
        ({"catalog": "gone"}, CatalogNotFoundError, "nothing is published here"),
        ({"parquet": "/nowhere/*.parquet"}, SourceNotFoundError, "no file matches"),
        ({"catalog": "known", "columns": ["nope"]}, CubeRowsError, "there is no column 'nope'"),
        ({"catalog": "known", "filters": "nope = 1"}, FilterError, "there is no column 'nope'"),
        ({"catalog": "known", "columns": ["id"]}, CubeError, "index_columns: no dataset has 'number'"),
        (
            {"catalog": "stars", "columns": ["id", "mag", "dec"], "rename": {"dec": "number"}},
            CubeError,
            "'mag' is in known and stars",
        ),
    ],
)
def test_a_source_that_does_not_fit_is_told_and_nothing_is_built(
    warehouse: Path, dataset: dict[str, object], error: type[Exception], said: str
) -> None:
    spec = spec_for(warehouse, name="wrong", datasets={"stars": {"catalog": "stars"}, "known": dataset})
    with pytest.raises(error, match=said):
        build_from_spec(spec, str(warehouse))
    assert not Path(cube_uri(str(warehouse), "wrong")).exists()


def test_the_specs_of_the_project_are_read() -> None:
    folder = Path(__file__).parents[2] / "include" / "specs" / "cubes"
    assert [load_spec(path, CubeSpec).name for path in sorted(folder.glob("*.yaml"))] == ["sky"]
