"""Resolve a table's compaction: freeze the spec and the params of the run."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import AwareDatetime

from hipslake.library_version import __version__
from hipslake.specs.base import Frozen
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.yaml_file import load_compaction_spec
from hipslake.steps.compact_table.request import CompactTableRequest
from hipslake.steps.first import check_free_space
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import RunFolder, now_utc
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.storage.folder import Storage


class FrozenCompaction(Frozen):
    """Everything that a run of a compaction spec depends on, resolved once by its first step."""

    dag_id: str
    run_id: str
    run_uri: str
    warehouse: str
    table: str  # name of the spec
    spec: CompactionSpec  # with the overrides of the params
    spec_file: str
    full: bool = False
    dry_run: bool = False
    created: AwareDatetime
    library_version: str

    def request(self) -> CompactTableRequest:
        """Return what the step that compacts is told."""
        return CompactTableRequest(
            run_uri=self.run_uri,
            warehouse=self.warehouse,
            spec=self.spec,
            full=self.full,
            dry_run=self.dry_run,
        )


class ResolveCompactionRequest(Request):
    """Start a run of a compaction spec."""

    step: ClassVar[str] = "resolve"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN,)
    reusable: ClassVar[bool] = False  # who clears the first task wants the spec read again

    dag_id: str
    run_id: str
    warehouse: str
    spec_file: str
    partitions: str | None = None  # None: as the spec says
    full: bool = False  # also what is clustered already
    dry_run: bool = False  # plan only

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no inputs yet."""
        return self.digest()


class ResolveCompactionReport(Report):
    """What the run froze."""

    step: str = ResolveCompactionRequest.step
    table: str = ""
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders


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
        spec = load_compaction_spec(Path(request.spec_file)).with_overrides(partitions=request.partitions)
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
