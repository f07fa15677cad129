"""The HATS files of a group, which LSDB and other HATS readers need besides the leaf files.

`lsdb.open_catalog("<root>")` opens the primary group, the first of the spec. Every further group is a
catalog of its own, with the position columns repeated: `lsdb.open_catalog("<root>/<write>/<group>")`.
Its rows are those of the primary with the same `_row`, and `<write>/<group>.properties` says so in HATS's
own terms (an extension).
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checksums import CHECKSUMS, checksum_list, checksum_of
from hipslake.catalog.hats.first_rows import THUMBNAIL
from hipslake.catalog.hats.joined_footers import (
    FOOTERS,
    PARTS,
    FooterJoin,
    FooterPart,
    breadth_first,
    known_parts,
    parts_file,
)
from hipslake.catalog.hats.known_leaves import NOTHING_KNOWN, KnownLeaves
from hipslake.catalog.hats.partition_statistics import (
    MOST_CHUNKS,
    STATISTICS_FILE,
    LeafFooter,
    statistics_file,
)
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.hats.properties import (
    extension_properties,
    group_properties,
    index_properties,
    map_orders,
    margin_properties,
    told_to_hats,
)
from hipslake.catalog.layouts import HATS, index_root
from hipslake.catalog.leaf import LeafEnds, encode_leaf, read_first_row, read_footer, write_options
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index, IndexFile, Margin
from hipslake.errors import VerificationError
from hipslake.exports.moc_encoding import moc_fits, moc_json
from hipslake.sources.conforming import conform
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.storage.request_pool import RequestPool
from hipslake.storage.small_files import in_threads, together

log = logging.getLogger(__name__)

Markers = dict[str, bytes]
"""The last files of groups and margins, by path."""
Awaited = Callable[[], Mapping[str, bytes]]
"""Waits for files, by path, that are to be stored side by side with others."""

THUMBNAIL_ROWS = 1000
MAX_FOOTER_BYTES = 256 << 20  # a `_metadata` of more takes readers longer to open than the catalog
_MARKER = "hats.properties"


def write_hats_group(
    storage: Storage,
    metadata: CatalogMetadata,
    group: str,
    point_map: PointMap,
    *,
    known: KnownLeaves | None = None,
) -> None:
    """Write the HATS files of a group into its folder in the version's write, wherever its leaf files lie.

    The last is the marker, which makes the folder a catalog. Parameters and errors as of
    `write_group_but_marker`.
    """
    _complete(storage, write_group_but_marker(storage, metadata, group, point_map, known=known))


def write_group_but_marker(
    storage: Storage,
    metadata: CatalogMetadata,
    group: str,
    point_map: PointMap,
    *,
    known: KnownLeaves | None = None,
    awaited: Awaited = dict,
) -> Markers:
    """Write the HATS files of a group but for the marker, which is returned.

    A second call writes the same bytes.

    The files are `hats.properties` and its copy `properties`, `partition_info.csv`, `point_map.fits` and its
    copy `skymap.fits`, `moc.fits` and `moc.json` (the pixels that these cover), `data_thumbnail.parquet` (the
    first rows of leaves spread evenly along the curve), `dataset/_common_metadata`, and `dataset/_metadata`
    unless it would be larger than `MAX_FOOTER_BYTES` or a file is older than a column; where the spec asks
    for them, maps of other orders and `per_partition_statistics.parquet`; for a group that is not the primary
    also the extension file that joins it to the primary by `_row`; and `SHA256SUMS`, the checksums of all.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    group : str
    point_map : PointMap
        Rows per pixel, from the run's histogram.
    known : KnownLeaves, optional
        What need not be read of leaf files. The outcome is the same.
    awaited : callable, optional
        Gives further files, which are stored side by side with those of the group, and first on a disk.

    Raises
    ------
    VerificationError
        A leaf file holds another number of rows than the metadata says.
    CatalogFormatError
        A leaf file has no readable footer, or the catalog stores no ICRS degrees.
    """
    write = metadata.write_id
    described, schema = metadata.group(group), metadata.schema_of(group)
    partitions = metadata.partitions(group, storage)
    fits = point_map.to_fits()
    files = {"point_map.fits": fits, "skymap.fits": fits}
    files |= {
        f"skymap.{order}.fits": point_map.coarser(order).to_fits()
        for order in map_orders(metadata, point_map)
    }
    covered = point_map.covered, point_map.order
    files |= {"moc.fits": moc_fits(*covered), "moc.json": moc_json(*covered)}
    told = known or NOTHING_KNOWN
    footers, first_rows = _read_leaves(storage, schema, partitions, told, group, THUMBNAIL_ROWS)
    if told_to_hats(metadata).per_partition_statistics:
        files |= _statistics(storage, schema, partitions, told)
    files |= {THUMBNAIL: _thumbnail(described, schema, first_rows)}
    properties = group_properties(metadata, described, point_map)
    files |= _dataset_files(FooterJoin(schema), partitions, footers, properties)
    beside = {}
    if described != metadata.groups[0]:
        beside[extension_path(write, group)] = extension_properties(metadata, described)
    return _write_files(storage, write, group, files, beside, awaited)


def write_hats_index(
    storage: Storage, metadata: CatalogMetadata, index: Index, write_id: str, *, older: Index | None = None
) -> tuple[str, ...]:
    """Write the HATS files of an index beside it; return their paths, relative to the catalog's root.

    Files that an older index has too are not opened; the outcome is the same.
    """
    placed = hats_index_files(storage, metadata, index, write_id, older)
    together(storage, *(partial(storage.write, path, data) for path, data in placed.items()))
    return tuple(placed)


def hats_index_files(
    storage: Storage, metadata: CatalogMetadata, index: Index, write_id: str, older: Index | None = None
) -> dict[str, bytes]:
    """The HATS files of an index, by path, with the list of their checksums last."""
    root = index_root(write_id, index.column)
    dataset = f"{root}/dataset/"
    schema = pq.read_schema(storage.arrow_path(index.files[0].path), filesystem=storage.arrow_filesystem())
    join = FooterJoin(schema)
    known = {}
    if older is not None and older.others:
        beside = partial(posixpath.join, index_root(older.others[0].partition("/")[0], older.column))
        known = known_parts(storage, beside, join, [file.sha256 for file in older.files])

    def part_of(file: IndexFile) -> FooterPart:
        part = known.get(file.sha256)
        if part is not None:
            return part
        return join.part(read_footer(storage, file.path, file.bytes), file.path.removeprefix(dataset))

    parts = list(in_threads(storage, part_of, index.files))
    properties = index_properties(metadata, index)
    files = {
        FOOTERS: join.joined(parts),
        PARTS: parts_file(parts),
        "dataset/_common_metadata": join.empty,
        "properties": properties,
        _MARKER: properties,
    }
    placed = {f"{root}/{name}": data for name, data in files.items()}
    if index.others:  # as it was written by whatever library
        placed = {path: data for path, data in placed.items() if path in index.others}
    placed[f"{root}/{CHECKSUMS}"] = _list_of(placed)
    return placed


def write_hats_margin(
    storage: Storage, metadata: CatalogMetadata, margin: Margin, *, known: KnownLeaves | None = None
) -> None:
    """Write the HATS files of a margin, the marker last; parameters as of `write_margin_but_marker`."""
    _complete(storage, write_margin_but_marker(storage, metadata, margin, known=known))


def write_margin_but_marker(
    storage: Storage,
    metadata: CatalogMetadata,
    margin: Margin,
    *,
    known: KnownLeaves | None = None,
    awaited: Awaited = dict,
) -> Markers:
    """Write the HATS files of a margin into its folder in the version's write; a margin has no sky map.

    The marker is not written, but returned.

    Parameters
    ----------
    storage, metadata, known, awaited
        As for `write_group_but_marker`.
    margin : Margin

    Raises
    ------
    VerificationError, CatalogFormatError
        As for `write_hats_group`.
    """
    partitions, schema = margin.table(storage), metadata.schema_of(margin.group)
    properties = margin_properties(metadata, margin)
    footers, _ = _read_leaves(storage, schema, partitions, known or NOTHING_KNOWN, margin.name)
    files = _dataset_files(FooterJoin(schema), partitions, footers, properties)
    return _write_files(storage, metadata.write_id, margin.name, files, {}, awaited)


def hats_markers(metadata: CatalogMetadata) -> list[str]:
    """The marker files of a complete HATS tree in a version's write: the last file of each group."""
    return [HATS.view_file(metadata.write_id, each.name, _MARKER) for each in metadata.with_files]


