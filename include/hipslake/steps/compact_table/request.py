"""Compact a table: its small files are brought together, or its rows clustered along a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hipslake.specs.base import Frozen
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.table_place import PlacedTable
from hipslake.steps.report import FirstRequest, Report, Request
from hipslake.steps.run import FrozenStart, RunFolder
from hipslake.storage.plain_json import plain_json

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion

PICTURE = "compact_table/boxes.svg"
"""In the run folder: the bounds of files before and after, on the first two columns."""


class ResolveCompactionRequest(FirstRequest):
    """Start a run of a compaction spec."""

    partitions: str | None = None  # None: as the spec says
    full: bool = False  # also what is clustered already
    dry_run: bool = False  # plan only


class ResolveCompactionReport(Report):
    """What the run froze."""

    step: str = ResolveCompactionRequest.step
    table: str = ""
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders


class CompactTableRequest(Request):
    """Compact a table."""

    step: ClassVar[str] = "compact_table"
    depends_on: ClassVar[str] = "request"

    warehouse: str
    spec: CompactionSpec  # with the overrides of the params
    full: bool = False  # also what is clustered already
    dry_run: bool = False  # plan only


class FrozenCompaction(FrozenStart):
    """Everything that a run of a compaction spec depends on, resolved once by its first step."""

    table: str  # name of the spec
    spec: CompactionSpec  # with the overrides of the params
    spec_file: str
    full: bool = False
    dry_run: bool = False


class FileSizes(Frozen):
    """Files, and their sizes in bytes; as Delta Lake reports them."""

    files: int = 0
    total_bytes: int = 0
    min_bytes: int = 0
    max_bytes: int = 0
    avg_bytes: float = 0.0

    @classmethod
    def of(cls, sizes: list[int]) -> FileSizes:
        """Sum some sizes up."""
        if not sizes:
            return cls()
        return cls(
            files=len(sizes),
            total_bytes=sum(sizes),
            min_bytes=min(sizes),
            max_bytes=max(sizes),
            avg_bytes=sum(sizes) / len(sizes),
        )


class SkippingQuality(Frozen):
    """How well files skip: see `hipslake.clustering.layout_quality.quality`."""

    files: int
    files_touched: float  # mean over seeded box queries
    overlap_depth: float  # mean of boxes that hold a point


class TouchedFiles(Frozen):
    """How many files a query of a tenth of the rows in each of some columns opens, mean over seeded ones."""

    columns: tuple[str, ...]
    mean: float


class KeptClustering(Frozen):
    """What a run of mode liquid has done to keep a table clustered, and what all runs did."""

    columns: tuple[str, ...]
    max_amplification: float
    came_bytes: int  # since the last run that has rewritten files
    most_bytes: int  # that this run might rewrite
    rewritten_bytes: int  # by it
    total_came_bytes: int  # since the table is clustered by these columns
    total_rewritten_bytes: int
    amplification: float  # bytes rewritten per byte that came in, of all runs
    older_bytes: int  # that were clustered otherwise when the table came to be clustered by these columns
    older_rewritten_bytes: int  # on their account
    against_full: float  # files that queries open before, in times of a full clustering's; estimated
    before: tuple[TouchedFiles, ...] = ()  # for each kind of query
    after: tuple[TouchedFiles, ...] = ()


class CompactTableReport(Report):
    """Rows in and out: rows of the files that were rewritten, but for those that are deleted.

    Bytes and files: of those that were written.
    """

    step: str = CompactTableRequest.step
    table: str = ""
    mode: str = ""
    dry_run: bool = False
    version: str = ""  # the last snapshot, or the new folder; "" if there was nothing to do
    commits: int = 0
    partitions: int = 0  # that were rewritten
    rows_deleted: int = 0  # that the files still held, and that delete files had taken away
    bins: int = 0  # groups of files that were rewritten together
    groups_refused: int = 0  # that were not committed, since others had changed their files
    refused: tuple[str, ...] = ()  # what they had changed
    target_bytes: int = 0  # of a file
    files_repartitioned: int = 0  # of older partition specs, whose rows went to partitions of the present one
    files_later: int = 0  # left for later runs, by the bound on what is rewritten in one
    files_considered: int = 0
    files_skipped: int = 0  # left as they are
    removed: FileSizes = FileSizes()
    added: FileSizes = FileSizes()
    expected_files: int = 0  # of the plan
    files_left_out: int = 0  # that lie in the folder, and are hidden or no Parquet files
    left_out: tuple[str, ...] = ()  # the first of them
    manifests_before: int | None = None  # if they were looked at
    manifests_after: int | None = None
    before: SkippingQuality | None = None  # of the files considered
    after: SkippingQuality | None = None
    picture: str = ""  # URI of it
    clustering: KeptClustering | None = None  # of mode liquid
    checksum: str = ""  # of the rows, as a multiset
    text: str = ""

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the new snapshot of an Iceberg table; a folder of files has no versions."""
        from hipslake.steps.committed import table_version

        if not self.version or self.dry_run:
            return None
        # The run is that of a compaction, or of a sink into a table that is kept clustered.
        told = plain_json(RunFolder(run_uri).storage.read(RunFolder.RUN))
        if told["spec"].get("table") is None:
            return None
        spec = told["spec"]
        placed = PlacedTable.model_validate(
            {name: spec[name] for name in ("format", "iceberg", "delta") if name in spec}
        )
        return table_version(placed.place, told["warehouse"], spec["table"])
