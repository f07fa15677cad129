"""The margins of a version to come: those that a run has made, or those of the version before, changed."""

from __future__ import annotations

from collections.abc import Mapping

from hipslake.catalog.describe import describe_margins
from hipslake.catalog.margin_change import MarginChange
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Margin
from hipslake.errors import ConflictError
from hipslake.specs.margin_spec import margin_name
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.margin.request import margin_files
from hipslake.steps.run import FrozenRun, RunFolder
from hipslake.storage.folder import Storage


def margins_made(folder: RunFolder) -> tuple[Margin, ...]:
    """Describe the margins that a run has made, in the order of its spec.

    Raises
    ------
    StepError
        If the spec asks for some, and the margin step has not run.
    """
    run, files = folder.run(), margin_files(folder)
    group = run.spec.column_groups[0].name
    named = {margin_name(run.spec.layout, group, arcsec): arcsec for arcsec in run.spec.margin.arcsec}
    return describe_margins(named, group, files, storage=Storage.at(run.catalog_uri), write_id=run.write_id)


def changed_margins(
    run: FrozenRun,
    base: CatalogMetadata | None,
    group: GroupMetadata,
    changes: Mapping[float, MarginChange],
    *,
    worked_out_on: int | None,
    write_id: str,
) -> tuple[Margin, ...]:
    """Describe the margins of a version after a change.

    Parameters
    ----------
    run : FrozenRun
    base : CatalogMetadata or None
        The version before it; None if there is none yet.
    group : GroupMetadata
        The primary column group as it will be.
    changes : mapping of float to MarginChange
        Per distance, in the order of the margins.
    worked_out_on : int or None
        The version that the changes were worked out on; None: there was none.
    write_id : str
        The write that made the changes; sidecars are written into its folder.

    Raises
    ------
    ConflictError
        If the changes do not fit to the base.
    """
    storage = Storage.at(run.catalog_uri)
    if base is not None and {margin.radius_arcsec for margin in base.margins} != set(changes):
        raise ConflictError("another run has added or taken away a margin")
    if base is not None and changes and base.version != worked_out_on:
        before = PixelTree(*base.groups[0].leaf_pixels()).tiling()
        after = PixelTree(*group.leaf_pixels()).tiling()
        for margin in base.margins:
            changes[margin.radius_arcsec].check_fits(margin, before, after, storage)
    return tuple(
        change.apply(
            base.margin(arcsec) if base else None,
            name=margin_name(run.spec.layout, group.name, arcsec),
            group=group.name,
            arcsec=arcsec,
            storage=storage,
            write_id=write_id,
        )
        for arcsec, change in changes.items()
    )
