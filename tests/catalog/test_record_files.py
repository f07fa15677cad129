"""Files of key records: what is written is found again, by any key, and at a cost that does not grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.metadata import RecordRun
from hipslake.catalog.metadata.key_records import MOST_FILES, described_run
from hipslake.catalog.records import run_files
from hipslake.catalog.records.key_columns import KeyColumns, as_plain, plain_key_type
from hipslake.catalog.records.record_lookup import BY_ROW, LookedAt, lookup, lookup_rows
from hipslake.catalog.records.record_rows import as_records, key_of, records_schema
from hipslake.catalog.records.run_files import KeySpan, read_span, run_folder, write_run_files
from hipslake.errors import CatalogFormatError, VerificationError
from hipslake.storage.folder import Storage
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.keyed import KINDS, WRITE, key_columns, run_of_records


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path)


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 40 entries, and row groups of 7."""
    monkeypatch.setattr(run_files, "FILE_ROWS", 40)
    monkeypatch.setattr(run_files, "_GROUP_ROWS", 7)


def records_of(kind: str, numbers: list[int], ordinals: list[int], *, order: bool = False) -> pa.Table:
    """Records of keys by number; every third is a delete."""
    rows = key_columns(kind, numbers)
    if order:
        rows = rows.append_column("seq", pa.array(np.arange(len(numbers)) / 2))
    row = (np.array(ordinals, np.int64) << 40) + np.arange(len(numbers))
    return as_records(
        rows,
        records_schema(rows.schema, list(KINDS[kind][0]), "seq" if order else None),
        "seq" if order else None,
        row=row,
        h29=row * 31 % 1_000_003,
        delete=np.arange(len(numbers)) % 3 == 0,
    )


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as Python values, in an order of their own."""
    return sorted(table.to_pylist(), key=lambda row: row["_row"])


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_all_types_are_found_in_all_runs(storage: Storage, kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    runs, tables = [], []
    for number in range(3):
        keys = rng.integers(0, 1000, 120).tolist()
        table = records_of(
            kind, keys, rng.integers(3 * number, 3 * number + 3, 120).tolist(), order=number == 9
        )
        dead = 3 * number + 1
        runs.append(run_of_records(storage, table, f"run_{number}", {3 * number, 3 * number + 2}))
        tables.append(table.filter(pa.array(table["_row"].to_numpy() >> 40 != dead)))
    schema = tables[0].schema
    wanted = [*rng.integers(0, 1000, 200).tolist(), *range(10)]
    plain = records_of(kind, wanted, [0] * len(wanted)).select(KINDS[kind][0])
    names = list(KINDS[kind][0])
    values = {tuple(row[name] for name in names) for row in plain.to_pylist()}
    expected = [
        row for table in tables for row in plain_rows(table) if tuple(row[n] for n in names) in values
    ]
    found = lookup(storage, runs, schema, plain)
    assert found.schema.equals(schema)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected))
    assert len(expected) > 15
    (codes,) = key_of(schema).ranks(found)
    assert (np.diff(codes) >= 0).all()


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("kind", ["int64", "string", "two", "timestamp", "decimal32"])
@given(low=st.integers(0, 1000), high=st.integers(0, 1000), dead=st.sets(st.integers(0, 4)))
def test_spans_hold_every_entry_that_counts_once(
    tmp_path_factory: pytest.TempPathFactory, kind: str, low: int, high: int, dead: set[int]
) -> None:
    storage = Storage.at(tmp_path_factory.mktemp("runs"))
    rng = np.random.default_rng(low)
    tables = [
        records_of(kind, rng.integers(0, 1000, 90).tolist(), rng.integers(5 * n, 5 * n + 5, 90).tolist())
        for n in range(2)
    ]
    runs = [
        run_of_records(storage, table, f"run_{n}", {5 * n + at for at in range(5)} - dead)
        for n, table in enumerate(tables)
    ]
    together = pa.concat_tables(tables)
    by = key_of(together.schema)
    ends = records_of(kind, [low, high], [0, 0]).select(by.names) if max(low, high) < 1000 else None
    span = KeySpan() if ends is None else KeySpan(ends.slice(0, 1), ends.slice(1, 1))
    found = list(read_span(storage, runs, together.schema, by, span))
    rows = [row for table in found for row in table["_row"].to_pylist()]
    codes, limits = by.ranks(together, together.slice(0, 0) if ends is None else ends)
    inside = np.ones(len(codes), bool) if ends is None else (codes >= limits[0]) & (codes < limits[1])
    counts = ~np.isin(together["_row"].to_numpy() >> 40, sorted(dead))
    assert sorted(rows) == sorted(together["_row"].to_numpy()[inside & counts].tolist())


@pytest.mark.usefixtures("small_files")
def test_plain_readers_find_the_files_sorted_and_whole(storage: Storage) -> None:
    table = records_of("two", list(range(999, -1, -1)), [3] * 1000, order=True)
    run = run_of_records(storage, table, "night")
    files = run.listed(storage)
    assert run.sidecar is not None
    assert len(files) > MOST_FILES
    read = pa.concat_tables([pq.read_table(storage.uri(file.path)) for file in files])
    names = ["field", "day", "id"]
    assert read.select(names).to_pylist() == sorted(
        read.select(names).to_pylist(), key=lambda r: tuple(r.values())
    )
    assert plain_rows(read) == plain_rows(table)
    assert sum(file.rows for file in files) == run.rows == 1000
    for file in files:
        parquet = pq.ParquetFile(storage.uri(file.path))
        assert parquet.metadata.num_rows == file.rows <= 40
        assert parquet.metadata.row_group(0).num_rows <= 7
        assert (storage.entry(file.path).size, storage.sha256(file.path)) == (file.bytes, file.sha256)
    assert run.bytes == sum(file.bytes for file in files)


class _CountedFile:
    """A local file that counts the bytes that are read of it."""

    read_bytes = 0
    opened = 0

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115
        type(self).opened += 1

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        type(self).read_bytes += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _cost(
    storage: Storage, run: RecordRun, schema: pa.Schema, keys: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> tuple[LookedAt, int, int]:
    """What a lookup says that it read, and the files and bytes that it did read."""
    looked_at = LookedAt()
    with monkeypatch.context() as patch:
        patch.setattr(
            Storage,
            "arrow_file",
            lambda self, path, size=None: pa.PythonFile(_CountedFile(self.uri(path)), mode="r"),
        )
        _CountedFile.read_bytes = _CountedFile.opened = 0
        found = lookup(storage, [run], schema, keys, looked_at)
    assert found.num_rows == keys.num_rows
    return looked_at, _CountedFile.opened, _CountedFile.read_bytes


def test_near_keys_cost_as_much_in_a_catalog_forty_times_as_large(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "FILE_ROWS", 50_000)
    monkeypatch.setattr(run_files, "_GROUP_ROWS", 1000)
    costs = []
    for size in (25_000, 1_000_000):
        numbers = np.arange(size)
        schema = records_schema(pa.schema([("id", pa.int64())]), ["id"], None)
        ids = numbers * 37 + 5
        table = as_records(
            pa.table({"id": ids}),
            schema,
            None,
            row=numbers,
            h29=ids * 997 % 100_003,
            delete=np.zeros(size, bool),
        )
        run = run_of_records(storage, table, f"of_{size}", [0])
        near = pa.table({"id": ids[size // 2 : size // 2 + 700]}, schema=key_of(schema).schema)
        far = pa.table({"id": ids[:: size // 700][:700]}, schema=key_of(schema).schema)
        costs.append(
            (_cost(storage, run, schema, near, monkeypatch), _cost(storage, run, schema, far, monkeypatch))
        )
    (small, small_far), (large, large_far) = costs
    assert large[0].files == large[1] == small[0].files == 1
    assert large[0].row_groups <= 2
    assert large[2] < 1.6 * small[2] + 100_000
    assert large_far[0].files == large_far[1] == 20  # so that files and bytes are counted at all
    assert large_far[2] > 10 * small_far[2]
    assert abs(large[0].bytes - 2 * run.bytes / 1000) < 0.2 * large[0].bytes + 2000


def test_what_is_damaged_is_told(storage: Storage) -> None:
    table = records_of("int64", list(range(100)), [1] * 100)
    run = run_of_records(storage, table, "night")
    (file,) = run.listed(storage)
    keys = table.select(["id"])
    other = table.slice(0, 50)
    sink = pa.BufferOutputStream()
    pq.write_table(other, sink)
    storage.write(file.path, sink.getvalue())
    wrong = file.model_copy(update={"bytes": storage.entry(file.path).size})
    with pytest.raises(VerificationError, match="is not the file of key records that was written"):
        lookup(storage, [run.model_copy(update={"files": (wrong,)})], table.schema, keys)
    storage.write(file.path, b"PAR1 nothing")
    with pytest.raises(VerificationError, match="cannot be read"):
        lookup(storage, [run], table.schema, keys)
    storage.delete(file.path)
    with pytest.raises(VerificationError, match="is missing"):
        lookup(storage, [run], table.schema, keys)
    strange = file.model_copy(update={"first": ("one",)})
    with pytest.raises(CatalogFormatError, match="'id' is int64, and a file is said to begin or end"):
        lookup(storage, [run.model_copy(update={"files": (strange,)})], table.schema, keys)


def test_no_keys_and_no_runs_find_nothing(storage: Storage) -> None:
    table = records_of("string", [1, 2, 3], [0, 0, 0])
    run = run_of_records(storage, table, "night")
    none = table.select(["name"]).slice(0, 0)
    assert lookup(storage, [run], table.schema, none).num_rows == 0
    assert lookup(storage, [], table.schema, table.select(["name"])).num_rows == 0
    assert (
        write_run_files(storage, run_folder(WRITE, "empty"), 0, table.slice(0, 0), key_of(table.schema)) == []
    )
    empty = described_run(storage, WRITE, "empty", [], [4])
    assert (empty.name, empty.write_id, empty.ordinals) == (None, None, "4")
    assert lookup(storage, [empty, run], table.schema, table.select(["name"])).num_rows == 3


@pytest.mark.parametrize("kind", KINDS)
@given(numbers=st.lists(st.integers(0, 999), max_size=20))
def test_texts_of_keys_are_read_back(kind: str, numbers: list[int]) -> None:
    rows = key_columns(kind, numbers)
    by = KeyColumns.of(rows.schema, rows.schema.names)
    plain = pa.table(
        [as_plain(rows[name], of) for name, of in zip(by.names, by.types, strict=True)], schema=by.schema
    )
    assert by.from_texts(by.texts(plain)).equals(plain)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("string", "dictionary")])
@given(numbers=st.lists(st.integers(0, 999), max_size=30))
def test_ranks_have_the_order_of_keys(kind: str, numbers: list[int]) -> None:
    rows = key_columns(kind, numbers)
    by = KeyColumns.of(rows.schema, rows.schema.names)
    plain = pa.table(
        [as_plain(rows[name], of) for name, of in zip(by.names, by.types, strict=True)], schema=by.schema
    )
    first, second = by.ranks(plain.slice(0, 10), plain.slice(10))
    assert [*first.tolist(), *second.tolist()] == np.unique(numbers, return_inverse=True)[1].tolist()


@given(texts=st.lists(st.text(max_size=4), max_size=30))
def test_texts_are_ordered_by_their_characters(texts: list[str]) -> None:
    by = KeyColumns(("name",), (pa.large_string(),))
    (ranks,) = by.ranks(pa.table({"name": pa.array(texts, pa.large_string())}))
    order = {text: at for at, text in enumerate(sorted(set(texts)))}
    assert ranks.tolist() == [order[text] for text in texts]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int16(), pa.int64()),
        (pa.string(), pa.large_string()),
        (pa.decimal128(5, 1), pa.decimal128(9, 3)),
        (pa.decimal128(5, 1), pa.decimal256(50, 3)),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.date32(), pa.date32()),
    ],
)
def test_keys_of_a_column_that_became_wider_are_found_in_files_of_before(
    storage: Storage, narrow: pa.DataType, wide: pa.DataType
) -> None:
    texts = pa.types.is_decimal(narrow)  # of whole numbers Arrow makes decimals of ten digits only
    values = pa.array(range(60), pa.int64() if pa.types.is_timestamp(narrow) else pa.int32())
    values = values.cast(pa.string()).cast(narrow) if texts else values.cast(narrow)
    tables = []
    for kind in (narrow, wide):
        rows = pa.table({"k": values.cast(kind)})
        schema = records_schema(rows.schema, ["k"], None)
        numbers = np.arange(60)
        tables.append(as_records(rows, schema, None, row=numbers, h29=numbers, delete=numbers < 0))
    before, after = tables
    run = run_of_records(storage, before, "before")
    found = lookup(storage, [run], after.schema, after.select(["k"]).slice(11, 30))
    assert found.equals(after.slice(11, 30).combine_chunks())
    assert plain_key_type(pa.field("k", wide)) == after.schema.field("k").type


def test_superseded_rows_are_found_by_their_number_with_columns_that_came_later(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "_GROUP_ROWS", 16)
    row = (np.repeat([2, 5], 100) << 40) + np.tile(np.arange(100), 2)
    rows = pa.table(
        {
            "id": pa.array(row % 977, pa.int32()),
            "flux": pa.array([[float(n), None] for n in range(200)], pa.list_(pa.float32())),
            "_healpix_29": row % 1009,
            "_row": row,
        }
    )
    files = write_run_files(
        storage, run_folder(WRITE, "superseded"), 0, rows.take(pa.array(np.arange(200)[::-1])), BY_ROW
    )
    run = described_run(storage, WRITE, "superseded", files, [2, 5])
    again = described_run(  # a row that came back and went once more
        storage,
        WRITE,
        "again",
        write_run_files(storage, run_folder(WRITE, "again"), 0, rows.slice(150, 3), BY_ROW),
        [5],
    )
    later = rows.schema.append(pa.field("band", pa.string()))
    looked_at = LookedAt()
    wanted = row[[151, 3, 7, 150, 3]]
    found = lookup_rows(storage, [run, again], later, wanted, looked_at)
    assert found.schema.equals(later)
    expected = rows.take(pa.array([3, 7, 150, 151])).to_pylist()
    assert found.to_pylist() == [{**each, "band": None} for each in expected]
    assert (looked_at.files, looked_at.row_groups) == (2, 3)
    with pytest.raises(
        VerificationError, match="1 superseded rows are in no file of theirs, row 9 of increment 2"
    ):
        lookup_rows(storage, [run.model_copy(update={"ordinals": "5"})], later, row[[9, 151]])
