"""The new files of a compaction: rows are routed to them, written, and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.clustering.file_placement import Placement, row_numbers
from hipslake.clustering.planning import ClusterMark, RewriteGroup
from hipslake.engine.model import Block, Counter, Engine, Routed
from hipslake.engine.reordering import in_order
from hipslake.engine.scratch import block_bytes, blocks_in_folder
from hipslake.errors import VerificationError
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.sphere.curve import curve_order
from hipslake.steps.compact_table.file_parts import PartRows, Parts, gathered, parts_of
from hipslake.steps.compact_table.rewrite_plan import group_mark
from hipslake.steps.compact_table.rewrite_samples import Placements
from hipslake.steps.compact_table.row_placement import RowPlacement
from hipslake.steps.row_routing import runs_of
from hipslake.storage.atomic import synced_behind
from hipslake.tables.compaction_protocol import CompactedTable, FileAccess, FileExchange, Rewrite
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_values import RowSum

_RESULT = pa.schema(
    [
        ("group", pa.int64()),
        ("rows", pa.int64()),
        ("checksum", pa.int64()),
        ("file", pa.string()),
        ("deleted", pa.int64()),
    ]
)
"""Of what was read of a group, without a file; and of each file that was written, as it was read again."""

_KEY_COLUMN = "_key"
_NARROW_BITS = 32

_READ = pa.schema(
    [("group", pa.int64()), ("rows", pa.int64()), ("checksum", pa.int64()), ("deleted", pa.int64())]
)


class WrittenGroup(NamedTuple):
    """What was written of a group.

    Attributes
    ----------
    files : tuple of NewFile
    checksum : int
        Of all rows.
    deleted : int
        Rows that the files before held, and that were deleted from them.
    """

    files: tuple[NewFile, ...]
    checksum: int
    deleted: int

    def exchange(self, group: RewriteGroup) -> FileExchange:
        """The files with those that they take the place of."""
        return FileExchange(self.files, group.files)


def write_files(
    spec: CompactionSpec,
    engine: Engine,
    table: CompactedTable,
    groups: Sequence[RewriteGroup],
    rewrite: Rewrite,
    placements: Placements,
) -> list[WrittenGroup]:
    """Route all rows, write the files, and check that they hold what was read.

    Parameters
    ----------
    spec : CompactionSpec
    engine : Engine
    table : CompactedTable
    groups : sequence of RewriteGroup
    rewrite : Rewrite
        The change that is under way.
    placements : Placements
        Of these groups.

    Returns
    -------
    list of WrittenGroup
        One for each group.

    Raises
    ------
    VerificationError
        The rows that were written are not those that were read.
    """
    first = np.cumsum([0, *[len(names) for names in placements.partitions]]).tolist()
    parts = parts_of(groups, engine.cores)
    targets = [
        (partition, f"group-{number:05d}-{at:05d}-{rewrite.write_id}", number)
        for number, partitions in enumerate(placements.partitions)
        for at, partition in enumerate(partitions)
    ]
    columns = tuple(table.schema.names)
    by_key = tuple(spec.is_curve and spec.sort_within_files and not group.outdated for group in groups)
    mapper = MoveRows(rewrite.access, parts, tuple(first), columns, placements.groups, by_key, len(targets))
    reducer = WriteFiles(
        rewrite.access,
        tuple(targets),
        columns,
        by_key,
        tuple(
            group_mark(table.by, group, f"{rewrite.write_id}/{number:05d}")
            for number, group in enumerate(groups)
        ),
        engine.counter(),
    )
    rows = sum(group.rows for group in groups)
    size = block_bytes(table.schema, rows, sum(group.bytes for group in groups))
    with engine.progress("compact", rows=rows, done=reducer.done):
        found = engine.exchange(
            sources=len(parts),
            mapper=mapper,
            targets=len(targets) + 1,
            reducer=reducer,
            result=_RESULT,
            scratch=blocks_in_folder(rewrite.work, "exchange-rows", size),
        )
    return _checked(table.name, found, groups)


def _checked(name: str, found: pa.Table, groups: Sequence[RewriteGroup]) -> list[WrittenGroup]:
    """What was written, if it is what was read, and that is as much as there should be."""
    told: list[list[dict[str, Any]]] = [[] for _ in groups]
    for row in found.to_pylist():
        told[row["group"]].append(row)
    done = []
    for group, rows in zip(groups, told, strict=True):
        read = [row for row in rows if row["file"] is None]
        written = [row for row in rows if row["file"] is not None]
        before = (sum(row["rows"] for row in read), sum(row["checksum"] for row in read) % 2**64)
        after = (sum(row["rows"] for row in written), sum(row["checksum"] for row in written) % 2**64)
        deleted = sum(row["deleted"] for row in read)
        if before != after or before[0] + deleted != group.rows:
            gone = f" ({deleted} of them deleted)" if deleted else ""
            raise VerificationError(
                f"{name}: of {group.rows} rows{gone}, {before[0]} were read (checksum {before[1]:016x}) and "
                f"{after[0]} written (checksum {after[1]:016x}); nothing is changed. Run it again; if it "
                "happens twice, report it as a bug"
            )
        files = [NewFile.model_validate_json(row["file"]) for row in written]
        done.append(WrittenGroup(tuple(sorted(files, key=lambda file: file.path)), after[1], deleted))
    return done


@dataclass(frozen=True)
class MoveRows:
    """Reads files, and sends their rows to the new ones.

    Attributes
    ----------
    access : FileAccess
    parts : tuple of tuple of FilePart
        Those of each task.
    first : tuple of int
        The first target of each group.
    columns : tuple of str
    placements : tuple of RowPlacement
        Per group.
    by_key : tuple of bool
        Per group: rows are sorted along the curve. Each takes its key along, as one column more, behind all
        others.
    ledger : int
        The target that hears how many rows of each group were read, and their checksum.
    """

    access: FileAccess
    parts: Parts
    first: tuple[int, ...]
    columns: tuple[str, ...]
    placements: tuple[RowPlacement, ...]
    by_key: tuple[bool, ...]
    ledger: int

    def __call__(self, task: int) -> Iterator[Routed]:
        """Yield targets with rows for them, and what was read."""
        read: dict[int, RowSum] = {}
        deleted: dict[int, int] = {}
        for part in self.parts[task]:
            gone = self.access.deleted(part.path, part.share)
            deleted[part.group] = deleted.get(part.group, 0) + gone
        for held in gathered(self._summed(task, read)):
            batch = _together([each.rows for each in held])
            numbers = [row_numbers(each.part.number, each.first, each.rows.num_rows) for each in held]
            yield from self._placed(held[0].part.group, batch, np.concatenate(numbers))
        for group in deleted:
            found = read.get(group, RowSum(0, 0))
            told = [[group], [found.rows], [_signed(found.checksum)], [deleted[group]]]
            yield self.ledger, pa.record_batch(told, schema=_READ)

    def _summed(self, task: int, read: dict[int, RowSum]) -> Iterator[PartRows]:
        """The rows of a task, and by group the checksum of what is stored of them."""
        for part in self.parts[task]:
            first = 0
            for batch, some in self.access.read_summed(part.path, self.columns, part.share):
                read[part.group] = read.get(part.group, RowSum(0, 0)).plus(some)
                if batch.num_rows:
                    yield PartRows(part, first, batch)
                first += batch.num_rows

    def _placed(self, group: int, batch: pa.RecordBatch, numbers: NDArray[np.int64]) -> Iterator[Routed]:
        placement, first = self.placements[group], self.first[group]
        if self.first[group + 1] - first == 1 and not self.by_key[group]:
            yield first, batch
            return
        files, keys = placement.place(batch, numbers)
        if self.by_key[group] and isinstance(placement, Placement) and keys is not None:
            order = placement.order(files, keys)
            batch = _with_keys(_taken(batch, order), keys.take(order), placement.key_bits)
        else:
            order = curve_order(files)
            batch = _taken(batch, order)
        files = files.take(order)
        for start, stop in runs_of(files):
            yield first + int(files[start]), batch.slice(start, stop - start)


@dataclass(frozen=True)
class WriteFiles:
    """Writes a file of the rows that were sent to it, and reads it again.

    Attributes
    ----------
    access : FileAccess
    targets : tuple of (str, str, int)
        Per file: its partition, its name and its group. The target behind them is the ledger.
    columns : tuple of str
    by_key : tuple of bool
        Per group: rows are sorted by the last column of what comes, which does not belong to them.
    marks : tuple of ClusterMark or None
        Per group.
    done : Counter
    """

    access: FileAccess
    targets: tuple[tuple[str, str, int], ...]
    columns: tuple[str, ...]
    by_key: tuple[bool, ...]
    marks: tuple[ClusterMark | None, ...]
    done: Counter

    def __call__(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the file of a target, and say what it holds."""
        if target == len(self.targets):
            for row in pa.Table.from_batches([block.rows for block in blocks]).to_pylist():
                yield _result(row["group"], row["rows"], row["checksum"], None, row["deleted"])
            return
        partition, name, group = self.targets[target]
        rows = pa.Table.from_batches([block.rows for block in blocks])
        blocks.clear()
        if self.by_key[group]:
            keys = rows.column(rows.num_columns - 1).to_numpy().astype(np.int64)
            rows = in_order(rows.remove_column(rows.num_columns - 1), curve_order(keys))
        with synced_behind():
            file = self.access.write(rows, partition, name, self.marks[group])
            self.done.add(rows.num_rows)
            found = self.access.checksum(file.path, self.columns)
        yield _result(group, found.rows, found.checksum, file.model_dump_json())


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole[0] if whole else batches[0]


def _taken(batch: pa.RecordBatch, order: NDArray[np.int64]) -> pa.RecordBatch:
    return pc.take(batch, pa.array(order), boundscheck=False)


def _with_keys(rows: pa.RecordBatch, keys: NDArray[np.uint64], bits: int) -> pa.RecordBatch:
    kind = pa.uint32() if bits <= _NARROW_BITS else pa.uint64()
    field = pa.field(_KEY_COLUMN, kind, nullable=False)
    narrow = pa.array(keys.astype(kind.to_pandas_dtype(), copy=False))
    return pa.RecordBatch.from_arrays([*rows.columns, narrow], schema=rows.schema.append(field))


def _result(group: int, rows: int, checksum: int, file: str | None, deleted: int = 0) -> pa.RecordBatch:
    return pa.record_batch([[group], [rows], [_signed(checksum)], [file], [deleted]], schema=_RESULT)


def _signed(checksum: int) -> int:
    """Of 64 bits, as engines know them: with a sign."""
    checksum %= 2**64
    return checksum - 2**64 if checksum >= 2**63 else checksum
