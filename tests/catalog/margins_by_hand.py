"""Margins made the plainest way: every row outside a pixel that lies within a distance of a disc around it.

That is a little more than the exact margin, which is as good for who looks for partners in it.
"""

from __future__ import annotations

import hashlib

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.layouts import HATS
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.metadata import CatalogMetadata, Margin, Partition
from hipslake.catalog.partitions import pixel_ranges, pixels_in
from hipslake.catalog.placement import icrs_position
from hipslake.sphere.coordinates import to_icrs_degrees
from hipslake.sphere.pixels import Pixel
from hipslake.storage.folder import Storage


def with_margin(storage: Storage, metadata: CatalogMetadata, radius_arcsec: float) -> CatalogMetadata:
    """The metadata with a margin of the primary group, whose files are written."""
    group = metadata.groups[0]
    schema = group.to_arrow()
    paths = metadata.partitions(None, storage)["path"].to_pylist()
    rows = pa.concat_tables([read(storage, path, schema) for path in paths])
    keys = rows["_healpix_29"].to_numpy()
    place = icrs_position(metadata)
    lon, lat = (rows[name].to_numpy() for name in (place.ra, place.dec))
    ra, dec = to_icrs_degrees(lon, lat, unit=place.unit, frame=place.frame)
    directions = healpy.ang2vec(ra, dec, lonlat=True)
    name = f"{group.name}_{radius_arcsec:g}arcs"
    partitions = []
    for order, npix in pixels_with_margin(*pixels_in(group.pixels)):
        pixel = Pixel(order, npix)
        start, stop = pixel.interval
        centre = np.array(healpy.pix2vec(1 << order, npix, nest=True))
        reach = healpy.max_pixrad(1 << order) + np.radians(radius_arcsec / 3600)
        near = np.arccos(np.clip(directions @ centre, -1, 1)) <= reach
        near &= (keys < start) | (keys >= stop)
        if near.any():
            data = encode_leaf(
                [rows.filter(pa.array(near))], schema, write_options(group.parquet, schema)
            ).to_pybytes()
            path = HATS.partition_path(metadata.write_id, name, pixel)
            storage.write(path, data)
            digest = hashlib.sha256(data).hexdigest()
            partitions.append(
                Partition(
                    order=order, npix=npix, path=path, rows=int(near.sum()), bytes=len(data), sha256=digest
                )
            )
    margin = Margin(
        name=name,
        group=group.name,
        radius_arcsec=radius_arcsec,
        rows=sum(partition.rows for partition in partitions),
        bytes=sum(partition.bytes for partition in partitions),
        files=len(partitions),
        pixels=pixel_ranges(
            np.array([part.order for part in partitions]), np.array([part.npix for part in partitions])
        ),
        partitions=tuple(partitions),
    )
    _write_hats_files(storage, metadata, margin, schema)
    return metadata.model_copy(update={"margins": (*metadata.margins, margin)})


def _write_hats_files(storage: Storage, metadata: CatalogMetadata, margin: Margin, schema: pa.Schema) -> None:
    """What LSDB needs to open the margin."""
    place = icrs_position(metadata)
    properties = {
        "obs_collection": f"{metadata.catalog}_{margin.name}",
        "dataproduct_type": "margin",
        "hats_nrows": margin.rows,
        "hats_col_ra": place.ra,
        "hats_col_dec": place.dec,
        "hats_primary_table_url": metadata.catalog,
        "hats_margin_threshold": margin.radius_arcsec,
    }
    pixels = "".join(f"{part.order},{part.npix}\n" for part in margin.partitions or ())
    common = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), common)
    for file, content in {
        "hats.properties": "".join(f"{key}={value}\n" for key, value in properties.items()).encode(),
        "partition_info.csv": f"Norder,Npix\n{pixels}".encode(),
        "dataset/_common_metadata": common.getvalue(),
    }.items():
        storage.write(HATS.view_file(metadata.write_id, margin.name, file), content)


def read(storage: Storage, path: str, schema: pa.Schema) -> pa.Table:
    """A leaf file whole."""
    with storage.open(path) as file:
        table = pq.read_table(file)
    for field in schema:
        if field.name not in table.column_names:  # the column came later than the file
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names).cast(schema)


def pixels_with_margin(order: np.ndarray, npix: np.ndarray) -> list[tuple[int, int]]:
    """The leaves, and the largest pixels without any."""
    leaves = set(zip(order.tolist(), npix.tolist(), strict=True))
    parents = {(o - up, n >> (2 * up)) for o, n in leaves for up in range(1, o + 1)}
    found, waiting = [], [(0, base) for base in range(12)]
    while waiting:
        pixel = waiting.pop()
        if pixel in parents:
            waiting += [(pixel[0] + 1, 4 * pixel[1] + child) for child in range(4)]
        else:
            found.append(pixel)
    return found
