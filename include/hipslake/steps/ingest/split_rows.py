"""The rows of consecutive splits, in chunks of bounded size, with their place on the sky."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.placement import Placed, Placer
from hipslake.sources import Source, Split
from hipslake.sources.reading_ahead import read_splits
from hipslake.sphere.intervals import range_numbers
from hipslake.steps.ingest.superseded_rows import SplitMasks, SupersededRows

CHUNK_BYTES = 16 << 20  # a chunk that is gathered from small batches has about this size


class Piece(NamedTuple):
    """The rows of a chunk that are of one split."""

    split: int  # its place in the list of splits
    first: int  # number of the first row in the split
    rows: int


class Chunk(NamedTuple):
    """Consecutive rows of a source."""

    first: int  # number of the first row, from the beginning of the first split on
    rows: pa.RecordBatch
    placed: Placed
    pieces: tuple[Piece, ...]

    @property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each row, the place of its split in the list of splits and its number in that, int64[n] each."""
        split, first, rows = (np.array(numbers, np.int64) for numbers in zip(*self.pieces, strict=True))
        return split.repeat(rows), range_numbers(first, rows)


def chunks(
    source: Source,
    splits: Iterable[Split],
    schema: pa.Schema,
    placer: Placer,
    columns: list[str] | None = None,
    *,
    superseded: SupersededRows | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Read consecutive splits in chunks: large ones need no more memory, and small ones share a chunk.

    Parameters
    ----------
    splits : iterable of Split
    columns : list of str, optional
        What is read; those that the placer needs must be among them. None: everything.
    superseded : SupersededRows, optional
        The rows that are left out, since newer ones take their place.
    chunk_bytes : int
        Batches below this size are gathered up to it; larger ones are chunks of their own, uncopied.
    """
    first = size = 0
    held: list[pa.RecordBatch] = []
    pieces: list[Piece] = []
    schema = placer.reading(schema)
    masks = None if superseded is None else superseded.reader()
    in_split, last = 0, None
    for split, batch in read_splits(source, iter(splits), schema, columns):
        if held and size + batch.nbytes > chunk_bytes:
            chunk = _chunk(first, held, pieces, placer, masks)
            yield chunk
            first += chunk.rows.num_rows
            held, pieces, size = [], [], 0
        in_split = in_split if split is last else 0
        last = split
        held.append(batch)
        pieces.append(Piece(split.ordinal, in_split, batch.num_rows))
        in_split += batch.num_rows
        size += batch.nbytes
    if held:
        yield _chunk(first, held, pieces, placer, masks)


def _chunk(
    first: int,
    batches: list[pa.RecordBatch],
    pieces: list[Piece],
    placer: Placer,
    masks: SplitMasks | None,
) -> Chunk:
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    placed = placer.place(rows)
    if masks is not None:
        placed = placed.without(np.concatenate([masks.mask(*piece) for piece in pieces]))
    return Chunk(first, rows, placed, tuple(pieces))
