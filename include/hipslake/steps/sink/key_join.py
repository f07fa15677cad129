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
from hipslake.specs.upsert_spec import MissingDeletes
from hipslake.steps.row_routing import runs_of, to_targets
from hipslake.steps.sink.count_rows import Counted
from hipslake.steps.sink.meeting_records import meet_records, ranks_of
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
        ("counted", pa.string()),  # what is counted, instead of positions
        ("count", pa.int64()),
        ("example", pa.string()),
    ]
)
_DUPLICATES, _UNEXPECTED, _TIED = "duplicates", "unexpected", "tied"
_DELETED, _MISSING, _OUTDATED = "deleted", "missing", "outdated"
_KEY_BYTES = 64.0
_TASK_ROWS = 2_000_000
_FILTER_FILE = "keys.filter"


class Joined(NamedTuple):
    """What a join found: positions of rows that go, int64 each.

    Attributes
    ----------
    old : dict
        By file: rows that a new one replaces, and deleted ones.
    new : dict
        By part: rows that a later one of the same key replaces.
    deleted : int
        Of `old`, those that records of change data delete.
    missing : int
        Such records that found no row.
    outdated : int
        Keys whose last record is older than their row.
    """

    old: dict[int, NDArray[np.int64]]
    new: dict[int, NDArray[np.int64]]
    deleted: int = 0
    missing: int = 0
    outdated: int = 0


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
    order_by : str or None
        The same where rows are records: it also says whether they are newer than the row of the table.
    records : bool
        Whether new rows put rows and deleted ones delete them, each key at most by one that counts.
    targets : int
    filter_root : str
        Where the filter over the new keys lies.
    done : Counter
    """

    new: NewRows
    files: tuple[StoredFile, ...]
    key: tuple[str, ...]
    last_by: str | None
    order_by: str | None
    records: bool
    targets: int
    filter_root: str
    done: Counter

    @property
    def schema(self) -> pa.Schema:
        """Of the rows on their way."""
        fields = [pa.field(_SIDE, pa.int8()), pa.field(_NUMBER, pa.int64()), pa.field(_POSITION, pa.int64())]
        fields += [self.new.schema.field(name) for name in self.key]
        if self._latest_by is not None:
            field = self.new.schema.field(self._latest_by)
            fields.append(field.with_name(_LATEST).with_nullable(True))
        return pa.schema(fields)

    @property
    def _latest_by(self) -> str | None:
        return self.last_by or self.order_by

    def _columns(self, *, with_latest: bool) -> list[str]:
        more = [self._latest_by] if with_latest and self._latest_by is not None else []
        return list(dict.fromkeys([*self.key, *more]))

    def route(self, number: int) -> Iterator[Routed]:
        """Send the keys of a source to the tasks of their hashes."""
        if number < len(self.files):
            known = load_filter(Storage(self.filter_root))
            position = 0
            columns = self._columns(with_latest=self.order_by is not None)
            for batch in read_data_file(self.files[number], self.new.schema, columns):
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
            columns = self._columns(with_latest=self.order_by is not None)
            for batch in self.new.read_deleted(part - self.new.rows.tasks, columns):
                at = np.zeros(batch.num_rows, np.int64)
                yield from self._sent(DELETED, part, batch, at, key_hashes(batch, self.key))
                self.done.add(batch.num_rows)
            return
        position = 0
        for batch in self.new.read(part, self._columns(with_latest=True)):
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
        if (latest := self._latest_by) is not None:
            has_it = side == NEW or self.order_by is not None
            kind = self.schema.field(_LATEST).type
            columns.append(batch.column(latest) if has_it else pa.nulls(batch.num_rows, kind))
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        # The top bits: the filter is made of the low ones, and what passes it must not all meet in one task.
        target = ((hashes >> np.uint64(40)) % np.uint64(self.targets)).astype(np.int64)
        yield from to_targets(rows, target)

    def join(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Find the rows that go: old ones with a new key, and new ones that a later one replaces."""
        rows = pa.Table.from_batches([block.rows for block in blocks], self.schema)
        blocks.clear()
        old, new, deleted = (rows.filter(pc.equal(rows[_SIDE], side)) for side in (OLD, NEW, DELETED))
        if self.records:
            yield self._met(old, new, deleted)
            return
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
            found.append(_counted(_DUPLICATES, twice, example))
        if self.new.follows:
            unexpected = np.flatnonzero(np.isin(old_codes, new_codes) & ~np.isin(old_codes, deleted_codes))
            if len(unexpected):
                example = self._shown(old, int(unexpected[0]))
                found.append(_counted(_UNEXPECTED, len(unexpected), example))
        yield pa.RecordBatch.from_pylist(found, schema=_RESULT)

    def _met(self, old: pa.Table, new: pa.Table, deleted: pa.Table) -> pa.RecordBatch:
        """Let records meet the rows of their keys."""
        records = pa.concat_tables([new, deleted])
        old_codes, codes = joint_codes(old, records, self.key)
        order, old_order = np.zeros(len(codes), np.int64), np.zeros(len(old_codes), np.int64)
        if self.order_by is not None:
            order, old_order = ranks_of(records[_LATEST], old[_LATEST])
        deletes = np.arange(len(codes)) >= new.num_rows
        met = meet_records(codes, order, deletes, old_codes, old_order)
        if met.tied:
            return pa.RecordBatch.from_pylist(
                [_counted(_TIED, met.tied, self._shown(records, met.example))], schema=_RESULT
            )
        left_out = new.filter(pa.array(met.left_out[: new.num_rows]))
        found = [
            _told(side, number, at.tobytes())
            for side, table in ((OLD, old.filter(pa.array(met.gone))), (NEW, left_out))
            for number, at in _by_number(table)
        ]
        counts = {_DELETED: met.deleted, _MISSING: met.missing, _OUTDATED: met.outdated}
        found += [_counted(what, count) for what, count in counts.items()]
        return pa.RecordBatch.from_pylist(found, schema=_RESULT)

    def _latest(self, new: pa.Table, codes: NDArray[np.int64]) -> tuple[NDArray[np.bool_], int, str]:
        """Which new rows stay, how many keys stand several times, and one of these."""
        count = len(codes)
        if np.bincount(codes).max(initial=0) <= 1:
            return np.ones(count, bool), 0, ""
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
        told = [f"{name} = {rows[name][at]}" for name in self.key]
        if self.order_by is not None:
            told.append(f"{self.order_by} = {rows[_LATEST][at]}")
        return ", ".join(told)


