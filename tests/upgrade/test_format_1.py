"""What the last code that wrote format version 1 left, under the code of today; runs that it began, too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.catalog.comparing import compare
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.operations import align_to_spec, append, extend
from hipslake.cube.store.upkeep import cleanup, copy
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import Unchanged
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.join import run as join_run
from hipslake.steps.join.request import EquijoinReport, EquijoinRequest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep.hats_view import show_newest
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import is_intact, is_signed

from tests.catalog.leftovers import missing, orphans
from tests.last_bits import assert_recomputed
from tests.readers.outside import assert_current_is_newest, assert_current_is_whole
from tests.steps import in_process, sinks
from tests.steps.join.test_equijoin import publish
from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey, night_rows
from tests.steps.sources_of_objects import Lake
from tests.upgrade.made_by.format_1 import MATCH, MORE, SINK, cube_spec, known, nights
from tests.upgrade.test_first_catalogs import read_by_lsdb
from tests.upgrade.unpacked import at_its_place, landed, unpacked

pytestmark = pytest.mark.sampled(2)

CATALOGS = {"stars": 6, "objects": 1, "sources": 1, "joined": 1, "matched": 1}
"""The newest version of each."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return unpacked("format_1", tmp_path)


@pytest.fixture
def begun() -> Iterator[Path]:
    """The fixture where it was made."""
    with at_its_place("format_1") as place:
        yield place


def survey_at(place: Path) -> Survey:
    """The nights of `stars`, and the further one that has landed."""
    landed = dict(enumerate(nights()))
    return Survey(place, threshold="50 rows", more=MORE, runs=100, landed=landed)


def formats(root: Path) -> list[int]:
    """The format version of each version's file, as it stands on disk."""
    files = [json.loads(path.read_text()) for path in sorted(root.glob("_versions/*.json"))]
    return [each["format_version"] for each in files if not each.get("tombstone")]


def run_of(place: Path, dag: str) -> RunFolder:
    """The run of a DAG that the older code began."""
    [folder] = (place / "warehouse" / "_runs" / dag).iterdir()
    return RunFolder(str(folder))


@pytest.mark.parametrize("name", list(CATALOGS))
def test_every_version_opens_and_verifies(place: Path, name: str) -> None:
    root = place / "warehouse" / "catalogs" / name
    newest = Catalog.open(root)
    assert newest.versions() == [*range(1, CATALOGS[name] + 1)]
    assert formats(root) == [1] * CATALOGS[name]
    newest.verify(all=True).raise_if_failed()
    for number in newest.versions():
        data = (root / "_versions" / f"{number:08}.json").read_bytes()
        assert is_signed(data)
        assert is_intact(data)
        catalog = Catalog.open(root, version=number)
        assert catalog.metadata.format_version == 2
        assert catalog.read().num_rows == catalog.metadata.total_rows
    assert (newest.repair().mended, newest.repair().left) == ((), ())
    if name != "joined":  # whose nested rows it cannot compare
        assert_current_is_whole(root)


def test_a_version_says_all_that_it_said(place: Path) -> None:
    for path in sorted(place.glob("warehouse/catalogs/*/_versions/*.json")):
        data = path.read_bytes()
        again = json.loads(CatalogMetadata.from_json(data).to_json())
        before = json.loads(data)
        for document in (before, again):
            del document["sha256"], document["format_version"]
        assert again == before
    for path in sorted(place.glob("warehouse/cubes/*/_versions/*.json")):
        again, before = (
            json.loads(CubeMetadata.from_json(path.read_bytes(), "").to_json()),
            json.loads(path.read_text()),
        )
        assert again == before | {"format_version": 2}


def test_nights_come_to_it_and_the_log_holds_both_formats(place: Path) -> None:
    survey = survey_at(place)
    survey.assert_holds_what_landed()
    before = survey.catalog.read().sort_by("id")
    assert survey.catalog.find("id", [1_000_003]).num_rows == 1
    survey.night(4, 50)
    survey.assert_holds_what_landed()
    assert formats(survey.root) == [1] * 6 + [2]
    told = compare(survey.catalog.storage, Catalog.open(survey.root, 6).metadata, survey.catalog.metadata)
    assert [increment.rows for increment in told.increments_added] == [50]
    assert survey.compact(min_files=2).leaves > 0
    survey.assert_holds_what_landed()
    survey.land(1, night_rows(1, rows=20, seed=9))
    survey.append(1)
    survey.assert_holds_what_landed()
    back = survey.catalog.rollback(6)
    assert formats(survey.root) == [1] * 6 + [2] * 4
    assert back.metadata.restored == 6
    assert back.read().sort_by("id").equals(before)
    assert_margins_are_exact(back)
    show_newest(back.storage, Unchanged.LINK)
    assert_current_is_newest(survey.root)
    back.verify(all=True).raise_if_failed()
    back.vacuum(keep_versions=2, keep_days=0, dry_run=False)
    assert formats(survey.root) == [2, 2]
    survey.catalog.verify(all=True).raise_if_failed()
    assert missing(survey.root) == set()
    assert orphans(survey.root) == set()


