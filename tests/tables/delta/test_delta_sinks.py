"""Sinks into Delta tables: what each mode leaves, as plain Python and other engines read it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table
from hipslake.errors import InputError, SchemaMismatchError, SpecError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.examples import examples
from tests.peers.running import run_peer
from tests.tables.delta.delta_lake import DeltaLake, by_peers, plain_delta_rows, plain_log
from tests.tables.sinking import utc
from tests.tables.test_sink_modes import interval, night
from tests.tables.test_sink_readers import same


def ids(delta: DeltaLake, spec: object) -> list[int]:
    return sorted(row["id"] for row in plain_delta_rows(delta.location(spec)))  # type: ignore[arg-type]


def test_a_rerun_of_an_interval_adds_nothing(delta: DeltaLake) -> None:
    spec = delta.spec(partition=["healpix[0]"])
    rows = night(1, [1, 2, 3]).append_column("_healpix_29", pa.array([0, 1 << 58, 5 << 58], pa.int64()))
    uri = delta.land(rows)
    first = delta.sink(spec, uri=uri, **interval(1))
    again = delta.sink(spec, uri=uri, **interval(1))
    assert (first.skipped, first.created, first.snapshot_id, first.files_added) == (False, True, 1, 3)
    assert (again.skipped, again.snapshot_id, again.found_snapshot_id) == (True, None, 1)
    assert ids(delta, spec) == [1, 2, 3]
    values = sorted(
        told["partitionValues"]["_healpix_0"] for told in plain_log(delta.location(spec)).values()
    )
    assert values == ["0", "1", "5"]
    assert len(list((delta.location(spec) / "_delta_log").glob("*.json"))) == 2


def test_other_rows_of_an_interval_take_the_place_of_the_first(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, night(1, [1, 2, 3]), **interval(1))
    delta.sink(spec, night(2, [10]), **interval(2))
    done = delta.sink(spec, night(1, [2, 4]), **interval(1))
    assert (done.rows_updated, done.files_removed) == (3, 1)
    assert ids(delta, spec) == [2, 4, 10]
    delta.sink(spec, night(1, []), **interval(1))
    assert ids(delta, spec) == [10]
    assert (
        delta.sink(spec, night(1, []), **interval(1)).skipped is False
    )  # other files; the rows are none again


def test_an_upsert_replaces_rows_of_its_keys_wherever_they_lie(delta: DeltaLake) -> None:
    spec = delta.spec(mode="upsert", key="id", partition=["group"])

    def rows(keys: list[int], groups: list[str | None], value: int) -> pa.Table:
        return pa.table({"id": keys, "group": pa.array(groups, pa.string()), "value": [value] * len(keys)})

    delta.sink(spec, rows([1, 2, 3, 4], ["a", "a", "b/ c=%é", None], 0))
    done = delta.sink(spec, rows([2, 3, 5], ["z", None, "a"], 1))
    assert (done.rows_out, done.rows_updated) == (3, 2)
    found = sorted((row["id"], row["group"], row["value"]) for row in plain_delta_rows(delta.location(spec)))
    assert found == [(1, "a", 0), (2, "z", 1), (3, None, 1), (4, None, 0), (5, "a", 1)]
    told = Table.open(spec.table, warehouse=delta.warehouse, delta={}).read().sort_by("id").to_pylist()
    assert [tuple(row[name] for name in ("id", "group", "value")) for row in told] == found
    assert Table.open(delta.location(spec), version=1).rows == 4


def test_an_interval_is_replaced_whoever_wrote_it(delta: DeltaLake) -> None:
    append = delta.spec()
    delta.sink(append, night(1, [1, 2, 3]), night(2, [4, 5]))
    spec = delta.spec(
        mode="overwrite-interval",
        interval="ts",
        name="other",
        source={"files": {"uri": "/nowhere/{{ night }}.parquet", "format": "parquet"}},
    )
    delta.sink(spec, night(2, [6]), **interval(2))
    assert ids(delta, spec) == [1, 2, 3, 6]
    with pytest.raises(InputError, match="outside"):
        delta.sink(spec, night(3, [6]), **interval(2))
    assert ids(delta, spec) == [1, 2, 3, 6]


def test_columns_are_added_and_others_refused(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, pa.table({"id": [1]}), start=utc("2026-01-01T00:00:00"))
    wider = pa.table({"id": [2], "t": pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us"))})
    done = delta.sink(spec, wider, start=utc("2026-01-02T00:00:00"))
    assert done.columns_added == ("t",)
    assert Table.open(delta.location(spec)).read().sort_by("id")["t"].to_pylist() == [
        None,
        dt.datetime(2026, 1, 1),
    ]
    for rows, why in (
        (pa.table({"id": ["x"]}), "another type"),
        (pa.table({"ID": [1]}), "differs by case"),
        (pa.table({"id": [1], "clock": pa.array([0], pa.time64("us"))}), "do not have"),
        (pa.table({"id": [1], "a b": [1]}), "names of a Delta table"),
    ):
        with pytest.raises(SchemaMismatchError, match=why):
            delta.sink(spec, rows, start=utc("2026-01-03T00:00:00"))


def test_what_delta_has_no_partitions_for_is_refused(delta: DeltaLake) -> None:
    with pytest.raises(ValidationError, match="partitioned by columns"):
        delta.spec(partition=["bucket[4](id)"])
    for column, kind in (("x", pa.float64()), ("raw", pa.binary())):
        with pytest.raises(SpecError, match="partitioned by whole numbers"):
            delta.sink(delta.spec(partition=[column]), pa.table({"id": [1], column: pa.array([None], kind)}))
    with pytest.raises(InputError, match="empty text"):
        delta.sink(delta.spec(partition=["name"]), pa.table({"id": [1], "name": [""]}))
    with pytest.raises(InputError, match="too long for a name"):
        delta.sink(delta.spec(partition=["name"]), pa.table({"id": [1], "name": ["x" * 251]}))
    with pytest.raises(SpecError, match="not partitioned by"):
        delta.sink(delta.spec(partition=["id"], table="survey.other"), pa.table({"id": [1]}))


def test_every_key_that_is_unsaid_leaves_fingerprints_as_they_were(delta: DeltaLake) -> None:
    iceberg = delta.spec(format="iceberg")
    assert '"delta"' not in iceberg.fingerprint_text()
    assert 'format":"iceberg' not in iceberg.fingerprint_text()
    with pytest.raises(ValidationError, match="write 'format: delta'"):
        delta.spec(format="iceberg", delta={"location": "/elsewhere"})
    with pytest.raises(ValidationError, match="in no Iceberg catalog"):
        delta.spec(iceberg={"name": "lake"})


def test_statistics_bound_all_values(delta: DeltaLake) -> None:
    spec = delta.spec(properties={"delta.dataSkippingNumIndexedCols": "-1"})
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(9999, 12, 31)]
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "x": [1.5, float("nan")],
            "y": [-1.5, None],
            "s": ["a" * 40, "b" * 40],
            "t": pa.array(moments, pa.timestamp("us", "UTC")),
            "day": pa.array([dt.date(1, 1, 1), None], pa.date32()),
            "d": pa.array([Decimal("1.5"), None], pa.decimal128(20, 1)),
            "none": pa.array([None, None], pa.int32()),
        }
    )
    delta.sink(spec, rows)
    [told] = plain_log(delta.location(spec)).values()
    stats = json.loads(told["stats"])
    assert stats["nullCount"] == {"id": 0, "x": 0, "y": 1, "s": 0, "t": 0, "day": 1, "d": 1, "none": 2}
    assert stats["minValues"] == {
        "id": 1,
        "y": -1.5,
        "s": "a" * 32,
        "t": "1969-12-31T23:59:59.999999Z",
        "day": "0001-01-01",
    }
    assert stats["maxValues"]["s"] > "b" * 40
    assert stats["maxValues"]["t"] == "9999-12-31T00:00:00.000000Z"
    assert "x" not in stats["maxValues"]


ROWS = st.lists(st.tuples(st.integers(0, 25), st.sampled_from(["a", "b", None])), max_size=12)
STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5), ROWS),
    st.tuples(st.just("upsert"), st.integers(1, 3), ROWS),
    st.tuples(st.just("overwrite"), st.integers(1, 5), ROWS),
)


@pytest.mark.properties
@given(st.lists(STEP, min_size=1, max_size=6), st.booleans())
@settings(max_examples=examples(40, part=10), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_sequence_of_sinks_leaves_what_a_model_has(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int, list[tuple[int, str | None]]]],
    parted: bool,
) -> None:
    """A list of rows is the model."""
    delta = DeltaLake(tmp_path_factory.mktemp("delta"))
    partition = ["group"] if parted else []
    templated = {"files": {"uri": "/nowhere/{{ night }}.parquet", "format": "parquet"}}
    specs = {
        "upsert": delta.spec(
            name="upsert", mode="upsert", key="id", duplicates="last by value", partition=partition
        ),
        "overwrite": delta.spec(
            name="over", mode="overwrite-interval", interval="ts", partition=partition, source=templated
        ),
        "append": delta.spec(name="append", partition=partition, table="survey.appended"),
    }
    tables: dict[str, list[tuple[int, str | None, int, int]]] = {"survey.sample": [], "survey.appended": []}
    for at, (mode, number, some) in enumerate(steps):
        spec = specs[mode]
        start = dt.datetime(2026, 1, number)
        rows = pa.table(
            {
                "id": pa.array([key for key, _ in some], pa.int64()),
                "group": pa.array([group for _, group in some], pa.string()),
                "value": pa.array([at * 100 + n for n in range(len(some))], pa.int64()),
                "ts": pa.array(
                    [start + dt.timedelta(minutes=n) for n in range(len(some))], pa.timestamp("us", "UTC")
                ),
                "night": pa.array([number] * len(some), pa.int64()),
            }
        )
        delta.sink(
            spec,
            rows,
            **(interval(number) if mode != "upsert" else {"start": utc(f"2027-01-{at + 1:02d}T00:00:00")}),
        )
        new = [(*row, at * 100 + n, number) for n, row in enumerate(some)]
        old = tables[spec.table]
        if mode == "upsert":
            last = {row[0]: row for row in new}
            kept = [row for row in old if row[0] not in last]
            tables[spec.table] = kept + list(last.values())
        else:
            tables[spec.table] = [row for row in old if row[3] != number] + new
        found = [
            (row["id"], row["group"], row["value"], row["night"])
            for row in plain_delta_rows(delta.location(spec))
        ]
        assert sorted(found, key=repr) == sorted(tables[spec.table], key=repr)


TYPES = {
    "b": ([True, None, False], pa.bool_()),
    "i8": ([-5, None, 5], pa.int8()),
    "u32": ([2**32 - 1, None, 0], pa.uint32()),
    "u64": ([2**64 - 1, None, 0], pa.uint64()),
    "i64": ([-(2**63), None, 2**63 - 1], pa.int64()),
    "f32": ([1.5, None, float("-inf")], pa.float32()),
    "f64": ([float("nan"), None, -0.0], pa.float64()),
    "d": ([Decimal("-12345678901234567890.123"), None, Decimal("0.001")], pa.decimal128(30, 3)),
    "s": (["銀河 /=%", None, ""], pa.large_string()),
    "raw": ([b"\x00\xff", None, b""], pa.binary()),
    "day": ([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
    "ts": (
        [dt.datetime(1969, 12, 31, 23, 59, 59, 123456), None, dt.datetime(2026, 1, 1)],
        pa.timestamp("us"),
    ),
    "tz": (
        [dt.datetime(1969, 12, 31, tzinfo=dt.UTC), None, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
        pa.timestamp("ns", "UTC"),
    ),
    "list": ([[1, None, 3], None, []], pa.list_(pa.int16())),
    "nested": (
        [{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}],
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
    ),
}
PARTED = ("b", "i8", "i64", "d", "s", "day", "ts", "tz")


@pytest.mark.peers
def test_other_engines_read_every_type(delta: DeltaLake, peers_python: str, tmp_path: Path) -> None:
    assert_others_read(delta, peers_python, tmp_path, None)


@pytest.mark.peers
@pytest.mark.sampled(3)
@pytest.mark.parametrize("column", PARTED)
def test_other_engines_read_every_partition(
    delta: DeltaLake, peers_python: str, tmp_path: Path, column: str
) -> None:
    assert_others_read(delta, peers_python, tmp_path, column)


def assert_others_read(delta: DeltaLake, python: str, place: Path, column: str | None) -> None:
    """Sink values of all types, partitioned by a column or not; delta-rs and others read what we do."""
    rows = pa.table({"id": [0, 1, 2]} | {name: pa.array(*told) for name, told in TYPES.items()})
    if column == "s":
        rows = rows.slice(0, 2)  # an empty text is no partition value
    spec = delta.spec(partition=[column] if column else [])
    delta.sink(spec, rows)
    ours = Table.open(delta.location(spec)).read().sort_by("id")
    for name in ours.column_names:
        assert same(ours[name], rows[name].cast(ours[name].type)), name
    told = by_peers(python, delta.location(spec), place / "read")
    assert {"delta_rs", "polars"} <= set(told)
    for peer, theirs in told.items():
        order = np.argsort(theirs["id"].to_numpy())
        for name in ours.column_names:
            found = theirs[name].cast(ours[name].type).to_pylist()
            assert str([found[at] for at in order]) == str(ours[name].to_pylist()), (peer, name)


@pytest.mark.peers
@pytest.mark.sampled(3)
@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("column", ["i64", "s", "day", "ts", "f64"])
def test_other_engines_skip_no_file_that_has_a_row(
    delta: DeltaLake, peers_python: str, tmp_path: Path, column: str, parted: bool
) -> None:
    if parted and column == "f64":
        pytest.skip("no partition column")
    texts = ["a" * 40, "a" * 33 + "b", "a" * 32, "b", "銀河", "\U0010ffff" * (3 if parted else 40)]
    start = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    values: dict[str, list[object]] = {
        "i64": [-(2**62), -1, 0, 1, 2**53 + 1, 2**62, 7],
        "s": [*texts, "z"],
        "day": [dt.date(1960 + n * 11, 1, 1 + n) for n in range(7)],
        "ts": [start + dt.timedelta(microseconds=n) for n in range(7)],
        "f64": [-1.5, float("inf"), 0.0, 1e300, -1e-300, 2.5, float("-inf")],
    }
    kind = TYPES[column][1]
    rows = pa.table({"id": np.arange(7), column: pa.array(values[column], kind)})
    spec = delta.spec(partition=[column] if parted else [])
    for at in range(7):
        delta.sink(spec, rows.slice(at, 1), start=utc(f"2026-01-{at + 1:02d}T00:00:00"))
    given_rows = tmp_path / "values.parquet"
    pq.write_table(
        rows.set_column(1, column, rows[column].cast(pa.string()) if column == "s" else rows[column]),
        given_rows,
    )
    program = Path(__file__).with_name("read_delta_by_peers.py")
    told = json.loads(
        run_peer(peers_python, program, "filter", str(delta.location(spec)), column, str(given_rows))
    )
    known = {str(value): value for value in values[column]}
    assert len(told) == 21
    for each in told:
        value = known[each["value"]]
        holds = {
            "=": lambda x, v=value: x == v,
            "<": lambda x, v=value: x < v,
            ">=": lambda x, v=value: x >= v,
        }
        expected = [at for at, one in enumerate(values[column]) if holds[each["sign"]](one)]
        assert each["rust"] == expected, each
        assert each["polars"] == expected, each


def test_wide_numbers_of_sources_are_kept(delta: DeltaLake) -> None:
    spec = delta.spec(mode="upsert", key="u")
    delta.sink(spec, pa.table({"u": pa.array([2**64 - 1, 0], pa.uint64()), "v": [1, 1]}))
    done = delta.sink(spec, pa.table({"u": pa.array([2**64 - 1], pa.uint64()), "v": [2]}))
    assert done.rows_updated == 1
    assert sorted(row["v"] for row in plain_delta_rows(delta.location(spec))) == [1, 2]


def test_files_are_sorted_by_what_the_spec_says(delta: DeltaLake) -> None:
    spec = delta.spec(sort=["value desc nulls last", "id"])
    values = np.random.default_rng(0).permutation(50)
    delta.sink(spec, pa.table({"id": np.arange(50), "value": values}))
    assert Table.open(delta.location(spec)).read()["value"].to_pylist() == list(range(49, -1, -1))
