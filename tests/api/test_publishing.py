"""Joins of two catalogs are published from a program, and are those that the DAG publishes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pytest
import yaml
from hipslake.errors import CatalogNotFoundError, EmptySourceError, SpecError
from hipslake.specs.join_specs import CrossmatchSpec

from tests.api.published_files import data_files, folders
from tests.steps import in_process

SPEC = {"position": {"ra": "ra", "dec": "dec"}, "threshold": "150 rows", "mapping_order": 5}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with two catalogs of nearly the same stars, `near` with a margin."""
    rng = np.random.default_rng(11)
    rows = 1500
    ra, dec = rng.uniform(0, 40, rows), rng.uniform(-20, 20, rows)
    left = pa.table({"id": np.arange(rows), "ra": ra, "dec": dec})
    shift = rng.normal(0, 0.7 / 3600, (2, rows))
    right = pa.table({"other": np.arange(rows)[::-1], "ra": ra + shift[0], "dec": dec + shift[1]})
    place = tmp_path_factory.mktemp("published") / "warehouse"
    far = SPEC | {"name": "far", "co_partitioned": ["id"]}
    hipslake.ingest(left, spec=far, warehouse=place, spark=False)
    near = SPEC | {"name": "near", "margin": {"arcsec": [5]}}
    hipslake.ingest(right.slice(0, 1000), spec=near, warehouse=place, spark=False)
    return place


@pytest.fixture
def warehouse(template: Path, tmp_path: Path) -> Path:
    """A copy of the warehouse."""
    return Path(shutil.copytree(template, tmp_path / "warehouse", symlinks=True))


def opened(warehouse: Path, name: str) -> hipslake.Catalog:
    return hipslake.Catalog.open(warehouse / "catalogs" / name)


def test_it_publishes_what_the_dag_publishes(warehouse: Path, tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "name": "pairs",
        "type": "crossmatch",
        "left": {"catalog": "far"},
        "right": {"catalog": "near", "columns": ["other"]},
        "radius_arcsec": 2.0,
        "threshold": "100 rows",
        "margin": {"arcsec": [3]},
        "index": ["id"],
    }
    path = tmp_path / "pairs.yaml"
    path.write_text(yaml.safe_dump(plain))
    in_process.publish_match(in_process.start_match(warehouse, path))
    expected = opened(warehouse, "pairs")
    found = hipslake.publish(plain, name="pairs_again", warehouse=warehouse, spark=False)
    assert found.name == "pairs_again"
    assert data_files(found) == data_files(expected)
    assert len(data_files(found)) > 10
    from_file = hipslake.publish(path, warehouse=warehouse, spark=False, force=True)
    assert (from_file.version, data_files(from_file)) == (2, data_files(expected))
    from_model = hipslake.publish(CrossmatchSpec.model_validate(plain), warehouse=warehouse, spark=False)
    assert from_model.version == 2
    found.verify().raise_if_failed()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "left", "anti", "outer"])
def test_the_rows_are_those_of_a_match_in_memory(warehouse: Path, how: str) -> None:
    far, near = opened(warehouse, "far"), opened(warehouse, "near")
    match = {"name": "pairs", "left": far, "right": near, "radius_arcsec": 1.0, "how": how}
    found = hipslake.publish(match, warehouse=warehouse, spark=False)
    expected = far.crossmatch(near, radius_arcsec=1.0, how=how)  # type: ignore[arg-type]
    names = [name for name in ("id", "other") if name in expected.column_names]
    keys = [(name, "ascending") for name in names]
    assert found.read(names).sort_by(keys).equals(expected.select(names).sort_by(keys))
    assert 0 < expected.num_rows < 2500


def test_a_match_of_three_catalogs(warehouse: Path) -> None:
    """A catalog, its name and its keys stand for a further one, as they do for the first two."""
    far, near = opened(warehouse, "far"), opened(warehouse, "near")
    keys = {"columns": ["other"], "filters": "other > 700"}
    further = {"right": {"catalog": near, **keys}, "radius_arcsec": 2.0, "how": "left", "suffix": "_more"}
    match = {"left": far, "right": "near", "radius_arcsec": 1.0, "further": [further]}
    found = hipslake.publish(match, name="pairs", warehouse=warehouse, spark=False)
    assert found.read().equals(far.crossmatch(near, radius_arcsec=1.0, further=[further]))
    assert 0 < found.read(["other_more"])["other_more"].null_count < found.metadata.total_rows
    named = match | {"further": [further | {"right": {"catalog": "near", **keys}}]}
    assert hipslake.publish(named, name="again", warehouse=warehouse, spark=False).read().equals(found.read())
    bare = match | {"further": [{"right": near, "radius_arcsec": 2.0, "how": "anti"}]}
    with pytest.raises(
        EmptySourceError, match="inner, 1 arcsec, with near; anti, 2 arcsec, with near: has every"
    ):
        hipslake.publish(bare, name="none", warehouse=warehouse, spark=False)


