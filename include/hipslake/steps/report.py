"""What every request and report shares, and how a step is executed so that it always leaves a report."""

from __future__ import annotations

import argparse
import hashlib
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from pydantic import AwareDatetime, Field

from hipslake import errors
from hipslake.errors import HipslakeError, StepError, VerificationError
from hipslake.specs.base import Frozen
from hipslake.steps.run import RunFolder, now_utc, parse
from hipslake.steps.run_storage import keeping_files
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.storage.small_files import beside

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin

log = logging.getLogger(__name__)

_NOT_IN_SUMMARY = {"ok", "error", "complete", "fingerprint", "finished", "text"}
_BUGS = (TypeError, AttributeError, NameError, ImportError)


class Request(Frozen):
    """The input of a step: the run that it belongs to, and the parameters of the step itself."""

    step: ClassVar[str]
    outputs: ClassVar[tuple[str, ...]] = ()  # what a finished step has left in the run folder
    reusable: ClassVar[bool] = True  # whether a finished attempt may stand for a new one
    depends_on: ClassVar[str] = "inputs"
    """What the outcome depends on: "inputs" (the run and its source files), "run" or "request" alone."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Files that steps before have left in the run folder, and this one always reads: fetched together."""

    run_uri: str

    @property
    def folder(self) -> RunFolder:
        """The run folder."""
        return RunFolder(self.run_uri)

    def fingerprint(self) -> str:
        """Return the digest of all that the outcome depends on."""
        if self.depends_on == "request":
            return self.digest()
        from hipslake.steps.frozen_run import FrozenInputs  # tables have none

        inputs = FrozenInputs.of(self.folder).fingerprint if self.depends_on == "inputs" else ""
        return self._digest_in_run(inputs)

    def _digest_in_run(self, inputs: str = "") -> str:
        """Return the digest of the request, as part of its run."""
        from hipslake.steps.frozen_run import FrozenRun  # tables have none

        write_id = FrozenRun.of(self.folder).write_id
        text = "\n".join([inputs, write_id, self.step, self.model_dump_json(exclude={"run_uri"})])
        return hashlib.sha256(text.encode()).hexdigest()

    def digest(self) -> str:
        """Return the digest of the request alone; when it was made (`created`) does not count."""
        return hashlib.sha256(self.model_dump_json(exclude={"created"}).encode()).hexdigest()


class FirstRequest(Request):
    """Start a run of a spec."""

    step: ClassVar[str] = "resolve"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN,)
    reusable: ClassVar[bool] = False  # a cleared first task reads the spec and its sources again
    depends_on: ClassVar[str] = "request"

    dag_id: str
    run_id: str
    warehouse: str
    spec_file: str


class Failure(Frozen):
    """Why a step failed, and whether the same request may pass when it is tried again."""

    kind: str  # class name of the error
    message: str
    retryable: bool
    trace: str = ""

    @property
    def is_expected(self) -> bool:
        """Whether its message says all there is to know: it is ours, and the same request meets it again."""
        kind = getattr(errors, self.kind, None)
        ours = isinstance(kind, type) and issubclass(kind, HipslakeError)
        return ours and not self.retryable


class Report(Frozen):
    """What a step says it did. Each step has a subclass with fields of its own, all with defaults."""

    step: str
    ok: bool = True
    error: Failure | None = None
    reused: bool = False  # a finished attempt with the same fingerprint was taken over
    complete: bool = True  # nothing is left that another attempt at the same request might do
    rows_in: int = 0
    rows_out: int = 0
    rows_rejected: int = 0
    rows_superseded: int = 0  # by newer rows of the same key
    delete_records: int = 0  # rows of the source that delete the row of their key
    bytes: int = 0
    files: int = 0
    seconds: dict[str, float] = Field(default_factory=dict)  # wall time per phase
    fingerprint: str = ""
    finished: AwareDatetime = Field(default_factory=now_utc)

    def summary(self) -> dict[str, str | int | float | bool | None]:
        """Return the few values that are pushed to XCom: single numbers and words; the rest stays here."""
        values = {name: value for name, value in self if name not in _NOT_IN_SUMMARY}
        short = {name: value for name, value in values.items() if isinstance(value, str | int | float | None)}
        return {**short, "seconds": round(sum(self.seconds.values()), 2)}

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the version that the step has committed, None if it has committed none.

        Parameters
        ----------
        run_uri : str
            The run folder of the step, which went well.

        Raises
        ------
        HipslakeError
            If the version cannot be read, for example because it was vacuumed since.
        """
        return None

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return what the step was made of: source files, catalogs and tables; none where that is not known.

        Parameters
        ----------
        run_uri : str
            The run folder of the step, which went well.
        """
        return ()


