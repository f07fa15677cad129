"""HATS view: let HATS readers open the newest version, once its tree is whole, and mend all pointers."""

from __future__ import annotations

from typing import ClassVar

from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import VerificationError
from hipslake.specs.catalog import Layout
from hipslake.steps.pointers import point_at_newest
from hipslake.steps.report import Phases, Report, Request
from hipslake.storage import Storage
from hipslake.versions.log import VersionLog


class HatsViewRequest(Request):
    """Show the newest version of a run's catalog to HATS readers."""

    step: ClassVar[str] = "view"
    reusable: ClassVar[bool] = False  # another run may have published since


class HatsViewReport(Report):
    """The version that HATS readers now open; None: the newest is of another layout."""

    step: str = HatsViewRequest.step
    version: int | None = None
    catalog_uri: str = ""


def run(request: HatsViewRequest) -> HatsViewReport:
    """Replace collection.properties, after everything that it names is there.

    Raises
    ------
    VerificationError
        If the tree of the newest version is not whole.
    """
    phases = Phases()
    frozen = request.folder.run()
    catalog = Storage.at(frozen.catalog_uri)
    metadata = CatalogMetadata.from_json(VersionLog(catalog).read())
    shown = metadata.layout is Layout.HATS
    with phases("pointers"):
        if shown:
            _check_tree(catalog, metadata)
        elif catalog.exists(HATS.COLLECTION):
            catalog.delete(HATS.COLLECTION)  # it names an older version, which is not what the catalog is now
        newest = point_at_newest(catalog, hats_view=shown)
    return HatsViewReport(
        rows_in=metadata.total_rows,
        rows_out=metadata.total_rows,
        version=newest if shown else None,
        catalog_uri=frozen.catalog_uri,
        seconds=phases.seconds,
    )


def _check_tree(catalog: Storage, metadata: CatalogMetadata) -> None:
    for group in metadata.groups:
        marker = HATS.view_file(metadata.write_id, group.name, "hats.properties")
        if not catalog.exists(marker):
            raise VerificationError(
                f"{catalog.uri(marker)} is missing, so HATS readers cannot open version {metadata.version}; "
                "run the ingest with force to publish a whole one"
            )
