"""The pixel of every object, by its id: what a run places the sources of objects by.

The ids lie in the run folder as a table sorted by code (`hipslake.joins.key_codes`), cut into pieces of at
most `PIECE_ROWS` rows, or about that, by the leading bits of the code. Where the run folder is a local one,
tasks map the pieces into memory: the system holds as much of them as there is room for, and all tasks share
it. Of pieces in an object store, each process holds `HELD_BYTES`; where the objects are more than that (about
30 million), pieces are fetched again and again, which is slow, but needs no more memory.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from hipslake.joins.key_codes import KeyedRows, KeyKind
from hipslake.storage.folder import Storage

PIECE_ROWS = 4 << 20
HELD_BYTES = 512 << 20
NULL_ID, UNKNOWN_ID = -1, -2


@dataclass(frozen=True)
class ObjectPixels:
    """Finds the pixels of objects; small, so that it travels with every task.

    Attributes
    ----------
    folder : Storage
        Where the pieces lie.
    kind : str
        Of the ids.
    pieces : int
        A power of two.
    """

    FOLDER: ClassVar[str] = "objects"

    folder: Storage
    kind: KeyKind
    pieces: int

    def find(self, ids: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        """The `_healpix_29` of the objects with some ids.

        Parameters
        ----------
        ids : pyarrow.Array or pyarrow.ChunkedArray
            Of the kind of the objects' own.

        Returns
        -------
        int64[n]
            `NULL_ID` where the id is null, `UNKNOWN_ID` where no object has it.
        """
        found = np.full(len(ids), NULL_ID, np.int64)
        rows, keys, codes = KeyedRows.of(ids)
        order = np.argsort(codes)
        codes, rows = codes[order], rows[order]
        texts = keys.take(pa.array(order)) if self.kind == "text" else None
        numbers = piece_of(codes, self.pieces)
        cuts = np.append(np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])), len(numbers))
        for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True) if len(numbers) else ():
            piece = _piece(self.folder, int(numbers[low]))
            mine = None if texts is None else texts.slice(low, high - low)
            found[rows[low:high]] = piece.find(codes[low:high], mine)
        return found


def piece_of(codes: NDArray[np.uint64], pieces: int) -> NDArray[np.int64]:
    """The piece that each code belongs to, int64[n]; the number of pieces is a power of two."""
    bits = pieces.bit_length() - 1
    if not bits:
        return np.zeros(len(codes), np.int64)
    return (codes >> np.uint64(64 - bits)).astype(np.int64)


def pieces_for(rows: int) -> int:
    """Into how many pieces so many objects are cut."""
    return 1 << max(0, (rows - 1) // PIECE_ROWS).bit_length()


def piece_path(number: int) -> str:
    """A piece, relative to the run folder."""
    return f"{ObjectPixels.FOLDER}/piece-{number:05d}.arrow"


def piece_schema(kind: KeyKind) -> pa.Schema:
    """Code, pixel, and, where two ids may share a code, the id itself."""
    fields = [("code", pa.uint64()), ("h29", pa.int64())]
    return pa.schema([*fields, ("id", pa.large_string())] if kind == "text" else fields)


@dataclass(frozen=True)
class _Piece:
    """Objects ascending by code; `ids` only of texts."""

    codes: NDArray[np.uint64]
    h29: NDArray[np.int64]
    ids: pa.Array | None
    held_bytes: int

    @classmethod
    def load(cls, folder: Storage, number: int) -> _Piece:
        path = piece_path(number)
        if not folder.exists(path):  # no object has such a code
            return cls(np.empty(0, np.uint64), np.empty(0, np.int64), pa.array([], pa.large_string()), 0)
        source = pa.memory_map(folder.uri(path)) if folder.is_local else pa.BufferReader(folder.read(path))
        table = pa.ipc.open_file(source).read_all()
        return cls(
            _one(table["code"]).to_numpy(),
            _one(table["h29"]).to_numpy(),
            _one(table["id"]) if "id" in table.column_names else None,
            0 if folder.is_local else table.nbytes,
        )

    def find(self, codes: NDArray[np.uint64], ids: pa.Array | None) -> NDArray[np.int64]:
        """The pixels of ascending codes; `UNKNOWN_ID` for those of no object."""
        found = np.full(len(codes), UNKNOWN_ID, np.int64)
        at = np.searchsorted(self.codes, codes)
        open_ = np.flatnonzero(self._has(at, codes))
        if ids is None or self.ids is None:
            found[open_] = self.h29[at[open_]]
            return found
        while len(open_):  # ids that share a code stand one after another
            places = at[open_]
            same = pc.equal(self.ids.take(pa.array(places)), ids.take(pa.array(open_)))
            equal = same.to_numpy(zero_copy_only=False)
            found[open_[equal]] = self.h29[places[equal]]
            open_ = open_[~equal]
            at[open_] += 1
            open_ = open_[self._has(at[open_], codes[open_])]
        return found

    def _has(self, at: NDArray[np.int64], codes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        if not len(self.codes):
            return np.zeros(len(codes), bool)
        inside = at < len(self.codes)
        has: NDArray[np.bool_] = inside & (self.codes[np.where(inside, at, 0)] == codes)
        return has


_HELD: LRUCache[tuple[Storage, int], _Piece] = LRUCache(
    HELD_BYTES, getsizeof=lambda piece: min(piece.held_bytes, HELD_BYTES)
)
"""The pieces that this process used last, of `HELD_BYTES` together; a larger piece is kept alone."""

_LOCK = threading.Lock()
_piece = cached(_HELD, lock=_LOCK)(_Piece.load)


def forget_pieces(folder: Storage) -> None:
    """Drop the cached pieces of a run folder, as they are about to be written again."""
    with _LOCK:
        for key in [key for key in _HELD if key[0] == folder]:
            del _HELD[key]


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
