"""A catalog is matched with several at once: rows beside each combination of partners, by brute force."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.joining.pairing import Pairing
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.joins import partner_rows
from hipslake.joins.match_columns import RightColumns, match_columns
from hipslake.joins.matching import Matches
from hipslake.joins.pair_scores import pair_score
from hipslake.joins.partner_rows import Partners
from hipslake.specs.join_specs import MatchOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.matching import published, rows_at, separations
from tests.examples import examples
from tests.joins.skies import placed

pytestmark = [pytest.mark.sampled(2), pytest.mark.usefixtures("large_sides")]

CENTRES = [(0.0, 0.0), (10.0, 90.0), (200.0, -90.0), (45.0, 41.81), (0.0, 41.0)]
ROWS = 80
RADIUS = 60.0


def patch(rng: np.random.Generator, centre: tuple[float, float], rows: int) -> pa.Table:
    """Rows of a crowded patch: a left row has none to five of them within the radius."""
    up = 0.1 * rng.normal(size=rows)
    across = 0.1 * rng.normal(size=rows) / max(np.cos(np.radians(centre[1])), 0.01)
    place = placed(centre[0] + across, centre[1] + up)
    return rows_at(place.ra, place.dec)


def partners_by_hand(told: np.ndarray, rule: dict[str, Any], order: np.ndarray) -> list[list[int]]:
    """The right rows that each left row has, the nearest first; of equals the earlier one in the catalog."""
    near = (told <= rule["radius_arcsec"]) & (told >= rule.get("min_radius_arcsec", 0.0))
    neighbours = rule["neighbours"]
    ranked = [
        sorted(np.flatnonzero(near[row]).tolist(), key=lambda at: (told[row, at], order[at]))
        for row in range(len(told))
    ]
    if neighbours == "all":
        return ranked
    if isinstance(neighbours, int):
        return [each[:neighbours] for each in ranked]
    nearest = {row: each[0] for row, each in enumerate(ranked) if each}
    kept: dict[int, int] = {}
    for row, at in nearest.items():
        rivals = np.flatnonzero(near[:, at]) if neighbours == "mutual" else [
            other for other, wanted in nearest.items() if wanted == at
        ]  # fmt: skip
        if row == min(rivals, key=lambda other: told[other, at]):
            kept[row] = at
    return [[kept[row]] if row in kept else [] for row in range(len(told))]


def choices(partners: list[int], how: str) -> list[int | None]:
    """What stands beside a left row in one right side: each way of it."""
    if how == "anti":
        return [] if partners else [None]
    return [*partners] or ([None] if how == "left" else [])


rules = st.fixed_dictionaries(
    {
        "how": st.sampled_from(["inner", "left", "anti"]),
        "neighbours": st.sampled_from([1, 2, "all", "best", "mutual"]),
        "radius_arcsec": st.sampled_from([RADIUS, RADIUS / 3]),
        "min_radius_arcsec": st.sampled_from([0.0, 5.0]),
    }
)


@given(
    seed=st.integers(0, 2**20),
    centre=st.sampled_from(CENTRES),
    asked=st.lists(rules, min_size=2, max_size=3),
    thresholds=st.lists(st.sampled_from([15, 50, 5000]), min_size=4, max_size=4),
    batch=st.sampled_from([1, 7, 1 << 20]),
)
@settings(max_examples=examples(20), deadline=None)
def test_rows_are_all_combinations_of_partners(
    seed: int, centre: tuple[float, float], asked: list[dict[str, Any]], thresholds: list[int], batch: int
) -> None:
    rng = np.random.default_rng(seed)
    left = patch(rng, centre, ROWS)
    rights = [patch(rng, centre, int(rng.integers(1, 2 * ROWS))) for _ in asked]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(partner_rows, "MOST_ROWS", batch)
        a = published(Path(folder), "a", left, threshold=f"{thresholds[0]} rows")
        others = [
            published(Path(folder), name, rows, threshold=f"{most} rows", margin_arcsec=RADIUS)
            for name, rows, most in zip("bcd", rights, thresholds[1:], strict=False)
        ]
        first, *further = [
            rule | ({} if rule["how"] == "anti" else {"rank": f"rank_{name}"})
            for name, rule in zip("bcd", asked, strict=False)
        ]
        found = a.crossmatch(
            others[0],
            **first,
            other_columns=["id"],
            further=[
                {"right": {"catalog": other, "columns": ["id"]}, **rule}
                for other, rule in zip(others[1:], further, strict=True)
            ],
        )
        told = [separations(left, rows) for rows in rights]
        ways = []
        for apart, other, rule in zip(told, others, asked, strict=True):
            order = np.argsort(other.read(["id"])["id"].to_numpy())
            ways.append(partners_by_hand(apart, rule, order))
        expected = [
            (row, *beside)
            for row in a.read(["id"])["id"].to_pylist()
            for beside in product(
                *(choices(each[row], rule["how"]) for each, rule in zip(ways, asked, strict=True))
            )
        ]
        nothing = pa.nulls(len(found))
        beside = [
            (found[f"id_{name}"] if f"id_{name}" in found.column_names else nothing).to_pylist()
            for name, _ in zip("bcd", asked, strict=False)
        ]
        assert list(zip(found["id"].to_pylist(), *beside, strict=True)) == expected
        assert_measures(found, told, ways)


def assert_measures(found: pa.Table, told: list[np.ndarray], ways: list[list[list[int]]]) -> None:
    """Separations and ranks are those of the pairs they stand beside; null where there is none."""
    for name, apart, partners in zip("bcd", told, ways, strict=False):
        if f"id_{name}" not in found.column_names:
            continue
        separation = "separation_arcsec" if name == "b" else f"separation_arcsec_{name}"
        columns = [found[each].to_pylist() for each in ("id", f"id_{name}", separation, f"rank_{name}")]
        for row, at, said, rank in zip(*columns, strict=True):
            if at is None:
                assert said is None
                assert rank is None
            else:
                assert said == pytest.approx(apart[row, at], abs=1e-6)
                assert partners[row][rank - 1] == at


@pair_score
def brightest(candidates: pa.Table) -> np.ndarray:
    return -candidates["right.mag"].to_numpy()


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Catalog]:
    """Four crowded catalogs at ra 0, with errors, motions and magnitudes, the last ones in another group."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("further")
    groups = [
        {"name": "main", "columns": ["id", "ra", "dec", "err"], "threshold": "50 rows"},
        {"name": "more", "columns": "*", "threshold": "90 rows"},
    ]
    found = {}
    for at, name in enumerate("abcd"):
        place = patch(rng, (0.0, 30.0), 400)
        more = {
            "err": rng.uniform(1, 15, 400),
            "pmra": rng.normal(0, 500, 400),
            "pmdec": rng.normal(0, 500, 400),
            "mag": rng.uniform(5, 20, 400),
        }
        rows = rows_at(place["ra"].to_numpy(), place["dec"].to_numpy(), **more)
        options: dict[str, Any] = {"column_groups": groups} if at > 1 else {"threshold": "70 rows"}
        found[name] = published(folder, name, rows, margin_arcsec=200.0, **options)
    return found


