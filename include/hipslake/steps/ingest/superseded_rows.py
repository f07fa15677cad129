"""The rows of a run that newer ones take the place of: bits per split, in the run folder.

Every pass over the files leaves the same rows out by them: `hipslake.steps.ingest.newest_rows` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.model import Block, Engine, Routed
from hipslake.errors import StepError
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.row_routing import runs_of, to_targets
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

FOLDER = "newest"
"""In the run folder."""
PLACES = pa.schema([("split", pa.int64()), ("row", pa.int64()), ("tie", pa.int64())])
"""Rows by their split and their number in it; a tie that is not decided yet has a number from 0 on."""
RESULT = pa.schema([("number", pa.int64()), ("superseded", pa.int64()), ("tied", pa.int64())])
"""What tasks give: their number, and how many rows of each kind they have left in a file."""

_ROWS = f"{FOLDER}/rows.json"
_BITS = pa.schema([("split", pa.int64()), ("bits", pa.large_binary())])
_PIECE_BYTES = 512 << 20  # of source files, where opening a file counts as a megabyte


class PieceCounts(Frozen):
    """Where superseded rows are told of: how many, per piece of the list of splits that has any."""

    bounds: tuple[int, ...]  # piece 3 has the splits [bounds[3], bounds[4])
    rows: dict[str, dict[int, int]]  # round -> piece -> rows

    @property
    def total(self) -> int:
        """All of them."""
        return sum(sum(pieces.values()) for pieces in self.rows.values())


@dataclass(frozen=True)
class SupersededRows:
    """The superseded rows of a run; small, so that it travels with every task.

    Attributes
    ----------
    folder : Storage
        The run folder.
    counts : PieceCounts
    """

    folder: Storage
    counts: PieceCounts

    def reader(self) -> SplitMasks:
        """What tells them, to one task."""
        return SplitMasks(self)

    def bits_of(self, piece: int) -> dict[int, NDArray[np.uint8]]:
        """Per split of a piece that has any, a bit for each of its rows up to the last of them."""
        found: dict[int, NDArray[np.uint8]] = {}
        for name, pieces in self.counts.rows.items():
            if piece not in pieces:
                continue
            table = read_rows(self.folder, _bits_path(name, piece))
            for split, bits in zip(table["split"].to_pylist(), table["bits"], strict=True):
                mine, other = np.frombuffer(bits.as_buffer(), np.uint8), found.get(split)
                found[split] = mine if other is None else _united(mine, other)
        return found


class SplitMasks:
    """Tells one task which rows of consecutive splits are superseded.

    Parameters
    ----------
    rows : SupersededRows
    """

    def __init__(self, rows: SupersededRows) -> None:
        self._rows = rows
        self._bounds = np.array(rows.counts.bounds)
        self._piece = -1
        self._bits: dict[int, NDArray[np.uint8]] = {}

    def mask(self, split: int, first: int, rows: int) -> NDArray[np.bool_]:
        """Which of the rows [first, first + rows) of a split are superseded, bool[rows]."""
        piece = int(np.searchsorted(self._bounds, split, side="right")) - 1
        if piece != self._piece:
            self._piece, self._bits = piece, self._rows.bits_of(piece)
        found = np.zeros(rows, bool)
        bits = self._bits.get(split)
        if bits is not None:
            low = first // 8
            some = np.unpackbits(bits[low : -(-(first + rows) // 8)], bitorder="little")[first - 8 * low :]
            found[: len(some)] = some[:rows]
        return found


@dataclass(frozen=True)
class MaskTask:
    """Both halves of an exchange: rows that others have left, by the task of their key, become bits.

    Attributes
    ----------
    folder : Storage
        The run folder.
    name : str
        Of the round; it is in the paths of its files.
    sources : tuple of int
        The tasks that have left rows.
    bounds : tuple of int
        As of `PieceCounts`.
    """

    folder: Storage
    name: str
    sources: tuple[int, ...]
    bounds: tuple[int, ...]

    def route(self, number: int) -> Iterator[Routed]:
        """Send the rows of a task to their pieces; with each its task, which the ties of it go back to."""
        source = self.sources[number]
        for batch in read_rows(self.folder, found_path(self.name, source)).to_batches():
            piece = np.searchsorted(self.bounds, batch.column(0).to_numpy(), side="right") - 1
            yield from to_targets(batch.append_column("source", pa.array(np.full(len(piece), source))), piece)

    def store(self, piece: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Store the bits of a piece, and its ties."""
        table = pa.Table.from_batches([block.rows for block in blocks])
        blocks.clear()
        table = table.sort_by([("split", "ascending"), ("row", "ascending")])
        tied = pc.greater_equal(table["tie"], 0)
        ties, superseded = table.filter(tied), table.filter(pc.invert(tied))
        if ties.num_rows:
            write_rows(self.folder, ties_path(piece), ties)
        splits, rows = superseded["split"].to_numpy(), superseded["row"].to_numpy()
        runs = runs_of(splits)
        bits = [_packed(rows[first:last]) for first, last in runs]
        named = [int(splits[first]) for first, _ in runs]
        write_rows(self.folder, _bits_path(self.name, piece), pa.table([named, bits], schema=_BITS))
        yield pa.record_batch([[piece], [len(rows)], [ties.num_rows]], schema=RESULT)


