"""Catalogs of several column groups on either side of a match: against brute force, whatever lies where."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.joining import right_rows
from hipslake.errors import SpecError, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import sky
from tests.catalog.matching import nearest_pairs, published, rows_at, separations
from tests.examples import examples
from tests.joins.skies import placed

pytestmark = pytest.mark.usefixtures("large_sides")

ROWS = 700


def stars(seed: int, near: pa.Table | None = None) -> pa.Table:
    """Rows all over the sky, or around those of another table, with columns of several types and nulls."""
    rng = np.random.default_rng([seed, 7])
    if near is None:
        ra, dec = sky(ROWS, seed=seed)
    else:
        some, wander = rng.integers(0, ROWS, ROWS), 10.0 ** rng.uniform(-3, 0, ROWS)
        place = placed(
            near["ra"].to_numpy()[some] + wander * rng.normal(size=ROWS),
            near["dec"].to_numpy()[some] + wander * rng.normal(size=ROWS),
        )
        ra, dec = place.ra, place.dec
    return rows_at(
        ra,
        dec,
        mag=pa.array(rng.uniform(10, 20, ROWS).round(2), mask=rng.uniform(size=ROWS) < 0.1),
        kind=pa.array(rng.choice(["star", "galaxy", None], ROWS), pa.string()),
        flux=pa.array(rng.normal(size=ROWS).astype("f4")),
        tags=pa.array([[f"t{n}" for n in range(number)] for number in rng.integers(0, 4, ROWS)]),
        code=pa.array(rng.choice(["a", "b", "c"], ROWS)).dictionary_encode(),
    )


def passing(table: pa.Table, limits: tuple[float, str] | None) -> np.ndarray:
    """Which rows pass `filter_of` the same limits: bool[n], null passes nothing."""
    if limits is None:
        return np.ones(len(table), bool)
    rows = zip(table["mag"].to_pylist(), table["kind"].to_pylist(), strict=True)
    return np.array([mag is not None and mag < limits[0] and kind == limits[1] for mag, kind in rows])


def filter_of(limits: tuple[float, str] | None) -> str | None:
    return None if limits is None else f"mag < {limits[0]} and kind = '{limits[1]}'"


GROUPS: list[list[dict[str, Any]]] = [
    [{"name": "main"}],
    [
        {"name": "main"},
        {"name": "details", "columns": ["kind", "flux", "tags", "code"], "threshold": "60 rows"},
    ],
    [
        {"name": "main", "columns": ["id", "ra", "dec"], "threshold": "60 rows"},
        {"name": "words", "columns": ["kind", "tags"], "threshold": "5000 rows"},
        {"name": "rest", "columns": "*", "threshold": "200 rows"},
    ],
]
LIMITS = st.sampled_from([None, (15.0, "star"), (12.0, "galaxy")])


@given(
    seed=st.integers(0, 2**20),
    groups=st.tuples(st.sampled_from(GROUPS), st.sampled_from(GROUPS[1:])),
    layout=st.sampled_from(["hats", "hipscat"]),
    thresholds=st.tuples(st.sampled_from([20, 150, 5000]), st.sampled_from([20, 150, 5000])),
    radius=st.sampled_from([60.0, 900.0, 3600.0]),
    neighbours=st.sampled_from([1, 2, None]),
    limits=st.tuples(LIMITS, LIMITS),
    how=st.sampled_from(["inner", "left", "anti", "outer"]),
)
@settings(max_examples=examples(15))
def test_groups_equal_brute_force(
    seed: int,
    groups: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    layout: str,
    thresholds: tuple[int, int],
    radius: float,
    neighbours: int | None,
    limits: tuple[tuple[float, str] | None, tuple[float, str] | None],
    how: str,
) -> None:
    left = stars(seed)
    right = stars(seed + 1, near=left)
    with tempfile.TemporaryDirectory() as folder:
        a, b = (
            published(
                Path(folder),
                name,
                table,
                threshold=f"{threshold} rows",
                layout=layout,
                column_groups=grouped,
                margin_arcsec=radius if name == "b" else None,
                parquet={"row_group_rows": 30},
            )
            for name, table, threshold, grouped in zip("ab", (left, right), thresholds, groups, strict=True)
        )
        found = a.crossmatch(
            b,
            radius_arcsec=radius,
            neighbours=neighbours or "all",
            how=how,  # type: ignore[arg-type]
            filters=filter_of(limits[0]),
            other_filters=filter_of(limits[1]),
        )
    keep = passing(left, limits[0]), passing(right, limits[1])
    told = np.where(keep[0][:, None] & keep[1][None, :], separations(left, right), np.inf)
    pairs = nearest_pairs(told, radius, neighbours)
    assert rows_of(found, left, right, how) == expected_rows(pairs, keep, how)
    keys = found["_healpix_29"].to_numpy()
    assert np.all(keys[1:] >= keys[:-1])
    if how == "outer":
        check_places(found, left, right)


def check_places(found: pa.Table, left: pa.Table, right: pa.Table) -> None:
    """A row of an outer match lies where its left row does, or else its right one; by healpy."""
    for axis in ("ra", "dec"):
        place = pc.coalesce(found[axis], found[f"{axis}_b"]).to_numpy()
        assert np.array_equal(found[f"{axis}_match"].to_numpy(), place)
    lon, lat = (found[name].to_numpy() for name in ("ra_match", "dec_match"))
    expected = healpy.ang2pix(1 << 29, lon, lat, nest=True, lonlat=True)
    assert np.array_equal(found["_healpix_29"].to_numpy(), expected)


def expected_rows(
    pairs: set[tuple[int, int]], keep: tuple[np.ndarray, np.ndarray], how: str
) -> list[tuple[int, int]]:
    """The pairs of a match, -1 for none."""
    matched = {row for row, _ in pairs}, {row for _, row in pairs}
    alone = [
        sorted(set(np.flatnonzero(side).tolist()) - met) for side, met in zip(keep, matched, strict=True)
    ]
    if how == "anti":
        return [(row, -1) for row in alone[0]]
    found = sorted(pairs)
    if how in ("left", "outer"):
        found += [(row, -1) for row in alone[0]]
    if how == "outer":
        found += [(-1, row) for row in alone[1]]
    return sorted(found)


def rows_of(found: pa.Table, left: pa.Table, right: pa.Table, how: str) -> list[tuple[int, int]]:
    """The pairs that a match found, -1 for none; each of its other columns is that of its row."""
    sides = []
    for table, suffix in ((left, ""), (right, "_b")):
        if how == "anti" and suffix:
            sides.append(np.full(len(found), -1))
            continue
        numbers = found["id" + suffix]
        for name in table.schema.names:
            expected = table[name].combine_chunks().take(numbers.combine_chunks())
            assert found[name + suffix].to_pylist() == expected.to_pylist(), name + suffix
        sides.append(numbers.fill_null(-1).to_numpy())
    return sorted(zip(*(side.tolist() for side in sides), strict=True))


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    left = stars(3)
    return left, stars(4, near=left)


def grouped(root: Path, name: str, table: pa.Table, **fields: Any) -> Catalog:
    options: dict[str, Any] = {"threshold": "100 rows", "layout": "hipscat", "margin_arcsec": 3600.0}
    return published(root, name, table, **options | {"column_groups": GROUPS[2]} | fields)


def test_row_identity_is_kept_of_either_side_under_suffixes(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table]
) -> None:
    """What the match left out can be read afterwards, by (`_healpix_29`, `_row`)."""
    a, b = grouped(tmp_path, "a", tables[0]), grouped(tmp_path, "b", tables[1])
    found = a.crossmatch(
        b,
        radius_arcsec=3600,
        columns=["id", "_row"],
        other_columns=["id", "_healpix_29", "_row"],
        suffixes=("_a", "_b"),
    )
    for side, suffix, key in ((a, "_a", "_healpix_29"), (b, "_b", "_healpix_29_b")):
        whole = side.read(["id", "_healpix_29", "_row"])
        known = {row["id"]: (row["_healpix_29"], row["_row"]) for row in whole.to_pylist()}
        rows = zip(*(found[name].to_pylist() for name in ("id" + suffix, key, "_row" + suffix)), strict=True)
        assert all(known[number] == (h29, row) for number, h29, row in rows)
    assert found.num_rows > 0
    with pytest.raises(SpecError, match=r"'_row' of the match would have a name .* or a suffix"):
        a.crossmatch(b, radius_arcsec=3600, columns=["id", "_row"])


def test_motion_and_filter_in_different_groups(tmp_path: Path, tables: tuple[pa.Table, pa.Table]) -> None:
    """The match at another epoch is that of the moved positions, as astropy moves them."""
    left, right = tables
    rng = np.random.default_rng(1)
    motion = [rng.normal(scale=4000.0, size=ROWS).round(3) for _ in range(2)]  # mas per year
    moving = right.append_column("pm_ra", pa.array(motion[0])).append_column("pm_dec", pa.array(motion[1]))
    groups = [
        {"name": "main", "columns": ["id", "ra", "dec"]},
        {"name": "across", "columns": ["pm_ra", "kind"], "threshold": "50 rows"},
        {"name": "rest", "columns": "*"},
    ]
    a = published(tmp_path, "a", left, threshold="100 rows")
    b = grouped(tmp_path, "b", moving, column_groups=groups, margin_arcsec=7200.0)
    from astropy import units as u
    from astropy.coordinates import SkyCoord
    from astropy.time import Time

    there = SkyCoord(
        right["ra"].to_numpy() * u.deg,
        right["dec"].to_numpy() * u.deg,
        pm_ra_cosdec=motion[0] * u.mas / u.yr,
        pm_dec=motion[1] * u.mas / u.yr,
        distance=1 * u.kpc,
        obstime=Time("J2000"),
    ).apply_space_motion(Time("J2100"))
    here = SkyCoord(left["ra"].to_numpy() * u.deg, left["dec"].to_numpy() * u.deg)
    told = here[:, None].separation(there[None, :]).arcsec
    told = np.where((np.array(right["kind"].to_pylist(), object) == "star")[None, :], told, np.inf)
    found = a.crossmatch(
        b,
        radius_arcsec=1800,
        neighbours="all",
        other_filters="kind = 'star'",
        other_motion={"pmra": "pm_ra", "pmdec": "pm_dec"},
        other_columns=["id", "tags"],
        epoch=2100.0,
    )
    pairs = set(zip(found["id"].to_pylist(), found["id_b"].to_pylist(), strict=True))
    clear = np.abs(told - 1800.0) > 1.0  # light travel time and rounding
    expected = {pair for pair in nearest_pairs(told, 1800.0, None) if clear[pair]}
    assert {pair for pair in pairs if clear[pair]} == expected != set()
    assert found["tags_b"].to_pylist() == [right["tags"][row].as_py() for row in found["id_b"].to_pylist()]


def test_only_row_groups_around_matched_rows_are_fetched(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table]
) -> None:
    """The others may even be damaged."""
    left = tables[0].slice(0, 3)
    b = grouped(tmp_path, "b", tables[1], parquet={"row_group_rows": 5})
    a = published(tmp_path, "a", left.set_column(0, "id", pa.array(range(3))))
    whole = a.crossmatch(b, radius_arcsec=3600, neighbours="all")
    keys = a.crossmatch(b, radius_arcsec=3600, neighbours="all", other_columns=["_healpix_29"])
    near = np.unique(keys["_healpix_29_b"].to_numpy())
    damaged = 0
    for path in b.metadata.partitions("words", b.storage)["path"].to_pylist():
        damaged += damage_row_groups_without(Path(b.storage.uri(path)), near)
    assert damaged > 50
    assert a.crossmatch(b, radius_arcsec=3600, neighbours="all").equals(whole)
    with pytest.raises(VerificationError, match="cannot be read"):
        a.crossmatch(b, radius_arcsec=3600, other_filters="kind = 'star'", region="cone 0 0 180deg")


def damage_row_groups_without(path: Path, near: np.ndarray) -> int:
    """Overwrite the pages of all row groups that hold none of some order-29 pixels; how many these are."""
    data, footer, damaged = bytearray(path.read_bytes()), pq.read_metadata(path), 0
    for number in range(footer.num_row_groups):
        columns = [footer.row_group(number).column(at) for at in range(footer.row_group(number).num_columns)]
        told = columns[0].statistics
        if not np.any((near >= told.min) & (near <= told.max)):
            damaged += 1
            for column in columns:
                start = column.dictionary_page_offset or column.data_page_offset
                data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(data))
    return damaged


def test_a_row_that_another_group_lacks_is_told(tmp_path: Path, tables: tuple[pa.Table, pa.Table]) -> None:
    b = grouped(tmp_path, "b", tables[1])
    rows = right_rows.RowsByIdentity(b.storage, b.metadata, ["kind", "flux"])
    known = b.read(["_healpix_29", "_row", "kind", "flux"])
    keys, numbers = (known[name].to_numpy() for name in ("_healpix_29", "_row"))
    mixed = np.random.default_rng(0).permutation(len(known))[:200]
    assert rows.fetch(keys[mixed], numbers[mixed]).equals(known.select(["kind", "flux"]).take(mixed))
    assert rows.fetch(keys[:0], numbers[:0]).num_rows == 0
    with pytest.raises(VerificationError, match=r"group 'words' holds the row with .* 0 times"):
        rows.fetch(keys[:2], numbers[:2] + (1 << 39))