MOVING = {"pmra": "pmra", "pmdec": "pmdec"}
ASKED: dict[str, dict[str, Any]] = {
    "errors": {"radius": {"left": "err", "right": "err", "sigmas": 3}, "nearness": "sigmas", "neighbours": 2},
    "moved": {"radius_arcsec": 40, "epoch": 2016.0, "neighbours": "all", "min_radius_arcsec": 2},
    "scored": {
        "radius_arcsec": 60,
        "score": {"function": f"{__name__}:brightest", "right": "mag"},
        "neighbours": "best",
    },
}


@pytest.mark.parametrize("hows", [("inner", "left", "left"), ("left", "inner", "anti"), ("inner",) * 3])
def test_the_pairs_with_each_catalog_are_those_of_two_catalogs(
    catalogs: dict[str, Catalog], hows: tuple[str, str, str]
) -> None:
    """Errors, motions, filters, scores and regions: pandas joins what matches of two catalogs give."""
    a, region = catalogs["a"], "cone 0.02 30.02 0.1deg"
    shared: dict[str, Any] = {"columns": ["id"], "filters": "mag < 19", "region": region}
    kept: dict[str, Any] = {"b": ["id", "err"], "c": ["id", "mag"], "d": ["id"]}
    filters = {"b": "mag > 6", "c": "mag < 18", "d": None}
    motions = {"b": None, "c": MOVING, "d": None}
    tables, rules = {}, dict(zip("bcd", ASKED.values(), strict=True))
    for name, how in zip("bcd", hows, strict=True):
        extra: dict[str, Any] = {} if how == "anti" else {"rank": f"rank_{name}"}
        rules[name] = rules[name] | {"how": how} | extra
        if how == "anti":
            rules[name] = {key: value for key, value in rules[name].items() if key != "nearness"}
        tables[name] = a.crossmatch(
            catalogs[name],
            other_columns=kept[name],
            other_filters=filters[name],
            other_motion=motions[name],
            **shared,
            **rules[name],
        ).to_pandas()
    further = [
        {
            "right": {
                "catalog": catalogs[name],
                "columns": kept[name],
                "filters": filters[name],
                "motion": motions[name],
            },
            **rules[name],
        }
        for name in "cd"
    ]
    found = a.crossmatch(
        catalogs["b"],
        other_columns=kept["b"],
        other_filters=filters["b"],
        further=further,
        **shared,
        **rules["b"],
    ).to_pandas()
    expected = a.read(["id"], filters="mag < 19", region=region).to_pandas()
    for name, how in zip("bcd", hows, strict=True):
        table = tables[name].drop(columns=["_healpix_29", "ra", "dec"])
        renamed = {"separation_arcsec": f"separation_{name}", "position_angle_deg": f"angle_{name}"}
        renamed |= {"score": f"score_{name}", "mag": f"mag_{name}", "err": f"err_{name}"}
        if how == "anti":
            expected = expected[expected["id"].isin(table["id"])]
        else:
            expected = expected.merge(
                table.rename(columns=renamed), on="id", how="inner" if how == "inner" else "left"
            )
    names = {"separation_arcsec": "separation_b", "position_angle_deg": "angle_b"}
    for name in "cd":
        names |= {f"separation_arcsec_{name}": f"separation_{name}"}
        names |= {f"position_angle_deg_{name}": f"angle_{name}"}
    found = found.rename(columns=names | {"err": "err_b", "mag": "mag_c"})
    assert len(found) > 50
    columns = [name for name in found.columns if name not in ("_healpix_29", "ra", "dec")]
    assert set(columns) == set(expected.columns)
    pd.testing.assert_frame_equal(
        found[columns].reset_index(drop=True),
        expected[columns].reset_index(drop=True),
        check_dtype=False,
        check_exact=True,
    )