def test_pointers_are_repaired_in_a_log_of_both_formats(place: Path) -> None:
    survey = survey_at(place)
    (survey.root / "metadata.json").write_text("{}")
    (survey.root / "SHA256SUMS").unlink()
    survey.catalog.repair(dry_run=False)
    assert (survey.root / "metadata.json").read_bytes() == (
        survey.root / "_versions/00000006.json"
    ).read_bytes()
    survey.catalog.verify(all=True).raise_if_failed()
    survey.catalog.build_margin(1800)
    (survey.root / "metadata.json").write_bytes((survey.root / "_versions/00000006.json").read_bytes())
    survey.catalog.repair(dry_run=False)
    assert json.loads((survey.root / "metadata.json").read_text())["format_version"] == 2
    survey.catalog.verify(all=True).raise_if_failed()


def test_a_changed_letter_of_an_old_version_is_noticed(place: Path) -> None:
    path = place / "warehouse/catalogs/stars/_versions/00000002.json"
    path.write_text(path.read_text().replace('"attribution": ""', '"attribution": "x"'))
    report = Catalog.open(place / "warehouse/catalogs/stars").verify(all=True)
    assert {problem.path for problem in report.problems} == {"_versions/00000002.json"}


def assert_same_pairs(found: pa.Table, expected: pa.Table) -> None:
    """Hold pairs to others to the bit, but for what numpy's sines make: its last bit is the processor's."""
    computed = ["separation_arcsec", "position_angle_deg"]
    assert found.drop_columns(computed).equals(expected.drop_columns(computed))
    for name in computed:
        assert_recomputed(found[name], expected[name])


def test_it_is_joined_and_matched_again(place: Path) -> None:
    lake, survey = Lake(place, runs=100), survey_at(place)
    joined, matched = lake.open("joined"), lake.open("matched")
    fields = {
        "nested": {"time": "time"},
        "threshold": "30 rows",
        "margin": {"arcsec": [3600]},
        "index": ["id"],
    }
    again = publish(lake, **fields)
    assert again.version == 2
    assert again.read().equals(joined.read())
    match = place / "matched.yaml"
    match.write_text(MATCH)
    in_process.publish_match(in_process.start_match(survey.warehouse, match, "again", force=True))
    assert lake.open("matched").version == 2
    assert_same_pairs(lake.open("matched").read(), matched.read())
    for name in ("joined", "matched"):
        lake.open(name).verify(all=True).raise_if_failed()
    pairs = lake.open("objects").crossmatch(
        survey.catalog, radius_arcsec=60, columns=["id"], other_columns=["id"]
    )
    assert len(pairs) == len(matched.read()) > 50


def test_a_cube_is_read_and_goes_on(place: Path) -> None:
    root = place / "warehouse" / "cubes" / "sky"
    storage = Storage.at(root)
    assert formats(root) == [1]
    copy(storage, Storage.at(place / "copy"))  # holds every file against its checksum
    before = Cube.open(root).query().sort_by("id")
    assert Cube.open(place / "copy").query().sort_by("id").equals(before)
    stars = pa.concat_tables(nights()).sort_by("id")
    assert before["id"].equals(stars["id"])
    numbers = known(nights()[:3])
    assert before.filter(pc.field("number").is_valid())["id"].to_pylist() == sorted(numbers["id"].to_pylist())
    kept = Cube.open(root).joined().sort_by("id")
    assert kept.select(["id", "number"]).equals(numbers.sort_by("id"))
    more = known(nights())
    pq.write_table(more, place / "landing" / "known" / "a.parquet")
    survey_at(place).night(4, 50)
    align_to_spec(CubeSpec.model_validate(cube_spec(place)), str(place / "warehouse"))
    assert formats(root) == [1, 2]
    assert Cube.open(root).joined().sort_by("id").select(["id", "number"]).equals(more.sort_by("id"))
    sizes = pa.table({"id": [0, 3, 6], "size": [1.5, 2.5, 3.5]})
    extend(storage, {"sizes": sizes[:2]}, partition_columns={"sizes": []})
    append(storage, {"sizes": sizes[2:]})
    assert Cube.open(root).query(conditions="size > 0")["size"].to_pylist() == [1.5, 2.5, 3.5]
    assert Cube.open(root, version=1).query().sort_by("id").equals(before)
    cleanup(storage, Retention.of(1, 0.0), dry_run=False)
    assert Cube.open(root).query().num_rows == len(stars) + 50


