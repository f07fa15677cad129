"""The step that makes a version of a cube; it runs on any engine."""

from __future__ import annotations

import logging

import pyarrow.compute as pc

from hipslake.cube.query_plan import INCLUDED
from hipslake.cube.store.cube_commit import committed_before, parent_of
from hipslake.cube.store.dataset_metadata import differences
from hipslake.cube.store.derived_tables import counted_fates, read_alignment
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.spec_changes import build_from
from hipslake.engine.model import Engine
from hipslake.steps.cube.build_request import BuildCubeReport, BuildCubeRequest
from hipslake.steps.report import Phases
from hipslake.storage.folder import Storage

log = logging.getLogger(__name__)

_TOLD_PARTITIONS = 20


def run(request: BuildCubeRequest, engine: Engine) -> BuildCubeReport:
    """Make the version, or find the one that an earlier attempt of the run has committed.

    Raises
    ------
    HipslakeError
        As of `hipslake.cube.store.spec_changes.build_from`.
    """
    phases = Phases()
    frozen = request.frozen()
    with phases("build"):
        after = committed_before(frozen.place, frozen.write_id, frozen.created) or build_from(
            frozen.place, frozen.target, engine, mark=frozen.write_id
        )
    with phases("report"):
        before = parent_of(frozen.place, after) if after.mark == frozen.write_id else after
        report = _report(frozen.place, after, before)
    return report.model_copy(update={"mode": frozen.mode.value, "seconds": phases.seconds})


def _report(cube: Storage, after: CubeMetadata, before: CubeMetadata | None) -> BuildCubeReport:
    found = differences(cube, after, before)
    rows = sum(each.rows_written for each in found)
    fates, dropped = _fates(cube, after)
    text = [f"Version {after.version} of {cube.uri()}", *map(str, found)]
    text += [f"{count:,} partitions: {fate}" for fate, count in fates.items()]
    alignment = after.alignment
    return BuildCubeReport(
        rows_in=rows,
        rows_out=rows,
        bytes=sum(each.bytes_written for each in found),
        files=sum(each.files_written for each in found),
        cube=after.cube,
        cube_uri=cube.uri(),
        version=after.version,
        parent=after.parent,
        datasets=found,
        files_gone=sum(each.files_gone for each in found),
        included=alignment.included if alignment is not None else 0,
        dropped=alignment.dropped if alignment is not None else 0,
        fates=fates,
        alignment_uri=cube.uri(alignment.table.path) if alignment is not None else "",
        rows_of_cube=after.dataset(after.roles.seed).rows,
        text="\n".join([*text, *dropped]),
    )


def _fates(cube: Storage, metadata: CubeMetadata) -> tuple[dict[str, int], list[str]]:
    """How many partitions have which fate, and the first ones that were dropped, in words."""
    if metadata.alignment is None:
        return {}, []
    table = read_alignment(cube, metadata)
    columns = [*metadata.roles.partition_columns, "datasets", "fate"]
    lost = table.select(columns).filter(pc.not_equal(table["fate"], INCLUDED))
    told = [
        ", ".join(f"{name}={row[name]}" for name in metadata.roles.partition_columns)
        + f": {row['fate']} (in {row['datasets']})"
        for row in lost.slice(0, _TOLD_PARTITIONS).to_pylist()
    ]
    if lost.num_rows > len(told):
        told.append(f"... and {lost.num_rows - len(told):,} more, in the alignment table")
    return counted_fates(table), told
