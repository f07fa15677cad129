"""Mode upsert with intervals of validity: the rows of a run with the columns that say when each holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.validity import begins_of, validity_fields, with_interval
from hipslake.steps.append.state import AppendState
from hipslake.steps.ingest.split_rows import Chunk
from hipslake.steps.row_lists import EndList


@dataclass
class ValidRows:
    """Gives the rows that a map task reads the two columns of `validity`.

    Attributes
    ----------
    state : AppendState
    closed : EndList
        Rows of the run whose interval has an end; the others hold until further notice.
    """

    state: AppendState
    closed: EndList

    def with_intervals(self, chunk: Chunk, first: int) -> Chunk:
        """A chunk with both columns; `first` is the `_row` of its first row."""
        spec, rows = self.state.spec, chunk.rows
        fields = validity_fields(spec, self.state.schema)
        begins = begins_of(rows, fields[0], spec.order_by, self.state.run.start)
        ends = pa.nulls(rows.num_rows, fields[1].type)
        ends, _ = self.closed.with_ends(first + np.arange(rows.num_rows), ends)
        return chunk._replace(rows=with_interval(rows, fields, begins, ends))
