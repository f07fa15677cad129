"""Where the rows of an earlier sink are now, though they lie in files with others: followed by their values.

All columns of a row are hashed to 128 bits, over the bits of their values: NaN is itself, -0.0 is not 0.0,
and a null is a null. Hashes go through the exchange, so that a task sees all files at once for some of the
values, and goes through the commits that rewrote them, counting. Rows that are equal in all columns are one
another's match; that is no loss, as nobody can tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.clustering.checksum import row_hashes
from hipslake.engine.model import Block, Counter, Routed
from hipslake.engine.scratch import blocks_in_folder
from hipslake.steps.row_routing import to_targets
from hipslake.steps.sink.sink_try import NewRows, SinkTry, positions_by_number
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import Descent
from hipslake.tables.stored_files import StoredFile, read_data_file

_MOVED = pa.schema(
    [("file", pa.int64()), ("position", pa.int64()), ("low", pa.uint64()), ("high", pa.uint64())]
)
_RESULT = pa.schema(
    [
        ("kind", pa.int64()),  # of the rows: `_MINE`, `_NEW`, `_LOST`; `_SUMS`: what the commits did to them
        ("number", pa.int64()),  # of a file
        ("positions", pa.binary()),
        ("found", pa.int64()),
        ("lost", pa.binary()),
    ]
)
_SUMS, _MINE, _NEW, _LOST = range(4)
_SOURCE = -1
_TASK_ROWS = 2_000_000
_ROW_BYTES = 32.0


class Followed(NamedTuple):
    """What became of the rows of a write.

    Attributes
    ----------
    mine : dict
        By the number of a file that is live: ascending positions of the rows, int64.
    lost : dict
        The same of rows that others took out of the table, and that did not come back, in the files in which
        they lay last.
    new : dict
        By the number of a file that is live: positions of rows that others added, and that had not been in
        files which they removed.
    found : int
        Rows of the write in the files that the way begins with.
    lost_by : int64[rewritings]
        Rows that went with each change by others, and did not come back with it.
    """

    mine: dict[int, NDArray[np.int64]]
    lost: dict[int, NDArray[np.int64]]
    new: dict[int, NDArray[np.int64]]
    found: int
    lost_by: NDArray[np.int64]


def follow_rows(
    tried: SinkTry, before: SinkMark, descent: Descent, brought: NewRows | None, name: str = "follow"
) -> Followed:
    """Find rows of an earlier sink in the files that a table has now.

    Parameters
    ----------
    tried : SinkTry
    before : SinkMark
    descent : Descent
    brought : NewRows or None
        The rows of that sink, where the files that the descent begins with hold others too.
    name : str
        Of the exchange.
    """
    engine = tried.engine
    rows = sum(file.rows for file in descent.files) + (0 if descent.whole else before.rows)
    targets = max(engine.cores, -(-rows // _TASK_ROWS))
    task = FollowTask(
        tuple(file.stored for file in descent.files),
        tried.new.schema,
        replace(descent, files=()),
        None if descent.whole else brought,
        targets,
        engine.counter(),
    )
    with engine.progress("follow", rows=rows, done=task.done):
        told = engine.exchange(
            sources=len(task.files) + (task.brought.rows.tasks if task.brought is not None else 0),
            mapper=task.route,
            targets=targets,
            reducer=task.follow,
            result=_RESULT,
            scratch=blocks_in_folder(tried.write.work, f"exchange-{name}", _ROW_BYTES * rows),
        )
    found, lost_by = 0, np.zeros(len(descent.rewritings), np.int64)
    positions: dict[int, list[tuple[int, bytes]]] = {_MINE: [], _LOST: [], _NEW: []}
    for row in told.to_pylist():
        if row["kind"] == _SUMS:
            found += row["found"]
            lost_by = lost_by + np.frombuffer(row["lost"], np.int64)
        else:
            positions[row["kind"]].append((row["number"], row["positions"]))
    mine, lost, new = map(positions_by_number, positions.values())
    return Followed(mine, lost, new, found, lost_by)


def hashes_of_rows(rows: pa.RecordBatch) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Two hashes of each row, uint64[n] each; rows that are equal in all columns have equal ones."""
    shifted = rows.add_column(0, "", pa.nulls(rows.num_rows))  # columns count by their place
    return row_hashes(rows), row_hashes(shifted)


