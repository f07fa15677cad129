"""Values are found through an index: exact, in few leaves, also after nights and compactions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.catalog.committing import commit_next
from hipslake.catalog.leaf_reads import LeafRead, OpenLeaf
from hipslake.errors import IndexMissingError, SchemaMismatchError, VerificationError
from hipslake.versions.version_write import writing

from tests.peers.running import run_peer
from tests.steps import in_process
from tests.steps.append.test_sources_grow import night
from tests.steps.sources_of_objects import KINDS, Lake, objects_table, sources_table

pytestmark = pytest.mark.sampled(2)

INDEX = {"index": ["source_id", "object_id"]}


@pytest.fixture(scope="module", params=list(KINDS))
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Sources where they were seen, in about a hundred leaves, with an index of several files."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    sources = sources_table(objects_table(kind=request.param))
    catalog = lake.ingest("sources", sources, **INDEX)
    assert len(catalog.metadata.index_of("source_id").files) > 3
    return catalog


@contextmanager
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The leaf files that are opened."""
    paths: set[str] = set()
    read = LeafRead.open

    def counted(leaf: LeafRead) -> OpenLeaf:
        paths.add(leaf.path)
        return read(leaf)

    with monkeypatch.context() as patch:
        patch.setattr(LeafRead, "open", counted)
        yield paths


