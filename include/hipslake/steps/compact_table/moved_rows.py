"""Rows of older partition specs: which partitions of the present one they go to, and into how many files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.clustering.planning import FileSizing, RewriteGroup
from hipslake.engine.model import Counter, Engine
from hipslake.specs.partition_fields import PartitionField
from hipslake.steps.compact_table.file_parts import Parts, read_rows
from hipslake.steps.compact_table.row_placement import PartitionPlacement
from hipslake.steps.tables import from_ipc, to_ipc
from hipslake.tables.compaction_protocol import CompactedTable, FileAccess
from hipslake.tables.partition_values import ROWS, PartitionValues, added_up, counted, value_columns

_RESULT = pa.schema([("group", pa.int64()), ("counts", pa.binary())])


def count_moved(
    engine: Engine,
    table: CompactedTable,
    groups: Sequence[RewriteGroup],
    parts: Parts,
    sizing: FileSizing,
    seed: int,
) -> dict[int, PartitionPlacement]:
    """Count the rows of each partition value in the groups of older partition specs; by number of group."""
    fields = table.partition_fields
    assert fields is not None, "only such groups are planned"
    moving = tuple(
        some for task in parts if (some := tuple(part for part in task if groups[part.group].outdated))
    )
    task = CountMovedTask(table.access, moving, fields, tuple(table.schema.names), engine.counter())
    with engine.progress("count", done=task.done):
        found = engine.run(task, tasks=len(moving), result=_RESULT)
    by_group: dict[int, list[pa.Table]] = {}
    for row in found.to_pylist():
        by_group.setdefault(row["group"], []).append(from_ipc(row["counts"]))
    return {
        number: _placement(fields, by_group.get(number, []), group, sizing, seed)
        for number, group in enumerate(groups)
        if group.outdated
    }


def _placement(
    fields: tuple[PartitionField, ...],
    counts: list[pa.Table],
    group: RewriteGroup,
    sizing: FileSizing,
    seed: int,
) -> PartitionPlacement:
    """As many files for each value as its share of the bytes of the group asks for."""
    names = [str(at) for at in range(len(fields))]
    if not counts:  # all rows are deleted
        nothing = pa.table({name: pa.nulls(0) for name in names})
        return PartitionPlacement(fields, PartitionValues(nothing, 0), np.empty(0, np.int64), seed)
    total = added_up(pa.concat_tables(counts))
    values = PartitionValues.of(total.select(names))
    rows = np.zeros(values.count, np.int64)
    rows[values.numbers(total.select(names), total.num_rows)] = total[ROWS].to_numpy()
    row_bytes = group.bytes / max(group.rows, 1)
    files = [max(1, min(sizing.num_files(int(number * row_bytes)), int(number))) for number in rows]
    return PartitionPlacement(fields, values, np.array(files, np.int64), seed)


@dataclass(frozen=True)
class CountMovedTask:
    """Counts the partition values of rows.

    Attributes
    ----------
    access : FileAccess
    parts : tuple of tuple of FilePart
        Those of each task.
    fields : tuple of PartitionField
        Of the table now.
    names : tuple of str
        The columns of the table.
    done : Counter
        Rows counted so far.
    """

    access: FileAccess
    parts: Parts
    fields: tuple[PartitionField, ...]
    names: tuple[str, ...]
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give the counts of each group, as an Arrow IPC stream."""
        columns = list(dict.fromkeys(field.column for field in self.fields)) or self.names[:1]
        counts: dict[int, list[pa.Table]] = {}
        for part, _, batch in read_rows(self.access, self.parts[task], columns):
            values = value_columns(self.fields, batch)
            counts.setdefault(part.group, []).append(counted(values, batch.num_rows))
            self.done.add(batch.num_rows)
        found = [to_ipc(added_up(pa.concat_tables(some))) for some in counts.values()]
        yield pa.record_batch(
            [pa.array(list(counts), pa.int64()), pa.array(found, pa.binary())], schema=_RESULT
        )
