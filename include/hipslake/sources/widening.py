"""The narrowest Arrow type that holds the values of two types exactly, or none."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as kinds

_MANTISSA_BITS = {16: 11, 32: 24, 64: 53}
_DICTIONARY_BITS = 32
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of integers, signed or not


def widen(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type that both types widen to, or None where no type holds both.

    Null widens to anything; integers, floats, decimals and units of time to the wider of the two; integers to
    a float or decimal that holds them (int64 to float64, where a value past 2**53 is refused when read);
    string to large_string and binary to large_binary; lists, structs and dictionaries by what they hold. A
    struct must have the same fields in both.

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
    if isinstance(a, pa.BaseExtensionType) or isinstance(b, pa.BaseExtensionType):
        return None
    if kinds.is_nested(a) or kinds.is_nested(b):
        return _widen_nested(a, b)
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
    families = (kinds.is_temporal, kinds.is_decimal, _is_text, _is_bytes)
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


def _widen_nested(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    lists = (kinds.is_list, kinds.is_large_list)
    if any(check(a) for check in lists) and any(check(b) for check in lists):
        value = widen(a.value_type, b.value_type)
        make = pa.large_list if kinds.is_large_list(a) or kinds.is_large_list(b) else pa.list_
        nullable = a.value_field.nullable or b.value_field.nullable
        return None if value is None else make(a.value_field.with_type(value).with_nullable(nullable))
    if kinds.is_fixed_size_list(a) and kinds.is_fixed_size_list(b) and a.list_size == b.list_size:
        value = widen(a.value_type, b.value_type)
        nullable = a.value_field.nullable or b.value_field.nullable
        field = a.value_field.with_nullable(nullable)
        return None if value is None else pa.list_(field.with_type(value), a.list_size)
    if kinds.is_struct(a) and kinds.is_struct(b) and {f.name for f in a} == {f.name for f in b}:
        fields = [(field, b.field(field.name), widen(field.type, b.field(field.name).type)) for field in a]
        if any(kind is None for _, _, kind in fields) or len(fields) != b.num_fields:
            return None
        return pa.struct(
            [
                mine.with_type(kind).with_nullable(mine.nullable or other.nullable)
                for mine, other, kind in fields
            ]
        )
    return None


def _widen_dictionary(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not (kinds.is_dictionary(a) and kinds.is_dictionary(b)):
        return None
    index, value = widen(a.index_type, b.index_type), widen(a.value_type, b.value_type)
    if index is None or value is None or a.ordered or b.ordered:  # two orders need not agree
        return None
    return pa.dictionary(index, value)


def _is_text(kind: pa.DataType) -> bool:
    return kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return kinds.is_binary(kind) or kinds.is_large_binary(kind)


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
        coded = kinds.is_dictionary(kind) and (_is_text(kind.value_type) or _is_bytes(kind.value_type))
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
