"""The new files of a compaction: rows are routed to them, written, and read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.clustering.checksum import row_checksum
from hipslake.clustering.placement import Placement, row_numbers
from hipslake.clustering.planning import ClusterMark
from hipslake.compaction.model import CompactedTable, FileAccess, NewFile, Rewrite
from hipslake.engine.model import Block, Counter, Engine, Routed
from hipslake.errors import VerificationError
from hipslake.spark.table_compaction_planning import Plan, mark_of
from hipslake.specs.compaction import CompactionSpec

_RESULT = pa.schema([("rows", pa.int64()), ("checksum", pa.int64()), ("file", pa.string())])
"""Of what was read, without a file; and of each file that was written, as it was read again."""

_READ = pa.schema([("rows", pa.int64()), ("checksum", pa.int64())])


def write_files(
    spec: CompactionSpec,
    engine: Engine,
    table: CompactedTable,
    plan: Plan,
    rewrite: Rewrite,
    placements: tuple[Placement, ...] | None,
) -> tuple[list[NewFile], int]:
    """Route all rows, write the files, and check that they hold what was read.

    Parameters
    ----------
    spec : CompactionSpec
    engine : Engine
    table : CompactedTable
    plan : Plan
    rewrite : Rewrite
        The change that is under way.
    placements : tuple of Placement, optional
        Per group; without them a group becomes one file.

    Returns
    -------
    list of NewFile
    int
        Checksum of all rows.

    Raises
    ------
    VerificationError
        The rows that were written are not those that were read.
    """
    groups = plan.groups
    first = np.cumsum([0, *[group.num_files for group in groups]]).tolist()
    sources = [
        (file.path, number, first[number]) for number, group in enumerate(groups) for file in group.files
    ]
    targets = [
        (group.partition, f"group-{number:05d}-{at:05d}-{rewrite.write_id}", number)
        for number, group in enumerate(groups)
        for at in range(group.num_files)
    ]
    columns = tuple(table.schema.names)
    mapper = MoveRows(rewrite.access, tuple(sources), columns, placements, len(targets))
    reducer = WriteFiles(
        rewrite.access,
        tuple(targets),
        columns,
        placements if spec.sort_within_files else None,
        tuple(mark_of(spec, f"{rewrite.write_id}/{number:05d}") for number in range(len(groups))),
        engine.counter(),
    )
    rows = sum(group.rows for group in groups)
    with engine.progress("compact", tasks=len(targets), rows=rows, done=reducer.done):
        found = engine.exchange(
            sources=len(sources),
            mapper=mapper,
            targets=len(targets) + 1,
            reducer=reducer,
            result=_RESULT,
        )
    return _checked(table.name, found, rows)


def _checked(name: str, found: pa.Table, rows: int) -> tuple[list[NewFile], int]:
    """The files, if they hold the rows that were read, and these are as many as there should be."""
    told = found.to_pylist()
    read = [row for row in told if row["file"] is None]
    written = [row for row in told if row["file"] is not None]
    before = (sum(row["rows"] for row in read), sum(row["checksum"] for row in read) % 2**64)
    after = (sum(row["rows"] for row in written), sum(row["checksum"] for row in written) % 2**64)
    if before != after or before[0] != rows:
        raise VerificationError(
            f"{name}: of {rows} rows, {before[0]} were read (checksum {before[1]:016x}) and "
            f"{after[0]} written (checksum {after[1]:016x}); nothing is changed. Run it again; if it "
            "happens twice, report it as a bug"
        )
    files = [NewFile.model_validate_json(row["file"]) for row in written]
    return sorted(files, key=lambda file: file.path), after[1]


@dataclass(frozen=True)
class MoveRows:
    """Reads a file, and sends its rows to the new files.

    Attributes
    ----------
    access : FileAccess
    sources : tuple of (str, int, int)
        Per file that is read: its path, its group, and the first target of that.
    columns : tuple of str
    placements : tuple of Placement, optional
        Per group; without them a group has one target.
    ledger : int
        The target that hears how many rows were read, and their checksum.
    """

    access: FileAccess
    sources: tuple[tuple[str, int, int], ...]
    columns: tuple[str, ...]
    placements: tuple[Placement, ...] | None
    ledger: int

    def __call__(self, source: int) -> Iterator[Routed]:
        """Yield targets with rows for them, and what was read."""
        path, group, first = self.sources[source]
        rows = checksum = 0
        for batch in self.access.read(path, self.columns):
            numbers = row_numbers(source, rows, batch.num_rows)
            rows += batch.num_rows
            checksum += row_checksum(batch)
            if self.placements is None:
                yield first, batch
                continue
            files, keys = self.placements[group].place(batch, numbers)
            order = np.lexsort((keys, files))
            batch, files = batch.take(pa.array(order)), files[order]
            starts = np.flatnonzero(np.diff(files, prepend=-1))
            for start, stop in zip(starts, [*starts[1:], len(files)], strict=True):
                yield first + int(files[start]), batch.slice(start, stop - start)
        yield self.ledger, pa.record_batch([[rows], [_signed(checksum)]], schema=_READ)


@dataclass(frozen=True)
class WriteFiles:
    """Writes a file of the rows that were sent to it, and reads it again.

    Attributes
    ----------
    access : FileAccess
    targets : tuple of (str, str, int)
        Per file: its partition, its name and its group. The target behind them is the ledger.
    columns : tuple of str
    placements : tuple of Placement, optional
        Per group: rows are sorted along its curve.
    marks : tuple of ClusterMark or None
        Per group.
    done : Counter
    """

    access: FileAccess
    targets: tuple[tuple[str, str, int], ...]
    columns: tuple[str, ...]
    placements: tuple[Placement, ...] | None
    marks: tuple[ClusterMark | None, ...]
    done: Counter

    def __call__(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the file of a target, and say what it holds."""
        if target == len(self.targets):
            told = pa.Table.from_batches([block.rows for block in blocks])
            checksum = sum(told["checksum"].to_pylist()) % 2**64
            yield _result(sum(told["rows"].to_pylist()), checksum, None)
            return
        partition, name, group = self.targets[target]
        rows = pa.Table.from_batches([block.rows for block in blocks])
        blocks.clear()
        if self.placements is not None:
            placement = self.placements[group]
            keys = placement.bounds.keys(rows, placement.curve)
            rows = rows.take(pa.array(np.argsort(keys, kind="stable")))
        file = self.access.write(rows, partition, name, self.marks[group])
        self.done.add(rows.num_rows)
        found = checksum = 0
        for batch in self.access.read(file.path, self.columns):
            found += batch.num_rows
            checksum += row_checksum(batch)
        yield _result(found, checksum % 2**64, file.model_dump_json())


def _result(rows: int, checksum: int, file: str | None) -> pa.RecordBatch:
    return pa.record_batch([[rows], [_signed(checksum)], [file]], schema=_RESULT)


def _signed(checksum: int) -> int:
    """Of 64 bits, as engines know them: with a sign."""
    checksum %= 2**64
    return checksum - 2**64 if checksum >= 2**63 else checksum
