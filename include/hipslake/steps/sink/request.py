"""Sink: the rows of a run go into an Iceberg table. The request, the report, and what a run froze of it.

The work is in `hipslake.steps.sink.run`, upon `hipslake.steps.sink.sink_table`. A run has one order for each
interval that it sinks, in the order of time; each is a commit of its own, and one that stands already is left
alone. So a run that died is taken up where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import AwareDatetime, Field

from hipslake.specs.base import Frozen
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.report import FirstRequest, Report, Request
from hipslake.steps.run import FrozenStart, RunFolder, Window, fingerprint_of
from hipslake.tables.sink_order import SinkOrder, VersionRows

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin

ORDERS = RunFolder.ORDERS
"""What a run sinks, in the run folder."""


def files_of(spec: TableSpec, window: Window) -> SourceSpec:
    """The files of a run, with the window put into their URI; only of a spec that sinks files."""
    assert isinstance(spec.source, FileRowsSpec)
    files = spec.source.files
    if not spec.needs_interval or window.start is None:
        return files
    return files.of_interval(window.start, window.end)


class FrozenSink(FrozenStart):
    """Everything that a run of a table spec depends on, resolved once; what it sinks is in `FrozenOrders`."""

    table: str  # name of the spec
    spec: TableSpec
    spec_file: str
    write_id: str  # of the run
    window: Window = Window()
    wait_minutes: float = 60.0
    allow_empty: bool = False  # an interval may have no files: it is then empty
    force: bool = False

    @property
    def source(self) -> SourceSpec:
        """The files of the run, as of `files_of`."""
        return files_of(self.spec, self.window)


class FrozenOrders(Frozen):
    """What a run sinks: one order per interval, in the order of time; none: there is nothing to do."""

    orders: tuple[SinkOrder, ...] = ()
    why_none: str = ""
    total_bytes: int = 0  # about: of what is sunk
    fingerprint: str

    @classmethod
    def of(
        cls, orders: Sequence[SinkOrder], *, library_version: str, total_bytes: int = 0, why_none: str = ""
    ) -> FrozenOrders:
        """Freeze orders, with the fingerprint that they give."""
        return cls(
            orders=tuple(orders),
            why_none=why_none,
            total_bytes=total_bytes,
            fingerprint=fingerprint_of([library_version, *(order.fingerprint for order in orders)]),
        )


class ResolveSinkRequest(FirstRequest):
    """Start a run of a table spec."""

    window: Window = Window()
    wait_minutes: float = 60.0
    allow_empty: bool = False
    force: bool = False
    discard_branch: bool = False  # drop what an audit has left on the branch


class ResolveSinkReport(Report):
    """What the run froze."""

    step: str = ResolveSinkRequest.step
    table: str = ""
    write_id: str = ""
    version: int | None = None  # of the catalog that rows are taken from
    intervals: int = 0  # to be sunk; of files, that is not known yet
    nothing: str = ""  # why there is nothing to do
    text: str = ""  # what an audit has left on the branch, and what became of it
    swept: tuple[str, ...] = ()  # of dead writes of the table, relative to its location
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders


class SinkFilesRequest(Request):
    """List the files of a run of a table spec."""

    step: ClassVar[str] = "inputs"
    outputs: ClassVar[tuple[str, ...]] = (ORDERS,)
    reusable: ClassVar[bool] = False  # the list may have changed

    def fingerprint(self) -> str:
        """Return the fingerprint of what the run sinks, once it is frozen."""
        return self.folder.read(ORDERS, FrozenOrders).fingerprint


class SinkFilesReport(Report):
    """The files found."""

    step: str = SinkFilesRequest.step
    empty: bool = False  # an interval without files
    nothing: str = ""  # why there is nothing to do
    passed_over: tuple[str, ...] = ()  # the first of what matches the URI and is not read
    passed_over_count: int = 0


class SinkRequest(Request):
    """Sink what a run froze."""

    step: ClassVar[str] = "sink"
    outputs: ClassVar[tuple[str, ...]] = (ORDERS,)

    def frozen(self) -> FrozenSink:
        """Return what the run froze at its start."""
        return self.folder.read(RunFolder.RUN, FrozenSink)

    def orders(self) -> FrozenOrders:
        """Return what the run sinks."""
        return self.folder.read(ORDERS, FrozenOrders)

    def fingerprint(self) -> str:
        """Return the digest of all that the outcome depends on."""
        text = "\n".join([self.orders().fingerprint, self.frozen().write_id, self.step])
        return hashlib.sha256(text.encode()).hexdigest()


class SunkInterval(Frozen):
    """One commit of a sink, or that there was none to make."""

    key: str  # what the rows are of
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    skipped: bool = False  # these very rows were in the table already
    snapshot_id: int | None = None  # that has the rows
    rows: int = 0  # that are in the table now
    rows_left_out: int = 0  # of the source, since another row of the same key came later
    rows_updated: int = 0  # of the table, that were replaced
    rows_deleted: int = 0  # of the table, that records of change data have deleted
    missing_deletes: int = 0  # such records that found no row
    outdated: int = 0  # keys whose last record is older than their row of the table
    rows_rewritten: int = 0  # that lay in the same files, and stayed as they were
    case: int = 0  # of the shuffle plan
    plan: str = ""  # in words
    expected_files: int = 0
    files_added: int = 0
    files_removed: int = 0
    delete_files: int = 0  # added: they say which rows of data files are gone
    bytes: int = 0  # of the files added, those of deletes too
    attempts: int = 0  # at the commit
    ndv: dict[str, int] = Field(default_factory=dict)  # by column, how many distinct values the table has now


class RefusedInterval(Frozen):
    """An interval that did not come into the table, though others of its run may have."""

    key: str
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    kind: str = ""  # class name of the error; "": it was not tried, since one before it was refused
    message: str = ""


class SinkReport(Report):
    """Rows in: of the source. Rows out: those that the table has now. Rejected: those whose place another row
    of the same key took. Files and bytes: those that were added.
    """

    step: str = SinkRequest.step
    table: str = ""  # namespace.table
    location: str = ""
    snapshot_id: int | None = None  # the last one of these rows; None: there was nothing to do
    rows_in_table: int = 0  # of these intervals, also of those that an earlier attempt has sunk
    created: bool = False  # the table
    columns_added: str = ""
    changes: tuple[str, ...] = ()  # of the table, so that the rows fit; in words
    commits: int = 0
    expected_files: int = 0
    files_removed: int = 0
    delete_files: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    missing_deletes: int = 0
    outdated: int = 0
    rows_rewritten: int = 0
    intervals: tuple[SunkInterval, ...] = ()
    refused: tuple[RefusedInterval, ...] = ()
    refusals: int = 0
    swept: tuple[str, ...] = ()  # of dead writes of the table, relative to its location
    text: str = ""  # in words: the plans, and what was refused

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the newest snapshot of the table, if the run has sunk anything that readers see."""
        from hipslake.steps.committed import table_version

        if self.snapshot_id is None:
            return None
        frozen = SinkRequest(run_uri=run_uri).frozen()
        if frozen.spec.branch is not None:
            return None  # the audit publishes it
        return table_version(frozen.spec.place, frozen.warehouse, frozen.spec.table)

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the catalog or the files that the rows were taken from."""
        return origins_of_orders(SinkRequest(run_uri=run_uri).orders().orders)


def origins_of_orders(orders: Sequence[SinkOrder]) -> tuple[Origin, ...]:
    """Return the catalogs or the files that the rows of orders are taken from."""
    from hipslake.steps.committed import Origin, origins_of_files

    found: list[Origin] = []
    for order in orders:
        if isinstance(order.rows, VersionRows):
            found.append(Origin(kind="catalog", uri=order.rows.uri, version=str(order.rows.version)))
        else:
            found += origins_of_files(order.rows.files)
    return tuple(dict.fromkeys(found))


def describe_landed(landed: Sequence[SunkInterval]) -> str:
    """The plan of each interval that is in the table, in words."""
    return "\n".join(
        f"{each.key}: these rows are in the table already." if each.skipped else f"{each.key}: {each.plan}"
        for each in landed
    )


def describe_refused(landed: Sequence[SunkInterval], refused: Sequence[RefusedInterval]) -> str:
    """Which intervals of a run are not in the table, why, and what to do next."""
    lines = [
        f"Of {len(landed) + len(refused)} intervals, {len(landed)} are in the table, and these are not: "
        f"{', '.join(each.key for each in refused)}."
    ]
    lines += [f"{each.key}: {each.kind}: {each.message}" for each in refused if each.kind]
    if any(not each.kind for each in refused):
        lines.append("In mode upsert those behind a refused one wait, since the later has the last word.")
    lines.append("Mend the rows in the catalog, or the spec; the next run sinks whatever is missing.")
    return "\n".join(lines)
