"""Rows of column groups as the rows of a catalog: side by side by `_row`, and cut to what is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import RegionCut, Selection
from hipslake.errors import VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.storage.folder import Storage


def one_table(leaves: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """Files of one group together; older ones may have columns of which newer ones also hold nulls."""
    common = pa.schema([schema.field(name) for name in leaves[0].schema.names])
    return pa.concat_tables([leaf.cast(common) for leaf in leaves])


def joined_groups(
    storage: Storage, paths: Mapping[str, Sequence[str]], tables: Mapping[str, pa.Table | None]
) -> pa.Table | None:
    """One table with the columns of all groups, whose rows are the same in the same order; None: no rows.

    A group whose leaves are finer has no leaf, and so no table, where there is no row.

    Parameters
    ----------
    storage : Storage
    paths : mapping of str to sequence of str
        The files of each group, for the error.
    tables : mapping of str to pyarrow.Table or None
        The rows of each group.

    Raises
    ------
    VerificationError
        The groups do not hold the same rows.
    """
    missing = any(table is None for table in tables.values())
    if missing and not any(table is not None and table.num_rows for table in tables.values()):
        return None
    first, *others = tables
    joined = tables[first]
    for other in others:
        table = tables[other]
        found = None if joined is None or table is None else side_by_side(joined, table)
        if found is None:
            where = [*paths[first][:1], *paths[other][:1]]
            raise VerificationError(
                f"{storage.uri()}: groups {first!r} and {other!r} do not hold the same rows around "
                f"{' and '.join(where)}; Catalog.verify() tells more"
            )
        joined = found
    return joined


def side_by_side(rows: pa.Table, others: pa.Table) -> pa.Table | None:
    """Columns of two groups side by side; None if, by `_row`, they do not hold the same rows so."""
    if not rows[ROW_COLUMN].equals(others[ROW_COLUMN]):
        return None
    for name in others.column_names:
        if name not in rows.column_names:
            rows = rows.append_column(others.schema.field(name), others[name])
    return rows


def selected(rows: pa.Table, selection: Selection, cut: RegionCut | None, *, filtered: bool) -> pa.Table:
    """The rows and columns of a selection, of rows with all that it needs.

    Parameters
    ----------
    rows : pyarrow.Table
    selection : Selection
    cut : RegionCut or None
        What is left to be looked at of its region.
    filtered : bool
        Whether all of them pass its filter.
    """
    if cut is not None:
        rows = cut.inside(rows)
    if selection.filter is not None and not filtered:
        rows = passing(selection.filter, rows)
    return rows.select(selection.schema.names)
