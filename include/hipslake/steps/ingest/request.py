"""Requests and reports of the steps of an ingest: resolve, inputs, histogram, plan, write, publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from hipslake.engine.model import MAX_BLOCK_BYTES
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.report import CatalogReport, FirstRequest, Report, Request
from hipslake.steps.run import RunFolder, Window

if TYPE_CHECKING:
    from hipslake.steps.committed import Origin


DEFAULT_TARGET_BYTES = 128 << 20
"""How many bytes one reduce task writes."""


class CatalogRunRequest(FirstRequest):
    """Start a run that makes a catalog."""

    threshold: str | None = None  # overrides the spec's
    force: bool = False  # build a version even if the newest one was made of the same input


class ResolveRequest(CatalogRunRequest):
    """Start a run of a catalog spec."""

    spec: CatalogSpec | None = None  # handed over by a program, in place of what `spec_file` says
    layout: str | None = None  # overrides the spec's
    wait_minutes: float = 60.0
    window: Window = Window()


class ResolveReport(Report):
    """What the run froze, and what earlier runs had left behind."""

    step: str = ResolveRequest.step
    catalog: str = ""
    write_id: str = ""
    version: int | None = None  # the newest published version when the run began
    swept: tuple[str, ...] = ()  # folders of dead runs that were removed


class InputsRequest(Request):
    """List the source files of a run."""

    step: ClassVar[str] = "inputs"
    reads: ClassVar[tuple[str, ...]] = (RunFolder.RUN,)
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.FILES,)
    reusable: ClassVar[bool] = False  # the list may have changed

    files: tuple[str, ...] = ()  # URIs or globs that take the place of the spec's source.uri
    content: str | None = None  # digest of the rows, where a program has put them into these files

    def fingerprint(self) -> str:
        """Return the fingerprint of the run, once it is frozen."""
        return FrozenInputs.of(self.folder).fingerprint


class InputsReport(Report):
    """The files found, and the version that was already made of exactly them."""

    step: str = InputsRequest.step
    run_fingerprint: str = ""
    unchanged_version: int | None = None  # not None: there is nothing to do
    empty: bool = False  # an interval without files, which the spec lets pass
    passed_over: tuple[str, ...] = ()  # the first of what matches the URI and is not read
    passed_over_count: int = 0


class RowBytes(Frozen):
    """How many bytes a row of a column group takes, estimated by encoding a few rows as a write does."""

    rows: int  # of the sample
    disk: float  # bytes per row in a leaf file
    memory: float  # bytes per row as Arrow columns
    footer: int  # bytes of a leaf file beside its rows


class HistogramRequest(Request):
    """Count the frozen files of a run."""

    step: ClassVar[str] = "histogram"
    reads: ClassVar[tuple[str, ...]] = (RunFolder.RUN, RunFolder.FILES)
    outputs: ClassVar[tuple[str, ...]] = (
        RunFolder.SPLITS,
        RunFolder.HISTOGRAM,
        RunFolder.PER_ORDER,
        RunFolder.SCHEMA,
    )

    split_target_bytes: int = Field(default=256 << 20, ge=1)  # decoded bytes that one task reads
    max_examples: int = Field(default=5, ge=1)  # bad rows that an error or a report shows
    keep_rows: bool = True  # for the write step, where all is done on one machine


class HistogramReport(Report):
    """Rows in: every row of the files. Rows out: those that have a place, and no newer one of their key."""

    step: str = HistogramRequest.step
    splits: int = 0
    cells: int = 0  # occupied pixels of the histogram
    highest_order: int = 0  # of a cell: the mapping order, or deeper where pixels were crowded
    crowded: dict[int, int] = Field(default_factory=dict)  # order -> cells that were counted deeper
    rejected: dict[str, int] = Field(default_factory=dict)  # reason -> rows
    unmatched: int = 0  # rows with an id of no object, which lie at their own positions
    examples: tuple[str, ...] = ()  # the first bad rows: file, row, values
    group_bytes: dict[str, int] = Field(default_factory=dict)  # estimated bytes on disk per column group
    row_bytes: dict[str, RowBytes] = Field(default_factory=dict)  # per column group
    keeps_rows: bool = False  # for the write step, which then reads the files no more


class PlanRequest(Request):
    """Plan the leaves of a counted run."""

    step: ClassVar[str] = "plan"
    reads: ClassVar[tuple[str, ...]] = (
        RunFolder.RUN,
        RunFolder.FILES,
        RunFolder.report_path("histogram"),
        RunFolder.PER_ORDER,
        RunFolder.SCHEMA,
    )
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.PLAN, RunFolder.PLAN_SUMMARY)


class PlanReport(Report):
    """Rows in: the rows of the histogram. Rows out: the rows of the leaves, the same for every group."""

    step: str = PlanRequest.step
    leaves: dict[str, int] = Field(default_factory=dict)  # column group -> leaves
    per_order: dict[str, dict[int, int]] = Field(default_factory=dict)  # column group -> order -> leaves
    text: str = ""  # the same for people


class WriteRequest(Request):
    """Write the planned leaves of a run into its write folder."""

    step: ClassVar[str] = "write"
    reads: ClassVar[tuple[str, ...]] = (
        RunFolder.RUN,
        RunFolder.FILES,
        RunFolder.report_path("histogram"),
        RunFolder.SCHEMA,
        RunFolder.PLAN,
        RunFolder.SPLITS,
    )
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.PARTITIONS,)

    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # what one reduce task writes
    block_bytes: int = Field(default=16 << 20, ge=1, le=MAX_BLOCK_BYTES)  # a block of the exchange


class WriteReport(Report):
    """Rows in: every row of the files. Rows out: the rows of one column group, the same in each.

    `write/partitions.parquet` in the run folder lists the leaf files, one row each, in curve order per group:
    group, order, npix, path (relative to the catalog root), rows, bytes, sha256.
    """

    step: str = WriteRequest.step
    partitions: dict[str, int] = Field(default_factory=dict)  # column group -> leaf files
    group_bytes: dict[str, int] = Field(default_factory=dict)  # column group -> bytes on disk
    split_again: int = 0  # leaves that came out over a threshold in bytes and were split
    rejected: dict[str, int] = Field(default_factory=dict)  # reason -> rows
    rejects_path: str | None = None  # folder of the rejected rows, relative to the catalog root
    tasks: int = 0  # reduce tasks
    rows_near_borders: int | None = None  # of a match without a margin: left rows that may lack partners
    base_version: int | None = None  # of the catalog: whose leaf files are named again, where they stay
    full_because: str | None = None  # of a join: why nothing of an earlier version stays
    own_bytes: int | None = None  # of the files that the run wrote, where others are named again; None: all


class IngestedReport(CatalogReport):
    """What a step says that publishes the rows of a run."""

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the source files of the run, or the sides of its join."""
        from hipslake.steps.committed import origins_of_run

        return origins_of_run(run_uri)


DRAFTED_FROM = (
    RunFolder.RUN,
    RunFolder.FILES,
    *(RunFolder.report_path(name) for name in ("histogram", "write")),
    RunFolder.SCHEMA,
    RunFolder.PARTITIONS,
    RunFolder.SPLITS,
    RunFolder.PER_ORDER,
)
"""The files in the run folder that the version of a run is made of, before it is published."""


class PublishRequest(Request):
    """Publish a verified run."""

    step: ClassVar[str] = "publish"
    reads: ClassVar[tuple[str, ...]] = (
        *DRAFTED_FROM,
        RunFolder.report_path("verify"),
        RunFolder.ENDS,
    )


class PublishReport(IngestedReport):
    """Rows in and out: the rows of the version."""

    step: str = PublishRequest.step
    skymaps: tuple[str, ...] = ()
