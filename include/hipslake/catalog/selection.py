"""What of a version a read needs: columns and their groups, rows by filter, leaves by pixel. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import SchemaMismatchError
from hipslake.sphere.pixels import starts, stops

PixelLike = tuple[int, int]


@dataclass(frozen=True)
class Intervals:
    """Sorted disjoint intervals [start, stop) of order-29 pixels, int64[n] each."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @classmethod
    def of(cls, pixels: Iterable[PixelLike]) -> Intervals:
        """The union of pixels, (order, npix) each; they may overlap."""
        given = list(pixels)
        order = np.array([pixel[0] for pixel in given], np.int64)
        npix = np.array([pixel[1] for pixel in given], np.int64)
        known = (order >= 0) & (order <= 29) & (npix >= 0) & (npix < 12 << (2 * np.clip(order, 0, 29)))
        if not known.all():
            wrong = given[int(np.argmin(known))]
            raise ValueError(f"there is no pixel of order {wrong[0]} with number {wrong[1]}")
        along = np.argsort(starts(order, npix), kind="stable")
        start, stop = starts(order, npix)[along], stops(order, npix)[along]
        if not len(start):
            return cls(start, stop)
        reach = np.maximum.accumulate(stop)
        first = np.flatnonzero(np.concatenate([[True], start[1:] > reach[:-1]]))
        return cls(start[first], np.maximum.reduceat(stop, first))

    @classmethod
    def of_stretch(cls, start: int, stop: int) -> Intervals:
        """One interval."""
        return cls(np.array([start], np.int64), np.array([stop], np.int64))

    def touch(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the given intervals hold anything of these, bool[m]."""
        touched: NDArray[np.bool_] = np.searchsorted(self.stop, start, side="right") < np.searchsorted(
            self.start, stop, side="left"
        )
        return touched

    def within(self, start: int, stop: int) -> Intervals:
        """The part of these intervals inside [start, stop)."""
        low, high = np.searchsorted(self.stop, start, side="right"), np.searchsorted(self.start, stop)
        return Intervals(np.maximum(self.start[low:high], start), np.minimum(self.stop[low:high], stop))

    def hold(self, h29: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which order-29 pixels lie in these intervals, bool[m]."""
        ended = np.searchsorted(self.stop, h29, side="right")
        begun = np.searchsorted(self.start, h29, side="right")
        inside: NDArray[np.bool_] = begun > ended
        return inside


@dataclass(frozen=True)
class Selection:
    """Columns of a read, and the groups that they are taken from.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the outcome.
    columns : dict of str to list of str
        Per group that is read, the columns taken from it: for the outcome, and for the filter.
    filter : pyarrow.compute.Expression or None
    """

    schema: pa.Schema
    columns: dict[str, list[str]]
    filter: ds.Expression | None


def joined_schema(metadata: CatalogMetadata) -> pa.Schema:
    """The columns of all groups side by side: each once, in the order of the groups, `_row` last."""
    fields: dict[str, pa.Field] = {}
    for group in metadata.groups:
        for field in group.to_arrow():
            fields.setdefault(field.name, field)
    row = fields.pop(ROW_COLUMN, None)
    return pa.schema([*fields.values(), *([row] if row is not None else [])])


def select(
    metadata: CatalogMetadata,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    group: str | None = None,
) -> Selection:
    """Resolve columns and filters of a read.

    Parameters
    ----------
    metadata : CatalogMetadata
    columns : sequence of str, optional
        All if not given.
    filters : pyarrow.compute.Expression or list, optional
        An expression, or lists in disjunctive normal form as `pyarrow.parquet.read_table` takes them.
    group : str, optional
        Read this column group alone.

    Raises
    ------
    SchemaMismatchError
        There is no such column; the message names the nearest ones.
    """
    schema = joined_schema(metadata) if group is None else metadata.schema_of(group)
    wanted = schema.names if columns is None else list(columns)
    _require(wanted, schema, metadata)
    expression = _expression(filters)
    needed = wanted + (_filtered(expression, schema, metadata) if expression is not None else [])
    owners = [metadata.group(group)] if group is not None else list(metadata.groups)
    names = {owner.name: set(owner.to_arrow().names) for owner in owners}
    taken = _owners(list(dict.fromkeys(needed)), names)
    return Selection(pa.schema([schema.field(name) for name in wanted]), taken, expression)


def _owners(needed: list[str], names: dict[str, set[str]]) -> dict[str, list[str]]:
    """As few groups as will do: a column of several groups is taken from one that is read anyway."""
    holders = {column: [group for group in names if column in names[group]] for column in needed}
    alone = {groups[0] for groups in holders.values() if len(groups) == 1}
    read = [group for group in names if group in alone]
    taken: dict[str, list[str]] = {group: [] for group in read}
    for column, groups in holders.items():
        owner = next((group for group in read if group in groups), groups[0])
        taken.setdefault(owner, []).append(column)
        if owner not in read:
            read.append(owner)
    return taken or {next(iter(names)): []}


def _expression(filters: Any) -> ds.Expression | None:
    if filters is None or isinstance(filters, ds.Expression):
        return filters
    return pq.filters_to_expression(filters) if filters else None


def _filtered(expression: ds.Expression, schema: pa.Schema, metadata: CatalogMetadata) -> list[str]:
    """Names of the columns that an expression needs, and maybe of some that it does not.

    An expression does not tell its columns, but its text holds their names, and it says whether it can be
    evaluated on a schema.
    """
    text = str(expression)
    some = [field for field in schema if field.name in text]
    if _binds(expression, pa.schema(some)):
        return [field.name for field in some]
    try:
        _bind(expression, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise SchemaMismatchError(
            f"catalog {metadata.catalog}: the filter {text} does not fit its columns "
            f"({str(error).splitlines()[0]}); they are {', '.join(schema.names)}"
        ) from error
    return list(schema.names)


def _bind(expression: ds.Expression, schema: pa.Schema) -> None:
    ds.dataset(schema.empty_table()).scanner(filter=expression)


def _binds(expression: ds.Expression, schema: pa.Schema) -> bool:
    try:
        _bind(expression, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
        return False
    return True


def _require(names: Sequence[str], schema: pa.Schema, metadata: CatalogMetadata) -> None:
    known = set(schema.names)
    for name in names:
        if name not in known:
            near = " or ".join(repr(n) for n in difflib.get_close_matches(name, schema.names, n=3))
            raise SchemaMismatchError(
                f"catalog {metadata.catalog} has no column {name!r}"
                + (f"; did you mean {near}?" if near else f"; its columns are {', '.join(schema.names)}")
            )
    if len(set(names)) < len(names):
        raise SchemaMismatchError(
            f"catalog {metadata.catalog}: a column is asked for twice: {', '.join(names)}"
        )