def pieces_of(splits: SplitList) -> tuple[int, ...]:
    """The bounds of the pieces that a list of splits is cut into; they depend on the files alone."""
    return (0, *(last for _, last in splits.runs(1, _PIECE_BYTES)))


def store_masks(
    folder: Storage, name: str, sources: tuple[int, ...], bounds: tuple[int, ...], engine: Engine
) -> pa.Table:
    """Turn the rows that the tasks of a round have left into bits; gives `RESULT` per piece.

    Parameters
    ----------
    folder : Storage
        The run folder.
    name, sources, bounds
        As of `MaskTask`.
    engine : Engine
    """
    task = MaskTask(folder, name, sources, bounds)
    return engine.exchange(
        sources=len(sources), mapper=task.route, targets=len(bounds) - 1, reducer=task.store, result=RESULT
    )


def store_counts(folder: RunFolder, counts: PieceCounts) -> SupersededRows:
    """Leave word of all masks of a run in its folder."""
    folder.write(_ROWS, counts)
    return SupersededRows(folder.storage, counts)


def load_superseded(folder: RunFolder, spec: CatalogSpec) -> SupersededRows | None:
    """The superseded rows of a run that was counted; None if its spec lets all rows stay.

    Raises
    ------
    StepError
        They are not there.
    """
    if spec.newest is None:
        return None
    return SupersededRows(folder.storage, folder.read(_ROWS, PieceCounts))


def found_path(name: str, task: int) -> str:
    """Where a task of a round leaves the rows that it found, relative to the run folder."""
    return f"{FOLDER}/found/{name}-{task:06d}.arrow"


def ties_path(piece: int) -> str:
    """The ties of a piece, relative to the run folder."""
    return f"{FOLDER}/ties/{piece:06d}.arrow"


def write_rows(folder: Storage, path: str, rows: pa.Table) -> None:
    """Store a table as an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    folder.write(path, sink.getvalue(), durable=False)


def read_rows(folder: Storage, path: str) -> pa.Table:
    """The table that `write_rows` stored.

    Raises
    ------
    StepError
        It is not there.
    """
    try:
        data = folder.read(path)
    except FileNotFoundError:
        raise StepError(
            f"{folder.uri(path)} is gone, which says what rows are superseded; clear the run from its "
            "histogram task"
        ) from None
    return pa.ipc.open_file(pa.BufferReader(data)).read_all()


def _bits_path(name: str, piece: int) -> str:
    return f"{FOLDER}/bits/{name}-{piece:06d}.arrow"


def _packed(rows: NDArray[np.int64]) -> bytes:
    mask = np.zeros(int(rows[-1]) + 1, bool)
    mask[rows] = True
    return np.packbits(mask, bitorder="little").tobytes()


def _united(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    short, long = sorted((one, other), key=len)
    both = long.copy()
    both[: len(short)] |= short
    return both
