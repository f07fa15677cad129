"""How a table changes so that rows and spec fit to it, whatever its format."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

import pyarrow as pa

from hipslake.specs.table_spec import TableSpec


class EvolutionKind(StrEnum):
    """What is changed of a table. No change rewrites a file."""

    ADD = "add"  # columns, and parts of nested ones; all may hold nulls
    RENAME = "rename"  # columns, where the spec says so
    WIDEN = "widen"  # types: int into long, float into double, decimals of more digits
    PARTITION = "partition"  # of what is to come
    SORT = "sort"  # of what is to come
    CLUSTER = "cluster"  # of what is to come, and of what is there in steps


class TableAlteration(NamedTuple):
    """One change of a table, planned or made.

    Attributes
    ----------
    kind : EvolutionKind
    column : str
        As it is called before; "" of what is of the whole table.
    text : str
        In words.
    """

    kind: EvolutionKind
    column: str
    text: str


class EvolvingTable(Protocol):
    """A table that can be changed, without a write of rows."""

    def evolve(
        self, spec: TableSpec, stored: pa.Schema | None, *, dry_run: bool = True
    ) -> tuple[TableAlteration, ...]:
        """Change the table, by one commit, so that a spec and rows fit to it; return what is changed.

        Parameters
        ----------
        spec : TableSpec
            All is done that it asks for, whatever `evolve` says.
        stored : pyarrow.Schema, optional
            The columns of the rows, as a table keeps them; None: they are not known.
        dry_run : bool
            Only say what would be changed.

        Raises
        ------
        SpecError
            There is no such table.
        SchemaMismatchError
            It cannot be changed so.
        """
