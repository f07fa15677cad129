"""The rows of a sink that follows a catalog: what changed since the version that the table has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.changes.change_feed import PIECE_ROWS, ChangeFeed
from hipslake.catalog.changes.change_rows import CHANGE_COLUMN, DELETE, INSERT
from hipslake.errors import PlanError, VersionNotFoundError
from hipslake.planning.splits import assign_targets
from hipslake.sources.source_reader import BATCH_ROWS
from hipslake.steps.row_routing import runs_of
from hipslake.steps.sink.catalog_rows import schema_of_catalog, standing_version
from hipslake.tables.marks import SinkMark
from hipslake.tables.sink_order import SinkOrder, VersionRows


class CatalogDifference(NamedTuple):
    """What changed in a catalog: rows that came, also in place of others, and rows that went."""

    feed: ChangeFeed
    came: ChangedRows
    went: ChangedRows


@dataclass(frozen=True)
class ChangedRows:
    """The rows of a change feed that came, or those that went, in parts that tasks read alone.

    A row that became another one is among both.

    Attributes
    ----------
    feed : ChangeFeed
        Without a key.
    kind : {"insert", "delete"}
    runs : tuple of (int, int)
        Per part, the stretches of the feed that are compared for it.
    """

    feed: ChangeFeed
    kind: str
    runs: tuple[tuple[int, int], ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the catalog."""
        return pa.schema([field for field in self.feed.schema if field.name != CHANGE_COLUMN])

    @property
    def tasks(self) -> int:
        """In how many parts they are read."""
        return len(self.runs)

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a part, along the curve; at least some columns of them."""
        wanted = list(columns) or self.schema.names[:1]
        for at in range(*self.runs[task]):
            start, stop = int(self.feed.stretches.start[at]), int(self.feed.stretches.stop[at])
            found = self.feed.carried(start, stop)
            found = found.filter(pc.equal(found[CHANGE_COLUMN], self.kind)).select(wanted)
            yield from found.combine_chunks().to_batches()


def changes_since(order: SinkOrder, before: SinkMark) -> CatalogDifference:
    """What changed in the catalog of an order since a sink of it.

    Parameters
    ----------
    order : SinkOrder
        Of the rows of a version.
    before : SinkMark

    Raises
    ------
    PlanError
        It is not known which rows the table has, or no version that is kept has them.
    """
    rows = order.rows
    assert isinstance(rows, VersionRows), "a catalog has changes"
    old = CatalogReader.open(rows.uri, _version_sunk(order, before))
    new = CatalogReader.open(rows.uri, rows.version)
    columns = schema_of_catalog(new.metadata, rows.columns).names
    # A column that a rollback took away: its values are to go from the table, too.
    columns += [name for name in schema_of_catalog(old.metadata, rows.columns).names if name not in columns]
    feed = ChangeFeed.of(new.storage, old.metadata, new.metadata, columns, rows.filters, None, ())
    numbers = assign_targets(feed.stretches.rows.astype(np.int64), PIECE_ROWS)
    runs = tuple(runs_of(numbers))
    return CatalogDifference(feed, ChangedRows(feed, INSERT, runs), ChangedRows(feed, DELETE, runs))


def check_has_columns(order: SinkOrder, before: SinkMark, stored: pa.Schema, table: pa.Schema) -> None:
    """Look that a table has the columns that rows bring, but for those which the catalog had not before.

    Parameters
    ----------
    order : SinkOrder
        Of the rows of a version.
    before : SinkMark
        Of a sink of it.
    stored : pyarrow.Schema
        What rows bring.
    table : pyarrow.Schema
        What the table has.

    Raises
    ------
    PlanError
        It lacks one. Made anew, it would be null in all rows that have not changed.
    """
    lacking = [name for name in stored.names if name not in table.names]
    if not lacking:
        return
    rows = order.rows
    assert isinstance(rows, VersionRows), "a catalog has changes"
    old = CatalogReader.open(rows.uri, _version_sunk(order, before)).metadata
    new = CatalogReader.open(rows.uri, rows.version).metadata
    came = set(schema_of_catalog(new, rows.columns).names) - set(schema_of_catalog(old, rows.columns).names)
    if lost := [name for name in lacking if name not in came]:
        raise PlanError(
            f"table {order.spec.table}: it has no column {', '.join(map(repr, lost))}: others dropped or "
            "renamed it, or the spec names it since. Rows that have not changed would lack it; "
            f"{_MEND}"
        )


_MEND = "set force, which writes the table anew with what the catalog has"


def _version_sunk(order: SinkOrder, before: SinkMark) -> int:
    """A version of the catalog with the rows that a table has of it."""
    rows, source, table = order.rows, before.source, f"table {order.spec.table}"
    assert isinstance(rows, VersionRows), "a catalog has changes"
    if source is None or source.increment is not None:
        raise PlanError(f"{table}: it does not say which version of {rows.uri} it has; {_MEND}")
    if (source.columns, source.filters) != (rows.columns, rows.filters):
        raise PlanError(
            f"{table}: it was fed with other columns or another filter than the spec names now, so that rows "
            f"which have not changed since would lack them; {_MEND}"
        )
    wanted = rows.model_copy(update={"version": source.version, "content": source.content})
    try:
        return standing_version(wanted).version
    except VersionNotFoundError:
        raise PlanError(
            f"{table}: it has version {source.version} of {rows.uri}, which was vacuumed, and no version "
            f"that is kept has the same rows, so that it is not known what changed since; {_MEND}. Versions "
            "stay longer with larger keep_versions and keep_days (`vacuum` in the spec of the catalog)"
        ) from None
