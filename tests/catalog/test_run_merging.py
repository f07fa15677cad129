"""Runs are built of any number of entries, merged as they come to be many, and changed by several writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.metadata import KeyRecords, RecordFile, RecordRun
from hipslake.catalog.metadata.key_records import described_run, numbers_of, ranges_of
from hipslake.catalog.records import run_files, run_merging
from hipslake.catalog.records.key_ranges import KeyRanges, sampled
from hipslake.catalog.records.record_lookup import BY_ROW, lookup_rows
from hipslake.catalog.records.record_rows import key_of
from hipslake.catalog.records.records_change import MergedRuns, RecordsChange
from hipslake.catalog.records.run_building import build_run
from hipslake.catalog.records.run_files import KeySpan, read_span, run_folder, write_run_files
from hipslake.catalog.records.run_merging import FAN_IN, merge_runs, merged_runs, runs_to_merge
from hipslake.engine.model import Block, sent
from hipslake.engine.this_process import ThisProcess
from hipslake.storage.folder import Storage
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.keyed import WRITE, run_of_records
from tests.catalog.test_record_files import plain_rows, records_of

ENGINE = ThisProcess(2)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path)


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "FILE_ROWS", 100)
    monkeypatch.setattr(run_files, "_GROUP_ROWS", 10)
    monkeypatch.setattr(run_merging, "_RANGE_ROWS", 75)


def entries_of(storage: Storage, runs: list[RecordRun], schema: pa.Schema) -> pa.Table:
    """All entries that count."""
    found = list(read_span(storage, runs, schema, key_of(schema), KeySpan()))
    return pa.concat_tables([schema.empty_table(), *found])


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("kind", ["int64", "string", "two", "decimal"])
def test_a_merged_run_holds_what_counted_in_the_others(storage: Storage, kind: str) -> None:
    rng = np.random.default_rng(3)
    tables = [
        records_of(kind, rng.integers(0, 1000, 300).tolist(), rng.integers(4 * n, 4 * n + 4, 300).tolist())
        for n in range(3)
    ]
    counting = [{0, 1, 3}, {4, 5, 6, 7}, {9, 10}]
    runs = [
        run_of_records(storage, table, f"run_{n}", of)
        for n, (table, of) in enumerate(zip(tables, counting, strict=True))
    ]
    schema = tables[0].schema
    merged = merged_runs(storage, ENGINE, runs, schema, key_of(schema), write_id=WRITE, name="merged")
    assert merged.inputs == {run.name for run in runs}
    assert merged.run.ordinals == "0-1,3-7,9-10"
    files = merged.run.listed(storage)
    assert len(files) >= 8
    assert max(file.rows for file in files) <= 100
    assert plain_rows(entries_of(storage, [merged.run], schema)) == plain_rows(
        entries_of(storage, runs, schema)
    )
    whole = pa.concat_tables(tables)
    assert (
        merged.run.rows == np.isin(whole["_row"].to_numpy() >> 40, sorted(set().union(*counting))).sum() < 900
    )
    lasts = key_of(schema).from_texts([file.last for file in files])
    firsts = key_of(schema).from_texts([file.first for file in files])
    last, first = key_of(schema).ranks(lasts, firsts)
    assert (last[:-1] <= first[1:]).all()


@pytest.mark.usefixtures("small_files")
def test_superseded_rows_are_stored_once_after_a_merge(storage: Storage) -> None:
    row = (np.repeat([1, 2, 3], 100) << 40) + np.tile(np.arange(100), 3)
    rows = pa.table({"x": row % 13, "_healpix_29": row % 7, "_row": row})
    runs = []
    for number, (low, high) in enumerate([(0, 200), (150, 300), (90, 110)]):
        part = rows.slice(low, high - low)
        files = write_run_files(storage, run_folder(WRITE, f"s{number}"), 0, part, BY_ROW)
        runs.append(
            described_run(storage, WRITE, f"s{number}", files, np.unique(part["_row"].to_numpy() >> 40))
        )
    runs = [without for run in runs if (without := run.without(2)) is not None]
    merged = merged_runs(storage, ENGINE, runs, rows.schema, BY_ROW, write_id=WRITE, name="merged")
    assert (merged.run.rows, merged.run.ordinals) == (200, "1,3")
    wanted = row[row >> 40 != 2]
    assert lookup_rows(storage, [merged.run], rows.schema, wanted).equals(
        rows.filter(pa.array(row >> 40 != 2))
    )


def test_runs_of_many_nights_stay_few_and_each_entry_is_written_seldom() -> None:
    rng = np.random.default_rng(5)
    runs: list[int] = [40_000_000]
    written = brought = 0
    most = 0
    for _ in range(3000):
        night = int(rng.integers(20_000, 90_000))
        runs.append(night)
        brought += night
        while chosen := runs_to_merge(runs):
            total = sum(runs[place] for place in chosen)
            written += total
            runs = [size for place, size in enumerate(runs) if place not in chosen] + [total]
        most = max(most, len(runs))
    levels = 4  # nights are of the lowest; 3000 of them are fewer than eight of the fourth
    assert most <= FAN_IN * levels
    assert written < (levels + 3) * brought
    assert 40_000_000 in runs or max(runs) > 40_000_000


@given(sizes=st.lists(st.integers(0, 10**10), max_size=60), most=st.none() | st.integers(1, 10**10))
def test_where_a_level_is_full_runs_are_merged_within_the_bound(sizes: list[int], most: int | None) -> None:
    chosen = runs_to_merge(sizes, most)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 0 or len(chosen) >= FAN_IN
    if most is not None:
        assert sum(sizes[place] for place in chosen) <= most
    if most is None and len(sizes) >= FAN_IN and len(set(sizes)) == 1:
        assert chosen == list(range(len(sizes)))


@pytest.mark.usefixtures("small_files")
def test_what_is_due_is_merged_and_nothing_else(storage: Storage) -> None:
    tables = [
        records_of("int64", list(range(n, 200, FAN_IN)), [n] * len(range(n, 200, FAN_IN)))
        for n in range(FAN_IN)
    ]
    schema = tables[0].schema
    runs = [run_of_records(storage, table, f"night_{n}") for n, table in enumerate(tables)]
    by = key_of(schema)
    assert merge_runs(storage, ENGINE, runs[1:], schema, by, write_id=WRITE, name="m") == ()
    assert merge_runs(storage, ENGINE, runs, schema, by, write_id=WRITE, name="m", most=199) == ()
    (merged,) = merge_runs(storage, ENGINE, runs, schema, by, write_id=WRITE, name="m", most=200)
    after = merged.applied(runs)
    assert after == (merged.run,)
    wide = [run.model_copy(update={"bytes": 1 << 30}) for run in runs]
    assert merge_runs(storage, ENGINE, wide, schema, by, write_id=WRITE, name="m", most=200) == ()
    assert plain_rows(entries_of(storage, list(after), schema)) == plain_rows(pa.concat_tables(tables))


def run_named(name: str, ordinals: str) -> RecordRun:
    file = RecordFile(
        path=f"{WRITE}/_records/{name}/part.parquet", rows=9, bytes=9, sha256="0", first=("1",), last=("9",)
    )
    return RecordRun(ordinals=ordinals, rows=9, bytes=9, files=(file,))


def key_records(*runs: RecordRun, superseded: tuple[RecordRun, ...] = ()) -> KeyRecords:
    return KeyRecords(key=("id",), runs=runs, superseded=superseded)


def applied(change: RecordsChange, base: KeyRecords | None) -> KeyRecords:
    return change.applied(base, key=("id",), order_by=None, rows_superseded=3)


def test_a_night_that_is_run_again_counts_only_in_its_new_run() -> None:
    base = key_records(run_named("a", "0-4"), run_named("b", "5"), superseded=(run_named("s", "2,5"),))
    after = applied(RecordsChange(5, run_named("new", "5"), run_named("t", "1")), base)
    assert [run.ordinals for run in after.runs] == ["0-4", "5"]
    assert after.runs[1].name == f"{WRITE}/_records/new/part.parquet"
    assert [run.ordinals for run in after.superseded] == ["2", "1"]
    assert after.rows_superseded == 3
    third = applied(RecordsChange(2, None), after)
    assert [run.ordinals for run in third.runs] == ["0-1,3-4", "5"]
    assert [run.ordinals for run in third.superseded] == ["1"]
    first = applied(RecordsChange(0, run_named("a", "0")), None)
    assert [run.ordinals for run in first.runs] == ["0"]
    assert first.superseded == ()


def test_merged_runs_give_way_to_what_others_did_meanwhile() -> None:
    a, b = run_named("a", "0-3"), run_named("b", "4")
    names = frozenset(run.name for run in (a, b) if run.name is not None)
    merged = MergedRuns(names, run_named("m", "0-4"))
    assert [run.ordinals for run in merged.applied([a, b, run_named("c", "5")])] == ["5", "0-4"]
    replaced = a.without(2)
    assert replaced is not None
    assert [run.ordinals for run in merged.applied([replaced, b])] == ["0-1,3-4"]
    assert merged.applied([b]) == (b,)  # others have merged `a`
    lacking = MergedRuns(names, run_named("m", "0-1,3-4"))
    assert lacking.applied([a, b]) == (a, b)  # a version in which 2 counts was brought back


@given(numbers=st.sets(st.integers(0, 2**23 - 1), max_size=30))
def test_ordinals_are_read_back_from_their_text(numbers: set[int]) -> None:
    assert numbers_of(ranges_of(np.array(sorted(numbers), np.int64))).tolist() == sorted(numbers)


@dataclass(frozen=True)
class Parts:
    """Reads some records in parts, some rows at a time."""

    table: pa.Table
    parts: int

    def __call__(self, part: int) -> Iterator[pa.Table]:
        mine = self.table.slice(part * self.table.num_rows // self.parts, self.table.num_rows // self.parts)
        for start in range(0, mine.num_rows, 50):
            yield mine.slice(start, 50)


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("kind", ["int64", "two", "string"])
@pytest.mark.parametrize("file_rows", [100, 10_000])
def test_a_run_of_many_records_is_built_in_ranges(storage: Storage, kind: str, file_rows: int) -> None:
    rng = np.random.default_rng(11)
    table = records_of(kind, rng.integers(0, 1000, 2000).tolist(), [6] * 2000, order=True)
    run = build_run(
        storage,
        ENGINE,
        Parts(table, 4),
        parts=4,
        rows=2000,
        schema=table.schema,
        by=key_of(table.schema),
        write_id=WRITE,
        name="night",
        ordinals=[6],
        file_rows=file_rows,
    )
    assert run.rows == 2000
    assert plain_rows(entries_of(storage, [run], table.schema)) == plain_rows(table)
    ranges = {file.path.split("part-")[1][:5] for file in run.listed(storage)}
    assert (15 <= len(ranges) <= 20) if file_rows == 100 else (len(ranges) == 1)
    assert max(file.rows for file in run.listed(storage)) <= 100
    by = key_of(table.schema)
    last, first = by.ranks(
        *(by.from_texts([getattr(f, end) for f in run.listed(storage)]) for end in ("last", "first"))
    )
    assert (last[:-1] <= first[1:]).all()


def test_one_key_in_all_records_is_one_range(storage: Storage) -> None:
    table = records_of("int64", [7] * 900, [1] * 900, order=True)
    run = build_run(
        storage,
        ENGINE,
        Parts(table, 3),
        parts=3,
        rows=900,
        schema=table.schema,
        by=key_of(table.schema),
        write_id=WRITE,
        name="night",
        ordinals=[1],
        file_rows=100,
    )
    assert run.rows == 900


def test_every_range_is_woken_and_ranges_hold_all_keys() -> None:
    table = records_of("two", list(range(0, 1000, 3)), [1] * 334)
    by = key_of(table.schema)
    ranges = KeyRanges.even(by, sampled([table.slice(0, 200), table.slice(200)], by, 60), 8)
    assert 6 <= len(ranges) <= 8
    woken = list(sent(lambda number: ranges.wake(table.schema), 0, 1 << 20))
    assert [target for target, _ in woken] == list(range(len(ranges)))
    assert all(isinstance(block, Block) and block.rows.num_rows == 0 for _, block in woken)
    routed = [(target, batch) for target, batch in ranges.route(table)]
    assert sum(batch.num_rows for _, batch in routed) == 334
    for target, batch in routed:
        span = ranges.span(target)
        assert run_files.in_span(pa.Table.from_batches([batch]), by, span).num_rows == batch.num_rows > 20


def test_a_sample_has_of_each_part_what_it_has_of_all() -> None:
    by = key_of(records_of("int64", [1], [0]).schema)
    tables = [
        records_of("int64", [n] * size, [0] * size).select(["id"])
        for n, size in ((1, 10), (2, 990), (3, 1000))
    ]
    found = sampled(iter(tables), by, 100)["id"].value_counts().to_pylist()
    counts = {row["values"]: row["counts"] for row in found}
    assert sum(counts.values()) <= 100
    ordered = [counts.get(key[0], 0) for key in ((n * 10**15 - 5 * 10**17,) for n in (1, 2, 3))]
    assert ordered[0] <= 2
    assert all(45 <= count <= 52 for count in ordered[1:])
