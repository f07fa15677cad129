"""The cross-match step by step: what is frozen, what is published, and what is not done twice."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import (
    CatalogNotFoundError,
    EmptySourceError,
    FilterError,
    RegionError,
    SchemaMismatchError,
    SpecError,
    StepError,
    VersionNotFoundError,
)
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

from tests.catalog.little import sky
from tests.catalog.matching import nearest_pairs, pairs_of, published, rows_at, separations
from tests.peers.running import run_peer
from tests.steps import in_process

pytestmark = [pytest.mark.sampled(2), pytest.mark.usefixtures("large_sides")]

SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: a}
right: {catalog: b}
radius_arcsec: 60
"""


@pytest.fixture(scope="module")
def two_catalogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with two catalogs, the second near the first; made once, copied for every test."""
    ra, dec = sky(3000)
    rng = np.random.default_rng(1)
    place = tmp_path_factory.mktemp("two")
    root = place / "warehouse" / "catalogs"
    published(root, "a", rows_at(ra, dec), threshold="200 rows")
    near = np.clip(dec[:2000] + 0.01 * rng.normal(size=2000), -90, 90)
    published(root, "b", rows_at(ra[:2000], near), threshold="300 rows", margin_arcsec=60.0)
    return place / "warehouse"


@pytest.fixture
def warehouse(two_catalogs: Path, tmp_path: Path) -> Path:
    """Two catalogs that a test may change."""
    shutil.copytree(two_catalogs, tmp_path / "warehouse", symlinks=True)
    return tmp_path / "warehouse"


def start(warehouse: Path, more: str = "", run_id: str = "first", **fields: Any) -> RunFolder:
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC + more)
    return in_process.start_match(warehouse, file, run_id, **fields)


def outcome(warehouse: Path) -> Catalog:
    return Catalog.open(warehouse / "catalogs" / "a_x_b")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
@pytest.mark.parametrize("threshold", ["100 rows", "8 KiB"])
def test_a_match_is_published_in_leaves_of_its_own(warehouse: Path, layout: str, threshold: str) -> None:
    folder = start(warehouse, f"threshold: {threshold}\nlayout: {layout}\nneighbours: all\n")
    in_process.publish_match(folder)
    found = outcome(warehouse)
    sides = [Catalog.open(warehouse / "catalogs" / name) for name in "ab"]
    expected = sides[0].crossmatch(sides[1], radius_arcsec=60, neighbours="all")
    assert found.read().equals(expected)
    assert found.verify().ok
    sizes = found.metadata.partitions(None, found.storage)
    number, unit = threshold.split()
    limit = int(number) * (1024 if unit == "KiB" else 1)
    held = sizes["bytes" if unit == "KiB" else "rows"].to_numpy()
    assert held.max() <= limit
    assert len(held) > 5
    told = separations(sides[0].read().sort_by("id"), sides[1].read().sort_by("id"))
    assert set(pairs_of(found.read())) == nearest_pairs(told, 60.0, None)


def test_one_row_of_the_sky_may_have_more_partners_than_a_leaf_holds_cells(tmp_path: Path) -> None:
    """Everything in one spot: cells are counted deeper until leaves can be planned."""
    rng = np.random.default_rng(0)
    ra, dec = 10 + 1e-5 * rng.normal(size=300), 20 + 1e-5 * rng.normal(size=300)
    root = tmp_path / "warehouse" / "catalogs"
    published(root, "a", rows_at(ra, dec), threshold="500 rows")
    published(root, "b", rows_at(ra, dec), threshold="500 rows", margin_arcsec=60.0)
    in_process.publish_match(start(tmp_path / "warehouse", "threshold: 1000 rows\nneighbours: 10\n"))
    found = outcome(tmp_path / "warehouse")
    assert found.metadata.total_rows == 3000
    assert found.metadata.group().leaves >= 3


def test_equal_input_gives_equal_bytes_however_the_work_is_cut(warehouse: Path) -> None:
    digests = []
    for cores, knobs in ((1, {}), (3, {"task_rows": 100, "target_bytes": 2000}), (2, {"task_rows": 1})):
        folder = start(warehouse, "threshold: 300 rows\n", run_id=f"run {cores}", force=True)
        in_process.match(folder, cores=cores, **knobs)
        in_process.check(folder)
        in_process.commit(folder)
        found = outcome(warehouse)
        digests.append(found.metadata.partitions(None, found.storage)["sha256"].to_pylist())
    assert digests[0] == digests[1] == digests[2]


def test_the_metadata_say_where_the_rows_come_from(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse))
    told = outcome(warehouse).metadata
    (increment,) = told.increments
    assert [Path(entry.uri).parts[-3:] for entry in increment.sources.entries or ()] == [
        ("a", "_versions", "00000001.json"),
        ("b", "_versions", "00000001.json"),
    ]
    assert told.description == "a with b within 60 arcsec"
    assert (told.position.icrs_ra, told.position.epoch) == ("ra", 2000.0)


def test_nothing_waits_between_the_leaves(warehouse: Path) -> None:
    folder = start(warehouse)
    in_process.publish_match(folder)
    root = Storage.at(warehouse / "catalogs" / "a_x_b")
    names = [entry.path for entry in root.list(FrozenRun.of(folder).write_id, recursive=True)]
    assert not [name for name in names if name.endswith(".arrow")]


def test_a_run_over_the_same_versions_has_nothing_to_do(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse))
    assert FrozenInputs.of(start(warehouse, run_id="second")).unchanged_version == 1
    assert FrozenInputs.of(start(warehouse, run_id="third", force=True)).unchanged_version is None
    assert FrozenInputs.of(start(warehouse, run_id="fourth", radius_arcsec=30)).unchanged_version is None


def test_a_finished_step_is_taken_over_and_a_broken_one_is_not(warehouse: Path) -> None:
    folder = start(warehouse)
    assert not in_process.match(folder).reused
    assert in_process.match(folder).reused
    folder.storage.delete(RunFolder.report_path("write"))  # as a failed verification leaves it
    assert not in_process.match(folder).reused
    in_process.check(folder)
    assert in_process.commit(folder).version == 1
    folder.storage.delete(RunFolder.report_path("crossmatch"))
    with pytest.raises(StepError, match="is published"):
        in_process.match(folder)


def test_params_go_before_the_spec(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse, radius_arcsec=30, threshold="50 rows"))
    found = outcome(warehouse)
    assert max(found.read(["separation_arcsec"])["separation_arcsec"].to_pylist()) <= 30
    assert found.metadata.partitions(None, found.storage)["rows"].to_numpy().max() <= 50


def test_only_left_rows_in_a_region_are_matched(warehouse: Path) -> None:
    region = "cone 0 10 20deg"
    folder = start(warehouse, "how: left\n", region=region)
    in_process.publish_match(folder)
    sides = [Catalog.open(warehouse / "catalogs" / name) for name in "ab"]
    whole = sides[0].crossmatch(sides[1], radius_arcsec=60, how="left")
    inside = set(sides[0].read(["id"], region=region)["id"].to_pylist())
    found = outcome(warehouse)
    assert found.read().equals(whole.filter(pa.array([row in inside for row in whole["id"].to_pylist()])))
    assert 0 < found.metadata.total_rows == len(inside) < 3000
    assert sides[0].crossmatch(sides[1], radius_arcsec=60, region=region).num_rows < len(inside)
    assert found.metadata.description.endswith(", cone 0 10 20deg")
    assert FrozenInputs.of(start(warehouse, "how: left\n", run_id="all")).unchanged_version is None
    with pytest.raises(RegionError):
        start(warehouse, run_id="wrong", region="cone of light")


def test_only_rows_that_pass_the_filters_are_matched(warehouse: Path) -> None:
    left, right = "id < 1500 and dec > 0", "id is not null and\n   ra < 200"
    file = warehouse.parent / "a_x_b.yaml"
    text = SPEC.replace("catalog: a", f'catalog: a, columns: [id], filters: "{left}"')
    file.write_text(
        text.replace("catalog: b", f"catalog: b, columns: [id], filters: '{right}'") + "how: left\n"
    )
    in_process.publish_match(in_process.start_match(warehouse, file))
    sides = [Catalog.open(warehouse / "catalogs" / name) for name in "ab"]
    found = outcome(warehouse)
    found.verify().raise_if_failed()
    options: dict[str, Any] = {"radius_arcsec": 60, "how": "left", "columns": ["id"], "other_columns": ["id"]}
    expected = sides[0].crossmatch(sides[1], filters=left, other_filters=right, **options)
    assert found.read().equals(expected)
    here, there = (side.read(["id", "ra", "dec"]).sort_by("id") for side in sides)
    passing = (here["id"].to_numpy() < 1500) & (here["dec"].to_numpy() > 0)
    told = separations(here, there)
    told[~passing] = np.inf
    told[:, there["ra"].to_numpy() >= 200] = np.inf
    pairs = pairs_of(found.read())
    assert {pair for pair in pairs if pair[1] is not None} == nearest_pairs(told, 60.0, 1) != set()
    assert {row for row, _ in pairs} == set(np.flatnonzero(passing).tolist())
    assert found.metadata.description == (
        "a (id < 1500 and dec > 0) and, where there is one, b (id is not null and ra < 200) within 60 arcsec"
    )
    assert FrozenInputs.of(in_process.start_match(warehouse, file, "again")).unchanged_version == 1
    file.write_text(file.read_text().replace("dec > 0", "dec > 1"))
    assert FrozenInputs.of(in_process.start_match(warehouse, file, "other")).unchanged_version is None


def test_filters_that_leave_nothing_publish_nothing(warehouse: Path) -> None:
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC.replace("catalog: b", "catalog: b, filters: id < 0"))
    folder = in_process.start_match(warehouse, file)
    with pytest.raises(
        EmptySourceError, match=r"no row of a is in the outcome.* Do the filters leave anything\?"
    ):
        in_process.match(folder)
    with pytest.raises(CatalogNotFoundError):
        outcome(warehouse)


def test_a_match_without_a_pair_publishes_nothing(warehouse: Path) -> None:
    folder = start(warehouse, "min_radius_arcsec: 59.9999999\n")
    with pytest.raises(EmptySourceError, match="no row of a is in the outcome"):
        in_process.match(folder)
    with pytest.raises(CatalogNotFoundError):
        outcome(warehouse)


def test_an_anti_match_is_a_catalog_too(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse, "how: anti\nlayout: hipscat\n"))
    found = outcome(warehouse).read()
    assert found.schema.names == ["_healpix_29", "id", "ra", "dec"]
    assert set(range(2000, 3000)) <= set(found["id"].to_pylist())


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (SPEC.replace("catalog: b", "catalog: c"), CatalogNotFoundError, "catalogs/c"),
        (SPEC.replace("catalog: b", "catalog: b, version: 7"), VersionNotFoundError, "7"),
        (SPEC.replace("catalog: b", "catalog: a"), SpecError, "matched with itself"),
        (SPEC.replace("catalog: a", "catalog: a_x_b"), CatalogNotFoundError, "a_x_b"),
        (SPEC.replace("radius_arcsec: 60", "radius_arcsec: 61"), SpecError, "no margin of 61 arcsec"),
        (SPEC.replace("radius_arcsec: 60", "radius_arcsec: -1"), SpecError, "a_x_b.yaml:5: radius_arcsec: "),
        (SPEC + "neighbours: 0\n", SpecError, "a_x_b.yaml:6: neighbours: 0 is out of bounds"),
        (
            SPEC + "neighbors: 2\n",
            SpecError,
            "a_x_b.yaml:6: neighbors: unknown key; did you mean",
        ),
        (SPEC.replace("catalog: a", "catalog: a, filters: idd < 3"), FilterError, "catalog a: .*mean 'id'"),
        (SPEC.replace("catalog: b", "catalog: b, filters: id <"), FilterError, "catalog b: .* found the end"),
        (
            SPEC.replace("catalog: b", "catalog: b, filters: id < 'x'"),
            FilterError,
            "compare it with a number",
        ),
        (SPEC.replace("catalog: b", "catalog: b, filters: ''"), SpecError, "right.filters: .*not empty"),
        (SPEC.replace("catalog: b", "catalog: b, filters: [id]"), SpecError, "right.filters: .*write a text"),
        (SPEC.replace("catalog: b", "catalog: b, filter: id < 3"), SpecError, "did you mean 'filters'"),
        (SPEC + "epoch: 2016.0\n", SpecError, "a_x_b.yaml:6: epoch: no side has a motion"),
        (SPEC + "how: anti\nassociation: {left: id, right: id}\n", SpecError, "an anti-match has no pairs"),
    ],
)
def test_mistakes_in_a_spec_are_told(
    warehouse: Path, spec: str, error: type[Exception], message: str
) -> None:
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(spec)
    with pytest.raises(error, match=message):
        in_process.start_match(warehouse, file)


def test_the_outcome_is_no_side_of_its_match(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse))
    file = warehouse.parent / "a_x_b.yaml"
    link = warehouse.parent / "link"
    link.symlink_to(warehouse / "catalogs" / "a_x_b")
    for name in ("a_x_b", link, warehouse / "catalogs" / "a" / ".." / "a_x_b"):
        file.write_text(SPEC.replace("catalog: a", f"catalog: {name}"))
        with pytest.raises(SpecError, match="a side of the join and its outcome"):
            in_process.start_match(warehouse, file)


def test_positions_in_radians_get_degrees_for_hats_readers(tmp_path: Path, warehouse: Path) -> None:
    ra, dec = sky(3000)
    rows = pa.table({"id": np.arange(3000), "ra": np.radians(ra), "dec": np.radians(dec)})
    root = warehouse / "catalogs"
    turned = {"unit": "rad"}
    published(root, "radians", rows, position=turned, layout="hipscat", degrees=(ra, dec))
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC.replace("catalog: a}", "catalog: radians}"))
    in_process.publish_match(in_process.start_match(warehouse, file))
    found = outcome(warehouse)
    assert found.verify().ok
    table = found.read()
    np.testing.assert_allclose(table["ra_icrs"].to_numpy(), np.degrees(table["ra"].to_numpy()), rtol=1e-12)
    assert found.metadata.position.icrs_ra == "ra_icrs"


@pytest.mark.peers
def test_lsdb_joins_through_an_association(warehouse: Path, peers_python: str) -> None:
    in_process.publish_match(start(warehouse, "neighbours: all\nassociation: {left: id, right: id}\n"))
    found = outcome(warehouse)
    sides = [str(warehouse / "catalogs" / name) for name in "ab"]
    script = Path(__file__).with_name("peers_join.py")
    told = json.loads(run_peer(peers_python, script, *sides, found.path("main")))
    assert told["type"] == "AssociationCatalog"
    assert {(one, other) for one, other in told["pairs"]} == set(pairs_of(found.read()))


def test_an_association_names_columns_that_the_outcome_keeps(warehouse: Path) -> None:
    with pytest.raises(SpecError, match="the outcome keeps no column 'key' of b; it keeps id"):
        start(warehouse, "association: {left: id, right: key}\n")


def test_catalogs_and_outcome_may_lie_in_a_store(tmp_path: Path) -> None:
    """Nothing there can be mapped into memory, or linked."""
    warehouse = f"memory://{uuid.uuid4().hex}"
    ra, dec = sky(600)
    published(f"{warehouse}/catalogs", "a", rows_at(ra, dec), threshold="100 rows")
    published(f"{warehouse}/catalogs", "b", rows_at(ra, dec), threshold="100 rows", margin_arcsec=60.0)
    file = tmp_path / "a_x_b.yaml"
    file.write_text(SPEC + "threshold: 50 rows\n")
    folder = in_process.start_match(warehouse, file)
    in_process.match(folder, task_rows=100)
    in_process.check(folder)
    in_process.commit(folder)
    assert Catalog.open(f"{warehouse}/catalogs/a_x_b").read(["id"]).num_rows == 600


def test_a_margin_without_any_row_will_do(tmp_path: Path) -> None:
    root = tmp_path / "warehouse" / "catalogs"
    ra, dec = np.array([45.0, 135.0]), np.array([20.0, 20.0])  # far from the borders of their base pixels
    published(root, "a", rows_at(ra, dec))
    published(root, "b", rows_at(ra, dec), margin_arcsec=0.001, threshold="1 rows", lowest_order=0)
    other = Catalog.open(root / "b")
    margin = other.metadata.margins[0].model_copy(update={"partitions": (), "pixels": {}})
    bare = Catalog(other.storage, other.metadata.model_copy(update={"margins": (margin,)}))
    assert Catalog.open(root / "a").crossmatch(bare, radius_arcsec=0.001).num_rows == 2


def test_a_match_is_published_with_the_properties_that_its_spec_says(warehouse: Path) -> None:
    told = "hats: {obs_title: Pairs, hats_creator: A team, hats_cols_default: [separation_arcsec]}\n"
    in_process.publish_match(start(warehouse, told))
    found = outcome(warehouse)
    found.verify().raise_if_failed()
    properties = Path(found.uri, found.metadata.write_id, found.metadata.groups[0].name, "hats.properties")
    said = dict(line.split("=", 1) for line in properties.read_text().splitlines())
    position = found.metadata.position
    assert (said["obs_title"], said["hats_creator"]) == ("Pairs", "A team")
    assert said["hats_cols_default"] == f"{position.icrs_ra} {position.icrs_dec} separation_arcsec"
    with pytest.raises(SchemaMismatchError, match=r"hats.hats_cols_default: .* no column 'nope'"):
        start(warehouse, "hats: {hats_cols_default: [nope]}\n", "second")
    with pytest.raises(SpecError, match="a_x_b: hats: layout hipscat has no HATS files"):
        start(warehouse, "layout: hipscat\nhats: {obs_title: Pairs}\n", "third")
