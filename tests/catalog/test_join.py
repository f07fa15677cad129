"""Joins of published catalogs, leaf by leaf, against pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hipslake.errors import CoPartitionError, SchemaMismatchError, SpecError

from tests.steps.sources_of_objects import KINDS, Lake, by_objects, objects_table, sources_table

ON = ("id", "object_id")


@pytest.fixture(scope="module", params=list(KINDS))
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Objects and their sources, in other leaves than they."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    objects = objects_table(kind=request.param)
    lake.ingest_objects(objects, threshold="60 rows")
    lake.ingest_sources(sources_table(objects), threshold="700 rows")
    return lake


def merged(lake: Lake, how: str) -> pd.DataFrame:
    """What pandas makes of all rows."""
    left = lake.open("objects").to_pandas().drop(columns="_healpix_29")
    right = lake.open("sources").to_pandas().drop(columns="_healpix_29")
    return left.merge(right, how=how, left_on="id", right_on="object_id", suffixes=("", "_sources"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_joined_is_what_pandas_merges(lake: Lake, how: str) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    assert objects.pixels != sources.pixels
    found = objects.join(sources, on=ON, how=how).to_pandas()
    expected = merged(lake, how)
    assert list(found.columns) == ["_healpix_29", *expected.columns]
    keys = ["id", "source_id"]
    found, expected = (frame.sort_values(keys, ignore_index=True) for frame in (found, expected))
    pd.testing.assert_frame_equal(found.drop(columns="_healpix_29"), expected)
    assert len(found) > 10_000 if how == "left" else len(found) == 10_000


def test_an_anti_join_gives_the_objects_without_sources(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    found = objects.join(sources, on=ON, how="anti", columns=["id"])
    seen = set(sources.read(["object_id"])["object_id"].to_pylist())
    assert found.column_names == ["_healpix_29", "id"]
    expected = [name for name in objects.read(["id"])["id"].to_pylist() if name not in seen]
    assert found["id"].to_pylist() == expected
    assert len(expected) >= 200


def test_the_sources_may_stand_on_the_left(lake: Lake) -> None:
    found = lake.open("sources").join(
        lake.open("objects"), on=("object_id", "id"), columns=["source_id"], other_columns=["class"]
    )
    expected = merged(lake, "inner")[["source_id", "class"]].sort_values("source_id", ignore_index=True)
    ordered = found.select(["source_id", "class"]).sort_by("source_id").to_pandas()
    pd.testing.assert_frame_equal(ordered, expected)


def test_a_column_without_a_mark_is_refused_with_the_ways_out(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    with pytest.raises(CoPartitionError, match=r"column 'source_id' of catalog sources, version 1, is not"):
        lake.open("sources").join(sources, on="source_id")
    with pytest.raises(CoPartitionError, match=r"position_from: .*on: \{class: class\}.*shuffle=True"):
        objects.join(objects, on=("class", "class"))
    with pytest.raises(SchemaMismatchError, match="did you mean"):
        objects.join(sources, on=("id", "objct_id"))
    with pytest.raises(SpecError, match="no kind of join"):
        objects.join(sources, on=ON, how="outer")
    with pytest.raises(SpecError, match="give it a session"):
        objects.join(sources, on=ON, shuffle=True)


@pytest.mark.parametrize("on", [("id",), ("id", "object_id", "id"), {"id": "object_id"}, ("id", 5), None])
def test_keys_are_one_name_or_two(lake: Lake, on: Any) -> None:
    with pytest.raises(SpecError, match="on: give the key of each side"):
        lake.open("objects").join(lake.open("sources"), on=on)
    with pytest.raises(SpecError, match="on: give the key of each side"):
        lake.open("objects").time_series(lake.open("sources"), on, "time")


@pytest.mark.parametrize("suffixes", [("_a",), ("_a", "_b", "_c"), "ab", ("", None)])
def test_suffixes_are_two_texts(lake: Lake, suffixes: Any) -> None:
    with pytest.raises(SpecError, match="suffixes: give one for each side"):
        lake.open("objects").join(lake.open("sources"), on=ON, suffixes=suffixes)


def test_the_pixel_of_a_row_stands_once(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    place = ["_healpix_29", "id"]
    found = objects.join(sources, on=ON, columns=place, other_columns=["_healpix_29", "flux"])
    assert found.column_names == [*place, "_healpix_29_sources", "flux"]
    assert found["_healpix_29"].equals(found["_healpix_29_sources"])
    series = objects.time_series(sources, ON, "time", columns=place, source_columns=["flux"])
    assert series.column_names == [*place, "sources"]
    with pytest.raises(SpecError, match="'_healpix_29' of the join would share"):
        objects.join(sources, on=ON, other_columns=["_healpix_29"], suffixes=("_objects", ""))


def test_objects_that_were_replaced_are_not_those_that_placed_the_sources(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=300)
    lake.ingest_objects(objects)
    sources = lake.ingest_sources(sources_table(objects, rows=500))
    moved = objects.set_column(1, "ra", pa.array((objects["ra"].to_numpy() + 180) % 360))
    lake.ingest_objects(moved)
    with pytest.raises(
        CoPartitionError, match="objects that have rows in sources, version 1, are at another place"
    ):
        lake.open("objects").join(sources, on=ON)
    assert lake.open("objects", 1).join(sources, on=ON).num_rows == 500


def test_marks_of_their_own_do_not_make_two_catalogs_joinable(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=300)
    lake.ingest_objects(objects)
    other = lake.ingest("others", objects, co_partitioned=["id"])
    with pytest.raises(CoPartitionError, match=r"others\.id where others\.id does"):
        lake.open("objects").join(other, on="id")
    assert other.join(other, on="id", other_columns=["class"]).num_rows == 300


def test_two_catalogs_of_sources_join_with_each_other(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=300)
    lake.ingest_objects(objects)
    first = lake.ingest_sources(sources_table(objects, rows=400))
    second = lake.ingest("forced", sources_table(objects, rows=300, seed=4), position_from=by_objects())
    found = first.join(
        second, on="object_id", columns=["object_id", "source_id"], other_columns=["source_id"]
    )
    left, right = first.to_pandas(), second.to_pandas()
    assert found.num_rows == len(left.merge(right, on="object_id"))
