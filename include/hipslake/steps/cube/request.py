"""Requests and reports of the steps of cubes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import AwareDatetime, Field

from hipslake.cube.store.dataset_metadata import DatasetDifference
from hipslake.cube.store.metadata import CubeDatasetMetadata
from hipslake.cube.store.spec_changes import BuildMode
from hipslake.cube.store.upkeep import DatasetStats
from hipslake.errors import SpecError
from hipslake.predicates.condition_text import MAX_LENGTH
from hipslake.specs.base import Frozen
from hipslake.specs.export_formats import ExportFormat
from hipslake.steps.cube.cube_place import changed_root, cube_root
from hipslake.steps.cube.frozen_cube import FrozenCube
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.ingest.request import CatalogRunRequest
from hipslake.steps.report import FirstRequest, Report, Request
from hipslake.steps.run import RunFolder, now_utc
from hipslake.steps.upkeep.request import RetentionReport, RetentionRequest
from hipslake.storage.addresses import is_below
from hipslake.storage.folder import Storage

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin


def totals_of(datasets: Iterable[DatasetStats | CubeDatasetMetadata]) -> dict[str, Any]:
    """The rows, files and bytes of some datasets together, as fields of a report."""
    totals = {"rows": 0, "files": 0, "bytes": 0}
    for dataset in datasets:
        for name in totals:
            totals[name] += getattr(dataset, name)
    rows = totals.pop("rows")
    return {"rows_in": rows, "rows_out": rows, **totals}


class CubeRequest(Request):
    """What is done to a cube; the request holds all that is needed."""

    depends_on: ClassVar[str] = "request"
    reusable: ClassVar[bool] = False  # what there is to do and to tell changes by the hour

    warehouse: str
    cube: str = Field(min_length=1, max_length=2000)  # of the warehouse by name, or a URI
    created: AwareDatetime = Field(default_factory=now_utc)  # ages are counted up to then

    @property
    def root(self) -> Storage:
        """The storage at the cube's root."""
        return cube_root(self.warehouse, self.cube)


class CubeReport(Report):
    """What a step that made a version of a cube says of it. Rows, files and bytes are those of the step."""

    cube: str = ""
    cube_uri: str = ""
    version: int | None = None  # None: there was nothing to do
    parent: int | None = None
    rows_of_cube: int = 0  # cells of the seed, in that version
    text: str = ""

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the version of the cube that was committed."""
        from hipslake.steps.committed import cube_version

        return None if self.version is None else cube_version(self.cube_uri, self.version)


class ResolveCubeRequest(FirstRequest):
    """Start a run of a cube spec."""

    mode: BuildMode = BuildMode.ALIGN
    datasets: tuple[str, ...] = ()  # those that the mode is about; none: all
    overwrite: bool = False
    force: bool = False


class ResolveCubeReport(Report):
    """What the run froze. Bytes: those that it will read, about."""

    step: str = ResolveCubeRequest.step
    cube: str = ""
    mode: str = ""
    nothing: str = ""  # why there is nothing to do
    swept: tuple[str, ...] = ()  # of dead writes of the cube, relative to its root
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders


class BuildCubeRequest(Request):
    """Make the version of a cube that a run has frozen."""

    step: ClassVar[str] = "build"

    def frozen(self) -> FrozenCube:
        """Return what the run froze at its start."""
        return self.folder.read(RunFolder.RUN, FrozenCube)

    def fingerprint(self) -> str:
        """Return the digest of all that the outcome depends on."""
        frozen = self.frozen()
        text = "\n".join([frozen.library_version, frozen.write_id, self.step])
        return hashlib.sha256(text.encode()).hexdigest()


class BuildCubeReport(CubeReport):
    """Rows in and out, files and bytes: those that were written, of all datasets and the joined rows."""

    step: str = BuildCubeRequest.step
    mode: str = ""
    datasets: tuple[DatasetDifference, ...] = ()
    files_gone: int = 0
    included: int = 0  # partitions
    dropped: int = 0  # partitions
    fates: dict[str, int] = Field(default_factory=dict)  # included, or why dropped -> partitions
    alignment_uri: str = ""  # the table that says it per partition

    @property
    def changed(self) -> bool:
        """Whether any file came or went."""
        return bool(self.files or self.files_gone)

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return what the datasets were taken from; a table by where it lies, as other steps name it."""
        from hipslake.steps.committed import Origin, folder_of_pattern, table_version

        found, frozen = [], BuildCubeRequest(run_uri=run_uri).frozen()
        for name, source in frozen.sources.items():
            if source.kind == "catalog":
                found.append(Origin(kind="catalog", uri=source.uri, version=str(source.version)))
            elif source.kind != "table":
                found.append(Origin(kind="files", uri=folder_of_pattern(source.uri)))
            elif table := table_version(frozen.spec.datasets[name].iceberg, frozen.warehouse, source.uri):
                found.append(Origin(kind="table", uri=table.uri, version=str(source.snapshot)))
        return tuple(found)


