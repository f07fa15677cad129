"""First step of a run on what a catalog has published: what it depends on is frozen, by the newest one."""

from __future__ import annotations

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.published_spec import published_spec
from hipslake.steps.first import freeze_run, swept_orphans
from hipslake.steps.free_space import check_free_space
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, catalog_uri
from hipslake.steps.upkeep.request import ResolvePublishedReport, ResolvePublishedRequest
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog


def run(request: ResolvePublishedRequest) -> ResolvePublishedReport:
    """Freeze the run, with the spec and the owner that the newest version says.

    So it serves for catalogs that joins and cubes make, which have no spec of a catalog among the files.

    Raises
    ------
    CatalogNotFoundError
        Nothing is published.
    CatalogFormatError
        The newest version cannot be read.
    NotWritableError, NoSpaceError
        If the warehouse cannot take another version.
    """
    phases = Phases()
    catalog = Storage.at(catalog_uri(request.warehouse, request.catalog))
    with phases("warehouse"):
        metadata = CatalogMetadata.from_json(
            VersionLog(catalog).read(), where=f"{catalog.uri()}, newest version"
        )
        catalog.check_writable()
        check_free_space(catalog)
    frozen = freeze_run(request, published_spec(metadata), catalog, metadata.owners[0])
    request.folder.write(RunFolder.RUN, frozen)
    with phases("sweep"):
        swept = swept_orphans(catalog, frozen.write_id)
    return ResolvePublishedReport(
        catalog=frozen.catalog,
        write_id=frozen.write_id,
        version=metadata.version,
        swept=tuple(swept),
        seconds=phases.seconds,
    )
