"""Margins of the right sides of a cross-match that are made for one run, beside it.

The catalog of a right side may be of somebody else, or lie where nobody may write: it stays as it is. The
margins lie in the run folder, and go with it.
"""

from __future__ import annotations

import logging

from hipslake.catalog.joining.right_rows import BesideMargin
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.engine.model import Engine
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.join.frozen_sides import open_side
from hipslake.steps.join.request import FrozenSide
from hipslake.steps.margin.build_margins import build_margins
from hipslake.steps.margin.run import margin_order
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage

log = logging.getLogger(__name__)

_FILES = "files.parquet"


def build_margin_beside(folder: RunFolder, at: int, side: FrozenSide, arcsec: float, engine: Engine) -> None:
    """Build an exact margin of a version of a catalog in a run folder, anew.

    Parameters
    ----------
    folder : RunFolder
    at : int
        Which of the right sides it is, from 0.
    side : FrozenSide
        The version, which is pinned.
    arcsec : float
        How far it reaches.
    engine : Engine

    Raises
    ------
    SpecError
        The primary column group of the catalog lacks the position columns.
    """
    catalog = open_side(side)
    storage = _place(folder, at)
    folder.storage.delete_tree(_folder(at))
    order = margin_order(catalog.metadata, (arcsec,), FrozenRun.of(folder).write_id)
    order = order.model_copy(update={"leaves_uri": catalog.uri, "leaves_mounts": catalog.metadata.mounts})
    log.info("Catalog %s has no margin of %g arcsec: it is made for this run.", catalog.uri, arcsec)
    leaves = catalog.metadata.groups[0].table(catalog.storage)
    files = build_margins(engine, storage, order, catalog.metadata.schema_of(), leaves)
    write_table(storage, _FILES, files.select(PARTITION_SCHEMA.names).cast(PARTITION_SCHEMA))


def margin_beside(folder: RunFolder, at: int = 0) -> BesideMargin:
    """Return the margin that was built in a run folder, of a right side, from 0."""
    storage = _place(folder, at)
    return BesideMargin(storage, read_table(storage, _FILES))


def _place(folder: RunFolder, at: int) -> Storage:
    return folder.storage.sub(_folder(at))


def _folder(at: int) -> str:
    return f"join/margin_{at}" if at else "join/margin"