def test_only_the_leaves_that_hold_the_ids_are_opened(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = catalog.read()
    ids = [3, 77, 9999, 5]
    rows = every.filter(pc.field("source_id").isin(ids))
    with opened(monkeypatch) as paths:
        found = catalog.find("source_id", [*ids, -1, 10**12])
    assert found.equals(rows)
    leaves = set(catalog.pixels.find(rows["_healpix_29"].to_numpy()).tolist())
    assert len(paths) == len(leaves) <= 4
    with opened(monkeypatch) as paths:
        assert catalog.find("source_id", [-1], ["flux"]).schema.names == ["flux"]
    assert not paths


def test_found_is_what_a_filter_finds(catalog: Catalog) -> None:
    objects = catalog.read(["object_id"])["object_id"].unique()[:50]
    found = catalog.find("object_id", objects, columns=["source_id", "object_id"])
    expected = catalog.read(["source_id", "object_id"], filters=pc.field("object_id").isin(objects))
    assert found.equals(expected)
    assert found.num_rows > 100
    one = objects[0].as_py()
    assert set(catalog.find("object_id", one)["object_id"].to_pylist()) == {one}


def test_what_cannot_be_found_is_told(catalog: Catalog) -> None:
    with pytest.raises(
        IndexMissingError, match=r"'flux' .* write 'index: \[flux\]' .* catalog_index__sources"
    ):
        catalog.find("flux", [1.0])
    with pytest.raises(SchemaMismatchError, match="did you mean 'source_id'"):
        catalog.find("sourceid", [1])
    with pytest.raises(SchemaMismatchError, match="values of column 'source_id'"):
        catalog.find("source_id", ["seven"])


@pytest.mark.parametrize("damage", [lambda data: None, lambda data: data[:-9], lambda data: bytes(len(data))])
def test_a_damaged_index_is_told(
    catalog: Catalog, tmp_path: Path, damage: Callable[[bytes], bytes | None]
) -> None:
    copy = Path(shutil.copytree(catalog.storage.root, tmp_path / "copy", symlinks=True))
    for file in catalog.metadata.index_of("source_id").files:
        damaged = damage((copy / file.path).read_bytes())
        (copy / file.path).unlink()
        if damaged is not None:
            (copy / file.path).write_bytes(damaged)
    with pytest.raises(VerificationError, match=r"Catalog.verify\(\) tells more"):
        Catalog.open(copy).find("source_id", [3])


def test_values_come_in_any_vessel(tmp_path: Path) -> None:
    catalog = Lake(tmp_path).ingest("objects", objects_table(rows=50), index=["id"])
    ids = catalog.read(["id"])["id"].to_pylist()[:3]
    one = catalog.find("id", ids[0])
    rows = catalog.find("id", ids)
    assert (one.num_rows, rows.num_rows) == (1, 3)
    series = pd.Series(ids)
    for values in (set(ids), iter(ids), tuple(ids), series, series.astype("Int64"), pd.Index(ids)):
        assert catalog.find("id", values).equals(rows)
    assert catalog.find("id", [*ids, None, 2**63, 2**70, -(2**70)]).equals(rows)
    for value in (np.array(ids[0]), np.int64(ids[0]), pa.scalar(ids[0])):
        assert catalog.find("id", value).equals(one)
    for wrong in (["x", 1], [1, "x"], b"x", [[1]], {"id": 1}, [2**70, "x"], np.zeros((2, 2), np.int64), 1.0):
        with pytest.raises(SchemaMismatchError, match="values of column 'id' of catalog objects"):
            catalog.find("id", wrong)


def test_ids_beyond_signed_numbers_are_found(tmp_path: Path) -> None:
    table = objects_table(rows=40)
    ids = pa.array(2**63 - 20 + np.arange(40, dtype=np.uint64), pa.uint64())
    catalog = Lake(tmp_path).ingest("objects", table.set_column(0, "id", ids), index=["id"])
    wanted = [2**63 - 20, 2**63 - 1, 2**63, 2**63 + 19]
    for some in (wanted, wanted[:1], wanted[-1:]):
        assert sorted(catalog.find("id", some)["id"].to_pylist()) == some
    assert catalog.find("id", [-1, 2**64, 2**63 + 20]).num_rows == 0


LIMITS = sorted(
    {number + step for number in (-(2**63), -(2**31), 0, 2**31, 2**63, 2**64) for step in (-1, 0, 1)}
)


def within(numbers: list[int], kind: pa.DataType) -> list[int]:
    """Those of some numbers that a type holds, by Python's own arithmetic."""
    limits = np.iinfo(kind.to_pandas_dtype())
    return [number for number in numbers if limits.min <= number <= limits.max]


@pytest.mark.parametrize("held", [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()], ids=str)
def test_numbers_at_the_limits_of_their_types_are_found(tmp_path: Path, held: pa.DataType) -> None:
    ids = within(LIMITS, held)
    table = objects_table(rows=len(ids))
    catalog = Lake(tmp_path).ingest("objects", table.set_column(0, "id", pa.array(ids, held)), index=["id"])

    def found(values: object) -> list[int]:
        return sorted(catalog.find("id", values, ["id"])["id"].to_pylist())

    assert found(LIMITS) == ids
    for given in (pa.int32(), pa.int64(), pa.uint32(), pa.uint64()):
        asked = within(LIMITS, given)
        expected = [number for number in asked if number in ids]
        assert found(pa.array([*asked, None, *asked], given)) == expected
        assert found(np.array(asked, given.to_pandas_dtype())) == expected
        assert found(pa.array(asked, given).dictionary_encode()) == expected


def test_an_index_is_verified(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    catalog = lake.ingest("sources", sources_table(objects_table(), rows=2000), **INDEX)
    catalog.verify().raise_if_failed()
    [source, other] = catalog.metadata.indices
    swapped = source.model_copy(update={"files": other.files, "column": "source_id"})
    catalog.metadata = catalog.metadata.model_copy(update={"indices": (swapped,)})
    assert ProblemKind.UNREADABLE in {problem.kind for problem in catalog.verify().problems}
    few = source.model_copy(update={"files": source.files[:-1] or ()})
    catalog.metadata = catalog.metadata.model_copy(update={"indices": (few,)})
    assert ProblemKind.INDEX_ENTRIES in {problem.kind for problem in catalog.verify().problems}


def test_rows_of_later_nights_are_found_before_and_after_the_index_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    objects = objects_table()
    nights = [with_offset(sources_table(objects, rows=1500, seed=at), 10_000 * at) for at in range(3)]
    spec = {"append": "add_file", "threshold": "400 rows", **INDEX}
    night(lake, "sources", 0, nights[0], **spec)
    report = rebuild(lake, spec)
    assert (report.version, report.columns) == (2, ("source_id", "object_id"))
    night(lake, "sources", 1, nights[1], **spec)
    ids = [5, 10_007, 1499, 11_111, 20_003]
    catalog = lake.open("sources")
    assert catalog.find("source_id", ids)["source_id"].to_pylist() == expected(catalog, ids)
    catalog.verify().raise_if_failed()
    rebuild(lake, spec)
    night(lake, "sources", 1, with_offset(nights[1], 500_000), **spec)  # in the place of the night before
    night(lake, "sources", 2, nights[2], **spec)
    catalog = lake.open("sources")
    assert catalog.find("source_id", ids)["source_id"].to_pylist() == expected(catalog, ids) != []
    assert catalog.find("source_id", 510_007).num_rows == 1
    report = rebuild(lake, spec)
    catalog = lake.open("sources")
    with opened(monkeypatch) as paths:
        found = catalog.find("source_id", ids)
    assert found["source_id"].to_pylist() == expected(catalog, ids)
    leaves = np.unique(catalog.pixels.find(found["_healpix_29"].to_numpy()))
    assert {path.split("Npix=")[1].split("/")[0] for path in paths} == {
        str(catalog.pixels.npix[leaf]) for leaf in leaves
    }
    catalog.verify().raise_if_failed()
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert lake.open("sources").find("source_id", ids)["source_id"].to_pylist() == expected(catalog, ids)
    lake.open("sources").verify().raise_if_failed()


@pytest.mark.peers
def test_lsdb_finds_the_same_rows(catalog: Catalog, peers_python: str) -> None:
    objects = catalog.read(["object_id"])["object_id"].unique()[:3].to_pylist()
    for column, values in (("source_id", [3, 77, 9999]), ("object_id", objects)):
        script = Path(__file__).with_name("find_by_peers.py")
        printed = run_peer(peers_python, script, catalog.uri, column, *map(str, values))
        told = json.loads(printed.splitlines()[-1])
        assert told["valid"]
        assert told["index_valid"]
        assert told["properties"] == column
        found = catalog.find(column, values)
        assert told["rows"] == sorted(found["source_id"].to_pylist())
        assert told["partitions"] == len(np.unique(catalog.pixels.find(found["_healpix_29"].to_numpy())))


@pytest.mark.peers
def test_lsdb_finds_rows_by_an_index_that_followed_a_night(tmp_path: Path, peers_python: str) -> None:
    lake, objects = Lake(tmp_path), objects_table()
    spec = {"threshold": "1200 rows", "index": ["source_id"]}
    night(lake, "sources", 0, sources_table(objects), **spec)
    rebuild(lake, spec)
    night(lake, "sources", 1, with_offset(sources_table(objects, rows=15, seed=9), 50_000), **spec)
    report = rebuild(lake, spec)
    assert report.files_kept
    catalog = lake.open("sources")
    in_process.show(lake.start("sources", **spec))
    values = [3, 7, 9999, 50_003, 50_014]
    printed = run_peer(
        peers_python,
        Path(__file__).with_name("find_by_peers.py"),
        catalog.uri,
        "source_id",
        *map(str, values),
    )
    told = json.loads(printed.splitlines()[-1])
    assert told["valid"]
    assert told["index_valid"]
    assert told["rows"] == values == sorted(catalog.find("source_id", values)["source_id"].to_pylist())


def test_an_index_of_an_older_library_is_read_and_then_made_anew(tmp_path: Path) -> None:
    lake, objects = Lake(tmp_path), objects_table()
    spec = {"threshold": "400 rows", "index": ["source_id"]}
    night(lake, "sources", 0, sources_table(objects, rows=1500), **spec)
    rebuild(lake, spec)
    catalog = lake.open("sources")
    [index] = catalog.metadata.indices
    files = tuple(file.model_copy(update={"pixel": None, "ranks": None}) for file in index.files)
    old = index.model_copy(update={"files": files, "built_of": None})
    with writing(catalog.storage) as write:
        commit_next(
            catalog.storage,
            write.heartbeat,
            lambda: catalog.metadata.followed_by(write.id, indices=(old,)),
        )
    night(lake, "sources", 1, with_offset(sources_table(objects, rows=15, seed=9), 50_000), **spec)
    ids = [5, 1499, 50_003, 50_014, -1]
    catalog = lake.open("sources")
    assert catalog.metadata.indices == (old,)
    assert catalog.find("source_id", ids)["source_id"].to_pylist() == expected(catalog, ids)
    catalog.verify().raise_if_failed()
    report = rebuild(lake, spec)
    assert "older library" in report.full_because["source_id"]
    catalog = lake.open("sources")
    assert catalog.find("source_id", ids)["source_id"].to_pylist() == expected(catalog, ids)
    catalog.verify().raise_if_failed()


def expected(catalog: Catalog, ids: list[int]) -> list[int]:
    """By reading everything."""
    every = catalog.read(["source_id"])["source_id"]
    return [name for name in every.to_pylist() if name in ids]


def with_offset(sources: pa.Table, offset: int) -> pa.Table:
    return sources.set_column(0, "source_id", pc.add(sources["source_id"], offset))


def rebuild(lake: Lake, spec: dict[str, object]) -> object:
    """Build the indices of the newest version anew."""
    source = {"uri": f"{lake.place}/landing/sources/{{{{ night }}}}/*.parquet", "format": "parquet"}
    folder = lake.start("sources", source=source, mode="append", **spec)
    return lake.build_index(folder, published=True)
