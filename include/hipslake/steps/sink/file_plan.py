"""Which files a sink writes, and which task writes which: of the new rows, and of old ones that stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.engine.model import Engine
from hipslake.specs.partition_fields import PartitionField
from hipslake.specs.table_spec import TableMode
from hipslake.steps.sink.new_rows import SOURCE, Counted
from hipslake.steps.sink.replaced_rows import Replaced
from hipslake.tables.old_rows import StoredFile
from hipslake.tables.order import SinkOrder
from hipslake.tables.schemas import arrow_schema
from hipslake.tables.shuffle import ShufflePlan, ValueCounts, plan_shuffle
from hipslake.tables.standing_fields import given_up
from hipslake.tables.transforms import result_type
from hipslake.tables.values import ROWS, PartitionValues


@dataclass(frozen=True)
class OldFile:
    """A file of the table that is replaced, but of which rows stay.

    Attributes
    ----------
    stored : StoredFile
    rows : int
        That stay.
    value : int
        Number of their partition value.
    """

    stored: StoredFile
    rows: int
    value: int


@dataclass(frozen=True)
class SinkPlan:
    """What is written.

    Attributes
    ----------
    values : PartitionValues
        Of all rows.
    shuffle : ShufflePlan
    old : tuple of OldFile
        Whose remaining rows are written again.
    """

    values: PartitionValues
    shuffle: ShufflePlan
    old: tuple[OldFile, ...]

    @property
    def rewritten(self) -> int:
        """Rows of the table that are written again."""
        return sum(file.rows for file in self.old)


def plan_sink(
    order: SinkOrder,
    engine: Engine,
    table: Table,
    fields: tuple[PartitionField, ...],
    counted: Counted,
    replaced: Replaced,
    parts: int,
) -> SinkPlan:
    """Plan the files of a sink.

    Parameters
    ----------
    order : SinkOrder
    engine : Engine
    table : pyiceberg.table.Table
    fields : tuple of PartitionField
        Of the table's columns.
    counted : Counted
    replaced : Replaced
    parts : int
        In which the new rows are read.
    """
    counts = counted.values
    kinds = None if counts is None else counts.drop_columns([ROWS, SOURCE])
    stay = _partition_rows([file for file, _ in replaced.partly], table, fields)
    values = PartitionValues.of(stay if kinds is None else pa.concat_tables([stay, kinds]))
    number = values.numbers(stay, len(replaced.partly))
    old = tuple(
        OldFile(StoredFile.of(file, table), rows, int(value))
        for (file, rows), value in zip(replaced.partly, number, strict=True)
    )
    source = np.arange(len(old), dtype=np.int64)
    rows = np.array([file.rows for file in old], np.int64)
    if counts is not None and kinds is not None:
        source = np.append(source, counts[SOURCE].to_numpy() + len(old))
        number = np.append(number, values.numbers(kinds, counts.num_rows))
        rows = np.append(rows, counts[ROWS].to_numpy())
    some = rows > 0
    shuffle = plan_shuffle(
        ValueCounts(source[some], number[some], rows[some], values.count),
        partition=order.spec.partition,
        upsert=order.spec.mode is TableMode.UPSERT,
        key=order.spec.key,
        sources=len(old) + parts,
        row_bytes=counted.row_bytes,
        target_bytes=order.spec.target_file_size.value,
        cores=engine.cores,
        rewrites=bool(old),
    )
    return SinkPlan(values, shuffle, old)


def _partition_rows(files: list[DataFile], table: Table, fields: tuple[PartitionField, ...]) -> pa.Table:
    """The partition values of files as rows, of the types that those of new rows have."""
    schema = arrow_schema(table.schema())
    found = {}
    gone = given_up(table.spec(), table.schema())
    positions = [at for at in range(len(table.spec().fields)) if at not in gone]
    for number, (at, field) in enumerate(zip(positions, fields, strict=True)):
        kind = result_type(field, schema.field(field.column).type)
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        values = [file.partition[at] for file in files]
        if pa.types.is_temporal(kind):
            plain = pa.int32() if kind.bit_width == 32 else pa.int64()
            found[str(number)] = pa.array(values, plain).view(kind)
        else:
            found[str(number)] = pa.array(values, kind)
    return pa.table(found)
