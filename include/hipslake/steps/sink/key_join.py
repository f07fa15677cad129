"""The join of an upsert: which rows of the table have a key of the new rows, in whatever partition they lie.

Keys go through the exchange, to the task of their hash: those of the new rows and of deleted ones, and those
old ones that a filter over these lets pass. Where two new rows have one key, it is found here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.model import Block, Counter, Routed
from hipslake.engine.scratch import blocks_in_folder
from hipslake.errors import InputError
from hipslake.steps.row_routing import runs_of, to_targets
from hipslake.steps.sink.count_rows import Counted
from hipslake.steps.sink.sink_try import NewRows, SinkTry, positions_by_number
from hipslake.storage.folder import Storage
from hipslake.tables.row_keys import KeyFilter, joint_codes, key_hashes
from hipslake.tables.stored_files import StoredFile, read_data_file

OLD, NEW, DELETED = 0, 1, 2
_SIDE, _NUMBER, _POSITION, _LATEST = "_side", "_number", "_position", "_latest"
_RESULT = pa.schema(
    [
        ("side", pa.int8()),
        ("number", pa.int64()),
        ("positions", pa.binary()),
        ("duplicates", pa.int64()),
        ("unexpected", pa.int64()),
        ("example", pa.string()),
    ]
)
_KEY_BYTES = 64.0
_TASK_ROWS = 2_000_000
_FILTER_FILE = "keys.filter"


class Joined(NamedTuple):
    """What a join found: positions of rows that go, int64 each."""

    old: dict[int, NDArray[np.int64]]  # by file: rows that a new one replaces, and deleted ones
    new: dict[int, NDArray[np.int64]]  # by part: rows that a later one of the same key replaces


@dataclass(frozen=True)
class JoinKeysTask:
    """Both halves of the exchange of keys.

    Sources are the candidate files, then the parts of the new rows, and then those of the deleted rows.

    Attributes
    ----------
    new : NewRows
    files : tuple of StoredFile
        That may hold a key.
    key : tuple of str
    last_by : str or None
        The column that says which of several new rows stays.
    targets : int
    filter_root : str
        Where the filter over the new keys lies.
    done : Counter
    """

    new: NewRows
    files: tuple[StoredFile, ...]
    key: tuple[str, ...]
    last_by: str | None
    targets: int
    filter_root: str
    done: Counter

    @property
    def schema(self) -> pa.Schema:
        """Of the rows on their way."""
        fields = [pa.field(_SIDE, pa.int8()), pa.field(_NUMBER, pa.int64()), pa.field(_POSITION, pa.int64())]
        fields += [self.new.schema.field(name) for name in self.key]
        if self.last_by is not None:
            fields.append(self.new.schema.field(self.last_by).with_name(_LATEST))
        return pa.schema(fields)

    def route(self, number: int) -> Iterator[Routed]:
        """Send the keys of a source to the tasks of their hashes."""
        if number < len(self.files):
            known = load_filter(Storage(self.filter_root))
            position = 0
            for batch in read_data_file(self.files[number], self.new.schema, self.key):
                hashes = key_hashes(batch, self.key)
                may = known.may_hold(hashes)
                for name in self.key:
                    if batch.column(name).null_count:
                        may &= batch.column(name).is_valid().to_numpy(zero_copy_only=False)
                at = np.flatnonzero(may)
                yield from self._sent(OLD, number, batch.take(pa.array(at)), at + position, hashes[at])
                position += batch.num_rows
                self.done.add(batch.num_rows)
            return
        part = number - len(self.files)
        if part >= self.new.rows.tasks:
            for batch in self.new.read_deleted(part - self.new.rows.tasks, self.key):
                at = np.zeros(batch.num_rows, np.int64)
                yield from self._sent(DELETED, part, batch, at, key_hashes(batch, self.key))
                self.done.add(batch.num_rows)
            return
        columns = list(self.key)
        if self.last_by is not None and self.last_by not in columns:
            columns.append(self.last_by)
        position = 0
        for batch in self.new.read(part, columns):
            at = np.arange(batch.num_rows) + position
            yield from self._sent(NEW, part, batch, at, key_hashes(batch, self.key))
            position += batch.num_rows
            self.done.add(batch.num_rows)

    def _sent(
        self,
        side: int,
        number: int,
        batch: pa.RecordBatch,
        position: NDArray[np.int64],
        hashes: NDArray[np.uint64],
    ) -> Iterator[Routed]:
        if not batch.num_rows:
            return
        columns = [
            pa.array(np.full(batch.num_rows, side, np.int8)),
            pa.array(np.full(batch.num_rows, number, np.int64)),
            pa.array(position),
            *[batch.column(name) for name in self.key],
        ]
        if self.last_by is not None:
            latest = self.schema.field(_LATEST).type
            columns.append(batch.column(self.last_by) if side == NEW else pa.nulls(batch.num_rows, latest))
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        # The top bits: the filter is made of the low ones, and what passes it must not all meet in one task.
        target = ((hashes >> np.uint64(40)) % np.uint64(self.targets)).astype(np.int64)
        yield from to_targets(rows, target)

    def join(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Find the rows that go: old ones with a new key, and new ones that a later one replaces."""
        rows = pa.Table.from_batches([block.rows for block in blocks], self.schema)
        blocks.clear()
        old, new, deleted = (rows.filter(pc.equal(rows[_SIDE], side)) for side in (OLD, NEW, DELETED))
        old_codes, other_codes = joint_codes(old, pa.concat_tables([new, deleted]), self.key)
        new_codes, deleted_codes = other_codes[: new.num_rows], other_codes[new.num_rows :]
        stays, twice, example = self._latest(new, new_codes)
        replaced = old.filter(pa.array(np.isin(old_codes, other_codes)))
        left_out = new.filter(pa.array(~stays))
        found = [
            _told(side, number, at.tobytes())
            for side, table in ((OLD, replaced), (NEW, left_out))
            for number, at in _by_number(table)
        ]
        if twice:
            found.append(_told(NEW, -1, duplicates=twice, example=example))
        if self.new.deleted is not None:
            unexpected = np.flatnonzero(np.isin(old_codes, new_codes) & ~np.isin(old_codes, deleted_codes))
            if len(unexpected):
                example = self._shown(old, int(unexpected[0]))
                found.append(_told(OLD, -1, unexpected=len(unexpected), example=example))
        yield pa.RecordBatch.from_pylist(found, schema=_RESULT)

    def _latest(self, new: pa.Table, codes: NDArray[np.int64]) -> tuple[NDArray[np.bool_], int, str]:
        """Which new rows stay, how many keys stand several times, and one of these."""
        count = len(codes)
        by: dict[str, object] = {"code": codes}
        keys = [("code", "ascending")]
        if self.last_by is not None:
            latest = new[_LATEST].combine_chunks()
            by |= {"known": pc.is_valid(latest), "latest": latest}
            keys += [("known", "ascending"), ("latest", "ascending")]
        by |= {"number": new[_NUMBER], "position": new[_POSITION]}
        keys += [("number", "ascending"), ("position", "ascending")]
        order = pc.sort_indices(pa.table(by), sort_keys=keys).to_numpy()
        ordered = codes[order]
        is_last = np.append(np.diff(ordered) > 0, True) if count else np.empty(0, bool)
        stays = np.empty(count, bool)
        stays[order] = is_last
        twice = int(count - is_last.sum())
        if not twice or self.last_by is not None:
            return stays, 0, ""
        at = int(order[np.flatnonzero(~is_last)[0]])
        return stays, twice, self._shown(new, at)

    def _shown(self, rows: pa.Table, at: int) -> str:
        return ", ".join(f"{name} = {rows[name][at]}" for name in self.key)


