"""The audit step of a run: what stands on the branch is held to the spec, and becomes main if it passes."""

from __future__ import annotations

import logging
from contextlib import closing

from hipslake.errors import AuditError, ConflictError, PlanError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.audit.branch_checks import BranchRows, column_checks
from hipslake.steps.audit.request import AUDITED, Audited, AuditedCheck, AuditReport, AuditRequest
from hipslake.steps.audit.sql_check import sql_check
from hipslake.steps.report import Phases
from hipslake.steps.sink.left_branch import check_ours
from hipslake.tables.branch_protocol import BranchState
from hipslake.tables.opening import open_table
from hipslake.tables.protocol import NamedTable, TableState

log = logging.getLogger(__name__)


def run(request: AuditRequest) -> AuditReport:
    """Audit the branch of a run's table, and publish it.

    Run again after it was killed between the commit and its report, it finds what it has published.

    Raises
    ------
    AuditError
        A check is not passed. The branch stays as it is, and so does main.
    PlanError
        Main has changed since the branch was begun; or others have committed to the branch.
    ConflictError
        It was changed meanwhile; or others kept changing the table.
    SpecError, SchemaMismatchError
        The checks do not fit to the table, or a tag is of something else.
    CommitStateUnknownError
        The catalog does not say whether the branch is published.
    StorageError
        Catalog or store do not answer.
    """
    spec, warehouse, phases = request.frozen().spec, request.frozen().warehouse, Phases()
    assert spec.branch is not None, "only runs of a branch have an audit"
    with closing(open_table(spec.place, warehouse, spec.table, spec.branch)) as table:
        left = table.branch()
        if left is None:
            return _published_before(request, spec, table)
        _check_fast_forward(spec, left)
        state = table.existing()
        if state.version != left.head:
            raise ConflictError(f"table {spec.table}: branch {spec.branch} was changed meanwhile; try again")
        came, whole = _rows(state, left)
        with phases("check"):
            checks = _checked(spec, came, whole)
        rows = {mark.key: mark.rows for mark in left.sinks}
        audited = Audited(
            branch=left.name,
            head=left.head,
            base=left.base,
            sinks=tuple(rows),
            rows=sum(rows.values()),
            checks=tuple(checks),
        )
        failed = [each for each in checks if not each.ok]
        request.folder.write(AUDITED, audited.model_copy(update={"published": not failed}))
        if failed:
            raise AuditError(_told_failure(spec, audited, failed))
        with phases("publish"):
            table.publish(left.head, lambda mark: spec.tag_of(mark.start, mark.end))
        log.info("Table %s: branch %s is published.", spec.table, spec.branch)
        return _report(spec, state.location, audited, phases)


def _check_fast_forward(spec: TableSpec, left: BranchState) -> None:
    check_ours(left, spec)
    if left.moved:
        raise PlanError(
            f"table {spec.table}: main has changed since branch {left.name} began at snapshot {left.base}, "
            "so that it cannot simply become main; run the DAG again: its first task begins the branch anew"
        )


def _rows(state: TableState, left: BranchState) -> tuple[BranchRows, BranchRows]:
    """The rows of data files that main lacks, and all."""
    before = set() if left.base is None else {file.path for file in state.at(left.base).files}
    came = [file for file in state.files if file.path not in before]
    return BranchRows(came, state.schema), BranchRows(state.files, state.schema)


def _checked(spec: TableSpec, came: BranchRows, whole: BranchRows) -> list[AuditedCheck]:
    assert spec.audit is not None, "a spec with a branch has an audit"
    checks = column_checks(spec.audit, came if spec.audit.over == "came" else whole)
    if spec.audit.sql is not None:
        checks.append(sql_check(spec.audit.sql, {"came": came, "branch": whole}))
    return checks


def _published_before(request: AuditRequest, spec: TableSpec, table: NamedTable) -> AuditReport:
    """What an attempt has done that was killed after its commit; else there is nothing on the branch."""
    storage = request.folder.storage
    state = table.now()
    if state is not None and storage.is_file(AUDITED):
        audited = request.folder.read(AUDITED, Audited)
        if audited.published and table.is_published(audited.head):
            return _report(spec, state.location, audited, Phases())
    return AuditReport(
        table=spec.table, branch=spec.branch or "", text=f"Nothing waits on branch {spec.branch}."
    )


def _report(spec: TableSpec, location: str, audited: Audited, phases: Phases) -> AuditReport:
    lines = [f"Branch {audited.branch} of table {spec.table} is published: {', '.join(audited.sinks)}."]
    return AuditReport(
        table=spec.table,
        location=location,
        branch=audited.branch,
        snapshot_id=audited.head,
        sinks=audited.sinks,
        sinks_count=len(audited.sinks),
        checks=audited.checks,
        checks_passed=sum(each.ok for each in audited.checks),
        rows_in=audited.rows,
        rows_out=audited.rows,
        text="\n".join([*lines, *map(_line, audited.checks)]),
        seconds=phases.seconds,
    )


def _told_failure(spec: TableSpec, audited: Audited, failed: list[AuditedCheck]) -> str:
    return "\n".join(
        [
            f"table {spec.table}: {len(failed)} of {len(audited.checks)} checks of the audit are not passed, "
            f"so branch {audited.branch} is not published; readers see what they saw.",
            *map(_line, failed),
            f"On the branch are: {', '.join(audited.sinks)}. Mend the rows in the source and run the DAG "
            "again: what has changed is sunk anew, and all of the branch is audited again. Or set "
            "'discard_branch', and all that is on it is dropped.",
        ]
    )


def _line(check: AuditedCheck) -> str:
    said = f": {check.found}" if check.found else ""
    return f"{'passed' if check.ok else 'NOT PASSED'}: {check.check}{said}"
