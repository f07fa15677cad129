"""Which `_row`s stand in a column group twice, and which another group lacks: exact, in bounded memory.

The sums of hashes of `RowDigest` prove cheaply that all is right. Where they do not, every `_row` is sent to
a task that looks at a range of row numbers in all groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hipslake.catalog.checks.leaf_lists import LeafList, tasks_for
from hipslake.catalog.checks.row_checks import integers
from hipslake.catalog.leaf_rows import column_batches
from hipslake.catalog.row_sets import RowNumbering
from hipslake.catalog.schema import ROW_COLUMN, ROW_FIELD
from hipslake.engine.model import Block, Counter, Engine, Routed, by_target
from hipslake.storage.folder import Storage

PASS_ROWS = 32 << 20  # that an engine which holds them all is given at once, 12 bytes each
TARGET_ROWS = 2 << 20  # that one reduce task looks at
EXAMPLES = 3
_ROWS = pa.schema([ROW_FIELD])
_BLOCK = pa.schema([("key", pa.int64()), ("leaf", pa.int32())])
_RESULT = pa.schema(
    [
        ("leaf", pa.int64()),  # that repeats rows; -1: of two groups
        ("here", pa.int64()),
        ("there", pa.int64()),
        ("count", pa.int64()),
        ("places", pa.list_(pa.int64())),  # the first of them
    ]
)


@dataclass
class RowComparison:
    """The faults that a comparison found: numbers of rows, and the first of them as `_row`s.

    Attributes
    ----------
    repeated : dict of int to (int, list of int)
        By number of the leaf: rows that stand in it, and in its group before.
    missing : dict of (str, str) to (int, list of int)
        By names of two groups: rows of the first one that the second lacks.
    """

    repeated: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    missing: dict[tuple[str, str], tuple[int, list[int]]] = field(default_factory=dict)


def compare_rows(
    storage: Storage, leaves: LeafList, groups: tuple[str, ...], numbering: RowNumbering, engine: Engine
) -> RowComparison:
    """Compare the rows of all column groups.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    leaves : LeafList
        Files of the groups, group by group along the curve.
    groups : tuple of str
    numbering : RowNumbering
        Of the rows that there can be; others are passed over.
    engine : Engine
        One that holds all rows of an exchange gets them in several passes, which read `_row` each.

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged.
    """
    rows = numbering.size * len(groups)
    passes = -(-rows // PASS_ROWS) if engine.holds_exchanges else 1
    targets = max(tasks_for(engine), -(-rows // passes // TARGET_ROWS))
    span = -(-numbering.size // passes // targets)
    faults: dict[tuple[int, int, int], tuple[int, list[int]]] = {}
    for start in range(0, numbering.size, span * targets):
        task = RowsTask(storage, leaves, groups, numbering, start, span, targets, engine.counter())
        with engine.progress("rows", rows=rows, done=task.done):
            result = engine.exchange(
                sources=leaves.tasks, mapper=task.route, targets=targets, reducer=task.compare, result=_RESULT
            )
        for row in result.to_pylist():
            key = row["leaf"], row["here"], row["there"]
            count, places = faults.get(key, (0, []))
            faults[key] = count + row["count"], sorted(places + row["places"])[:EXAMPLES]
    found = RowComparison()
    for (leaf, here, there), (count, places) in faults.items():
        shown = numbering.rows_at(np.array(places, np.int64)).tolist()
        if leaf >= 0:
            found.repeated[leaf] = count, shown
        else:
            found.missing[groups[here], groups[there]] = count, shown
    return found


@dataclass(frozen=True)
class RowsTask:
    """Both halves of the exchange.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    leaves, groups, numbering
        As for `compare_rows`.
    start : int
        The first place of this pass.
    span : int
        Places that one reduce task looks at.
    targets : int
        Reduce tasks.
    done : Counter
        Rows read so far.
    """

    storage: Storage
    leaves: LeafList
    groups: tuple[str, ...]
    numbering: RowNumbering
    start: int
    span: int
    targets: int
    done: Counter

    def route(self, number: int) -> Iterator[Routed]:
        """Send the rows of some leaves, with group and leaf, to the tasks that look at their places."""
        for leaf, group, partition in self.leaves.read(number):
            at = self.groups.index(group)
            for batch in column_batches(self.storage, partition.path, _ROWS, [ROW_COLUMN]):
                self.done.add(batch.num_rows)
                places = self.numbering.places(integers(batch, ROW_COLUMN))
                target = np.where(places < 0, -1, (places - self.start) // self.span)
                for to, rows in by_target(target, self.targets):
                    keys = places[rows] * len(self.groups) + at
                    yield to, pa.record_batch([keys, np.full(len(rows), leaf)], schema=_BLOCK)

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Tell, for a range of places, which rows leaves repeat, and which of them groups lack."""
        table = pa.Table.from_batches([block.rows for block in blocks], _BLOCK)
        blocks.clear()
        keys, leaf = table["key"].to_numpy(), table["leaf"].to_numpy()
        order = np.lexsort((leaf, keys))
        keys, leaf = keys[order], leaf[order]
        again = np.append(False, keys[1:] == keys[:-1])
        place, group = np.divmod(keys, len(self.groups))
        named, first, counts = np.unique(leaf[again], return_index=True, return_counts=True)
        rows = [
            {"leaf": at, "here": -1, "there": -1, "count": count, "places": [place[again][where]]}
            for at, where, count in zip(named, first, counts, strict=True)
        ]
        held = [np.unique(place[group == at]) for at in range(len(self.groups))]
        for other in range(1, len(held)):
            for here, there in ((0, other), (other, 0)):
                missing = np.setdiff1d(held[here], held[there], assume_unique=True)
                if len(missing):
                    shown = {"count": len(missing), "places": missing[:EXAMPLES]}
                    rows.append({"leaf": -1, "here": here, "there": there, **shown})
        yield pa.RecordBatch.from_pylist(rows, _RESULT)
