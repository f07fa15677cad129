"""Margins of a run that names leaf files of an earlier version again: margin files stay as leaves do.

Only margins near leaves that came or went can be others. These are made of the margins that stand there and
of the leaves that came: so no leaf that stays is opened, nor any other margin file. The outcome is, to the
byte, that of margins which are made whole.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange, MarginChange
from hipslake.catalog.kept_files import why_not_kept
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA, curve_sorted, leaf_spans
from hipslake.engine.model import Engine
from hipslake.specs.margin_spec import text_of
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import borders_of
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.ingest.draft import FILES_SCHEMA
from hipslake.steps.margin.build_margins import MarginUpdate, UnclearMarginError
from hipslake.steps.margin.state import MarginOrder
from hipslake.storage.folder import Storage

log = logging.getLogger(__name__)


class KeptMargins(NamedTuple):
    """Margins that went on from those of an earlier version.

    Attributes
    ----------
    files : pyarrow.Table
        All of their files, `FILES_SCHEMA`.
    kept : int
        Those of earlier writes.
    """

    files: pa.Table
    kept: int


def kept_margins(
    catalog: Storage,
    base: CatalogMetadata,
    order: MarginOrder,
    schema: pa.Schema,
    leaves: pa.Table,
    engine: Engine,
) -> KeptMargins | str:
    """Make the margins of leaves of which some are those of an earlier version; or say why they cannot go on.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    base : CatalogMetadata
        The earlier version, whose leaves have the schema and the form of these.
    order : MarginOrder
    schema : pyarrow.Schema
        Of the column group, whose rows have no numbers.
    leaves : pyarrow.Table
        Its partitions, `PARTITION_SCHEMA`.
    engine : Engine
    """
    margins = []
    for arcsec, name in zip(order.radii, order.names, strict=True):
        margin = base.margin(arcsec)
        if margin is None or (margin.name, margin.group) != (name, order.group):
            return f"version {base.version} has no margin of {text_of(arcsec)} arcsec"
        if (lost := why_not_kept(catalog, margin, f"version {base.version}")) is not None:
            return lost
        margins.append(margin)
    change = _change(base.group(order.group).table(catalog), leaves)
    if change.added.num_rows == leaves.num_rows:
        return "all leaves were written anew"
    _clear(catalog, order)
    came, went = (_borders(table, max(order.radii)) for table in (change.added, change.removed))
    spans = [Intervals.union(*leaf_spans(table)) for table in (change.added, change.removed)]
    update = MarginUpdate(
        catalog=catalog,
        order=order,
        schema=schema,
        group=base.group(order.group),
        margins=tuple(margins),
        change=change,
        came=came,
        went=went,
        changed=Intervals.together(spans),
    )
    try:
        changes = update.run(engine)
    except UnclearMarginError as error:
        return str(error)
    files = pa.concat_tables(
        [_files_after(margin, changes[margin.radius_arcsec], catalog) for margin in margins]
    )
    kept = files.num_rows - (pc.sum(pc.starts_with(files["path"], f"{order.write_id}/")).as_py() or 0)
    log.info("%d of %d margin files are those of version %d or before.", kept, len(files), base.version)
    return KeptMargins(files, kept)


def _clear(catalog: Storage, order: MarginOrder) -> None:
    """Delete what an earlier attempt has written, as these margins may have fewer files in this write."""
    layout = layout_paths(order.spec.layout)
    for name in order.names:
        for entry in catalog.glob(layout.leaf_glob(order.write_id, name)):
            catalog.delete(entry.path)


def _change(before: pa.Table, leaves: pa.Table) -> GroupChange:
    """The leaf files that only one of two versions has."""
    there, here = (
        pc.is_in(one["path"], value_set=other["path"].combine_chunks())
        for one, other in ((before, leaves), (leaves, before))
    )
    removed, added = before.filter(pc.invert(there)), leaves.filter(pc.invert(here))
    return GroupChange(removed, added, PARTITION_SCHEMA.empty_table())


def _borders(leaves: pa.Table, arcsec: float) -> PixelTree:
    """Where rows lie that may be in the margin of another pixel."""
    order, npix = (leaves[name].to_numpy().astype(np.int64) for name in ("order", "npix"))
    return PixelTree(*borders_of(order, npix, arcsec))


def _files_after(margin: Margin, change: MarginChange, catalog: Storage) -> pa.Table:
    """The files of a margin after a change, as `FILES_SCHEMA`, along the curve."""
    before = margin.table(catalog)
    gone = pc.is_in(before["path"], value_set=change.removed["path"].combine_chunks())
    files = curve_sorted(pa.concat_tables([before.filter(pc.invert(gone)), change.added]))
    return files.add_column(0, "margin", pa.array([margin.name] * len(files), pa.string())).cast(FILES_SCHEMA)
