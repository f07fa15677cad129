"""The right rows of an equi-join whose keys may lie in any pixel: all in memory, once in each process."""

from __future__ import annotations

from threading import Lock
from typing import Any

import pyarrow as pa

from hipslake.catalog.joining.join import PIECE_ROWS, Keyed
from hipslake.catalog.joining.stretches import plan_stretches
from hipslake.errors import SpecError

MAX_BYTES = 1 << 30
"""Of the columns that are needed of all rows that take part, in memory."""


class GatheredRows:
    """All rows of a side, along the curve. It travels with tasks without them.

    Parameters
    ----------
    side : Keyed
    """

    def __init__(self, side: Keyed) -> None:
        self._side = side
        self._lock = Lock()
        self._rows: pa.Table | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return GatheredRows, (self._side,)

    def check(self) -> None:
        """Raise `SpecError` if numbers alone are more than fit, and no filter leaves rows out."""
        kinds = [field.type for field in self._side.stretches.schema]
        width = sum(kind.bit_width / 8 for kind in kinds if pa.types.is_primitive(kind))
        if self._side.filter is None and self._side.metadata.total_rows * width > MAX_BYTES:
            raise self._too_many()

    def table(self) -> pa.Table:
        """The rows, with what the join needs of each; read when they are first asked for.

        Raises
        ------
        SpecError
            They take more memory than `MAX_BYTES`; no more than that was read.
        """
        with self._lock:
            if self._rows is None:
                self._rows = self._read()
            return self._rows

    def _read(self) -> pa.Table:
        side = self._side
        stretches = side.stretches
        plan = plan_stretches(side.storage, side.metadata, PIECE_ROWS)
        tables, held = [stretches.schema.empty_table()], 0
        for start, stop in zip(plan.start.tolist(), plan.stop.tolist(), strict=True):
            tables.append(stretches.read(start, stop))
            held += tables[-1].nbytes
            if held > MAX_BYTES:
                raise self._too_many()
        return pa.concat_tables(tables).combine_chunks()

    def _too_many(self) -> SpecError:
        return SpecError(
            f"gather: the rows of catalog {self._side.metadata.catalog} take more than {MAX_BYTES >> 20} MiB "
            "of memory; keep fewer columns of it, filter it, let the catalogs change sides, or give "
            "shuffle=True with a Spark session"
        )
