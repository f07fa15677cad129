"""Cubes kept as their sources are: only what has changed is written, and pandas merges the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.operations import align_to_spec, build_from_spec
from hipslake.cube.store.upkeep import cleanup
from hipslake.errors import CubeError, CubeRowsError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.vacuum_spec import Retention

from tests.steps.nights import Survey, night_rows

pytestmark = pytest.mark.sampled(2)

CONDITIONS = "number is not null"
SPEC: dict[str, Any] = {
    "name": "sky",
    "dimension_columns": ["id"],
    "partition_columns": ["pixel"],
    "pixel_orders": {"pixel": 2},
    "seed": "stars",
    "suppress_index_on": ["id"],
    "index_columns": ["number"],
    "conditions": CONDITIONS,
    "materialise": {},
}


class Sky:
    """A survey, a table of what is known of some of its stars, and a table of features."""

    def __init__(self, survey: Survey) -> None:
        self.survey, self.warehouse = survey, f"{survey.place}/warehouse"
        self.known: pd.DataFrame
        self.features: pd.DataFrame

    def write(self) -> None:
        """Derive both tables from what has landed."""
        stars = self.survey.catalog.read(["_healpix_29", "id"]).to_pandas()
        self.known = stars[stars["id"] % 3 == 0].assign(number=lambda each: each["id"] // 3)
        self.features = stars[stars["id"] % 2 == 0][["id"]].assign(period=lambda each: each["id"] * 0.5)
        for name in ("known", "features"):
            folder = self.survey.place / name
            folder.mkdir(exist_ok=True)
            table = pa.Table.from_pandas(getattr(self, name), preserve_index=False)
            pq.write_table(table, folder / "a.parquet", row_group_size=100)

    def spec(self, **changes: Any) -> CubeSpec:
        place = self.survey.place
        datasets = {
            "stars": {"catalog": "stars", "columns": ["_healpix_29", "id", "ra", "mag"]},
            "known": {"parquet": f"{place}/known/*.parquet"},
            "features": {"parquet": f"{place}/features/*.parquet", "partition_columns": []},
        }
        return CubeSpec.model_validate(SPEC | {"datasets": datasets} | changes)

    def merged(self, how: str = "inner") -> pd.DataFrame:
        stars = self.survey.catalog.read(["_healpix_29", "id", "ra", "mag"]).to_pandas()
        known = self.known[["id", "number"]]
        found = stars.merge(known, on="id", how=how).merge(self.features, on="id", how="left")
        found["pixel"] = found["_healpix_29"] // 4**27
        return found.sort_values(["id"]).reset_index(drop=True)

    @property
    def cube(self) -> Cube:
        return Cube.open(cube_uri(self.warehouse, "sky"))

    def files(self, dataset: str) -> dict[str, int]:
        """The pixel of every file."""
        of = self.cube.metadata.joined if dataset == "joined" else self.cube.metadata.dataset(dataset)
        assert of is not None
        table = read_files(self.cube.storage, of)
        pixels = table["pixel"].to_pylist() if "pixel" in table.column_names else [0] * table.num_rows
        return dict(zip(table[PATH].to_pylist(), pixels, strict=True))

    def assert_is_merged(self) -> None:
        expected = self.merged()
        found = self.cube.query(conditions=CONDITIONS).to_pandas()
        pd.testing.assert_frame_equal(found, expected[found.columns], check_exact=True)
        kept = self.cube.joined().to_pandas().sort_values("id")
        pd.testing.assert_frame_equal(kept.reset_index(drop=True), found, check_exact=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights, and a cube of them."""
    survey = Survey(tmp_path_factory.mktemp("sky"), threshold="100 rows")
    for number in range(2):
        survey.night(number, rows=300)
    sky = Sky(survey)
    sky.write()
    return survey.place


@pytest.fixture
def sky(template: Path, tmp_path: Path) -> Sky:
    place = tmp_path / "sky"
    shutil.copytree(template, place, symlinks=True)
    (place / "stars.yaml").unlink()  # it names the landing folder
    survey = Survey(place, threshold="100 rows", runs=2)
    survey.landed = {number: night_rows(number, 300) for number in range(2)}
    sky = Sky(survey)
    sky.write()
    align_to_spec(sky.spec(), sky.warehouse)
    return sky


