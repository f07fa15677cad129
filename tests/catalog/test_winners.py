"""Which records win, held against a dict into which nights are put in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.records.record_rows import as_records, key_of, records_schema
from hipslake.catalog.records.winners import Settled, settle, winning
from hipslake.errors import InputError, SchemaMismatchError, VerificationError
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.keyed import KINDS, key_columns

ORDER_TYPES = {
    "int": (pa.int32(), lambda n: n - 3),
    "float": (pa.float32(), lambda n: n / 8 - 0.5),
    "text": (pa.string(), lambda n: f"{n:03d}"),
    "time": (pa.timestamp("ns"), lambda n: n),
}


class Put(NamedTuple):
    """A record as a test gives it."""

    key: int
    delete: bool
    order: int


NIGHTS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.lists(st.builds(Put, st.integers(0, 5), st.booleans(), st.integers(0, 9)), max_size=6),
    ),
    max_size=8,
)
"""Nights in the order in which they come: which interval each is of, and its records."""


@dataclass
class Model:
    """A catalog as plain Python has it: nights by interval, and what a reader would find."""

    order_by: bool
    nights: dict[int, tuple[int, list[Put]]] = field(
        default_factory=dict
    )  # by interval: the write, and records

    def fold(self, without: int | None = None) -> dict[int, tuple[int, int, int]]:
        """By key the row that stands: interval, write, and number of the record; `ValueError` for a tie."""
        winners: dict[int, tuple[tuple[int, ...], tuple[int, int, int] | None]] = {}
        for interval, (write, records) in sorted(self.nights.items()):
            if interval == without:
                continue
            for number, record in enumerate(records):
                rank = (record.order,) if self.order_by else (interval,)
                row = None if record.delete else (interval, write, number)
                standing = winners.get(record.key)
                if standing is not None and standing[0] == rank:
                    raise ValueError("tie")
                if standing is None or standing[0] < rank:
                    winners[record.key] = (rank, row)
        return {key: row for key, (_, row) in winners.items() if row is not None}

    def has_tie(self) -> bool:
        """Whether two records of a key have one order; also of those that would not win."""
        seen = [
            (record.key, record.order if self.order_by else interval)
            for interval, (_, records) in self.nights.items()
            for record in records
        ]
        return len(set(seen)) < len(seen)


def table_of(kind: str, order_type: str | None, records: list[Put], ordinal: int, write: int) -> pa.Table:
    """Records of a night; where a row lies depends on the night, the write and the key."""
    keys = key_columns(kind, [record.key * 150 for record in records])
    order_by = None
    if order_type is not None:
        of, value = ORDER_TYPES[order_type]
        order_by = "sequence"
        keys = keys.append_column("sequence", pa.array([value(record.order) for record in records], of))
    schema = records_schema(keys.schema, list(KINDS[kind][0]), order_by)
    return as_records(
        keys,
        schema,
        order_by,
        row=(ordinal << 40) + np.arange(len(records)),
        h29=np.array([place(record.key, ordinal, write) for record in records], np.int64),
        delete=np.array([record.delete for record in records], bool),
    )


def place(key: int, ordinal: int, write: int) -> int:
    return (key * 7919 + ordinal * 104729 + write * 1299709) % 1000


class Store:
    """What `settle` leads to, with sets in the place of files."""

    def __init__(self, kind: str, order_type: str | None) -> None:
        self.kind, self.order_type = kind, order_type
        self.records: dict[int, tuple[int, pa.Table]] = {}  # by ordinal: the write, and the records
        self.leaves: set[tuple[int, int]] = set()
        self.superseded: set[tuple[int, int]] = set()
        self.ordinals: dict[int, int] = {}  # by interval

    def night(self, interval: int, write: int, records: list[Put]) -> Settled:
        """Bring a night; an error leaves everything as it was."""
        ordinal = self.ordinals.get(interval, len(self.ordinals))
        night = table_of(self.kind, self.order_type, records, ordinal, write)
        replaced = self.records.get(ordinal)
        wanted = pa.concat_tables([night, replaced[1]]) if replaced else night
        standing = pa.concat_tables(
            [night.schema.empty_table(), *(table for _, table in self.records.values())]
        )
        by = key_of(night.schema)
        codes, given = by.ranks(standing, wanted)
        standing = standing.filter(pa.array(np.isin(codes, given)))
        ranks = {at: start for start, at in {**self.ordinals, interval: ordinal}.items()}
        settled = settle(standing, night, ordinal=ordinal, order=RecordOrder(ranks))
        goes, comes, returns, beaten, late = (pairs(table) for table in settled[:5])
        assert goes <= self.leaves
        assert returns <= self.superseded
        of_replaced = {pair for pair in self.superseded if pair[1] >> 40 == ordinal}
        self.leaves -= goes
        assert not self.leaves & (comes | returns)
        self.leaves |= comes | returns
        self.superseded = (self.superseded - of_replaced - returns) | beaten | late
        assert not self.leaves & self.superseded
        self.records[ordinal] = (write, night)
        self.ordinals[interval] = ordinal
        return settled


def pairs(table: pa.Table) -> set[tuple[int, int]]:
    """Rows by `_healpix_29` and `_row`; each is there once, and sorted."""
    rows = list(zip(table["_healpix_29"].to_pylist(), table["_row"].to_pylist(), strict=True))
    assert rows == sorted(set(rows))
    return set(rows)


def check_counts(settled: Settled, model: Model, interval: int) -> None:
    """The counts of a night against states with it and without it."""
    before, after = model.fold(without=interval), model.fold()
    records = model.nights[interval][1]
    mine = {key: row for key, row in after.items() if row[0] == interval}
    assert settled.inserted == sum(key not in before for key in mine)
    assert settled.updated == sum(key in before for key in mine)
    assert settled.deleted == sum(key not in after for key in before)
    everything = [
        (each.key, each.order if model.order_by else at)
        for at, (_, some) in model.nights.items()
        for each in some
    ]
    newest = {key: max(rank for one, rank in everything if one == key) for key, _ in everything}
    won = [each for each in records if newest[each.key] == (each.order if model.order_by else interval)]
    assert settled.outdated == len(records) - len(won)
    assert settled.missing_deletes == sum(each.delete and each.key not in before for each in won)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order_type", [None, *ORDER_TYPES])
@pytest.mark.parametrize("kind", ["int64", "string", "date", "two", "bool and int"])
@given(nights=NIGHTS)
def test_nights_in_any_order_come_to_what_a_dict_holds(
    nights: list[tuple[int, list[Put]]], kind: str, order_type: str | None
) -> None:
    model, store = Model(order_type is not None), Store(kind, order_type)
    for write, (interval, records) in enumerate(nights):
        before = model.nights.get(interval)
        model.nights[interval] = (write, records)
        if model.has_tie():
            state = set(store.leaves), set(store.superseded), dict(store.records)
            with pytest.raises(InputError, match=r"keys (come twice|have records of the same order)"):
                store.night(interval, write, records)
            assert state == (store.leaves, store.superseded, store.records)
            if before is None:
                del model.nights[interval]
            else:
                model.nights[interval] = before
            continue
        settled = store.night(interval, write, records)
        state = {
            (place(key, store.ordinals[at], of), (store.ordinals[at] << 40) + number)
            for key, (at, of, number) in model.fold().items()
        }
        assert store.leaves == state
        puts = sum(not record.delete for _, some in model.nights.values() for record in some)
        assert len(store.superseded) == puts - len(store.leaves)
        check_counts(settled, model, interval)
        if store.records:
            together = pa.concat_tables([table for _, table in store.records.values()])
            ranks = {ordinal: at for at, ordinal in store.ordinals.items()}
            won = winning(together, RecordOrder(ranks))
            lives = won.filter(pa.compute.invert(won["_delete"]))
            assert {*zip(lives["_healpix_29"].to_pylist(), lives["_row"].to_pylist(), strict=True)} == state


def test_the_error_of_a_tie_shows_both_records() -> None:
    standing = table_of("int64", "int", [Put(1, False, 5)], 0, 0)
    night = table_of("int64", "int", [Put(2, False, 5), Put(1, True, 5)], 3, 0)
    with pytest.raises(InputError) as raised:
        settle(standing, night, ordinal=3, order=RecordOrder(), nights={0: "2026-11-20", 3: "2026-11-21"})
    assert "1 keys have records of the same order" in str(raised.value)
    assert "id -350000000000000000 with order 2" in str(raised.value)
    assert "row 0 of increment 0 (2026-11-20) and row 1 of increment 3 (2026-11-21)" in str(raised.value)


def test_a_key_twice_in_a_night_is_shown_with_its_rows() -> None:
    night = table_of("two", None, [Put(1, False, 0), Put(2, False, 0), Put(1, False, 0)], 2, 0)
    with pytest.raises(InputError) as raised:
        settle(night.schema.empty_table(), night, ordinal=2, order=RecordOrder({2: 0}))
    assert "1 keys come twice in a night" in str(raised.value)
    assert "field 'd'" in str(raised.value)
    assert "row 0 of increment 2 and row 2 of increment 2" in str(raised.value)


def test_records_of_an_increment_that_the_version_lacks_are_an_error() -> None:
    standing = table_of("int64", None, [Put(1, False, 0)], 7, 0)
    night = table_of("int64", None, [Put(1, False, 0)], 8, 0)
    with pytest.raises(VerificationError, match="records of increment 7"):
        settle(standing, night, ordinal=8, order=RecordOrder({8: 0}))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None, 3], pa.int64()), "key: column 'id' has no value in 1 rows, row 1 of increment 4"),
        (
            pa.array([1, 2, 3], pa.int64()),
            "order_by: column 'seq' has no value in 2 rows, row 0 of increment 4",
        ),
    ],
)
def test_missing_keys_and_orders_are_shown(column: pa.Array, message: str) -> None:
    rows = pa.table({"id": column, "seq": pa.array([np.nan, None, 1.0])})
    schema = records_schema(rows.schema, ["id"], "seq")
    with pytest.raises(InputError, match=message):
        as_records(
            rows,
            schema,
            "seq",
            row=(4 << 40) + np.arange(3),
            h29=np.zeros(3, np.int64),
            delete=np.zeros(3, bool),
        )


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.list_(pa.int64()), pa.duration("s")])
def test_types_that_are_no_keys_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"column 'x' is of type .*; a key holds whole numbers"):
        records_schema(pa.schema([("x", kind)]), ["x"], None)


def test_columns_that_there_are_not_or_that_are_ours_are_refused() -> None:
    schema = pa.schema([("x", pa.int64()), ("_row", pa.int64()), ("flags", pa.list_(pa.int8()))])
    with pytest.raises(SchemaMismatchError, match="key: there is no column 'y'; there are x, _row, flags"):
        records_schema(schema, ["x", "y"], None)
    with pytest.raises(SchemaMismatchError, match="order_by: there is no column 'y'"):
        records_schema(schema, ["x"], "y")
    with pytest.raises(SchemaMismatchError, match="_row is a name of the catalog's own"):
        records_schema(schema, ["_row"], None)
    with pytest.raises(SchemaMismatchError, match="order_by: column 'flags' is of type list"):
        records_schema(schema, ["x"], "flags")
