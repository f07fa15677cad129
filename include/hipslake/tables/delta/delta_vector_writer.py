"""Writes deletion vectors of Delta tables, by the published protocol.

Small ones stand in the log, the others of a partition in one file of the write. A vector names all rows of a
data file that are deleted, also those that an older one did, in whose place it comes.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from hipslake.errors import PlanError
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.tables.delta.delta_actions import Action
from hipslake.tables.delta.delta_files import DeltaFile
from hipslake.tables.delta.delta_log import LogState
from hipslake.tables.delta.delta_vectors import (
    MAGIC,
    VECTORS,
    DeletionVector,
    to_z85,
    vector_name,
    vector_of,
)
from hipslake.tables.new_files import NewFile
from hipslake.tables.protocol import NewDeletes

_INLINE_BYTES = 512  # of a vector, at most, that stands in the log: each reader of the log reads it
_VERSION = b"\x01"  # of the format of files


class WrittenVectors(Frozen):
    """The vectors that a task has written; small and plain, so that they travel.

    Attributes
    ----------
    path : str
        Of their file, below the table's location; empty if all of them stand in the log.
    vectors : dict of str to dict
        By the path of the data file, what its `add` says of its vector.
    """

    path: str
    vectors: dict[str, dict[str, Any]]


class MarkedFile(NamedTuple):
    """A data file, and what its `add` will say of its deletion vector."""

    file: DeltaFile
    vector: Action

    def add(self) -> Action:
        """The action by which it has that vector."""
        entry, rows = self.file.entry, self.file.rows
        stats = with_wide_bounds(entry.get("stats") or "", rows)
        return {"add": {**entry, "dataChange": True, "stats": stats, "deletionVector": self.vector}}


@dataclass(frozen=True)
class DeltaVectorWriter:
    """Writes the deletion vectors of a write. Small and plain, so that it travels with tasks.

    Attributes
    ----------
    location : str
        Of the table.
    write_id : str
        Names the folder that files go to.
    old : tuple of (str, DeletionVector)
        The vectors that data files have, by their paths.
    """

    location: str
    write_id: str
    old: tuple[tuple[str, DeletionVector], ...]
    by_file: bool = False

    @classmethod
    def of(cls, state: LogState, write_id: str) -> DeltaVectorWriter:
        """That of a version of a table."""
        files = [DeltaFile(entry, state) for entry in state.files.values() if entry.get("deletionVector")]
        found = [(file.path, vector_of(file.entry, state.location)) for file in files]
        old = tuple((path, vector) for path, vector in found if vector is not None)
        return cls(state.location, write_id, old)

    def write_deletes(self, gone: Iterable[tuple[str, NDArray[np.int64]]], name: str) -> NewFile:
        """Write the vectors of data files of a partition.

        Parameters
        ----------
        gone : iterable of (str, int64[n])
            Paths of data files, and of each the positions of rows in it that go: ascending, each once, and at
            least one.
        name : str
            Of what is written. Written again, it is replaced.
        """
        identity = uuid5(NAMESPACE_URL, f"{self.write_id}/{name}")
        folder = f"{VECTORS}/{self.write_id}"
        content = bytearray(_VERSION)
        vectors: dict[str, dict[str, Any]] = {}
        rows = inline = 0
        for path, positions in gone:
            deleted = self._deleted(path, positions)
            data = struct.pack("<i", MAGIC) + deleted.serialize()
            vectors[path] = {"sizeInBytes": len(data), "cardinality": len(deleted)}
            rows += len(positions)
            if len(data) <= _INLINE_BYTES:
                vectors[path] |= {"storageType": "i", "pathOrInlineDv": to_z85(data)}
                inline += len(data)
                continue
            where = {"storageType": "u", "pathOrInlineDv": folder + to_z85(identity.bytes)}
            vectors[path] |= {**where, "offset": len(content)}
            content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        stored = f"{folder}/{vector_name(identity)}" if len(content) > len(_VERSION) else ""
        if stored:
            with Storage.at(self.location).open(stored, "wb") as file:
                file.write(content)
            inline += len(content)
        return NewFile(
            path=f"{self.location}/{stored}",
            rows=rows,
            bytes=inline,
            details=WrittenVectors(path=stored, vectors=vectors).model_dump_json(),
        )

    @cached_property
    def _old(self) -> Mapping[str, DeletionVector]:
        return dict(self.old)

    def _deleted(self, path: str, positions: NDArray[np.int64]) -> BitMap64:
        """All rows of a data file that are deleted from now on."""
        old = self._old.get(path)
        parts = [] if old is None else [old.positions()]
        numbers = array.array("Q", np.concatenate([*parts, positions]).astype(np.uint64).tobytes())
        found = BitMap64(numbers)
        found.run_optimize()
        return found


def marked_files(deletes: Sequence[NewDeletes]) -> tuple[list[MarkedFile], list[str]]:
    """The data files that get vectors, and the paths of the files of these, below the table's location.

    Raises
    ------
    PlanError
        Vectors are of no data file of the table.
    """
    marked, paths = [], []
    for each in deletes:
        told = WrittenVectors.model_validate_json(each.file.details)
        files = {file.path: file for file in each.of if isinstance(file, DeltaFile)}
        if unknown := sorted(told.vectors.keys() ^ files.keys()):
            raise PlanError(
                f"{unknown[0]}: a deletion vector is not of the data files that it was written of"
            )
        marked += [MarkedFile(files[path], vector) for path, vector in told.vectors.items()]
        paths += [told.path] if told.path else []
    return marked, paths


def with_wide_bounds(stats: str, rows: int) -> str:
    """Statistics of a file of which rows are deleted: its bounds hold, and may be wider than need be.

    Parameters
    ----------
    stats : str
        Those of the file. They stay as they are but for that, since another text of a number may be less
        exact.
    rows : int
        Of the file, deleted ones too.

    Examples
    --------
    >>> with_wide_bounds('{"numRecords":3,"minValues":{"a":1}}', 3)
    '{"tightBounds":false,"numRecords":3,"minValues":{"a":1}}'
    """
    told = _parsed(stats)
    added = "" if "numRecords" in told else f'"numRecords":{rows},'
    if told.get("tightBounds") is False and not added:
        return stats
    if "tightBounds" in told:
        parts = stats.split('"tightBounds"')
        if len(parts) == 2 and (rest := _without_truth(parts[1])) is not None:
            return _begun(f'{parts[0]}"tightBounds":false{rest}', added)
        told = {}
    if not told:
        return f'{{"numRecords":{rows},"tightBounds":false}}'
    return _begun(stats, f'{added}"tightBounds":false,')


def _parsed(stats: str) -> dict[str, Any]:
    try:
        told = plain_json(stats or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _without_truth(text: str) -> str | None:
    """What follows a value of true or false, behind a colon; None if there is another."""
    value = text.lstrip().removeprefix(":").lstrip()
    return next((value.removeprefix(word) for word in ("true", "false") if value.startswith(word)), None)


def _begun(stats: str, added: str) -> str:
    """An object of JSON with some more keys at its beginning."""
    return "{" + added + stats.lstrip().removeprefix("{")
