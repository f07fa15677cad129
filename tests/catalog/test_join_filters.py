"""Either side of a join on a key is filtered before it is joined: against pandas, and with mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.errors import FilterError, SchemaMismatchError

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

pytestmark = pytest.mark.sampled(2)

ON = ("id", "object_id")
GROUPS = [{"name": "main"}, {"name": "details", "columns": ["band", "flux"], "threshold": "300 rows"}]


@pytest.fixture(scope="module", params=["one group", "two groups"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Objects and their sources, some without flux or band; both in one column group or in two."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    objects = objects_table()
    sources = sources_table(objects)
    rng = np.random.default_rng(3)
    flux = pa.array(sources["flux"].to_numpy(), mask=rng.uniform(size=len(sources)) < 0.1)
    sources = sources.set_column(5, "flux", flux)
    sources = sources.append_column("band", pa.array(rng.choice(["g", "r", None], len(sources)), pa.string()))
    several = request.param == "two groups"
    grouped = [{"name": "main"}, {"name": "kinds", "columns": ["class"], "threshold": "35 rows"}]
    fields = {"column_groups": grouped, "layout": "hipscat"} if several else {}
    lake.ingest_objects(objects, threshold="60 rows", parquet={"row_group_rows": 20}, **fields)
    fields = {"column_groups": GROUPS, "layout": "hipscat"} if several else {}
    lake.ingest_sources(sources, threshold="700 rows", **fields)
    return lake


def frames(lake: Lake) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All rows of both."""
    return tuple(lake.open(name).to_pandas() for name in ("objects", "sources"))


def merged(left: pd.DataFrame, right: pd.DataFrame, how: str) -> list[tuple[Any, Any]]:
    """The pairs of ids that pandas makes of the rows that pass."""
    indicated = left.merge(right, how="left", left_on="id", right_on="object_id", indicator=True)
    if how == "anti":
        indicated = indicated[indicated["_merge"] == "left_only"]
    if how == "inner":
        indicated = indicated[indicated["_merge"] == "both"]
    return sorted_pairs(indicated["id"], indicated["source_id"])


def sorted_pairs(left: Any, right: Any) -> list[tuple[int, int]]:
    """Pairs of ids; -1 where there is no partner."""
    return sorted(zip(left, pd.Series(right).fillna(-1).astype(int), strict=True))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_filtered_sides_are_what_pandas_merges(lake: Lake, how: str) -> None:
    """The outcome keeps none of the columns that are filtered by."""
    objects, sources = lake.open("objects"), lake.open("sources")
    found = objects.join(
        sources,
        on=ON,
        how=how,
        columns=["id"],
        other_columns=["source_id"],
        filters="class in (1, 2) and dec > -20",
        other_filters=(pc.field("flux") > 100) & (pc.field("band") == "g"),
    )
    left, right = frames(lake)
    left = left[left["class"].isin([1, 2]) & (left.dec > -20)]
    expected = merged(left, right[(right.flux > 100) & (right.band == "g")], how)
    ids = found["source_id"].to_pandas() if how != "anti" else np.full(len(found), -1)
    assert sorted_pairs(found["id"].to_pylist(), ids) == expected
    assert len(expected) > 100
    assert found.column_names == ["_healpix_29", "id", *([] if how == "anti" else ["source_id"])]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        ("band is null", lambda rows: rows.band.isna()),
        ("not (flux < 100)", lambda rows: rows.flux >= 100),
        ([[("flux", "<", 95)], [("band", "in", ["r"])]], lambda rows: (rows.flux < 95) | (rows.band == "r")),
        ("object_id < 500000000", lambda rows: rows.object_id < 500_000_000),
        (pc.field("ra") > pc.field("ra_object"), lambda rows: rows.ra > rows.ra_object),
    ],
)
def test_a_left_join_keeps_rows_whose_partners_do_not_pass(lake: Lake, filters: Any, passing: Any) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    found = objects.join(
        sources, on=ON, how="left", columns=["id"], other_columns=["source_id"], other_filters=filters
    )
    left, right = frames(lake)
    some = right[passing(right)]
    assert 0 < len(some) < len(right)
    assert sorted_pairs(found["id"].to_pylist(), found["source_id"].to_pandas()) == merged(left, some, "left")
    assert set(found["id"].to_pylist()) == set(left.id)


def test_filters_that_leave_nothing(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    nothing = "source_id < 0"
    assert objects.join(sources, on=ON, other_filters=nothing).num_rows == 0
    left = objects.join(sources, on=ON, how="left", other_filters=nothing)
    assert left["source_id"].null_count == left.num_rows == objects.metadata.total_rows
    anti = objects.join(sources, on=ON, how="anti", other_filters=nothing)
    assert anti["id"].to_pylist() == objects.read(["id"])["id"].to_pylist()
    for how in ("inner", "left", "anti"):
        found = objects.join(sources, on=ON, how=how, filters="dec > 91")
        assert found.num_rows == 0
        assert found.schema.equals(objects.join(sources, on=ON, how=how).schema)


def test_light_curves_of_what_passes(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    options: dict[str, Any] = {
        "columns": ["id"],
        "source_columns": ["source_id", "time"],
        "filters": "class = 2 or class = 4",
        "source_filters": "band = 'r' and flux is not null",
    }
    found = objects.time_series(sources, ON, "time", **options)
    left, right = frames(lake)
    left, right = left[left["class"].isin([2, 4])], right[(right.band == "r") & right.flux.notna()]
    expected = right.sort_values("time", kind="stable").groupby("object_id")["source_id"].agg(list)
    lists = [series["source_id"] for series in found["sources"].to_pylist()]
    curves = dict(zip(found["id"].to_pylist(), lists, strict=True))
    assert curves == {row: expected.get(row, []) for row in left.id}
    few = objects.time_series(sources, ON, "time", keep_empty=False, **options)
    assert few["id"].to_pylist() == [row for row in found["id"].to_pylist() if curves[row]]
    assert 0 < len(few) < len(found)
    none = objects.time_series(sources, ON, "time", **(options | {"source_filters": "flux < 0"}))
    assert none["sources"].to_pylist() == [{"source_id": [], "time": []}] * len(left)


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        ("flx < 1", FilterError, "there is no column 'flx'; did you mean 'flux'?"),
        ("flux <", FilterError, "found the end"),
        ("flux", FilterError, "expected a comparison"),
        ("band > 3", FilterError, "compare it with a 'text'"),
        (pc.field("flux"), SchemaMismatchError, "gives double, not true or false"),
        ([("flux", "<")], FilterError, "is no filter"),
    ],
)
def test_mistakes_are_told_with_the_catalog(
    lake: Lake, filters: Any, error: type[Exception], message: str
) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    told = f"^catalog sources: .*{message}".replace("?", r"\?")
    with pytest.raises(error, match=told):
        objects.join(sources, on=ON, other_filters=filters)
    with pytest.raises(error, match=told):
        sources.join(objects, on=ON[::-1], filters=filters)
    with pytest.raises(error, match=told):
        objects.time_series(sources, ON, "time", source_filters=filters)
