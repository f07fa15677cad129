"""Values of Python that conditions compare columns with: refused unless their type is that of the column."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from hipslake.errors import ConditionError

_TYPES = {"bool": bool, "float": float, "text": str, "binary": bytes}
"""The Python type of the values of a family, where there is one."""


def plain(value: Any, column: str) -> Any:
    """A value as the conditions keep it: numpy's and Arrow's scalars become Python's.

    Raises
    ------
    ConditionError
        It is null (None, NaN, NaT): no value equals it, and none is greater or less.
    """
    value = python_value(value)
    if is_null(value):
        raise ConditionError(
            f"column {column!r} cannot be compared with {value!r}, as null equals nothing; use "
            f"C({column!r}).is_null() or .not_null()"
        )
    return value


def python_value(value: Any) -> Any:
    """A scalar of numpy or Arrow as Python's; numpy's datetime64 stays, which may be finer."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value


def is_null(value: Any) -> bool:
    """Whether a value is null: None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return bool(isinstance(value, float | np.datetime64) and value != value)


def check_type(value: Any, kind: pa.DataType, family: str) -> None:
    """Refuse a value that is not of a column's type. Nothing is converted: 1 is no double, True no integer.

    Parameters
    ----------
    value : object
        From `plain`.
    kind : pyarrow.DataType
        The column's, without its dictionary.
    family : str
        That of the type's `Domain`.

    Raises
    ------
    ValueError
        It is not; the message says what it is, and what to write.

    Examples
    --------
    >>> check_type(1, pa.int16(), "whole")
    >>> check_type(1, pa.float64(), "float")
    Traceback (most recent call last):
        ...
    ValueError: but 1 is an int; write 1.0
    """
    if not _fits(value, kind, family):
        raise ValueError(f"but {value!r} is {_kind_of(value)}{_mend(value, kind, family)}")


def _fits(value: Any, kind: pa.DataType, family: str) -> bool:
    if family == "whole":
        return isinstance(value, int) and not isinstance(value, bool)
    if family == "date":
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    if family in ("stamp", "zoned"):
        if isinstance(value, np.datetime64):
            return kind.tz is None
        return isinstance(value, datetime.datetime) and (value.tzinfo is None) == (kind.tz is None)
    return isinstance(value, _TYPES.get(family, ()))


def _kind_of(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _mend(value: Any, kind: pa.DataType, family: str) -> str:
    if family == "float" and isinstance(value, int) and not isinstance(value, bool):
        return f"; write {float(value)!r}"
    if family == "whole" and isinstance(value, float) and value.is_integer():
        return f"; write {int(value)!r}"
    if family == "bool" and value in (0, 1):
        return f"; write {bool(value)!r}"
    if family in ("stamp", "zoned") and isinstance(value, datetime.datetime | np.datetime64):
        return f"; give a time {'without a zone' if kind.tz is None else 'with a zone'}"
    return ""
