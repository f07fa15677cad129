"""Where the values of a column lie, by an index tree of others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from hipslake.catalog.foreign.foreign_leaves import ForeignLeaves
from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.foreign.hats_tree import tree_at
from hipslake.catalog.leaf_opening import read_errors
from hipslake.errors import CatalogFormatError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import InArray
from hipslake.predicates.pruning import pushed_down
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import starts, stops
from hipslake.storage.column_chunks import check_chunks

_PIXEL = ("Norder", "Npix")


def leaves_of_values(metadata: ForeignMetadata, column: str, wanted: pa.Array) -> Intervals | None:
    """The leaves that hold rows with some values of a column; None if no index of the column is named.

    Parameters
    ----------
    metadata : ForeignMetadata
    column : str
    wanted : pyarrow.Array
        Of the column's type.

    Raises
    ------
    CatalogNotFoundError
        The index is not there.
    CatalogFormatError
        It does not say in which leaves values lie.
    VerificationError
        A file of it is missing or damaged.
    """
    address = metadata.indices_of_others.get(column)
    if address is None:
        return None
    tree = tree_at(metadata.tree.storage, address)
    named = tree.properties.get("hats_index_column", column)
    leaves, storage = ForeignLeaves(tree), tree.storage
    names = leaves.stored_schema.names
    if not {named, *_PIXEL} <= set(names):
        raise CatalogFormatError(
            f"{tree.uri}: an index of {column!r} has the columns {named}, Norder and Npix; this one has "
            f"{', '.join(names)}"
        )
    paths = [storage.arrow_path(path) for path in leaves.listed.paths.to_pylist()]
    with read_errors(storage, tree.root):
        dataset = ds.dataset(paths, format="parquet", filesystem=storage.arrow_filesystem())
        kind = dataset.schema.field(named).type
        sought = InArray(named, wanted.cast(kind) if wanted.type != kind else wanted)
        for fragment in dataset.get_fragments():
            check_chunks(fragment, {named})
        skipping = pushed_down(sought, dataset.schema, dataset.schema)
        rows = dataset.to_table([named, *_PIXEL], filter=skipping)
    found = passing(sought, rows)
    order, npix = (found[name].cast(pa.int64()).to_numpy() for name in _PIXEL)
    pixels = np.unique(np.stack([order, npix], axis=1), axis=0) if len(order) else np.empty((0, 2), np.int64)
    return Intervals.union(starts(*pixels.T), stops(*pixels.T))