def pixels_of(rows: pa.Table, survey: Survey) -> set[int]:
    """The pixels of order 2 in which rows lie, by the catalog."""
    ids = rows["id"]
    found = survey.catalog.read(["_healpix_29", "id"])
    mine = found.filter(pc.is_in(found["id"], value_set=ids.combine_chunks()))
    return set((mine["_healpix_29"].to_numpy() // 4**27).tolist())


def test_a_cube_that_is_not_there_is_built_as_pandas_merges_it(sky: Sky) -> None:
    assert sky.cube.version == 1
    sky.assert_is_merged()


def test_with_nothing_new_there_is_no_new_version(sky: Sky) -> None:
    before = {entry.path for entry in sky.cube.storage.list(recursive=True)}
    assert align_to_spec(sky.spec(), sky.warehouse).version == 1
    assert {entry.path for entry in sky.cube.storage.list(recursive=True)} == before


def test_a_night_touches_its_partitions_and_no_others(sky: Sky) -> None:
    before = {name: sky.files(name) for name in ("stars", "known", "joined")}
    night = night_rows(7, 40)
    sky.survey.land(7, night)
    sky.survey.append(7)
    assert align_to_spec(sky.spec(), sky.warehouse).version == 2
    touched = pixels_of(night, sky.survey)
    assert 1 < len(touched) < len(set(before["stars"].values()))
    for name in ("stars", "joined"):
        after = sky.files(name)
        new, gone = set(after) - set(before[name]), set(before[name]) - set(after)
        assert {after[path] for path in new} | {before[name][path] for path in gone} <= touched
    assert {sky.files("stars")[path] for path in set(sky.files("stars")) - set(before["stars"])} == touched
    assert sky.files("known") == before["known"]
    sky.assert_is_merged()
    sky.write()  # and now what is known of the new stars
    assert align_to_spec(sky.spec(), sky.warehouse).version == 3
    assert {sky.files("known")[path] for path in set(sky.files("known")) - set(before["known"])} <= touched
    sky.assert_is_merged()


def test_a_partition_that_has_lost_rows_is_written_again_and_one_without_rows_is_gone(sky: Sky) -> None:
    before = sky.files("stars")
    fewer = night_rows(1, 300).slice(0, 5)
    lost = pixels_of(night_rows(1, 300), sky.survey)
    sky.survey.land(1, fewer, files=1)
    sky.survey.append(1)
    align_to_spec(sky.spec(), sky.warehouse)
    after = sky.files("stars")
    assert set(before.values()) - set(after.values())  # partitions that are gone
    assert {before[path] for path in set(before) - set(after)} <= lost
    assert sky.cube.metadata.dataset("stars").rows == 305
    sky.assert_is_merged()


def test_what_became_of_each_partition_is_kept_with_the_version(sky: Sky) -> None:
    table = sky.cube.alignment().to_pandas().set_index("pixel")
    merged = sky.merged(how="left")
    per_pixel = merged.groupby("pixel")
    assert table["__rows_stars"].to_dict() == per_pixel.size().to_dict()
    numbers = per_pixel["number"].count()
    assert table["__rows_known"].to_dict() == numbers.to_dict()
    assert (table["fate"] == "included").to_dict() == (numbers > 0).to_dict()
    assert set(table["fate"]) == {"included", "known is missing"}
    alignment = sky.cube.metadata.alignment
    assert alignment is not None
    assert (alignment.included, alignment.dropped) == ((numbers > 0).sum(), (numbers == 0).sum())
    labels = {path for row in table["__cube_labels_known"] for path in row}
    assert labels == set(sky.files("known"))


def test_a_compaction_of_a_catalog_is_nothing_new(sky: Sky) -> None:
    survey = Survey(sky.survey.place / "beside", threshold="100 rows", more="append: add_file")
    survey.place.mkdir()
    for number in range(3):
        survey.night(number, rows=100)
    other = Sky(survey)
    other.write()
    align_to_spec(other.spec(), other.warehouse)
    assert survey.compact(min_files=2).version == 4
    assert align_to_spec(other.spec(), other.warehouse).version == 1


def test_a_dataset_that_the_spec_gets_later_extends_the_cube(sky: Sky) -> None:
    less = {name: each for name, each in sky.spec().model_dump()["datasets"].items() if name != "features"}
    align_to_spec(sky.spec(name="less", datasets=less), sky.warehouse)
    found = align_to_spec(sky.spec(name="less"), sky.warehouse)
    assert (found.version, found.names) == (2, ["features", "known", "stars"])
    cube = Cube.open(cube_uri(sky.warehouse, "less"))
    assert cube.query().equals(sky.cube.query())


def test_other_conditions_align_anew_and_write_no_dataset(sky: Sky) -> None:
    before = sky.files("stars")
    found = align_to_spec(sky.spec(conditions="period > 100.0"), sky.warehouse)
    assert found.version == 2
    assert sky.files("stars") == before
    kept = sky.cube.joined()
    assert kept.num_rows == (sky.merged(how="left")["period"] > 100).sum() > 0


def test_what_is_asked_for_and_not_there_is_told_before_anything_is_written(sky: Sky) -> None:
    before = {entry.path for entry in sky.cube.storage.list(recursive=True)}
    for changes, said in (
        ({"conditions": "nope > 1"}, "'nope'"),
        ({"materialise": {"columns": ["nope"]}}, "'nope'"),
        ({"conditions": "mag > 'a'"}, "compare it with a number"),
    ):
        with pytest.raises(CubeError, match=said):
            align_to_spec(sky.spec(**changes), sky.warehouse)
    assert {entry.path for entry in sky.cube.storage.list(recursive=True)} == before


def test_a_dataset_that_would_have_no_rows_left_is_told(sky: Sky) -> None:
    pq.write_table(
        pa.table({"_healpix_29": [1], "id": [1], "number": [1]}).slice(1),
        sky.survey.place / "known/a.parquet",
    )
    with pytest.raises(CubeRowsError, match="'known' would have no rows left"):
        align_to_spec(sky.spec(), sky.warehouse)
    assert sky.cube.version == 1


def test_cleanup_takes_what_only_old_versions_name_and_nothing_else(sky: Sky) -> None:
    for number in (7, 8):
        sky.survey.night(number, rows=40)
        align_to_spec(sky.spec(), sky.warehouse)
    cleanup(sky.cube.storage, Retention.of(1, 0.0), dry_run=False)
    sky.assert_is_merged()
    named = {*sky.files("stars"), *sky.files("known"), *sky.files("features"), *sky.files("joined")}
    there = {
        entry.path
        for entry in sky.cube.storage.list(recursive=True)
        if entry.path.endswith(".parquet") and "/indices/" not in entry.path and "_sidecars" not in entry.path
    }
    assert there == {path for path in there if path in named}
    assert named == there


def test_a_build_needs_leave_to_replace_a_cube(sky: Sky) -> None:
    with pytest.raises(CubeError, match="is built here already, as version 1"):
        build_from_spec(sky.spec(), sky.warehouse)
    assert build_from_spec(sky.spec(), sky.warehouse, overwrite=True).version == 2
    sky.assert_is_merged()


@pytest.mark.parametrize("order", [0, 4])
def test_pixels_coarser_and_finer_than_leaves_are_followed_too(sky: Sky, order: int) -> None:
    spec = sky.spec(name="other", pixel_orders={"pixel": order})
    align_to_spec(spec, sky.warehouse)
    cube = Cube.open(cube_uri(sky.warehouse, "other"))
    table = read_files(cube.storage, cube.metadata.dataset("stars"))
    before = dict(zip(table["pixel"].to_pylist(), table[PATH].to_pylist(), strict=True))
    night = night_rows(7, 30)
    sky.survey.land(7, night)
    sky.survey.append(7)
    align_to_spec(spec, sky.warehouse)
    cube = Cube.open(cube_uri(sky.warehouse, "other"))
    table = read_files(cube.storage, cube.metadata.dataset("stars"))
    after = dict(zip(table["pixel"].to_pylist(), table[PATH].to_pylist(), strict=True))
    stars = sky.survey.catalog.read(["_healpix_29", "id"])
    mine = stars.filter(pc.is_in(stars["id"], value_set=night["id"].combine_chunks()))
    touched = set((mine["_healpix_29"].to_numpy() >> 2 * (29 - order)).tolist())
    assert {pixel for pixel, path in after.items() if before.get(pixel) != path} == touched
    found = cube.query(columns=[]).sort_by("id")
    assert np.array_equal(found["id"].to_numpy(), np.sort(stars["id"].to_numpy()))
