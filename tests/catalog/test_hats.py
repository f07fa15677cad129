"""HATS files: their content, and what the HATS libraries make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.hats import view_files
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.hats.properties import collection_properties
from hipslake.catalog.hats.view_files import write_hats_group
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.errors import CatalogFormatError, VerificationError
from hipslake.sphere.pixels import order29
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import WRITE, point_map, sky, write_little
from tests.examples import examples
from tests.peers.running import run_peer

ROWS = 4000
DEGREES = sky(ROWS, cap=50.0)
RNG = np.random.default_rng(5)
SOURCE = pa.table(
    {
        "id": np.arange(ROWS),
        "ra": np.radians(DEGREES[0]),
        "dec": np.radians(DEGREES[1]),
        "mag": RNG.random(ROWS).astype(np.float32),
        "flux": RNG.random(ROWS),
    }
)
CREDIT = "ESA: a licence\nin two lines, with a \\ and an ü"
SPEC: dict[str, Any] = {
    "position": {"ra": "ra", "dec": "dec", "unit": "rad"},
    "attribution": CREDIT,
    "column_groups": [
        {"name": "main", "columns": ["id", "mag"]},
        {"name": "details", "columns": "*", "threshold": "900 rows"},
    ],
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    return Storage.at(str(tmp_path_factory.mktemp("catalogs") / "stars"))


@pytest.fixture(scope="module")
def little(storage: Storage) -> CatalogMetadata:
    return write_little(storage, SOURCE, DEGREES, **SPEC)


def properties(data: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in data.decode().splitlines())


def test_properties_have_a_twin_and_say_what_readers_need(storage: Storage, little: CatalogMetadata) -> None:
    data = storage.read(f"{WRITE}/details/hats.properties")
    assert storage.read(f"{WRITE}/details/properties") == data
    said = properties(data)
    assert said["obs_collection"] == "stars_details"
    assert (said["hats_col_ra"], said["hats_col_dec"]) == ("ra_icrs", "dec_icrs")
    assert said["hats_nrows"] == str(ROWS)
    assert said["hats_max_rows"] == "900"
    assert said["hats_order"] == str(max(little.group("details").pixels))


def test_partition_info_is_breadth_first(storage: Storage, little: CatalogMetadata) -> None:
    lines = storage.read(f"{WRITE}/main/partition_info.csv").decode().splitlines()
    pixels = [tuple(map(int, line.split(","))) for line in lines[1:]]
    table = little.partitions("main", storage)
    assert lines[0] == "Norder,Npix"
    assert pixels == sorted(zip(table["order"].to_pylist(), table["npix"].to_pylist(), strict=True))


def test_metadata_opens_every_leaf_as_one_dataset(storage: Storage, little: CatalogMetadata) -> None:
    dataset = ds.parquet_dataset(storage.uri(f"{WRITE}/main/dataset/_metadata"))
    assert sorted(Path(file).relative_to(storage.root).as_posix() for file in dataset.files) == sorted(
        little.partitions("main", storage)["path"].to_pylist()
    )
    assert dataset.to_table().sort_by("id").select(["id", "mag"]).equals(SOURCE.select(["id", "mag"]))
    assert pq.read_schema(storage.uri(f"{WRITE}/main/dataset/_common_metadata")).equals(
        little.schema_of("main"), check_metadata=True
    )


def test_metadata_that_would_be_too_large_is_left_out(little: CatalogMetadata, storage: Storage) -> None:
    storage.delete(f"{WRITE}/main/dataset/_metadata")
    cells = point_map(np.sort(order29(*DEGREES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_files, "MAX_FOOTER_BYTES", 1000)
        write_hats_group(storage, little, "main", cells)
    assert not storage.exists(f"{WRITE}/main/dataset/_metadata")
    write_hats_group(storage, little, "main", cells)
    assert storage.exists(f"{WRITE}/main/dataset/_metadata")


def test_thumbnail_is_one_row_of_leaves_spread_over_the_sky(
    storage: Storage, little: CatalogMetadata
) -> None:
    path = storage.uri(f"{WRITE}/main/data_thumbnail.parquet")
    thumbnail = pq.read_table(path)
    assert thumbnail.schema.equals(little.schema_of("main"))
    assert thumbnail.num_rows == little.group("main").leaves
    cells = point_map(np.sort(order29(*DEGREES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_files, "THUMBNAIL_ROWS", 3)
        write_hats_group(storage, little, "main", cells)
    index = pq.read_table(path)["_healpix_29"].to_numpy()
    every = thumbnail["_healpix_29"].to_numpy()
    assert index.tolist() == [every[0], every[(len(every) - 1) // 2], every[-1]]
    write_hats_group(storage, little, "main", cells)


def test_written_again_the_bytes_are_the_same(storage: Storage, little: CatalogMetadata) -> None:
    names = ["hats.properties", "point_map.fits", "data_thumbnail.parquet", "dataset/_metadata"]
    before = [storage.read(f"{WRITE}/main/{name}") for name in names]
    for name in names:
        storage.delete(f"{WRITE}/main/{name}")
    write_hats_group(storage, little, "main", point_map(np.sort(order29(*DEGREES))))
    assert [storage.read(f"{WRITE}/main/{name}") for name in names] == before


def test_a_leaf_with_other_rows_than_the_metadata_says_is_told(
    storage: Storage, little: CatalogMetadata
) -> None:
    group = little.groups[0]
    assert group.partitions is not None
    first, *others = group.partitions
    wrong = group.model_copy(update={"partitions": (first.model_copy(update={"rows": 1}), *others)})
    lying = little.model_copy(update={"groups": (wrong, *little.groups[1:])})
    with pytest.raises(
        VerificationError, match=r"Npix=\d+\.parquet: holds \d+ rows where metadata.json says 1"
    ):
        write_hats_group(storage, lying, "main", point_map(np.sort(order29(*DEGREES))))


def test_a_catalog_without_icrs_degrees_has_no_hats_view(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path))
    metadata = write_little(storage, SOURCE, DEGREES, **SPEC, layout="hipscat")
    with pytest.raises(CatalogFormatError, match="no columns hold ICRS degrees"):
        write_hats_group(storage, metadata, "main", point_map(np.sort(order29(*DEGREES))))


# What the collections of hats 0.10.3 may say; any other key is an error there.
KEYS_OF_0_10 = {
    "obs_collection",
    "hats_primary_table_url",
    "all_margins",
    "default_margin",
    "all_indexes",
    "default_index",
    "hats_builder",
    "hats_creation_date",
    "hats_release_date",
    "hats_version",
    "obs_copyright",
    "obs_description",
}


def test_collection_names_the_newest_write_and_its_margins_in_keys_that_all_readers_know(
    little: CatalogMetadata,
) -> None:
    margin = Margin(
        name="main_10arcs", group="main", radius_arcsec=10, rows=1, bytes=1, files=1, pixels={0: "1"}
    )
    newer = little.model_copy(update={"margins": (margin,), "write_id": "w2"})
    said = properties(collection_properties(newer))
    assert said["obs_collection"] == "stars"
    assert said["hats_primary_table_url"] == "w2/main"
    assert said["all_margins"] == said["default_margin"] == "w2/main_10arcs"
    assert said.keys() <= KEYS_OF_0_10


cells = st.sets(st.integers(0, 12 * 4**3 - 1), min_size=1, max_size=60)


@settings(max_examples=examples(20))
@given(pixels=cells, fill=st.booleans())
def test_healpy_reads_the_map_back(
    tmp_path_factory: pytest.TempPathFactory, pixels: set[int], fill: bool
) -> None:
    npix = np.arange(12 * 4**3) if fill else np.array(sorted(pixels))  # dense and sparse forms
    rows = npix * 3 + 1
    written = PointMap.from_cells(np.full(len(npix), 3), npix, rows)
    path = tmp_path_factory.mktemp("map") / "point_map.fits"
    path.write_bytes(written.to_fits())
    read = healpy.read_map(path, nest=True, partial=not fill, dtype=np.float64)
    expected = np.full(12 * 4**3, healpy.UNSEEN)
    expected[npix] = rows
    np.testing.assert_array_equal(read, expected)


@given(
    order=st.lists(st.integers(0, 12), min_size=1, max_size=30),
    seed=st.integers(0, 1000),
    top=st.integers(0, 6),
)
def test_map_sums_cells_of_mixed_orders(order: list[int], seed: int, top: int) -> None:
    rng = np.random.default_rng(seed)
    npix = np.array([rng.integers(0, 12 * 4**o) for o in order])
    rows = rng.integers(0, 5, len(order))
    made = PointMap.from_cells(
        np.array(order, dtype=np.uint8), npix.astype(np.uint32), rows, highest_order=top
    )
    kept = [(o, int(p), int(r)) for o, p, r in zip(order, npix, rows, strict=True) if r]
    target = min([top, *(o for o, _, _ in kept)])
    brute: dict[int, int] = {}
    for o, p, r in kept:
        brute[p // 4 ** (o - target)] = brute.get(p // 4 ** (o - target), 0) + r
    assert made.order == target
    assert dict(zip(made.npix.tolist(), made.rows.tolist(), strict=True)) == dict(sorted(brute.items()))


@pytest.fixture(scope="module")
def peers(hats_python: str, storage: Storage, little: CatalogMetadata) -> dict[str, Any]:
    """What the peers' own libraries say of the catalog."""
    script = Path(__file__).with_name("peers_read.py")
    printed = run_peer(hats_python, script, storage.root, storage.uri(WRITE))
    said: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return said


