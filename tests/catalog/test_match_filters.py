"""Either side of a cross-match is filtered before it is matched: against brute force, and with mistakes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import FilterError, SchemaMismatchError, SpecError, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import sky
from tests.catalog.matching import nearest_pairs, pairs_of, published, rows_at, separations
from tests.examples import examples
from tests.joins.skies import placed
from tests.steps.nights import Survey, night_rows

ROWS = 1200
GROUPS = """\
column_groups:
  - {name: main, columns: [id, ra, dec]}
  - {name: details, columns: "*", threshold: 35 rows}
"""
RADIUS = 3600.0  # so many rows have several neighbours, also over borders


def stars(seed: int, near: pa.Table | None = None) -> pa.Table:
    """Rows all over the sky, or around those of another table, with magnitudes of which a tenth is null."""
    rng = np.random.default_rng([seed, 1])  # `sky` draws from the seed itself
    if near is None:
        ra, dec = sky(ROWS, seed=seed)
    else:
        some = rng.integers(0, ROWS, ROWS)
        wander = 10.0 ** rng.uniform(-3, 0, ROWS)
        place = placed(
            near["ra"].to_numpy()[some] + wander * rng.normal(size=ROWS),
            near["dec"].to_numpy()[some] + wander * rng.normal(size=ROWS),
        )
        ra, dec = place.ra, place.dec
    mag = pa.array(rng.uniform(10, 20, ROWS).round(2), mask=rng.uniform(size=ROWS) < 0.1)
    kind = pa.array(rng.choice(["star", "galaxy", None], ROWS), pa.string())
    return rows_at(ra, dec, mag=mag, kind=kind)


def having(told: np.ndarray, left: pa.Array, right: pa.Array) -> np.ndarray:
    """The separations, infinite where either row does not pass."""
    passing = [np.array(side.to_pylist(), dtype=object) == True for side in (left, right)]  # noqa: E712  null
    return np.where(passing[0][:, None] & passing[1][None, :], told, np.inf)


@given(
    seed=st.integers(0, 2**20),
    thresholds=st.tuples(st.sampled_from([20, 150, 5000]), st.sampled_from([20, 150, 5000])),
    neighbours=st.sampled_from([1, 2, None]),
    limits=st.tuples(st.sampled_from([9.0, 11.0, 15.0, 21.0]), st.sampled_from([9.0, 11.0, 15.0, 21.0])),
)
@settings(max_examples=examples(6))
def test_filtered_sides_equal_brute_force(
    seed: int, thresholds: tuple[int, int], neighbours: int | None, limits: tuple[float, float]
) -> None:
    left = stars(seed)
    right = stars(seed + 1, near=left)
    passing = pc.less(left["mag"], limits[0]), pc.less(right["mag"], limits[1])
    with tempfile.TemporaryDirectory() as folder:
        a, b = (
            published(
                Path(folder),
                name,
                table,
                threshold=f"{threshold} rows",
                margin_arcsec=RADIUS,
                parquet={"row_group_rows": 50},
            )
            for name, table, threshold in zip("ab", (left, right), thresholds, strict=True)
        )
        options: dict[str, Any] = {
            "radius_arcsec": RADIUS,
            "neighbours": neighbours or "all",
            "columns": ["id"],
            "other_columns": ["id"],
            "filters": f"mag < {limits[0]}",
            "other_filters": pc.field("mag") < limits[1],
        }
        found = a.crossmatch(b, **options)
        expected = nearest_pairs(having(separations(left, right), *passing), RADIUS, neighbours)
        assert set(pairs_of(found)) == expected
        assert found.schema.names == [
            "_healpix_29", "id", "ra", "dec", "id_b", "separation_arcsec", "position_angle_deg",
        ]  # fmt: skip
        every = set(left["id"].filter(passing[0]).to_pylist())
        matched = {row for row, _ in expected}
        kept = a.crossmatch(b, how="left", **options)
        assert kept.filter(pc.is_valid(kept["id_b"])).equals(found)
        assert set(kept["id"].to_pylist()) == every
        anti = a.crossmatch(b, how="anti", **options)
        assert sorted(anti["id"].to_pylist()) == sorted(every - matched)


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    left = stars(3)
    return left, stars(4, near=left)


@pytest.fixture(scope="module")
def a(tmp_path_factory: pytest.TempPathFactory, tables: tuple[pa.Table, pa.Table]) -> Catalog:
    return published(tmp_path_factory.mktemp("a"), "a", tables[0], threshold="100 rows", margin_arcsec=RADIUS)


@pytest.fixture(scope="module")
def b(tmp_path_factory: pytest.TempPathFactory, tables: tuple[pa.Table, pa.Table]) -> Catalog:
    return published(tmp_path_factory.mktemp("b"), "b", tables[1], threshold="250 rows", margin_arcsec=RADIUS)


def test_the_nearest_is_the_nearest_that_passes(tmp_path: Path) -> None:
    """The nearer two do not: one in the same leaf, one in its margin."""
    origin = rows_at(np.array([45.0]), np.array([1e-9]))
    around = rows_at(
        np.array([45.0, 45.0, 45.0]), np.array([0.001, -0.002, 0.003]), mag=pa.array([19.0, None, 12.0])
    )
    left = published(tmp_path, "a", origin)
    right = published(tmp_path, "b", around, threshold="1 rows", margin_arcsec=60.0)
    assert pairs_of(left.crossmatch(right, radius_arcsec=60)) == [(0, 0)]
    assert pairs_of(left.crossmatch(right, radius_arcsec=60, other_filters="mag < 18")) == [(0, 2)]
    assert left.crossmatch(right, radius_arcsec=60, other_filters="mag < 12").num_rows == 0
    null = left.crossmatch(right, radius_arcsec=60, other_filters="mag is null", other_columns=["id", "mag"])
    assert (pairs_of(null), null["mag"].to_pylist()) == ([(0, 1)], [None])


def test_filters_that_leave_nothing(a: Catalog, b: Catalog) -> None:
    nothing = "mag < 0"
    whole = set(range(ROWS))
    assert a.crossmatch(b, radius_arcsec=RADIUS, other_filters=nothing).num_rows == 0
    left = a.crossmatch(b, radius_arcsec=RADIUS, how="left", other_filters=nothing)
    assert left["id_b"].null_count == left.num_rows == ROWS
    anti = a.crossmatch(b, radius_arcsec=RADIUS, how="anti", other_filters=nothing)
    assert set(anti["id"].to_pylist()) == whole
    for how in ("inner", "left", "anti"):
        found = a.crossmatch(b, radius_arcsec=RADIUS, how=how, filters=nothing)
        assert found.num_rows == 0
        assert found.schema.equals(a.crossmatch(b, radius_arcsec=RADIUS, how=how).schema)


def test_filters_of_all_forms_and_a_region_mean_the_same(a: Catalog, b: Catalog) -> None:
    options: dict[str, Any] = {"radius_arcsec": RADIUS, "neighbours": "all", "region": "cone 0 10 60deg"}
    forms: list[Any] = [
        "mag between 12 and 16 and kind = 'star'",
        (pc.field("mag") >= 12) & (pc.field("mag") <= 16) & (pc.field("kind") == "star"),
        [("mag", ">=", 12), ("mag", "<=", 16), ("kind", "=", "star")],
    ]
    found = [a.crossmatch(b, filters=form, other_filters="kind is not null", **options) for form in forms]
    assert found[0].num_rows > 0
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])
    whole = a.crossmatch(b, **options)
    some = (
        pc.and_kleene(pc.greater_equal(whole["mag"], 12), pc.less_equal(whole["mag"], 16)),
        pc.and_(pc.equal(whole["kind"], "star"), pc.is_valid(whole["kind_b"])),
    )
    assert found[0].equals(whole.filter(pc.and_(*some)))
    assert a.crossmatch(b, filters="  ", **options).equals(whole)


def test_a_left_filter_over_several_groups(tmp_path: Path, tables: tuple[pa.Table, pa.Table]) -> None:
    """Also where rows move: what bounds their motion lies in one group, what is filtered by in another."""
    left, right = tables
    zero = pa.array(np.zeros(ROWS))
    still = left.append_column("pm_ra", zero).append_column("pm_dec", zero)
    groups = [
        {"name": "main"},
        {"name": "details", "columns": ["mag"], "threshold": "60 rows"},
        {"name": "words", "columns": ["kind"]},
    ]
    grouped = published(tmp_path, "a", still, threshold="200 rows", layout="hipscat", column_groups=groups)
    other = published(tmp_path, "b", right, threshold="250 rows", margin_arcsec=RADIUS)
    filters = "mag < 16 and kind = 'galaxy' and pm_ra = 0"
    found = grouped.crossmatch(
        other,
        radius_arcsec=RADIUS,
        neighbours="all",
        columns=["id"],
        filters=filters,
        motion={"pmra": "pm_ra", "pmdec": "pm_dec"},
        epoch=2016.0,
    )
    passing = pc.and_(pc.less(left["mag"], 16), pc.equal(left["kind"], "galaxy"))
    told = having(separations(left, right), passing, pa.array(np.ones(ROWS, bool)))
    assert set(pairs_of(found)) == nearest_pairs(told, RADIUS, None) != set()


def test_a_right_filter_over_several_groups(
    tmp_path: Path, a: Catalog, tables: tuple[pa.Table, pa.Table]
) -> None:
    """Also by a column whose name is part of another's."""
    right = tables[1].append_column("m", pa.array(np.arange(ROWS)))
    groups = [{"name": "main"}, {"name": "details", "columns": ["kind", "m"]}]
    b = published(
        tmp_path,
        "b",
        right,
        margin_arcsec=RADIUS,
        column_groups=groups,
        layout="hipscat",
        threshold="99 rows",
    )
    every = pa.array(np.ones(ROWS, bool))
    for filters, passing in (
        ("kind = 'star'", pc.equal(right["kind"], "star")),
        ("mag < 15", pc.less(right["mag"], 15)),
        ("m < 500 and mag < 15", pc.and_(pc.less(right["m"], 500), pc.less(right["mag"], 15))),
    ):
        found = a.crossmatch(b, radius_arcsec=RADIUS, other_columns=["id"], other_filters=filters)
        told = having(separations(*tables), every, passing)
        assert set(pairs_of(found)) == nearest_pairs(told, RADIUS, 1) != set()


