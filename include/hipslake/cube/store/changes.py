"""Which partitions of a dataset are to be read again, since its source has changed.

A catalog says it by the checksums of its leaves. Whoever writes the partitions compares them with what
stands, so to name too many costs time and nothing else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.errors import CatalogNotFoundError, VersionNotFoundError


def touched_pixels(uri: str, before: int, after: int, order: int) -> NDArray[np.int64] | None:
    """The pixels of an order in which two versions of a catalog may have other rows.

    Parameters
    ----------
    uri : str
    before, after : int
        The versions.
    order : int

    Returns
    -------
    int64[n] or None
        Ascending. None: that cannot be told, as the older version is gone, or has other columns.
    """
    try:
        old, new = CatalogReader.open(uri, before), CatalogReader.open(uri, after)
    except (CatalogNotFoundError, VersionNotFoundError):
        return None
    if [each.name for each in old.metadata.groups] != [each.name for each in new.metadata.groups]:
        return None
    found = [np.zeros(0, np.int64)]
    for mine, other in zip(old.metadata.groups, new.metadata.groups, strict=True):
        if mine.to_arrow() != other.to_arrow():
            return None
        left, right = mine.table(old.storage), other.table(new.storage)
        keys = _keys(left), _keys(right)
        for table, own, others in ((left, *keys), (right, *keys[::-1])):
            found.append(_pixels(table.filter(pc.invert(pc.is_in(own, value_set=others))), order))
    return np.unique(np.concatenate(found))


def _keys(files: pa.Table) -> pa.Array:
    """What tells a leaf file from others, wherever it lies: its pixel, and its checksum."""
    texts = [files["order"].cast(pa.string()), files["npix"].cast(pa.string()), files["sha256"]]
    return pc.binary_join_element_wise(*texts, "/").combine_chunks()


def _pixels(files: pa.Table, order: int) -> NDArray[np.int64]:
    """The pixels of an order that overlap leaves."""
    depth, npix = files["order"].to_numpy().astype(np.int64), files["npix"].to_numpy().astype(np.int64)
    down = np.maximum(0, order - depth)
    first = (npix >> (2 * np.maximum(0, depth - order))) << (2 * down)
    count = np.int64(1) << (2 * down)
    begin = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(begin, count)
    pixels: NDArray[np.int64] = np.repeat(first, count) + within
    return pixels
