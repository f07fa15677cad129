"""Resolve a table's compaction: freeze the spec and the params of the run."""

from __future__ import annotations

from hipslake.library_version import __version__
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.compact_table.request import (
    FrozenCompaction,
    ResolveCompactionReport,
    ResolveCompactionRequest,
)
from hipslake.steps.free_space import check_free_space
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, now_utc
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.storage.folder import Storage


def run(request: ResolveCompactionRequest) -> ResolveCompactionReport:
    """Freeze the run.

    Raises
    ------
    SpecError
        If the spec or a param is wrong.
    NoSpaceError
        If the warehouse cannot take any more.
    """
    phases = Phases()
    with phases("spec"):
        spec = load_spec(request.spec_file, CompactionSpec).with_overrides(partitions=request.partitions)
    check_free_space(Storage.at(request.warehouse))
    frozen = FrozenCompaction(
        **request.model_dump(exclude={"partitions"}),
        table=spec.name,
        spec=spec,
        created=now_utc(),
        library_version=__version__,
    )
    request.folder.write(RunFolder.RUN, frozen)
    with phases("runs"):
        removed = remove_old_runs_of_dag(request.run_uri)
    return ResolveCompactionReport(table=spec.name, removed=tuple(removed), seconds=phases.seconds)
