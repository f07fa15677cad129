"""Catalogs in stores give the rows of their leaf files, as plain pyarrow reads them from a disk."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog import leaf_fetching
from hipslake.errors import StorageError, VerificationError
from hipslake.sphere.regions import Region
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.catalogs import LAYOUTS, publish_many_kinds
from tests.api.test_scan import equal as tables_equal
from tests.catalog.test_change_feed import survey_in
from tests.examples import examples
from tests.sphere.regions.skies import REGIONS
from tests.steps.nights import night_rows

FILTERS = {
    None: None,
    "mag < 15": lambda rows: pc.less(rows["mag"], 15),
    "mag > 12 and ra < 200": lambda rows: pc.and_(pc.greater(rows["mag"], 12), pc.less(rows["ra"], 200)),
    "id = 3": lambda rows: pc.equal(rows["id"], 3),
}


def equal(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables are one, whatever their dictionaries are."""
    one, other = _without_dictionaries(left), _without_dictionaries(right)
    return left.schema == right.schema and tables_equal(one, other)


def _without_dictionaries(rows: pa.Table) -> pa.Table:
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(at, field.name, rows[field.name].cast(field.type.value_type))
    return rows


def copied(root: Path, target: str) -> Catalog:
    """A catalog, copied file by file."""
    storage = Storage.at(target)
    for path in root.rglob("*"):
        if path.is_file():
            storage.write(str(path.relative_to(root)), path.read_bytes())
    return Catalog.open(target)


def plain(catalog: Catalog) -> pa.Table:
    """All rows of a catalog on disk: every file of every group, joined by `_row`, along the curve."""
    joined: pa.Table | None = None
    for group in catalog.groups:
        schema = catalog.schema_of(group)
        files = catalog.metadata.partitions(group, catalog.storage)["path"].to_pylist()
        tables = [pq.ParquetFile(catalog.storage.uri(path)).read() for path in files]
        columns = {}
        for field in schema:
            pieces = [
                each[field.name].cast(field.type)
                if field.name in each.column_names
                else pa.chunked_array([pa.nulls(len(each), field.type)])
                for each in tables
            ]
            columns[field.name] = pa.chunked_array(
                [chunk for each in pieces for chunk in each.chunks], field.type
            )
        rows = pa.table(columns, schema=schema)
        keys = [name for name in ("_healpix_29", "_row") if name in rows.column_names]
        rows = rows.take(pa.array(np.lexsort([rows[key].to_numpy() for key in reversed(keys)])))
        if joined is not None:
            assert rows["_row"].equals(joined["_row"])
            for name in rows.column_names:
                if name not in joined.column_names:
                    joined = joined.append_column(schema.field(name), rows[name])
        else:
            joined = rows
    assert joined is not None
    return joined.select(catalog.schema.names).cast(catalog.schema)


def chosen(rows: pa.Table, region: Region | None, filters: str | None, columns: list[str] | None) -> pa.Table:
    """What a read of these rows has to give."""
    passing = np.ones(len(rows), bool)
    if region is not None:
        passing &= region.contains(rows["ra"].to_numpy(), rows["dec"].to_numpy())
    if filters is not None:
        passing &= FILTERS[filters](rows).fill_null(False).to_numpy(zero_copy_only=False)
    found = rows.filter(pa.array(passing))
    return found if columns is None else found.select(columns)


@pytest.fixture(scope="module")
def memory() -> Iterator[Callable[[], str]]:
    """Gives roots in memory."""
    root = f"memory://{uuid.uuid4().hex}"
    yield lambda: f"{root}/{uuid.uuid4().hex}"
    fsspec.filesystem("memory").rm(root, recursive=True)


Made = tuple[Catalog, Catalog, pa.Table]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory, memory: Callable[[], str]) -> dict[str, Made]:
    """Catalogs of one version in each layout, with columns of many kinds: on disk, in memory, plain."""
    found = {}
    for layout in LAYOUTS:
        root = Path(publish_many_kinds(tmp_path_factory.mktemp("kinds"), layout).storage.root)
        local = Catalog.open(root)
        found[layout] = local, copied(root, memory()), plain(local)
    return found


