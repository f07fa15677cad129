"""Margins of a published version: made beside it, and added by a commit of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from hipslake import __version__
from hipslake.catalog.committing import commit_next, newest_version, wait_for_others
from hipslake.catalog.describe import describe_margins
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.placement import stored_position
from hipslake.engine.model import Engine
from hipslake.errors import CatalogNotFoundError, ConflictError, SpecError, VersionNotFoundError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.margin_spec import distances_text
from hipslake.steps.ingest.write_request import DEFAULT_TARGET_BYTES, MAX_BLOCK_BYTES
from hipslake.steps.margin.build_margins import build_margins
from hipslake.steps.margin.request import missing_margins
from hipslake.steps.margin.state import MarginOrder
from hipslake.storage.folder import Storage
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import give_up
from hipslake.versions.writing import writing

log = logging.getLogger(__name__)


def add_margins(
    catalog: Storage,
    arcsec: tuple[float, ...],
    engine: Engine,
    *,
    tries: int = 10,
    task_bytes: int = DEFAULT_TARGET_BYTES,
    block_bytes: int = MAX_BLOCK_BYTES,
    library_version: str = __version__,
    began: Callable[[str], None] = lambda write_id: None,
) -> CatalogMetadata | None:
    """Add margins to the newest version of a catalog, by a commit of their own.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    arcsec : tuple of float
        Distances. Those at which the version has a margin already are passed over.
    engine : Engine
    tries : int
        How often it starts over after others have changed the catalog.
    task_bytes, block_bytes : int
        As for `MarginRequest`.
    library_version : str
    began : callable
        Is told the write id of every attempt, before anything can be committed under it.

    Returns
    -------
    CatalogMetadata or None
        The version that was committed; None if no margin was missing.

    Raises
    ------
    CatalogNotFoundError
        Nothing is published.
    SpecError
        The primary column group lacks the position columns, or another group is called like the margin.
    ConflictError
        Others kept changing the catalog.
    """
    for attempt in range(tries):
        base = newest_version(catalog)
        if base is None:
            raise CatalogNotFoundError(f"{catalog.uri()}: nothing is published; ingest the catalog first")
        radii = missing_margins(base, arcsec)
        if not radii:
            log.info("%s has these margins already: %s.", catalog.uri(), distances_text(arcsec))
            return None
        if attempt:
            wait_for_others(attempt)
        with suppress(VersionNotFoundError):  # overtaken, and vacuumed before it was pinned
            with writing(catalog) as write:
                began(write.id)
                write.pin.hold(base.version)
                order = _order_for(base, radii, write.id)
                leaves = base.groups[0].table(catalog)
                files = build_margins(
                    engine,
                    catalog,
                    order,
                    base.schema_of(),
                    leaves,
                    task_bytes=task_bytes,
                    block_bytes=block_bytes,
                )
                delete_temporary_files(catalog, write.id, 0, recursive=True)  # of killed task attempts
                named = dict(zip(order.names, order.radii, strict=True))
                margins = describe_margins(named, order.group, files, storage=catalog, write_id=write.id)
                draft = partial(_draft, catalog, base, margins, write.id, library_version)
                with suppress(ConflictError):
                    return commit_next(catalog, write.heartbeat, draft)
            log.info("Others have changed %s meanwhile.", catalog.uri())
            give_up(catalog, write.id)
    raise ConflictError(f"{catalog.uri()}: others changed the catalog {tries} times; try again later")


def _order_for(base: CatalogMetadata, radii: tuple[float, ...], write_id: str) -> MarginOrder:
    spec = CatalogSpec.model_validate(base.spec)
    schema = base.schema_of()
    position = stored_position(spec, schema)
    lacking = {position.ra, position.dec} - set(schema.names)
    if lacking:
        raise SpecError(
            f"catalog {base.catalog}: its first column group, {base.groups[0].name!r}, lacks position column "
            f"{', '.join(sorted(lacking))}, so it can have no margin; ingest it with the positions there"
        )
    order = MarginOrder(write_id=write_id, spec=spec, radii=radii)
    if taken := sorted({*order.names} & {group.name for group in base.groups}):
        raise SpecError(
            f"catalog {base.catalog}: column group {', '.join(taken)} is called like this margin; ingest it "
            "with another name of the group"
        )
    return order


def _draft(
    catalog: Storage,
    base: CatalogMetadata,
    margins: tuple[Margin, ...],
    write_id: str,
    library_version: str,
) -> CatalogMetadata:
    """The newest version with further margins; the rows are what they are."""
    newest = newest_version(catalog)
    assert newest is not None  # versions do not go away
    if newest.groups[0] != base.groups[0]:
        raise ConflictError(f"column group {base.groups[0].name!r} has changed")
    if any(newest.margin(margin.radius_arcsec) for margin in margins):
        raise ConflictError("another run has made the same margin")
    return newest.followed_by(write_id, library_version=library_version, margins=(*newest.margins, *margins))
