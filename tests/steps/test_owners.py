"""A catalog is of one spec: no run of another publishes into it, whichever commits first."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hipslake import Catalog
from hipslake.catalog.committing import check_owner
from hipslake.catalog.metadata import Owner
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import SpecError
from hipslake.steps.frozen_run import FrozenRun
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
from hipslake.storage.folder import Storage

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

JOIN = Owner(kind="join", name="pairs")
CATALOG = Owner(kind="catalog", name="pairs")


@pytest.fixture(scope="module")
def objects() -> pa.Table:
    return objects_table(300)


@pytest.fixture
def lake(tmp_path: Path, objects: pa.Table) -> Lake:
    lake = Lake(tmp_path)
    lake.ingest_objects(objects)
    lake.ingest_sources(sources_table(objects, rows=500))
    return lake


def start_join(lake: Lake) -> RunFolder:
    """Resolve the join `pairs` and do its work; only its publication is missing."""
    lake.runs += 1
    spec = {
        "name": "pairs",
        "type": "equijoin",
        "left": {"catalog": "objects"},
        "right": {"catalog": "sources"},
        "on": {"id": "object_id"},
    }
    path = lake.place / "joins" / "pairs.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(spec))
    dag_id, run_id = "catalog_equijoin__pairs", f"run-{lake.runs}"
    resolving = ResolveEquijoinRequest(
        run_uri=run_uri(lake.warehouse, dag_id, run_id),
        dag_id=dag_id,
        run_id=run_id,
        warehouse=lake.warehouse,
        spec_file=str(path),
    )
    perform(resolve_equijoin.run, resolving, ResolveEquijoinReport)
    joining = EquijoinRequest(run_uri=resolving.run_uri)
    perform(lambda asked: equijoin_work.run(asked, ThisProcess()), joining, EquijoinReport)
    return resolving.folder


def start_ingest(lake: Lake, objects: pa.Table) -> RunFolder:
    lake.land("pairs", objects)
    folder = lake.start("pairs")
    lake.write(folder)
    return folder


def forget_owner(catalog: Catalog) -> None:
    """Leave the metadata as an older library has written it."""
    root = Path(catalog.uri)
    for path in (root / "metadata.json", *root.glob("_versions/*.json")):
        document = json.loads(path.read_text())
        document.pop("owner", None)
        path.write_text(json.dumps(document))


@pytest.mark.parametrize("older", [False, True])
def test_a_join_with_the_name_of_a_catalog_does_not_publish_into_it(
    lake: Lake, objects: pa.Table, older: bool
) -> None:
    lake.ingest("pairs", objects)
    if older:
        forget_owner(lake.open("pairs"))
    with pytest.raises(SpecError, match=r"published by the spec catalogs/pairs\.yaml, and joins/pairs\.yaml"):
        start_join(lake)
    assert (lake.open("pairs").version, lake.open("pairs").metadata.total_rows) == (1, 300)


@pytest.mark.parametrize("older", [False, True])
def test_a_catalog_with_the_name_of_a_join_does_not_publish_into_it(
    lake: Lake, objects: pa.Table, older: bool
) -> None:
    lake.finish(start_join(lake))
    rows = lake.open("pairs").read()
    if older:
        forget_owner(lake.open("pairs"))
    with pytest.raises(SpecError, match=r"published by the spec joins/pairs\.yaml, and catalogs/pairs\.yaml"):
        start_ingest(lake, objects)
    assert lake.open("pairs").read().equals(rows)
    lake.finish(start_join(lake))  # the join itself goes on
    assert lake.open("pairs").version == 2


@pytest.mark.parametrize("first", ["join", "ingest"])
def test_of_two_runs_that_began_before_there_was_a_catalog_the_first_to_commit_has_it(
    lake: Lake, objects: pa.Table, first: str
) -> None:
    folders = {"join": start_join(lake), "ingest": start_ingest(lake, objects)}
    lake.finish(folders.pop(first))
    standing = lake.open("pairs")
    with pytest.raises(SpecError, match=r"pairs\.yaml would replace its rows by others"):
        lake.finish(*folders.values())
    assert lake.open("pairs").metadata == standing.metadata
    lake.open("pairs").verify().raise_if_failed()


def test_a_version_that_another_spec_took_by_an_older_library_is_brought_back(
    lake: Lake, objects: pa.Table
) -> None:
    lake.ingest("pairs", objects)
    catalog = lake.open("pairs")
    root = Path(catalog.uri)
    document = json.loads((root / "metadata.json").read_text())
    sources = document["increments"][0]["sources"]["entries"]
    sources[0]["uri"] = f"{lake.warehouse}/catalogs/objects/_versions/00000001.json"
    taken = {key: value for key, value in document.items() if key != "owner"}
    (root / "_versions" / "00000002.json").write_text(json.dumps(taken | {"version": 2, "parent": 1}))
    storage = Storage.at(catalog.uri)
    with pytest.raises(SpecError, match=r"by the spec joins/pairs\.yaml"):
        check_owner(storage, CATALOG)
    lake.open("pairs").rollback(1)
    assert lake.open("pairs").metadata.owner == CATALOG
    lake.ingest("pairs", objects.slice(0, 200))
    assert lake.open("pairs").metadata.total_rows == 200


def test_changes_of_a_catalog_keep_whose_it_is(lake: Lake, objects: pa.Table) -> None:
    catalog = lake.ingest("pairs", objects)
    catalog.build_margin(10)
    newest = lake.open("pairs")
    assert (newest.version, newest.metadata.owner) == (2, CATALOG)
    with pytest.raises(SpecError):
        check_owner(Storage.at(newest.uri), JOIN)


@pytest.mark.parametrize("name", ["sky", "heaven"])
def test_the_joined_rows_of_a_cube_are_of_that_cube(lake: Lake, objects: pa.Table, name: str) -> None:
    folder = start_ingest(lake, objects)
    frozen = FrozenRun.of(folder)
    folder.write(RunFolder.RUN, frozen.model_copy(update={"owner": Owner(kind="cube", name="sky")}))
    lake.finish(folder)
    storage = Storage.at(lake.open("pairs").uri)
    if name == "sky":
        check_owner(storage, Owner(kind="cube", name=name))
    else:
        with pytest.raises(SpecError, match=r"by the spec cubes/sky\.yaml, and cubes/heaven\.yaml would"):
            check_owner(storage, Owner(kind="cube", name=name))


def test_a_catalog_whose_versions_are_damaged_is_anyones(lake: Lake, objects: pa.Table) -> None:
    catalog = lake.ingest("pairs", objects)
    root = Path(catalog.uri)
    for path in (root / "metadata.json", root / "_versions" / "00000001.json"):
        path.write_text(path.read_text().replace('"total_rows": ', '"total_rows": "many", "other": ', 1))
    check_owner(Storage.at(catalog.uri), JOIN)
