"""Adoption: a catalog of others becomes versions of ours, and its leaves stay where they are."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog, adopt, make_hips, publish
from hipslake.catalog import leaf_stamps
from hipslake.errors import ConflictError, NotWritableError, SpecError, VerificationError
from hipslake.storage import parquet_tail

from tests.api.catalogs import publish_many_kinds
from tests.api.test_scan import equal
from tests.catalog.foreign_trees import leaves, tree_of, tree_of_many_leaves, variant, without_leaf
from tests.catalog.publishing import Published

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish_many_kinds(tmp_path_factory.mktemp("ours"), "hats", rows=1500)


@pytest.fixture
def tree(ours: Published, tmp_path: Path) -> Path:
    return tree_of(ours, tmp_path / "others" / "tree")


def spec_of(tree: Path, **more: Any) -> dict[str, Any]:
    copy = {"copy": True} if more.pop("copy", False) else {}
    return {"name": "theirs", "adopt": {"uri": str(tree), **copy}, **more}


def _plain(table: pa.Table) -> pa.Table:
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _same(found: pa.Table, wanted: pa.Table) -> bool:
    return equal(_plain(found.select(wanted.column_names)), _plain(wanted))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("form", "copy"),
    [
        ("as it is", False),
        ("bare", True),
        ("hipscat", False),
        ("mixed up and unplaced", False),
        ("folders, mixed up", False),
        ("folders", True),
    ],
)
def test_an_adopted_catalog_has_the_rows_of_the_one_that_others_wrote(
    ours: Published, tmp_path: Path, form: str, copy: bool
) -> None:
    tree = variant(ours, form, tmp_path / "tree")
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    spec = spec_of(tree, margin={"arcsec": [2000]}, index=["id"], copy=copy)
    catalog = adopt(spec, warehouse=tmp_path / "warehouse", spark=False)
    mine = Catalog(ours.storage, ours.metadata)
    if copy:
        shutil.rmtree(tree)
    for query in (
        {},
        {"region": "cone 50 10 12deg", "filters": "mag < 16"},
        {"pixels": [(0, 4)], "columns": ["id", "flux"]},
    ):
        assert _same(catalog.read(**query), mine.read(**query))
    assert catalog.scan().count() == 1500
    assert _same(catalog.find("id", mine.read(["id"])["id"][10:14]), mine.read(filters=_ids(mine)))
    report = catalog.verify()
    assert report.ok, report.problems
    assert report.rows == 1500
    assert catalog.metadata.adopted is not None
    assert catalog.metadata.adopted.copied is copy
    again = Catalog.open(catalog.uri)
    pairs = again.crossmatch(again, radius_arcsec=1500, min_radius_arcsec=1, neighbours="all")
    whole = pairs if isinstance(pairs, pa.Table) else pa.concat_tables(pairs)
    assert whole.num_rows == _pairs(mine)
    if not copy:
        assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def _ids(mine: Catalog) -> str:
    return f"id in ({', '.join(map(str, mine.read(['id'])['id'][10:14].to_pylist()))})"


def _pairs(mine: Catalog) -> int:
    """Pairs within 1500 arcsec, by the plainest of arithmetic; no two rows are nearer than an arcsecond."""
    import numpy as np

    table = mine.read(["ra", "dec"])
    ra, dec = (np.radians(table[name].to_numpy()) for name in ("ra", "dec"))
    points = np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=1)
    chords = np.linalg.norm(points[:, None] - points[None], axis=2)
    near, none = (2 * np.sin(np.radians(arcsec / 3600) / 2) for arcsec in (1500, 1))
    return int(((chords <= near) & (chords >= none)).sum())


def test_a_state_is_adopted_once_and_a_change_is_a_version(tree: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    first = adopt(spec_of(tree), warehouse=warehouse)
    assert (first.version, adopt(spec_of(tree), warehouse=warehouse).version) == (1, 1)
    assert adopt(spec_of(tree), warehouse=warehouse, force=True).version == 2
    gone = sorted(leaves(tree))[0]
    without_leaf(tree, gone)
    changed = adopt(spec_of(tree), warehouse=warehouse)
    assert changed.version == 3
    assert changed.metadata.total_rows < 1500
    assert changed.read().num_rows == changed.metadata.total_rows
    assert adopt(spec_of(tree, margin={"arcsec": [5]}), warehouse=warehouse).version == 4


def test_no_leaf_is_opened(ours: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    for leaf in leaves(tree):
        leaf.write_bytes(b"x" * leaf.stat().st_size)
    parquet_tail.forget_tails()
    catalog = adopt(spec_of(tree), warehouse=tmp_path / "warehouse")
    assert catalog.metadata.total_rows == 1500
    assert not catalog.verify().ok


@pytest.mark.slow
def test_of_four_thousand_leaves_none_is_opened_and_each_change_is_told(tmp_path: Path) -> None:
    tree, warehouse = tree_of_many_leaves(tmp_path / "tree", 4000), tmp_path / "warehouse"
    known = {leaf: leaf.read_bytes() for leaf in leaves(tree)}
    assert len(known) == 4000
    for leaf, data in known.items():
        put(leaf, b"x" * len(data))
    catalog = adopt(spec_of(tree), warehouse=warehouse, spark=False)
    assert catalog.version == 1
    assert (catalog.metadata.total_rows, catalog.metadata.groups[0].leaves) == (8000, 4000)
    for leaf, data in known.items():
        put(leaf, data)
    assert catalog.read(["id"])["id"].to_pylist() == list(range(8000))
    gone = tree / "dataset" / "Norder=6" / "Dir=0" / "Npix=2718.parquet"
    gone.unlink()
    parquet_tail.forget_tails()
    assert catalog.read(["id"], pixels=[(6, 2717)])["id"].to_pylist() == [5434, 5435]
    with pytest.raises(VerificationError, match=r"Npix=2718\.parquet"):
        catalog.read(["id"], pixels=[(5, 2718 // 4)])
    info = tree / "partition_info.csv"
    info.write_text(info.read_text().replace("6,2718,2\n", ""))
    properties = tree / "hats.properties"
    properties.write_text(properties.read_text().replace("hats_nrows=8000", "hats_nrows=7998"))
    (tree / "dataset" / "_metadata").unlink()
    changed = adopt(spec_of(tree), warehouse=warehouse, spark=False)
    assert (changed.version, changed.metadata.total_rows) == (2, 7998)
    assert changed.read(["id"])["id"].to_pylist() == [*range(5436), *range(5438, 8000)]


def test_a_leaf_that_is_gone_or_another_is_named(ours: Published, tmp_path: Path) -> None:
    for number, damage in enumerate((Path.unlink, _shorter)):
        tree = tree_of(ours, tmp_path / f"tree{number}")
        catalog = adopt(spec_of(tree), warehouse=tmp_path / f"warehouse{number}")
        leaf = sorted(leaves(tree))[3]
        damage(leaf)
        parquet_tail.forget_tails()
        with pytest.raises(VerificationError, match=leaf.name):
            catalog.read()
        with pytest.raises(VerificationError, match=leaf.name):
            catalog.read(filters="mag < 15")
        assert any(problem.path.endswith(leaf.name) for problem in catalog.verify().problems)


def put(leaf: Path, data: bytes) -> None:
    """Other content, as if nobody had written it."""
    before = leaf.stat()
    leaf.write_bytes(data)
    os.utime(leaf, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["as it is", "folders", "mixed up and unplaced"])
def test_a_leaf_that_is_written_again_is_told_though_it_has_as_many_rows(
    ours: Published, tmp_path: Path, form: str
) -> None:
    tree, warehouse = variant(ours, form, tmp_path / "tree"), tmp_path / "warehouse"
    catalog = adopt(spec_of(tree, margin={"arcsec": [10]}), warehouse=warehouse, spark=False)
    assert catalog.verify().ok
    leaf = sorted(path for path in tree.rglob("*.parquet") if "Npix=" in str(path))[3]
    content = leaf.read_bytes()
    time.sleep(0.01)  # the clock of a file system ticks in milliseconds
    leaf.write_bytes(content)
    for read in (
        lambda: catalog.read(),
        lambda: catalog.read(["id"], filters="mag < 15"),
        lambda: catalog.statistics(["mag"]),
        lambda: catalog.crossmatch(catalog, radius_arcsec=5, min_radius_arcsec=1),
    ):
        with pytest.raises(VerificationError, match=f"{leaf.name}.*others have changed it; adopt it anew"):
            read()
    assert any(leaf.name in f"{problem.path} {problem.message}" for problem in catalog.verify().problems)
    again = adopt(spec_of(tree, margin={"arcsec": [10]}), warehouse=warehouse, force=True, spark=False)
    assert again.version == 2
    assert again.read().num_rows == 1500
    assert again.verify().ok


def test_lost_stamps_are_told(tree: Path, tmp_path: Path) -> None:
    catalog = adopt(spec_of(tree), warehouse=tmp_path / "warehouse", spark=False)
    adopted = catalog.metadata.adopted
    assert adopted is not None
    assert adopted.stamps is not None
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert catalog.verify().ok
    Path(catalog.storage.uri(adopted.stamps.path)).unlink()
    leaf_stamps._known.cache_clear()
    with pytest.raises(VerificationError, match=r"stamps\.parquet cannot be read"):
        catalog.read()
    assert any(problem.path == adopted.stamps.path for problem in catalog.verify().problems)


def _shorter(leaf: Path) -> None:
    table = pq.read_table(leaf, partitioning=None)
    pq.write_table(table.slice(1), leaf)


def test_theirs_is_never_touched(tree: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    warehouse = tmp_path / "warehouse"
    catalog = adopt(spec_of(tree, margin={"arcsec": [10]}), warehouse=warehouse)
    for _number in range(3):
        catalog = adopt(spec_of(tree), warehouse=warehouse, force=True)
    catalog.rollback(1)
    catalog = Catalog.open(catalog.uri)
    assert catalog.read().num_rows == 1500
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert Catalog.open(catalog.uri).read().num_rows == 1500
    Catalog.open(catalog.uri).build_margin(20.0)
    assert Catalog.open(catalog.uri).verify().ok
    path = catalog.metadata.groups[0].table(catalog.storage)["path"][0].as_py()
    with pytest.raises(NotWritableError, match="only read"):
        catalog.storage.delete(path)
    with pytest.raises(NotWritableError, match="only read"):
        catalog.storage.write(path, b"")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_what_cannot_be_adopted_is_said(ours: Published, tree: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is a catalog of hipslake already"):
        adopt(spec_of(Path(ours.storage.root)), warehouse=tmp_path / "w")
    for name in ("properties", "hats.properties"):
        text = (tree / name).read_text()
        lines = [line for line in text.splitlines() if not line.startswith("hats_col_ra")]
        (tree / name).write_text("\n".join(lines))
    with pytest.raises(SpecError, match="holds a password") as caught:
        adopt({"name": "x", "adopt": {"uri": "https://me:hunter2@host/x"}}, warehouse=tmp_path)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SpecError, match="names no columns of positions"):
        adopt(spec_of(tree), warehouse=tmp_path / "w")
    with pytest.raises(SpecError, match="adopt"):
        adopt({"name": "x"}, warehouse=tmp_path / "w")


def test_tiles_are_made_of_what_was_adopted(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"is a catalog of others.*; adopt it"):
        make_hips(Catalog.open(tree))
    catalog = adopt(spec_of(tree), warehouse=tmp_path / "warehouse", spark=False)
    made = make_hips(catalog, spark=False)
    assert made.rows_in == 1500


def test_a_match_takes_an_adopted_side_by_its_name(tree: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    adopt(spec_of(tree, margin={"arcsec": [2000]}), warehouse=warehouse)
    sides = {"left": {"catalog": "theirs"}, "right": {"catalog": "theirs", "columns": ["id"]}}
    match = {"name": "pairs", **sides, "radius_arcsec": 1500, "min_radius_arcsec": 1, "neighbours": "all"}
    found = publish(match, warehouse=warehouse)
    assert found.metadata.total_rows > 50
    assert publish(match, warehouse=warehouse).version == 1
    adopt(spec_of(tree, margin={"arcsec": [2000]}), warehouse=warehouse, force=True)
    assert publish(match, warehouse=warehouse).version == 2


def test_a_catalog_that_is_written_anew_during_a_run_is_told(tree: Path, tmp_path: Path) -> None:
    from hipslake.specs.adopt_spec import AdoptSpec
    from hipslake.steps.adopt.others import has_changed, open_frozen
    from hipslake.steps.adopt.request import FrozenAdoption

    spec = AdoptSpec.model_validate(spec_of(tree))
    warehouse = str(tmp_path / "warehouse")
    assert has_changed(spec, warehouse)
    adopt(spec, warehouse=warehouse)
    assert not has_changed(spec, warehouse)
    told = FrozenAdoption(spec=spec, uri=str(tree), state="other")
    with pytest.raises(ConflictError, match="written anew since the run began"):
        open_frozen(told, warehouse)
    without_leaf(tree, sorted(leaves(tree))[0])
    assert has_changed(spec, warehouse)
