"""The spec of a cube: roles of columns, datasets, and messages that say where and what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import SpecError
from hipslake.specs.cube_spec import CubeColumns, CubeSpec
from hipslake.specs.spec_folder import load_spec
from pydantic import ValidationError

SPEC = """\
name: sky
dimension_columns: [source_id]
partition_columns: [pixel]
pixel_orders: {pixel: 2}
seed: gaia
index_columns: [HIP]
suppress_index_on: [source_id]
datasets:
  gaia: {catalog: gaia_dr3, columns: [source_id, phot_g_mean_mag]}
  hip: {catalog: gaia_x_hipparcos, version: 3, columns: [source_id, HIP]}
  features: {parquet: "features/*.parquet", partition_columns: []}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sky.yaml"
    path.write_text(text)
    return path


def test_a_spec_is_read(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, SPEC), CubeSpec)
    assert spec.datasets["hip"].version == 3
    assert spec.datasets["features"].partition_columns == ()
    assert spec.roles == CubeColumns(
        dimension_columns=("source_id",),
        partition_columns=("pixel",),
        pixel_orders={"pixel": 2},
        seed="gaia",
        index_columns=("HIP",),
        suppress_index_on=("source_id",),
    )
    assert spec.roles.seed_index_columns == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[source_id]\npart", "[]\npart", "sky.yaml:2: dimension_columns"),
        ("[pixel]", "[]", "sky.yaml:3: partition_columns"),
        ("[pixel]", "[pixel, source_id]", "partition_columns: 'source_id' is one of dimension_columns too"),
        ("[HIP]", "[HIP, pixel]", "index_columns: 'pixel' is one of partition_columns too"),
        ("[HIP]", "[source_id]", "index_columns: 'source_id' is one of dimension_columns too"),
        ("[HIP]", "[HIP, HIP]", "index_columns: 'HIP' is named twice"),
        ("suppress_index_on: [source_id]", "suppress_index_on: [HIP]", "'HIP' is none of dimension_columns"),
        ("{pixel: 2}", "{pixel: 30}", "pixel_orders.pixel: 30"),
        ("{pixel: 2}", "{other: 2}", "pixel_orders: 'other' is none of partition_columns"),
        ("seed: gaia", "seed: gone", "seed: 'gone' is none of datasets \\(features, gaia, hip\\)"),
        ("name: sky", "name: Sky++", "name: 'Sky\\+\\+' is no name"),
        ("  gaia:", "  Ga++ia:", "'Ga\\+\\+ia' is no name"),
        ("partition_columns: []", "partition_columns: [q]", "features.partition_columns: 'q' is none"),
        ("{catalog: gaia_dr3,", "{catalog: gaia_dr3, partition_columns: [],", "partitioned by all"),
        ('{parquet: "features/*.parquet",', "{", "either 'catalog', 'table' or 'parquet'"),
        ("{catalog: gaia_dr3,", "{catalog: gaia_dr3, parquet: x,", "either 'catalog', 'table' or 'parquet'"),
        ('parquet: "features/*.parquet"', "parquet: x, version: 3", "only catalogs have versions"),
        ("seed: gaia", "sead: gaia", "sead"),
        ('parquet: "features/*.parquet"', "parquet: x, snapshot: 3", "only tables have snapshots"),
        ('parquet: "features/*.parquet"', "table: gaia", "features.table: 'gaia'"),
        (
            "{catalog: gaia_dr3,",
            "{catalog: gaia_dr3, iceberg: {name: other},",
            "iceberg: the Iceberg",
        ),
        ("seed: gaia", "seed: gaia\nschedule: often", "schedule: 'often'"),
        ("seed: gaia", "seed: gaia\nmaterialise: {name: gaia_dr3}", "gaia is read from that very catalog"),
        ("seed: gaia", "seed: gaia\nmaterialise: {layout: hipscat}", "layout: only of a catalog"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in SPEC
    with pytest.raises(SpecError, match=said):
        load_spec(written(tmp_path, SPEC.replace(old, new, 1)), CubeSpec)


@pytest.mark.parametrize("roles", [{"dimension_columns": ("x",)}, {"partition_columns": ("p",)}])
def test_roles_that_must_not_be_empty_are_needed(roles: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CubeColumns(**roles)


def test_a_spec_prints_as_what_was_written(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, SPEC), CubeSpec)
    assert CubeSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_a_cube_of_tables_with_joined_rows_is_read_as_it_is_printed(tmp_path: Path) -> None:
    text = SPEC.replace('parquet: "features/*.parquet"', "table: survey.features, iceberg: {name: lake}")
    (tmp_path / "sky.yaml").write_text(text + "conditions: HIP is not null\nmaterialise: {name: joined}\n")
    spec = load_spec(tmp_path / "sky.yaml", CubeSpec)
    assert spec.datasets["features"].table == "survey.features"
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec


def test_joined_rows_without_positions_are_no_catalog(tmp_path: Path) -> None:
    text = SPEC.replace("catalog: gaia_dr3", "parquet: x").replace(", columns: [_healpix_29]", "")
    (tmp_path / "sky.yaml").write_text(text + "materialise: {name: joined}\n")
    with pytest.raises(SpecError, match=r"materialise\.position: the seed is no catalog"):
        load_spec(tmp_path / "sky.yaml", CubeSpec)
