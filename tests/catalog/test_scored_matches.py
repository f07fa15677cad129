"""The most likely partner in place of the nearest: over borders, one to one, and what is no score."""

from __future__ import annotations

import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.joins.pair_scores import pair_score

from tests.catalog.matching import pairs_of, published, rows_at, separations
from tests.joins.skies import placed

ROWS = 300
EDGES, COUNTERPARTS, BACKGROUND = [10.0, 14.0, 18.0, 22.0], [0.2, 0.3, 0.4], [1e-5, 1e-4, 1e-3]
RATIO: dict[str, Any] = {
    "function": "hipslake.joins.likelihood_ratio:likelihood_ratio",
    "left": "err",
    "right": ["sigma", "mag"],
    "parameters": {
        "left_error": "err",
        "right_error": "sigma",
        "magnitude": "mag",
        "edges": EDGES,
        "counterparts": COUNTERPARTS,
        "background": BACKGROUND,
    },
    "name": "ratio",
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalog, Catalog, pa.Table, pa.Table]:
    """Two crowded catalogs in small leaves at ra 0; the right magnitudes lie in another column group."""
    rng = np.random.default_rng(9)
    tables = []
    for _ in "ab":
        place = placed(0.01 * rng.normal(size=ROWS), 30 + 0.01 * rng.normal(size=ROWS))
        tables.append((place.ra, place.dec))
    left = rows_at(*tables[0], err=rng.uniform(0.5, 3, ROWS))
    mag = pa.array(rng.uniform(9, 23, ROWS), mask=rng.uniform(size=ROWS) < 0.1)
    right = rows_at(*tables[1], sigma=rng.uniform(0.1, 1, ROWS), mag=mag)
    folder = tmp_path_factory.mktemp("scored")
    groups = [
        {"name": "main", "columns": ["id", "ra", "dec", "sigma"], "threshold": "50 rows"},
        {"name": "more", "columns": "*", "threshold": "100 rows"},
    ]
    a = published(folder, "a", left, threshold="50 rows")
    b = published(folder, "b", right, threshold="50 rows", margin_arcsec=20.0, column_groups=groups)
    return a, b, left, right


def ratios_by_hand(left: pa.Table, right: pa.Table, radius: float) -> np.ndarray:
    """Of every pair; NaN for what is no candidate."""
    apart = separations(left, right)
    found = np.full(apart.shape, np.nan)
    errors, sigmas, mags = (t.to_pylist() for t in (left["err"], right["sigma"], right["mag"]))
    for i, j in np.argwhere(apart <= radius).tolist():
        if mags[j] is None:
            continue
        variance = errors[i] ** 2 + sigmas[j] ** 2
        near = math.exp(-(apart[i, j] ** 2) / 2 / variance) / (2 * math.pi * variance)
        of = [at for at in range(3) if EDGES[at] <= mags[j] < EDGES[at + 1]]
        found[i, j] = COUNTERPARTS[of[0]] / BACKGROUND[of[0]] * near if of else 0.0
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("which", [1, 2, "all", "mutual", "best"])
def test_likelihood_ratios_choose_as_by_hand(
    sides: tuple[Catalog, Catalog, pa.Table, pa.Table], which: Any
) -> None:
    a, b, left, right = sides
    told = ratios_by_hand(left, right, 15.0)
    told[~(told >= 0.5)] = np.nan
    found = a.crossmatch(b, radius_arcsec=15, score=RATIO | {"minimum": 0.5}, neighbours=which, rank="rank")
    pairs = pairs_of(found)
    likely = np.where(np.isnan(told), -1.0, told)
    ranked = [[int(j) for j in np.argsort(-row) if row[j] >= 0] for row in likely]
    if isinstance(which, int) or which == "all":
        expected = {(i, j) for i, row in enumerate(ranked) for j in row[: which if which != "all" else None]}
    else:
        mine = {i: row[0] for i, row in enumerate(ranked) if row}
        of = {j: [i for i in mine if mine[i] == j] for j in mine.values()}
        expected = {(max(rows, key=lambda i, j=j: likely[i, j]), j) for j, rows in of.items()}  # type: ignore[misc]
        if which == "mutual":
            expected = {(i, j) for i, j in expected if likely[:, j].argmax() == i}
    assert set(pairs) == expected
    assert len(pairs) == len(expected) > 80
    np.testing.assert_allclose(found["ratio"].to_numpy(), [told[pair] for pair in pairs], rtol=1e-9)
    nearest = set(pairs_of(a.crossmatch(b, radius_arcsec=15)))
    assert which != 1 or len(set(pairs) - nearest) > 30  # it is not the nearest that is the likeliest


