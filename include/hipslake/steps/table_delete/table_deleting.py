"""Rows are deleted from the newest version of a table, by one commit.

What was found is right for one version only: where files come meanwhile that may hold such rows, or others
delete rows of a file that is written anew, they are looked for once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, SpecError
from hipslake.specs.table_writing import WriteMode
from hipslake.steps.delete.request import MAX_FRACTION
from hipslake.steps.rows_to_correct import DELETE
from hipslake.steps.sink.cut_files import CutFiles
from hipslake.steps.sink.earlier_sink import write_kept
from hipslake.steps.sink.live_rows import live_rows
from hipslake.steps.sink.position_deletes import merges_on_read, write_deletes
from hipslake.steps.sink.sink_try import RowPositions
from hipslake.steps.table_delete.request import DELETED, TableDeleteOutcome, TableDeletion
from hipslake.steps.table_delete.table_rows_choice import ChosenByFilter, ChosenByKeys, TableRowsChoice
from hipslake.storage.backoff import wait_for_others
from hipslake.tables.new_files import NewFile
from hipslake.tables.protocol import NamedTable, NewDeletes, TableState, TableWrite, WriteChange

log = logging.getLogger(__name__)

TRIES = 30
_ROUNDING = 1e-6  # of a row: 0.29 of 100 rows are 28.999999999999996


def delete_table_rows(
    table: NamedTable,
    name: str,
    choice: TableRowsChoice,
    engine: Engine,
    *,
    write: WriteMode | None = None,
    max_fraction: float = MAX_FRACTION,
    force: bool = False,
    began: Callable[[str], None] = lambda write_id: None,
) -> TableDeleteOutcome:
    """Delete rows of the newest version of a table.

    Parameters
    ----------
    table : NamedTable
    name : str
        Of it, for messages.
    choice : TableRowsChoice
    engine : Engine
    write : WriteMode, optional
        What becomes of files of which rows stay; by default what the table's `write.delete.mode` says,
        copy-on-write if it does not.
    max_fraction : float
        The largest part of the rows that may go, from 0 to 1.
    force : bool
        Let any number go.
    began : callable
        Is told the write id of every attempt, before anything can be committed under it.

    Raises
    ------
    SpecError
        There is no such table; rows are not chosen in exactly one way, or they are more than may go.
    SchemaMismatchError, FilterError, InputError
        As of `TableRowsChoice.of`.
    PlanError
        The table has delete files of a kind that is not read.
    ConflictError
        Others kept changing the table.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    """
    choice.check()
    if not 0 <= max_fraction <= 1:
        raise SpecError(f"max_fraction: {max_fraction} is no part of the rows; give a number from 0 to 1")
    for attempt in range(1, TRIES + 1):
        job = _Deletion(table.existing(), name, choice, engine, write, None if force else max_fraction)
        try:
            return job.run(began)
        except ConflictError:
            if attempt == TRIES:
                raise
            log.info("Table %s: others have changed what was read; looking again (%d).", name, attempt)
            wait_for_others(attempt)
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Deletion:
    """One try of a delete.

    Attributes
    ----------
    state : TableState
        As it is when the try begins.
    name : str
    choice : TableRowsChoice
    engine : Engine
    asked : WriteMode or None
    max_fraction : float or None
        None: any number of rows may go.
    """

    state: TableState
    name: str
    choice: TableRowsChoice
    engine: Engine
    asked: WriteMode | None
    max_fraction: float | None

    def run(self, began: Callable[[str], None]) -> TableDeleteOutcome:
        """Find the rows, and commit their delete; nothing, if there are none."""
        state, engine = self.state, self.engine
        on_read = merges_on_read(state, self.name, self.asked, "delete")
        chosen = self.choice.of(state, self.name)
        found = chosen.find(state, engine)
        total = sum(live_rows(engine, state.files, state.schema))
        cut = CutFiles.of(found.files, found.positions, lambda some: live_rows(engine, some, state.schema))
        rows = cut.rows + sum(live_rows(engine, found.whole, state.schema))
        self._check_number(rows, sum(len(at) for _, at, _ in cut.parts), total)
        if not rows:
            log.info("Table %s: no row is to be deleted.", self.name)
            return TableDeleteOutcome(missing_keys=found.missing_keys, total_rows=total)
        told = TableDeletion(rows=rows, missing_keys=found.missing_keys, chosen=self.choice.text)
        with state.writing() as write:
            began(write.write_id)
            kept, deletes = self._written(write, cut, on_read=on_read)
            removed = [*found.whole, *cut.whole, *([] if on_read else [file for file, _, _ in cut.parts])]
            committed = write.commit(
                WriteChange(kept, removed, deletes, told={DELETED: told.model_dump_json()}),
                lambda now: self._check(
                    now, chosen, {file.path: set(file.stored.deletes) for file in removed}
                ),
            )
        return TableDeleteOutcome(
            snapshot_id=committed.version,
            deleted=rows,
            missing_keys=found.missing_keys,
            total_rows=total,
            files=len(kept),
            delete_files=len(deletes),
            files_removed=len(removed),
            bytes=sum(file.bytes for file in (*kept, *(each.file for each in deletes))),
        )

    def _written(
        self, write: TableWrite, cut: CutFiles, *, on_read: bool
    ) -> tuple[list[NewFile], list[NewDeletes]]:
        """Write what stays of files, or which of their rows go."""
        gone = RowPositions.kept(
            write.work.sub("gone"), {number: at for number, (_, at, _) in enumerate(cut.parts)}
        )
        if on_read:
            files = [file for file, _, _ in cut.parts]
            rows = sum(len(at) for _, at, _ in cut.parts)
            schema = self.state.schema
            return [], write_deletes(self.engine, write.deleter(), schema, files, gone, rows) if files else []
        some = [(file, rest) for file, _, rest in cut.parts]
        fields = self.state.partition if some else ()
        return write_kept(self.engine, write.writer(()), fields, self.name, some, gone), []

    def _check(
        self, now: TableState, chosen: ChosenByKeys | ChosenByFilter, removed: dict[str, set[object]]
    ) -> None:
        """Look that what was found is still all that there is to delete."""
        if now.version == self.state.version:
            return
        seen = {file.path for file in self.state.files}
        came = chosen.may_be_in([file for file in now.files if file.path not in seen], now)
        deleted = [
            file.path
            for file in now.files
            if file.path in removed and set(file.stored.deletes) - removed[file.path]
        ]
        if came or deleted:
            raise ConflictError(
                f"table {self.name}: {len(came)} files that came meanwhile may hold rows to be deleted, and "
                f"others have deleted rows of {len(deleted)} files that were read"
            )

    def _check_number(self, rows: int, named: int, total: int) -> None:
        if named > DELETE.most:
            raise SpecError(
                f"{named} rows of table {self.name} would be deleted from files of which others stay, and "
                f"one delete takes {DELETE.most} at most; choose them in parts"
            )
        if self.max_fraction is None:
            return
        most = int(self.max_fraction * total + _ROUNDING)
        if rows > most:
            raise SpecError(
                f"{rows} of the {total} rows of table {self.name} would be deleted, and max_fraction lets "
                f"{most} pass; nothing is changed. Choose fewer rows, raise max_fraction, or give force"
            )
