"""Positions of rows that are left out, per file or part of a source: kept beside the write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class Positions:
    """Ascending positions of rows, by the number of the file or part; small, so that it travels with tasks.

    Attributes
    ----------
    root : str
        Where the files lie.
    numbers : frozenset of int
        Those that have positions.
    """

    root: str = ""
    numbers: frozenset[int] = frozenset()

    @classmethod
    def kept(cls, storage: Storage, by_number: Mapping[int, NDArray[np.int64]]) -> Positions:
        """Store positions in a folder."""
        for number, positions in by_number.items():
            table = pa.table({"position": np.sort(positions)})
            with (
                storage.open(_name(number), "wb", durable=False) as file,
                pa.ipc.new_file(
                    file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
                ) as out,
            ):
                out.write_table(table)
        return cls(storage.root, frozenset(by_number))

    def of(self, number: int) -> NDArray[np.int64] | None:
        """The positions of a number, int64[n]; None if there are none."""
        if number not in self.numbers:
            return None
        with Storage(self.root).open(_name(number)) as file, pa.ipc.open_file(file) as stored:
            positions: NDArray[np.int64] = stored.read_all()["position"].to_numpy()
        return positions


NO_POSITIONS = Positions()


def _name(number: int) -> str:
    return f"{number:08d}.arrow"