@pytest.mark.peers
@pytest.mark.sampled(2)
def test_hats_finds_the_catalog_and_every_group_strictly_valid(peers: dict[str, Any]) -> None:
    assert peers["valid"] == {"stars": True, "main": True, "details": True}


@pytest.mark.peers
def test_lsdb_opens_the_root_with_every_row_in_its_leaf(
    peers: dict[str, Any], little: CatalogMetadata, storage: Storage
) -> None:
    table = little.partitions("main", storage)
    pixels = zip(table["order"].to_pylist(), table["npix"].to_pylist(), strict=True)
    assert sorted(map(tuple, peers["leaves"])) == sorted(pixels)
    order = np.argsort(peers["rows"]["id"])
    for name, expected in {
        "id": SOURCE["id"],
        "mag": SOURCE["mag"],
        "ra": SOURCE["ra"],
        "ra_icrs": DEGREES[0],
        "dec_icrs": DEGREES[1],
        "_healpix_29": order29(*DEGREES),
    }.items():
        np.testing.assert_array_equal(np.array(peers["rows"][name])[order], np.asarray(expected))


@pytest.mark.peers
def test_lsdb_opens_a_further_group_and_hats_its_extension(peers: dict[str, Any]) -> None:
    order = np.argsort(peers["groups"]["details"]["_row"])
    np.testing.assert_array_equal(np.array(peers["groups"]["details"]["flux"])[order], SOURCE["flux"])
    knows = not peers["hats"].startswith("0.10.")
    assert peers["extensions"] == ({"details": ["flux"]} if knows else None)