def test_columns_have_names_of_their_own(catalogs: dict[str, Catalog]) -> None:
    a, b, c, d = catalogs.values()
    found = a.crossmatch(
        b,
        columns=["id"],
        other_columns=["id", "err"],
        radius_arcsec=60,
        suffixes=("_a", "_b"),
        further=[
            {"right": {"catalog": c, "columns": ["id", "err"]}, "radius_arcsec": 60, "suffix": "_other"},
            {
                "right": {"catalog": d, "columns": ["mag"]},
                "radius_arcsec": 60,
                "separation": "apart",
                "score": {"function": f"{__name__}:brightest", "right": "mag"},
            },
            {"right": {"catalog": d, "filters": "mag < 0"}, "radius_arcsec": 60, "how": "anti"},
        ],
    )
    assert found.column_names == [
        *("_healpix_29", "id_a", "ra", "dec", "id_b", "err_b", "separation_arcsec", "position_angle_deg"),
        *("id_other", "err_other", "separation_arcsec_c", "position_angle_deg_c"),
        *("mag", "apart", "position_angle_deg_d", "score_d"),
    ]
    assert found.schema.field("apart").metadata[b"unit"] == b"arcsec"


WRONG: list[tuple[dict[str, Any], Any, str]] = [
    ({"how": "outer"}, {}, "how: an outer match has right rows .* leave 'further' out"),
    ({}, {"how": "outer"}, r"'outer' is for a match of two catalogs"),
    ({}, {"radius_arcsec": None}, "radius_arcsec: give it for all pairs"),
    ({}, {"epoch": 2016.0}, r"further\[0\].epoch: no side has a motion"),
    ({"motion": MOVING, "epoch": 2016.0}, {}, r"further\[0\].epoch: the rows of the left side move"),
    ({}, {"suffix": ""}, r"further\[0\].suffix: is '', as that of the left side"),
    ({}, {"sufix": "_x"}, "sufix"),
    ({}, {"position": ["x", "y"]}, "position"),
    (
        {},
        {"separation": "separation_arcsec"},
        "columns 'separation_arcsec', 'separation_arcsec' of the match",
    ),
    ({}, {"suffix": "_b"}, "would share their names, with suffixes '', '_b' and '_b'"),
    ({}, {"rank": "_row"}, "column '_row' of the match would have a name that catalogs add themselves"),
    ({}, {"radius_arcsec": 300}, "catalog c has no margin of 300 arcsec"),
]


