"""The narrowest Arrow type that holds the values of two types exactly, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pyarrow as pa
import pyarrow.types as kinds

from hipslake.joins.nested_forms import are_two_forms, other_form

_MANTISSA_BITS = {16: 11, 32: 24, 64: 53}
_DICTIONARY_BITS = 32
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of integers, signed or not


def widen(
    a: pa.DataType, b: pa.DataType, *, missing_fields: Literal["error", "null"] = "error"
) -> pa.DataType | None:
    """Return the type that both types widen to, or None where no type holds both.

    Null widens to anything; integers, floats, decimals and units of time to the wider of the two; integers to
    a float or decimal that holds them (int64 to float64, where a value past 2**53 is refused when read);
    string to large_string and binary to large_binary; lists, structs and dictionaries by what they hold; a
    dictionary and its words to the words. A struct must have the same fields in both, unless fields that one
    of them lacks may be null. Nested rows, as a list of structs or a struct of lists, take the form of the
    first.

    Parameters
    ----------
    a, b : pyarrow.DataType
    missing_fields : {"error", "null"}
        Whether structs with different fields have no common type, or one with the fields of both.

    Examples
    --------
    >>> widen(pa.int32(), pa.float32())
    DataType(double)
    >>> widen(pa.string(), pa.int8()) is None
    True
    """
    if a == b or kinds.is_null(b):
        return a
    if kinds.is_null(a):
        return b
    a, b = without_views(a), without_views(b)
    if a == b:
        return a
    if isinstance(a, pa.BaseExtensionType) or isinstance(b, pa.BaseExtensionType):
        return None
    if kinds.is_nested(a) or kinds.is_nested(b):
        return _widen_nested(a, b, missing_fields)
    if kinds.is_dictionary(a) or kinds.is_dictionary(b):
        return _widen_dictionary(a, b)
    return _widen_flat(a, b)


def _widen_flat(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if kinds.is_integer(a) and kinds.is_integer(b):
        return _wider_integer(a, b)
    if kinds.is_floating(a) and kinds.is_floating(b):
        return a if a.bit_width >= b.bit_width else b
    if kinds.is_floating(b):
        a, b = b, a
    if kinds.is_floating(a) and kinds.is_integer(b):
        exact = _MANTISSA_BITS[a.bit_width] >= b.bit_width
        return a if exact else pa.float64()
    a, b = _decimal_of(a, b), _decimal_of(b, a)
    families = (kinds.is_temporal, kinds.is_decimal, is_text, is_bytes)
    if not any(family(a) and family(b) for family in families):
        return None
    try:
        return (
            pa.unify_schemas([pa.schema([("_", a)]), pa.schema([("_", b)])], promote_options="permissive")
            .field(0)
            .type
        )
    except pa.ArrowException:  # e.g. two time zones, a date and a time
        return None


def _wider_integer(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if kinds.is_signed_integer(a) == kinds.is_signed_integer(b):
        return a if a.bit_width >= b.bit_width else b
    signed, unsigned = (a, b) if kinds.is_signed_integer(a) else (b, a)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits)


def _widen_nested(
    a: pa.DataType, b: pa.DataType, missing_fields: Literal["error", "null"]
) -> pa.DataType | None:
    lists = (kinds.is_list, kinds.is_large_list)
    if any(check(a) for check in lists) and any(check(b) for check in lists):
        make = pa.large_list if kinds.is_large_list(a) or kinds.is_large_list(b) else pa.list_
        field = _widen_field(a.value_field, b.value_field, missing_fields)
        return None if field is None else make(field)
    if kinds.is_fixed_size_list(a) and kinds.is_fixed_size_list(b) and a.list_size == b.list_size:
        field = _widen_field(a.value_field, b.value_field, missing_fields)
        return None if field is None else pa.list_(field, a.list_size)
    if kinds.is_struct(a) and kinds.is_struct(b):
        return _widen_struct(a, b, missing_fields)
    if are_two_forms(a, b):
        same = other_form(b)
        return None if same is None else _widen_nested(a, same, missing_fields)
    return None


def _widen_field(a: pa.Field, b: pa.Field, missing_fields: Literal["error", "null"]) -> pa.Field | None:
    """The field that holds the values of both, with the name and metadata of the first."""
    kind = widen(a.type, b.type, missing_fields=missing_fields)
    return None if kind is None else a.with_type(kind).with_nullable(a.nullable or b.nullable)


def _widen_struct(
    a: pa.StructType, b: pa.StructType, missing_fields: Literal["error", "null"]
) -> pa.DataType | None:
    mine, theirs = ({field.name: field for field in kind} for kind in (a, b))
    if len(mine) < a.num_fields or len(theirs) < b.num_fields:  # a name comes twice
        return None
    if mine.keys() != theirs.keys() and missing_fields == "error":
        return None
    held = {}
    for name in mine.keys() & theirs.keys():
        field = _widen_field(mine[name], theirs[name], missing_fields)
        if field is None:
            return None
        held[name] = field
    alone = [*mine.values(), *(field for name, field in theirs.items() if name not in mine)]
    return pa.struct([held.get(field.name, field.with_nullable(True)) for field in alone])


def _widen_dictionary(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not (kinds.is_dictionary(a) and kinds.is_dictionary(b)):
        return widen(*(kind.value_type if kinds.is_dictionary(kind) else kind for kind in (a, b)))
    index, value = widen(a.index_type, b.index_type), widen(a.value_type, b.value_type)
    if index is None or value is None:
        return None
    return pa.dictionary(index, value)  # in no order: the orders of two need not agree


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings."""
    return kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes of any length."""
    return kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)


def _decimal_of(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return an integer type that meets a decimal as the decimal that has all its digits."""
    if kinds.is_integer(kind) and kinds.is_decimal(other):
        return pa.decimal128(_DIGITS[kind.bit_width], 0)
    return kind


