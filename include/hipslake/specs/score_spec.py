"""A score of candidate pairs: a Python function that says which right row is the most likely partner."""

from __future__ import annotations

from pydantic import Field

from hipslake.specs.base import Column, ColumnNames, Frozen


class ScoreSpec(Frozen):
    """The function that scores the candidates of a cross-match, and what it is given."""

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")  # module:function
    left: ColumnNames = ()  # columns of either side that it is given
    right: ColumnNames = ()
    parameters: dict[str, float | bool | str | tuple[float, ...]] = Field(default_factory=dict)
    minimum: float | None = None  # a candidate that scores less is none
    name: Column | None = None  # of the column that is added; None: see `column`

    @property
    def column(self) -> str:
        """The name of the column, to which a further right side without a `name` adds that of its catalog."""
        return self.name or "score"