def find_old_versions(tried: SinkTry, files: tuple[StoredFile, ...], counted: Counted) -> Joined:
    """Find which rows of some files, and which new rows, go.

    Raises
    ------
    InputError
        Several new rows have one key, and the spec does not say which stays.
    """
    engine, added, work, spec = tried.engine, tried.new, tried.write.work, tried.order.spec
    work.write(_FILTER_FILE, pa.compress(counted.keys.bits, "zstd", asbytes=True), durable=False)
    targets = max(engine.cores, -(-counted.rows // _TASK_ROWS))
    task = JoinKeysTask(added, files, spec.key, spec.duplicates.last_by, targets, work.root, engine.counter())
    with engine.progress("keys", done=task.done):
        found = engine.exchange(
            sources=len(files) + added.rows.tasks + added.deleted_tasks,
            mapper=task.route,
            targets=targets,
            reducer=task.join,
            result=_RESULT,
            scratch=blocks_in_folder(work, "exchange-keys", _KEY_BYTES * counted.rows),
        )
    twice = pc.sum(found["duplicates"]).as_py() or 0
    if twice:
        example = _example(found, "duplicates")
        raise InputError(
            f"key: {twice} rows of the source have the key of another one, such as {example}; write "
            "'duplicates: last by <column>' to keep the last of them, or make the key unique"
        )
    unexpected = pc.sum(found["unexpected"]).as_py() or 0
    if unexpected:
        raise InputError(
            f"key: {unexpected} rows of table {spec.table} have the key of one that came, such as "
            f"{_example(found, 'unexpected')}, though the table had no such row from version "
            f"{tried.before.source.version if tried.before and tried.before.source else '?'}: either the key "
            "does not tell the rows of the catalog apart, or others have put these rows into the table. Name "
            "another key; or set force, which writes the table anew with what the catalog has"
        )
    rows = found.to_pylist()

    def positions_of(side: int) -> dict[int, NDArray[np.int64]]:
        return positions_by_number(
            (row["number"], row["positions"]) for row in rows if row["side"] == side and row["number"] >= 0
        )

    return Joined(positions_of(OLD), positions_of(NEW))


def load_filter(work: Storage) -> KeyFilter:
    """The filter that `find_old_versions` has stored."""
    empty = KeyFilter()
    data = pa.decompress(work.read(_FILTER_FILE), len(empty.bits), "zstd")
    return KeyFilter(np.frombuffer(data, np.uint8))


def _told(
    side: int,
    number: int,
    positions: bytes = b"",
    *,
    duplicates: int = 0,
    unexpected: int = 0,
    example: str = "",
) -> dict[str, object]:
    """What a task found, as a row of its result."""
    return {
        "side": side,
        "number": number,
        "positions": positions,
        "duplicates": duplicates,
        "unexpected": unexpected,
        "example": example,
    }


def _example(found: pa.Table, what: str) -> str:
    """The key of the first of the rows that are something."""
    example: str = found.filter(pc.greater(found[what], 0))["example"][0].as_py()
    return example


def _by_number(rows: pa.Table) -> Iterator[tuple[int, NDArray[np.int64]]]:
    numbers, positions = rows[_NUMBER].to_numpy(), rows[_POSITION].to_numpy()
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    for first, last in runs_of(numbers):
        yield int(numbers[first]), positions[first:last]
