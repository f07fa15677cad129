"""A little catalog on disk, made with the library's functions but planned by the plainest of loops."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from hipslake.catalog.describe import describe_group, describe_position, describe_sources
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.hats.properties import collection_properties
from hipslake.catalog.hats.view_files import write_hats_group
from hipslake.catalog.layouts import HATS, layout_paths
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.partitions import COVERAGE_SCHEMA, PARTITION_SCHEMA, Sidecar, write_sidecar
from hipslake.catalog.schema import check_columns
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import Pixel, order29
from hipslake.storage.folder import Storage

WRITE = "20261121T0330-7f3a"


def sky(rows: int, *, seed: int = 7, cap: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Positions in degrees: the whole sky with a crowded band, or a cap around the north pole."""
    rng = np.random.default_rng(seed)
    ra = rng.uniform(0, 360, rows)
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    dec[: rows // 2] = rng.normal(10, 4, rows // 2)
    if cap is not None:
        dec = 90 - cap * np.sqrt(rng.uniform(0, 1, rows))
    return ra, dec


def write_little(
    storage: Storage,
    source: pa.Table,
    degrees: tuple[np.ndarray, np.ndarray],
    /,
    *,
    encode: Callable[[list[pa.Table], pa.Schema, dict[str, Any]], pa.Buffer] = encode_leaf,
    rows: np.ndarray | None = None,
    **fields: Any,
) -> CatalogMetadata:
    """Write a table's leaf files and, with layout hats, the HATS files; the metadata comes back.

    `encode` makes a file of row groups, of a schema and of the writer's options; `rows` has the `_row` of
    each row of the table, if that is not its place.
    """
    spec = CatalogSpec.model_validate(
        {"name": "stars", "source": {"uri": "x", "format": "parquet"}, "threshold": "400 rows"} | fields
    )
    index = order29(*degrees)
    order = np.lexsort((np.arange(len(index)), index))
    index = index[order]
    added = {
        "_healpix_29": index,
        "ra_icrs": degrees[0][order],
        "dec_icrs": degrees[1][order],
        "_row": order if rows is None else rows[order],
    }
    groups = []
    for name, schema in check_columns(spec, source.schema).items():
        columns = [added[c] if c in added else source[c].take(pa.array(order)) for c in schema.names]
        table = pa.table(columns, schema=schema)
        options = write_options(spec.parquet, schema)
        partitions = []
        for pixel, start, stop in leaves(index, spec.threshold_of(name).value):
            path = layout_paths(spec.layout).partition_path(WRITE, name, pixel)
            most = spec.parquet.row_group_rows
            row_groups = [table.slice(at, min(most, stop - at)) for at in range(start, stop, most)]
            data = encode(row_groups, schema, options).to_pybytes()
            storage.write(path, data)
            partitions.append((*pixel, path, stop - start, len(data), hashlib.sha256(data).hexdigest()))
        files = pa.table(list(zip(*partitions, strict=True)), names=PARTITION_SCHEMA.names)
        groups.append(describe_group(spec, name, schema, files, storage=storage, write_id=WRITE))
    files = pa.table({"uri": ["x"], "size": [1], "stamp": ["s"], "rows": [len(index)]})
    metadata = CatalogMetadata(
        catalog=spec.name,
        version=1,
        write_id=WRITE,
        created=datetime(2026, 11, 21, 3, 30, tzinfo=UTC),
        fingerprint="f" * 64,
        library_version="0.1.0",
        description=spec.description,
        attribution=spec.attribution,
        layout=spec.layout,
        position=describe_position(spec, source.schema),
        total_rows=len(index),
        total_bytes=sum(group.bytes for group in groups),
        groups=tuple(groups),
        increments=(
            Increment(
                ordinal=0,
                rows=len(index),
                write_id=WRITE,
                fingerprint="f" * 64,
                sources=describe_sources(files, storage=storage, write_id=WRITE),
                coverage=coverage(storage, index),
            ),
        ),
        spec=spec.model_dump(mode="json"),
    )
    if spec.layout == "hats":
        for name in (group.name for group in groups):
            write_hats_group(storage, metadata, name, point_map(index))
        storage.write(HATS.COLLECTION, collection_properties(metadata))
    return metadata


def coverage(storage: Storage, index: np.ndarray) -> Sidecar:
    """Where the rows of sorted order-29 pixels lie, as a sidecar of the write."""
    found = point_map(index)
    columns = {"order": [found.order] * len(found.npix), "npix": found.npix, "rows": found.rows}
    return write_sidecar(storage, WRITE, "coverage", pa.table(columns, schema=COVERAGE_SCHEMA))


def point_map(index: np.ndarray) -> PointMap:
    """The map of sorted order-29 pixels."""
    npix, rows = np.unique(index >> (2 * (29 - 10)), return_counts=True)
    return PointMap.from_cells(np.full(len(npix), 10), npix, rows)


def leaves(index: np.ndarray, threshold: int) -> list[tuple[Pixel, int, int]]:
    """Leaf pixels of at most `threshold` rows, and their rows [start, stop) of the sorted index."""
    found = []
    waiting = [Pixel(0, npix) for npix in range(11, -1, -1)]
    while waiting:
        pixel = waiting.pop()
        start, stop = (int(edge) for edge in np.searchsorted(index, pixel.interval))
        if stop - start > threshold:
            waiting += pixel.children()[::-1]
        elif stop > start:
            found.append((pixel, start, stop))
    return found
