"""The sides of a join, as a run has frozen them: opened again, and known again."""

from __future__ import annotations

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.errors import ConflictError
from hipslake.sources.source_file import SourceFile
from hipslake.steps.join.request import FrozenSide
from hipslake.versions.log_files import version_path


def frozen_side(side: CatalogReader) -> FrozenSide:
    """Return what a run remembers of a side."""
    margins = side.metadata.margins_by_hand
    write_id = side.metadata.write_id if side.metadata.is_foreign else None
    return FrozenSide(uri=side.opened_at, version=side.version, margins=margins, write_id=write_id)


def open_side(side: FrozenSide) -> CatalogReader:
    """Open a side once more.

    Raises
    ------
    ConflictError
        It is not what it was, as a catalog of others may be, or one that was moved away and made anew.
    VersionNotFoundError
        The version was vacuumed since.
    """
    catalog = CatalogReader.open(side.uri, side.version, margins=side.margins)
    if side.write_id is not None and catalog.metadata.write_id != side.write_id:
        raise ConflictError(
            f"{side.uri}, version {side.version}, is not what it was when the run began, as the catalog was "
            "written anew since; clear the run from its first task"
        )
    return catalog


def side_as_file(ordinal: int, side: CatalogReader) -> SourceFile:
    """Return a side as what the outcome is made of: a file that is another one when the side changes."""
    foreign = side.metadata.is_foreign
    return SourceFile(
        ordinal=ordinal,
        uri=side.opened_at if foreign else side.storage.uri(version_path(side.version)),
        size=side.metadata.total_bytes,
        stamp=side.metadata.write_id,
    )
