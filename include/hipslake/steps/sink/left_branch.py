"""What a sink does with a branch that runs before it have left, since an audit was not passed or not made.

It goes on with it: what it sinks comes on top, and the next audit is of all. Where main has changed since the
branch was begun, the branch can never become main. Then it is dropped and begun anew, if the run brings again
all that is lost with it; else the run is refused, and says what to do.
"""

from __future__ import annotations

import logging
from datetime import datetime

from hipslake.errors import PlanError
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.branch_protocol import BranchState
from hipslake.tables.marks import spec_of
from hipslake.tables.protocol import NamedTable

log = logging.getLogger(__name__)

_MOST_NAMED = 20


def take_up_branch(table: NamedTable, spec: TableSpec, start: datetime | None, *, discard: bool) -> str:
    """Look at a branch before rows are sunk into it.

    Parameters
    ----------
    table : NamedTable
        Opened on the branch of the spec.
    spec : TableSpec
    start : datetime, optional
        Of the run's interval, if it has one.
    discard : bool
        Whether whatever is on it is dropped.

    Returns
    -------
    str
        What was found and done, in words; "" if nothing was there.

    Raises
    ------
    PlanError
        There is something of others on it; or main has changed, and the run does not bring again what is on
        it.
    """
    left = table.branch()
    if discard:
        table.drop_branch()
    if left is None:
        return ""
    if discard:
        return f"Branch {left.name} was dropped, with all that was on it: {_named(left)}."
    check_ours(left, spec)
    keys = _named(left)
    if not left.moved:
        return f"Branch {left.name} was left with {keys}: this run goes on with it."
    if not _comes_again(left, spec, start):
        raise PlanError(
            f"table {spec.table}: main has changed since branch {left.name} began at snapshot {left.base}, "
            "so that it cannot simply become main, and this run does not bring again all that is on it "
            f"({keys}). Run it with 'discard_branch', and run these intervals again"
        )
    table.drop_branch()
    return f"Main has changed since branch {left.name} began: it begins anew, and {keys} are sunk again."


def check_ours(left: BranchState, spec: TableSpec) -> None:
    """Look that a branch has sinks of a spec only.

    Raises
    ------
    PlanError
        It has something else.
    """
    if left.others:
        raise PlanError(
            f"table {spec.table}: branch {left.name} has snapshot {left.others[0]}, which this library has "
            "not committed to it; give the branch of the spec another name, or run the DAG with "
            "'discard_branch' to drop it"
        )
    if others := sorted({spec_of(mark.key) for mark in left.sinks} - {spec.name}):
        raise PlanError(
            f"table {spec.table}: branch {left.name} has rows of spec {', '.join(others)}, which the audit "
            f"of {spec.name} is not for; give each spec a branch of its own"
        )


def _comes_again(left: BranchState, spec: TableSpec, start: datetime | None) -> bool:
    """Whether what is lost with a branch is brought again: of a catalog, whatever the table lacks is."""
    if isinstance(spec.source, CatalogRowsSpec):
        return True
    return all(mark.whole or (start is not None and mark.start == start) for mark in left.sinks)


def _named(left: BranchState) -> str:
    keys = list(dict.fromkeys(mark.key for mark in left.sinks))
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return ", ".join(keys[:_MOST_NAMED]) + more
