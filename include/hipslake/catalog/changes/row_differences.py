"""Rows that only one of two tables has, by their content. No I/O.

Rows are compared as multisets, by two hashes of 64 bits over the bits of their values: NaN is equal to NaN,
whatever its bits, null to null, and -0.0 is another value than 0.0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from hipslake.clustering.checksum import row_hashes

_CHUNK_ROWS = 1 << 14  # that are hashed together: what is computed on the way stays in the processor's cache


def row_digests(rows: pa.Table) -> NDArray[np.uint64]:
    """Two hashes of each row, uint64[n, 2]; equal rows have equal ones, also in another table.

    Parameters
    ----------
    rows : pyarrow.Table
        The types and the order of the columns count, their names do not.

    Raises
    ------
    InputError
        A column is of a type that cannot be hashed.

    Examples
    --------
    >>> first, second, third = row_digests(pa.table({"x": [1.0, float("nan"), -float("nan")]}))
    >>> bool((first == second).all()), bool((second == third).all())
    (False, True)
    """
    leaves = {
        field.name: (_one_nan,) * _leaf_count(field.type)
        for field in rows.schema
        if _has_fractions(field.type)
    }
    found = np.empty((rows.num_rows, 2), np.uint64)
    for at in range(0, rows.num_rows, _CHUNK_ROWS):
        chunk = rows.slice(at, _CHUNK_ROWS)
        shifted = chunk.add_column(0, "", pa.nulls(chunk.num_rows))  # columns count by their place
        found[at : at + _CHUNK_ROWS, 0] = row_hashes(chunk, leaves)
        found[at : at + _CHUNK_ROWS, 1] = row_hashes(shifted, leaves)
    return found


def only_in_one(
    old: NDArray[np.uint64], new: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows of two tables the other one has not, bool[n] and bool[m].

    Of equal rows, as many are left as there are more of them than in the other table: the last ones.

    Parameters
    ----------
    old, new : uint64[n, 2] and uint64[m, 2]
        The digests of their rows.

    Examples
    --------
    >>> one, two = row_digests(pa.table({"x": [1, 2, 2]})), row_digests(pa.table({"x": [2, 3]}))
    >>> [mask.tolist() for mask in only_in_one(one, two)]
    [[True, False, True], [False, True]]
    """
    value, count = _numbered(np.concatenate([old, new]))
    before, after = value[: len(old)], value[len(old) :]
    shared = np.minimum(np.bincount(before, minlength=count), np.bincount(after, minlength=count))
    return _rank(before) >= shared[before], _rank(after) >= shared[after]


def held_by(digests: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which digests are among others, bool[n]."""
    value, count = _numbered(np.concatenate([digests, others]))
    held = np.zeros(count, bool)
    held[value[len(digests) :]] = True
    return held[value[: len(digests)]]


def repeated_digests(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where digests stand that an earlier one is equal to, int64[k]."""
    value, _ = _numbered(digests)
    return np.flatnonzero(_rank(value) > 0)


def _numbered(digests: NDArray[np.uint64]) -> tuple[NDArray[np.int64], int]:
    """A number for each digest, the same for equal ones, and how many there are."""
    if not len(digests):
        return np.empty(0, np.int64), 0
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    steps = (np.diff(digests[order], axis=0) != 0).any(axis=1)
    value = np.empty(len(order), np.int64)
    value[order] = np.concatenate([[0], np.cumsum(steps)])
    return value, int(steps.sum()) + 1


def _rank(value: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same number stand before each, int64[n]."""
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    rank = np.empty(len(value), np.int64)
    rank[order] = np.arange(len(value)) - np.searchsorted(ordered, ordered)
    return rank


def _one_nan(values: pa.Array) -> pa.Array:
    """The values of a column with all NaN alike."""
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_float16(values.type):
        values = values.cast(pa.float32())
    if not kinds.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(np.nan, values.type), values)


def _has_fractions(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_fractions(kind.storage_type)
    if kinds.is_dictionary(kind):
        return _has_fractions(kind.value_type)
    if kinds.is_nested(kind):
        return any(_has_fractions(kind.field(at).type) for at in range(kind.num_fields))
    return bool(kinds.is_floating(kind))


def _leaf_count(kind: pa.DataType) -> int:
    """How many columns without parts a column consists of."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if kinds.is_nested(kind):
        return sum(_leaf_count(kind.field(at).type) for at in range(kind.num_fields))
    return 1
