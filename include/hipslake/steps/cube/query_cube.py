"""The query of a cube by tasks of an engine: each reads and joins some partitions, and writes its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.explanation import explain
from hipslake.cube.query_plan import QueryPlan, partition_pruning
from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.derived_tables import counted_fates
from hipslake.cube.store.query_tasks import (
    TASKS_PER_CORE,
    WRITTEN,
    ResultTasks,
    check_group_folders,
    file_schema,
    shares_of_weight,
    sizes_of_reads,
)
from hipslake.engine.model import Engine
from hipslake.exports.export_folder import NewFolder
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import check_format
from hipslake.steps.cube.request import CubeQueryReport, CubeQueryRequest, PartitionFates
from hipslake.steps.export.outputs import refuse_published
from hipslake.steps.report import Phases
from hipslake.steps.tables import write_table
from hipslake.versions.pins import pinning

FATES = "cube_query/fates.parquet"
"""In the run folder: the partitions of the cube, and what became of each."""

_LEAST_TASK_BYTES = 8 << 20
_MOST_TEXT = 100_000  # characters
_WHOLE_INDICES = 10_000_000  # rows of the datasets, up to which whole indices are read to be told
_MOST_FATES = 100


class _PlannedQuery(NamedTuple):
    """A query of a version that was opened, and how many bytes of files each read of its plan needs."""

    cube: CubeReader
    plan: QueryPlan
    sizes: np.ndarray


_planned: dict[CubeQueryRequest, _PlannedQuery] = {}


def run(request: CubeQueryRequest, engine: Engine) -> CubeQueryReport:
    """Query, and write the outcome to a new folder.

    Run again, also after it was killed before its report, it writes the folder anew.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        There is no such cube or version.
    CubeError, ConditionError, SpecError, SchemaMismatchError, NotWritableError
        The query makes no sense, or its outcome cannot be written; nothing was written.
    VerificationError
        A file of the cube is missing or damaged.
    """
    phases = Phases()
    with phases("plan"):
        query = _planned.pop(request, None)
        cube, plan, sizes = query or _plan(request)
    with _pinned(cube):
        with phases("plan"):
            share = _task_bytes(request, int(sizes.sum()), engine.cores)
            tasks = shares_of_weight(plan, list(plan.reads()), sizes.tolist(), share)
            text, fates = explain(plan), partition_pruning(plan)
            if len(text) > _MOST_TEXT:
                text = f"{text[:_MOST_TEXT]}\n... cut\n"
            write_table(request.folder.storage, FATES, fates)
        folder = NewFolder(request.output_uri, request.run_uri)
        work = ResultTasks(
            cube=cube.storage,
            plan=plan.without_files(),
            tasks=tasks,
            keys=tuple(group.key for group in plan.groups),
            target=folder.begin(),
            kind=request.format,
            origin=Provenance(
                catalog=cube.metadata.cube,
                version=cube.version,
                description="outcome of a query of a cube",
                filters=request.conditions,
            ),
        )
        try:
            with phases("read"), engine.progress("query"):
                written = (
                    engine.run(work, tasks=len(tasks), result=WRITTEN) if tasks else WRITTEN.empty_table()
                )
            files = written.filter(pc.not_equal(written["path"], "")).sort_by("path")
            if not files.num_rows:
                files = _empty(work)
            report = CubeQueryReport(
                rows_in=pc.sum(files["rows"]).as_py(),
                rows_out=pc.sum(files["rows"]).as_py(),
                bytes=pc.sum(files["bytes"]).as_py(),
                files=files.num_rows,
                cube=cube.metadata.cube,
                cube_uri=cube.storage.uri(),
                version=cube.version,
                output=folder.uri,
                files_opened=pc.sum(written["opened"]).as_py() or 0,
                files_of_cube=sum(cube.metadata.dataset(name).files for name in plan.datasets),
                bytes_planned=int(sizes.sum()),
                partitions=len(sizes),
                groups=len(plan.groups) if plan.intention.partition_by else 0,
                fates=tuple(
                    PartitionFates(fate=fate, partitions=count)
                    for fate, count in list(counted_fates(fates).items())[:_MOST_FATES]
                ),
                text=text,
            )
            with phases("finish"):
                folder.finish(_manifest(request, plan, report, files))
        except BaseException:
            folder.give_up()
            raise
    return report.model_copy(update={"seconds": phases.seconds})


@contextmanager
def _pinned(cube: CubeReader) -> Iterator[None]:
    """Hold a cleanup off the version while the block runs; `VersionNotFoundError` if one was quicker."""
    if cube.storage.is_web_server:  # nothing is written or removed there
        yield
        return
    with pinning(cube.storage) as pin:
        pin.hold(cube.version)
        yield


def _task_bytes(request: CubeQueryRequest, planned: int, cores: int) -> int:
    """Of the files that one task reads, about: so that all cores have some tasks, but files are not tiny."""
    return min(request.task_bytes, max(_LEAST_TASK_BYTES, planned // (cores * TASKS_PER_CORE)))


def _empty(work: ResultTasks) -> pa.Table:
    """A file without rows, so that readers find the columns where there is nothing else."""
    path = f"part-00000.{work.kind.value}"
    rows, size = work.write(path, [work.schema.empty_table()])
    return pa.table([[path], [rows], [size], [0]], schema=WRITTEN)


def _manifest(
    request: CubeQueryRequest, plan: QueryPlan, report: CubeQueryReport, files: pa.Table
) -> dict[str, Any]:
    """What lies beside the files, for whoever finds them."""
    asked = {"columns", "conditions", "partition_by", "dimension_columns", "datasets", "format"}
    return {
        "cube": report.cube_uri,
        "version": report.version,
        "query": request.model_dump(mode="json", include=asked),
        "columns": {field.name: str(field.type) for field in plan.schema},
        "rows": report.rows_out,
        "files": files.select(["path", "rows", "bytes"]).to_pylist(),
    }


def bytes_to_read(request: CubeQueryRequest) -> int:
    """Return how many bytes of files a query reads at most; that decides whether Spark runs the step.

    What was planned for it is kept for a `run` of the same request in this process.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError, CubeError, ConditionError, SpecError, SchemaMismatchError,
    NotWritableError
        As of `run`.
    """
    _planned.clear()
    _planned[request] = query = _plan(request)
    return int(query.sizes.sum())


def _plan(request: CubeQueryRequest) -> _PlannedQuery:
    """Plan a query, and check that its outcome can be written; nothing is written."""
    cube = CubeReader.open(request.cube_uri, request.version)
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
    NewFolder(request.output_uri, request.run_uri).check()
    return _PlannedQuery(cube, plan, sizes_of_reads(cube.storage, cube.metadata, plan))
