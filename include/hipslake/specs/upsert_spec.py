"""Mode upsert: what the records of a night do to the rows of a catalog, told by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from hipslake.specs.base import Column, Frozen, repeated

UPSERT_KEYS = ("key", "order_by", "operation", "missing_deletes", "validity")
"""Keys of a spec that only mode upsert has."""


class MissingDeletes(StrEnum):
    """What a record is that deletes a row which is not there."""

    COUNT = "count"  # it is counted, and deletes nothing
    FAIL = "fail"


def _as_text(given: Any) -> Any:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Code = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]
"""A value of the column of operations; a whole number stands for its digits."""


class OperationSpec(Frozen):
    """The column that says what a record does; it is not stored.

    Attributes
    ----------
    column : str
        Of the source: texts or integers. A null is an error.
    insert, update : str
        Both put the row of the record where that of its key was, if there was one. They may be equal.
    delete : str
        From then on the key has no row. Of such a record only key, `order_by` and operation count.
    """

    column: Column
    insert: Code = "I"
    update: Code = "U"
    delete: Code = "D"

    @model_validator(mode="after")
    def _codes_differ(self) -> OperationSpec:
        for name in ("insert", "update"):
            if getattr(self, name) == self.delete:
                raise ValueError(
                    f"{name} and delete are both {self.delete!r}; a record either puts its row or deletes one"
                )
        return self


class Validity(Frozen):
    """Two columns that the catalog adds: from when to when the row was that of its key, [from, to).

    Both are values of `order_by`; without it, starts of the intervals of nights.

    Attributes
    ----------
    begin : str
        From when on: what its record is ordered by.
    end : str
        Until when: what the next record of the key is ordered by, also one that deletes; null if there is
        none.
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    begin: Column = Field(alias="from")
    end: Column = Field(alias="to")

    @model_validator(mode="after")
    def _two_columns(self) -> Validity:
        if self.begin.casefold() == self.end.casefold():
            raise ValueError(f"from and to are both column {self.begin!r}; name two columns")
        return self

    @property
    def columns(self) -> tuple[str, str]:
        """Both."""
        return self.begin, self.end


def check_upsert(
    *,
    upserts: bool,
    key: tuple[str, ...],
    order_by: str | None,
    operation: OperationSpec | None,
    missing_deletes: MissingDeletes,
    validity: Validity | None,
    stored: Mapping[str, Iterable[str]],
) -> None:
    """Hold the keys of mode upsert in a spec against each other, and against the others.

    Parameters
    ----------
    upserts : bool
        Whether the spec is of mode upsert.
    key, order_by, operation, missing_deletes, validity
        As the spec has them.
    stored : mapping of str to iterable of str
        Columns that other keys of the spec name, and that are stored therefore; by what names them.

    Raises
    ------
    ValueError
        They do not fit.
    """
    if not upserts:
        fails = missing_deletes is not MissingDeletes.COUNT
        said = (bool(key), order_by is not None, operation is not None, fails, validity is not None)
        if wrong := [name for name, is_said in zip(UPSERT_KEYS, said, strict=True) if is_said]:
            raise ValueError(
                f"{wrong[0]}: is only of mode upsert, which replaces and deletes rows by their keys; add "
                "'mode: upsert', or leave it out"
            )
        return
    if not key:
        raise ValueError("mode: upsert tells rows by their key; name its columns, such as key: [source_id]")
    if twice := repeated(key):
        raise ValueError(f"key: {', '.join(twice)} stands twice")
    if order_by in key:
        raise ValueError(
            f"order_by: {order_by} is part of the key, so that records of a key do not differ in it; name "
            "another column"
        )
    stored = {"key": key, "order_by": (order_by,) if order_by else (), **stored}
    _check_added(validity, operation, stored)
    if operation is None:
        return
    for name, columns in stored.items():
        if operation.column in columns:
            raise ValueError(
                f"operation.column: {operation.column} is named by {name} too, and the column of operations "
                "is not stored; name another column"
            )


def _check_added(
    validity: Validity | None, operation: OperationSpec | None, stored: Mapping[str, Iterable[str]]
) -> None:
    """Refuse names of columns that the catalog adds where something of the source is meant by them."""
    if validity is None:
        return
    given = {**stored, "operation.column": (operation.column,) if operation is not None else ()}
    for part, column in zip(("from", "to"), validity.columns, strict=True):
        for name, columns in given.items():
            if column.casefold() in {each.casefold() for each in columns}:
                raise ValueError(
                    f"validity.{part}: {column} is named by {name} too, as a column of the source, and "
                    "validity adds columns of its own; give it another name"
                )