@dataclass(frozen=True)
class FollowTask:
    """Both halves of the exchange. Sources are the files, then the parts of the rows that the write brought.

    Attributes
    ----------
    files : tuple of StoredFile
    schema : pyarrow.Schema
    descent : Descent
        Of these files, which it does not hold itself.
    brought : NewRows or None
        The rows to begin with; None: all of the first files.
    targets : int
    done : Counter
    """

    files: tuple[StoredFile, ...]
    schema: pa.Schema
    descent: Descent
    brought: NewRows | None
    targets: int
    done: Counter

    def route(self, number: int) -> Iterator[Routed]:
        """Send the hashes of a source to the tasks that they belong to."""
        names = self.schema.names
        if number < len(self.files):
            batches, file = read_data_file(self.files[number], self.schema, names), number
        else:
            assert self.brought is not None, "there are no other sources"
            batches, file = self.brought.read(number - len(self.files), names), _SOURCE
        position = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            low, high = hashes_of_rows(batch)
            target = (high % np.uint64(self.targets)).astype(np.int64)
            rows = pa.RecordBatch.from_arrays(
                [
                    pa.array(np.full(batch.num_rows, file, np.int64)),
                    pa.array(np.arange(batch.num_rows) + position),
                    pa.array(low),
                    pa.array(high),
                ],
                schema=_MOVED,
            )
            yield from to_targets(rows, target)
            position += batch.num_rows
            self.done.add(batch.num_rows)

    def follow(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Go through the commits with the rows of some values."""
        rows = pa.Table.from_batches([block.rows for block in blocks], _MOVED)
        blocks.clear()
        here = _Rows.of(rows)
        if self.brought is None:
            here.mine[here.of_files(self.descent.first)] = True
        else:
            brought = here.counted(here.of_files((_SOURCE,)))
            here.mine[here.chosen(here.of_files(self.descent.first), brought)] = True
        found = int(here.mine.sum())
        suspects = here.of_files(self.descent.suspects)
        here.new[suspects] = ~here.mine[suspects]
        lost = []
        for change in self.descent.rewritings:
            gone, came = here.of_files(change.removed), here.of_files(change.added)
            lost.append(here.moved(gone, came) if change.ours else here.changed(gone, came))
        told = [(_SUMS, -1, b"", found, np.array(lost, np.int64).tobytes())]
        for number in range(len(self.files)):
            at = here.of_files((number,))
            for kind, are in ((_MINE, here.mine), (_NEW, here.new), (_LOST, here.lost)):
                if (kind == _LOST or number in self.descent.live) and len(some := at[are[at]]):
                    told.append((kind, number, here.position[some].tobytes(), 0, b""))
        yield pa.record_batch(list(zip(*told, strict=True)), schema=_RESULT)


class _Away(NamedTuple):
    """What one change by others has removed: the followed rows, and the counts of other rows by value."""

    rows: NDArray[np.int64]
    values: NDArray[np.int64]
    others: NDArray[np.int64]


@dataclass
class _Rows:
    """Rows of some values, those of a file together.

    Attributes
    ----------
    file, position : int64[n]
    value : int64[n]
        Equal for equal rows.
    values : int
        How many there are.
    mine : bool[n]
        Whether a row is one of those that are followed.
    new : bool[n]
        Whether others have added it, and not removed an equal one.
    lost : bool[n]
        Whether it was one of those that are followed, and others have removed it.
    away : list of _Away
        What others have removed, in the order of time.
    """

    file: NDArray[np.int64]
    position: NDArray[np.int64]
    value: NDArray[np.int64]
    values: int
    mine: NDArray[np.bool_]
    new: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    away: list[_Away] = field(default_factory=list)

    @classmethod
    def of(cls, rows: pa.Table) -> _Rows:
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("file", "ascending"), ("position", "ascending")]))
        low, high = rows["low"].to_numpy(), rows["high"].to_numpy()
        order = np.lexsort((high, low))
        steps = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
        value = np.empty(len(order), np.int64)
        value[order] = np.concatenate([[0], np.cumsum(steps)])
        count = len(order)
        return cls(
            rows["file"].to_numpy(),
            rows["position"].to_numpy(),
            value,
            int(steps.sum()) + 1,
            np.zeros(count, bool),
            np.zeros(count, bool),
            np.zeros(count, bool),
        )

    def of_files(self, numbers: tuple[int, ...]) -> NDArray[np.int64]:
        """Where the rows of some files are, file by file."""
        first, last = (np.searchsorted(self.file, numbers, side=side) for side in ("left", "right"))
        parts = [np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def counted(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of some rows have each value, int64[values]."""
        return np.bincount(self.value[at], minlength=self.values)

    def chosen(self, at: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of some rows the first ones of each value.

        Parameters
        ----------
        at : int64[m]
        counts : int64[values]
            How many at most.
        """
        value = self.value[at]
        order = np.argsort(value, kind="stable")
        ordered = value[order]
        rank = np.arange(len(at)) - np.searchsorted(ordered, ordered)
        return at[order[rank < counts[ordered]]]

    def moved(self, gone: NDArray[np.int64], came: NDArray[np.int64]) -> int:
        """A commit of ours replaced rows; 0, as nothing is lost by that."""
        mine, new = self.counted(gone[self.mine[gone]]), self.counted(gone[self.new[gone]])
        self.mine[gone] = self.new[gone] = False
        self._mark(came, mine, new)
        return 0

    def changed(self, gone: NDArray[np.int64], came: NDArray[np.int64]) -> int:
        """Others removed rows, and added some; return how many of those that are followed did not come back.

        Those that come stand for those that go, of equal ones first for those that are followed. Then for
        those that went earlier. What is followed and does not come back may have come before.
        """
        went = gone[self.mine[gone]]
        mine, new = self.counted(went), self.counted(gone[self.new[gone]])
        other = self.counted(gone) - mine - new
        self.mine[gone] = self.new[gone] = False
        back, left = _shared(mine, self.counted(came))
        stay, left = _shared(new, left)
        same, left = _shared(other, left)
        again = np.zeros(self.values, np.int64)
        for away in reversed(self.away):  # what went last comes back first
            if not left.any():
                break
            rows = away.rows[self.lost[away.rows]]
            some, left = _shared(self.counted(rows), left)
            self.lost[self.chosen(rows, some)] = False
            again += some
            known, left[away.values] = _shared(away.others, left[away.values])
            np.subtract(away.others, known, out=away.others)
            stay[away.values] += known  # an equal one was there, but it may as well be a changed one
        earlier = self.chosen(np.flatnonzero(self.new), mine - back)
        self.new[earlier], self.mine[earlier] = False, True
        lost = self.chosen(went, mine - back - self.counted(earlier))
        self.lost[lost] = True
        if len(values := np.flatnonzero(other - same)) or len(lost):
            self.away.append(_Away(lost, values, (other - same)[values]))
        self._mark(came, back + again, stay + left)
        return len(lost)

    def _mark(self, at: NDArray[np.int64], mine: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        """Take the first rows of each value for those that are followed, and the next ones for new ones."""
        both = self.chosen(at, mine + new)
        self.new[both] = True
        first = self.chosen(at, mine)
        self.new[first], self.mine[first] = False, True


def _shared(
    some: NDArray[np.int64], others: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many of each value both have, and how many of the others are left."""
    both = np.minimum(some, others)
    return both, others - both