def _dataset_files(
    join: FooterJoin, partitions: pa.Table, footers: dict[str, FooterPart] | None, properties: bytes
) -> dict[str, bytes]:
    """The files that every HATS catalog has, by their names in the catalog's folder."""
    joined = {}
    if footers is not None:
        joined = {FOOTERS: join.joined(tuple(footers.values())), PARTS: parts_file(footers.values())}
    return {
        **joined,
        "partition_info.csv": _partition_info(partitions),
        "dataset/_common_metadata": join.empty,
        "properties": properties,
        _MARKER: properties,
    }


def _write_files(
    storage: Storage,
    write: str,
    group: str,
    files: dict[str, bytes],
    beside: Mapping[str, bytes],
    awaited: Awaited,
) -> Markers:
    """Write files and their checksums; the marker, which makes the folder a catalog, is returned."""
    placed = {HATS.view_file(write, group, name): data for name, data in files.items()}
    marker = HATS.view_file(write, group, _MARKER)
    last = placed.pop(marker)
    others = {**beside, **placed}
    others[HATS.view_file(write, group, CHECKSUMS)] = _list_of({**others, marker: last})
    others = {**awaited(), **others}
    together(storage, *(partial(storage.write, path, data) for path, data in others.items()))
    return {marker: last}


def _complete(storage: Storage, markers: Markers) -> None:
    for path, data in markers.items():
        storage.write(path, data)


