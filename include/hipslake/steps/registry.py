"""The steps by name: their models, their work, their Spark job, and from which size on Spark does it.

Everything is named by an import string ("module:attribute", below `hipslake.steps`) that is resolved on use,
so that importing the registry loads none of it. Operators, Spark jobs and the documentation read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.engine.model import Engine
    from hipslake.steps.report import Report, Request

_MIB, _GIB = 1 << 20, 1 << 30

INGEST_IN_SPARK = 128 * _MIB
"""Of source files: fewer are counted, written and appended before Spark has started."""


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes
    ----------
    name : str
        That of its request, which names its files in the run folder; where several steps share it, followed
        by a colon and what tells them apart.
    request, report, run : str
        Import strings of the models of the request and the report, and of the function that does the work:
        it takes the request, and an engine if the step has a job.
    job : str
        Name of the entry point in `spark_jobs/`; "": the step needs no Spark.
    spark_above_bytes : int
        From how many bytes on Spark does the work, unless the operator is given another size; 0: always.
    of_ingest : bool
        Whether the run's catalog spec and the deployment may say another size (`size_for_spark`).
    size : str
        Import string of the function that finds how many bytes a request has to handle; "": those of the
        run's source files.
    held : str
        Import string of the function that finds how many bytes of rows this process would hold at once; "":
        that is not known.
    """

    name: str
    request: str
    report: str
    run: str
    job: str = ""
    spark_above_bytes: int = 0
    size: str = ""
    of_ingest: bool = False
    held: str = ""

    @property
    def request_model(self) -> type[Request]:
        """The model of the request."""
        found: type[Request] = resolve(self.request)
        return found

    @property
    def report_model(self) -> type[Report]:
        """The model of the report."""
        found: type[Report] = resolve(self.report)
        return found

    def bytes_to_handle(self, request: Request) -> int:
        """Return how many bytes a request has to handle."""
        if not self.size:
            from hipslake.steps.frozen_run import FrozenInputs

            return FrozenInputs.of(request.folder).total_bytes
        return int(resolve(self.size)(request))

    def bytes_to_hold(self, request: Request) -> int | None:
        """Return how many bytes of rows this process would hold at once; None if that is not known."""
        return int(resolve(self.held)(request)) if self.held else None

    def size_for_spark(self, request: Request) -> int:
        """Return from how many bytes on Spark does a request: as its spec says, or the deployment; 0: always.

        Raises
        ------
        SpecError
            If what the deployment says is no size.
        """
        said = self.said_size(request)
        return self.spark_above_bytes if said is None else said

    def said_size(self, request: Request) -> int | None:
        """Return the size that the spec says, or the deployment, in place of the step's own; None: neither.

        Raises
        ------
        SpecError
            As `size_for_spark`.
        """
        if not self.of_ingest:
            return None
        from hipslake.specs.environment import spark_above_bytes
        from hipslake.steps.frozen_run import FrozenRun

        said = FrozenRun.of(request.folder).spec.spark_above_bytes
        return spark_above_bytes() if said is None else said

    def perform(self, request: Request, engine: Engine | None = None) -> Report:
        """Run the step in this process, or take over what a finished attempt left; leave its report.

        Parameters
        ----------
        request : Request
        engine : Engine, optional
            Runs the tasks of a step that has a job; by default this process does.
        """
        from hipslake.steps.report import perform

        function = resolve(self.run)
        if self.job:
            from hipslake.engine.this_process import ThisProcess

            by = engine or ThisProcess()
            return perform(lambda asked: function(asked, by), request, self.report_model)
        return perform(function, request, self.report_model)

    def function(self) -> Callable[[Request, Engine], Report]:
        """Return the function that does the work on an engine."""
        found: Callable[[Request, Engine], Report] = resolve(self.run)
        return found


