"""Records whose fields are arrays of one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ArrayColumns:
    """Base of data classes of which every field is an array, all with one entry for each row."""

    def select(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Self:
        """Some of the rows: a mask, places, or a slice."""
        return replace(self, **{each.name: getattr(self, each.name)[chosen] for each in fields(self)})

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, of which there is at least one, one part after another."""
        arrays = {each.name: [getattr(part, each.name) for part in parts] for each in fields(cls)}
        return replace(parts[0], **{name: np.concatenate(columns) for name, columns in arrays.items()})
