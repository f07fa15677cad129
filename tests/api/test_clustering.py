"""Tables along a curve, and what is asked of `cluster` before it looks at rows."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake import cluster
from hipslake.clustering.curves import Curve
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.range_ids import RangeBounds
from hipslake.errors import HipslakeError, InputError, SpecError

CURVES = [curve.value for curve in Curve]


@pytest.mark.parametrize("curve", CURVES)
def test_a_table_comes_in_the_order_of_the_curve_with_all_its_rows(curve: str) -> None:
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "x": pa.array([None, *random.integers(0, 50, 4999)], pa.int32()),
            "name": pa.array(random.choice(["a", "b", "ü", "🔭"], 5000)).dictionary_encode(),
            "tags": [["t"] * (n % 3) for n in range(5000)],
        }
    )
    ordered = cluster(table, ["x", "name"], curve=curve)
    assert ordered.schema == table.schema
    assert Counter(map(str, ordered.to_pylist())) == Counter(map(str, table.to_pylist()))
    keys = RangeBounds.of_sample(table, ["x", "name"]).keys(ordered, Curve(curve))
    assert (np.diff(keys.astype(np.int64)) >= 0).all()


@pytest.mark.parametrize("curve", CURVES)
def test_runs_of_a_table_skip(curve: str) -> None:
    """The table has more rows than the sample."""
    points = np.random.default_rng(1).random((60_000, 2))
    rows = cluster(pa.table({"x": points[:, 0], "y": points[:, 1]}), ["x", "y"], curve=curve)
    ordered = np.column_stack([rows["x"].to_numpy(), rows["y"].to_numpy()])
    low = np.random.default_rng(2).random((500, 2)) * 0.9
    files = np.arange(60_000) * 64 // 60_000
    assert FileBoxes.of_rows(ordered, files).touched(low, low + 0.1).mean() < 6.5


def test_values_of_one_column_come_in_their_order() -> None:
    values = [math.nan, 1.0, None, -0.0, 0.0, -math.inf, math.inf]
    ordered = cluster(pa.table({"x": values, "n": range(7)}), ["x"])
    assert ordered["n"].to_pylist() == [2, 5, 3, 4, 1, 6, 0]


@pytest.mark.parametrize("rows", [0, 1])
def test_small_tables_stay(rows: int) -> None:
    table = pa.table({"x": pa.array(range(rows), pa.int64())})
    assert cluster(table, ["x"]) == table


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": []}, SpecError, "no columns to cluster by: name at least one"),
        ({"columns": ["y"]}, SpecError, "no column y to cluster by; there are x, tags"),
        ({"columns": ["tags"]}, InputError, "column tags is list<item: string>, whose values have no order"),
        ({"curve": "peano"}, SpecError, "there is no curve 'peano': take zorder or hilbert"),
        ({"num_ranges": 1}, SpecError, "num_ranges is 1: it takes at least 2"),
        ({"files": 0}, SpecError, "files is 0: there has to be at least one"),
        ({"files": 3}, SpecError, "files is 3: a table is put in order as a whole; leave files out"),
        (
            {"rows": pd.DataFrame({"x": [1]})},
            InputError,
            "pandas.*DataFrame: rows to cluster are a Spark Data",
        ),
    ],
)
def test_what_cannot_be_done_is_told(options: dict, error: type[HipslakeError], message: str) -> None:
    asked = {"rows": pa.table({"x": [1], "tags": [["a"]]}), "columns": ["x"], **options}
    with pytest.raises(error, match=message):
        cluster(**asked)