@pytest.mark.parametrize(("first", "further", "message"), WRONG)
def test_what_does_not_go_together_is_told(
    catalogs: dict[str, Catalog], first: dict[str, Any], further: dict[str, Any], message: str
) -> None:
    a, b, c, _ = catalogs.values()
    asked = {"right": c, "radius_arcsec": 60} | further
    with pytest.raises(SpecError, match=message):
        a.crossmatch(b, **({"radius_arcsec": 60} | first), further=[asked])


def test_a_further_catalog_is_one_and_has_the_columns(catalogs: dict[str, Catalog]) -> None:
    a, b, c, _ = catalogs.values()
    for right in ("c", None, {"catalog": "c"}):
        with pytest.raises(SpecError, match=r"further\[0\]: give a mapping with a Catalog as 'right'"):
            a.crossmatch(b, radius_arcsec=60, further=[{"right": right, "radius_arcsec": 60}])
    with pytest.raises(SpecError, match=r"further\[0\]: give a mapping"):
        a.crossmatch(b, radius_arcsec=60, further=[c])  # type: ignore[list-item]
    wrong = {"catalog": c, "columns": ["nope"]}
    with pytest.raises(SchemaMismatchError, match="catalog c has no column 'nope'"):
        a.crossmatch(b, radius_arcsec=60, further=[{"right": wrong, "radius_arcsec": 60}])
    with pytest.raises(SpecError, match="is matched with itself"):
        a.crossmatch(b, radius_arcsec=60, further=[{"right": a, "radius_arcsec": 60}])


def test_more_combinations_than_can_be_counted_are_refused() -> None:
    """One left row with 10,000 partners in each of five catalogs."""
    places, measures = np.arange(10_000), np.zeros(10_000)
    found = Matches(np.zeros(10_000, int), places, measures, measures, places.astype(np.int32), measures)
    options = [MatchOptions(radius_arcsec=1, neighbours="all")] * 5
    left = pa.table({"_healpix_29": [7]})
    rights = [
        RightColumns(
            str(at),
            pa.schema([]),
            match.model_copy(update={"separation": f"s{at}", "position_angle": f"p{at}"}),
        )
        for at, match in enumerate(options)
    ]
    columns = match_columns(pa.schema([]), rights)
    sides = [iter([Partners(slice(0, 1), found, lambda _: pa.table({}))]) for _ in options]
    found_rows = partner_rows.partner_rows(left, sides, options, columns)
    with pytest.raises(SpecError, match=r"more than 9e\+15 rows"):
        next(found_rows)


def test_without_margins_rows_near_the_borders_of_any_catalog_are_counted(tmp_path: Path) -> None:
    """What each pair of catalogs gives alone, and each left row counted once."""
    rng = np.random.default_rng(6)
    centres = {"a": (0.0, 0.0), "b": (0.15, 0.1), "c": (-0.15, -0.1)}
    tables = {name: patch(rng, centre, 300) for name, centre in centres.items()}
    a, b, c = (published(tmp_path, name, rows, threshold="40 rows") for name, rows in tables.items())
    asked: dict[str, Any] = {"radius_arcsec": 60, "neighbours": "all", "missing_margin": "none"}
    both = a.crossmatch(
        b,
        other_columns=["id"],
        how="left",
        further=[{"right": {"catalog": c, "columns": ["id"]}, "radius_arcsec": 60, "how": "left"}],
        **asked,
    )
    alone = [a.crossmatch(other, other_columns=["id"], how="left", **asked) for other in (b, c)]
    nearest = a.crossmatch(c, other_columns=["id"], how="left", **(asked | {"neighbours": 1}))
    joined = alone[0].to_pandas().merge(nearest.to_pandas()[["id", "id_c"]], on="id")
    assert both.select(["id", "id_b", "id_c"]).to_pandas().equals(joined[["id", "id_b", "id_c"]])
    counts = [int(each.schema.metadata[b"rows_near_borders"]) for each in (both, *alone)]
    borders = [
        Pairing.of(
            (a.storage, a.metadata),
            (other.storage, other.metadata),
            MatchOptions(radius_arcsec=60),
            missing_margin="none",
        ).borders
        for other in (b, c)
    ]
    rows = a.read()
    places = [rows[name].to_numpy() for name in ("_healpix_29", "ra", "dec")]
    near = [each.near(*places) for each in borders if each is not None]
    assert counts == [int((near[0] | near[1]).sum()), *(int(each.sum()) for each in near)]
    assert max(counts[1:]) < counts[0] < sum(counts[1:])
    with pytest.raises(SpecError, match="'none' does not fit 'how: anti'"):
        a.crossmatch(b, further=[{"right": c, "radius_arcsec": 60, "how": "anti"}], **asked)
