"""Expressions with their text: the types and values of columns that are computed of others."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hipslake.predicates.domains import UnfitError
from hipslake.predicates.expression_tree import ColumnValue, Expression
from hipslake.predicates.expression_types import MisplacedError, kind_of
from hipslake.predicates.expression_values import values_of


@dataclass(frozen=True)
class DerivedValue:
    """An expression with its text.

    Attributes
    ----------
    text : str
    tree : Expression
    """

    text: str
    tree: Expression

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""
        return self.tree.columns

    @property
    def column(self) -> str | None:
        """The column that it is, where it is nothing else."""
        return self.tree.name if isinstance(self.tree, ColumnValue) else None

    def kind(self, schema: pa.Schema) -> pa.DataType:
        """The type of its values, if the columns are those of a schema; float64 where all of them are null.

        Raises
        ------
        UnfitError
            It does not fit the columns; the message says where in the text.
        """
        try:
            found = kind_of(self.tree, schema)
        except MisplacedError as error:
            raise UnfitError(f"at {stand_of(self.text, error.place)}: {error}") from None
        return pa.float64() if pa.types.is_null(found) else found

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Its values, one per row.

        Raises
        ------
        UnfitError
            A value does not fit; the message says where in the text.
        """
        try:
            found = values_of(self.tree, rows)
        except MisplacedError as error:
            raise UnfitError(f"at {stand_of(self.text, error.place)}: {error}") from None
        return found.cast(pa.float64()) if pa.types.is_null(found.type) else found


def stand_of(text: str, place: int) -> str:
    """Line and column of a place in a text, counted from 1.

    Examples
    --------
    >>> stand_of("a +\\n b", 5)
    'line 2, column 2'
    """
    before = text[:place]
    return f"line {before.count(chr(10)) + 1}, column {place - (before.rfind(chr(10)) + 1) + 1}"
