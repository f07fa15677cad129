"""Rows of a change feed: which kind of change each is, and their order. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from hipslake.catalog.changes.row_differences import held_by, only_in_one, repeated_digests, row_digests
from hipslake.engine.reordering import in_order
from hipslake.errors import InputError, ReservedColumnError, SchemaMismatchError
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixels import HEALPIX_COLUMN

CHANGE_COLUMN = "_change"
DELETE, UPDATE_BEFORE, UPDATE_AFTER, INSERT = KINDS = ("delete", "update_before", "update_after", "insert")
"""The kinds of changes, in the order in which rows of one position stand."""

KEY_DIGEST = ("_key_low", "_key_high")
"""Columns with the digest of a row's key, where there is one, until it is known whether it is an update."""


def change_schema(content: pa.Schema) -> pa.Schema:
    """The columns of a change feed: what kind of change a row is, `_healpix_29`, and those of the rows."""
    if CHANGE_COLUMN in content.names:
        raise ReservedColumnError(
            f"the catalog has a column {CHANGE_COLUMN!r} of its own, as a change feed calls the kind of a "
            "change; leave it out by 'columns'"
        )
    others = [field for field in content if field.name != HEALPIX_COLUMN]
    return pa.schema([pa.field(CHANGE_COLUMN, pa.string()), content.field(HEALPIX_COLUMN), *others])


def check_key_columns(schema: pa.Schema, key: Sequence[str]) -> None:
    """Look whether columns can be a key.

    Raises
    ------
    SchemaMismatchError
        A column holds fractions or nested values, of which equality says little.
    """
    for name in key:
        kind = schema.field(name).type
        of_values = kind.value_type if kinds.is_dictionary(kind) else kind
        if kinds.is_floating(of_values) or kinds.is_nested(of_values) or kinds.is_null(of_values):
            raise SchemaMismatchError(
                f"key: column {name!r} is {kind}; a key holds whole numbers, texts, dates, times, decimals, "
                "truths or bytes"
            )


def changes_of(removed: pa.Table, added: pa.Table, compared: Sequence[str], key: Sequence[str]) -> pa.Table:
    """The changes of a stretch of the curve, as deletes and inserts.

    Parameters
    ----------
    removed, added : pyarrow.Table
        Rows that went and came, of one schema, ordered along the curve. Those with the same content are left
        out.
    compared : sequence of str
        The columns that are their content.
    key : sequence of str
        With a key, its digest goes with each row, as `KEY_DIGEST`.

    Returns
    -------
    pyarrow.Table
        `_change`, and the columns of the rows; ordered by `_healpix_29`, and deletes before inserts.
    """
    digests = [row_digests(rows.select(compared)) for rows in (removed, added)]
    parts = [
        in_order(rows, np.flatnonzero(left)) if not left.all() else rows
        for rows, left in zip((removed, added), only_in_one(*digests), strict=True)
    ]
    told = [
        rows.add_column(0, CHANGE_COLUMN, pa.array([kind] * rows.num_rows, pa.string()))
        for kind, rows in zip((DELETE, INSERT), parts, strict=True)
    ]
    found = pa.concat_tables(told)
    if key:
        _check_no_nulls(found, key)
        keys = row_digests(found.select(key)).view(np.int64)
        for at, name in enumerate(KEY_DIGEST):
            found = found.append_column(name, pa.array(np.ascontiguousarray(keys[:, at])))
    return in_order(found, curve_order(found[HEALPIX_COLUMN].to_numpy()))


def key_digests(changes: pa.Table) -> NDArray[np.uint64]:
    """The digests of the keys of changes, uint64[n, 2]."""
    return np.stack([changes[name].to_numpy().view(np.uint64) for name in KEY_DIGEST], axis=1)


class KeyedChanges:
    """The keys of all rows that went, and of all that came: 16 bytes each.

    Parameters
    ----------
    since, until : int
        The versions, for errors.
    key : sequence of str
    """

    def __init__(self, since: int, until: int, key: Sequence[str]) -> None:
        self._versions = {DELETE: since, INSERT: until}
        self._key = ", ".join(key)
        self._found: dict[str, list[NDArray[np.uint64]]] = {DELETE: [], INSERT: []}
        self._updated = np.empty((0, 2), np.uint64)

    def add(self, changes: pa.Table) -> None:
        """Take up the keys of the changes of a stretch."""
        digests = key_digests(changes)
        for kind, found in self._found.items():
            found.append(digests[pc.equal(changes[CHANGE_COLUMN], kind).to_numpy()])

    def settle(self) -> None:
        """Find the keys of which a row went and a row came.

        Raises
        ------
        InputError
            Several rows that differ have one key in a version.
        """
        went, came = (np.concatenate([self._updated, *found]) for found in self._found.values())
        for kind, digests in ((DELETE, went), (INSERT, came)):
            if count := len(repeated_digests(digests)):
                raise not_unique(self._key, self._versions[kind], count)
        self._updated = went[held_by(went, came)]
        self._found.clear()

    def told(self, changes: pa.Table) -> pa.Table:
        """The changes of a stretch with updates told, without the digests of their keys."""
        updated = held_by(key_digests(changes), self._updated)
        changes = changes.drop_columns(list(KEY_DIGEST))
        if not updated.any():
            return changes
        kind = changes[CHANGE_COLUMN]
        update = pc.if_else(pc.equal(kind, DELETE), UPDATE_BEFORE, UPDATE_AFTER)
        kind = pc.if_else(pa.array(updated), update, kind)
        changes = changes.set_column(0, CHANGE_COLUMN, kind)
        rank = pc.index_in(kind, pa.array(KINDS)).to_numpy()
        return in_order(changes, np.lexsort((rank, changes[HEALPIX_COLUMN].to_numpy())))


def not_unique(key: str, version: int, count: int | None = None) -> InputError:
    """The error about rows that share their key: so many, if that is known."""
    return InputError(
        f"key: {'some' if count is None else count} of the rows that differ have the {key} of another one in "
        f"version {version}, so that it is not known which row became which; name a key that tells rows "
        "apart, or compare without one"
    )


def _check_no_nulls(changes: pa.Table, key: Sequence[str]) -> None:
    for name in key:
        if count := changes[name].null_count:
            raise InputError(
                f"key: column {name!r} is null in {count} of the rows that differ; filter them out "
                f"({name} is not null), or name another key"
            )
