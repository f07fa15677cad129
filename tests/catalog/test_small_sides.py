"""Matches with a small side give what margins give, to the byte, without one; only what is near is opened."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.joining import rows_inside, small_sides
from hipslake.catalog.joining.held_rows import HeldRows, HeldRowsFile
from hipslake.catalog.joining.pairing import Pairing
from hipslake.errors import SpecError, VerificationError
from hipslake.specs.join_specs import MatchOptions
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import sky
from tests.catalog.matching import nearest_pairs, pairs_of, published, rows_at, separations
from tests.catalog.sides_by_force import matched
from tests.catalog.test_crossmatch import CENTRES, two_tables
from tests.examples import examples
from tests.joins.skies import BORDERS

SIDES = ["left", "right"]
HOWS = ["inner", "left", "anti", "outer"]


@given(
    seed=st.integers(0, 2**20),
    centre=st.sampled_from([None, *CENTRES]),
    rows=st.tuples(st.sampled_from([0, 1, 40, 700]), st.sampled_from([1, 40, 700])),
    thresholds=st.tuples(st.sampled_from([20, 150, 5000]), st.sampled_from([20, 150, 5000])),
    layout=st.sampled_from(["hats", "hipscat"]),
    radius=st.sampled_from([1.0, 300.0, 3600.0]),
    neighbours=st.sampled_from([1, 3, "all", "best", "mutual"]),
    how=st.sampled_from(HOWS),
    filters=st.sampled_from([None, "id >= 0", "id < 0", "id < 20"]),
)
@settings(max_examples=examples(20))
def test_a_small_side_gives_what_a_margin_gives(
    seed: int,
    centre: tuple[float, float] | None,
    rows: tuple[int, int],
    thresholds: tuple[int, int],
    layout: str,
    radius: float,
    neighbours: Any,
    how: str,
    filters: str | None,
) -> None:
    left, right = two_tables(np.random.default_rng(seed), centre)
    left, right = left.slice(0, max(rows[0], 1)), right.slice(0, rows[1])
    none = "id < 0" if rows[0] == 0 else None
    form = {"layout": layout, "parquet": {"row_group_rows": 30}}
    asked = {"radius_arcsec": radius, "neighbours": neighbours, "how": how, "filters": none}
    asked |= {"other_filters": filters, "rank": "rank"}
    with tempfile.TemporaryDirectory() as folder:
        root, limits = Path(folder), [f"{most} rows" for most in thresholds]
        a = published(root, "a", left, threshold=limits[0], **form)
        b = published(root, "b", right, threshold=limits[1], **form)
        wide = published(root / "wide", "b", right, threshold=limits[1], margin_arcsec=radius, **form)
        expected = matched(None, a, wide, **asked)
        for side in SIDES:
            assert matched(side, a, b, **asked).equals(expected, check_metadata=True)
        if neighbours == "all" and how == "inner" and none is None:
            passes = {None: len(right), "id >= 0": len(right), "id < 0": 0, "id < 20": 20}[filters]
            told = separations(left, right.slice(0, passes))
            assert set(pairs_of(expected)) == nearest_pairs(told, radius, None)


@pytest.mark.parametrize("side", SIDES)
def test_rows_on_borders_of_leaves_find_each_other(tmp_path: Path, side: str) -> None:
    """Rows at the corners and on the edges of base pixels, and twice: each finds all that are there."""
    ra, dec = healpy.vec2ang(np.hstack(BORDERS).T, lonlat=True)
    there = rows_at(np.concatenate([ra, ra]) % 360.0, np.concatenate([dec, dec]))
    beside = rows_at((ra + 1e-4) % 360.0, np.clip(dec + 1e-4, -90, 90))
    a = published(tmp_path, "a", beside, threshold="5 rows")
    b = published(tmp_path, "b", there, threshold="20 rows")
    wanted = nearest_pairs(separations(beside, there), 1.0, None)
    assert len(wanted) >= 2 * len(ra)
    assert set(pairs_of(matched(side, a, b, radius_arcsec=1, neighbours="all"))) == wanted


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    left, right = two_tables(np.random.default_rng(11), (0.0, 0.0))
    rng = np.random.default_rng(12)
    more = [
        {
            "err": rng.uniform(0, 400, len(side)),
            "pmra": rng.normal(0, 5000, len(side)),
            "pmdec": rng.normal(0, 5000, len(side)),
            "mag": rng.normal(12, 2, len(side)),
            "name": [f"star {at}" for at in range(len(side))],
        }
        for side in (left, right)
    ]
    both = [
        pa.table({**{name: side[name] for name in side.column_names}, **columns})
        for side, columns in zip((left, right), more, strict=True)
    ]
    return both[0], both[1]


GROUPS = [{"name": "main"}, {"name": "details", "columns": ["mag", "name"], "threshold": "60 rows"}]


@pytest.fixture(scope="module")
def catalogs(
    tmp_path_factory: pytest.TempPathFactory, tables: tuple[pa.Table, pa.Table]
) -> tuple[Catalog, Catalog, Catalog]:
    """Both sides in two column groups, and the right one once more, with a margin."""
    root = tmp_path_factory.mktemp("grouped")
    form = {"column_groups": GROUPS, "parquet": {"row_group_rows": 40}}
    a = published(root, "a", tables[0], threshold="200 rows", **form)
    b = published(root, "b", tables[1], threshold="300 rows", **form)
    wide = published(root / "wide", "b", tables[1], threshold="300 rows", margin_arcsec=6000.0, **form)
    return a, b, wide


MOVING = {"pmra": "pmra", "pmdec": "pmdec"}
ASKED: dict[str, dict[str, Any]] = {
    "column groups": {"radius_arcsec": 300, "neighbours": 2},
    "filters of other groups": {"radius_arcsec": 900, "filters": "mag < 13", "other_filters": "mag > 11"},
    "motions": {"radius_arcsec": 200, "other_motion": MOVING, "motion": MOVING, "epoch": 2100.0},
    "errors": {
        "radius": {"left": "err", "right": "err", "sigmas": 2, "combine": "quadrature"},
        "nearness": "sigmas",
        "neighbours": "all",
    },
    "scores": {
        "radius_arcsec": 900,
        "score": {
            "function": "tests.catalog.test_further_catalogs:brightest",
            "right": ["mag"],
        },
    },
    "a region": {"radius_arcsec": 900, "neighbours": "all", "region": "cone 0 0 2deg"},
    "mutual, and a least radius": {"radius_arcsec": 900, "min_radius_arcsec": 100, "neighbours": "mutual"},
    "best of rows that move": {
        "radius_arcsec": 300,
        "neighbours": "best",
        "other_motion": MOVING,
        "epoch": 2100.0,
    },
    "nothing kept": {"radius_arcsec": 300, "columns": [], "other_columns": []},
    "identity": {"radius_arcsec": 300, "other_columns": ["_healpix_29", "_row", "name"]},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_whatever_is_asked_the_outcome_is_the_same(
    catalogs: tuple[Catalog, Catalog, Catalog], asked: dict[str, Any], how: str, side: str
) -> None:
    a, b, wide = catalogs
    expected = matched(None, a, wide, how=how, **asked)
    assert matched(side, a, b, how=how, **asked).equals(expected, check_metadata=True)
    assert expected.num_rows > 10


@pytest.mark.parametrize("sides", [("left", "right"), ("right", "left"), ("right", None), ("left", None)])
@pytest.mark.parametrize("neighbours", ["all", "best"])
def test_several_right_sides_may_each_have_a_small_one(
    catalogs: tuple[Catalog, Catalog, Catalog],
    monkeypatch: pytest.MonkeyPatch,
    sides: tuple[str | None, str | None],
    neighbours: str,
) -> None:
    a, _, wide = catalogs
    asked: dict[str, Any] = {"radius_arcsec": 600, "neighbours": neighbours}
    asked["further"] = [{"right": wide, "radius_arcsec": 900, "neighbours": "best", "suffix": "_c"}]
    expected = matched(None, a, wide, **asked)
    told = iter(sides)
    monkeypatch.setattr("hipslake.catalog.joining.pairing.small_side", lambda *_: next(told))
    assert a.crossmatch(wide, **asked).equals(expected)
    assert expected.num_rows > 50


@pytest.mark.parametrize("side", SIDES)
def test_a_side_that_has_no_row_gives_what_the_kind_of_match_says(
    catalogs: tuple[Catalog, Catalog, Catalog], side: str
) -> None:
    a, b, _ = catalogs
    everything, nothing = {"filters": "id < 0"}, {"other_filters": "id < 0"}
    found = {
        (how, at): matched(side, a, b, radius_arcsec=60, how=how, **filters).num_rows
        for how in HOWS
        for at, filters in enumerate((everything, nothing))
    }
    rows, others = (each.metadata.total_rows for each in (a, b))
    assert found == {
        ("inner", 0): 0, ("left", 0): 0, ("anti", 0): 0, ("outer", 0): others,
        ("inner", 1): 0, ("left", 1): rows, ("anti", 1): rows, ("outer", 1): rows,
    }  # fmt: skip


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("filters", [None, "id >= 0"])
def test_only_leaves_around_a_small_side_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str, filters: str | None
) -> None:
    """Of a catalog over the whole sky, a few leaves, and of them a few row groups."""
    wide = rows_at(*sky(20_000))
    few = rows_at(20.0 + 0.2 * np.random.default_rng(1).normal(size=30), np.full(30, 12.0))
    large = published(tmp_path, "l", wide, threshold="1000 rows", parquet={"row_group_rows": 50})
    other = published(tmp_path, "s", few)
    opened: list[str] = []
    plain = Storage.arrow_file

    def seen(storage: Storage, path: str, size: int | None = None) -> Any:
        opened.append(storage.uri(path))
        return plain(storage, path, size)

    monkeypatch.setattr(Storage, "arrow_file", seen)
    both = (large, other) if side == "right" else (other, large)
    kept = {"filters": filters} if side == "right" else {"other_filters": filters}
    found = matched(side, *both, radius_arcsec=3600, neighbours="all", **kept)
    left, right = (wide, few) if side == "right" else (few, wide)
    told = separations(left, right)
    assert found.num_rows == (told <= 3600).sum() > 3
    leaves = len(large.metadata.partitions(None, large.storage))
    assert leaves > 20
    assert len({path for path in opened if path.startswith(large.storage.uri())}) <= 3


def test_of_row_groups_without_a_row_near_places_alone_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = published(
        tmp_path, "l", rows_at(*sky(5000)), threshold="9000 rows", parquet={"row_group_rows": 100}
    )
    path, size = (
        large.metadata.partitions(None, large.storage)[name][0].as_py() for name in ("path", "bytes")
    )
    keys = large.read(columns=["_healpix_29"])["_healpix_29"].to_numpy()
    mine = keys[keys >> 58 == keys[0] >> 58]
    between = small_sides.Intervals.union([mine[150] + 1], [mine[151]])  # in a row group, and no row is there
    reads: list[list[str]] = []
    plain = rows_inside.leaf_file

    class Watched:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def read_row_groups(self, groups: list[int], columns: list[str], **more: Any) -> Any:
            reads.append([*columns])
            return self._file.read_row_groups(groups, columns, **more)

    class Opened:
        def __init__(self, *given: Any) -> None:
            self._open = plain(*given)

        def __enter__(self) -> Watched:
            return Watched(self._open.__enter__())

        def __exit__(self, *given: Any) -> Any:
            return self._open.__exit__(*given)

    monkeypatch.setattr(rows_inside, "leaf_file", Opened)
    schema = large.metadata.schema_of()
    assert [*rows_inside.rows_inside(large.storage, path, size, schema, between)] == []
    assert reads == [["_healpix_29"]]
    one = small_sides.Intervals.union([mine[150]], [mine[150] + 1])
    (batch,) = rows_inside.rows_inside(large.storage, path, size, schema, one)
    assert batch.column("_healpix_29").to_pylist() == [mine[150]]
    assert len(reads) == 3


def test_the_smaller_side_is_held_if_it_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"name": ["x" * 100] * 300}
    a = published(tmp_path, "a", rows_at(*sky(300), **texts))
    b = published(tmp_path, "b", rows_at(*sky(200)))

    def chosen(left: Catalog, right: Catalog, radius: float = 10.0, **more: Any) -> str | None:
        sides = [(each.storage, each.metadata) for each in (left, right)]
        return Pairing.of(*sides, MatchOptions(radius_arcsec=radius), missing_margin="build", **more).small

    assert (chosen(a, b), chosen(b, a)) == ("right", "left")
    same = published(tmp_path, "c", rows_at(*sky(200, seed=3)))
    assert chosen(b, same) == "right"
    monkeypatch.setattr(small_sides, "MOST_ROWS", 199)
    assert chosen(a, b) is None
    with pytest.raises(SpecError, match="catalog b has no margin of 10 arcsec"):
        a.crossmatch(b, radius_arcsec=10)
    monkeypatch.setattr(small_sides, "MOST_ROWS", 1000)
    monkeypatch.setattr(small_sides, "MOST_BYTES", 200 * 32)
    assert chosen(a, b, columns=([], [])) == "right"
    monkeypatch.setattr(small_sides, "MOST_BYTES", 100 * 24)
    assert chosen(a, b, columns=([], [])) is None
    monkeypatch.setattr(small_sides, "MOST_BYTES", 300 * 64)  # texts may be longer than is guessed
    assert chosen(b, a) == "left"
    monkeypatch.setattr(small_sides, "MOST_BYTES", min(each.metadata.total_bytes for each in (a, b)) - 1)
    assert chosen(b, a, columns=([], ["name"])) == "left"


def test_rows_that_reach_farther_than_margins_do_are_matched_by_none(tmp_path: Path) -> None:
    """As the ordinary way refuses it: over a third of the sky, nothing is near anything."""
    fast = rows_at(*sky(50), pmra=np.full(50, 4e6), pmdec=np.zeros(50))
    a = published(tmp_path, "a", rows_at(*sky(60, seed=2)))
    b = published(tmp_path, "b", fast)
    with pytest.raises(SpecError, match="has no margin of"):
        a.crossmatch(b, radius_arcsec=1, other_motion=MOVING, epoch=2015.0)


def test_held_rows_are_left_in_a_file_and_read_from_it(tmp_path: Path) -> None:
    table = rows_at(*sky(500), name=[f"star {at}" for at in range(500)])
    catalog = published(tmp_path, "a", table, threshold="60 rows")
    sides = (catalog.storage, catalog.metadata)
    match = Pairing.of(
        sides, sides, MatchOptions(radius_arcsec=5, min_radius_arcsec=1), missing_margin="build"
    )
    plain = match.held_right.held
    place = HeldRowsFile(Storage.at(tmp_path), "run/held.arrow")
    held = HeldRows(match.right.stretches, place)
    assert held.store() == 500
    assert held.table.equals(plain.table, check_metadata=True)
    assert plain.table.schema.equals(match.right.stretches.schema, check_metadata=True)
    keys = plain.keys
    assert held.within(int(keys[7]), int(keys[20])).equals(plain.table.slice(7, 13))
    assert held.meet(keys[3:5], keys[3:5] + 1).tolist() == [True, True]
    assert held.meet(keys[3:4] + 1, keys[4:5]).tolist() == [False]
    whole = (tmp_path / "run" / "held.arrow").read_bytes()
    (tmp_path / "run" / "held.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(VerificationError, match="rows of a small side of the match, cannot be read"):
        assert HeldRows(match.right.stretches, place).table
    (tmp_path / "run" / "held.arrow").unlink()
    with pytest.raises(VerificationError, match="clear the run from its task 'crossmatch'"):
        assert HeldRows(match.right.stretches, place).table
