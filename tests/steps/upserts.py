"""A survey in mode upsert, night by night, by the real steps without Spark, and what it must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from hipslake.catalog.metadata import CatalogMetadata

from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import FIRST, Survey

TWO_GROUPS = """
column_groups:
  - name: main
    columns: [id, ra, dec, seq]
  - name: light
    columns: "*"
    threshold: 11 rows
"""
SCHEMA = pa.schema(
    {
        "op": pa.string(),
        "id": pa.int64(),
        "seq": pa.int64(),
        "ra": pa.float64(),
        "dec": pa.float64(),
        "mag": pa.float64(),
        "night": pa.int32(),
    }
)
"""Of the files of a night."""
COLUMNS = ["id", "seq", "ra", "dec", "mag", "night"]
"""What the catalog has of them."""
VALIDITY = "\nvalidity: {from: valid_from, to: valid_to}"
HISTORY = [*COLUMNS, "valid_from", "valid_to"]
"""What it has with `VALIDITY`."""


class Record(NamedTuple):
    """A row of a file; one that deletes has no position."""

    op: str
    id: int
    seq: int
    ra: float | None
    dec: float | None
    mag: float
    night: int
    correction: int = 0  # of a record that corrects one of a night: the newer, the greater

    @property
    def row(self) -> tuple[Any, ...]:
        """The row that it puts."""
        return (self.id, self.seq, self.ra, self.dec, self.mag, self.night)


def table_of(records: Iterable[Record]) -> pa.Table:
    """The records as a night's files have them."""
    return pa.Table.from_pylist([record._asdict() for record in records], SCHEMA)


@dataclass
class UpsertSurvey(Survey):
    """Nights of records that were landed and upserted."""

    key: str = "[id]"
    ordered: bool = True
    nights: dict[float, list[Record]] = field(default_factory=dict)  # with 0.5: corrections of a night

    def __post_init__(self) -> None:
        mode = ["mode: upsert", f"key: {self.key}", "operation: {column: op}"]
        mode += ["order_by: seq"] if self.ordered else []
        self.spec_text = self.appending_spec.replace("mode: append", "\n".join(mode))

    def upsert(self, number: int, records: list[Record]) -> Any:
        """Land the records of a night and upsert them."""
        self.land(number, table_of(records))
        report = self.append(number)
        self.nights[number] = list(records)
        return report

    @property
    def state(self) -> dict[int, Record]:
        """What each key must have, by the definition."""
        return state_of(self.nights, ordered=self.ordered)

    @property
    def is_published(self) -> bool:
        """Whether there is a version."""
        return (self.root / "metadata.json").exists()

    def assert_holds_the_state(self) -> None:
        """Check that the newest version is whole, and its leaf files have exactly the rows of the state."""
        if not self.is_published:
            assert not self.state
            return
        catalog = self.catalog
        catalog.verify().raise_if_failed()
        expected = sorted(record.row for record in self.state.values())
        assert catalog.metadata.total_rows == len(expected)
        assert plain_rows(self, catalog.metadata) == expected
        assert sorted(rows_of(catalog.read())) == expected


def state_of(nights: Mapping[float, list[Record]], *, ordered: bool) -> dict[int, Record]:
    """The records whose rows stand, by key."""
    best: dict[int, tuple[tuple[float, int], Record]] = {}
    for number, records in nights.items():
        for record in records:
            rank = (record.seq if ordered else int(number), record.correction)
            if record.id not in best or best[record.id][0] < rank:
                best[record.id] = (rank, record)
    return {key: record for key, (_, record) in best.items() if record.op != "D"}


@dataclass
class UpsertHistory(UpsertSurvey):
    """A survey whose catalog keeps all rows, with the interval in which each was that of its key."""

    def __post_init__(self) -> None:
        self.more += VALIDITY
        super().__post_init__()

    def assert_holds_the_state(self) -> None:
        """Check that the newest version is whole, and its leaf files have exactly the rows of all nights."""
        expected = history_of(self.nights, ordered=self.ordered)
        if not self.is_published:
            assert not expected
            return
        catalog = self.catalog
        catalog.verify().raise_if_failed()
        assert catalog.metadata.total_rows == len(expected)
        assert plain_rows(self, catalog.metadata, HISTORY) == in_order(expected)
        assert in_order(rows_of(catalog.read(), HISTORY)) == in_order(expected)
        present = rows_of(catalog.read(filters="valid_to is null"))
        assert sorted(present) == sorted(record.row for record in self.state.values())
        assert_margins_are_exact(catalog)


def history_of(nights: Mapping[float, list[Record]], *, ordered: bool) -> list[tuple[Any, ...]]:
    """All rows, each with the order of its record and that of the next one of its key, by the definition."""
    of_keys: dict[int, list[tuple[Any, Record]]] = {}
    for number, records in nights.items():
        for record in records:
            order = record.seq if ordered else FIRST + timedelta(days=number)
            of_keys.setdefault(record.id, []).append((order, record))
    found = []
    for its in of_keys.values():
        its.sort(key=lambda each: each[0])
        for at, (order, record) in enumerate(its):
            if record.op != "D":
                found.append((*record.row, order, its[at + 1][0] if at + 1 < len(its) else None))
    return found


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that may have nulls, sorted: nulls last."""
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


def rows_of(table: pa.Table, columns: list[str] = COLUMNS) -> list[tuple[Any, ...]]:
    """The rows of a table, as those of records."""
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def plain_rows(
    survey: Survey, metadata: CatalogMetadata, names: list[str] = COLUMNS
) -> list[tuple[Any, ...]]:
    """The rows of the leaf files of a version, read by pyarrow alone; column groups are joined by `_row`."""
    columns: dict[str, list[Any]] = {}
    for group in metadata.groups:
        paths = group.table(survey.catalog.storage)["path"].to_pylist()
        tables = [survey.leaf(path) for path in paths]
        if not tables:
            return []
        table = pa.concat_tables(tables).sort_by("_row")
        found = {name: table[name].to_pylist() for name in table.column_names}
        assert all(found[name] == columns[name] for name in found.keys() & columns.keys())
        columns |= found
    return in_order(list(zip(*(columns[name] for name in names), strict=True)))
