"""Which rows a predicate is true for: the only place where rows are filtered by one.

Three values, as in SQL: a comparison with null is unknown, `not` leaves unknown as it is, and only rows for
which the whole is true pass. NaN compares as IEEE 754 says: it equals nothing, and is neither less nor more.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from hipslake.predicates.binding import Same, bound_compare, bound_list, check_columns
from hipslake.predicates.domains import Domain, comparable_domain, family_of, negative_zero_as_zero
from hipslake.predicates.predicate_tree import (
    TURNED,
    And,
    ArrowExpression,
    Compare,
    CompareColumns,
    InArray,
    InList,
    IsNan,
    IsNull,
    IsTrue,
    Not,
    OfColumn,
    Or,
    Predicate,
)

KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WHOLE = pa.decimal128(20, 0)
_EXACT_BITS = 32  # of integers that doubles hold, whatever the value
_UNORDERED = 2
_DECIDED = 1e-12  # relative distance at which the nearest doubles tell the order of decimals
_NOTHING = pa.scalar(None, pa.bool_())


def compared_columns(
    operator: str, left: pa.ChunkedArray, right: pa.ChunkedArray, domains: tuple[Domain, Domain]
) -> pa.ChunkedArray:
    """Whether a comparison holds per row; null where either is null. NaN compares as IEEE 754 says.

    Parameters
    ----------
    operator : str
    left, right : pyarrow.ChunkedArray
        Values as their domains compare them.
    domains : (Domain, Domain)
        Of families that can be compared.
    """
    mine, other = domains
    families = (mine.family, other.family)
    if families[0] == families[1] and mine.compared == other.compared and mine.per_second == other.per_second:
        return KERNELS[operator](left, right)
    if mine.per_second is not None:
        return _by_order(operator, left, right, lambda a, b: _order_of_times(a, b, mine, other))
    if "text" in families or "binary" in families:
        return KERNELS[operator](*(side.cast(pa.large_binary()) for side in (left, right)))
    if families == ("whole", "whole"):
        return KERNELS[operator](*_in_common(left, right))
    if "float" not in families:
        return KERNELS[operator](*_as_decimals(left, right))
    if mine.family == "float":
        return compared_columns(TURNED[operator], right, left, (other, mine))
    if mine.family == "decimal":
        return _by_order(operator, left, right, _order_of_decimals)
    if mine.compared.bit_width <= _EXACT_BITS:
        return KERNELS[operator](left.cast(pa.float64()), right)
    return _by_order(operator, left, right, _order_of_integers)


def _in_common(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    unsigned = [pa.types.is_uint64(side.type) for side in (left, right)]
    if any(unsigned):
        signed = [pa.types.is_signed_integer(side.type) for side in (left, right)]
        wide = _WHOLE if any(signed) else pa.uint64()
    else:
        wide = pa.int64()
    return [side.cast(wide) for side in (left, right)]


def _as_decimals(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    sides = [side.cast(_WHOLE) if pa.types.is_integer(side.type) else side for side in (left, right)]
    scale = max(side.type.scale for side in sides)
    whole = max(side.type.precision - side.type.scale for side in sides)
    return [side.cast(pa.decimal256(scale + whole, scale)) for side in sides]


def _by_order(
    operator: str,
    left: pa.ChunkedArray,
    right: pa.ChunkedArray,
    order: Callable[[pa.ChunkedArray, pa.ChunkedArray], NDArray[np.int8]],
) -> pa.ChunkedArray:
    """A comparison by -1, 0 and 1 for less, equal and greater, and 2 for neither; only of rows with both."""
    there = pc.and_(pc.is_valid(left), pc.is_valid(right))
    places = np.flatnonzero(there.to_numpy().astype(bool))
    rows = pa.array(places)
    found = order(left.take(rows), right.take(rows))
    holds = {
        "=": found == 0,
        "!=": found != 0,
        "<": found == -1,
        "<=": found <= 0,
        ">": found == 1,
        ">=": (found == 0) | (found == 1),
    }[operator]
    whole = np.zeros(len(left), bool)
    whole[places] = holds
    missing = np.ones(len(left), bool)
    missing[places] = False
    return pa.chunked_array([pa.array(whole, mask=missing)], pa.bool_())


def _sign(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int8]:
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)


def _order_of_integers(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.int8]:
    """64-bit integers beside doubles: rounding keeps the order; where it makes both equal, integers tell."""
    whole, real = left.to_numpy(), right.to_numpy()
    rounded = whole.astype(np.float64)
    found = _sign(rounded, real)
    tied = np.flatnonzero(rounded == real)
    beyond = float(2 ** (64 if whole.dtype == np.uint64 else 63))
    inside = tied[real[tied] < beyond]
    found[tied] = -1  # the double is one above the greatest integer
    found[inside] = _sign(whole[inside], real[inside].astype(whole.dtype))
    found[np.isnan(real)] = _UNORDERED
    return found


def _order_of_decimals(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.int8]:
    """Decimals beside doubles: by the nearest doubles, and where these are close, by exact fractions."""
    near, real = left.cast(pa.float64()).to_numpy(), right.to_numpy()
    found = _sign(near, real)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.flatnonzero(np.abs(near - real) <= _DECIDED * np.maximum(np.abs(near), np.abs(real)))
    some = pa.array(close)
    pairs = zip(left.take(some).to_pylist(), real[close].tolist(), strict=True)
    found[close] = [_exact_sign(Fraction(mine), other) for mine, other in pairs]
    found[np.isnan(real)] = _UNORDERED
    return found


def _exact_sign(left: Fraction, right: float) -> int:
    if np.isinf(right):
        return -1 if right > 0 else 1
    exact = Fraction(right)
    return (left > exact) - (left < exact)


def _order_of_times(
    left: pa.ChunkedArray, right: pa.ChunkedArray, mine: Domain, other: Domain
) -> NDArray[np.int8]:
    """Times of different steps: the finer one is cut to the coarser step; what is cut off decides ties."""
    assert mine.per_second is not None and other.per_second is not None, "both are times"  # noqa: PT018
    a, b = left.to_numpy().astype(np.int64), right.to_numpy().astype(np.int64)
    ratio = mine.per_second / other.per_second
    if ratio > 1:
        whole, rest = np.divmod(a, int(ratio))
        return np.where(whole == b, (rest > 0).astype(np.int8), _sign(whole, b))
    whole, rest = np.divmod(b, int(1 / ratio))
    return np.where(a == whole, -(rest > 0).astype(np.int8), _sign(a, whole))


def passing(predicate: Predicate, rows: pa.Table, *, nan_is_null: bool = False) -> pa.Table:
    """The rows for which a predicate is true.

    Parameters
    ----------
    predicate : Predicate
        Checked with `hipslake.predicates.binding.check_predicate`.
    rows : pyarrow.Table
        Has its columns.
    nan_is_null : bool
        Whether NaN is read as null, as in cubes.

    Examples
    --------
    >>> from hipslake.predicates.filter_text import parse_filter
    >>> rows = pa.table({"x": [1.0, float("nan"), None, 3.0]})
    >>> passing(parse_filter("x != 1", rows.schema), rows)["x"].to_pylist()
    [nan, 3.0]
    >>> passing(parse_filter("x != 1", rows.schema), rows, nan_is_null=True)["x"].to_pylist()
    [3.0]
    """
    return _filtered(rows, truth(predicate, rows, nan_is_null=nan_is_null))


def truth(
    predicate: Predicate, rows: pa.Table | pa.RecordBatch, *, nan_is_null: bool = False
) -> pa.ChunkedArray:
    """Whether a predicate is true, false or unknown (null), per row; parameters as for `passing`."""
    return _Rows(rows, nan_is_null).truth(predicate)


class _Rows:
    def __init__(self, rows: pa.Table | pa.RecordBatch, nan_is_null: bool) -> None:
        self._rows = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._nan_is_null = nan_is_null

    def truth(self, node: Predicate) -> pa.ChunkedArray:
        if isinstance(node, And | Or):
            kernel = pc.and_kleene if isinstance(node, And) else pc.or_kleene
            if not node.parts:
                return pa.chunked_array([pa.repeat(isinstance(node, And), self._rows.num_rows)])
            return reduce(kernel, map(self.truth, node.parts))
        if isinstance(node, Not):
            return pc.invert(self.truth(node.of))
        if isinstance(node, ArrowExpression):
            return self._by_arrow(node)
        if isinstance(node, CompareColumns):
            domains = check_columns(node, self._rows.schema)
            left = self._values(self._rows.column(node.left), domains[0])
            right = self._values(self._rows.column(node.right), domains[1])
            return compared_columns(node.operator, left, right, domains)
        assert isinstance(node, OfColumn), node
        column = self._rows.column(node.column)
        if isinstance(node, IsNull):
            return self._is_null(column)
        return self._of_values(node, column)

    def _of_values(self, node: Predicate, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """A test of each value by itself: of a dictionary, only of its entries."""
        if not pa.types.is_dictionary(column.type):
            return self._test(node, column)
        chunks = []
        for chunk in column.chunks:
            entries = self._test(node, pa.chunked_array([chunk.dictionary])).combine_chunks()
            found = entries.take(chunk.indices)
            chunks.append(pc.fill_null(found, False) if isinstance(node, IsNan) else found)
        return pa.chunked_array(chunks, pa.bool_())

    def _test(self, node: Predicate, column: pa.ChunkedArray) -> pa.ChunkedArray:
        kind = column.type
        if isinstance(node, IsNan):
            return pc.fill_null(pc.is_nan(column), False)
        if isinstance(node, IsTrue):
            return column
        if isinstance(node, InArray):
            domain = comparable_domain(node.column, kind)
            given = domain.values(pa.chunked_array([node.values]))
            return self._among(self._values(column, domain), given.combine_chunks())
        if isinstance(node, InList):
            domain, listed = bound_list(node, kind)
            values = pa.array([domain.scalar(value).as_py() for value in listed], domain.compared)
            return self._among(self._values(column, domain), values)
        assert isinstance(node, Compare), node
        domain, test = bound_compare(node, kind)
        values = self._values(column, domain)
        if isinstance(test, Same):
            return pc.if_else(pc.is_valid(values), pa.scalar(test.truth), _NOTHING)
        return KERNELS[test.operator](values, domain.scalar(test.value))

    def _among(self, values: pa.ChunkedArray, listed: pa.Array) -> pa.ChunkedArray:
        found = pc.is_in(negative_zero_as_zero(values), value_set=negative_zero_as_zero(listed))
        return pc.if_else(pc.is_valid(values), found, _NOTHING)

    def _is_null(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        found = pc.is_null(column)
        if self._nan_is_null and family_of(column.type) == "float":
            found = pc.or_(found, self._of_values(IsNan(""), column))
        return found

    def _values(self, column: pa.ChunkedArray, domain: Domain) -> pa.ChunkedArray:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        values = domain.values(column)
        if self._nan_is_null and domain.family == "float":
            return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        return values

    def _by_arrow(self, node: ArrowExpression) -> pa.ChunkedArray:
        rows = self._rows.select(sorted(node.columns))
        if not rows.num_columns:
            rows = self._rows
        found = ds.dataset(rows).to_table(columns={"truth": node.expression}).column("truth")
        return found.cast(pa.bool_())


def _filtered(rows: pa.Table, mask: Any) -> pa.Table:
    """The rows where a mask is true; Arrow has no kernel that filters views."""
    wide = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if not any(field.type in wide for field in rows.schema):
        return rows.filter(mask)
    plain = pa.schema([field.with_type(wide.get(field.type, field.type)) for field in rows.schema])
    return rows.cast(plain.with_metadata(rows.schema.metadata)).filter(mask).cast(rows.schema)
