"""Margins of catalogs that have indices too, and of those whose rows lie where their objects do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.errors import SpecError, StepError
from hipslake.steps.ingest.draft import draft_version
from hipslake.steps.ingest.request import WriteRequest
from hipslake.steps.margin import state as margin_state
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

from tests.peers.running import run_peer
from tests.steps import in_process
from tests.steps.append.test_sources_grow import night
from tests.steps.margins import assert_margins_are_exact, stored_margin
from tests.steps.sources_of_objects import Lake, by_objects, objects_table, sources_table

BOTH: dict[str, Any] = {"index": ["source_id"], "margin": {"arcsec": [7200, 600]}}
PEER = """\
import json, sys
import lsdb
catalog = lsdb.open_catalog(sys.argv[1])
found = catalog.id_search(values={"source_id": 77}).compute()
print(json.dumps({
    "margin": len(catalog.margin.compute()),
    "threshold": catalog.margin.hc_structure.catalog_info.margin_threshold,
    "found": found["source_id"].to_numpy().tolist(),
}))
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def assert_has_both(catalog: Catalog) -> None:
    """The margins and the index are whole, and say what the rows say."""
    counts = assert_margins_are_exact(catalog)
    assert counts[7200.0] > counts[600.0] > 0
    assert catalog.metadata.index_of("source_id") is not None
    ids = [3, 77, 999]
    assert sorted(catalog.find("source_id", ids)["source_id"].to_pylist()) == ids
    catalog.verify().raise_if_failed()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["hats", pytest.param("hipscat", marks=pytest.mark.slow)])
def test_a_rollback_brings_both_back_and_a_vacuum_leaves_them(lake: Lake, layout: str) -> None:
    sources = sources_table(objects_table())
    assert_has_both(lake.ingest("sources", sources, layout=layout, **BOTH))
    plain = lake.ingest("sources", sources.slice(0, 5000), layout=layout)
    assert not plain.metadata.margins
    assert not plain.metadata.indices
    back = plain.rollback(1)
    assert back.vacuum(keep_versions=1, keep_days=0, dry_run=False).vacuumed == (1, 2)
    assert lake.open("sources").versions() == [3]
    assert_has_both(lake.open("sources"))


@pytest.mark.peers
def test_lsdb_finds_both_in_the_collection(lake: Lake, peers_python: str) -> None:
    catalog = lake.ingest("sources", sources_table(objects_table(600), rows=2500), **BOTH)
    pointer = Path(catalog.uri, "collection.properties").read_text()
    assert "default_margin=" in pointer
    assert "default_index=source_id\n" in pointer
    told = json.loads(run_peer(peers_python, "-c", PEER, catalog.uri).splitlines()[-1])
    assert told == {"margin": catalog.metadata.margins[0].rows, "threshold": 7200.0, "found": [77]}


@pytest.mark.slow
def test_the_index_is_built_before_there_are_margins_and_the_version_waits_for_both(lake: Lake) -> None:
    lake.land("sources", sources_table(objects_table()))
    folder = lake.start("sources", **BOTH)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.make_plan(folder)
    in_process.write_leaves(folder)
    lake.build_index(folder)
    with pytest.raises(StepError, match="run the margin step first"):
        draft_version(folder)
    in_process.make_margins(folder)
    lake.finish(folder)
    assert_has_both(lake.open("sources"))


@pytest.mark.slow
def test_leaves_that_are_written_anew_are_indexed_anew(lake: Lake) -> None:
    lake.land("sources", sources_table(objects_table()))
    folder = lake.start("sources", **BOTH)
    lake.write(folder)
    folder.storage.delete(RunFolder.report_path(WriteRequest.step))  # cleared
    lake.write(folder)
    lake.finish(folder)
    assert_has_both(lake.open("sources"))


@pytest.mark.slow
def test_nights_take_margins_along_and_an_index_is_built_anew_beside_them(lake: Lake) -> None:
    sources = sources_table(objects_table())
    night(lake, "sources", 0, sources.slice(0, 4000), margin=BOTH["margin"])
    spec = BOTH | {"mode": "append"}
    source = {"uri": f"{lake.place}/landing/sources/{{{{ night }}}}/*.parquet", "format": "parquet"}
    lake.build_index(lake.start("sources", source=source, **spec), published=True)
    assert len(lake.open("sources").metadata.margins) == 2
    later = night(lake, "sources", 1, sources.slice(4000), **BOTH)
    wider = later.build_margin(60)
    assert [margin.radius_arcsec for margin in wider.metadata.margins] == [7200.0, 600.0, 60.0]
    assert wider.metadata.indices == later.metadata.indices
    assert_has_both(wider)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["hats", pytest.param("hipscat", marks=pytest.mark.slow)])
def test_margins_of_sources_go_by_where_their_objects_are(lake: Lake, layout: str) -> None:
    objects = objects_table()
    lake.ingest_objects(objects, layout=layout)
    sources = sources_table(objects)
    catalog = lake.ingest_sources(sources, layout=layout, margin={"arcsec": [20, 7200]})
    position = catalog.metadata.position
    assert (position.icrs_ra, position.icrs_dec) == ("ra_object", "dec_object")
    assert_margins_are_exact(catalog)
    catalog.verify().raise_if_failed()
    for margin in catalog.metadata.margins:  # an object's sources are in a margin all, or none of them is
        for rows in stored_margin(catalog, margin).values():
            assert (
                pc.sum(pc.is_in(sources["object_id"], value_set=rows["object_id"])).as_py() == rows.num_rows
            )
    later = lake.ingest_sources(sources, layout=layout).build_margin(20, 7200)
    assert [margin.rows for margin in later.metadata.margins] == [
        margin.rows for margin in catalog.metadata.margins
    ]


def test_nights_of_sources_take_margins_along(lake: Lake) -> None:
    objects = objects_table()
    night(lake, "objects", 0, objects, co_partitioned=["id"])
    margin = {"margin": {"arcsec": [3600]}, "position_from": by_objects()}
    night(lake, "sources", 0, sources_table(objects, rows=2000), **margin)
    catalog = night(lake, "sources", 1, sources_table(objects, rows=3000, seed=8), **margin)
    again = night(lake, "sources", 0, sources_table(objects, rows=1500, seed=9), **margin)
    for version in (catalog, again):
        assert assert_margins_are_exact(version)[3600.0] > 0
        version.verify().raise_if_failed()


def test_a_margin_by_the_places_where_sources_were_seen_is_found_wrong(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    catalog = lake.ingest_sources(sources_table(objects))
    monkeypatch.setattr(margin_state, "stored_position", lambda spec, schema: spec.position)
    found = catalog.build_margin(20).verify()
    assert {problem.kind for problem in found.problems} == {ProblemKind.MARGIN}


def test_a_group_that_has_the_name_of_a_margin_refuses_it(lake: Lake) -> None:
    groups = [{"name": "main"}, {"name": "main_60arcs", "columns": ["flux"]}]
    catalog = lake.ingest("sources", sources_table(objects_table()), column_groups=groups)
    with pytest.raises(SpecError, match="column group main_60arcs is called like this margin"):
        catalog.build_margin(60)
    assert catalog.build_margin(61).version == 2
    assert Storage.at(catalog.uri).exists("_versions/00000002.json")