@pytest.mark.parametrize(
    ("append", "groups", "threshold"),
    [
        ("add_file", GROUPS, "150 rows"),
        *(
            pytest.param(*each, "60 rows", marks=pytest.mark.slow)
            for each in (("add_file", GROUPS), ("add_file", ""), ("rewrite", GROUPS), ("rewrite", ""))
        ),
    ],
)
def test_a_catalog_that_grew_is_filtered_by_a_column_that_came_later(
    tmp_path: Path, append: str, groups: str, threshold: str
) -> None:
    """Files that are older than the column hold nulls; with add_file a leaf has several files."""
    more = f"margin: {{arcsec: [3600]}}\nappend: {append}\n{groups}"
    survey = Survey(tmp_path, threshold=threshold, more=more)
    first = night_rows(0)
    survey.land(0, first.set_column(3, "mag", pa.nulls(len(first))))
    survey.append(0)
    for number in (3, 6):
        survey.night(number)
    right = survey.catalog
    assert right.metadata.gathers == (append == "add_file")
    a = published(tmp_path, "a", night_rows(2, seed=1), threshold="99 rows")
    left = a.read(["id", "ra", "dec"])
    there = right.read(["id", "ra", "dec", "mag"])
    ids = left["id"].to_numpy(), there["id"].to_numpy()
    for filters in ("mag < 18", "mag is null", "night = 3 and not (mag < 18)"):
        passing = np.isin(ids[1], right.read(["id"], filters)["id"].to_numpy())
        told = having(separations(left, there), pa.array(np.ones(len(left), bool)), pa.array(passing))
        expected = {(int(ids[0][one]), int(ids[1][two])) for one, two in nearest_pairs(told, RADIUS, 2)}
        found = a.crossmatch(
            right, radius_arcsec=RADIUS, neighbours=2, suffixes=("", "_b"), other_filters=filters, how="outer"
        )
        pairs = set(pairs_of(found))
        assert {pair for pair in pairs if None not in pair} == expected != set()
        alone = set(ids[1][passing].tolist()) - {other for _, other in expected}
        assert {other for row, other in pairs if row is None} == alone != set()
        assert found["mag_b"].null_count == found["id_b"].null_count or "null" in filters


