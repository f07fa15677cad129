"""The query of a cube by tasks of an engine: each reads and joins some partitions, and writes its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.api.cube import Cube
from hipslake.cube.query_plan import QueryPlan, partition_pruning
from hipslake.cube.store.query_tasks import (
    TASKS_PER_CORE,
    WRITTEN,
    ResultTasks,
    shares_of_weight,
    sizes_of_reads,
)
from hipslake.engine.model import Engine
from hipslake.steps.cube.query_request import (
    FATES,
    CubeQueryReport,
    CubeQueryRequest,
    fates_of,
    folder_of,
    origin_of,
    planned,
    told,
)
from hipslake.steps.report import Phases
from hipslake.steps.tables import write_table
from hipslake.storage.folder import Storage
from hipslake.versions.pins import pinning

_LEAST_TASK_BYTES = 8 << 20


def run(request: CubeQueryRequest, engine: Engine) -> CubeQueryReport:
    """Query, and write the outcome to a new folder.

    Run again, also after it was killed before its report, it writes the folder anew.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        There is no such cube or version.
    CubeError, ConditionError, SpecError, SchemaMismatchError, NotWritableError
        As of `hipslake.steps.cube.query_request.planned`; nothing was written.
    VerificationError
        A file of the cube is missing or damaged.
    """
    phases = Phases()
    with _opened(request) as cube:
        with phases("plan"):
            plan = planned(request, cube)
            sizes = sizes_of_reads(cube.storage, cube.metadata, plan)
            share = _task_bytes(request, int(sizes.sum()), engine.cores)
            tasks = shares_of_weight(plan, list(plan.reads()), sizes.tolist(), share)
            explained, fates = told(plan), partition_pruning(plan)
            write_table(request.folder.storage, FATES, fates)
        folder = folder_of(request)
        work = ResultTasks(
            cube=cube.storage,
            plan=plan.without_files(),
            tasks=tasks,
            keys=tuple(group.key for group in plan.groups),
            target=folder.begin(),
            kind=request.format,
            origin=origin_of(request, cube),
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
                fates=fates_of(plan),
                text=explained,
            )
            with phases("finish"):
                folder.finish(_manifest(request, plan, report, files))
        except BaseException:
            folder.give_up()
            raise
    return report.model_copy(update={"seconds": phases.seconds})


@contextmanager
def _opened(request: CubeQueryRequest) -> Iterator[Cube]:
    """The cube; no cleanup takes its version while the block runs."""
    root = Storage.at(request.cube_uri)
    version = Cube.open(root.uri(), request.version).version
    if root.root.startswith(
        ("http://", "https://")
    ):  # nothing is written there, and so nothing removed by us
        yield Cube.open(root.uri(), version)
        return
    with pinning(root) as pin:
        pin.hold(version)
        yield Cube.open(root.uri(), version)


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
