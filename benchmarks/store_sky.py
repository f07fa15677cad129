"""A catalog of very many leaves in a store: simulated but for the leaves around one place."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import healpy
import numpy as np
import pyarrow as pa
from hipslake.catalog.describe import describe_group
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.schema import group_schema
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import MAX_ORDER
from hipslake.sphere.regions import Cone
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import POINTER, version_path

from benchmarks.catalog_scale import SOURCE, SPEC, WRITE, first_version, partitions

CONE = Cone(180.0, 65.0, radius_deg=1.0)
"""Where the simulated sky has few stars, as most of the real one has."""

LEAF_ROWS = 50_000
"""Rows of each leaf around the cone; the others are as large as they were planned."""

_ORDER, _LEAVES = 12, 4_000_000


class SimulatedSky(NamedTuple):
    """What lies in the store.

    Attributes
    ----------
    leaves : int
    sidecars : int
        Files that list them.
    met : int
        Leaves that the cone may have rows in.
    rows : int
        In the cone.
    """

    leaves: int
    sidecars: int
    met: int
    rows: int


def write_sky(root: str, leaves: int) -> SimulatedSky:
    """Write the catalog of about so many leaves, a power of four below 4 million, to a folder or URI."""
    storage = Storage.at(root)
    order = _ORDER - max(0, round(np.log2(_LEAVES / leaves) / 2))
    table = partitions(leaves, WRITE, order)
    schema = group_schema(SPEC, SOURCE, "main")
    table, met, rows = _with_real_leaves(storage, table, schema)
    group = describe_group(SPEC, "main", schema, table, storage=storage, write_id=WRITE)
    text = first_version(group, storage).to_json()
    for path in (version_path(1), POINTER):
        storage.write(path, text)
    return SimulatedSky(table.num_rows, len(group.sidecars or ()), met, rows)


def _with_real_leaves(storage: Storage, table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, int, int]:
    """Write the leaves that the cone meets; the table with their sizes, how many, and rows in the cone."""
    tree = PixelTree(table["order"].to_numpy(), table["npix"].to_numpy())
    met = np.flatnonzero(CONE.cover().intervals.touch(tree.start, tree.stop))
    options = write_options(SPEC.parquet, schema)
    columns = {name: table[name].to_numpy().copy() for name in ("rows", "bytes")}
    sums = {}
    inside = 0
    for at in met.tolist():
        rows = _rows_between(int(tree.start[at]), int(tree.stop[at]), schema)
        inside += int(np.count_nonzero(CONE.contains(rows["ra"].to_numpy(), rows["dec"].to_numpy())))
        data = encode_leaf([rows], schema, options).to_pybytes()
        storage.write(table["path"][at].as_py(), data)
        columns["rows"][at], columns["bytes"][at] = rows.num_rows, len(data)
        sums[at] = hashlib.sha256(data).hexdigest()
    told = table["sha256"].to_pylist()
    for at, digest in sums.items():
        told[at] = digest
    for name, values in {**columns, "sha256": pa.array(told)}.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values))
    return table, len(met), inside


def _rows_between(start: int, stop: int, schema: pa.Schema) -> pa.Table:
    """Rows spread evenly over a stretch of the curve."""
    h29 = np.sort(np.random.default_rng(start).integers(start, stop, LEAF_ROWS))
    ra, dec = healpy.pix2ang(1 << MAX_ORDER, h29, nest=True, lonlat=True)
    return pa.table({"_healpix_29": h29, "ra": ra, "dec": dec}).select(schema.names).cast(schema)
