"""Ranges of keys: the shares of the reduce tasks of an exchange, each of which writes sorted files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.run_files import KeySpan
from hipslake.engine.model import Routed, by_target
from hipslake.engine.reordering import in_order

SAMPLES = 200
"""Keys per range that a sample should have."""


@dataclass(frozen=True)
class KeyRanges:
    """Ranges of keys that follow one another, from the least to the greatest there can be.

    Attributes
    ----------
    by : KeyColumns
    bounds : pyarrow.Table
        The first key of each range but the first, ascending, distinct.
    """

    by: KeyColumns
    bounds: pa.Table

    @classmethod
    def one(cls, by: KeyColumns) -> KeyRanges:
        """A single range, for what one task sorts in its memory."""
        return cls(by, by.schema.empty_table())

    @classmethod
    def even(cls, by: KeyColumns, sample: pa.Table, number: int) -> KeyRanges:
        """About so many ranges with about as many keys in each.

        Parameters
        ----------
        by : KeyColumns
        sample : pyarrow.Table
            Some keys, in any order: of `sampled`, about `SAMPLES` for each range.
        number : int
            Ranges; there are fewer where a single key fills several.
        """
        codes = by.ranks(sample)[0]
        along = np.argsort(codes, kind="stable")
        chosen = along[np.unique(np.arange(1, number) * len(along) // number)] if len(along) else along
        _, first = np.unique(codes[chosen], return_index=True)
        return cls(by, sample.select(by.names).take(pa.array(chosen[first])).cast(by.schema))

    def __len__(self) -> int:
        return self.bounds.num_rows + 1

    def span(self, number: int) -> KeySpan:
        """One of the ranges."""
        low = self.bounds.slice(number - 1, 1) if number else None
        return KeySpan(low, self.bounds.slice(number, 1) if number < self.bounds.num_rows else None)

    def route(self, rows: pa.Table) -> Iterator[Routed]:
        """Rows with the key columns, each to the task of its range; in their order, unsorted."""
        codes, bounds = self.by.ranks(rows, self.bounds)
        for target, places in by_target(np.searchsorted(bounds, codes, side="right"), len(self)):
            for batch in in_order(rows, places).combine_chunks().to_batches():
                yield target, batch

    def wake(self, schema: pa.Schema) -> Iterator[Routed]:
        """An empty batch for every task: one that is sent nothing would not be called."""
        for target in range(len(self)):
            yield target, pa.RecordBatch.from_pylist([], schema)


def sampled(keys: Iterable[pa.Table], by: KeyColumns, most: int) -> pa.Table:
    """Some keys, evenly.

    Parameters
    ----------
    keys : iterable of pyarrow.Table
        With the key columns in their plain types.
    by : KeyColumns
    most : int
        Most keys that are given.
    """
    kept = [by.schema.empty_table()]
    weights = []
    for table in keys:
        kept.append(_evenly(table.select(by.names).cast(by.schema), most))
        weights.append(table.num_rows)
    if sum(table.num_rows for table in kept) <= most:
        return pa.concat_tables(kept).combine_chunks()
    # A short table gave as many keys as a long one: each is cut to its share.
    whole = sum(weights)
    shares = [_evenly(table, -(-most * rows // whole)) for table, rows in zip(kept[1:], weights, strict=True)]
    return _evenly(pa.concat_tables(shares), most).combine_chunks()


def _evenly(table: pa.Table, most: int) -> pa.Table:
    if table.num_rows <= most:
        return table
    return table.take(pa.array(np.linspace(0, table.num_rows - 1, most).astype(np.int64)))
