"""The checks of an audit, upon the rows of some data files; each says in words what it found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.this_process import ThisProcess
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.predicates.domains import negative_zero_as_zero
from hipslake.specs.audit_spec import AuditSpec, RowsRange, ValueRange
from hipslake.steps.audit.request import AuditedCheck
from hipslake.steps.sink.follow_rows import hashes_of_rows
from hipslake.steps.sink.live_rows import live_rows
from hipslake.tables.deleted_rows import plain_values
from hipslake.tables.protocol import LiveFile
from hipslake.tables.stored_files import read_data_file

_SHOWN = 3
_HASHES = np.dtype([("low", np.uint64), ("high", np.uint64)])


@dataclass(frozen=True)
class BranchRows:
    """The rows of some data files of a table that are not deleted.

    Attributes
    ----------
    files : sequence of LiveFile
    schema : pyarrow.Schema
        Of the table.
    """

    files: Sequence[LiveFile]
    schema: pa.Schema

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(live_rows(ThisProcess(), self.files, self.schema))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of them, file after file."""
        for file in self.files:
            yield from read_data_file(file.stored, self.schema, columns)


def check_columns(spec: AuditSpec, schema: pa.Schema) -> None:
    """Look that the checks of a spec name columns of a table, of types that they can be made of.

    Raises
    ------
    SchemaMismatchError
        There is no such column.
    SpecError
        Values of a column have no order, a bound is no value of it, or `unique` names a nested column.
    """
    for name in spec.columns:
        if name not in schema.names:
            raise SchemaMismatchError(
                f"audit: the table has no column {name!r}; its columns are {', '.join(schema.names)}"
            )
    for name, limits in spec.ranges.items():
        _Outside(name, limits, schema.field(name).type)
    for name in spec.unique:
        if pa.types.is_nested(schema.field(name).type):
            raise SpecError(
                f"audit.unique.{name}: the column is of type {schema.field(name).type}; rows are told apart "
                "by numbers, texts, dates and times"
            )


def column_checks(spec: AuditSpec, rows: BranchRows) -> list[AuditedCheck]:
    """Make all checks of a spec but `sql`, in one pass over the columns that they need.

    Parameters
    ----------
    spec : AuditSpec
    rows : BranchRows

    Raises
    ------
    SchemaMismatchError, SpecError
        As of `check_columns`.
    """
    check_columns(spec, rows.schema)
    nulls = [_Nulls(name) for name in spec.not_null]
    ranges = [_Outside(name, limits, rows.schema.field(name).type) for name, limits in spec.ranges.items()]
    unique = _Twice(spec.unique) if spec.unique else None
    looks: list[_Nulls | _Outside | _Twice] = [*nulls, *ranges, *([unique] if unique is not None else [])]
    if looks:
        for batch in rows.batches(spec.columns):
            for look in looks:
                look.add(batch)
    if unique is not None:
        unique.find(rows)
    found = [look.outcome for look in looks]
    return [_rows_check(spec.rows, rows.count), *found] if spec.rows is not None else found


def _rows_check(limits: RowsRange, count: int) -> AuditedCheck:
    ok = (limits.min is None or count >= limits.min) and (limits.max is None or count <= limits.max)
    return AuditedCheck(check=f"rows: {_between(limits.min, limits.max)}", ok=ok, found=f"{count} rows")


def _between(low: object, high: object) -> str:
    if low is None or high is None:
        return f"at most {high}" if low is None else f"at least {low}"
    return f"from {low} to {high}"


@dataclass
class _Nulls:
    """Counts the nulls of a column."""

    column: str
    count: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.count += batch.column(self.column).null_count

    @property
    def outcome(self) -> AuditedCheck:
        found = f"{self.count} rows have none" if self.count else ""
        return AuditedCheck(check=f"not_null: {self.column}", ok=not self.count, found=found)


