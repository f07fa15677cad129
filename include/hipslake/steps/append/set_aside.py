"""Mode upsert: rows whose record lost are set aside, sorted by `_row`, so that they can come back.

Rows that leave the leaves are taken up where these are merged, by each column group alone, and rows that come
late where the files are read. Both lie in the run folder first. Here the groups are put together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.metadata import RecordRun
from hipslake.catalog.records.record_lookup import BY_ROW
from hipslake.catalog.records.run_building import build_run
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.engine.model import Engine
from hipslake.engine.reordering import in_order
from hipslake.errors import VerificationError
from hipslake.steps.append.request import attempt_path
from hipslake.steps.append.settled_night import SettledNight
from hipslake.steps.ingest.superseded_rows import read_rows, write_rows
from hipslake.storage.folder import Storage

_LATE = "late"  # beside the column groups
_PART_ROWS = 1 << 20


def joined_columns(schemas: dict[str, pa.Schema]) -> pa.Schema:
    """The columns of all groups side by side: each once, in the order of the groups, `_row` last."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas.values():
        for field in schema:
            fields.setdefault(field.name, field)
    row = fields.pop(ROW_COLUMN)
    return pa.schema([*fields.values(), row])


def store_late(folder: Storage, write_id: str, name: str, rows: pa.Table) -> None:
    """Store rows of a run that come late, as a map task finds them: columns of all groups, by `_row`."""
    write_rows(folder, _path(write_id, f"{_LATE}/{name}.arrow"), rows)


def store_beaten(folder: Storage, write_id: str, group: str, number: int, rows: pa.Table) -> None:
    """Store rows that leave the leaves of a column group, as a reduce task finds them, by `_row`."""
    write_rows(folder, _path(write_id, f"groups/{group}/{number:06d}.arrow"), rows)


def set_aside_rows(
    catalog: Storage,
    folder: Storage,
    write_id: str,
    schemas: dict[str, pa.Schema],
    settled: SettledNight,
    engine: Engine,
) -> RecordRun | None:
    """Make a run of the rows that tasks have stored; None if there are none.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    folder : Storage
        The run folder.
    write_id : str
        The write that the run belongs to.
    schemas : dict of str to pyarrow.Schema
        Per column group, the schema of its leaf files.
    settled : SettledNight
        Which rows there have to be.
    engine : Engine

    Raises
    ------
    VerificationError
        The rows that were stored are others.
    """
    rows = settled.beaten.count + settled.late.count
    if not rows:
        return None
    numbers = np.sort(np.concatenate([settled.beaten.numbers(), settled.late.numbers()]))
    parts = SupersededParts(folder, write_id, schemas, settled, tuple(numbers[::_PART_ROWS].tolist()))
    return build_run(
        catalog,
        engine,
        parts,
        parts=len(parts.bounds),
        rows=rows,
        schema=joined_columns(schemas),
        by=BY_ROW,
        write_id=write_id,
        name="superseded",
        ordinals=np.unique(numbers >> ORDINAL_SHIFT).tolist(),
    )


@dataclass(frozen=True)
class SupersededParts:
    """The rows that are set aside, by ranges of `_row`.

    Attributes
    ----------
    folder, write_id, schemas, settled
        As of `set_aside_rows`.
    bounds : tuple of int
        The first `_row` of each range.
    """

    folder: Storage
    write_id: str
    schemas: dict[str, pa.Schema]
    settled: SettledNight
    bounds: tuple[int, ...]

    def __call__(self, part: int) -> Iterator[pa.Table]:
        """Give the rows of a range: those that leave leaves, and those that come late."""
        first = self.bounds[part]
        last = self.bounds[part + 1] if part + 1 < len(self.bounds) else np.iinfo(np.int64).max
        schema = joined_columns(self.schemas)
        expected = self.settled.beaten.of_numbers(first, last).row
        columns: dict[str, pa.ChunkedArray] = {}
        for group, its in self.schemas.items():
            rows = self._stored(f"groups/{group}", its, first, last)
            self._check(rows, expected, f"column group {group!r}")
            columns = dict(zip(rows.column_names, rows.columns, strict=True)) | columns
        yield pa.table([columns[name] for name in schema.names], schema=schema)
        late = self._stored(_LATE, schema, first, last)
        self._check(late, self.settled.late.of_numbers(first, last).row, "the files of the run")
        yield late

    def _stored(self, name: str, schema: pa.Schema, first: int, last: int) -> pa.Table:
        """The rows of a range that were stored, ascending."""
        tables = [schema.empty_table()]
        for entry in self.folder.list(_path(self.write_id, name)):
            rows = read_rows(self.folder, entry.path)
            number = rows[ROW_COLUMN].to_numpy()
            low, high = np.searchsorted(number, [first, last])
            tables.append(rows.slice(low, high - low))
        table = pa.concat_tables(tables)
        return in_order(table, np.argsort(table[ROW_COLUMN].to_numpy(), kind="stable"))

    def _check(self, rows: pa.Table, expected: NDArray[np.int64], where: str) -> None:
        if not np.array_equal(rows[ROW_COLUMN].to_numpy(), expected):
            raise VerificationError(
                f"{where}: {len(expected)} rows were to be set aside, and {rows.num_rows} were found; "
                "nothing is published. Run the step again; if it happens twice, report it as a bug"
            )


def _path(write_id: str, name: str) -> str:
    return attempt_path(write_id, f"aside/{name}")
