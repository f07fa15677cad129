"""Indices that are wrong though their checksums are right: every kind of wrong entry is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.catalog.checks.index_checks import index_problems
from hipslake.catalog.metadata import Index
from hipslake.engine.this_process import ThisProcess
from hipslake.storage.folder import Storage

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

INDEX = {"index": ["source_id", "object_id"]}
Damage = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a catalog with two indices, one of several files."""
    catalog = Lake(tmp_path_factory.mktemp("lake")).ingest("sources", sources_table(objects_table()), **INDEX)
    assert len(catalog.metadata.index_of("source_id").files) > 2
    return Path(catalog.storage.root)


@pytest.fixture
def catalog(made: Path, tmp_path: Path) -> Catalog:
    """A copy, to be damaged."""
    return Catalog.open(str(shutil.copytree(made, tmp_path / "sources", symlinks=True)))


def problems(catalog: Catalog, index: Index) -> Sequence[tuple[ProblemKind, str]]:
    """What is wrong with a version whose index of `source_id` is another one."""
    metadata = catalog.metadata.model_copy(update={"indices": (index,)})
    return [(one.kind, one.message) for one in index_problems(catalog.storage, metadata, ThisProcess())]


def changed(catalog: Catalog, damage: Damage, at: int = 0) -> Index:
    """The index after a file was written anew, with its new checksum and its old rows and limits."""
    index = catalog.metadata.index_of("source_id")
    assert index is not None
    path = Path(catalog.storage.root) / index.files[at].path
    table = damage(pq.read_table(path))
    path.unlink()
    pq.write_table(table, path)
    sha256 = Storage.at(catalog.storage.root).sha256(index.files[at].path)
    files = list(index.files)
    files[at] = files[at].model_copy(update={"sha256": sha256})
    return index.model_copy(update={"files": tuple(files)})


def with_column(table: pa.Table, name: str, values: object) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def another_leaf(table: pa.Table) -> pa.Table:
    return with_column(table, "Npix", np.roll(table["Npix"].to_numpy(), 1))


def parent_of_its_leaf(table: pa.Table) -> pa.Table:
    order, npix = table["Norder"].to_numpy().copy(), table["Npix"].to_numpy().copy()
    order[7], npix[7] = order[7] - 1, npix[7] >> 2
    return with_column(with_column(table, "Norder", order), "Npix", npix)


def another_weight(table: pa.Table) -> pa.Table:
    name = table.column_names[2]
    return with_column(table, name, [table[name][0].as_py() + 1, *table[name][1:].to_pylist()])


def neighbours_swapped(table: pa.Table) -> pa.Table:
    order = np.arange(table.num_rows)
    order[[5, 6]] = order[[6, 5]]
    return table.take(pa.array(order))


def values_beyond(table: pa.Table) -> pa.Table:
    return with_column(table, "source_id", [-5, *table["source_id"][1:].to_pylist()])


def value_that_is_none(table: pa.Table) -> pa.Table:
    """A value of the catalog is another one, between the limits of the file."""
    return with_column(
        table,
        "source_id",
        [table["source_id"][0].as_py(), table["source_id"][0].as_py(), *table["source_id"][2:].to_pylist()],
    )


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (neighbours_swapped, ProblemKind.INDEX_ENTRIES, "not sorted by value and leaf"),
        (values_beyond, ProblemKind.INDEX_ENTRIES, "its values run from -5 to"),
        (another_leaf, ProblemKind.INDEX_ENTRIES, "a leaf that its _healpix_29 does not lie in"),
        (parent_of_its_leaf, ProblemKind.INDEX_ENTRIES, "a pixel that is no leaf of the catalog"),
        (another_weight, ProblemKind.INDEX_ENTRIES, "count 10001 rows, and the catalog has 10000"),
        (
            value_that_is_none,
            ProblemKind.INDEX_ENTRIES,
            "does not say where all values lie, or says it wrongly",
        ),
        (lambda table: table.slice(1), ProblemKind.UNREADABLE, "entries, metadata.json says"),
        (
            lambda table: table.rename_columns(["another", *table.column_names[1:]]),
            ProblemKind.UNREADABLE,
            "no index of 'source_id'",
        ),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_each_wrong_entry_is_named(catalog: Catalog, damage: Damage, kind: ProblemKind, message: str) -> None:
    index = catalog.metadata.index_of("source_id")
    assert index is not None
    assert not problems(catalog, index)
    found = problems(catalog, changed(catalog, damage))
    assert any(one is kind and message in told for one, told in found), found


def test_files_that_overlap_are_named(catalog: Catalog) -> None:
    index = catalog.metadata.index_of("source_id")
    assert index is not None
    first, second, *rest = index.files
    found = problems(catalog, index.model_copy(update={"files": (second, first, *rest)}))
    assert any("comes before" in told for _, told in found), found


def test_a_catalog_whose_rows_cannot_be_read_is_not_called_right(catalog: Catalog) -> None:
    index = catalog.metadata.index_of("source_id")
    assert index is not None
    [path, *_] = catalog.metadata.partitions("main", catalog.storage)["path"].to_pylist()
    catalog.storage.write(path, b"no Parquet file")
    found = problems(catalog, index)
    assert any(one is ProblemKind.UNREADABLE and "was not checked" in told for one, told in found), found
