"""What becomes of the columns of source files: which are taken, as what, and what is derived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hipslake.errors import ExpressionError
from hipslake.specs.base import Column, ColumnNames, Frozen, repeated

PIXEL_COLUMNS = ("_healpix_29", "Norder", "Dir", "Npix")
"""In which HATS files say where a row lies, and in which file."""

_MOST_DERIVED = 1000


def _check_expression(text: str) -> str:
    from hipslake.predicates.expression_text import parse_expression  # which DAG files do without

    try:
        parse_expression(text)
    except ExpressionError as error:
        raise ValueError(str(error)) from None
    return text


def _check_type(text: str) -> str:
    from hipslake.predicates.type_names import check_type_name  # which DAG files do without

    return check_type_name(text)


ArrowTypeText = Annotated[str, AfterValidator(_check_type)]
_ExpressionText = Annotated[str, AfterValidator(_check_expression)]


def _typed_folders(given: Any) -> Any:
    names = [given] if isinstance(given, str) else given
    return dict.fromkeys(names, "auto") if isinstance(names, list | tuple) and _are_names(names) else given


def _are_names(given: Iterable[Any]) -> bool:
    return all(isinstance(name, str) for name in given)


def _check_folder_type(text: str) -> str:
    return text if text in ("auto", "hex") else _check_type(text)


FolderColumns = Annotated[
    dict[Column, Annotated[str, AfterValidator(_check_folder_type)]], BeforeValidator(_typed_folders)
]
"""Columns in the names of folders with their types: `auto`, `hex` (of an integer), or one of Arrow."""


class SourceColumnsSpec(Frozen):
    """The columns of a source, made of those that its files have.

    Attributes
    ----------
    select : tuple of str, optional
        Columns of the files that are taken, in this order; None: all.
    drop : tuple of str
        Columns of the files that are not taken. Expressions see them all the same.
    rename : dict
        Per column of the files another name.
    cast : dict
        Per column, by its name after `rename`, its type; a value that this does not hold is an error.
    derive : dict
        Per new column the expression that it is. Each sees the columns of the files, by their names and types
        after `rename` and `cast`, and the columns that are derived before it.
    """

    select: ColumnNames | None = None
    drop: ColumnNames = ()
    rename: dict[Column, Column] = Field(default_factory=dict)
    cast: dict[Column, ArrowTypeText] = Field(default_factory=dict)
    derive: dict[Column, _ExpressionText] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> SourceColumnsSpec:
        if not (self.select is not None or self.drop or self.rename or self.cast or self.derive):
            raise ValueError("says nothing; give select, drop, rename, cast or derive, or leave it out")
        for key, names in (("select", self.select or ()), ("drop", self.drop)):
            if twice := repeated(names):
                raise ValueError(f"{key}: {', '.join(twice)} stands twice")
        if self.select is not None and (both := sorted(set(self.select) & set(self.drop))):
            raise ValueError(f"drop: {', '.join(both)} is selected; a column that is not needs no drop")
        if self.select == () and not self.derive:
            raise ValueError("select: is empty; leave it out for all columns")
        if twice := repeated(self.rename.values()):
            raise ValueError(f"rename: two columns become {', '.join(twice)}")
        if len(self.derive) > _MOST_DERIVED:
            raise ValueError(f"derive: has {len(self.derive)} columns; {_MOST_DERIVED} are the most")
        return self
