"""Catalogs of others: whatever form a tree has, its rows are those that were put there."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    NotWritableError,
    SpecError,
    VerificationError,
    VersionNotFoundError,
)

from tests.api.catalogs import publish_many_kinds
from tests.api.test_scan import equal
from tests.catalog.foreign_trees import VARIANTS, leaves, tree_of, variant
from tests.catalog.publishing import Published

pytestmark = pytest.mark.sampled(3)

QUERIES = {
    "all": {},
    "cone": {"region": "cone 50 10 12deg"},
    "cone of columns": {"region": "cone 200 12 9deg", "columns": ["id", "flux"]},
    "filter": {"filters": "mag < 14 and band == 'g'"},
    "filter of no row": {"filters": "mag > 1000"},
    "filter and cone": {
        "filters": "note is not null",
        "region": "box ra 10..60 dec -20..30",
        "columns": ["note"],
    },
    "pixels": {"pixels": [(0, 4), (2, 77), (5, 2000)]},
    "columns": {"columns": ["seen", "_healpix_29", "price"]},
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Published:
    published = publish_many_kinds(tmp_path_factory.mktemp("ours"), "hats", rows=1500)
    Catalog(published.storage, published.metadata).build_margin(3000.0)  # version 2
    return published


@pytest.fixture(scope="module", params=list(VARIANTS))
def foreign(
    request: pytest.FixtureRequest, ours: Published, tmp_path_factory: pytest.TempPathFactory
) -> Catalog:
    return Catalog.open(variant(ours, request.param, tmp_path_factory.mktemp("others") / "tree"))


def _leaf(tree: Path) -> Path:
    return sorted(leaves(tree))[4]


def _same(theirs: pa.Table, ours: pa.Table) -> bool:
    """Whether all columns of ours are there with the same rows; those of others may say less of units."""
    return equal(_plain(theirs.select(ours.column_names)), _plain(ours))


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries, whose order is nobody's, and without notes."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def test_each_form_of_a_tree_gives_the_rows_that_are_in_it(foreign: Catalog, ours: Published) -> None:
    catalog = Catalog(ours.storage, ours.metadata)
    for name, query in QUERIES.items():
        wanted, found = catalog.read(**query), foreign.read(**query)
        assert _same(found, wanted), name
    assert foreign.metadata.total_rows == catalog.metadata.total_rows
    assert foreign.pixels == catalog.pixels
    assert foreign.versions() == [1]


@pytest.mark.sampled(7)
def test_scans_statistics_and_coverage_are_those_of_ours(foreign: Catalog, ours: Published) -> None:
    catalog = Catalog(ours.storage, ours.metadata)
    assert foreign.scan().count() == catalog.scan().count()
    assert foreign.scan(region="cone 50 10 12deg").count() == catalog.scan(region="cone 50 10 12deg").count()
    assert _same(foreign.head(7), catalog.head(7))
    assert _same(foreign.sample(40, 5), catalog.sample(40, 5))
    assert foreign.coverage() == catalog.coverage()
    assert foreign.coverage(9) == catalog.coverage(9)
    for column in ("id", "mag", "seen", "dec"):
        (mine,), (theirs,) = (each.statistics([column], exact=True) for each in (catalog, foreign))
        assert (mine.min, mine.max, mine.nulls) == (theirs.min, theirs.max, theirs.nulls)
        (told,) = foreign.statistics([column])
        assert not told.known or (told.min, told.max) == (mine.min, mine.max)
    parts = pa.concat_tables(part.to_arrow() for part in foreign.partitions())
    assert _same(parts, catalog.read())
    assert _same(pickle.loads(pickle.dumps(foreign)).read(["id"]), catalog.read(["id"]))
    assert "<" in foreign._repr_html_()


def test_values_are_found_and_it_is_said_that_all_was_looked_through(
    foreign: Catalog, ours: Published, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = ours.source["id"][3:9].to_pylist()
    with caplog.at_level(logging.WARNING):
        found = foreign.find("id", wanted, columns=["id"])
    assert sorted(found["id"].to_pylist()) == sorted(wanted)
    assert "looked through" in caplog.text


def test_nothing_is_wrong_with_any_form(foreign: Catalog) -> None:
    report = foreign.verify()
    assert report.ok, report.problems
    assert report.rows == 1500
    assert any("checksums" in each for each in report.unchecked)


def test_nothing_is_written_into_a_catalog_of_others(ours: Published, tmp_path: Path) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    catalog = Catalog.open(tree)
    for refused in (
        lambda: catalog.build_margin(5.0),
        lambda: catalog.rollback(1),
        lambda: catalog.delete(region="cone 50 10 5deg", force=True),
        lambda: catalog.vacuum(keep_versions=1, keep_days=0),
        lambda: catalog.repair(),
        lambda: catalog.metadata.to_json(),
    ):
        with pytest.raises(NotWritableError, match="catalog of others"):
            refused()
    catalog.read()
    catalog.verify()
    catalog.export(tmp_path / "out.parquet", region="cone 50 10 5deg")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_versions_and_margins_that_there_are_not(ours: Published, tmp_path: Path) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    with pytest.raises(VersionNotFoundError, match="keeps no versions"):
        Catalog.open(tree, version=2)
    assert Catalog.open(tree, version=1).version == 1
    with pytest.raises(CatalogNotFoundError, match="no HATS tree"):
        Catalog.open(tree, margins=[tmp_path / "nothing"])
    with pytest.raises(SpecError, match="is no margin but of kind object"):
        Catalog.open(tree, margins=[tree])
    with pytest.raises(SpecError, match="names its margins itself"):
        Catalog.open(ours.storage.root, margins=[tree])
    with pytest.raises(CatalogNotFoundError):
        Catalog.open(tmp_path)


def test_a_leaf_that_is_gone_or_cut_off_is_named(ours: Published, tmp_path: Path) -> None:
    for number, damage in enumerate((Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-20]))):
        whole, tree = (tree_of(ours, tmp_path / f"{kind}{number}") for kind in ("whole", "tree"))
        damage(_leaf(tree))
        catalog = Catalog.open(tree)
        with pytest.raises(VerificationError, match=_leaf(whole).name):
            catalog.read()
        kinds = {each.kind for each in catalog.verify().problems if each.path.endswith(_leaf(whole).name)}
        assert kinds & {"missing file", "unreadable"}


def test_rows_in_a_wrong_leaf_are_told(ours: Published, tmp_path: Path) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    one, other = sorted(leaves(tree))[3:5]
    other.write_bytes(one.read_bytes())
    kinds = {problem.kind for problem in Catalog.open(tree).verify().problems}
    assert "pixel membership" in kinds
    assert "totals" in kinds or "row count" in kinds


def test_positions_that_do_not_go_with_the_index_are_told(ours: Published, tmp_path: Path) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    path = _leaf(tree)
    table = pq.read_table(path, partitioning=None)
    at = table.schema.get_field_index("dec")
    pq.write_table(table.set_column(at, "dec", pc.add(table["dec"], 0.001)), path)
    (problem,) = Catalog.open(tree).verify().problems
    assert problem.kind == "position"


def test_a_leaf_that_no_list_names_is_told(ours: Published, tmp_path: Path) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    info = tree / "partition_info.csv"
    if not info.exists():
        pytest.fail("our view has a partition_info.csv")
    lines = info.read_text().splitlines()
    info.write_text("\n".join(lines[:-1]) + "\n")
    kinds = {problem.kind for problem in Catalog.open(tree).verify().problems}
    assert {"extra file", "totals"} <= kinds


def test_leaves_that_overlap_are_refused(ours: Published, tmp_path: Path) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    info = tree / "partition_info.csv"
    head, first, *rest = info.read_text().splitlines()
    order, npix = (int(each) for each in first.split(",")[:2])
    children = f"{order + 1},{4 * npix}" + "," * (first.count(",") - 1)
    info.write_text("\n".join([head, first, children, *rest]) + "\n")
    with pytest.raises(VerificationError, match="overlap"):
        Catalog.open(tree).read()
    assert [problem.kind for problem in Catalog.open(tree).verify().problems] == ["overlapping leaves"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("partition_info.csv", "a,b\n1,2\n"),
        ("partition_info.csv", "Norder,Npix\n1,99999\n"),
        ("partition_info.csv", "Norder,Npix\nx,y\n"),
        ("hats.properties", "hats_nrows=many\nobs_collection=x\n"),
    ],
)
def test_what_names_the_leaves_and_is_damaged_is_told(
    ours: Published, tmp_path: Path, file: str, text: str
) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    (tree / file).write_text(text)
    with pytest.raises(CatalogFormatError, match=file):
        Catalog.open(tree).metadata.total_rows + len(Catalog.open(tree).pixels)


@pytest.mark.sampled(6)
def test_matches_with_a_foreign_side_are_those_of_ours(foreign: Catalog, ours: Published) -> None:
    catalog = Catalog(ours.storage, ours.metadata)
    options = {"radius_arcsec": 3000.0, "min_radius_arcsec": 1.0, "neighbours": 3}
    wanted = foreign.metadata  # read before, so that it is known
    assert wanted.total_rows == 1500
    right = Catalog.open(catalog.uri)
    mine = foreign.crossmatch(right, **options)
    theirs = catalog.crossmatch(right, **options)
    tables = [each if isinstance(each, pa.Table) else pa.concat_tables(each) for each in (mine, theirs)]
    keys = ["id", next(name for name in tables[0].column_names if name.startswith("id_"))]
    found = [np.stack([table[key].to_numpy() for key in keys]) for table in tables]
    assert np.array_equal(*found)
    assert found[0].shape[1] > 100
