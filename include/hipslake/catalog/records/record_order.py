"""Which record of a key is the last: by `order_by`, or by the night, and by corrections at a tie. Pure.

Records of nights are ordered by the value of `order_by`; without it, by the start of the night's interval.
Those of a correction, which is a deletion or a reassignment, have the order of the records that they correct.
They come after these, and before what is later. Of two corrections of a record, the newer one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.metadata import CatalogMetadata, Increment, Reassignment
from hipslake.catalog.records.key_columns import value_ranks
from hipslake.catalog.records.record_rows import ORDER_COLUMN
from hipslake.catalog.row_sets import NUMBER_MASK, ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import VerificationError


@dataclass(frozen=True)
class RecordOrder:
    """The order of the records of each key.

    Attributes
    ----------
    ranks : mapping of int to int
        The rank of each increment's interval by its start; needed where there is no `order_by`.
    deletions : frozenset of int
        The ordinals of deletions, whose records are called tombstones.
    reassignments : mapping of int to Reassignment
        By their ordinals.
    """

    ranks: Mapping[int, int] = field(default_factory=dict)
    deletions: frozenset[int] = frozenset()
    reassignments: Mapping[int, Reassignment] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: CatalogMetadata, increments: Iterable[Increment]) -> RecordOrder:
        """The order of the records of a version, whose `increments` are all of it."""
        return cls(
            ranks_by_start({each.ordinal: each.key for each in increments}),
            metadata.tombstones,
            {each.ordinal: each for each in metadata.reassignments or ()},
        )

    def nights(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ordinal of the night whose order each record has, int64[n], by its `_row`."""
        ordinal, number = row >> ORDINAL_SHIFT, row & NUMBER_MASK
        found = np.where(np.isin(ordinal, sorted(self.deletions)), number, ordinal)
        for each, reassignment in self.reassignments.items():
            mine = ordinal == each
            if mine.any():
                found[mine] = reassignment.nights_of(number[mine])
        return found

    def numbers(self, records: pa.Table) -> NDArray[np.int64]:
        """A number for each record, int64[n]: of those of a key, the greatest wins.

        Raises
        ------
        VerificationError
            There is no `order_by`, and an increment has no rank.
        """
        row = records[ROW_COLUMN].to_numpy()
        corrections = np.array(sorted({*self.deletions, *self.reassignments}), np.int64)
        ordinal = row >> ORDINAL_SHIFT
        newer = np.where(np.isin(ordinal, corrections), np.searchsorted(corrections, ordinal) + 1, 0)
        if ORDER_COLUMN in records.column_names:
            order = value_ranks(records[ORDER_COLUMN])
        else:
            order = self._night_ranks(row)
        numbers: NDArray[np.int64] = (len(corrections) + 1) * order + newer
        return numbers

    def _night_ranks(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        ordinals, of = np.unique(self.nights(row), return_inverse=True)
        if missing := [each for each in ordinals.tolist() if each not in self.ranks]:
            raise VerificationError(
                f"there are records of increment {missing[0]}, which the version does not have; "
                "Catalog.verify() tells more"
            )
        found: NDArray[np.int64] = np.array([self.ranks[each] for each in ordinals.tolist()], np.int64)[of]
        return found


def ranks_by_start(starts: Mapping[int, str | None]) -> dict[int, int]:
    """The rank of each increment by the start of its interval; the whole, which has none, comes first.

    Parameters
    ----------
    starts : mapping of int to str or None
        The key of each increment by its ordinal: the start of its interval in ISO 8601.

    Examples
    --------
    >>> ranks_by_start({0: None, 1: "2026-11-21T00:00:00+00:00", 2: "2026-11-20T23:00:00-02:00"})
    {0: 0, 1: 1, 2: 2}
    """
    first = datetime.min.replace(tzinfo=UTC)

    def start(ordinal: int) -> datetime:
        text = starts[ordinal]
        if not text:
            return first
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    return {ordinal: rank for rank, ordinal in enumerate(sorted(starts, key=start))}
