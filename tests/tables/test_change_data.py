"""Change data: records that insert, update and delete rows of a table meet by key, wherever the rows lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import InputError, SchemaMismatchError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink.meeting_records import meet_records, ranks_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.examples import examples
from tests.tables.sinking import Lake, utc

CHANGES: dict[str, Any] = {"mode": "upsert", "key": "id", "operation": {"column": "op"}}


def records(*given: tuple[str, int, str, int]) -> pa.Table:
    """Records of operation, id, data and order."""
    op, ids, data, order = zip(*given, strict=True) if given else ((), (), (), ())
    return pa.table(
        {
            "op": pa.array(op, pa.string()),
            "id": pa.array(ids, pa.int64()),
            "data": pa.array(data, pa.string()),
            "v": pa.array(order, pa.int64()),
        }
    )


def content(lake: Lake, spec: TableSpec) -> list[tuple[int, str, int]]:
    return [(row["id"], row["data"], row["v"]) for row in lake.rows(spec).to_pylist()]


@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_records_of_a_batch_meet_by_key_in_whatever_partition_their_row_lies(lake: Lake, write: str) -> None:
    """Case 4 of the RFC: the key is none of the partition, so old and new rows lie in different ones."""
    spec = lake.spec(**CHANGES, order_by="v", partition=["bucket[16](data)"], write=write)
    first = lake.sink(spec, records(*(("I", number, f"d{number}", 1) for number in range(20))))
    assert (first.rows_out, first.case) == (20, 4)
    night = records(
        ("U", 3, "moved", 2),  # into another partition
        ("D", 4, "", 2),
        ("D", 5, "d5", 2),
        ("I", 5, "again", 3),  # deleted, and inserted again
        ("U", 6, "once", 2),
        ("D", 6, "", 4),
        ("U", 6, "twice", 3),  # the delete is the last
        ("D", 99, "", 2),  # there is none
        ("I", 30, "new", 2),
        ("U", 7, "late", 0),  # older than what stands
        ("U", 31, "new", 2),  # updates what is not there
    )
    done = lake.sink(spec, night, start=utc("2026-11-20T00:00"))
    gone = {3, 4, 5, 6}
    wanted = [(number, f"d{number}", 1) for number in range(20) if number not in gone]
    wanted += [(3, "moved", 2), (5, "again", 3), (30, "new", 2), (31, "new", 2)]
    assert content(lake, spec) == sorted(wanted)
    assert (done.rows_deleted, done.rows_updated, done.outdated, done.missing_deletes) == (2, 2, 1, 1)
    assert (done.rows_in, done.rows_out, done.rows_left_out, done.delete_records) == (11, 4, 3, 4)
    assert lake.table(spec).schema().column_names == ["id", "data", "v"]
    assert lake.sink(spec, night, start=utc("2026-11-20T00:00"), force=True).missing_deletes == 3
    assert content(lake, spec) == sorted(wanted)


def test_without_an_order_each_key_comes_once(lake: Lake) -> None:
    spec = lake.spec(**CHANGES)
    lake.sink(spec, records(("I", 1, "a", 5), ("I", 2, "b", 5)))
    with pytest.raises(InputError, match=r"1 records of the source have the key of another one.* id = 1"):
        lake.sink(spec, records(("D", 1, "", 6), ("I", 1, "c", 7)), start=utc("2026-11-20T00:00"))
    lake.sink(spec, records(("D", 1, "", 0), ("U", 2, "c", 0)), start=utc("2026-11-20T00:00"))
    assert content(lake, spec) == [(2, "c", 0)]


@pytest.mark.parametrize(
    ("night", "message"),
    [
        ([("U", 1, "a", 5), ("D", 1, "", 5)], r"1 records of the source share key and v .* id = 1, v = 5"),
        (
            [("U", 1, "a", 5), ("X", 2, "", 5)],
            r"column 'op' is 'X' in 1 records .* id = 2; there are I, U and D",
        ),
        ([("U", 1, "a", 5), (None, 2, "", 5)], r"column 'op' is None in 1 records"),
        ([("D", None, "a", 5)], r"column 'id' is null in 1 rows"),
        ([("U", 1, "a", None)], r"'v' is null or NaN in 1 records"),
        ([("D", 1, "a", None)], r"'v' is null or NaN in 1 records"),
        ([("D", 77, "a", 9)], r"1 records delete rows that table survey.sample does not have"),
    ],
)
def test_what_is_no_record_is_refused_and_changes_nothing(lake: Lake, night: Any, message: str) -> None:
    spec = lake.spec(**CHANGES, order_by="v", missing_deletes="fail")
    lake.sink(spec, records(("I", 1, "a", 1), ("I", 2, "b", 1)))
    before = lake.table(spec).current_snapshot()
    with pytest.raises(InputError, match=message):
        lake.sink(spec, records(*night), start=utc("2026-11-20T00:00"))
    assert lake.table(spec).current_snapshot() == before


def test_only_deletes_leave_an_empty_table(lake: Lake) -> None:
    for write in ("copy-on-write", "merge-on-read"):
        spec = lake.spec(**CHANGES, write=write, table=f"survey.{write[:4]}", partition=["data"])
        lake.sink(spec, records(("I", 1, "a", 1), ("I", 2, "b", 1)))
        done = lake.sink(spec, records(("D", 1, "", 0), ("D", 2, "", 0)), start=utc("2026-11-20T00:00"))
        assert (done.rows_deleted, done.rows_out, done.files_added) == (2, 0, 0)
        assert content(lake, spec) == []


def test_operations_are_texts_or_whole_numbers_of_the_source(lake: Lake) -> None:
    codes = {"column": "op", "insert": 1, "update": 2, "delete": 3}
    spec = lake.spec(mode="upsert", key="id", operation=codes)
    lake.sink(spec, pa.table({"id": [1, 2], "op": pa.array([1, 2], pa.int8())}))
    lake.sink(spec, pa.table({"id": [1], "op": pa.array([3], pa.int8())}), start=utc("2026-11-20T00:00"))
    assert lake.rows(spec).to_pylist() == [{"id": 2}]
    with pytest.raises(SchemaMismatchError, match=r"operation.column: the source has no column 'op'"):
        lake.sink(spec, pa.table({"id": [1]}), start=utc("2026-11-21T00:00"))
    with pytest.raises(SchemaMismatchError, match="is of type double; operations are texts"):
        lake.sink(spec, pa.table({"id": [1], "op": [1.0]}), start=utc("2026-11-21T00:00"))


def test_rows_of_others_without_an_order_are_the_oldest(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id", order_by="v")
    lake.sink(lake.spec(name="other"), pa.table({"id": [1, 2], "v": pa.array([None, 3], pa.int64())}))
    done = lake.sink(spec, pa.table({"id": [1, 2], "v": [-5, 2]}))
    assert (done.rows_updated, done.outdated) == (1, 1)
    assert lake.rows(spec).to_pylist() == [{"id": 1, "v": -5}, {"id": 2, "v": 3}]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"mode": "append", "operation": {"column": "op"}}, "operation: is only of mode upsert"),
        ({"mode": "append", "order_by": "v"}, "order_by: is only of mode upsert"),
        ({"mode": "upsert", "key": "id", "order_by": "id"}, "order_by: id is part of the key"),
        (
            {"mode": "upsert", "key": "id", "operation": {"column": "id"}},
            "operation.column: id is named by key too",
        ),
        (
            {"mode": "upsert", "key": "id", "operation": {"column": "op"}, "partition": ["bucket[4](op)"]},
            "operation.column: op is named by partition too",
        ),
        (
            {"mode": "upsert", "key": "id", "order_by": "v", "duplicates": "last by v"},
            "duplicates: of records, order_by says which",
        ),
        (
            {"mode": "upsert", "key": "id", "order_by": "v", "source": {"catalog": "a", "changes": True}},
            "order_by: is of records, and changes of a catalog",
        ),
        ({"mode": "upsert", "key": "id", "operation": {"column": "op", "delete": "U"}}, "are both 'U'"),
    ],
)
def test_specs_that_make_no_sense(lake: Lake, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        lake.spec(**keys)


def test_what_says_nothing_of_it_has_the_fingerprint_that_it_had(lake: Lake) -> None:
    text = lake.spec(mode="upsert", key="id").fingerprint_text()
    assert not any(f'"{name}"' in text for name in ("operation", "order_by", "missing_deletes", "write"))
    assert '"order_by"' in lake.spec(mode="upsert", key="id", order_by="v").fingerprint_text()


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.booleans()), max_size=12),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=8),
)
def test_records_and_rows_meet_as_in_plain_python(
    given_records: list[tuple[int, int, bool]], old: list[tuple[int, int]]
) -> None:
    codes, order, deletes = (np.array([each[at] for each in given_records], np.int64) for at in range(3))
    old_codes, old_order = (np.array([each[at] for each in old], np.int64) for at in range(2))
    met = meet_records(codes, order, deletes.astype(bool), old_codes, old_order)
    pairs = [(code, at) for code, at, _ in given_records]
    if len(set(pairs)) < len(pairs):
        assert met.tied == len(pairs) - len(set(pairs))
        assert pairs.count(pairs[met.example]) > 1
        return
    left, gone = [True] * len(pairs), [False] * len(old)
    deleted = missing = outdated = 0
    for key in {code for code, _ in pairs}:
        last = max((at for at, pair in enumerate(pairs) if pair[0] == key), key=lambda at: pairs[at][1])
        mine = [at for at, row in enumerate(old) if row[0] == key]
        if any(old[at][1] > pairs[last][1] for at in mine):
            outdated += 1
            continue
        left[last] = False
        for at in mine:
            gone[at] = True
        if given_records[last][2]:
            deleted += len(mine)
            missing += not mine
    assert (met.gone.tolist(), met.left_out.tolist()) == (gone, left)
    assert (met.deleted, met.missing, met.outdated, met.tied) == (deleted, missing, outdated, 0)


def test_orders_of_all_types_have_ranks() -> None:
    first, second = ranks_of(
        pa.chunked_array([["b", None], ["a"]]), pa.chunked_array([["b"], []], pa.string())
    )
    assert (first.tolist(), second.tolist()) == ([2, 0, 1], [2])
    empty, none = ranks_of(pa.chunked_array([], pa.int64()), pa.chunked_array([], pa.int64()))
    assert len(empty) == len(none) == 0