def test_row_groups_that_no_row_passes_in_are_not_read(tmp_path: Path) -> None:
    """They may even be damaged."""
    ra, dec = sky(2000)
    plain = published(tmp_path, "sorted", rows_at(ra, dec))
    along = plain.read()["id"].to_numpy()
    place = np.empty(2000)
    place[along] = np.arange(2000)  # the magnitude ascends along the curve
    table = rows_at(ra, dec, mag=place)
    a = published(tmp_path, "a", table, threshold="5000 rows", parquet={"row_group_rows": 20})
    b = published(
        tmp_path, "b", table, threshold="5000 rows", margin_arcsec=60.0, parquet={"row_group_rows": 20}
    )
    told = separations(table, table)
    some = pa.array((place >= 500) & (place < 700))
    expected = nearest_pairs(having(told, some, some), 60.0, None)
    for catalog in (a, b):
        for path in catalog.metadata.partitions(None, catalog.storage)["path"].to_pylist():
            damage_row_groups(Path(catalog.storage.uri(path)), 500, 700)
    filters = "mag >= 500 and mag < 700"
    found = a.crossmatch(b, radius_arcsec=60, neighbours="all", filters=filters, other_filters=filters)
    assert set(pairs_of(found)) == expected
    with pytest.raises(VerificationError, match="cannot be read"):
        a.crossmatch(b, radius_arcsec=60, other_filters=filters)


