"""The query of a cube whose outcome goes to a folder of files. Needs no Spark; for much it reads with it.

A run of its own in one step, so its request holds all that it depends on.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pyarrow.compute as pc
from pydantic import AwareDatetime, Field

from hipslake.cube.explanation import explain
from hipslake.cube.query_plan import QueryPlan, partition_pruning
from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.query_tasks import check_group_folders, file_schema
from hipslake.errors import SpecError
from hipslake.exports.export_folder import NewFolder
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import check_format
from hipslake.predicates.condition_text import MAX_LENGTH
from hipslake.specs.base import Frozen
from hipslake.specs.export_formats import ExportFormat
from hipslake.steps.cube.cube_place import cube_root
from hipslake.steps.export.outputs import output_uri, refuse_published
from hipslake.steps.report import Report, Request
from hipslake.steps.run import now_utc
from hipslake.storage.addresses import is_below

FATES = "cube_query/fates.parquet"
"""In the run folder: the partitions of the cube, and what became of each."""

_MOST_TEXT = 100_000  # letters
_WHOLE_INDICES = 10_000_000  # rows of the datasets, up to which whole indices are read to be told
_MOST_FATES = 100


class PartitionFates(Frozen):
    """How many partitions of the cube had one fate."""

    fate: str
    partitions: int


class CubeQueryRequest(Request):
    """Query a cube."""

    step: ClassVar[str] = "cube_query"
    reads_sources: ClassVar[bool] = False

    warehouse: str
    cube: str = Field(min_length=1, max_length=2000)  # of the warehouse by name, or a URI
    version: int | None = Field(default=None, ge=1)  # None: the newest
    columns: tuple[str, ...] | None = None
    conditions: str = Field(default="", max_length=MAX_LENGTH)
    partition_by: tuple[str, ...] | None = None
    dimension_columns: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    format: ExportFormat = ExportFormat.PARQUET
    output: str = Field(min_length=1, max_length=2000)  # a folder; a relative path lies below `exports/`
    task_bytes: int = Field(default=256 << 20, ge=1)  # of the cube's files that one task reads
    created: AwareDatetime = Field(default_factory=now_utc)

    def fingerprint(self) -> str:
        """Return the digest of what is asked for, whenever that was."""
        return self.digest(without={"created"})

    @property
    def cube_uri(self) -> str:
        """The root of the cube.

        Raises
        ------
        SpecError
            It is neither a name nor a URI.
        """
        return cube_root(self.warehouse, self.cube).uri()

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


def planned(request: CubeQueryRequest, cube: CubeReader) -> QueryPlan:
    """Plan a query, and look whether its outcome can be written; nothing is written.

    Raises
    ------
    CubeError, ConditionError
        The query makes no sense, or asks for what the cube does not have.
    SpecError
        The output makes no sense.
    NotWritableError
        Something lies at the output.
    SchemaMismatchError
        The format has no form for a column.
    """
    plan = cube.plan(
        request.columns,
        request.conditions,
        request.partition_by,
        request.dimension_columns,
        request.datasets,
        whole_indices=sum(each.rows for each in cube.metadata.datasets) <= _WHOLE_INDICES,
    )
    check_format(file_schema(plan), request.format)
    check_group_folders(plan)
    refuse_published(request.output_uri)
    folder_of(request).check()
    return plan


def folder_of(request: CubeQueryRequest) -> NewFolder:
    """Return the folder that the outcome goes to."""
    return NewFolder(request.output_uri, request.run_uri)


def origin_of(request: CubeQueryRequest, cube: CubeReader) -> Provenance:
    """Return what the files say of where they are from."""
    return Provenance(
        catalog=cube.metadata.cube,
        version=cube.version,
        description="outcome of a query of a cube",
        filters=request.conditions,
    )


def told(plan: QueryPlan) -> str:
    """Return the tables of a plan, cut where they are long."""
    text = explain(plan)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n... cut\n"


def fates_of(plan: QueryPlan) -> tuple[PartitionFates, ...]:
    """Return how many partitions had each fate, the most frequent ones first."""
    counts = Counter(
        {
            each["values"]: each["counts"]
            for each in pc.value_counts(partition_pruning(plan)["fate"]).to_pylist()
        }
    )
    return tuple(
        PartitionFates(fate=fate, partitions=count) for fate, count in counts.most_common(_MOST_FATES)
    )