class CatalogReport(Report):
    """What a step that commits a version of a catalog says."""

    catalog_uri: str = ""
    version: int | None = None  # that was committed; None: none was
    parent: int | None = None

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the version that was committed."""
        from hipslake.steps.committed import catalog_version

        return None if self.version is None else catalog_version(self.catalog_uri, self.version)

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the version before the one that was committed."""
        from hipslake.steps.committed import Origin

        if self.version is None:
            return ()
        return (Origin(kind="catalog", uri=self.catalog_uri, version=str(self.version - 1)),)


RequestT = TypeVar("RequestT", bound=Request)
ReportT = TypeVar("ReportT", bound=Report)


class Phases:
    """Wall seconds per phase of a step.

    Examples
    --------
    >>> phases = Phases()
    >>> with phases("read"):
    ...     pass
    >>> list(phases.seconds)
    ['read']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time the block under a name; the same name twice adds up."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 4)


def check_balance(report: Report) -> None:
    """Check that no row was lost or made.

    Raises
    ------
    VerificationError
        If rows in differ from rows out + rejected + superseded + records that delete.
    """
    left_out = report.rows_rejected + report.rows_superseded + report.delete_records
    if report.rows_in != report.rows_out + left_out:
        superseded = f", {report.rows_superseded} superseded" if report.rows_superseded else ""
        superseded += f", {report.delete_records} deleted others" if report.delete_records else ""
        raise VerificationError(
            f"step {report.step}: {report.rows_in} rows went in, but {report.rows_out} came out and "
            f"{report.rows_rejected} were rejected{superseded}; nothing is published. Run the step again; "
            "if it happens twice with the same numbers, report it as a bug"
        )


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an error stands for.

    Errors of ours know whether they are retryable. Others (a lost worker, a driver out of memory) count as
    retryable, unless they are plainly bugs.
    """
    retryable = error.retryable if isinstance(error, HipslakeError) else not isinstance(error, _BUGS)
    trace = "".join(traceback.format_exception(error))[-8000:]
    return Failure(kind=type(error).__name__, message=str(error), retryable=retryable, trace=trace)


def is_finished(request: Request, text: bytes | None = None) -> bool:
    """Return whether an attempt at the same request is done.

    Its report counts only if it went well and left nothing undone, its fingerprint is the request's, and its
    outputs still lie there.

    Parameters
    ----------
    request : Request
    text : bytes, optional
        The report, where it was just read.
    """
    storage = request.folder.storage
    if not request.reusable:
        return False
    try:
        report = plain_json(_report_text(request) if text is None else text)
    except (ValueError, FileNotFoundError):
        return False
    if not (isinstance(report, dict) and report.get("ok") and report.get("complete", True)):
        return False
    if report.get("fingerprint") != request.fingerprint():
        return False
    return all(storage.is_file(output) for output in request.outputs)


def _report_text(request: Request) -> bytes:
    return request.folder.storage.read(RunFolder.report_path(request.step))


def finished_report(
    request: Request, report_type: type[ReportT], text: bytes | None = None
) -> ReportT | None:
    """Return the report of a finished attempt at the same request, or None if there is none to take over.

    The report on disk then says that it was reused. Parameters as of `is_finished`.
    """
    if not is_finished(request, text):
        return None
    storage, path = request.folder.storage, RunFolder.report_path(request.step)
    try:
        report = parse(report_type, text or _report_text(request), where=storage.uri(path))
    except StepError:  # another library version wrote it
        return None
    report = report.model_copy(update={"reused": True})
    request.folder.write(path, report)
    return report


