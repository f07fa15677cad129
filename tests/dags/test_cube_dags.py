"""The DAGs that build cubes and keep them: their forms, and whole runs, on stars made up and on real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog, Cube
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.steps.cube.request import BuildCubeReport
from hipslake.steps.run import run_uri

from tests.dags.dag_runs import Load, check_form, states
from tests.steps import in_process
from tests.steps.nights import Survey
from tests.steps.real_skies import SPECS, copy_real_catalog, real_landing

SKY = """\
name: sky
description: stars with what is known of them
dimension_columns: [id]
partition_columns: [pixel]
pixel_orders: {pixel: 2}
seed: stars
suppress_index_on: [id]
datasets:
  stars: {catalog: stars, columns: [_healpix_29, id, ra, dec, mag]}
"""


@pytest.fixture
def cubes(specs: Path) -> Path:
    """The folder of cube specs."""
    folder = specs.parent / "cubes"
    folder.mkdir()
    (specs.parent / "tables").mkdir()
    return folder


def report_of(cubes: Path, run: Any) -> BuildCubeReport:
    folder = run_uri(str(cubes.parents[1] / "warehouse"), run.dag_id, run.run_id)
    return BuildCubeReport.model_validate_json(Path(folder, "reports", "build.json").read_text())


class TestParsing:
    """The DAGs themselves."""

    def test_a_cube_has_a_form_to_build_it_and_follows_its_datasets(self, load: Load, cubes: Path) -> None:
        more = "  known: {table: survey.known}\n  old: {catalog: old, version: 3}\n  files: {parquet: /x/*}\n"
        (cubes / "sky.yaml").write_text(SKY + more)
        table = "name: fed\ntable: survey.known\nsource: {catalog: stars}\n"
        (cubes.parent / "tables" / "fed.yaml").write_text(table)
        dags = load()
        build, align = dags["cube_build__sky"], dags["cube_align__sky"]
        assert [task.task_id for task in align.topological_sort()] == ["resolve", "build"]
        assert set(build.params) == {"mode", "datasets", "overwrite", "force"}
        assert type(build.timetable).__name__ == "NullTimetable"
        told = repr(align.timetable.asset_condition)
        assert "hipslake://catalogs/stars" in told
        assert "hipslake://tables/fed" in told
        assert "AssetAny" in told
        assert "old" not in told
        assert [outlet.uri for outlet in align.get_task("build").outlets] == ["hipslake://cubes/sky"]
        assert "| `known` | table `survey.known`" in align.doc_md
        for dag in (build, align):
            check_form(dag.params)

    def test_joined_rows_are_published_by_the_steps_of_an_ingest(self, load: Load, cubes: Path) -> None:
        (cubes / "sky.yaml").write_text(SKY + 'schedule: "@daily"\nmaterialise: {name: joined}\n')
        align = load()["cube_align__sky"]
        steps = ["materialise", "histogram", "plan", "write", "verify", "publish", "view"]
        assert [task.task_id for task in align.topological_sort()] == ["resolve", "build", *steps]
        assert [outlet.uri for outlet in align.get_task("publish").outlets] == ["hipslake://catalogs/joined"]
        assert type(align.timetable).__name__ == "CronTriggerTimetable"

    def test_a_broken_spec_takes_no_other_down(
        self, load: Load, told: Callable[[], str], cubes: Path
    ) -> None:
        (cubes / "sky.yaml").write_text(SKY)
        (cubes / "broken.yaml").write_text(SKY.replace("seed: stars", "sead: stars"))
        dags = load()
        for pipeline in ("cube_build", "cube_align"):
            assert f"{pipeline}__broken" not in dags
            assert f"{pipeline}__sky" in dags
        assert "sead: unknown key; did you mean 'seed'?" in told()

    @pytest.mark.parametrize(
        ("name", "value"),
        [("mode", "rebuild"), ("datasets", ["nope"]), ("overwrite", "yes"), ("force", None)],
    )
    def test_params_out_of_bounds_are_refused(
        self, load: Load, cubes: Path, name: str, value: object
    ) -> None:
        from airflow.sdk.exceptions import ParamValidationError

        (cubes / "sky.yaml").write_text(SKY)
        with pytest.raises(ParamValidationError):
            load()["cube_build__sky"].params.get_param(name).resolve(value)


GAIA = """\
name: stars
mode: append
source:
  uri: {landing}/night={{{{ night }}}}/*.parquet
  format: parquet
position: {{ra: ra, dec: dec, unit: deg, frame: icrs, epoch: 2016.0}}
threshold: 20000 rows
"""
MORE = """
  features: {{parquet: "{place}/features/*.parquet"}}
materialise: {{name: sky_joined, threshold: 20000 rows}}
"""


class RealSky:
    """Gaia in two nights, Hipparcos, their match, and a table of features."""

    def __init__(self, place: Path, specs: Path, factory: pytest.TempPathFactory) -> None:
        self.place, self.warehouse = place, place / "warehouse"
        landing = bright_stars(real_landing(factory))
        self.survey = Survey(place, spec_text=GAIA.format(landing=place / "landing"))
        east, north = landing["ra"].to_numpy() - 56.75, landing["dec"].to_numpy() - 24.12
        near = pa.array(np.hypot(east, north) < 2)  # the Pleiades
        self.nights = [landing.filter(pc.invert(near)), landing.filter(near)]
        copy_real_catalog("hipparcos_hats", factory, self.warehouse)
        match = (SPECS / "joins" / "gaia_x_hipparcos.yaml").read_text()
        match = match.replace("gaia_x_hipparcos", "stars_x_hipparcos").replace("gaia_dr3", "stars")
        (specs.parent / "joins").mkdir()
        self.match = specs.parent / "joins" / "stars_x_hipparcos.yaml"
        self.match.write_text(match)
        sky = (SPECS / "cubes" / "sky.yaml").read_text().rstrip() + MORE.format(place=place)
        sky = sky.replace("gaia_x_hipparcos", "stars_x_hipparcos").replace("gaia_dr3", "stars")
        (specs.parent / "cubes" / "sky.yaml").write_text(sky)

    def observe(self, night: int) -> None:
        """Ingest a night, and match the catalog anew."""
        self.survey.land(night, self.nights[night])
        self.survey.append(night)
        in_process.publish_match(in_process.start_match(self.warehouse, self.match, f"night-{night}"))

    def compute_features(self) -> None:
        """How fast the faster half of the stars of the first night is."""
        stars = self.survey.catalog.read(["_healpix_29", "source_id", "pmra", "pmdec"])
        speed = np.hypot(stars["pmra"].to_numpy(), stars["pmdec"].to_numpy())
        table = stars.select(["_healpix_29", "source_id"]).append_column("speed", pa.array(speed))
        (self.place / "features").mkdir()
        pq.write_table(
            table.filter(pa.array(speed > np.median(speed))), self.place / "features" / "a.parquet"
        )

    def merged(self) -> pd.DataFrame:
        """The joined rows, by pandas and healpy, from what has landed."""
        stars = pd.concat([self.survey.landed[night].to_pandas() for night in self.survey.landed])
        pairs = Catalog.open(self.warehouse / "catalogs" / "stars_x_hipparcos").to_pandas()
        features = pd.read_parquet(self.place / "features")[["source_id", "speed"]]
        found = stars[["source_id", "ra", "dec", "phot_g_mean_mag", "pmra", "pmdec"]]
        found = found.merge(pairs[["source_id", "HIP", "Hpmag"]], on="source_id")
        found = found.merge(features, on="source_id", how="left").sort_values("source_id")
        found["pixel"] = healpy.ang2pix(4, found["ra"], found["dec"], nest=True, lonlat=True)
        found["_healpix_29"] = healpy.ang2pix(2**29, found["ra"], found["dec"], nest=True, lonlat=True)
        return found.reset_index(drop=True)

    @property
    def cube(self) -> Cube:
        return Cube.open(self.warehouse / "cubes" / "sky")

    def objects(self) -> dict[str, dict[int, list[tuple[str, int, int]]]]:
        """Per dataset and pixel, the very files: path, inode, time of the last change."""
        found: dict[str, dict[int, list[tuple[str, int, int]]]] = {}
        for dataset in self.cube.metadata.tables:
            pixels = found.setdefault(dataset.name, {})
            for row in read_files(self.cube.storage, dataset).to_pylist():
                told = Path(self.cube.storage.uri(row[PATH])).stat()
                pixels.setdefault(row["pixel"], []).append((row[PATH], told.st_ino, told.st_mtime_ns))
        return found

    def assert_is_merged(self) -> None:
        expected = self.merged()
        found = self.cube.query(conditions="HIP is not null").to_pandas()
        pd.testing.assert_frame_equal(found, expected[found.columns], check_exact=True)
        joined = Catalog.open(self.warehouse / "catalogs" / "sky_joined")
        joined.verify().raise_if_failed()
        kept = joined.to_pandas().sort_values("source_id").reset_index(drop=True)
        names = [name for name in found.columns if name != "pixel"]
        pd.testing.assert_frame_equal(kept[names], found[names], check_exact=True)


def bright_stars(folder: Path) -> pa.Table:
    """Gaia's rows, as they landed: the bright ones, so that the test is quick."""
    stars = pq.read_table(sorted((folder / "gaia_dr3").glob("*.parquet"))).replace_schema_metadata(None)
    return stars.filter(pc.less(stars["phot_g_mean_mag"], 7.5))


@pytest.mark.system
@pytest.mark.slow
def test_a_cube_of_gaia_and_hipparcos_is_what_pandas_merges_and_a_night_touches_only_its_partitions(
    airflow: Path, load: Load, cubes: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sky = RealSky(tmp_path, cubes, tmp_path_factory)
    waiting = load()["cube_align__sky"].test()
    assert set(states(waiting).values()) == {"success", "skipped"}  # nothing is published yet
    assert states(waiting)["resolve"] == "success"
    sky.observe(0)
    sky.compute_features()
    first = load()["cube_align__sky"].test()
    assert set(states(first).values()) == {"success"}
    sky.assert_is_merged()
    assert last_event("hipslake://cubes/sky") == {
        "rows": sky.nights[0].num_rows,
        "uri": sky.cube.storage.uri(),
        "version": 1,
    }
    report = report_of(cubes, first)
    merged = sky.merged()
    assert report.included == len(set(merged["pixel"])) == 192
    before = sky.objects()

    sky.observe(1)
    second = load()["cube_align__sky"].test()
    assert set(states(second).values()) == {"success"}
    assert sky.cube.version == 2
    sky.assert_is_merged()
    night = sky.nights[1]
    pixels = healpy.ang2pix(4, night["ra"].to_numpy(), night["dec"].to_numpy(), nest=True, lonlat=True)
    touched, after = set(pixels.tolist()), sky.objects()
    assert 0 < len(touched) < 10
    for name in ("gaia", "hipparcos", "features", "_joined"):
        changed = {pixel for pixel in after[name] if after[name][pixel] != before[name].get(pixel)}
        assert changed <= touched, name
    assert {pixel for pixel in after["gaia"] if after["gaia"][pixel] != before["gaia"][pixel]} == touched
    assert after["features"] == before["features"]
    told = {each.name: each for each in report_of(cubes, second).datasets}
    assert told["gaia"].partitions_touched == len(touched)
    assert told["features"].files_written == 0

    third = load()["cube_build__sky"].test()
    assert states(third)["build"] == "skipped"
    assert states(third)["publish"] == "skipped"
    assert sky.cube.version == 2


@pytest.mark.system
def test_forms_append_extend_and_build_and_what_makes_no_sense_fails(
    airflow: Path, load: Load, cubes: Path, tmp_path: Path
) -> None:
    survey = Survey(tmp_path)
    survey.night(0)
    ids = survey.catalog.read(["id"])["id"]
    (tmp_path / "more").mkdir()
    pq.write_table(pa.table({"id": ids, "n": pc.add(ids, 1)}), tmp_path / "more" / "a.parquet")
    more = f"  more: {{parquet: '{tmp_path}/more/*.parquet', partition_columns: []}}\n"
    (cubes / "sky.yaml").write_text(SKY + more)
    build = load()["cube_build__sky"]
    assert states(build.test(run_conf={"mode": "build"}))["build"] == "success"
    cube = Cube.open(tmp_path / "warehouse" / "cubes" / "sky")
    assert cube.query(["n"])["n"].to_pylist() == [each + 1 for each in sorted(ids.to_pylist())]

    again = build.test(run_conf={"mode": "build"})
    assert states(again)["resolve"] == "failed"
    pq.write_table(pa.table({"id": ids, "n": pc.add(ids, 2)}), tmp_path / "more" / "a.parquet")
    for mode, version in (("append", 2), ("extend", 3), ("build", 4)):
        run = build.test(
            run_conf={"mode": mode, "datasets": ["more"] if version < 4 else [], "overwrite": True}
        )
        assert states(run)["build"] == "success"
        cube = Cube.open(tmp_path / "warehouse" / "cubes" / "sky")
        assert cube.version == version
        assert cube.query(["n"])["n"].to_pylist() == [each + 2 for each in sorted(ids.to_pylist())]


def last_event(uri: str) -> dict[str, Any]:
    """What the newest event of an asset says."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        extra = session.scalars(found.where(AssetModel.uri == uri).order_by(AssetEvent.id.desc())).first()
    assert extra is not None
    return {key: value for key, value in extra.items() if key in ("rows", "version", "uri")}