def resolve(name: str) -> Any:
    """Return what an import string names: "module:attribute", the module below `hipslake.steps`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"hipslake.steps.{module}"), attribute)


def _step(
    name: str,
    models: str,
    run: str,
    job: str = "",
    spark_above_bytes: int = 0,
    size: str = "",
    *,
    report: str = "",
    of_ingest: bool = False,
    held: str = "",
) -> Step:
    """Return a step by its family, and what the names of its models begin with.

    `size` may be the name alone of a function in the module of `run`.
    """
    family, _, prefix = models.partition(":")
    request, report = f"{prefix}Request", f"{report or prefix}Report"
    models = f"{family}.request"
    if size and ":" not in size:
        size = f"{run.partition(':')[0]}:{size}"
    return Step(
        name, f"{models}:{request}", f"{models}:{report}", run, job, spark_above_bytes, size, of_ingest, held
    )


STEPS = {
    step.name: step
    for step in (
        _step("resolve", "ingest:Resolve", "ingest.resolve:run"),
        _step("inputs", "ingest:Inputs", "ingest.inputs:run"),
        _step(
            "histogram",
            "ingest:Histogram",
            "ingest.histogram:run",
            "histogram_catalog",
            INGEST_IN_SPARK,
            of_ingest=True,
            held="bytes_held:of_count",
        ),
        _step("plan", "ingest:Plan", "ingest.plan:run"),
        _step(
            "write",
            "ingest:Write",
            "ingest.write:run",
            "write_partitions",
            INGEST_IN_SPARK,
            of_ingest=True,
            held="bytes_held:of_counted_rows",
        ),
        _step("publish", "ingest:Publish", "ingest.publish:run"),
        _step(
            "append",
            "append:Append",
            "append.run:run",
            "append_increment",
            INGEST_IN_SPARK,
            of_ingest=True,
            held="bytes_held:of_counted_rows",
        ),
        _step("margin", "margin:Margin", "margin.run:run", "build_margin", _GIB, "bytes_to_read"),
        _step("index", "index:BuildIndex", "index.run:run", "build_index", 256 * _MIB, "bytes_to_index"),
        _step(
            "compact", "compact:Compact", "compact.run:run", "compact_catalog", 256 * _MIB, "bytes_to_compact"
        ),
        _step("verify", "upkeep:Verify", "upkeep.verify:run", "verify_catalog", 4 * _GIB, "bytes_to_read"),
        _step("view", "upkeep:HatsView", "upkeep.hats_view:run"),
        _step("repair", "upkeep:Repair", "upkeep.repair:run"),
        _step("delete", "delete:Delete", "delete.run:run"),
        _step("reassign", "reassign:Reassign", "reassign.run:run"),
        _step("rollback", "upkeep:Rollback", "upkeep.rollback_catalog:run"),
        _step("vacuum", "upkeep:Vacuum", "upkeep.vacuum_catalog:run"),
        _step("delete_table", "table_delete:DeleteTableRows", "table_delete.run:run"),
        _step("vacuum_table", "upkeep:VacuumTable", "upkeep.vacuum_table:run"),
        _step("resolve:published", "upkeep:ResolvePublished", "upkeep.resolve_published:run"),
        _step("resolve:adopt", "adopt:ResolveAdopt", "adopt.resolve_adopt:run"),
        _step("adopt", "adopt:Adopt", "adopt.run:run", "adopt_catalog", _GIB, "bytes_to_read"),
        _step("resolve:crossmatch", "join:ResolveCrossmatch", "join.resolve_crossmatch:run"),
        _step("resolve:equijoin", "join:ResolveEquijoin", "join.resolve_equijoin:run"),
        _step(
            "crossmatch",
            "join:Crossmatch",
            "join.run:run",
            "crossmatch_catalogs",
            256 * _MIB,
            held="bytes_held:of_join",
        ),
        _step(
            "equijoin",
            "join:Equijoin",
            "join.run:run",
            "equijoin_catalogs",
            256 * _MIB,
            held="bytes_held:of_join",
        ),
        _step("resolve:sink", "sink:ResolveSink", "sink.resolve_sink:run"),
        _step("inputs:sink", "sink:SinkFiles", "sink.sink_files:run"),
        _step(
            "sink", "sink:Sink", "sink.run:run", "sink_iceberg", 256 * _MIB, "sink.sink_size:bytes_to_sink"
        ),
        _step("audit", "audit:Audit", "audit.run:run"),
        _step("drain", "stream:Drain", "stream.run:run", "drain_stream"),
        _step("evolve_table", "evolve_table:EvolveTable", "evolve_table.run:run"),
        _step(
            "resolve:compact_table", "compact_table:ResolveCompaction", "compact_table.resolve_compaction:run"
        ),
        _step(
            "compact_table",
            "compact_table:CompactTable",
            "compact_table.run:run",
            "compact_table",
            256 * _MIB,
            "compact_table.rewrite_plan:bytes_to_compact",
        ),
        _step("resolve:cube", "cube:ResolveCube", "cube.resolve_cube:run"),
        _step("build", "cube:BuildCube", "cube.build_cube:run", "build_cube", 256 * _MIB, "bytes_to_build"),
        _step("materialise", "cube:Materialise", "cube.materialise:run"),
        _step("cube_query", "cube:CubeQuery", "cube.query_cube:run", "query_cube", 2 * _GIB, "bytes_to_read"),
        _step(
            "cube_remove_partitions", "cube:RemovePartitions", "cube.cube_removal:remove", report="Removal"
        ),
        _step("cube_delete", "cube:DeleteCube", "cube.cube_removal:delete", report="Removal"),
        _step("cube_copy", "cube:CopyCube", "cube.cube_copy:run"),
        _step("cube_cleanup", "cube:CleanUpCube", "cube.cube_upkeep:clean_up"),
        _step("cube_stats", "cube:CubeStats", "cube.cube_upkeep:cube_stats"),
        _step("export", "export:Export", "export.run:run", "export_catalog", 2 * _GIB, "bytes_to_export"),
        _step("hips", "hips:Hips", "hips.run:run", "build_hips", 2 * _GIB, "bytes_to_show"),
    )
}
"""Every step, by name."""