def _list_of(files: Mapping[str, bytes]) -> bytes:
    return checksum_list({path: checksum_of(data) for path, data in files.items()})


def extension_path(write: str, group: str) -> str:
    """The path of the file that describes how a further group joins the primary one."""
    return HATS.view_file(write, None, f"{group}.properties")


def _partition_info(partitions: pa.Table) -> bytes:
    sorted_pixels = partitions.select(["order", "npix"]).take(pa.array(breadth_first(partitions)))
    pixels = dict.fromkeys(  # a leaf with several files stands once
        zip(sorted_pixels["order"].to_pylist(), sorted_pixels["npix"].to_pylist(), strict=True)
    )
    return ("Norder,Npix\n" + "".join(f"{order},{npix}\n" for order, npix in pixels)).encode()


def _statistics(
    storage: Storage, schema: pa.Schema, partitions: pa.Table, told: KnownLeaves
) -> dict[str, bytes]:
    """The statistics of all leaf files, breadth-first, unless there are too many."""
    ordered = partitions.take(pa.array(breadth_first(partitions)))
    order, npix, paths, sizes = (ordered[name].to_pylist() for name in ("order", "npix", "path", "bytes"))
    footers = in_threads(
        storage, lambda file: _footer(storage, *file, told.written), zip(paths, sizes, strict=True)
    )
    leaves: list[LeafFooter] = []
    chunks = 0
    for at, footer in enumerate(footers):
        leaves.append(LeafFooter(order[at], npix[at], footer))
        chunks += footer.num_row_groups * footer.num_columns
        if chunks > MOST_CHUNKS:
            log.warning(
                "%s is left out: there are more than %d columns of row groups.", STATISTICS_FILE, MOST_CHUNKS
            )
            return {}
    return {STATISTICS_FILE: statistics_file(leaves, schema)}


