"""Cubes of catalogs that others wrote: they hold what those of ours hold, and changes are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog, adopt
from hipslake.api.cube import Cube
from hipslake.cube.store.dataset_sources import opened, source_now
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.operations import align_to_spec, build_from_spec
from hipslake.errors import CubeRowsError
from hipslake.specs.cube_spec import CubeDatasetSpec, CubeSpec
from hipslake.steps.cube.materialise import _position
from hipslake.storage import parquet_tail

from tests.catalog.foreign_trees import VARIANTS, leaves, variant
from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.catalog.publishing import Published

SPEC: dict[str, Any] = {
    "name": "sky",
    "dimension_columns": ["id"],
    "partition_columns": ["pixel"],
    "pixel_orders": {"pixel": 2},
    "seed": "stars",
    "suppress_index_on": ["id"],
}
TAKEN: dict[str, dict[str, Any]] = {
    "stars": {"columns": ["_healpix_29", "id", "mag"], "filters": "mag < 17"},
    "known": {"columns": ["id", "hip"], "rename": {"hip": "number"}},
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Published]:
    """Stars, and what is known of some of them."""
    root, rng = tmp_path_factory.mktemp("ours"), np.random.default_rng(5)
    degrees = sky(500)
    stars = rows_at(*degrees, mag=rng.uniform(10, 20, 500))
    some = np.arange(0, 500, 3)
    known = stars.take(some).drop_columns(["mag"]).append_column("hip", [np.arange(len(some))])
    found = {}
    for name, rows, threshold in (("stars", stars, 100), ("known", known, 50)):
        ra, dec = (rows[axis].to_numpy() for axis in ("ra", "dec"))
        catalog = published(root, name, rows, threshold=f"{threshold} rows")
        found[name] = Published(catalog.storage, catalog.metadata, rows, (ra, dec))
    return found


def spec_of(places: dict[str, str], **more: Any) -> CubeSpec:
    datasets = {name: {"catalog": place, **TAKEN[name]} for name, place in places.items()}
    return CubeSpec.model_validate(SPEC | {"datasets": datasets} | more)


def of_ours(ours: dict[str, Published], tmp_path: Path) -> pa.Table:
    places = {name: each.storage.uri() for name, each in ours.items()}
    build_from_spec(spec_of(places), str(tmp_path / "mine"))
    return rows_in(tmp_path / "mine")


def rows_in(warehouse: Path) -> pa.Table:
    return Cube.open(cube_uri(str(warehouse), "sky")).query()


def brighter(tree: Path) -> None:
    """Write all leaves anew, with other magnitudes; how many rows each has stays the same."""
    for path in leaves(tree):
        table = pq.read_table(path, partitioning=None)
        at = table.schema.get_field_index("mag")
        pq.write_table(table.set_column(at, "mag", pc.subtract(table["mag"], 1.0)), path)
    for name in ("properties", "hats.properties"):
        text = (tree / name).read_text()
        (tree / name).write_text(text + "hats_creation_date=2026-11-27T00:00UTC\n")
    parquet_tail.forget_tails()  # which are kept for a minute


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", list(VARIANTS))
def test_a_cube_of_others_is_that_of_ours(ours: dict[str, Published], tmp_path: Path, form: str) -> None:
    wanted = of_ours(ours, tmp_path)
    assert wanted.num_rows > 100
    trees = {name: variant(each, form, tmp_path / "others" / name) for name, each in ours.items()}
    for named in ({"stars", "known"}, {"stars"}, {"known"}):
        places = {
            name: str(trees[name]) if name in named else each.storage.uri() for name, each in ours.items()
        }
        warehouse = tmp_path / "-".join(sorted(named))
        build_from_spec(spec_of(places), str(warehouse))
        assert rows_in(warehouse).equals(wanted)
        assert not align_to_spec(spec_of(places), str(warehouse)).version > 1


def test_a_collection_is_a_source_too(ours: dict[str, Published], tmp_path: Path) -> None:
    folder = tmp_path / "others"
    for name, each in ours.items():
        variant(each, "as it is", folder / name / "main")
        said = f"obs_collection={name}\nhats_primary_table_url=main\n"
        (folder / name / "collection.properties").write_text(said)
    places = {name: str(folder / name) for name in ours}
    build_from_spec(spec_of(places), str(tmp_path / "warehouse"))
    assert rows_in(tmp_path / "warehouse").equals(of_ours(ours, tmp_path))


def test_what_others_write_anew_is_read_anew(ours: dict[str, Published], tmp_path: Path) -> None:
    """Their leaves have no checksums: which of them have changed is not known."""
    tree = variant(ours["stars"], "as it is", tmp_path / "others" / "stars")
    spec = spec_of({"stars": str(tree), "known": ours["known"].storage.uri()})
    warehouse = tmp_path / "warehouse"
    align_to_spec(spec, str(warehouse))
    before = rows_in(warehouse)
    brighter(tree)
    assert align_to_spec(spec, str(warehouse)).version == 2
    build_from_spec(spec, str(tmp_path / "anew"))
    assert rows_in(warehouse).equals(rows_in(tmp_path / "anew"))
    assert not rows_in(warehouse).equals(before)


def test_what_others_write_anew_is_read_anew_of_an_adopted_catalog(
    ours: dict[str, Published], tmp_path: Path
) -> None:
    tree = variant(ours["stars"], "as it is", tmp_path / "others" / "stars")
    warehouse = tmp_path / "warehouse"
    adopted = {"name": "stars", "adopt": {"uri": str(tree)}}
    adopt(adopted, warehouse=warehouse, spark=False)
    spec = spec_of({"stars": "stars"})
    align_to_spec(spec, str(warehouse))
    before = rows_in(warehouse)
    brighter(tree)
    assert adopt(adopted, warehouse=warehouse, spark=False).version == 2
    assert align_to_spec(spec, str(warehouse)).version == 2
    after = rows_in(warehouse)
    wanted = Catalog.open(tree).read(["id", "mag"], filters="mag < 17").select(["id", "mag"]).sort_by("id")
    assert after.select(["id", "mag"]).equals(wanted.combine_chunks())
    assert not after.equals(before)


def test_a_source_that_is_written_anew_during_a_run_is_told(
    ours: dict[str, Published], tmp_path: Path
) -> None:
    tree = variant(ours["stars"], "as it is", tmp_path / "stars")
    dataset = CubeDatasetSpec.model_validate({"catalog": str(tree)})
    source = source_now(dataset, str(tmp_path)).source
    rows = opened(dataset, source, str(tmp_path))
    assert sum(table.num_rows for part in range(rows.parts) for table in rows.read(part, ["id"])) == 500
    brighter(tree)
    for late in (lambda: opened(dataset, source, str(tmp_path)), lambda: list(rows.read(0, ["id"]))):
        with pytest.raises(CubeRowsError, match="written anew since the run began; clear the run"):
            late()


def test_joined_rows_lie_where_the_seed_of_others_lies(ours: dict[str, Published], tmp_path: Path) -> None:
    """`materialise` takes the position of the seed from its catalog."""
    tree = variant(ours["stars"], "bare", tmp_path / "stars")
    place = _position(spec_of({"stars": str(tree)}), str(tmp_path))
    assert (place.ra, place.dec, place.unit, place.frame) == ("ra", "dec", "deg", "icrs")