def test_an_outer_match_keeps_what_scores_leave(
    sides: tuple[Catalog, Catalog, pa.Table, pa.Table],
) -> None:
    a, b, _, _ = sides
    score = RATIO | {"minimum": 0.5}
    inner = set(pairs_of(a.crossmatch(b, radius_arcsec=15, score=score)))
    outer = pairs_of(a.crossmatch(b, radius_arcsec=15, score=score, how="outer"))
    assert {pair for pair in outer if None not in pair} == inner
    assert {row for row, _ in outer if row is not None} == set(range(ROWS))
    assert {row for _, row in outer if row is not None} == set(range(ROWS))
    anti = a.crossmatch(b, radius_arcsec=15, score=score, how="anti")
    assert set(anti["id"].to_pylist()) == set(range(ROWS)) - {row for row, _ in inner}


def seen_within_errors(candidates: pa.Table) -> Any:
    rows = candidates["left_row"].to_numpy()
    assert np.all(np.diff(rows) >= 0)
    assert candidates.column_names == ["left_row", "separation_arcsec", "nearness", "left.id", "right.mag"]
    again = np.diff(rows) == 0
    assert np.all(np.diff(candidates["nearness"].to_numpy())[again] >= 0)
    return -candidates["nearness"].to_numpy()


def in_module(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    module = types.ModuleType("surveys_own")
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, "surveys_own", module)


def test_a_score_within_errors_sees_how_near_they_make_a_pair(
    sides: tuple[Catalog, Catalog, pa.Table, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _, _ = sides
    in_module(monkeypatch, near=pair_score(seen_within_errors))
    radius = {"left": "err", "right": "sigma", "sigmas": 3}
    score = {"function": "surveys_own:near", "left": ["id"], "right": ["mag"]}
    scored = a.crossmatch(b, radius=radius, score=score, neighbours="all")
    plain = a.crossmatch(b, radius=radius, nearness="near", neighbours="all")
    assert pairs_of(scored) == pairs_of(plain)
    np.testing.assert_array_equal(scored["score"].to_numpy(), -plain["near"].to_numpy())


def unmarked(candidates: pa.Table) -> Any:
    return candidates["separation_arcsec"]


@pair_score
def failing(candidates: pa.Table) -> Any:
    return candidates["left.nothing"]


@pair_score
def short(candidates: pa.Table) -> Any:
    return candidates["separation_arcsec"].to_numpy()[1:]


@pair_score
def by_all(candidates: pa.Table) -> Any:
    return candidates["separation_arcsec"].to_numpy() / candidates.num_rows


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        ({"function": "os:system"}, SpecError, "os has no function 'system' that is marked"),
        ({"function": "os.path"}, SpecError, "score.function: "),
        ({"function": "no_such_module:f"}, SpecError, "'no_such_module' cannot be imported"),
        ({"function": "surveys_own:nothing"}, SpecError, "surveys_own has no function 'nothing'"),
        ({"function": "surveys_own:unmarked"}, SpecError, "write @pair_score"),
        ({"function": "surveys_own:failing"}, SpecError, "surveys_own:failing fails: KeyError"),
        ({"function": "surveys_own:short"}, SpecError, "numbers for .* candidates; return one for each"),
        ({"function": "surveys_own:by_all"}, SpecError, "where others come with them"),
        (RATIO | {"right": ["sigma", "magg"]}, SchemaMismatchError, "catalog b has no column 'magg'"),
        (RATIO | {"name": "ra"}, SpecError, "would share"),
    ],
)
def test_what_is_no_score_is_told(
    sides: tuple[Catalog, Catalog, pa.Table, pa.Table],
    monkeypatch: pytest.MonkeyPatch,
    score: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    a, b, _, _ = sides
    in_module(monkeypatch, unmarked=unmarked, failing=failing, short=short, by_all=by_all)
    with pytest.raises(error, match=message):
        a.crossmatch(b, radius_arcsec=15, score=score)


def test_nearness_has_no_place_beside_a_score(sides: tuple[Catalog, Catalog, pa.Table, pa.Table]) -> None:
    a, b, _, _ = sides
    radius = {"left": "err", "sigmas": 3}
    with pytest.raises(SpecError, match="nearness: the nearest are told by the score"):
        a.crossmatch(b, radius=radius, score=RATIO, nearness="near")


def test_a_published_match_is_scored_in_its_tasks(
    sides: tuple[Catalog, Catalog, pa.Table, pa.Table], tmp_path: Path
) -> None:
    from hipslake import publish

    a, b, _, _ = sides
    spec = {"name": "a_x_b", "left": a, "right": b, "radius_arcsec": 15, "score": RATIO | {"minimum": 0.5}}
    found = publish(spec, warehouse=tmp_path, spark=False)
    found.verify().raise_if_failed()
    expected = a.crossmatch(b, radius_arcsec=15, score=RATIO | {"minimum": 0.5})
    assert found.read().to_pandas()[expected.schema.names].equals(expected.to_pandas())