def find_old_versions(tried: SinkTry, files: tuple[StoredFile, ...], counted: Counted) -> Joined:
    """Find which rows of some files, and which new rows, go.

    Raises
    ------
    InputError
        Several new rows have one key, and the spec does not say which stays; or a record deletes a row that
        is not there, and the spec lets that fail.
    """
    engine, added, work, spec = tried.engine, tried.new, tried.write.work, tried.order.spec
    work.write(_FILTER_FILE, pa.compress(counted.keys.bits, "zstd", asbytes=True), durable=False)
    targets = max(engine.cores, -(-counted.rows // _TASK_ROWS))
    task = JoinKeysTask(
        added,
        files,
        spec.key,
        spec.duplicates.last_by,
        spec.order_by,
        spec.takes_records,
        targets,
        work.root,
        engine.counter(),
    )
    with engine.progress("keys", done=task.done):
        found = engine.exchange(
            sources=len(files) + added.rows.tasks + added.deleted_tasks,
            mapper=task.route,
            targets=targets,
            reducer=task.join,
            result=_RESULT,
            scratch=blocks_in_folder(work, "exchange-keys", _KEY_BYTES * counted.rows),
        )
    if tied := _total(found, _TIED):
        _refuse_ties(spec.order_by, tied, _example(found, _TIED))
    if twice := _total(found, _DUPLICATES):
        example = _example(found, _DUPLICATES)
        raise InputError(
            f"key: {twice} rows of the source have the key of another one, such as {example}; write "
            "'duplicates: last by <column>' to keep the last of them, or make the key unique"
        )
    if unexpected := _total(found, _UNEXPECTED):
        raise InputError(
            f"key: {unexpected} rows of table {spec.table} have the key of one that came, such as "
            f"{_example(found, _UNEXPECTED)}, though the table had no such row from version "
            f"{tried.before.source.version if tried.before and tried.before.source else '?'}: either the key "
            "does not tell the rows of the catalog apart, or others have put these rows into the table. Name "
            "another key; or set force, which writes the table anew with what the catalog has"
        )
    missing = _total(found, _MISSING)
    if missing and spec.missing_deletes is MissingDeletes.FAIL:
        raise InputError(
            f"missing_deletes: {missing} records delete rows that table {spec.table} does not have; mend the "
            "source, or write 'missing_deletes: count'"
        )
    rows = found.to_pylist()

    def positions_of(side: int) -> dict[int, NDArray[np.int64]]:
        return positions_by_number(
            (row["number"], row["positions"]) for row in rows if row["side"] == side and row["number"] >= 0
        )

    deleted, outdated = _total(found, _DELETED), _total(found, _OUTDATED)
    return Joined(positions_of(OLD), positions_of(NEW), deleted, missing, outdated)


def _refuse_ties(order_by: str | None, tied: int, example: str) -> None:
    """Refuse records of a key of which none is the last."""
    if order_by is None:
        raise InputError(
            f"key: {tied} records of the source have the key of another one, such as {example}, and nothing "
            "says which of them counts; write order_by, a column that says it, or make the key unique"
        )
    raise InputError(
        f"order_by: {tied} records of the source share key and {order_by} with another one, such as "
        f"{example}, so that none is the last; take a column that tells them apart, or mend the source"
    )


def load_filter(work: Storage) -> KeyFilter:
    """The filter that `find_old_versions` has stored."""
    empty = KeyFilter()
    data = pa.decompress(work.read(_FILTER_FILE), len(empty.bits), "zstd")
    return KeyFilter(np.frombuffer(data, np.uint8))


def _told(side: int, number: int, positions: bytes) -> dict[str, object]:
    """Rows that a task found, as a row of its result."""
    return {"side": side, "number": number, "positions": positions, "count": 0}


def _counted(what: str, count: int, example: str = "") -> dict[str, object]:
    """What a task counted, as a row of its result."""
    return {"side": OLD, "number": -1, "counted": what, "count": count, "example": example}


def _total(found: pa.Table, what: str) -> int:
    """How many all tasks have counted of something."""
    total: int = pc.sum(found.filter(pc.equal(found["counted"], what))["count"]).as_py() or 0
    return total


def _example(found: pa.Table, what: str) -> str:
    """The first example that a task has given of something."""
    example: str = found.filter(pc.equal(found["counted"], what))["example"][0].as_py()
    return example


def _by_number(rows: pa.Table) -> Iterator[tuple[int, NDArray[np.int64]]]:
    numbers, positions = rows[_NUMBER].to_numpy(), rows[_POSITION].to_numpy()
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    for first, last in runs_of(numbers):
        yield int(numbers[first]), positions[first:last]
