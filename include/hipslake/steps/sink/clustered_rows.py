"""Rows of a sink along a curve: which file of its partition each goes to, and their order within files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.clustering.column_values import columns_of
from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import (
    FileBounds,
    Placement,
    along_curve,
    drawn,
    noise_of,
    row_numbers,
    sample_size,
)
from hipslake.clustering.range_ids import NUM_RANGES, RangeBounds
from hipslake.engine.model import Engine
from hipslake.engine.reordering import in_order
from hipslake.steps.tables import from_ipc, to_ipc
from hipslake.tables.shuffle import ShufflePlan

_SEED = 0
_MOST_SAMPLED = 400_000  # rows of all partitions together
_SAMPLE = pa.schema([("value", pa.int64()), ("rows", pa.binary())])


class ValuedRows(Protocol):
    """Reads rows of sources with the numbers of their partition values."""

    def valued(self, number: int, names: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Some columns of the rows of a source, and the partition value of each row."""


@dataclass(frozen=True)
class RowClustering:
    """Puts rows into files along a curve. Small and plain, so that it travels with tasks.

    Attributes
    ----------
    columns : tuple of str
        That the curve goes through; `place.ra` is a field of a struct.
    curve : Curve
    suffix : str
        What the names of files end with.
    placements : mapping of int to Placement
        By the number of each partition value whose rows fill several files.
    """

    columns: tuple[str, ...]
    curve: Curve
    suffix: str
    placements: Mapping[int, Placement]

    @classmethod
    def planned(
        cls,
        columns: Sequence[str],
        curve: Curve,
        suffix: str,
        plan: ShufflePlan,
        rows: ValuedRows,
        schema: pa.Schema,
        fields: Sequence[str],
        engine: Engine,
    ) -> RowClustering:
        """Sample the rows of the partition values that fill several files, and cut them along the curve.

        Parameters
        ----------
        columns : sequence of str
        curve : Curve
        suffix : str
            What the names of files end with.
        plan : ShufflePlan
        rows : ValuedRows
        schema : pyarrow.Schema
            Of the table.
        fields : sequence of str
            Columns that partition values are made of.
        engine : Engine
        """
        hot = np.flatnonzero(plan.files > 1)
        if not len(hot):
            return cls(tuple(columns), curve, suffix, {})
        wanted = np.array([sample_size(NUM_RANGES, int(files)) for files in plan.files[hot]], np.float64)
        wanted *= min(1.0, _MOST_SAMPLED / wanted.sum())
        shares = np.zeros(len(plan.files))
        shares[hot] = np.minimum(1.0, wanted / np.maximum(plan.counts.totals[hot], 1))
        names = columns_of(schema, columns)
        task = SampleSourceTask(rows, names, tuple(dict.fromkeys([*names, *fields])), shares)
        with engine.progress("sample"):
            found = engine.run(task, tasks=plan_sources(plan), result=_SAMPLE)
        tables: dict[int, list[pa.Table]] = {int(value): [] for value in hot}
        for row in found.to_pylist():
            tables[row["value"]].append(from_ipc(row["rows"]))
        empty = pa.schema([schema.field(name) for name in names]).empty_table()
        samples = {value: pa.concat_tables(some or [_bare(empty)]) for value, some in tables.items()}
        bounds = RangeBounds.of_sample(pa.concat_tables(samples.values()), columns)
        light = bounds.without_sample()
        return cls(
            tuple(columns),
            curve,
            suffix,
            {
                value: Placement(light, curve, _cut(bounds, curve, some, int(plan.files[value])), True, _SEED)
                for value, some in samples.items()
            },
        )

    def files_of(
        self, rows: pa.RecordBatch, value: NDArray[np.int64], numbers: NDArray[np.int64], plan: ShufflePlan
    ) -> NDArray[np.int64]:
        """The number of the file of each row, int64[n].

        Parameters
        ----------
        rows : pyarrow.RecordBatch
        value : int64[n]
            Numbers of their partition values.
        numbers : int64[n]
            Tells rows apart, as `row_numbers`.
        plan : ShufflePlan
        """
        found: NDArray[np.int64] = plan.first_file[value].copy()
        for each in np.unique(value).tolist():
            placement = self.placements.get(each)
            if placement is None:
                continue
            if (mine := value == each).all():
                return found + placement.place(rows, numbers)[0]
            some = rows.select(list(columns_of(rows.schema, self.columns))).filter(pa.array(mine))
            found[mine] += placement.place(some, numbers[mine])[0]
        return found

    def ordered(self, rows: pa.Table) -> pa.Table:
        """The rows of a file along the curve, so that its row groups skip too."""
        return in_order(rows, along_curve(rows, self.columns, self.curve, seed=_SEED))


def plan_sources(plan: ShufflePlan) -> int:
    """How many sources have rows: those behind the last of them have none."""
    return int(plan.counts.source.max()) + 1 if len(plan.counts.source) else 0


def _cut(bounds: RangeBounds, curve: Curve, sample: pa.Table, files: int) -> FileBounds:
    keys = bounds.keys(sample, curve)
    return FileBounds.of_sample(keys, noise_of(np.arange(len(keys)), _SEED), files)


def _bare(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(None)


@dataclass(frozen=True)
class SampleSourceTask:
    """Draws rows of sources, of each partition value by itself.

    Attributes
    ----------
    rows : ValuedRows
    names : tuple of str
        Columns that are drawn.
    read : tuple of str
        These, and those that partition values are made of.
    shares : float64[values]
        Of the rows of each value; 0: none are needed.
    """

    rows: ValuedRows
    names: tuple[str, ...]
    read: tuple[str, ...]
    shares: NDArray[np.float64]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Give the sample of each value in a source, as an Arrow IPC stream."""
        found: dict[int, list[pa.RecordBatch]] = {}
        first = 0
        for batch, value in self.rows.valued(number, self.read):
            numbers = row_numbers(number, first, batch.num_rows)
            first += batch.num_rows
            for each in np.unique(value).tolist():
                if self.shares[each]:
                    chosen = (value == each) & drawn(numbers, float(self.shares[each]), _SEED)
                    some = batch.select(list(self.names)).filter(pa.array(chosen))
                    found.setdefault(each, []).append(some)
        tables = [to_ipc(_bare(pa.Table.from_batches(some))) for some in found.values()]
        yield pa.record_batch(
            [pa.array(list(found), pa.int64()), pa.array(tables, pa.binary())], schema=_SAMPLE
        )
