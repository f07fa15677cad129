"""Joins that are published: pairs and light curves, in leaves of their own, verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CoPartitionError, EmptySourceError, FilterError, SpecError
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.join import resolve_equijoin
from hipslake.steps.join import run as equijoin_work
from hipslake.steps.join.request import (
    EquijoinReport,
    EquijoinRequest,
    ResolveEquijoinReport,
    ResolveEquijoinRequest,
)
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder, run_uri

from tests.peers.running import run_peer
from tests.steps import in_process
from tests.steps.sources_of_objects import Lake, objects_table, sources_table

ON = ("id", "object_id")
PEER = """\
import json, sys
import lsdb
frame = lsdb.open_catalog(sys.argv[1]).compute()
print(json.dumps({"nested": list(frame.nested_columns), "flux": float(frame["sources.flux"].sum())}))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    objects = objects_table()
    lake.ingest_objects(objects)
    lake.ingest_sources(sources_table(objects))
    return lake


def start(lake: Lake, **fields: Any) -> RunFolder:
    """Resolve a join of objects and sources."""
    lake.runs += 1
    spec = {
        "name": "joined",
        "type": "equijoin",
        "left": {"catalog": "objects"},
        "right": {"catalog": "sources"},
        "on": {"id": "object_id"},
        "threshold": "500 rows",
    } | fields
    path = lake.place / "joined.yaml"
    path.write_text(yaml.safe_dump(spec))
    request = ResolveEquijoinRequest(
        run_uri=run_uri(lake.warehouse, "catalog_equijoin__joined", f"run-{lake.runs}"),
        dag_id="catalog_equijoin__joined",
        run_id=f"run-{lake.runs}",
        warehouse=lake.warehouse,
        spec_file=str(path),
    )
    perform(resolve_equijoin.run, request, ResolveEquijoinReport)
    return request.folder


def publish(lake: Lake, **fields: Any) -> Catalog:
    folder = start(lake, **fields)
    request = EquijoinRequest(run_uri=folder.uri)
    perform(lambda asked: equijoin_work.run(asked, ThisProcess()), request, EquijoinReport)
    if fields.get("index"):
        lake.build_index(folder)
    if fields.get("margin"):
        in_process.make_margins(folder)
    lake.finish(folder)
    return lake.open("joined")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_a_join_is_published_in_leaves_of_its_own(lake: Lake, how: str, layout: str) -> None:
    found = publish(lake, how=how, layout=layout)
    assert found.read().equals(lake.open("objects").join(lake.open("sources"), on=ON, how=how))
    found.verify().raise_if_failed()
    rows = found.metadata.partitions(None, found.storage)["rows"].to_numpy()
    assert rows.max() <= 500


def test_sources_on_the_left_lie_where_their_objects_do(lake: Lake) -> None:
    found = publish(
        lake,
        left={"catalog": "sources", "columns": ["source_id"]},
        right={"catalog": "objects", "columns": ["class"]},
        on={"object_id": "id"},
    )
    found.verify().raise_if_failed()
    assert found.schema.names == ["_healpix_29", "source_id", "ra_object", "dec_object", "class"]
    assert found.metadata.total_rows == 10_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_only_rows_that_pass_the_filters_are_joined(lake: Lake, how: str) -> None:
    found = publish(
        lake,
        how=how,
        left={"catalog": "objects", "columns": ["id"], "filters": "class in (1, 2)"},
        right={"catalog": "sources", "columns": ["source_id"], "filters": "flux > 105"},
    )
    found.verify().raise_if_failed()
    objects, sources = (lake.open(name).to_pandas() for name in ("objects", "sources"))
    left = objects[objects["class"].isin([1, 2])]
    right = sources[sources.flux > 105]
    rows = found.read().to_pandas()
    if how == "anti":
        assert sorted(rows.id) == sorted(left.id[~left.id.isin(right.object_id)])
    else:
        expected = left.merge(right, how=how, left_on="id", right_on="object_id")
        pairs = [
            sorted(map(tuple, frame[["id", "source_id"]].fillna(-1).astype(int).to_numpy().tolist()))
            for frame in (rows, expected)
        ]
        assert pairs[0] == pairs[1]
    assert found.metadata.description.startswith("objects (class in (1, 2)) ")
    assert found.metadata.description.endswith(" sources (flux > 105)")


def test_light_curves_of_rows_that_pass_are_published(lake: Lake) -> None:
    fields: dict[str, Any] = {
        "left": {"catalog": "objects", "columns": ["id"], "filters": "class = 3"},
        "right": {"catalog": "sources", "columns": ["source_id"], "filters": "flux > 105 and time < 60500"},
        "nested": {"time": "time", "keep_empty": False},
    }
    found = publish(lake, **fields)
    objects, sources = (lake.open(name).to_pandas() for name in ("objects", "sources"))
    some = sources[(sources.flux > 105) & (sources.time < 60500)]
    some = some[some.object_id.isin(objects.id[objects["class"] == 3])]
    curves = some.sort_values("time", kind="stable").groupby("object_id")["source_id"].agg(list)
    rows = found.read(["id", "sources"]).to_pylist()
    assert {row["id"]: row["sources"]["source_id"] for row in rows} == curves.to_dict()
    assert found.metadata.description == (
        "objects (class = 3) with nested sources (flux > 105 and time < 60500)"
    )
    assert FrozenInputs.of(start(lake, **fields)).unchanged_version is not None
    fields["right"]["filters"] = "flux > 106"
    assert FrozenInputs.of(start(lake, **fields)).unchanged_version is None


@pytest.mark.peers
def test_light_curves_are_published_and_read_by_lsdb(lake: Lake, peers_python: str) -> None:
    found = publish(lake, nested={"time": "time"}, threshold="100 rows")
    objects, sources = lake.open("objects"), lake.open("sources")
    assert found.read().equals(objects.time_series(sources, ON, "time"))
    told = json.loads(run_peer(peers_python, "-c", PEER, found.uri).splitlines()[-1])
    assert told["nested"] == ["sources"]
    assert told["flux"] == pytest.approx(sources.to_pandas().flux.sum())


def test_a_run_with_nothing_new_says_so(lake: Lake) -> None:
    publish(lake)
    assert FrozenInputs.of(start(lake)).unchanged_version is not None
    assert FrozenInputs.of(start(lake, how="left")).unchanged_version is None


def test_what_cannot_be_joined_is_refused_before_anything_is_read(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(CoPartitionError, match="Two ways out"):
        start(lake, on={"class": "object_id"})
    with pytest.raises(SpecError, match="on: names 2 pairs"):
        start(lake, on={"id": "object_id", "ra": "ra"})
    with pytest.raises(FilterError, match=r"catalog objects: filter .*did you mean 'class'"):
        start(lake, left={"catalog": "objects", "filters": "clas = 2"})
    with pytest.raises(FilterError, match=r"catalog sources: filter .*found the end"):
        start(lake, right={"catalog": "sources", "filters": "flux >"}, nested={"time": "time"})
    with pytest.raises(SpecError, match="nested: has no use for 'how'"):
        start(lake, how="left", nested={"time": "time"})
    with pytest.raises(SpecError, match="give the outcome another name"):
        start(lake, left={"catalog": "joined"})
    with pytest.raises(EmptySourceError, match=r"no row of objects is in the outcome \(anti, id = id"):
        publish(lake, right={"catalog": "objects"}, on={"id": "id"}, how="anti")
