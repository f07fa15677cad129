"""A match that is only counted has the rows of the match, and the separations of its column."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.joining.stretches import Stretches
from hipslake.errors import FilterError, SchemaMismatchError, SpecError

from tests.catalog.matching import published
from tests.catalog.sides_by_force import small
from tests.catalog.test_crossmatch import two_tables
from tests.catalog.test_small_sides import (  # noqa: F401  fixtures
    ASKED,
    HOWS,
    catalogs,
    tables,
)

EDGES = [0.0, 0.5, 20.0, 100.0, 300.0, 1200.0]


def assert_counted(match: Any, **asked: Any) -> None:
    """The counts of a match are those of its rows."""
    rows: pa.Table = match(**asked)
    plain = match(count_only=True, **asked)
    assert (plain.rows, plain.separations) == (rows.num_rows, None)
    if asked.get("how") == "anti":
        return
    found = match(count_only=True, separation_bins=EDGES, **asked)
    told = rows["separation_arcsec"].drop_null().to_numpy()
    assert found.rows == rows.num_rows
    assert found.separations.dtype == np.int64
    assert found.separations.tolist() == np.histogram(told, EDGES)[0].tolist()
    assert len(told) == 0 or found.separations.sum() > 0


@pytest.mark.sampled(13)
@pytest.mark.parametrize("side", ["left", "right", None])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_counts_are_those_of_the_rows(
    catalogs: tuple[Catalog, Catalog, Catalog],  # noqa: F811
    asked: dict[str, Any],
    how: str,
    side: str | None,
) -> None:
    a, b, wide = catalogs
    right = wide if side is None else b
    with small(side):
        assert_counted(lambda **more: a.crossmatch(right, **more), how=how, **asked)
        assert_counted(lambda **more: a.crossmatch(right, **more), how=how, **(asked | {"neighbours": "all"}))


def test_every_combination_of_partners_counts(catalogs: tuple[Catalog, Catalog, Catalog]) -> None:  # noqa: F811
    a, b, _ = catalogs
    for hows in (("inner", "inner"), ("left", "inner"), ("inner", "anti"), ("anti", "left")):
        further = [{"right": b, "radius_arcsec": 600, "neighbours": "all", "how": hows[1], "suffix": "_c"}]
        assert_counted(
            lambda **more: a.crossmatch(b, **more),
            radius_arcsec=300,
            neighbours=3,
            how=hows[0],
            further=further,
            other_columns=["id"],
        )


def test_counting_reads_places_alone(
    catalogs: tuple[Catalog, Catalog, Catalog],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, _ = catalogs
    asked: set[str] = set()
    plain = Stretches.inside

    def seen(self: Stretches, places: Any) -> pa.Table:
        asked.update(self.columns)
        return plain(self, places)

    monkeypatch.setattr(Stretches, "inside", seen)
    assert a.crossmatch(b, radius_arcsec=300, neighbours="all", count_only=True).rows > 100
    assert asked == {"ra", "dec"}


def test_without_a_margin_it_is_told_how_many_rows_may_lack_partners(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left, right = two_tables(np.random.default_rng(2), (45.0, 41.81))
    a = published(tmp_path, "a", left, threshold="100 rows")
    b = published(tmp_path, "b", right, threshold="60 rows")
    asked: dict[str, Any] = {"radius_arcsec": 900, "missing_margin": "none"}
    with small(None), caplog.at_level(logging.WARNING):
        for more in ({"neighbours": "all"}, {"neighbours": "best"}, {"how": "outer"}):
            rows = a.crossmatch(b, **asked, **more)
            told = int(rows.schema.metadata[b"rows_near_borders"])
            caplog.clear()
            found = a.crossmatch(b, **asked, **more, count_only=True)
            assert (found.rows, found.rows_near_borders) == (rows.num_rows, told)
            assert f"{told} rows of a lie so near to borders" in caplog.text
    assert a.crossmatch(b, radius_arcsec=900, count_only=True).rows_near_borders is None


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"separation_bins": [0, 1]}, SpecError, "separation_bins: .*give count_only=True"),
        ({"how": "anti", "separation_bins": [0, 1], "count_only": True}, SpecError, "no separations"),
        ({"separation_bins": [0], "count_only": True}, SpecError, r"\[0\] are no edges of bins"),
        ({"separation_bins": [0, 1, 1], "count_only": True}, SpecError, "numbers that ascend"),
        ({"separation_bins": [1, 0], "count_only": True}, SpecError, "numbers that ascend"),
        ({"separation_bins": [0, float("inf")], "count_only": True}, SpecError, "no edges"),
        ({"separation_bins": [[0, 1], [2, 3]], "count_only": True}, SpecError, "no edges"),
        ({"separation_bins": ["a", "b"], "count_only": True}, SpecError, "no edges"),
        ({"separation_bins": 10, "count_only": True}, SpecError, "no edges"),
        ({"columns": ["nothing"], "count_only": True}, SchemaMismatchError, "nothing"),
        ({"other_columns": ["nothing"], "count_only": True}, SchemaMismatchError, "nothing"),
        ({"filters": "id <", "count_only": True}, FilterError, "id <"),
    ],
)
def test_what_cannot_be_counted_is_told(
    catalogs: tuple[Catalog, Catalog, Catalog],  # noqa: F811
    asked: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        catalogs[0].crossmatch(catalogs[1], radius_arcsec=10, **asked)


def test_an_outcome_without_rows_has_counts_of_none(catalogs: tuple[Catalog, Catalog, Catalog]) -> None:  # noqa: F811
    a, b, _ = catalogs
    found = a.crossmatch(b, radius_arcsec=10, filters="id < 0", count_only=True, separation_bins=[0, 1, 2])
    assert (found.rows, found.separations.tolist(), found.rows_near_borders) == (0, [0, 0], None)
