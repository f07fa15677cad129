"""Data files of which rows go: those that go as a whole, and those of which rows stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipslake.tables.protocol import LiveFile


@dataclass(frozen=True)
class CutFiles:
    """Files all of whose rows go, and those of which rows stay: file, positions that go, rows that stay."""

    whole: tuple[LiveFile, ...]
    parts: tuple[tuple[LiveFile, NDArray[np.int64], int], ...]
    rows: int  # that go

    @classmethod
    def of(
        cls,
        files: Sequence[LiveFile],
        going: Mapping[int, NDArray[np.int64]],
        rows_of: Callable[[Sequence[LiveFile]], Sequence[int]],
    ) -> CutFiles:
        """Cut some of the files.

        Parameters
        ----------
        files : sequence of LiveFile
        going : mapping of int to int64[n]
            By the number of each, the positions of the rows that go among those that are not deleted.
        rows_of : callable
            Tells of files how many rows of each are not deleted.
        """
        cut = [(files[at], going[at]) for at in sorted(going) if len(going[at]) or not files[at].rows]
        there = rows_of([file for file, _ in cut])
        found = [(file, at, rows - len(at)) for (file, at), rows in zip(cut, there, strict=True)]
        parts = tuple(each for each in found if each[2] and len(each[1]))
        whole = tuple(file for file, _, rest in found if not rest)
        return cls(whole, parts, sum(len(at) for _, at, _ in found))
