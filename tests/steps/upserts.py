"""A survey in mode upsert, night by night, by the real steps without Spark, and what it must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.metadata import CatalogMetadata

from tests.steps.nights import Survey

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


class Record(NamedTuple):
    """A row of a file; one that deletes has no position."""

    op: str
    id: int
    seq: int
    ra: float | None
    dec: float | None
    mag: float
    night: int

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
    nights: dict[int, list[Record]] = field(default_factory=dict)

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

    def leaf(self, path: str) -> pa.Table:
        """The rows of a leaf file, as pyarrow alone reads them."""
        return pq.ParquetFile(self.root / path).read()

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


def state_of(nights: Mapping[int, list[Record]], *, ordered: bool) -> dict[int, Record]:
    """The records whose rows stand, by key."""
    best: dict[int, tuple[int, Record]] = {}
    for number, records in nights.items():
        for record in records:
            rank = record.seq if ordered else number
            if record.id not in best or best[record.id][0] < rank:
                best[record.id] = (rank, record)
    return {key: record for key, (_, record) in best.items() if record.op != "D"}


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table, as those of records."""
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def plain_rows(survey: UpsertSurvey, metadata: CatalogMetadata) -> list[tuple[Any, ...]]:
    """The rows of the leaf files of a version, read by pyarrow alone; column groups are joined by `_row`."""
    columns: dict[str, np.ndarray] = {}
    for group in metadata.groups:
        paths = group.table(survey.catalog.storage)["path"].to_pylist()
        tables = [survey.leaf(path) for path in paths]
        if not tables:
            return []
        table = pa.concat_tables(tables).sort_by("_row")
        if "_row" in columns:
            assert np.array_equal(columns["_row"], table["_row"].to_numpy())
        columns |= {name: table[name].to_numpy() for name in table.column_names}
    return sorted(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))
