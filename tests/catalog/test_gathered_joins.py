"""Joins of catalogs whose keys have no marks, those of others among them, with the right side in memory."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake import Catalog, publish
from hipslake.catalog.joining import gathered_rows
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.errors import CoPartitionError, SchemaMismatchError, SpecError
from hipslake.sphere.pixels import WHOLE_SKY

from tests.catalog.foreign_trees import VARIANTS, variant
from tests.catalog.matching import published
from tests.catalog.publishing import Published
from tests.steps.sources_of_objects import KINDS, Lake, objects_table, sources_table

ON = ("id", "object_id")


def little(folder: Path, name: str, table: pa.Table, rows: int) -> Published:
    catalog = published(folder, name, table, threshold=f"{rows} rows")
    ra, dec = (table[axis].to_numpy() for axis in ("ra", "dec"))
    return Published(catalog.storage, catalog.metadata, table, (ra, dec))


@pytest.fixture(scope="module", params=list(KINDS))
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Published, ...]:
    """Objects, and sources that lie where they were seen."""
    folder = tmp_path_factory.mktemp("ours")
    objects = objects_table(rows=500, kind=request.param)
    sources = sources_table(objects, rows=2500)
    rng = np.random.default_rng(0)
    sources = sources.set_column(2, "ra", pa.array(rng.uniform(0, 360, 2500)))  # anywhere on the sky
    null = pa.array(
        [None if at % 50 == 0 else key for at, key in enumerate(sources["object_id"].to_pylist())]
    )
    sources = sources.set_column(1, "object_id", null.cast(objects["id"].type))
    return little(folder, "objects", objects, 80), little(folder, "sources", sources, 150)


def opened(ours: tuple[Published, ...]) -> tuple[Catalog, Catalog]:
    objects, sources = (Catalog(each.storage, each.metadata) for each in ours)
    return objects, sources


def by_pandas(ours: tuple[Published, ...], how: Any) -> pd.DataFrame:
    objects, sources = (each.source.to_pandas() for each in ours)
    sources = sources[sources["object_id"].notna()]
    return objects.merge(sources, how=how, left_on="id", right_on="object_id", suffixes=("", "_sources"))


def rows_of(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    columns = [[None if value != value else value for value in table[name].to_pylist()] for name in names]
    return sorted(zip(*columns, strict=True), key=lambda row: [(each is None, each or 0) for each in row])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_pairs_are_those_of_pandas(ours: tuple[Published, ...], how: Any) -> None:
    objects, sources = opened(ours)
    found = objects.join(sources, ON, how, gather=True)
    assert (np.diff(found["_healpix_29"].to_numpy()) >= 0).all()
    if how == "anti":
        seen = set(ours[1].source["object_id"].to_pylist())
        assert sorted(found["id"].to_pylist()) == sorted(set(ours[0].source["id"].to_pylist()) - seen)
        return
    wanted = pa.Table.from_pandas(by_pandas(ours, how), preserve_index=False)
    names = ["id", "class", "source_id", "flux"]
    assert rows_of(found, names) == rows_of(wanted, names)
    assert found.num_rows > 2000


def test_many_to_many_and_the_many_on_the_left(ours: tuple[Published, ...]) -> None:
    objects, sources = opened(ours)
    turned = sources.join(objects, ON[::-1], gather=True, columns=["source_id"], other_columns=["class"])
    wanted = pa.Table.from_pandas(by_pandas(ours, "inner"), preserve_index=False)
    assert rows_of(turned, ["source_id", "class"]) == rows_of(wanted, ["source_id", "class"])
    pairs = objects.join(objects, ("class", "class"), gather=True, columns=["id"], other_columns=["id"])
    frame = ours[0].source.to_pandas()[["id", "class"]]
    assert pairs.num_rows == len(frame.merge(frame, on="class"))


def test_light_curves_are_those_of_a_groupby(ours: tuple[Published, ...]) -> None:
    objects, sources = opened(ours)
    found = objects.time_series(sources, ON, "time", source_columns=["time", "flux"], gather=True)
    frame = ours[1].source.to_pandas().sort_values("time", kind="stable").groupby("object_id")
    wanted = {key: list(zip(each["time"], each["flux"], strict=True)) for key, each in frame}
    assert found.num_rows == 500
    for key, curve in zip(found["id"].to_pylist(), found["sources"].to_pylist(), strict=True):
        assert list(zip(curve["time"], curve["flux"], strict=True)) == wanted.get(key, [])
    filtered = objects.time_series(
        sources, ON, "time", source_filters="flux > 100", keep_empty=False, gather=True
    )
    bright = ours[1].source.to_pandas().query("flux > 100")
    assert filtered.num_rows == bright["object_id"].dropna().nunique()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", list(VARIANTS))
def test_others_are_joined_as_ours_are(ours: tuple[Published, ...], form: str, tmp_path: Path) -> None:
    objects, sources = opened(ours)
    theirs = [Catalog.open(variant(each, form, tmp_path / str(at))) for at, each in enumerate(ours)]
    with pytest.raises(CoPartitionError, match="gather=True"):
        theirs[0].join(theirs[1], ON)
    names = ["id", "source_id", "time"]
    asked: dict[str, Any] = {
        "columns": ["id"],
        "other_columns": ["source_id", "time"],
        "other_filters": "flux > 95",
    }
    wanted = objects.join(sources, ON, gather=True, **asked)
    for left, right in ((theirs[0], theirs[1]), (objects, theirs[1]), (theirs[0], sources)):
        assert rows_of(left.join(right, ON, gather=True, **asked), names) == rows_of(wanted, names)
    curves = objects.time_series(sources, ON, "time", columns=["id"], source_columns=["flux"], gather=True)
    found = theirs[0].time_series(theirs[1], ON, "time", columns=["id"], source_columns=["flux"], gather=True)
    assert (
        found.select(["id", "sources"]).sort_by("id").equals(curves.select(["id", "sources"]).sort_by("id"))
    )


@pytest.mark.sampled(2)
def test_joins_of_others_are_published(ours: tuple[Published, ...], tmp_path: Path) -> None:
    objects, sources = opened(ours)
    places = [variant(each, "bare", tmp_path / name) for each, name in zip(ours, ("o", "s"), strict=True)]
    spec: dict[str, Any] = {
        "name": "joined",
        "left": {"catalog": str(places[0])},
        "right": {"catalog": str(places[1]), "columns": ["source_id", "time", "flux"]},
        "on": {"id": "object_id"},
        "threshold": "200 rows",
    }
    with pytest.raises(CoPartitionError, match="'gather: true' in a spec"):
        publish(spec, warehouse=tmp_path)
    made = publish({**spec, "gather": True}, warehouse=tmp_path)
    made.verify().raise_if_failed()
    names = ["id", "source_id", "flux"]
    assert rows_of(made.read(), names) == rows_of(objects.join(sources, ON, gather=True), names)
    curves = publish(
        {**spec, "gather": True, "nested": {"time": "time"}, "name": "curves"}, warehouse=tmp_path
    )
    wanted = objects.time_series(
        sources, ON, "time", source_columns=["source_id", "time", "flux"], gather=True
    )
    assert curves.read(["id", "sources"]).sort_by("id").equals(wanted.select(["id", "sources"]).sort_by("id"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["inner", "left", "anti", "time series"])
def test_how_the_curve_is_cut_changes_nothing(ours: tuple[Published, ...], kind: Any) -> None:
    sides = [(each.storage, each.metadata) for each in ours]
    made: Equijoin | TimeSeries = (
        TimeSeries.of(*sides, ON, "time", gather=True)
        if kind == "time series"
        else Equijoin.of(*sides, ON, kind, gather=True)
    )
    whole = made.table(*WHOLE_SKY)
    join = pickle.loads(pickle.dumps(made))  # as it comes to a task
    assert len(pickle.dumps(made)) < 100_000
    for most_rows in (1, 100, 100_000):
        plan = join.stretches(most_rows)
        stretches = list(zip(plan.start.tolist(), plan.stop.tolist(), strict=True))
        assert pa.concat_tables([join.table(*stretch) for stretch in stretches]).equals(whole)


def test_marks_are_used_where_they_are(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=200)
    lake.ingest_objects(objects)
    lake.ingest_sources(sources_table(objects, rows=600))
    both = lake.open("objects"), lake.open("sources")
    join = Equijoin.of(*((each.storage, each.metadata) for each in both), ON, gather=True)
    assert join.gathered is None
    assert both[0].join(both[1], ON, gather=True).equals(both[0].join(both[1], ON))


def test_more_than_memory_takes_is_refused(
    ours: tuple[Published, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, sources = opened(ours)
    monkeypatch.setattr(gathered_rows, "MAX_BYTES", 60_000)
    sides = [(each.storage, each.metadata) for each in ours]
    with pytest.raises(SpecError, match=r"gather: the rows of catalog sources take more than .*shuffle=True"):
        Equijoin.of(*sides, ON, gather=True)  # before anything is read
    join = Equijoin.of(*sides, ON, gather=True, filters=(None, "flux > 1"))
    with pytest.raises(SpecError, match="take more than"):
        join.table(*WHOLE_SKY)
    few = objects.join(sources, ON, gather=True, other_columns=["flux"], other_filters="flux > 115")
    assert 0 < few.num_rows < 500


def test_what_cannot_be_joined_is_told(ours: tuple[Published, ...]) -> None:
    objects, sources = opened(ours)
    with pytest.raises(SpecError, match="give one of them"):
        objects.join(sources, ON, gather=True, shuffle=True)
    with pytest.raises(SchemaMismatchError, match="no id"):
        objects.join(sources, ("ra", "flux"), gather=True)
    with pytest.raises(SchemaMismatchError, match="did you mean"):
        objects.join(sources, ("id", "objct_id"), gather=True)