def perform(step: Callable[[RequestT], ReportT], request: RequestT, report_type: type[ReportT]) -> ReportT:
    """Run a step in this process, or take over what a finished attempt left; leave its report either way.

    Raises
    ------
    Exception
        What the step raised, after a report of it was written.
    """
    path = RunFolder.report_path(request.step)
    with keeping_files(request.run_uri, request.reads, path if request.reusable else "") as text:
        finished = finished_report(request, report_type, text) if text is not None else None
        if finished is not None:
            log.info("Step %s is done already with the same fingerprint; reusing it.", request.step)
            return finished
        folder = request.folder
        try:
            with beside(folder.storage) as begin:
                begin(lambda: folder.write(RunFolder.request_path(request.step), request))
                report = step(request)
            check_balance(report)
        except Exception as error:
            folder.write(path, Report(step=request.step, ok=False, error=failure_of(error)))
            raise
        report = report.model_copy(update={"fingerprint": request.fingerprint()})
        folder.write(path, report)
        return report


def execute_step(
    step: Callable[[RequestT], Report],
    request_type: type[RequestT],
    *,
    request_uri: str,
    report_uri: str,
    is_wanted: Callable[[RequestT], bool] = lambda _: True,
) -> int:
    """Run a step from its request file and write its report file, also when it fails; return an exit code.

    This is what a Spark job does: the report, not the exit code, tells the operator what happened. A job may
    outlive the task that submitted it. Where another attempt has finished meanwhile, nothing is done again,
    and its report stands.

    Parameters
    ----------
    step : callable
        Takes the request, returns the report.
    request_type : type
        The model of the request file.
    request_uri, report_uri : str
        Where the request lies and where the report goes.
    is_wanted : callable, optional
        Whether anybody still waits for this attempt, by its request. If nobody does, no report is left: it
        would stand for that of another attempt.

    Returns
    -------
    int
        0 if the step went well, 1 if not.
    """
    request = None
    try:
        folder, name = Storage.of_file(request_uri)
        request = parse(request_type, folder.read(name), where=request_uri)
        if is_finished(request):
            log.info("Step %s is done already, by another attempt.", request_type.step)
            return 0
        report = step(request)
        check_balance(report)
        report = report.model_copy(update={"fingerprint": request.fingerprint()})
    except Exception as error:
        failure = failure_of(error)
        if failure.is_expected:  # who asked for the step shows the message, once and last
            log.error("Step %s failed with %s; %s says why.", request_type.step, failure.kind, report_uri)
        else:
            log.exception("Step %s failed.", request_type.step)
        with suppress(Exception):  # the first error is the one to report
            if request is not None and is_finished(request):
                return 1
        report = Report(step=request_type.step, ok=False, error=failure)
    with suppress(Exception):  # a store that does not answer will not take the report either, and says so
        if request is not None and not is_wanted(request):
            log.error("Nobody waits for this attempt at step %s any more.", request_type.step)
            return 1
    folder, name = Storage.of_file(report_uri)
    folder.write(name, (report.model_dump_json(indent=1) + "\n").encode())
    return 0 if report.ok else 1


class JobArguments(NamedTuple):
    """What a job is started with: `--request=URI --report=URI [--attempt=NAME]`."""

    request_uri: str
    report_uri: str
    attempt: str = ""  # as `hipslake.steps.run.SubmittedJob` names it; empty: the task waits for the process


def job_arguments(arguments: Sequence[str] | None = None) -> JobArguments:
    """Return what a job was started with."""
    parser = argparse.ArgumentParser(description="One step of a hipslake run.")
    parser.add_argument("--request", required=True, help="URI of the request (JSON)")
    parser.add_argument("--report", required=True, help="URI that the report is written to (JSON)")
    parser.add_argument(
        "--attempt", default="", help="the name of the attempt, where its driver is not waited for"
    )
    parsed = parser.parse_args(arguments)
    return JobArguments(parsed.request, parsed.report, parsed.attempt)
