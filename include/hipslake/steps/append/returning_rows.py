"""Mode upsert: rows that come late and are set aside, and superseded rows that return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.leaf_rows import ALONG
from hipslake.catalog.placement import in_curve_order
from hipslake.catalog.records.record_lookup import lookup_rows
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.engine.model import Routed
from hipslake.engine.reordering import in_order, in_sort_order
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.append.set_aside import joined_columns, store_late
from hipslake.steps.append.state import AppendState
from hipslake.steps.ingest.split_rows import Chunk
from hipslake.steps.ingest.write_tasks import to_leaves
from hipslake.steps.row_lists import RowList

_PART_ROWS = 1 << 20  # that return, of a task


@dataclass
class LateRows:
    """Leaves out, of what a map task reads, the rows that come late, and stores them.

    Attributes
    ----------
    state : AppendState
    late : RowList
    task : int
        Number of the map task.
    stored : int
        Chunks of which rows are stored.
    """

    state: AppendState
    late: RowList
    task: int
    stored: int = 0

    def left_out(self, chunk: Chunk, first: int) -> Chunk:
        """A chunk without its late rows; `first` is the `_row` of its first row."""
        count = chunk.rows.num_rows
        listed = self.late.of_numbers(first, first + count).row
        if not len(listed):
            return chunk
        is_late = np.zeros(count, bool)
        is_late[listed - first] = True
        _, found = in_curve_order(
            chunk.rows,
            chunk.placed.without(~is_late),
            position=self.state.spec.position,
            schemas={"": joined_columns(self.state.schemas)},
            row_start=first,
        )
        rows = pa.Table.from_batches([found[""]])
        rows = in_order(rows, np.argsort(rows[ROW_COLUMN].to_numpy()))
        store_late(self.state.folder, self.state.write_id, f"{self.task:06d}-{self.stored:06d}", rows)
        self.stored += 1
        return chunk._replace(placed=chunk.placed.without(is_late))


def returning_parts(state: AppendState) -> int:
    """How many map tasks read superseded rows that return."""
    return 0 if state.settled is None else -(-state.settled.returns.count // _PART_ROWS)


def returning_rows(state: AppendState, part: int) -> Iterator[Routed]:
    """Some of the superseded rows that return, for every reduce task."""
    assert state.settled is not None
    numbers = state.settled.returns.numbers()[part * _PART_ROWS : (part + 1) * _PART_ROWS]
    schema = joined_columns(state.schemas)
    rows = in_sort_order(lookup_rows(state.catalog, state.settled.stored, schema, numbers), ALONG)
    rows = rows.combine_chunks()
    keys = rows[HEALPIX_COLUMN].to_numpy()
    for plan in state.plans:
        columns = [rows[name].combine_chunks() for name in plan.schema.names]
        yield from to_leaves(plan, keys, pa.RecordBatch.from_arrays(columns, schema=plan.schema))