def without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values without string or binary views: Arrow cannot gather those yet.

    Examples
    --------
    >>> without_views(pa.list_(pa.string_view()))
    ListType(list<item: string>)
    """
    return _rewritten(
        kind, lambda kind: {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)
    )


def with_joint_dictionaries(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values whose dictionaries can be put together from any number of others.

    Every file and row group has a dictionary of its own, often numbered in 8 bits; together they may have
    more words, so 32 bits number them at least. And words come together in whatever order rows bring them,
    so it means nothing.

    Examples
    --------
    >>> with_joint_dictionaries(pa.dictionary(pa.int8(), pa.string(), ordered=True))
    DictionaryType(dictionary<values=string, indices=int32, ordered=0>)
    """

    def joint(kind: pa.DataType) -> pa.DataType:
        if not kinds.is_dictionary(kind):
            return kind
        wide = kind.index_type.bit_width >= _DICTIONARY_BITS
        return pa.dictionary(kind.index_type if wide else pa.int32(), kind.value_type)

    return _rewritten(kind, joint)


def without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values with texts and bytes in place of dictionaries of them.

    Examples
    --------
    >>> without_dictionaries(pa.list_(pa.dictionary(pa.int32(), pa.string())))
    ListType(list<item: string>)
    """

    def written_out(kind: pa.DataType) -> pa.DataType:
        coded = kinds.is_dictionary(kind) and (is_text(kind.value_type) or is_bytes(kind.value_type))
        return kind.value_type if coded else kind

    return _rewritten(kind, written_out)


def _rewritten(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Change a type, or the types nested in it."""

    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(_rewritten(field.type, change))

    if kinds.is_struct(kind):
        return pa.struct([inside(field) for field in kind])
    if kinds.is_map(kind):
        return pa.map_(inside(kind.key_field), inside(kind.item_field), keys_sorted=kind.keys_sorted)
    if kinds.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_field), kind.list_size)
    if kinds.is_large_list(kind):
        return pa.large_list(inside(kind.value_field))
    if kinds.is_list(kind):
        return pa.list_(inside(kind.value_field))
    return change(kind)