class _Outside:
    """Counts the values of a column that lie in no range, and keeps some."""

    def __init__(self, column: str, limits: ValueRange, kind: pa.DataType) -> None:
        self.column, self.limits, self.kind = column, limits, kind
        self.count, self.some = 0, list[Any]()
        self.low = None if limits.min is None else _bound(column, kind, limits.min, math.ceil)
        self.high = None if limits.max is None else _bound(column, kind, limits.max, math.floor)

    def add(self, batch: pa.RecordBatch) -> None:
        values = batch.column(self.column)
        outside = pa.array(np.zeros(len(values), bool))
        if pa.types.is_floating(self.kind):
            outside = pc.is_nan(values)
        for bound, beyond in ((self.low, pc.less), (self.high, pc.greater)):
            if bound is not None:
                outside = pc.or_(outside, beyond(values, bound))
        found = values.filter(outside)  # nulls are none
        self.count += len(found)
        self.some += found[: _SHOWN - len(self.some)].to_pylist() if len(self.some) < _SHOWN else []

    @property
    def outcome(self) -> AuditedCheck:
        check = f"ranges: {self.column} lies {_between(self.limits.min, self.limits.max)}"
        found = f"{self.count} values do not, such as {_shown(self.some)}" if self.count else ""
        return AuditedCheck(check=check, ok=not self.count, found=found)


def _bound(column: str, kind: pa.DataType, value: float | str, rounded: Any) -> pa.Scalar:
    """A bound as a value of its column.

    Raises
    ------
    SpecError
        It is none.
    """
    try:
        if pa.types.is_string(kind) and isinstance(value, str):
            return pa.scalar(value, kind)
        if pa.types.is_temporal(kind) and isinstance(value, str):
            return _moment(value, kind)
        if isinstance(value, int | float):
            if pa.types.is_integer(kind):
                least, most = -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
                return pa.scalar(min(max(rounded(value), least), most), pa.int64())
            if pa.types.is_floating(kind):
                return pa.scalar(float(value), pa.float64())
            if pa.types.is_decimal(kind):
                return pa.scalar(Decimal(str(value)))
    except (ValueError, InvalidOperation, pa.ArrowException) as error:
        raise SpecError(f"audit.ranges.{column}: {value!r} is no value of type {kind} ({error})") from None
    raise SpecError(
        f"audit.ranges.{column}: {value!r} is a {'text' if isinstance(value, str) else 'number'}, and the "
        f"column is of type {kind}; ranges are of numbers, texts, dates and times"
    )


def _moment(value: str, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_time(kind):
        return pa.scalar(value, pa.string()).cast(kind)
    moment = datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return pa.scalar(moment.date(), kind)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return pa.scalar(moment if kind.tz is not None else moment.replace(tzinfo=None), kind)


@dataclass
class _Twice:
    """Looks for rows that are equal in some columns, by 128 bits of hashes: 16 bytes of memory per row.

    Rows are equal as SQL's GROUP BY has it: NaN is itself, and -0.0 is 0.0.
    """

    columns: Sequence[str]
    _parts: list[NDArray[np.void]] = field(default_factory=list)
    count: int = 0
    some: list[Any] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        self._parts.append(self._hashed(batch)[0])

    def find(self, rows: BranchRows) -> None:
        """Count them, and read some."""
        hashes = np.concatenate(self._parts) if self._parts else np.empty(0, _HASHES)
        self._parts.clear()
        hashes.sort(order=("low", "high"))
        again = hashes[1:][hashes[1:] == hashes[:-1]]
        self.count = len(again)
        if not self.count:
            return
        wanted = np.unique(again)[:_SHOWN]
        for batch in rows.batches(list(self.columns)):
            found, whole = self._hashed(batch)
            for at in np.flatnonzero(np.isin(found, wanted)).tolist():
                row = list(whole.slice(at, 1).to_pylist()[0].values())
                shown = row[0] if len(row) == 1 else tuple(row)
                if shown not in self.some:
                    self.some.append(shown)
            if len(self.some) >= len(wanted):
                return

    def _hashed(self, batch: pa.RecordBatch) -> tuple[NDArray[np.void], pa.RecordBatch]:
        """The hashes of the rows without a null, and these rows."""
        some = batch.select(list(self.columns))
        whole = np.ones(some.num_rows, bool)
        for column in some.columns:
            if column.null_count:
                whole &= pc.is_valid(column).to_numpy(zero_copy_only=False)
        some = some.filter(pa.array(whole))
        hashes = np.empty(some.num_rows, _HASHES)
        if some.num_rows:
            equal = [plain_values(negative_zero_as_zero(column)) for column in some.columns]
            plain = pa.RecordBatch.from_arrays(equal, names=some.schema.names)
            hashes["low"], hashes["high"] = hashes_of_rows(plain)
        return hashes, some

    @property
    def outcome(self) -> AuditedCheck:
        found = f"{self.count} rows repeat another, such as {_shown(self.some)}" if self.count else ""
        return AuditedCheck(check=f"unique: {', '.join(self.columns)}", ok=not self.count, found=found)


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(str(value)[:100] for value in values)