def damage_row_groups(path: Path, low: float, high: float) -> None:
    """Overwrite the pages of all row groups whose magnitudes lie outside of [low, high)."""
    data = bytearray(path.read_bytes())
    footer = pq.read_metadata(path)
    for number in range(footer.num_row_groups):
        row_group = footer.row_group(number)
        columns = [row_group.column(at) for at in range(row_group.num_columns)]
        told = next(column.statistics for column in columns if column.path_in_schema == "mag")
        if told.max < low or told.min >= high:
            for column in columns:
                start = column.dictionary_page_offset or column.data_page_offset
                data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(data))


def test_a_catalog_is_matched_with_other_rows_of_its_own(
    b: Catalog, tables: tuple[pa.Table, pa.Table]
) -> None:
    sides = {"filters": "kind = 'star'", "other_filters": "kind = 'galaxy'"}
    found = b.crossmatch(b, radius_arcsec=RADIUS, neighbours="all", **sides)
    passing = [pc.equal(tables[1]["kind"], kind) for kind in ("star", "galaxy")]
    expected = nearest_pairs(having(separations(tables[1], tables[1]), *passing), RADIUS, None)
    assert set(pairs_of(found)) == expected != set()
    for few in ({}, {"filters": "mag < 12"}, {"filters": "mag < 12", "other_filters": "mag < 12"}):
        with pytest.raises(
            SpecError, match=r"matched with itself.*or filter both sides so that they have no"
        ):
            b.crossmatch(b, radius_arcsec=RADIUS, **few)


@pytest.mark.parametrize("side", ["filters", "other_filters"])
@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        ("mga < 12", FilterError, "there is no column 'mga'; did you mean 'mag'?"),
        ("mag < 12 and", FilterError, "expected a column, .*, found the end"),
        ("mag < 12; drop", FilterError, "';' at 9 has no meaning"),
        ("mag < 'x'", FilterError, "compare it with a number"),
        (pc.field("mga") < 12, SchemaMismatchError, "does not fit its columns .*mga"),
        (pc.field("mag") + 1, SchemaMismatchError, "gives double, not true or false"),
        ([("mag", "~", 12)], FilterError, "is no filter .*; give a text, an expression, or a list"),
        (5, FilterError, "5 is no filter"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_the_catalog(
    a: Catalog, b: Catalog, side: str, filters: Any, error: type[Exception], message: str
) -> None:
    name = "a" if side == "filters" else "b"
    with pytest.raises(error, match=f"^catalog {name}: .*{message}"):
        a.crossmatch(b, radius_arcsec=1, **{side: filters})