@settings(max_examples=examples(150), deadline=None)
@given(
    layout=st.sampled_from(list(LAYOUTS)),
    region=st.none() | REGIONS,
    near=st.none() | st.tuples(st.integers(0, 2499), st.sampled_from([0.001, 1.0, 5.0, 30.0])),
    filters=st.sampled_from(list(FILTERS)),
    columns=st.none()
    | st.lists(st.sampled_from(["id", "ra", "mag", "note", "flux", "band"]), min_size=1, unique=True),
)
def test_any_read_gives_the_rows_of_the_files(
    kinds: dict[str, Made],
    layout: str,
    region: Region | None,
    near: tuple[int, float] | None,
    filters: str | None,
    columns: list[str] | None,
) -> None:
    local, stored, rows = kinds[layout]
    if near is not None:
        at, radius = near
        region = _cone_at(rows, at, radius)
    expected = chosen(rows, region, filters, columns)
    for catalog in (local, stored):
        found = catalog.read(columns, filters, region=region)
        assert equal(found, expected)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert equal(catalog.scan(columns, filters, region=region).to_arrow(), expected)


def _cone_at(rows: pa.Table, at: int, radius: float) -> Region:
    from hipslake.sphere.regions import Cone

    return Cone(rows["ra"][at].as_py(), rows["dec"][at].as_py(), radius)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("has_flag", [False, True])
@pytest.mark.parametrize(
    "shape", ["hats", "hats, add_file", "hipscat, two groups", "hats, two groups, add_file"]
)
@pytest.mark.parametrize("seed", range(3))
def test_catalogs_that_grew_are_read_from_s3(
    bucket: str, tmp_path: Path, shape: str, has_flag: bool, seed: int
) -> None:
    """Leaves of several files, files older than a column, a margin, nights that came again."""
    rng = random.Random(f"{shape} {has_flag} {seed}")
    survey = survey_in(tmp_path, shape)
    for number in range(rng.randint(1, 3)):
        survey.night(number, rows=rng.choice([30, 200]))
    if has_flag:
        more = night_rows(3, 150)
        survey.land(3, more.append_column("flag", pa.array(np.arange(150))))
        survey.append(3)
    elif rng.random() < 0.5:
        survey.night(0, rows=100, seed=1)
    if rng.random() < 0.5:
        survey.compact(min_files=2)
    if rng.random() < 0.5:
        survey.catalog.build_margin(300.0)
    local = Catalog.open(survey.root)
    rows = plain(local)
    stored = copied(Path(survey.root), f"{bucket}/{uuid.uuid4().hex}")
    assert equal(local.read(), rows)
    assert equal(stored.read(), rows)
    for _ in range(3):
        region = _cone_at(rows, rng.randrange(len(rows)), rng.choice([0.01, 2.0, 30.0]))
        filters, columns = rng.choice([None, "mag < 15"]), rng.choice([None, ["id"], ["mag", "id"]])
        expected = chosen(rows, region, filters, columns)
        assert equal(local.read(columns, filters, region=region), expected)
        assert equal(stored.read(columns, filters, region=region), expected)
        assert equal(pa.concat_tables(stored.tables(columns, filters, region=region)), expected)
    assert equal(stored.sample(20, seed=3), local.sample(20, seed=3))
    assert stored.statistics() == local.statistics()


@pytest.mark.parametrize("whole", [False, True], ids=["by ranges", "whole"])
@pytest.mark.parametrize("window", [1, 30_000, 1 << 30])
def test_a_scan_reads_ahead_no_more_than_its_window(
    kinds: dict[str, Made], monkeypatch: pytest.MonkeyPatch, window: int, whole: bool
) -> None:
    _, stored, rows = kinds["hats"]
    monkeypatch.setattr(leaf_fetching, "WINDOW_BYTES", window)
    monkeypatch.setattr(leaf_fetching, "MOST_REQUESTS", 4)
    if not whole:
        monkeypatch.setattr("hipslake.catalog.leaf_reads._WHOLE_BYTES", 0)
        monkeypatch.setattr("hipslake.catalog.leaf_reads._TAIL_BYTES", 8)
        monkeypatch.setattr("hipslake.catalog.leaf_reads._COLUMN_BYTES", 0)
        monkeypatch.setattr("hipslake.catalog.leaf_reads._CHUNK_BYTES", 0)
    sizes = stored.metadata.partitions(None, stored.storage)["bytes"].to_numpy()
    fetched: list[int] = []
    for name in ("read_range", "range_buffer"):
        read = getattr(Storage, name)

        def counted(self: Storage, path: str, start: int, stop: int, read: Any = read) -> Any:
            fetched.append(stop - start)
            return read(self, path, start, stop)

        monkeypatch.setattr(Storage, name, counted)
    tables = stored.tables()
    first = next(tables)
    begun = (os.cpu_count() or 1) + 3  # parts that wait for a core, and the one that was given
    assert sum(fetched) <= window + int(sizes.max()) * begun + sum(sorted(sizes)[-4:])
    assert fetched
    if window == 1:
        assert sum(fetched) < sizes.sum() / 2
    assert equal(pa.concat_tables([first, *tables]), rows)


