"""The delete step of a table: rows go, as the form of a run has chosen them. A run of one step."""

from __future__ import annotations

import json
import logging
from contextlib import closing

from hipslake.engine.this_process import ThisProcess
from hipslake.steps.keys_file import keys_of
from hipslake.steps.report import Phases
from hipslake.steps.table_delete.request import (
    DELETED,
    WRITES,
    DeleteTableRowsReport,
    DeleteTableRowsRequest,
    TableDeleteOutcome,
    TableDeletion,
)
from hipslake.steps.table_delete.table_deleting import delete_table_rows
from hipslake.steps.table_delete.table_rows_choice import TableRowsChoice
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.storage.plain_json import plain_json
from hipslake.tables.opening import open_table
from hipslake.tables.protocol import TableState

log = logging.getLogger(__name__)


def run(request: DeleteTableRowsRequest) -> DeleteTableRowsReport:
    """Delete rows of the newest version of a table.

    Run again after it was killed between the commit and its report, it finds what it has committed.

    Raises
    ------
    SourceNotFoundError, CorruptFileError
        The file of keys is not there, or cannot be read.
    HipslakeError
        As of `delete_table_rows`; the table is as it was.
    """
    phases, storage = Phases(), request.folder.storage
    tried = [str(each) for each in plain_json(storage.read(WRITES))] if storage.is_file(WRITES) else []

    def began(write_id: str) -> None:
        tried.append(write_id)
        storage.write(WRITES, json.dumps(tried).encode())

    with closing(open_table(request.place, request.warehouse, request.table)) as table:
        state = table.existing()
        for path in table.sweep():
            log.info("Table %s: removed %s, which a dead write had left.", request.table, path)
        outcome = _committed_before(state, tried)
        if outcome is None:
            choice = TableRowsChoice(keys_of(request.keys, request.keys_file), request.filters, request.key)
            with phases("delete"):
                outcome = delete_table_rows(
                    table,
                    request.table,
                    choice,
                    ThisProcess(),
                    write=request.write,
                    max_fraction=request.max_fraction,
                    force=request.force,
                    began=began,
                )
    storage.delete(WRITES)
    with phases("runs"):
        remove_old_runs_of_dag(request.run_uri)
    return DeleteTableRowsReport(
        table=request.table,
        location=state.location,
        format=request.format,
        iceberg=request.iceberg,
        delta=request.delta,
        warehouse=request.warehouse,
        rows_in=outcome.total_rows,
        rows_out=outcome.total_rows - outcome.deleted,
        rows_rejected=outcome.deleted,
        **outcome.model_dump(exclude={"total_rows"}),
        seconds=phases.seconds,
    )


def _committed_before(state: TableState, tried: list[str]) -> TableDeleteOutcome | None:
    """What an attempt has done that was killed after its commit, as far as its version tells."""
    committed = state.made_by(tried)
    if committed is None or DELETED not in committed.told:
        return None
    told = TableDeletion.model_validate_json(committed.told[DELETED])
    return TableDeleteOutcome(
        snapshot_id=committed.version, deleted=told.rows, missing_keys=told.missing_keys, total_rows=told.rows
    )
