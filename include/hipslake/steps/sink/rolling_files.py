"""Which files rows go to that are not counted before: those of each partition value fill one after another.

Only a sample is read before, for the size of a row. An append needs no more where its files are written as
their rows come: so each source is read once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.specs.table_writing import TableMode
from hipslake.steps.row_routing import stable_order
from hipslake.steps.sink.count_rows import Counted, row_bytes_of, sampled_parts
from hipslake.steps.sink.file_runs import FileRuns
from hipslake.steps.sink.sink_try import NewRows, SinkTry
from hipslake.steps.sink.source_rows import by_split
from hipslake.steps.sink.streamed_files import MOST_FILES, Part, takes_streams
from hipslake.steps.sink.tasks import SinkPlan, target_bytes
from hipslake.tables.partition_values import PartitionValues, distinct_values, value_columns
from hipslake.tables.row_keys import KeyFilter
from hipslake.tables.shuffle import ValueCounts, most_file_rows, plan_shuffle

log = logging.getLogger(__name__)

_MOST_SAMPLED_VALUES = MOST_FILES * 3 // 4  # others may be rare
_MIXED = 1.5  # times the values of a part of the sample that all may have together


class TooManyValuesError(Exception):
    """There are more partition values than files that may be open at once."""


class Sampled(NamedTuple):
    """What a sample tells: the size of a row in a file, and the partition values of each part of it."""

    row_bytes: float
    values: list[pa.Table]

    @property
    def is_mixed(self) -> bool:
        """Whether partition values are few, and come in no order: then a file of each may be open at once."""
        if not self.values:
            return True
        counts = [PartitionValues.of(each).count for each in self.values]
        together = PartitionValues.of(pa.concat_tables(self.values)).count
        return together <= _MOST_SAMPLED_VALUES and together <= _MIXED * min(counts)


def may_roll(tried: SinkTry) -> bool:
    """Whether rows may be written without being counted: new ones that replace no others."""
    spec = tried.order.spec
    plain = spec.mode is TableMode.APPEND and not (spec.key or spec.follows_changes)
    first = tried.before is None or not tried.before.rows
    alone = tried.new.deleted is None and not tried.clustered_by
    return plain and first and alone and takes_streams(tried.writer, tried.engine)


def sample_rows(tried: SinkTry) -> Sampled:
    """Read the first rows of some parts."""
    new, fields = tried.new, tried.fields

    def of_part(number: int) -> tuple[float, pa.Table] | None:
        found = row_bytes_of(new, tried.writer, number)
        if found is None:
            return None
        size, rows = found
        return size, distinct_values(value_columns(fields, rows), rows.num_rows)[0]

    with ThreadPoolExecutor(tried.engine.cores, thread_name_prefix="sample") as pool:
        found = [each for each in pool.map(of_part, sampled_parts(new.rows.tasks)) if each is not None]
    sizes = [size for size, _ in found]
    return Sampled(sum(sizes) / len(sizes) if sizes else 1.0, [values for _, values in found])


class RollingFiles:
    """The files of new rows, which are cut as they fill.

    Parameters
    ----------
    tried : SinkTry
        Of which `may_roll`.
    row_bytes : float
    """

    def __init__(self, tried: SinkTry, row_bytes: float) -> None:
        self._new: NewRows = replace(tried.new, rows=by_split(tried.new.rows))
        self._tried = tried
        self._row_bytes = row_bytes
        self.schema = tried.new.schema
        self.writer = tried.writer
        self.written = tried.engine.counter()
        self._most = most_file_rows(row_bytes, target_bytes(tried))
        self._values = _SeenValues()
        self._rows: list[int] = []  # of each value
        self._file: dict[int, int] = {}  # that each value fills
        self._room: list[int] = []  # for more rows, of each file
        self._value: list[int] = []  # of each file

    @property
    def sources(self) -> int:
        """In how many parts rows are read."""
        return self._new.rows.tasks

    def routed(self, number: int) -> Iterator[tuple[pa.RecordBatch, list[Part]]]:
        """The batches of a source, and the rows of each by the number of their partition value.

        Raises
        ------
        TooManyValuesError
            There are more of them than files that may be open at once.
        """
        for batch in self._new.read(number, self.schema.names):
            if batch.num_rows:
                values = value_columns(self._tried.fields, batch)
                own = self._values.numbers(values, batch.num_rows)
                rows = np.bincount(own)
                there = np.flatnonzero(rows)
                order = stable_order(own, len(rows)) if len(there) > 1 else None
                yield batch, [*FileRuns(order, there, rows[there]).parts(batch)]

    def placed(self, parts: Sequence[Part]) -> Iterator[Part]:
        """The rows of each file, from those of each partition value; of one batch after another."""
        for value, rows in parts:
            self._rows += [0] * (value + 1 - len(self._rows))
            self._rows[value] += rows.num_rows
            begin = 0
            while begin < rows.num_rows:
                file = self._file.get(value)
                if file is None or not self._room[file]:
                    file = self._file[value] = len(self._room)
                    self._room.append(self._most)
                    self._value.append(value)
                some = rows.slice(begin, self._room[file])
                self._room[file] -= some.num_rows
                begin += some.num_rows
                yield file, some

    def planned(self, file: int) -> int:
        """The most rows of a file."""
        return self._most

    def named(self, file: int) -> tuple[tuple[Any, ...], str]:
        """The partition and the name of a file."""
        return self._values.record(self._value[file]), f"{file:06d}"

    def plan(self) -> tuple[Counted, SinkPlan]:
        """What was counted on the way, and what plan has been followed, once all rows are placed."""
        order = self._tried.order
        totals = np.array(self._rows, np.int64)
        known = PartitionValues(self._values.table, len(totals))
        shuffle = plan_shuffle(
            ValueCounts(np.zeros(len(totals), np.int64), np.arange(len(totals)), totals, len(totals)),
            partition=order.spec.partition,
            upsert=False,
            sources=self._tried.new.rows.tasks,
            row_bytes=self._row_bytes,
            target_bytes=target_bytes(self._tried),
            cores=self._tried.engine.cores,
            rolling=True,
        )
        counted = Counted(int(totals.sum()), None, [], KeyFilter(), self._row_bytes)
        return counted, SinkPlan(known, shuffle, ())


class _SeenValues:
    """Partition values, numbered in the order in which threads come to them; with a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: PartitionValues | None = None
        self._number = np.empty(0, np.int64)  # of each known one
        self._records: list[tuple[Any, ...]] = []

    def numbers(self, values: pa.Table, rows: int) -> NDArray[np.int64]:
        """The number of each row's value, int64[rows]."""
        distinct, place = distinct_values(values, rows)
        with self._lock:
            known, number = self._with(distinct)
        count = distinct.num_rows if distinct.num_columns else 1  # of no columns, there is one
        return number.take(known.numbers(distinct, count)).take(place)

    def record(self, number: int) -> tuple[Any, ...]:
        """A value as records of the table hold it."""
        return self._records[number]

    @property
    def table(self) -> pa.Table:
        """One row per value, in the order of the numbers."""
        if self._known is None:
            return pa.table({})
        if not self._known.table.num_columns:
            return self._known.table
        return self._known.table.take(pa.array(np.argsort(self._number)))

    def _with(self, distinct: pa.Table) -> tuple[PartitionValues, NDArray[np.int64]]:
        before = self._known
        known = PartitionValues.of(distinct if before is None else pa.concat_tables([before.table, distinct]))
        if before is not None and known.count == before.count:
            return before, self._number
        if known.count > MOST_FILES:
            raise TooManyValuesError
        number = np.full(known.count, -1, np.int64)
        if before is not None:
            number[known.numbers(before.table, before.count)] = self._number
        new = np.flatnonzero(number < 0)
        number[new] = np.arange(len(self._records), known.count)
        records = known.records()
        self._records += [records[at] for at in new.tolist()]
        self._known, self._number = known, number
        return known, number
