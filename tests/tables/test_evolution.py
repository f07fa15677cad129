"""Tables that change between nights: columns, parts of nested ones, types, names, partitions, sort order."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.errors import SchemaMismatchError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.opening import open_table
from pydantic import ValidationError

from tests.system.sinks import orphans
from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.sinking import Lake, utc

D = pa.decimal128
NIGHTLY = {"files": {"uri": "/nowhere/{{ night }}/*.parquet", "format": "parquet"}}


def check(lake: Lake, spec: TableSpec, wanted: list[dict[str, Any]]) -> None:
    """Ours, pyiceberg and a reader in plain Python give these rows."""
    expected = counted(wanted)
    opened = OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse)
    assert counted(opened.read().to_pylist()) == expected
    assert counted(lake.table(spec).scan().to_arrow().to_pylist()) == expected
    assert orphans(lake.table(spec)) == []


def rows(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        (pa.int32(), pa.int64(), ([1, None, -5], [1 << 40, 7, None])),
        (pa.float32(), pa.float64(), ([0.5, None, -1.25], [0.1, 7.0, None])),
        (
            D(5, 2),
            D(12, 2),
            ([Decimal("1.25"), None, Decimal("-3.00")], [Decimal("12345678.90"), None, None]),
        ),
        (pa.uint16(), pa.uint32(), ([1, None, 5], [1 << 31, 7, None])),
    ],
)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_types_are_widened(lake: Lake, mode: str, before: Any, after: Any, values: Any) -> None:
    keyed: dict[str, Any] = {"mode": "upsert", "key": "id"} if mode == "upsert" else {}
    spec = lake.spec(**keyed)
    first = rows(id=pa.array([1, 2, 3], pa.int64()), v=pa.array(values[0], before))
    second = rows(id=pa.array([3, 4, 5], pa.int64()), v=pa.array(values[1], after))
    lake.sink(spec, first, start=utc("2026-01-01T00:00"))
    with pytest.raises(SchemaMismatchError, match="the table's is narrower, and would lose values"):
        lake.sink(spec, second, start=utc("2026-01-02T00:00"))
    spec = lake.spec(**keyed, evolve="all")
    done = lake.sink(spec, second, start=utc("2026-01-02T00:00"))
    assert len(done.changes) == 1
    assert done.changes[0].startswith("column v is widened from ")
    wanted = {row["id"]: row for row in first.to_pylist()} if mode == "upsert" else None
    if wanted is None:
        check(lake, spec, [*first.to_pylist(), *second.to_pylist()])
    else:
        check(lake, spec, list((wanted | {row["id"]: row for row in second.to_pylist()}).values()))
    again = lake.sink(spec, first, start=utc("2026-01-03T00:00"))  # narrower rows still fit
    assert again.changes == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.string()),
        (D(5, 2), D(9, 3)),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.timestamp("us")),
        (pa.list_(pa.int32()), pa.int32()),
        (pa.list_(pa.int32()), pa.list_(pa.string())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.int32(), pa.int32())),
        (pa.struct([("a", pa.int32())]), pa.struct([("A", pa.int32())])),
    ],
)
def test_what_cannot_be_widened_is_refused(lake: Lake, before: pa.DataType, after: pa.DataType) -> None:
    spec = lake.spec(evolve="all")
    lake.sink(spec, rows(id=[1], v=pa.nulls(1, before)))
    version = lake.table(spec).metadata_location
    with pytest.raises(SchemaMismatchError, match=r"another type|differs by case"):
        lake.sink(spec, rows(id=[2], v=pa.nulls(1, after)))
    assert lake.table(spec).metadata_location == version


def test_parts_of_nested_columns_come_and_stay_away(lake: Lake) -> None:
    spec = lake.spec(evolve="all")
    point = pa.struct([("ra", pa.float32())])
    nested = {"p": point, "l": pa.list_(point), "m": pa.map_(pa.string(), point)}
    one: dict[str, Any] = {"p": {"ra": 1.5}, "l": [{"ra": 2.5}, None], "m": [("a", {"ra": 3.5})]}
    lake.sink(spec, rows(id=[1], **{name: pa.array([one[name]], kind) for name, kind in nested.items()}))
    wide = pa.struct([("dec", pa.float32()), ("ra", pa.float64())])
    nested = {"p": wide, "l": pa.list_(wide), "m": pa.map_(pa.string(), wide)}
    two: dict[str, Any] = {"p": {"ra": 0.1, "dec": 1.0}, "l": [], "m": [("b", {"ra": 0.2, "dec": None})]}
    done = lake.sink(
        spec, rows(id=[2], **{name: pa.array([two[name]], kind) for name, kind in nested.items()})
    )
    assert done.columns_added == ("p.dec", "l.element.dec", "m.value.dec")
    assert len(done.changes) == 6
    three = pa.struct([("dec", pa.float32())])  # rows that lack a part
    none = pa.array([[], []], pa.map_(pa.string(), three))
    empty = pa.array([[], []], pa.list_(three))
    lake.sink(spec, rows(id=[3, 4], p=pa.array([{"dec": 9.0}, None], three), l=empty, m=none))
    wanted = [
        {
            "id": 1,
            "p": {"ra": 1.5, "dec": None},
            "l": [{"ra": 2.5, "dec": None}, None],
            "m": [("a", {"ra": 3.5, "dec": None})],
        },
        {"id": 2, "p": {"ra": 0.1, "dec": 1.0}, "l": [], "m": [("b", {"ra": 0.2, "dec": None})]},
        {"id": 3, "p": {"ra": None, "dec": 9.0}, "l": [], "m": []},
        {"id": 4, "p": None, "l": [], "m": []},
    ]
    check(lake, spec, wanted)


def test_columns_are_renamed_once(lake: Lake) -> None:
    spec = lake.spec(partition=["band"], mode="upsert", key="id")
    lake.sink(spec, rows(id=[1, 2], band=["g", "r"], p=[{"ra": 1.0}, None]), start=utc("2026-01-01T00:00"))
    renamed = lake.spec(
        partition=["filter"], mode="upsert", key="id", rename={"band": "filter", "p.ra": "lon"}
    )
    done = lake.sink(
        renamed, rows(id=[2, 3], filter=["g", "g"], p=[{"lon": 2.0}, None]), start=utc("2026-01-02T00:00")
    )
    assert done.changes == ("column band is renamed filter", "column p.ra is renamed p.lon")
    wanted = [
        {"id": 1, "filter": "g", "p": {"lon": 1.0}},
        {"id": 2, "filter": "g", "p": {"lon": 2.0}},
        {"id": 3, "filter": "g", "p": None},
    ]
    check(lake, renamed, wanted)
    assert (
        lake.sink(
            renamed, rows(id=[3], filter=["g"], p=[{"lon": 3.0}]), start=utc("2026-01-03T00:00")
        ).changes
        == ()
    )
    both = lake.spec(mode="upsert", key="id", partition=["filter"])
    lake.sink(both, rows(id=[4], filter=["g"], band2=["x"]), start=utc("2026-01-04T00:00"))
    wrong = lake.spec(mode="upsert", key="id", partition=["filter"], rename={"band2": "filter"})
    with pytest.raises(SchemaMismatchError, match="it has both columns, band2 and filter"):
        lake.sink(wrong, rows(id=[4], filter=["g"]), start=utc("2026-01-05T00:00"))


def test_rows_of_the_old_name_are_refused_and_no_rows_are_none(lake: Lake) -> None:
    spec = lake.spec(mode="overwrite-interval", interval="ts", source=NIGHTLY)
    night = [dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC)]
    given = {"start": utc("2026-01-01T00:00"), "end": utc("2026-01-02T00:00")}
    lake.sink(spec, rows(id=[1], ts=night, band=["g"], p=[{"ra": 1.0}]), **given)
    renames = {"band": "filter", "p.ra": "lon"}
    wanted = lake.spec(mode="overwrite-interval", interval="ts", source=NIGHTLY, rename=renames)
    with pytest.raises(SchemaMismatchError, match="rename: the rows still have column band"):
        lake.sink(wanted, rows(id=[1], ts=night, band=["g"]), **given)
    assert {field.name for field in lake.table(spec).schema().fields} == {"id", "ts", "band", "p"}
    order = lake.order(wanted, rows(id=[2]), **given)
    empty = order.model_copy(update={"rows": order.rows.model_copy(update={"files": ()})})
    done = sink(empty, lake.engine)  # an interval without files
    assert done.changes == ("column band is renamed filter", "column p.ra is renamed p.lon")
    assert set(lake.table(spec).schema().column_names) == {"id", "ts", "filter", "p", "p.lon"}
    check(lake, wanted, [])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": "b.c"}, "has a dot"),
        ({"a.b": "b"}, "is called b already"),
        ({"a": "c", "b": "c"}, "two columns would be called c"),
        ({"a": "b", "b": "c"}, "b is an old name and a new one"),
        ({"a": "b", "a.x": "y"}, "a.x lies in a column that is renamed too"),
    ],
)
def test_renames_that_make_no_sense_are_refused(lake: Lake, given: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        lake.spec(rename=given)


def test_partitions_change_between_nights(lake: Lake) -> None:
    days = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in range(1, 11)]
    night = [rows(id=[10 * n + at for at in range(10)], ts=days, band=["g", "r"] * 5) for n in range(5)]
    every = [["bucket[4](id)"], ["day(ts)", "band"], [], ["bucket[8](id)", "band"], ["bucket[4](id)"]]
    known = set()
    for number, partition in enumerate(every):
        start = utc(f"2026-02-0{number + 1}T00:00")
        spec = lake.spec(partition=partition, sort=["ts", "id desc"][: number % 3])
        if number:
            with pytest.raises(SchemaMismatchError, match=r"is partitioned by .* the spec says"):
                lake.sink(spec, night[number], start=start)
        spec = lake.spec(partition=partition, sort=["ts", "id desc"][: number % 3], evolve="all")
        done = lake.sink(spec, night[number], start=start)
        assert any("partitioned by" in text for text in done.changes) is bool(number)
        table = lake.table(spec)
        known.add(table.spec().spec_id)
        check(lake, spec, [row for some in night[: number + 1] for row in some.to_pylist()])
    assert len(known) == 4  # the first one is taken up again
    fields = {(f.field_id, f.name) for each in lake.table(spec).specs().values() for f in each.fields}
    assert len(fields) == len({number for number, _ in fields}) == len({name for _, name in fields})
    compact(request(lake, repartition=True, full=True))
    check(lake, spec, [row for some in night for row in some.to_pylist()])


def test_a_night_of_an_older_partition_comes_again(lake: Lake) -> None:
    first = lake.spec(partition=["bucket[4](id)"])
    lake.sink(first, rows(id=list(range(20)), v=[1.0] * 20), start=utc("2026-01-01T00:00"))
    second = lake.spec(partition=["bucket[2](id)"], evolve="all")
    lake.sink(second, rows(id=list(range(20, 30)), v=[2.0] * 10), start=utc("2026-01-02T00:00"))
    again = lake.sink(second, rows(id=list(range(5)), v=[3.0] * 5), start=utc("2026-01-01T00:00"))
    assert again.rows_updated == 20
    check(
        lake, second, [{"id": n, "v": 3.0} for n in range(5)] + [{"id": n, "v": 2.0} for n in range(20, 30)]
    )


def test_tables_of_version_1_keep_their_partitions(lake: Lake) -> None:
    old = {"properties": {"format-version": "1"}}
    lake.sink(lake.spec(partition=["bucket[4](id)"], **old), rows(id=[1]))
    with pytest.raises(SchemaMismatchError, match="format version 1, whose partitions are not changed"):
        lake.sink(lake.spec(**old, evolve="all"), rows(id=[2]))


def test_a_plan_changes_nothing(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, rows(id=pa.array([1], pa.int32()), band=["g"]))
    wanted = lake.spec(partition=["filter"], rename={"band": "filter"}, sort=["id"])
    stored = pa.schema([("id", pa.int64()), ("filter", pa.string()), ("x", pa.float64())])
    before = lake.table(spec).metadata_location
    table = open_table(spec.iceberg, lake.warehouse, spec.table)
    planned = table.evolve(wanted, stored)
    assert [each.text for each in planned] == [
        "column band is renamed filter",
        "column x is added (double)",
        "column id is widened from int to long",
        "what comes is partitioned by filter, not by nothing",
        "what comes is sorted by id",
    ]
    assert lake.table(spec).metadata_location == before
    assert table.evolve(wanted, stored, dry_run=False) == planned
    assert table.evolve(wanted, stored, dry_run=False) == ()
    assert table.evolve(wanted, None) == ()
    table.close()
    done = lake.sink(wanted, rows(id=[2], filter=["r"], x=[1.0]))
    assert done.changes == ()
    check(lake, wanted, [{"id": 1, "filter": "g", "x": None}, {"id": 2, "filter": "r", "x": 1.0}])


def test_values_that_a_narrower_part_cannot_hold_are_refused(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, rows(id=[1], p=pa.array([{"n": 1}], pa.struct([("n", pa.int32())]))))
    with pytest.raises(SchemaMismatchError, match=r"column 'p.n' is of type int32 there and int64 in"):
        lake.sink(spec, rows(id=[1], p=pa.array([{"n": 1 << 40}], pa.struct([("n", pa.int64())]))))


_NAMES = ("a", "b", "c", "d", "e", "f", "g")
_KINDS = (pa.int32(), pa.int64(), pa.float32(), pa.float64(), D(6, 2), D(12, 2), pa.string())
_WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64(), D(6, 2): D(12, 2)}
_PARTITIONS: tuple[list[str], ...] = (
    [],
    ["bucket[3](id)"],
    ["truncate[5](id)"],
    ["bucket[2](id)", "night"],
    ["night"],
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_evolutions_read_as_plain_python_has_them(lake: Lake, seed: int) -> None:
    """Between nights anything changes; the rows of all nights are those of a list of dicts."""
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.DataType] = {"v0": _KINDS[int(rng.integers(len(_KINDS)))]}
    parts: dict[str, pa.DataType] = {"q0": pa.int32()}
    mode = ("append", "upsert")[int(rng.integers(2))]
    keyed: dict[str, Any] = {"mode": "upsert", "key": "id"} if mode == "upsert" else {}
    if mode == "upsert":
        keyed["write"] = ("copy-on-write", "merge-on-read")[int(rng.integers(2))]
    wanted: list[dict[str, Any]] = []
    partition: list[str] = []
    for number in range(6):
        rename: dict[str, str] = {}
        if number:
            for _ in range(int(rng.integers(1, 4))):
                what = rng.integers(6)
                if what == 0:
                    columns[f"v{number}{len(columns)}"] = _KINDS[int(rng.integers(len(_KINDS)))]
                elif what == 1:
                    parts[f"q{number}{len(parts)}"] = _KINDS[int(rng.integers(len(_KINDS)))]
                elif what == 2:
                    name = str(rng.choice(list(columns)))
                    columns[name] = _WIDER.get(columns[name], columns[name])
                elif what == 3:
                    name = str(rng.choice(list(parts)))
                    parts[name] = _WIDER.get(parts[name], parts[name])
                elif what == 4:
                    partition = _PARTITIONS[int(rng.integers(len(_PARTITIONS)))]
                elif not rename:
                    old = str(rng.choice(list(columns)))
                    new = f"w{number}{len(columns)}"
                    rename = {old: new}
                    columns[new] = columns.pop(old)
                    for row in wanted:
                        if old in row:
                            row[new] = row.pop(old)
        spec = lake.spec(**keyed, partition=partition, rename=rename, evolve="all")
        night = _night(rng, number, columns, parts)
        lake.sink(spec, night, start=utc(f"2026-03-0{number + 1}T00:00"))
        came = night.to_pylist()
        if mode == "upsert":
            ids = {row["id"] for row in came}
            wanted = [row for row in wanted if row["id"] not in ids]
        wanted += came
        if rng.random() < 0.3:
            compact(request(lake, full=True, repartition=bool(rng.random() < 0.5)))
        full = [
            {
                "id": row["id"],
                "night": row["night"],
                **{name: _as(row.get(name), kind) for name, kind in columns.items()},
                "p": None
                if row["p"] is None
                else {name: _as(row["p"].get(name), kind) for name, kind in parts.items()},
            }
            for row in wanted
        ]
        check(lake, spec, full)
        assert counted(_of_plain(plain_rows(lake.table(spec)))) == counted(
            [{key: value for key, value in row.items() if key != "p"} for row in full]
        )


def _of_plain(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts of nested columns are known by their names there, so they are not compared."""
    return [{key: value for key, value in row.items() if key != "p"} for row in found]


def _as(value: Any, kind: pa.DataType) -> Any:
    if value is None or not pa.types.is_decimal(kind):
        return value
    return value.quantize(Decimal("0.01"))


def _night(
    rng: np.random.Generator, number: int, columns: dict[str, pa.DataType], parts: dict[str, pa.DataType]
) -> pa.Table:
    ids = rng.choice(60, 20, replace=False)
    point = pa.struct(list(parts.items()))
    nested = [
        None if rng.random() < 0.2 else {name: _value(rng, kind) for name, kind in parts.items()} for _ in ids
    ]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "night": pa.array([number % 3] * len(ids), pa.int32()),
            **{name: pa.array([_value(rng, kind) for _ in ids], kind) for name, kind in columns.items()},
            "p": pa.array(nested, point),
        }
    )


def _value(rng: np.random.Generator, kind: pa.DataType) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(int(rng.integers(-9000, 9000))) / 100
    if pa.types.is_integer(kind):
        return int(rng.integers(-(1 << (kind.bit_width - 2)), 1 << (kind.bit_width - 2)))
    if pa.types.is_floating(kind):
        return float(np.float32(rng.normal())) if kind.bit_width == 32 else float(rng.normal())
    return str(rng.choice(list(_NAMES)))
