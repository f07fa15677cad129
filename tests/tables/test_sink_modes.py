"""Modes of a sink: what a second one leaves in the table, against a model in plain Python."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import InputError, SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.row_keys import joint_codes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tables.sinking import Lake, utc


def night(number: int, ids: list[int], value: float = 0.0) -> pa.Table:
    """Rows of one night of January 2026."""
    start = dt.datetime(2026, 1, number)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "ts": pa.array(
                [start + dt.timedelta(minutes=n % 1000) for n in range(len(ids))], pa.timestamp("us")
            ),
            "value": pa.array([value] * len(ids), pa.float64()),
        }
    )


def interval(number: int) -> dict[str, dt.datetime]:
    return {"start": utc(f"2026-01-{number:02d}T00:00:00"), "end": utc(f"2026-01-{number + 1:02d}T00:00:00")}


# -- append -------------------------------------------------------------------------------------------------


def test_a_rerun_of_an_interval_adds_nothing(lake: Lake) -> None:
    spec = lake.spec(partition=["day(ts)"])
    uri = lake.land(night(1, [1, 2, 3]))
    first = lake.sink(spec, uri=uri, **interval(1))
    again = lake.sink(spec, uri=uri, **interval(1))
    assert not first.skipped
    assert again.skipped
    assert again.snapshot_id is None
    assert lake.rows(spec)["id"].to_pylist() == [1, 2, 3]
    assert len(lake.table(spec).snapshots()) == 1


def test_what_was_sunk_is_known_after_its_snapshot_has_expired(lake: Lake) -> None:
    spec = lake.spec(partition=["day(ts)"])
    uri = lake.land(night(1, [1, 2, 3]))
    lake.sink(spec, uri=uri, **interval(1))
    lake.sink(spec, night(2, [4]), **interval(2))
    table = lake.table(spec)
    oldest = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(oldest).commit()
    assert [s.snapshot_id for s in lake.table(spec).snapshots()] != [oldest]
    assert lake.sink(spec, uri=uri, **interval(1)).skipped
    assert lake.rows(spec)["id"].to_pylist() == [1, 2, 3, 4]


def test_other_rows_of_an_interval_take_the_place_of_the_first(lake: Lake) -> None:
    spec = lake.spec(partition=["day(ts)"])
    lake.sink(spec, night(1, [1, 2, 3]), **interval(1))
    lake.sink(spec, night(2, [10]), **interval(2))
    done = lake.sink(spec, night(1, [2, 5]), **interval(1))
    assert (done.files_removed, done.rows_updated) == (1, 3)
    assert lake.rows(spec)["id"].to_pylist() == [2, 5, 10]
    forced = lake.order(spec, night(1, [2, 5]), **interval(1)).model_copy(update={"force": True})
    assert forced.force


def test_rows_that_a_compaction_has_mixed_with_others_are_taken_out(lake: Lake) -> None:
    from hipslake.tables.iceberg.catalogs import open_catalog
    from hipslake.tables.iceberg.commit import TableChange, commit
    from hipslake.tables.iceberg.data_files import live_files
    from hipslake.tables.iceberg.file_writer import FileWriter
    from hipslake.tables.iceberg.write_folders import claim
    from pyiceberg.table.snapshots import Operation

    spec = lake.spec()
    lake.sink(spec, night(1, [1, 2]), **interval(1))
    lake.sink(spec, night(2, [3]), **interval(2))
    table = lake.table(spec)
    write = claim(table)
    merged = FileWriter.of(table, (), write).write(lake.rows(spec), (), "merged")
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    commit(catalog, spec.table, TableChange(Operation.REPLACE, write, [merged], live_files(table)))
    assert lake.rows(spec)["id"].to_pylist() == [1, 2, 3]
    lake.sink(spec, night(1, [7]), **interval(1))
    assert lake.rows(spec)["id"].to_pylist() == [3, 7]


# -- overwrite-interval -------------------------------------------------------------------------------------


def overwriting(lake: Lake, **given: object) -> TableSpec:
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    return lake.spec(mode="overwrite-interval", interval="ts", source=source, **given)


@pytest.mark.parametrize("partition", [[], ["day(ts)"], ["month(ts)"], ["bucket[3](id)"]])
def test_an_interval_is_replaced_also_where_its_rows_lie_with_others(
    lake: Lake, partition: list[str]
) -> None:
    append = lake.spec(name="other", partition=partition)
    lake.sink(append, pa.concat_tables([night(n, [10 * n, 10 * n + 1], n) for n in range(1, 5)]))
    spec = overwriting(lake, partition=partition)
    done = lake.sink(spec, night(2, [77, 78, 79], 9.0), **interval(2))
    assert done.rows_updated == 2
    assert lake.rows(spec)["id"].to_pylist() == [10, 11, 30, 31, 40, 41, 77, 78, 79]
    lake.sink(spec, night(2, [5], 9.0), **interval(2))
    assert lake.rows(spec)["id"].to_pylist() == [5, 10, 11, 30, 31, 40, 41]
    rows = lake.rows(spec, by="ts")
    assert rows["value"].to_pylist() == [1.0, 1.0, 9.0, 3.0, 3.0, 4.0, 4.0]


def test_a_row_outside_of_its_interval_is_told(lake: Lake) -> None:
    with pytest.raises(InputError, match="3 rows or more of the source have a 'ts' that is null or outside"):
        lake.sink(overwriting(lake), night(3, [1, 2, 3]), **interval(2))
    with pytest.raises(SpecError, match="replaces the rows of an interval; give one"):
        lake.sink(overwriting(lake), night(3, [1, 2, 3]))


# -- upsert -------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "partition", [[], ["year(ts)"], ["bucket[4](id)"], ["band"], ["bucket[3](name)", "band"]]
)
def test_an_upsert_leaves_one_row_per_key_also_where_it_moves_between_partitions(
    lake: Lake, partition: list[str]
) -> None:
    def rows(ids: np.ndarray, seed: int) -> pa.Table:
        random = np.random.default_rng(seed)
        days = random.integers(0, 2000, len(ids)) * np.timedelta64(1, "D")
        return pa.table(
            {
                "id": pa.array(ids),
                "name": [f"n{n}" for n in random.integers(0, 50, len(ids))],
                "band": random.choice(["g", "r", "i"], len(ids)),
                "ts": np.datetime64("2020-01-01", "us") + days,
                "seed": np.full(len(ids), seed),
            }
        )

    spec = lake.spec(partition=partition, mode="upsert", key="id", sort=["id"])
    random = np.random.default_rng(7)
    model: dict[int, dict[str, object]] = {}
    for seed, ids in enumerate([np.arange(500), random.permutation(700)[:200], np.arange(650, 900)]):
        batch = rows(ids, seed)
        replaced = len(set(ids.tolist()) & set(model))
        model |= {row["id"]: row for row in batch.to_pylist()}
        done = lake.sink(spec, batch)
        assert (done.rows_in, done.rows_updated) == (len(ids), replaced)
        assert done.files_added == done.expected_files
    assert lake.rows(spec).to_pylist() == [model[key] for key in sorted(model)]


def test_an_upsert_reads_only_files_that_may_hold_a_key(lake: Lake) -> None:
    spec = lake.spec(partition=["truncate[100](id)"], mode="upsert", key="id")
    lake.sink(spec, night(1, list(range(1000))))
    assert len(lake.live(spec)) == 10
    untouched = set(lake.live(spec))
    done = lake.sink(spec, night(2, [455, 460]))
    assert (done.files_read, done.files_removed, done.files_added) == (1, 1, 1)
    assert (done.rows_updated, done.rows_rewritten) == (2, 98)
    assert len(untouched & set(lake.live(spec))) == 9
    assert lake.rows(spec).num_rows == 1000


def test_two_columns_make_a_key_of_any_types(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key=["name", "day"], partition=["name"])
    day = dt.date(1969, 12, 31)
    rows = pa.table({"name": ["é", "é", ""], "day": [day, dt.date(1970, 1, 1), day], "x": [1, 2, 3]})
    lake.sink(spec, rows)
    done = lake.sink(spec, pa.table({"name": ["é", "z"], "day": [day, day], "x": [10, 20]}))
    assert done.rows_updated == 1
    assert lake.rows(spec, "x")["x"].to_pylist() == [2, 3, 10, 20]


def test_keys_that_stand_twice_are_an_error_or_the_last_stays(lake: Lake) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 1, 2, 1, 3],
            "at": pa.array([5, 1, 9, None, 9, None]),
            "x": ["a", "b", "c", "d", "e", "f"],
        }
    )
    error = lake.spec(mode="upsert", key="id")
    with pytest.raises(
        InputError, match=r"3 rows of the source have the key of another one, such as id = [12];"
    ):
        lake.sink(error, rows)
    last = lake.spec(mode="upsert", key="id", duplicates="last by at")
    done = lake.sink(last, rows)
    assert (done.rows_in, done.rows_out, done.rows_left_out) == (6, 3, 3)
    assert lake.rows(last)["x"].to_pylist() == ["e", "b", "f"]


def test_a_key_that_is_null_is_told(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id")
    with pytest.raises(InputError, match="key: column 'id' is null in 1 rows or more"):
        lake.sink(spec, pa.table({"id": pa.array([1, None], pa.int64())}))
    with pytest.raises(SpecError, match="key: column 'x' is of type double; a key holds whole numbers"):
        lake.sink(lake.spec(mode="upsert", key="x"), pa.table({"x": [1.5]}))


def test_a_rerun_of_an_upsert_does_not_bring_back_what_a_later_one_replaced(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id")
    first = lake.land(night(1, [1, 2], 1.0))
    lake.sink(spec, uri=first, **interval(1))
    lake.sink(spec, night(2, [2, 3], 2.0), **interval(2))
    assert lake.sink(spec, uri=first, **interval(1)).skipped
    assert lake.rows(spec)["value"].to_pylist() == [1.0, 2.0, 2.0]


def test_old_rows_without_a_key_stay(lake: Lake) -> None:
    append = lake.spec(name="other")
    lake.sink(append, pa.table({"id": pa.array([None, 1, None, 2], pa.int64()), "x": [1, 2, 3, 4]}))
    lake.sink(lake.spec(mode="upsert", key="id"), pa.table({"id": [1, 0], "x": [20, 30]}))
    assert lake.rows(append, "x")["x"].to_pylist() == [1, 3, 4, 20, 30]


BATCH = st.lists(st.tuples(st.integers(0, 30), st.integers(-3, 3), st.integers(0, 5)), max_size=25)


def test_keys_of_two_tables_are_numbered_alike_also_where_they_are_null() -> None:
    old = pa.table({"a": pa.array([1, None, 2], pa.int64()), "b": [None, "x", "y"]})
    new = pa.table({"a": pa.array([None, 1, 2, 0], pa.int64()), "b": ["x", None, None, None]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of nulls that became NaN, and then a number of whatever kind
        codes = np.concatenate(joint_codes(old, new, ["a", "b"]))
    keys = [tuple(row.values()) for row in [*old.to_pylist(), *new.to_pylist()]]
    same = [[one == other for other in keys] for one in keys]
    assert (codes[:, None] == codes[None, :]).tolist() == same


@pytest.mark.slow
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(BATCH, min_size=1, max_size=4), files=st.integers(1, 3))
def test_any_run_of_upserts_is_what_a_dictionary_would_hold(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, int, int]]], files: int
) -> None:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    spec = lake.spec(
        mode="upsert",
        key="id",
        duplicates="last by at",
        partition=["truncate[2](part)"],
        target_file_size="1 KiB",
    )
    model: dict[int, tuple[int, int]] = {}
    for batch in batches:
        schema = pa.schema([("id", pa.int64()), ("part", pa.int64()), ("at", pa.int64())])
        table = pa.Table.from_pylist([{"id": a, "part": b, "at": c} for a, b, c in batch], schema=schema)
        step = -(-max(len(batch), 1) // files)
        lake.sink(spec, *[table.slice(at, step) for at in range(0, max(len(batch), 1), step)])
        latest: dict[int, tuple[int, int]] = {}
        for key, part, at in batch:
            if key not in latest or at >= latest[key][1]:
                latest[key] = (part, at)
        model |= latest
    found = lake.rows(spec).to_pylist() if model else []
    assert {row["id"]: (row["part"], row["at"]) for row in found} == model
    assert len(found) == len(model)
