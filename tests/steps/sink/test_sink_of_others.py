"""Sinks and exports of catalogs that others wrote: their rows come out once, and changes are noticed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import ConflictError
from hipslake.steps.sink.catalog_rows import content_of
from hipslake.steps.sink.source_rows import rows_of
from hipslake.tables.sink_order import VersionRows

from tests.catalog.foreign_trees import VARIANTS, leaves, variant
from tests.catalog.publishing import Published, publish
from tests.steps.sinks import Lake, told

KEPT = ["id", "mag"]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("ours"), rows=900, layout="hats", threshold="100 rows")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def source(place: Path) -> str:
    return f"source: {{catalog: '{place}', columns: [id, mag], filters: 'id >= 0'}}\n"


def without_a_leaf(tree: Path) -> None:
    """Write the tree anew with a leaf less."""
    gone = sorted(leaves(tree))[0]
    order, npix = int(gone.parents[1].name.partition("=")[2]), int(gone.stem.partition("=")[2])
    gone.unlink()
    info = tree / "partition_info.csv"
    lines = info.read_text().splitlines()
    info.write_text("\n".join(line for line in lines if not line.startswith(f"{order},{npix}")) + "\n")
    for name in ("_metadata", "_common_metadata"):
        (tree / "dataset" / name).unlink(missing_ok=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", list(VARIANTS))
def test_all_rows_are_sunk_once(ours: Published, lake: Lake, form: str, tmp_path: Path) -> None:
    tree = variant(ours, form, tmp_path / "others" / "tree")
    lake.write_spec(source(tree) + 'partition: ["bucket[4](id)"]\nsort: [mag]\n')
    assert lake.run().rows_out == 900
    wanted = ours.source.select(KEPT).sort_by("id")
    assert lake.rows(*KEPT).to_pydict() == wanted.to_pydict()
    assert told(lake.resolve()).orders == ()


def test_a_collection_is_sunk_as_its_tree_is(ours: Published, lake: Lake, tmp_path: Path) -> None:
    collection = tmp_path / "others" / "collection"
    variant(ours, "as it is", collection / "main")
    (collection / "collection.properties").write_text("obs_collection=x\nhats_primary_table_url=main\n")
    lake.write_spec(source(collection))
    assert lake.run().rows_out == 900
    assert told(lake.resolve()).orders == ()
    assert lake.rows(*KEPT).to_pydict() == ours.source.select(KEPT).sort_by("id").to_pydict()


def test_a_state_that_changed_takes_the_place_of_the_one_before(
    ours: Published, lake: Lake, tmp_path: Path
) -> None:
    tree = variant(ours, "as it is", tmp_path / "others" / "tree")
    lake.write_spec(source(tree))
    lake.run()
    folder = lake.resolve(force=True)
    without_a_leaf(tree)
    with pytest.raises(ConflictError, match="not what it was when the run began"):
        lake.sink(folder)
    left = Catalog.open(tree).read(["id"]).num_rows
    assert left < 900
    again = lake.run()
    assert (again.rows_out, again.rows_updated) == (left, 900)
    assert lake.rows("id").num_rows == left


def test_tasks_tell_of_a_catalog_that_is_written_anew(ours: Published, tmp_path: Path) -> None:
    tree = variant(ours, "as it is", tmp_path / "tree")
    catalog = Catalog.open(tree)
    order = VersionRows(uri=catalog.opened_at, version=1, content=content_of(catalog.metadata))
    rows = rows_of(order, ThisProcess(1))
    assert sum(batch.num_rows for task in range(rows.tasks) for batch in rows.read(task, ["id"])) == 900
    without_a_leaf(tree)
    with pytest.raises(ConflictError, match="not what it was when the run began"):
        list(rows.read(0, ["id"]))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", list(VARIANTS))
def test_exports_are_those_of_ours(ours: Published, form: str, tmp_path: Path) -> None:
    theirs, mine = Catalog.open(variant(ours, form, tmp_path / "tree")), Catalog(ours.storage, ours.metadata)
    asked = {"columns": ["id", "mag", "ra"], "filters": "mag < 13", "region": "cone 50 10 40deg"}
    found: list[pa.Table] = []
    for name, catalog in (("theirs", theirs), ("mine", mine)):
        catalog.export(tmp_path / f"{name}.parquet", **asked)
        catalog.export(tmp_path / f"{name}.csv", **asked)
        found.append(pq.read_table(tmp_path / f"{name}.parquet").select(asked["columns"]))
    assert found[0].to_pydict() == found[1].to_pydict()
    assert found[0].num_rows > 20
    assert (tmp_path / "theirs.csv").read_text() == (tmp_path / "mine.csv").read_text()
