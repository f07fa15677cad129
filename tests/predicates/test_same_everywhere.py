"""A filter keeps the same rows whatever the column groups, the row groups and their statistics."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import C, Catalog, Cube
from hipslake.cube.store.operations import build, extend
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at

ROWS = 600
TWO_GROUPS = [{"name": "main"}, {"name": "details", "columns": ["y", "u"], "threshold": "150 rows"}]


def table_with_nans() -> pa.Table:
    """Of x a third is NaN, and all else 1.0, so that statistics say that every value is 1.0."""
    x = np.where(np.arange(ROWS) % 3 == 0, np.nan, 1.0)
    y = np.where(np.arange(ROWS) % 3 == 1, np.nan, 30.0)
    u = pa.array([2**64 - 1 - number if number % 2 else number for number in range(ROWS)], pa.uint64())
    n = pa.array([None if number % 4 == 3 else number % 4 + 1 for number in range(ROWS)], pa.int64())
    return rows_at(*sky(ROWS, cap=8.0), x=x, y=y, u=u, n=n)


MEANINGS: list[tuple[Any, Any]] = [
    ("x is nan", lambda row: math.isnan(row["x"])),
    ("x is not nan", lambda row: not math.isnan(row["x"])),
    ("x != 1", lambda row: row["x"] != 1),
    ("not y < 30.5", lambda row: not row["y"] < 30.5),
    ("x != 1 and not y < 30.5", lambda row: row["x"] != 1 and not row["y"] < 30.5),
    ("x not in (1, 5)", lambda row: math.isnan(row["x"])),
    ("x not between 0 and 2", lambda row: math.isnan(row["x"])),
    ("n not in (1, 2)", lambda row: row["n"] == 3),
    ("n != 1", lambda row: row["n"] in (2, 3)),
    ("not n = 1", lambda row: row["n"] in (2, 3)),
    ("n < 1e30", lambda row: row["n"] is not None),
    ("n > -99999999999999999999999999", lambda row: row["n"] is not None),
    ("n = 1e30", lambda row: False),
    ("u > 5", lambda row: row["u"] > 5),
    ("u = 4", lambda row: row["u"] == 4),
    ("u = 18446744073709551614", lambda row: row["u"] == 2**64 - 2),
    ("u between 4 and 18446744073709551000", lambda row: 4 <= row["u"] <= 18446744073709551000),
    ("u > id", lambda row: row["u"] > row["id"]),
    ("x < u", lambda row: row["x"] < row["u"]),
    ([("x", "!=", 1.0)], lambda row: row["x"] != 1),
    (~(pc.field("y") < 30.5), lambda row: not row["y"] < 30.5),
    (pc.field("x") != 1.0, lambda row: row["x"] != 1),
]


@pytest.fixture(scope="module", params=["one group", "two groups"])
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    fields = {"column_groups": TWO_GROUPS} if request.param == "two groups" else {}
    return published(
        tmp_path_factory.mktemp("lake"),
        "stars",
        table_with_nans(),
        margin_arcsec=3600.0,
        parquet={"row_group_rows": 100},
        **fields,
    )


@pytest.mark.parametrize(("filters", "meant"), MEANINGS, ids=[str(filters) for filters, _ in MEANINGS])
def test_rows_are_those_of_a_loop_over_them(catalog: Catalog, filters: Any, meant: Any) -> None:
    expected = [row["id"] for row in table_with_nans().to_pylist() if meant(row)]
    assert sorted(catalog.read(["id"], filters=filters)["id"].to_pylist()) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("filters", "meant"), [MEANINGS[at] for at in (0, 2, 3, 7)])
def test_leaf_and_margin_agree_about_a_row(tmp_path: Path, filters: str, meant: Any) -> None:
    """A right row is a partner of left rows on both sides of a border, or of none."""
    table = table_with_nans()
    left = published(tmp_path, "left", table)
    right = published(tmp_path, "right", table, margin_arcsec=3600.0, threshold="20 rows")
    options: dict[str, Any] = {"radius_arcsec": 3600, "neighbours": "all"}
    whole, found = left.crossmatch(right, **options), left.crossmatch(right, **options, other_filters=filters)
    rows = table.to_pylist()
    pairs = zip(whole["id"].to_pylist(), whole["id_right"].to_pylist(), strict=True)
    expected = sorted(pair for pair in pairs if meant(rows[pair[1]]))
    assert sorted(zip(found["id"].to_pylist(), found["id_right"].to_pylist(), strict=True)) == expected
    assert len(expected) > 100


def cube(tmp_path: Path, values: list[float | None]) -> Cube:
    rows = pa.table({"p": [0] * len(values), "x": range(len(values)), "v": pa.array(values, pa.float64())})
    place = Storage.at(tmp_path / "cube")
    build(place, "cube", CubeColumns(dimension_columns=("x",), partition_columns=("p",)), {"seed": rows})
    return Cube.open(place.uri())


@pytest.mark.parametrize("values", [[1.0, math.nan, 2.0], [1.0, None, 2.0], [1.0, math.nan, 2.0, None]])
@pytest.mark.parametrize(
    ("condition", "text", "meant"),
    [
        (C("v").is_null(), "v is null", lambda v: v is None),
        (C("v").not_null(), "v is not null", lambda v: v is not None),
        (C("v") != 1.0, "v != 1", lambda v: v is not None and v != 1.0),
        (C("v").isin([1.0]), "v in (1)", lambda v: v == 1.0),
        (None, "not v < 2", lambda v: v is not None and not v < 2),
        (None, "v not in (1)", lambda v: v is not None and v != 1.0),
    ],
)
def test_nan_is_null_in_a_cube(
    tmp_path: Path, values: list[float | None], condition: Any, text: str, meant: Any
) -> None:
    plain = [None if value is None or math.isnan(value) else value for value in values]
    expected = [at for at, value in enumerate(plain) if meant(value)]
    stored = cube(tmp_path, values)
    for each in (condition, text):
        if each is not None:
            assert stored.query(conditions=each)["x"].to_pylist() == expected


@pytest.mark.parametrize("seed_zero", [0.0, -0.0])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_negative_zero_is_the_cell_of_zero(tmp_path: Path, seed_zero: float, zero: float) -> None:
    roles = CubeColumns(dimension_columns=("x",), partition_columns=("p",))
    place = Storage.at(tmp_path / "cube")
    build(place, "cube", roles, {"seed": pa.table({"p": [0, 0], "x": [seed_zero, 1.5], "s": [1, 2]})})
    extend(place, {"more": pa.table({"p": [0, 0], "x": [zero, 1.5], "w": [10, 20]})})
    found = Cube.open(place.uri()).query()
    assert dict(zip(found["s"].to_pylist(), found["w"].to_pylist(), strict=True)) == {1: 10, 2: 20}
    for sought in (0.0, -0.0):
        assert Cube.open(place.uri()).query(conditions=C("x") == sought)["s"].to_pylist() == [1]