def test_a_join_on_a_key(warehouse: Path) -> None:
    far = opened(warehouse, "far")
    spec = SPEC | {"name": "sources", "position_from": {"catalog": "far", "on": {"id": "id"}}}
    rows = far.read(["id", "ra", "dec"]).append_column("flux", pa.array(np.arange(1500.0)))
    sources = hipslake.ingest(rows, spec=spec, warehouse=warehouse, spark=False)
    join = {
        "name": "joined",
        "left": "far",
        "right": {"catalog": sources, "columns": ["flux"]},
        "on": {"id": "id"},
    }
    found = hipslake.publish(join, warehouse=warehouse, spark=False)
    assert found.metadata.total_rows == 1500
    assert set(found.read(["flux"])["flux"].to_pylist()) == set(range(1500))
    with pytest.raises(SpecError, match="leave it out"):
        hipslake.publish(join, warehouse=warehouse, radius_arcsec=1)


def test_a_catalog_stands_for_its_version(warehouse: Path) -> None:
    far = opened(warehouse, "far")
    near = opened(warehouse, "near")
    one = near.read(["other", "ra", "dec"]).slice(0, 1)
    newer = SPEC | {"name": "near", "margin": {"arcsec": [5]}}
    assert hipslake.ingest(one, spec=newer, warehouse=warehouse, spark=False).version == 2
    match = {"name": "pairs", "left": far, "radius_arcsec": 1.0}
    old = hipslake.publish(match | {"right": near}, warehouse=warehouse, spark=False)
    new = hipslake.publish(match | {"right": "near"}, warehouse=warehouse, spark=False)
    assert old.metadata.total_rows > 500
    assert new.metadata.total_rows == 1
    again = hipslake.publish(match | {"right": {"catalog": "near"}}, warehouse=warehouse, spark=False)
    assert again.version == new.version == 2


def test_a_region_and_another_radius(warehouse: Path) -> None:
    match = {"name": "pairs", "left": "far", "right": "near", "radius_arcsec": 1.0}
    cut = hipslake.publish(match, warehouse=warehouse, region="cone 20 0 5deg", spark=False)
    whole = hipslake.publish(match, warehouse=warehouse, radius_arcsec=0.5, spark=False)
    expected = opened(warehouse, "far").crossmatch(opened(warehouse, "near"), radius_arcsec=0.5)
    assert 0 < cut.metadata.total_rows < 300
    assert whole.metadata.total_rows == expected.num_rows


@pytest.mark.usefixtures("large_sides")
def test_a_margin_that_is_missing_is_built_where_it_is_asked_for(warehouse: Path) -> None:
    match = {"name": "pairs", "left": "near", "right": "far", "radius_arcsec": 1.0}
    with pytest.raises(SpecError, match="margin"):
        hipslake.publish(match, warehouse=warehouse, spark=False)
    built = hipslake.publish(match, warehouse=warehouse, missing_margin="build", spark=False)
    turned = match | {"name": "turned", "left": "far", "right": "near"}
    expected = hipslake.publish(turned, warehouse=warehouse, spark=False)
    pairs = [
        sorted(zip(*(each.read(["id", "other"])[name].to_pylist() for name in ("id", "other")), strict=True))
        for each in (built, expected)
    ]
    assert pairs[0] == pairs[1]
    assert opened(warehouse, "far").metadata.margins == ()


WRONG: list[tuple[Any, str]] = [
    ({"name": "pairs", "left": "far", "right": "near", "radius_arcsec": 1, "further": [3]}, "further"),
    ({"name": "pairs", "left": "far", "right": "near", "radius_arcsec": 1, "further": "near"}, "further"),
    ({"left": "far", "right": "near", "radius_arcsec": 1}, "name"),
    ({"name": "pairs", "left": "far", "radius_arcsec": 1}, "right"),
    ({"name": "pairs", "left": "far", "right": "near", "radius_arcsec": -1}, "radius_arcsec"),
    ({"name": "pairs", "left": "far", "right": "near", "radius_arcsec": 1, "colour": 2}, "colour"),
    ({"name": "pairs", "type": "union", "left": "far", "right": "near"}, "union"),
    ({"name": "near", "left": "far", "right": "near", "radius_arcsec": 1}, "another name"),
    ({"name": "pairs", "left": "near", "right": "far", "radius_arcsec": 1}, "margin"),
    (7, "give a dict"),
    ("/no/such/pairs.yaml", "pairs.yaml"),
]


@pytest.mark.usefixtures("large_sides")
@pytest.mark.parametrize(("match", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_spec_is_an_error_of_ours(warehouse: Path, match: Any, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        hipslake.publish(match, warehouse=warehouse)
    assert folders(warehouse / "catalogs" / "pairs") == set()


def test_a_side_that_is_not_published(warehouse: Path) -> None:
    match = {"name": "pairs", "left": "far", "right": "nowhere", "radius_arcsec": 1}
    with pytest.raises(CatalogNotFoundError, match="nowhere"):
        hipslake.publish(match, warehouse=warehouse)


def test_rows_are_sent_to_ingest(warehouse: Path) -> None:
    rows = opened(warehouse, "far").crossmatch(opened(warehouse, "near"), radius_arcsec=1.0)
    with pytest.raises(SpecError, match=r"hipslake\.ingest"):
        hipslake.publish(rows, warehouse=warehouse)  # type: ignore[arg-type]