class MaterialiseRequest(CatalogRunRequest):
    """Start the run of a catalog, of the joined rows of a cube."""

    step: ClassVar[str] = "materialise"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN, RunFolder.FILES)

    cube_run_uri: str

    def cube_run(self) -> FrozenCube:
        """Return what the run of the cube froze at its start."""
        return RunFolder(self.cube_run_uri).read(RunFolder.RUN, FrozenCube)


class MaterialiseReport(Report):
    """Rows, files and bytes: those of the joined rows."""

    step: str = MaterialiseRequest.step
    catalog: str = ""
    write_id: str = ""
    cube_version: int | None = None  # None: there are no joined rows yet
    unchanged_version: int | None = None  # of the catalog; not None: there is nothing to do


class PartitionFates(Frozen):
    """How many partitions of the cube had one fate."""

    fate: str
    partitions: int


class CubeQueryRequest(CubeRequest):
    """Query a cube."""

    step: ClassVar[str] = "cube_query"
    reusable: ClassVar[bool] = True

    version: int | None = Field(default=None, ge=1)  # None: the newest
    columns: tuple[str, ...] | None = None
    conditions: str = Field(default="", max_length=MAX_LENGTH)
    partition_by: tuple[str, ...] | None = None
    dimension_columns: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    format: ExportFormat = ExportFormat.PARQUET
    output: str = Field(min_length=1, max_length=2000)  # a folder; a relative path lies below `exports/`
    task_bytes: int = Field(default=256 << 20, ge=1)  # of the cube's files that one task reads

    @property
    def cube_uri(self) -> str:
        """The root of the cube.

        Raises
        ------
        SpecError
            It is neither a name nor a URI.
        """
        return self.root.uri()

    @property
    def output_uri(self) -> str:
        """Where the folder goes.

        Raises
        ------
        SpecError
            It is no folder's, or it lies in a cube or among other things of the warehouse.
        """
        uri = output_uri(self.warehouse, self.output.strip().rstrip("/"))
        if is_below(uri, self.cube_uri):
            raise SpecError(f"output {self.output!r} lies in the cube itself; give a place outside of it")
        return uri


class CubeQueryReport(Report):
    """Rows in and out: those of the outcome. Files and bytes: those that were written."""

    step: str = CubeQueryRequest.step
    cube: str = ""
    cube_uri: str = ""
    version: int | None = None
    output: str = ""
    files_opened: int = 0  # of the cube
    files_of_cube: int = 0  # that the datasets of the query have
    bytes_planned: int = 0  # of the files that the plan leaves
    partitions: int = 0  # that are read
    groups: int = 0
    fates: tuple[PartitionFates, ...] = ()  # the most frequent ones
    text: str = ""  # the tables of the plan


class CopyCubeRequest(CubeRequest):
    """Copy a cube."""

    step: ClassVar[str] = "cube_copy"

    target: str = Field(min_length=1, max_length=2000)  # a name or a URI, as the cube's
    datasets: tuple[str, ...] | None = None
    overwrite: bool = False


class CopyCubeReport(CubeReport):
    """Rows, files and bytes: those of the datasets that were copied."""

    step: str = CopyCubeRequest.step
    source_uri: str = ""

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the cube that was copied."""
        from hipslake.steps.committed import Origin

        return (Origin(kind="cube", uri=self.source_uri),)


class RemovalRequest(CubeRequest):
    """Base of the requests that remove something from a cube."""

    datasets: tuple[str, ...] | None = None
    dry_run: bool = True

    @property
    def root(self) -> Storage:
        """The storage at the cube's root, where something may be removed."""
        return changed_root(self.warehouse, self.cube)


class RemovePartitionsRequest(RemovalRequest):
    """Remove the partitions that meet some conditions."""

    step: ClassVar[str] = "cube_remove_partitions"

    conditions: str = Field(max_length=MAX_LENGTH)


class DeleteCubeRequest(RemovalRequest):
    """Delete some datasets of a cube, or all of it."""

    step: ClassVar[str] = "cube_delete"

    confirm: str  # the name of the cube once more


class Gone(DatasetStats):
    """What goes of one dataset."""

    dataset: str


class RemovalReport(CubeReport):
    """Files and bytes: those that go; in a dry run, those that would. Rows in and out: theirs."""

    step: str = "cube_removal"
    dry_run: bool = True
    gone: tuple[Gone, ...] = ()


class CleanUpCubeRequest(RetentionRequest, CubeRequest):
    """Clean a cube up."""

    step: ClassVar[str] = "cube_cleanup"


class CleanUpCubeReport(RetentionReport):
    """What a cleanup did; in a dry run, what it would have done."""

    step: str = CleanUpCubeRequest.step
    cube_uri: str = ""


class CubeStatsRequest(CubeRequest):
    """Ask for the size of a cube."""

    step: ClassVar[str] = "cube_stats"

    version: int | None = Field(default=None, ge=1)  # None: the newest


class NamedStats(Frozen):
    """The size of one dataset."""

    dataset: str
    weight: DatasetStats


class CubeStatsReport(Report):
    """Rows, files and bytes: those of all datasets."""

    step: str = CubeStatsRequest.step
    cube: str = ""
    cube_uri: str = ""
    version: int | None = None
    datasets: tuple[NamedStats, ...] = ()
    text: str = ""
