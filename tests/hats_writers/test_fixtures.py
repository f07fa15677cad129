"""The catalogs of the archive are what `trees.json` says, and plain pyarrow reads in them what LSDB does."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hats_writers.rows import TABLES
from tests.hats_writers.trees import TREES, Tree, expected, leaf_files, unpacked
from tests.last_bits import assert_recomputed

pytestmark = pytest.mark.sampled(4)

WITH_LEAVES = [tree for tree in TREES if tree.kind not in ("index", "collection", "extension")]
INDICES = [tree for tree in TREES if tree.kind == "index"]
COLLECTIONS = [tree for tree in TREES if tree.kind in ("collection", "extension")]
WRITERS = {
    *(f"{name}-{version}" for name, version in [("hipscat-import", "0.3.5"), ("lsdb", "0.3.0")]),
    *(f"hats-import-{version}" for version in ("0.4.4", "0.6.7", "0.10.4", "0.11.1")),
    *(f"lsdb-{version}" for version in ("0.4.5", "0.6.7", "0.10.2", "0.11.1")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory)


@pytest.mark.parametrize("tree", WITH_LEAVES, ids=str)
def test_plain_pyarrow_reads_the_rows_that_lsdb_reads(tree: Tree, folder: Path) -> None:
    assert _alike(_leaves(folder / tree.name), expected(tree, folder))


@pytest.mark.parametrize("tree", COLLECTIONS, ids=str)
def test_the_main_catalog_of_a_collection_holds_its_rows(tree: Tree, folder: Path) -> None:
    path = folder / tree.name
    assert _alike(_leaves(path / _properties(path)["hats_primary_table_url"]), expected(tree, folder))


@pytest.mark.parametrize("tree", INDICES, ids=str)
def test_an_index_names_the_leaves_of_each_value(tree: Tree, folder: Path) -> None:
    files = [file for file in (folder / tree.name).rglob("*.parquet") if "index" in file.parts]
    table = pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)
    pairs = table.select(["source_id", "Norder", "Npix"]).to_pylist()
    told = expected(tree, folder).to_pylist()
    assert {tuple(pair.values()) for pair in pairs} == {tuple(pair.values()) for pair in told}


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree.made_of], ids=str)
def test_a_catalog_holds_the_ids_and_positions_that_it_was_made_of(tree: Tree, folder: Path) -> None:
    given = _rows(str(tree.made_of)).select([0, *_position(tree)])
    found = expected(tree, folder).select(given.column_names).cast(given.schema)
    order = [(name, "ascending") for name in given.column_names]
    found, given = found.sort_by(order), given.sort_by(order)
    assert found.column(0).equals(given.column(0))
    for name in given.column_names[1:]:  # made of numpy's sines, whose last bit is the processor's
        assert_recomputed(found[name], given[name])


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_the_list_tells_what_lies_there(tree: Tree, folder: Path) -> None:
    assert expected(tree, folder).num_rows == tree.rows > 0
    assert all((folder / tree.name / file).is_file() for file in tree.files)
    if tree in WITH_LEAVES:
        assert sorted({order for order, _ in leaf_files(folder / tree.name)}) == [*tree.orders]
    if tree.of:
        assert (folder / tree.of).is_dir()


def test_all_forms_are_there() -> None:
    files = {file for tree in TREES for file in tree.files}
    assert {tree.writer for tree in TREES} == WRITERS
    assert {
        "catalog_info.json",
        "properties",
        "hats.properties",
        "collection.properties",
        "partition_info.csv",
        "point_map.fits",
        "_metadata",
        "dataset/_metadata",
    } <= files
    assert {tree.kind for tree in TREES} == {
        *("object", "source", "margin", "index", "association", "collection", "extension"),
    }
    assert any(tree.orders == (0,) for tree in TREES)
    named = [{Path(file).name for file in tree.files} for tree in WITH_LEAVES]
    assert any("_metadata" not in names for names in named)
    assert any("hats.properties" not in names and "properties" in names for names in named)
    assert any("point_map.fits" not in names for names in named)
    assert {tree.writer for tree in TREES if len(tree.orders) > 3} == WRITERS


_rows = cache(lambda name: TABLES[name]())


def _leaves(path: Path) -> pa.Table:
    """All rows below a catalog by plain pyarrow, with the pixels that the paths say."""
    parts = []
    for (order, pixel), files in leaf_files(path).items():
        for file in files:
            table = pq.read_table(file, partitioning=None).replace_schema_metadata(None)
            for name, value in (("leaf_order", order), ("leaf_pixel", pixel)):
                table = table.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), table.num_rows))
            parts.append(table)
    return pa.concat_tables(parts, promote_options="permissive")


def _alike(found: pa.Table, told: pa.Table) -> bool:
    """Whether both hold the same rows in the columns of LSDB, which left out none but partition columns."""
    assert {*found.column_names} - {*told.column_names} <= {
        "Norder",
        "Dir",
        "Npix",
        "join_Norder",
        "join_Npix",
    }
    return sorted(texts(found.select(told.column_names))) == sorted(texts(told))


def texts(table: pa.Table) -> Iterable[str]:
    """Each row as text, in which a NaN is like another."""
    columns = [_plain(column) for column in table.columns]
    return [repr(row) for row in zip(*columns, strict=True)]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """The values; lists of structs as the structs of lists that LSDB has in their place."""
    if not pa.types.is_list(column.type) or not pa.types.is_struct(column.type.value_type):
        return column.to_pylist()
    names = [field.name for field in column.type.value_type]
    return [
        None if value is None else {name: [one[name] for one in value] for name in names}
        for value in column.to_pylist()
    ]


def _position(tree: Tree) -> list[str]:
    return ["RAICRS", "DEICRS"] if tree.made_of == "hipparcos" else ["ra", "dec"]


def _properties(path: Path) -> dict[str, str]:
    lines = (path / "collection.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
