"""What a step that has committed was made of: source files, catalogs and tables, at their versions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from hipslake.sources.source_file import SourceFile
from hipslake.specs.base import Frozen
from hipslake.steps.append.request import AppendReport
from hipslake.steps.compact.request import CompactReport
from hipslake.steps.cube.build_request import BuildCubeReport, BuildCubeRequest, FrozenCube
from hipslake.steps.cube.cube_copy import CopyCubeReport
from hipslake.steps.index.request import BuildIndexReport
from hipslake.steps.ingest.publish import PublishReport
from hipslake.steps.join.frozen_join import frozen_join
from hipslake.steps.join.request import FROZEN
from hipslake.steps.margin.request import MarginReport
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.request import SinkReport, SinkRequest
from hipslake.steps.standing import table_standing
from hipslake.steps.upkeep.rollback_catalog import RollbackReport
from hipslake.tables.order import CatalogRows, SinkOrder

_MOST_FOLDERS = 20
"""Of source files that are told apart; where there are more, the folder that holds them all is told."""


class Origin(Frozen):
    """Something that a step has read."""

    kind: Literal["files", "catalog", "table", "cube"]
    uri: str  # of files: their folder; of a table: namespace.table
    version: str | None = None
    bytes: int | None = None  # None: not known
    files: int | None = None


def origins_of(report: Report, run_uri: str) -> tuple[Origin, ...]:
    """Return what a step was made of; none where that is not known.

    Parameters
    ----------
    report : Report
        Of a step that went well.
    run_uri : str
        The step's run folder.
    """
    folder = RunFolder(run_uri)
    if isinstance(report, PublishReport | AppendReport):
        return _of_catalog(folder)
    if isinstance(report, SinkReport):
        return _distinct(_of_order(order) for order in SinkRequest(run_uri=run_uri).orders().orders)
    if isinstance(report, BuildCubeReport):
        return _of_cube(BuildCubeRequest(run_uri=run_uri).frozen())
    if isinstance(report, CopyCubeReport):
        return (Origin(kind="cube", uri=report.source_uri),)
    if isinstance(report, RollbackReport):
        return (Origin(kind="catalog", uri=report.catalog_uri, version=str(report.restored)),)
    if isinstance(report, CompactReport | MarginReport | BuildIndexReport) and report.version is not None:
        return (Origin(kind="catalog", uri=report.catalog_uri, version=str(report.version - 1)),)
    return ()


def _of_catalog(folder: RunFolder) -> tuple[Origin, ...]:
    """The two sides of a join, or the source files."""
    if folder.storage.exists(FROZEN):
        join = frozen_join(folder)
        return tuple(
            Origin(kind="catalog", uri=side.uri, version=str(side.version))
            for side in (join.left, join.right)
        )
    return _of_files(folder.inputs().files)


def _of_cube(frozen: FrozenCube) -> tuple[Origin, ...]:
    """What the datasets were taken from. A table is told by where it lies, as others tell of it."""
    found = []
    for name, source in frozen.sources.items():
        dataset = frozen.spec.datasets[name]
        if source.kind == "catalog":
            found.append(Origin(kind="catalog", uri=source.uri, version=str(source.version)))
        elif source.kind == "table":
            table = table_standing(dataset.iceberg, frozen.warehouse, source.uri)
            if table is not None:
                found.append(Origin(kind="table", uri=table.uri, version=str(source.snapshot)))
        else:
            found.append(Origin(kind="files", uri=_folder_of(source.uri)))
    return tuple(found)


def _of_order(order: SinkOrder) -> tuple[Origin, ...]:
    if isinstance(order.rows, CatalogRows):
        return (Origin(kind="catalog", uri=order.rows.uri, version=str(order.rows.version)),)
    return _of_files(order.rows.files)


def _of_files(files: Iterable[SourceFile]) -> tuple[Origin, ...]:
    """The folders of some files."""
    sizes: dict[str, list[int]] = {}
    for file in files:
        sizes.setdefault(file.uri.rpartition("/")[0], []).append(file.size)
    if len(sizes) > _MOST_FOLDERS:
        parts = [folder.split("/") for folder in sizes]
        shared = 0
        while all(len(each) > shared and each[shared] == parts[0][shared] for each in parts):
            shared += 1
        together = "/".join(parts[0][:shared])
        sizes = {together: [size for each in sizes.values() for size in each]}
    return tuple(
        Origin(kind="files", uri=folder or "/", bytes=sum(each), files=len(each))
        for folder, each in sorted(sizes.items())
    )


def _distinct(found: Iterable[tuple[Origin, ...]]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origin for each in found for origin in each))


def _folder_of(pattern: str) -> str:
    """The folder under which all files of a pattern lie.

    Examples
    --------
    >>> _folder_of("s3://survey/night=*/part-?.parquet"), _folder_of("/data/stars.parquet")
    ('s3://survey', '/data')
    """
    plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return plain.rpartition("/")[0] or "/"