def _joined_bytes(footer: pq.FileMetaData) -> int:
    """What a footer adds to one of all files: its own entries stand there once."""
    entries = footer.metadata or {}
    return int(footer.serialized_size) - sum(len(key) + len(value) for key, value in entries.items())


def _footer(storage: Storage, path: str, size: int, written: Mapping[str, LeafEnds]) -> pq.FileMetaData:
    return written[path].footer if path in written else read_footer(storage, path, size)


def _read_leaves(
    storage: Storage,
    schema: pa.Schema,
    partitions: pa.Table,
    told: KnownLeaves,
    name: str,
    sampled: int = 0,
) -> tuple[dict[str, FooterPart] | None, list[pa.RecordBatch]]:
    """Open leaves once, for the content of `dataset/_metadata` and for the rows of the thumbnail.

    Parameters
    ----------
    storage, schema, partitions
        Of a group or margin, in the order of the curve.
    told : KnownLeaves
        What need not be read.
    name : str
        Of the group or margin.
    sampled : int
        The number of leaves whose first row is wanted.

    Returns
    -------
    footers : dict of str to FooterPart, or None
        Every leaf's row groups, breadth-first, with paths relative to `dataset/`. None if together they would
        be larger than `MAX_FOOTER_BYTES`, or if a file lacks a column that was added later, as one footer has
        one schema.
    first_rows : list of pyarrow.RecordBatch
        Of leaves spread evenly along the curve.
    """
    paths, counts, sizes = (partitions[name].to_pylist() for name in ("path", "rows", "bytes"))
    known, known_rows, written = told.parts.get(name, {}), told.first_rows.get(name, {}), told.written

    size = _joined_bytes(_footer(storage, paths[0], sizes[0], written)) * len(paths) if paths else 0
    join = FooterJoin(schema)
    footers: dict[str, FooterPart] | None = {} if size <= MAX_FOOTER_BYTES else None
    chosen = set(np.linspace(0, len(paths) - 1, min(sampled, len(paths))).round().astype(int).tolist())

    def look(place: int) -> tuple[int, FooterPart | None, pa.RecordBatch | None]:
        """The part of a leaf, unless it has other columns; and its first row, if that is wanted."""
        path, row, footer = paths[place], None, None
        if place in chosen and (row := known_rows.get(path)) is None:
            ends = written.get(path)
            footer, row = ends or read_first_row(storage, path, sizes[place], pool)
            row = conform(row, schema, storage.uri(path))
        part = known.get(path)
        if part is None or part.rows != counts[place]:
            footer = footer or _footer(storage, path, sizes[place], written)
            if footer.num_rows != counts[place]:
                raise VerificationError(
                    f"{storage.uri(path)}: holds {footer.num_rows} rows where metadata.json says "
                    f"{counts[place]}; restore the file or ingest again"
                )
            part = join.part(footer, HATS.path_in_dataset(path)) if join.takes(footer) else None
        return place, part, row

    # Asked while the leaves are read: once there is no footer to make, only sampled leaves are opened.
    wanted = (at for at in breadth_first(partitions).tolist() if footers is not None or at in chosen)
    first_rows = {}
    with RequestPool() as pool:
        for place, part, first_row in in_threads(storage, look, wanted):
            if first_row is not None:
                first_rows[place] = first_row
            if part is None:
                footers = None
            elif footers is not None:
                footers[paths[place]] = part
    return footers, [first_rows[place] for place in sorted(first_rows)]


def _thumbnail(group: GroupMetadata, schema: pa.Schema, first_rows: list[pa.RecordBatch]) -> bytes:
    table = pa.Table.from_batches(first_rows, schema).sort_by(HEALPIX_COLUMN)
    return bytes(encode_leaf([table], schema, write_options(group.parquet, schema)).to_pybytes())
