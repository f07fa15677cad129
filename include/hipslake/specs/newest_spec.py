"""Which row of a key stays, where a run brings several."""

from __future__ import annotations

from pydantic import model_validator

from hipslake.specs.base import Column, ColumnNames, Frozen, repeated


class NewestSpec(Frozen):
    """Of the rows of a run that have the same key, the last one by a column stays.

    Attributes
    ----------
    key : tuple of str
        Columns of the source. A row with a null among them stands alone: it stays, and replaces none.
    order : str
        Column of the source. A null, or NaN, is before every value.
    """

    key: ColumnNames
    order: Column

    @model_validator(mode="after")
    def _columns_differ(self) -> NewestSpec:
        if not self.key:
            raise ValueError("key: is empty; name the columns that tell which rows are of one object")
        if twice := repeated(self.key):
            raise ValueError(f"key: {', '.join(twice)} stands twice")
        if self.order in self.key:
            raise ValueError(
                f"order: {self.order} is part of the key, so that rows of a key do not differ in it; name "
                "another column"
            )
        return self

    def __str__(self) -> str:
        return f"the newest by {self.order} of each {', '.join(self.key)}"
