"""Whether rows that others have added may be rows of a sink that they have changed.

Rows that are gone were deleted or changed. A row that came is a changed one of them if it has the identity of
one: it is equal to it in the identifier fields of the table, where it has such; elsewhere in a column in
which no two rows of the sink are equal. Columns of real numbers and truths identify nothing. Where no column
identifies the rows of a sink, any row that came may be a changed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.table import Table

from hipslake.engine.model import Block, Engine, Routed
from hipslake.engine.scratch import blocks_in_folder
from hipslake.steps.sink.follow_rows import Followed, hashes_of_rows
from hipslake.steps.sink.sink_rows import runs_of
from hipslake.storage.folder import Storage
from hipslake.tables.positions import Positions
from hipslake.tables.stored_files import StoredFile, read_data_file

_MINE, _LOST, _NEW = range(3)
_ROUTED = pa.schema(
    [("identity", pa.int64()), ("kind", pa.int64()), ("low", pa.uint64()), ("high", pa.uint64())]
)
_RESULT = pa.schema([("identity", pa.int64()), ("twice", pa.bool_()), ("alike", pa.int64())])
_TASK_VALUES = 4_000_000
_VALUE_BYTES = 32.0


def resembling(
    engine: Engine,
    *,
    table: Table,
    schema: pa.Schema,
    files: tuple[StoredFile, ...],
    followed: Followed,
    work: Storage,
) -> int:
    """Count the rows which others have added that may be changed ones of a sink.

    Parameters
    ----------
    engine : Engine
    table : pyiceberg.table.Table
    schema : pyarrow.Schema
        Of the table.
    files : tuple of StoredFile
        Those of the descent.
    followed : Followed
        With rows that are lost, and new ones.
    work : Storage
        Where positions and blocks may wait.
    """
    kinds = (followed.mine, followed.lost, followed.new)
    told = _identifier(table, schema)
    identities = (told,) if told else tuple((field.name,) for field in schema if _identifies(field.type))
    rows = sum(len(at) for kind in kinds for at in kind.values())
    targets = max(engine.cores, -(-rows * len(identities) // _TASK_VALUES))
    task = ResembleTask(
        files,
        schema,
        identities,
        tuple(Positions.kept(work.sub(f"resembling-{at}"), kind) for at, kind in enumerate(kinds)),
        targets,
    )
    twice, alike = np.zeros(len(identities), bool), np.zeros(len(identities), np.int64)
    if identities:
        with engine.progress("compare"):
            found = engine.exchange(
                sources=len(files),
                mapper=task.route,
                targets=targets,
                reducer=task.compare,
                result=_RESULT,
                scratch=blocks_in_folder(work, "exchange-resembling", _VALUE_BYTES * rows * len(identities)),
            )
        for row in found.to_pylist():
            twice[row["identity"]] |= row["twice"]
            alike[row["identity"]] += row["alike"]
    if told:
        return int(alike[0])
    if twice.all():
        return sum(len(at) for at in followed.new.values())
    return int(alike[~twice].max())


def _identifier(table: Table, schema: pa.Schema) -> tuple[str, ...]:
    """The identifier fields of a table; none, if some are parts of nested columns."""
    names = tuple(sorted(table.schema().identifier_field_names()))
    return names if all(name in schema.names for name in names) else ()


def _identifies(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind))


@dataclass(frozen=True)
class ResembleTask:
    """Both halves of the exchange: values of each identity meet. Sources are the files.

    Attributes
    ----------
    files : tuple of StoredFile
    schema : pyarrow.Schema
    identities : tuple of tuple of str
        Columns that together identify rows, or may.
    positions : tuple of Positions
        Per file, of the rows of the sink that are there; of those that are lost; and of new ones.
    targets : int
    """

    files: tuple[StoredFile, ...]
    schema: pa.Schema
    identities: tuple[tuple[str, ...], ...]
    positions: tuple[Positions, ...]
    targets: int

    def route(self, number: int) -> Iterator[Routed]:
        """Send the hashes of a file's values; nulls, which identify nothing, as values that come twice."""
        chosen = [each.of(number) for each in self.positions]
        if all(at is None for at in chosen):
            return
        names = list(dict.fromkeys(name for each in self.identities for name in each))
        position = 0
        for batch in read_data_file(self.files[number], self.schema, names):
            for kind, at in enumerate(chosen):
                if at is None:
                    continue
                first, last = np.searchsorted(at, [position, position + batch.num_rows]).tolist()
                if first < last:
                    yield from self._routed(batch.take(pa.array(at[first:last] - position)), kind)
            position += batch.num_rows

    def _routed(self, rows: pa.RecordBatch, kind: int) -> Iterator[Routed]:
        for identity, names in enumerate(self.identities):
            some = rows.select(list(names))
            low, high = hashes_of_rows(some)
            for column in some.columns:
                if column.null_count:
                    null = pc.is_null(column).to_numpy(zero_copy_only=False)
                    low[null] = high[null] = 0
            target = (high % np.uint64(self.targets)).astype(np.int64)
            order = np.argsort(target, kind="stable")
            parts = [np.full(len(order), identity), np.full(len(order), kind), low[order], high[order]]
            routed = pa.RecordBatch.from_arrays([pa.array(part) for part in parts], schema=_ROUTED)
            for start, stop in runs_of(target[order]):
                yield int(target[order[start]]), routed.slice(start, stop - start)

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Look whether values come twice in the sink, and how many new rows have one of a lost row."""
        rows = pa.Table.from_batches([block.rows for block in blocks], _ROUTED)
        blocks.clear()
        identity, kind, low, high = (rows[name].to_numpy() for name in _ROUTED.names)
        null = (low == 0) & (high == 0)
        order = np.lexsort((high, low, identity))
        steps = np.zeros(len(order), np.int64)
        for part in (identity, low, high):
            steps[1:] |= np.diff(part[order]) != 0
        value = np.empty(len(order), np.int64)
        value[order] = np.cumsum(steps)
        mine, lost = (
            np.bincount(value[some], minlength=len(order)) for some in (kind != _NEW, kind == _LOST)
        )
        found: dict[int, tuple[bool, int]] = {}
        for each in np.unique(identity).tolist():
            here: NDArray[np.bool_] = identity == each
            twice = bool((mine[value[here]] > 1).any() or (null & here & (kind != _NEW)).any())
            alike = here & (kind == _NEW) & ~null & (lost[value] > 0)
            found[each] = (twice, int(alike.sum()))
        told = [(each, *of) for each, of in found.items()]
        columns = [
            pa.array(column, kind)
            for column, kind in zip(zip(*told, strict=True), _RESULT.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_RESULT)