def _damaged(data: bytes, kind: str) -> bytes | None:
    return {
        "gone": None,
        "empty": b"",
        "short": data[:-200],
        "half": data[: len(data) // 2],
        "longer": data + b"x" * 3000,
        "other": b"x" * len(data),
        "tail of another": data[:-8] + b"\xff\xff\xff\x7fPAR1",
    }[kind]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("small", [True, False], ids=["whole", "by ranges"])
@pytest.mark.parametrize("kind", ["gone", "empty", "short", "half", "longer", "other", "tail of another"])
@pytest.mark.parametrize("place", ["memory", "s3"])
def test_a_leaf_that_is_damaged_is_told(
    request: pytest.FixtureRequest,
    kinds: dict[str, Made],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    kind: str,
    small: bool,
) -> None:
    local = kinds["hats"][0]
    root = f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}"
    if place == "memory":
        root = request.getfixturevalue("memory")()
    if not small:
        monkeypatch.setattr("hipslake.catalog.leaf_reads._WHOLE_BYTES", 0)
        monkeypatch.setattr("hipslake.catalog.leaf_reads._TAIL_BYTES", 64)
    stored = copied(Path(local.storage.root), root)
    path = stored.metadata.partitions(None, stored.storage)["path"][4].as_py()
    data = _damaged(stored.storage.read(path), kind)
    if data is None:
        stored.storage.delete(path)
    else:
        stored.storage.write(path, data)
    told = "is missing" if kind == "gone" else "cannot be read"
    for read in (stored.read, lambda: list(stored.tables(["id"])), lambda: stored.statistics(["mag"])):
        with pytest.raises(VerificationError, match=f"{path} {told}"):
            read()


def test_a_leaf_that_was_written_anew_is_read_as_it_is(
    kinds: dict[str, Made], memory: Callable[[], str]
) -> None:
    """Its size is not the one that is known: the store is asked."""
    local, _, rows = kinds["hats"]
    stored = copied(Path(local.storage.root), memory())
    path = stored.metadata.partitions(None, stored.storage)["path"][2].as_py()
    table = pq.read_table(local.storage.uri(path))
    for options in ({"compression": "none"}, {"compression": "zstd", "compression_level": 19}):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=50, **options)
        stored.storage.write(path, sink.getvalue())
        assert stored.storage.entry(path).size != Path(local.storage.uri(path)).stat().st_size
        assert equal(stored.read(), rows)


@pytest.mark.parametrize("error", [StorageError("the store is away"), FileNotFoundError(2, "gone")])
def test_an_error_of_a_request_comes_in_its_turn(
    kinds: dict[str, Made], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Rows of the leaves before it are given; of those after it, none."""
    stored = kinds["hats"][1]
    files = stored.metadata.partitions(None, stored.storage)
    paths, counts = files["path"].to_pylist(), files["rows"].to_pylist()
    reads: dict[str, Any] = {name: getattr(Storage, name) for name in ("read_range", "range_buffer")}
    monkeypatch.setattr("hipslake.catalog.leaf_reads._WHOLE_BYTES", 0)
    monkeypatch.setattr("hipslake.catalog.leaf_reads._TAIL_BYTES", 64)
    for broken in (0, 5, len(paths) - 1):
        for name, read in reads.items():

            def failing(
                self: Storage, path: str, start: int, stop: int, bad: str = paths[broken], read: Any = read
            ) -> Any:
                if path == bad and start < 1000:
                    raise error
                return read(self, path, start, stop)

            monkeypatch.setattr(Storage, name, failing)
        found: list[pa.Table] = []
        kind, text = (StorageError, "is away")
        if isinstance(error, OSError):
            kind, text = (VerificationError, "is missing")
        with pytest.raises(kind, match=text):
            found.extend(stored.tables(["id"]))
        assert sum(map(len, found)) == sum(counts[:broken])
