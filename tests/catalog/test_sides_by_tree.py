"""Matches with a small side, and their counts, give what a k-d tree of all rows gives at hard places."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.coordinates import angular_separation
from hipslake import Catalog, ingest
from hipslake.catalog.joining import crossmatch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from tests.catalog.foreign_trees import leaves, variant, without
from tests.catalog.matching import published, rows_at
from tests.catalog.publishing import Published
from tests.catalog.sides_by_force import matched, small
from tests.examples import examples
from tests.joins.skies import PLACES, placed

SIDES = ["left", "right"]
NEIGHBOURS = [1, 3, "all", "best", "mutual"]
HOWS = ["inner", "left", "anti", "outer"]


def near_pairs(left: pa.Table, right: pa.Table, radius: float, least: float = 0.0) -> dict[int, list[int]]:
    """Of each left row that has any, the right rows within the limits, the nearest first.

    Of those that are equally near, the first along the curve, and of one place the first in the source.
    """
    (ra, dec), (other_ra, other_dec) = (
        (side["ra"].to_numpy(), side["dec"].to_numpy()) for side in (left, right)
    )
    trees = [cKDTree(healpy.ang2vec(*place, lonlat=True)) for place in ((ra, dec), (other_ra, other_dec))]
    found = trees[0].query_ball_tree(trees[1], 2.0 * np.sin(np.radians(radius / 3600) / 2.0) + 1e-12)
    along = np.argsort(healpy.ang2pix(1 << 29, other_ra, other_dec, nest=True, lonlat=True), kind="stable")
    place = np.empty(len(along), int)
    place[along] = np.arange(len(along))
    near: dict[int, list[int]] = {}
    for row, others in enumerate(found):
        there = np.array(sorted(others), int)
        degrees = (ra[row], dec[row], other_ra[there], other_dec[there])
        apart = np.degrees(angular_separation(*map(np.radians, degrees))) * 3600
        order = np.lexsort((place[there], apart))
        order = order[(apart[order] <= radius) & (apart[order] >= least)]
        if len(order):
            near[row] = there[order].tolist()
    return near


def one_to_one(left: pa.Table, right: pa.Table, which: str, *limits: float) -> dict[int, list[int]]:
    """Each left row with its nearest, if that has none nearer (mutual: nowhere, best: among those it has)."""
    there = {row: others[0] for row, others in near_pairs(left, right, *limits).items()}
    wanted: dict[int, list[int]] = {}
    for other, rows in near_pairs(right, left, *limits).items():
        asking = [row for row in rows if there.get(row) == other]
        if which == "mutual" and rows[0] not in asking:
            continue
        if asking:
            wanted[asking[0]] = [other]
    return wanted


def wanted(
    left: pa.Table, right: pa.Table, neighbours: Any, how: str, *limits: float
) -> Counter[tuple[int | None, int | None]]:
    """The rows of a match, by the numbers of both sides."""
    if neighbours in ("best", "mutual"):
        near = one_to_one(left, right, neighbours, *limits)
    else:
        near = near_pairs(left, right, *limits)
    ids, others = left["id"].to_pylist(), right["id"].to_pylist()
    most = neighbours if isinstance(neighbours, int) else None
    pairs = [(row, other) for row, there in near.items() for other in there[:most]]
    if how == "anti":
        return Counter((ids[row], None) for row in range(len(ids)) if row not in near)
    found: list[tuple[int | None, int | None]] = [(ids[row], others[other]) for row, other in pairs]
    if how in ("left", "outer"):
        found += [(ids[row], None) for row in range(len(ids)) if row not in near]
    if how == "outer":
        matched_others = {other for _, other in pairs}
        found += [(None, others[other]) for other in range(len(others)) if other not in matched_others]
    return Counter(found)


def given_pairs(found: pa.Table) -> Counter[tuple[int | None, int | None]]:
    others = found["id_b"].to_pylist() if "id_b" in found.column_names else [None] * len(found)
    return Counter(zip(found["id"].to_pylist(), others, strict=True))


def assert_all_found(
    catalogs: tuple[Catalog, Catalog], tables: tuple[pa.Table, pa.Table], radius: float, **asked: Any
) -> None:
    """Whichever side is small, and however it is counted, the match is that of the tree."""
    how, neighbours = asked.get("how", "inner"), asked.get("neighbours", 1)
    expected = wanted(*tables, neighbours, how, radius, asked.get("min_radius_arcsec", 0.0))
    for side in SIDES:
        found = matched(side, *catalogs, radius_arcsec=radius, **asked)
        assert given_pairs(found) == expected, side
        with small(side):
            counted = catalogs[0].crossmatch(catalogs[1], radius_arcsec=radius, count_only=True, **asked)
        assert (counted.rows, counted.rows_near_borders) == (expected.total(), None)


def patch(rng: np.random.Generator, place: tuple[float, float], width: float, rows: int) -> pa.Table:
    """Rows around a place, whatever pole or meridian is there, some of them twice in the same position."""
    up, across = width * rng.normal(size=(2, rows))
    found = placed(place[0] + across / max(np.cos(np.radians(place[1])), 1e-3), place[1] + up)
    same = rng.integers(0, rows, rows // 8)
    return rows_at(np.append(found.ra, found.ra[same]), np.append(found.dec, found.dec[same]))


@given(
    seed=st.integers(0, 2**20),
    place=st.sampled_from(PLACES),
    width=st.sampled_from([0.001, 0.05, 2.0]),
    rows=st.tuples(st.sampled_from([1, 9, 300]), st.sampled_from([1, 9, 300])),
    thresholds=st.tuples(st.sampled_from([4, 60, 5000]), st.sampled_from([4, 60, 5000])),
    reach=st.sampled_from([0.01, 0.3, 3.0]),
    least=st.sampled_from([0.0, 0.4]),
    neighbours=st.sampled_from(NEIGHBOURS),
    how=st.sampled_from(HOWS),
    at_once=st.sampled_from([25, 1_000_000]),
)
@settings(max_examples=examples(150, part=10))
def test_at_poles_and_meridians_and_with_radii_wider_than_leaves(
    seed: int,
    place: tuple[float, float],
    width: float,
    rows: tuple[int, int],
    thresholds: tuple[int, int],
    reach: float,
    least: float,
    neighbours: Any,
    how: str,
    at_once: int,
) -> None:
    """Leaves of 4 rows are far narrower than the radius; those of 5000 are base pixels."""
    rng = np.random.default_rng(seed)
    tables = patch(rng, place, width, rows[0]), patch(rng, place, width, rows[1])
    radius = min(3600.0, reach * width * 3600.0)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(crossmatch, "_MOST_ROWS", at_once)  # in a stretch
        a, b = (
            published(folder, name, table, threshold=f"{most} rows", parquet={"row_group_rows": 7})
            for name, table, most in zip("ab", tables, thresholds, strict=True)
        )
        more = {"how": how, "neighbours": neighbours, "min_radius_arcsec": least * radius}
        assert_all_found((a, b), tables, radius, **more)


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(5)
    return patch(rng, (0.0, 0.0), 0.5, 400), patch(rng, (0.0, 0.0), 0.5, 350)


SOME = [(1, "inner"), ("all", "left"), ("best", "outer"), ("mutual", "anti"), ("all", "outer")]


@pytest.mark.parametrize(("neighbours", "how"), SOME)
def test_of_leaves_without_statistics(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table], neighbours: Any, how: str
) -> None:
    """Then nothing tells which row groups are near: all of those leaves are read."""
    catalogs = [
        published(tmp_path, name, table, threshold="100 rows")
        for name, table in zip("ab", tables, strict=True)
    ]
    changed = 0
    for catalog in catalogs:
        for leaf in Path(catalog.uri).rglob("Npix=*.parquet"):
            rows = pq.ParquetFile(leaf).read()
            pq.write_table(rows, leaf, row_group_size=20, write_statistics=False)
            changed += 1
    assert changed > 8
    a, b = (Catalog.open(catalog.uri) for catalog in catalogs)
    leaf = next(Path(a.uri).rglob("Npix=*.parquet"))
    assert pq.read_metadata(leaf).row_group(0).column(0).statistics is None
    with small("left"):
        found = a.crossmatch(b, radius_arcsec=300, neighbours="all")
    assert given_pairs(found) == wanted(*tables, "all", "inner", 300.0, 0.0)
    assert_all_found((a, b), tables, 300.0, neighbours=neighbours, how=how)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, pa.Table], dict[str, pa.Table]]:
    """Catalogs of several nights, and the rows of their first and of their last version.

    Leaves of `appended` have several files; of `upserted`, rows were replaced elsewhere, and deleted.
    """
    root, rng = tmp_path_factory.mktemp("nights"), np.random.default_rng(6)
    whole = patch(rng, (0.0, 0.0), 0.5, 400)
    first, last = {}, {}
    common = {"position": {"ra": "ra", "dec": "dec"}, "threshold": "80 rows", "append": "add_file"}
    common["compact"] = {"schedule": "manual"}
    for night, rows in enumerate((whole.slice(0, 200), whole.slice(200, 150), whole.slice(350)), 1):
        spec = {"name": "appended", "mode": "append"} | common
        ingest(rows, spec=spec, warehouse=root, interval=f"2026-01-{night:02d}", spark=False)
    first["appended"], last["appended"] = whole.slice(0, 200), whole
    spec = {"name": "upserted", "mode": "upsert", "key": "id"} | common
    spec["operation"] = {"column": "op", "insert": "I", "update": "U", "delete": "D"}

    def night(rows: pa.Table, what: str) -> pa.Table:
        return rows.append_column("op", pa.array([what] * len(rows)))

    moved = whole.slice(0, 60)
    place = placed(moved["ra"].to_numpy() + 0.3, moved["dec"].to_numpy() - 0.4)
    moved = pa.table({"id": moved["id"], "ra": place.ra, "dec": place.dec})
    nights = [night(whole, "I"), pa.concat_tables([night(moved, "U"), night(whole.slice(100, 150), "D")])]
    for number, rows in enumerate(nights, 1):
        ingest(rows, spec=spec, warehouse=root, interval=f"2026-01-{number:02d}", spark=False)
    first["upserted"] = whole
    last["upserted"] = pa.concat_tables([moved, whole.slice(60, 40), whole.slice(250)])
    return root, first, last


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["appended", "upserted"])
@pytest.mark.parametrize("version", ["first", "last"])
@pytest.mark.parametrize(("neighbours", "how"), SOME)
def test_of_nights_and_of_versions(
    nights: tuple[Path, dict[str, pa.Table], dict[str, pa.Table]],
    tables: tuple[pa.Table, pa.Table],
    tmp_path: Path,
    name: str,
    version: str,
    neighbours: Any,
    how: str,
) -> None:
    """Rows that were deleted are in no match of a later version, and in those of the earlier one."""
    root, first, last = nights
    other = published(tmp_path, "b", tables[1], threshold="100 rows")
    mine = Catalog.open(root / "catalogs" / name, version=1 if version == "first" else None)
    rows = (first if version == "first" else last)[name]
    assert mine.metadata.total_rows == len(rows)
    assert_all_found((mine, other), (rows, tables[1]), 400.0, neighbours=neighbours, how=how)
    same = tables[1], rows
    found = {
        side: matched(side, other, mine, radius_arcsec=400, neighbours=neighbours, how=how) for side in SIDES
    }
    names = {"id": "id", f"id_{name}": "id_b"}
    for table in found.values():
        renamed = table.rename_columns([names.get(each, each) for each in table.column_names])
        assert given_pairs(renamed) == wanted(*same, neighbours, how, 400.0, 0.0)


@pytest.mark.parametrize("side", [*SIDES, None])
def test_an_open_catalog_keeps_its_version(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table], side: str | None
) -> None:
    """A side that moves on after it was opened is matched as it was."""
    spec = {
        "name": "b",
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "80 rows",
        "margin": {"arcsec": [300]},
    }
    ingest(tables[1], spec=spec, warehouse=tmp_path, spark=False)
    a, b = published(tmp_path, "a", tables[0]), Catalog.open(tmp_path / "catalogs" / "b")
    ingest(tables[1].slice(0, 20), spec=spec, warehouse=tmp_path, spark=False)
    assert Catalog.open(tmp_path / "catalogs" / "b").metadata.total_rows == 20
    with small(side):
        found = a.crossmatch(b, radius_arcsec=300, neighbours="all")
    assert given_pairs(found) == wanted(*tables, "all", "inner", 300.0, 0.0)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("neighbours", [2, "all"])
def test_a_catalog_matched_with_itself(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table], side: str, neighbours: Any
) -> None:
    a = published(tmp_path, "b", tables[0], threshold="100 rows")
    expected = wanted(tables[0], tables[0], neighbours, "inner", 300.0, 1.0)
    asked = {"radius_arcsec": 300, "min_radius_arcsec": 1.0, "neighbours": neighbours}
    assert given_pairs(matched(side, a, a, **asked)) == expected
    with small(side):
        assert a.crossmatch(a, count_only=True, **asked).rows == expected.total()


@pytest.mark.parametrize("side", SIDES)
def test_filters_columns_and_suffixes_together(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table], side: str
) -> None:
    a, b = (
        published(tmp_path, name, table.append_column("mag", table["id"]), threshold="70 rows")
        for name, table in zip("ab", tables, strict=True)
    )
    asked = {"filters": "mag >= 50", "other_filters": "mag < 300", "columns": ["id"], "other_columns": ["id"]}
    found = matched(side, a, b, radius_arcsec=500, neighbours=3, suffixes=("_one", "_b"), **asked)
    assert {"id_one", "id_b"} < set(found.column_names)
    assert "mag" not in found.column_names
    found = found.rename_columns([{"id_one": "id"}.get(name, name) for name in found.column_names])
    kept = tables[0].slice(50), tables[1].slice(0, 300)
    assert given_pairs(found) == wanted(*kept, 3, "inner", 500.0, 0.0)


@pytest.mark.parametrize("side", SIDES)
def test_further_sides_that_have_no_place_in_common(tmp_path: Path, side: str) -> None:
    """Three sides of which no left row is near both right ones: the places to be read have no common part."""
    rng = np.random.default_rng(8)
    a, b, c = (patch(rng, place, 0.01, 50) for place in ((10.0, 5.0), (10.0, 5.0), (190.0, -5.0)))
    left = pa.concat_tables([a, c])
    left = left.set_column(0, "id", pa.array(np.arange(len(left))))
    one, two, three = (
        published(tmp_path, name, rows) for name, rows in zip("abc", (left, b, c), strict=True)
    )
    further = [{"right": three, "radius_arcsec": 60, "suffix": "_c"}]
    with small(side):
        assert one.crossmatch(two, radius_arcsec=60, further=further).num_rows == 0
        assert one.crossmatch(two, radius_arcsec=60, further=further, count_only=True).rows == 0
        kept = one.crossmatch(two, radius_arcsec=60, how="left", further=[further[0] | {"how": "left"}])
    assert kept.num_rows == len(left)
    assert kept["id_b"].null_count > 40
    assert kept["id_c"].null_count > 40


@pytest.mark.parametrize("change", ["as it is", "mixed up and unplaced"])
def test_held_rows_that_others_filed_elsewhere_are_found_where_they_lie(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Rows of a leaf that lie in another one: what is held is ordered by where it lies."""
    ours = [
        published(tmp_path, name, table, threshold="100 rows")
        for name, table in zip("ab", tables, strict=True)
    ]
    trees = []
    for catalog, (ra, dec) in zip(ours, ((side["ra"], side["dec"]) for side in tables), strict=True):
        source = Published(catalog.storage, catalog.metadata, tables[0], (ra.to_numpy(), dec.to_numpy()))
        tree = variant(source, change, tmp_path / "others" / catalog.name)
        files = sorted(leaves(tree))
        parts = [pq.read_table(path, partitioning=None) for path in files]
        assert len(files) > 3
        taken = [part.slice(0, len(part) // 4) for part in parts]
        for path, part, of_others in zip(files, parts, [*taken[1:], taken[0]], strict=True):
            pq.write_table(pa.concat_tables([part.slice(len(part) // 4), of_others]), path)
        without("_metadata", "partition_info.csv")(tree)  # which would have other numbers
        trees.append(tree)
    monkeypatch.setattr(crossmatch, "_MOST_ROWS", 25)
    a, b = (Catalog.open(catalog.uri) for catalog in ours)
    for how, neighbours in (("inner", "all"), ("left", "all"), ("anti", 1)):
        expected = wanted(*tables, neighbours, how, 300.0, 0.0)
        asked = {"radius_arcsec": 300, "how": how, "neighbours": neighbours, "suffixes": ("", "_b")}
        assert given_pairs(matched("right", a, Catalog.open(trees[1]), **asked)) == expected
        assert given_pairs(matched("left", Catalog.open(trees[0]), b, **asked)) == expected