@pytest.mark.peers
def test_groups_that_lsdb_joins_have_the_position_of_the_source_once(peers: dict[str, Any]) -> None:
    assert [name for name in peers["joined"] if name.startswith(("ra", "dec"))] == [
        "ra",
        "dec",
        "ra_icrs",
        "dec_icrs",
        "ra_icrs_again",  # HATS asks for a position in each
        "dec_icrs_again",
    ]


@pytest.mark.peers
def test_lsdb_prunes_by_region_and_finds_the_same_stars(peers: dict[str, Any]) -> None:
    separation = healpy.rotator.angdist([40.0, 80.0], np.array(DEGREES), lonlat=True)
    inside = np.flatnonzero(separation <= np.radians(2.0))
    assert sorted(peers["cone"]["rows"]["id"]) == inside.tolist()
    assert 0 < peers["cone"]["partitions"] < len(peers["leaves"])
    # Row filters on the index come from the map alone; here they leave a small part of the sky.
    ranges = [(low[2], high[2]) for low, high in peers["cone"]["filters"]]
    assert all(low[:2] == ["_healpix_29", ">="] and high[1] == "<" for low, high in peers["cone"]["filters"])
    assert 0 < sum(stop - start for start, stop in ranges) < 0.002 * 12 * 4**29


@pytest.mark.peers
def test_properties_survive_the_peers_reader(peers: dict[str, Any]) -> None:
    assert peers["name"] == "stars"
    assert peers["properties"]["obs_copyright"] == CREDIT
    assert peers["skymap_rows"] == ROWS
    order, fraction = peers["moc"]
    assert order == 8
    assert fraction == pytest.approx(len(np.unique(order29(*DEGREES) >> 42)) / (12 * 4**8))