@pytest.mark.parametrize("document", ["catalogs/stars", "cubes/sky"])
def test_a_format_to_come_is_refused(place: Path, document: str) -> None:
    path = place / "warehouse" / document / "_versions/00000001.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 3'))
    read = Catalog.open if "catalogs" in document else Cube.open
    with pytest.raises(
        CatalogFormatError, match="format version 3, but this library reads 1 and 2; upgrade hips"
    ):
        read(place / "warehouse" / document, version=1)


@pytest.mark.parametrize(
    "damage", [{"groups": 7}, {"groups": []}, {"groups": ["main"]}, {"co_partitioned": 3}]
)
def test_damage_of_the_shape_without_increments_is_told(tmp_path: Path, damage: dict[str, object]) -> None:
    place = unpacked("first_catalogs", tmp_path)
    document = json.loads((place / "warehouse/catalogs/stars/_versions/00000001.json").read_text())
    with pytest.raises(CatalogFormatError, match=r"^here: is damaged"):
        CatalogMetadata.from_json(json.dumps(document | damage), where="here")


def test_an_ingest_that_had_planned_is_finished(begun: Path) -> None:
    folder, lake = run_of(begun, "catalog_ingest__late"), Lake(begun)
    for step in (in_process.write_leaves, in_process.make_margins):
        step(folder)
    lake.finish(folder)
    found = lake.open("late")
    found.verify(all=True).raise_if_failed()
    assert formats(Path(found.uri)) == [2]
    expected = landed(begun, "late").sort_by("id")
    assert found.read().select(expected.column_names).sort_by("id").equals(expected)


def test_a_night_that_was_counted_is_appended(begun: Path) -> None:
    survey = survey_at(begun)
    in_process.append(run_of(begun, "catalog_ingest__stars"))
    survey.landed[4] = night_rows(4, 50)
    survey.assert_holds_what_landed()
    assert formats(survey.root) == [1] * 6 + [2]


def test_a_join_that_had_frozen_its_sides_is_finished(begun: Path) -> None:
    lake, folder = Lake(begun), run_of(begun, "catalog_equijoin__joined")
    request = EquijoinRequest(run_uri=folder.uri)
    perform(lambda asked: join_run.run(asked, ThisProcess()), request, EquijoinReport)
    lake.finish(folder)
    found = lake.open("joined")
    found.verify(all=True).raise_if_failed()
    assert found.version == 2
    expected = lake.open("objects").join(lake.open("sources"), on=("id", "object_id"))
    assert len(expected) == 200
    assert found.read().equals(expected)


def test_a_table_is_read_and_a_sink_that_had_frozen_its_rows_is_finished(begun: Path) -> None:
    tables, brought = sinks.Lake(begun, runs=100), nights()
    tables.write_spec(SINK)
    expected = pa.concat_tables(brought).sort_by("id").combine_chunks()
    assert tables.rows(*sinks.COLUMNS).equals(expected.filter(pc.field("night") < 3))
    tables.sink(run_of(begun, "iceberg_sink__stars"))
    assert tables.rows(*sinks.COLUMNS).equals(expected)
    survey_at(begun).night(4, 50)
    tables.run()
    assert len(tables.rows("id")) == len(expected) + 50


@pytest.mark.peers
def test_lsdb_opens_it_before_and_after(place: Path, hats_python: str) -> None:
    survey = survey_at(place)
    shutil.copytree(survey.root, place / "before", symlinks=True)
    survey.night(4, 50)
    show_newest(survey.catalog.storage, Unchanged.LINK)
    joined = place / "warehouse/catalogs/joined"
    before, after, rows = read_by_lsdb(hats_python, place / "before", survey.root, joined)
    ids = [
        np.concatenate([night["id"] for night in some]).tolist()
        for some in (nights(), survey.landed.values())
    ]
    assert [before, after] == [sorted(each) for each in ids]
    assert rows == sorted(Catalog.open(joined).read(["id"])["id"].to_pylist())
