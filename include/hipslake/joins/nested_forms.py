"""The two forms of nested rows: a struct of equally long lists, and a list of structs.

Time series are stored as the former, as nested-pandas and LSDB want them: they read one list without the
others. Older catalogs hold the latter. So rows of either form go where the other stands.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray


def struct_of_lists(columns: pa.Schema) -> pa.StructType:
    """The type of rows that are nested as a struct with a list per column.

    Units and descriptions stay with the columns.

    Examples
    --------
    >>> struct_of_lists(pa.schema([("t", pa.float64())]))
    StructType(struct<t: list<item: double>>)
    """
    return pa.struct(
        [pa.field(field.name, pa.list_(field.type), metadata=field.metadata) for field in columns]
    )


def other_form(kind: pa.DataType) -> pa.DataType | None:
    """The type of the same nested rows in the other form; None for what is neither form.

    Examples
    --------
    >>> other_form(pa.struct([("t", pa.list_(pa.float64()))]))
    ListType(list<item: struct<t: double>>)
    >>> other_form(pa.list_(pa.float64())) is None
    True
    """
    if is_list(kind) and kinds.is_struct(kind.value_type) and kind.value_type.num_fields:
        make = pa.large_list if kinds.is_large_list(kind) else pa.list_
        return pa.struct([field.with_type(make(field.type)).with_nullable(True) for field in kind.value_type])
    if kinds.is_struct(kind) and kind.num_fields and all(is_list(field.type) for field in kind):
        make = pa.large_list if any(kinds.is_large_list(field.type) for field in kind) else pa.list_
        return make(pa.struct([field.with_type(field.type.value_type).with_nullable(True) for field in kind]))
    return None


def are_two_forms(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether one type is nested rows in one form, and the other nested rows in the other form."""
    return (
        kinds.is_struct(one) != kinds.is_struct(other)
        and other_form(one) is not None
        and other_form(other) is not None
    )


def in_other_form(rows: pa.Array) -> pa.Array:
    """Nested rows in the other form; null stays null.

    Parameters
    ----------
    rows : pyarrow.Array
        Of a type that `other_form` knows.

    Raises
    ------
    ValueError
        The lists of a struct differ in length, or a list holds a null in place of a struct: the other form
        cannot tell of either.

    Examples
    --------
    >>> curves = pa.array([{"t": [1, 2], "f": [5, None]}])
    >>> in_other_form(curves).to_pylist()
    [[{'t': 1, 'f': 5}, {'t': 2, 'f': None}]]
    >>> in_other_form(in_other_form(curves)).equals(curves)
    True
    """
    kind = other_form(rows.type)
    assert kind is not None, f"{rows.type} is no nested rows"
    missing = pc.is_null(rows) if rows.null_count else None
    if kinds.is_struct(rows.type):
        lists = rows.flatten()  # what is null as a whole is null in every list
        lengths = [_lengths(each) for each in lists]
        if any(
            each.null_count != rows.null_count or not np.array_equal(length, lengths[0])
            for each, length in zip(lists, lengths, strict=True)
        ):
            raise ValueError("its lists are not equally long")
        structs = pa.StructArray.from_arrays([each.flatten() for each in lists], fields=list(kind.value_type))
        return _listed(lengths[0], structs, kind, missing)
    structs, length = rows.flatten(), _lengths(rows)
    if structs.null_count:
        raise ValueError("a list holds a null in place of a struct")
    columns = [
        _listed(length, part, field.type, None) for part, field in zip(structs.flatten(), kind, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=missing)


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists of any length."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    """Of each list, int64[n]; null has none."""
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int64())
    return np.asarray(lengths.to_numpy(zero_copy_only=False))


def _listed(
    lengths: NDArray[np.int64], values: pa.Array, kind: pa.DataType, missing: pa.Array | None
) -> pa.Array:
    """Values cut into lists of some lengths."""
    wide = kinds.is_large_list(kind)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    made = pa.LargeListArray if wide else pa.ListArray
    return made.from_arrays(
        pa.array(offsets, pa.int64() if wide else pa.int32()), values, type=kind, mask=missing
    )
