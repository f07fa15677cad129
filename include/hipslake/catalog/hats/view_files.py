"""The HATS files of a group, which LSDB and other HATS readers need besides the leaf files.

`lsdb.open_catalog("<root>")` opens the primary group, the first of the spec. Every further group is a
catalog of its own, with the position columns repeated: `lsdb.open_catalog("<root>/<write>/<group>")`.
Its rows are those of the primary with the same `_row`, and `<write>/<group>.properties` says so in HATS's
own terms (an extension).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checksums import CHECKSUMS, checksum_list, checksum_of
from hipslake.catalog.hats.first_rows import THUMBNAIL, known_first_rows
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
from hipslake.catalog.leaf import encode_leaf, footer_votable, read_first_row, read_footer, write_options
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index, Margin
from hipslake.errors import VerificationError
from hipslake.exports.moc_encoding import moc_fits, moc_json
from hipslake.sources.conforming import conform
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

log = logging.getLogger(__name__)

THUMBNAIL_ROWS = 1000
MAX_FOOTER_BYTES = 256 << 20  # a `_metadata` of more takes readers longer to open than the catalog
_MARKER = "hats.properties"
_FOOTERS = "dataset/_metadata"


def write_hats_group(
    storage: Storage,
    metadata: CatalogMetadata,
    group: str,
    point_map: PointMap,
    *,
    older: CatalogMetadata | None = None,
) -> None:
    """Write the HATS files of a group into its folder in the version's write, wherever its leaf files lie.

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
    older : CatalogMetadata, optional
        Of a version whose tree is whole: of leaf files that it has too, no row is read. The outcome is the
        same.

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
    known = {} if older is None else known_first_rows(storage, older, group, schema)
    footers, first_rows = _read_leaves(storage, schema, partitions, THUMBNAIL_ROWS, known)
    if told_to_hats(metadata).per_partition_statistics:
        files |= _statistics(storage, schema, partitions)
    files |= {THUMBNAIL: _thumbnail(described, schema, first_rows)}
    properties = group_properties(metadata, described, point_map)
    files |= _dataset_files(schema, partitions, footers, properties)
    beside = {}
    if described != metadata.groups[0]:
        beside[extension_path(write, group)] = extension_properties(metadata, described)
    _write_files(storage, write, group, files, beside)


def write_hats_index(
    storage: Storage, metadata: CatalogMetadata, index: Index, write_id: str
) -> tuple[str, ...]:
    """Write the HATS files of an index beside it; return their paths, relative to the catalog's root."""
    placed = hats_index_files(storage, metadata, index, write_id)
    for path, data in placed.items():
        storage.write(path, data)
    return tuple(placed)


def hats_index_files(
    storage: Storage, metadata: CatalogMetadata, index: Index, write_id: str
) -> dict[str, bytes]:
    """The HATS files of an index, by path, with the list of their checksums last."""
    root = index_root(write_id, index.column)
    dataset = f"{root}/dataset/"
    footers = in_threads(storage, lambda file: read_footer(storage, file.path), index.files)
    schema = pq.read_schema(storage.arrow_path(index.files[0].path), filesystem=storage.arrow_filesystem())
    together = _empty_footer(schema)
    for file, footer in zip(index.files, footers, strict=True):
        footer.set_file_path(file.path.removeprefix(dataset))
        together.append_row_groups(footer)
    properties = index_properties(metadata, index)
    files = {
        "dataset/_metadata": _footer_file(together),
        "dataset/_common_metadata": _common_metadata(schema),
        "properties": properties,
        _MARKER: properties,
    }
    placed = {f"{root}/{name}": data for name, data in files.items()}
    placed[f"{root}/{CHECKSUMS}"] = _list_of(placed)
    return placed


def write_hats_margin(storage: Storage, metadata: CatalogMetadata, margin: Margin) -> None:
    """Write the HATS files of a margin into its folder in the version's write; a margin has no sky map.

    Parameters
    ----------
    storage, metadata
        As for `write_hats_group`.
    margin : Margin

    Raises
    ------
    VerificationError, CatalogFormatError
        As for `write_hats_group`.
    """
    partitions, schema = margin.table(storage), metadata.schema_of(margin.group)
    properties = margin_properties(metadata, margin)
    footers, _ = _read_leaves(storage, schema, partitions)
    files = _dataset_files(schema, partitions, footers, properties)
    _write_files(storage, metadata.write_id, margin.name, files)


def hats_markers(metadata: CatalogMetadata) -> list[str]:
    """The marker files of a complete HATS tree in a version's write: the last file of each group."""
    return [HATS.view_file(metadata.write_id, each.name, _MARKER) for each in metadata.with_files]


def _dataset_files(
    schema: pa.Schema, partitions: pa.Table, footers: bytes | None, properties: bytes
) -> dict[str, bytes]:
    """The files that every HATS catalog has, by their names in the catalog's folder."""
    return {
        **({_FOOTERS: footers} if footers is not None else {}),
        "partition_info.csv": _partition_info(partitions),
        "dataset/_common_metadata": _common_metadata(schema),
        "properties": properties,
        _MARKER: properties,
    }


def _write_files(
    storage: Storage,
    write: str,
    group: str,
    files: dict[str, bytes],
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Write files, then their checksums, and last the marker, which makes the folder a catalog."""
    placed = {HATS.view_file(write, group, name): data for name, data in files.items()}
    marker = HATS.view_file(write, group, _MARKER)
    last = placed.pop(marker)
    others = {**(beside or {}), **placed}
    others[HATS.view_file(write, group, CHECKSUMS)] = _list_of({**others, marker: last})
    for path, data in {**others, marker: last}.items():
        storage.write(path, data)


def _list_of(files: Mapping[str, bytes]) -> bytes:
    return checksum_list({path: checksum_of(data) for path, data in files.items()})


def extension_path(write: str, group: str) -> str:
    """The path of the file that describes how a further group joins the primary one."""
    return HATS.view_file(write, None, f"{group}.properties")


def _breadth_first(partitions: pa.Table) -> np.ndarray:
    return np.lexsort((partitions["npix"].to_numpy(), partitions["order"].to_numpy()))


def _partition_info(partitions: pa.Table) -> bytes:
    sorted_pixels = partitions.select(["order", "npix"]).take(pa.array(_breadth_first(partitions)))
    pixels = dict.fromkeys(  # a leaf with several files stands once
        zip(sorted_pixels["order"].to_pylist(), sorted_pixels["npix"].to_pylist(), strict=True)
    )
    return ("Norder,Npix\n" + "".join(f"{order},{npix}\n" for order, npix in pixels)).encode()


def _empty_footer(schema: pa.Schema) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, version="2.6") as writer:
        writer.add_key_value_metadata(footer_votable(schema).entries())
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def _common_metadata(schema: pa.Schema) -> bytes:
    return _footer_file(_empty_footer(schema))


def _footer_file(footer: pq.FileMetaData) -> bytes:
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)
    return bytes(sink.getvalue().to_pybytes())


def _statistics(storage: Storage, schema: pa.Schema, partitions: pa.Table) -> dict[str, bytes]:
    """The statistics of all leaf files, breadth-first, unless there are too many."""
    ordered = partitions.take(pa.array(_breadth_first(partitions)))
    order, npix, paths = (ordered[name].to_pylist() for name in ("order", "npix", "path"))
    footers = in_threads(storage, lambda path: read_footer(storage, path), paths)
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


def _read_leaves(
    storage: Storage,
    schema: pa.Schema,
    partitions: pa.Table,
    sampled: int = 0,
    known: Mapping[str, pa.RecordBatch] | None = None,
) -> tuple[bytes | None, list[pa.RecordBatch]]:
    """Open each leaf once, for the content of `dataset/_metadata` and for the rows of the thumbnail.

    Parameters
    ----------
    storage, schema, partitions
        Of a group or margin, in the order of the curve.
    sampled : int
        The number of leaves whose first row is wanted.
    known : mapping of str to pyarrow.RecordBatch, optional
        First rows by the paths of leaf files, which need not be read.

    Returns
    -------
    footers : bytes or None
        Every leaf's row groups in one footer, breadth-first, with paths relative to `dataset/`. None if it
        would be larger than `MAX_FOOTER_BYTES`, or if a file lacks a column that was added later, as one
        footer has one schema.
    first_rows : list of pyarrow.RecordBatch
        Of leaves spread evenly along the curve.
    """
    paths, counts = partitions["path"].to_pylist(), partitions["rows"].to_pylist()
    size = _joined_bytes(read_footer(storage, paths[0])) * len(paths) if paths else 0
    together = _empty_footer(schema) if size <= MAX_FOOTER_BYTES else None
    chosen = set(np.linspace(0, len(paths) - 1, min(sampled, len(paths))).round().astype(int).tolist())

    def look(place: int) -> tuple[int, pq.FileMetaData, pa.RecordBatch | None]:
        row = (known or {}).get(paths[place]) if place in chosen else None
        if place not in chosen or row is not None:
            return place, read_footer(storage, paths[place]), row
        footer, row = read_first_row(storage, paths[place])
        return place, footer, conform(row, schema, storage.uri(paths[place]))

    # Asked while the leaves are read: once there is no footer to make, only sampled leaves are opened.
    wanted = (at for at in _breadth_first(partitions).tolist() if together is not None or at in chosen)
    first_rows = {}
    for place, footer, first_row in in_threads(storage, look, wanted):
        if first_row is not None:
            first_rows[place] = first_row
        if together is None:
            continue
        if footer.num_rows != counts[place]:
            raise VerificationError(
                f"{storage.uri(paths[place])}: holds {footer.num_rows} rows where metadata.json says "
                f"{counts[place]}; restore the file or ingest again"
            )
        if footer.schema.equals(together.schema):
            footer.set_file_path(HATS.path_in_dataset(paths[place]))
            together.append_row_groups(footer)
        else:
            together = None
    footers = _footer_file(together) if together is not None else None
    return footers, [first_rows[place] for place in sorted(first_rows)]


def _thumbnail(group: GroupMetadata, schema: pa.Schema, first_rows: list[pa.RecordBatch]) -> bytes:
    table = pa.Table.from_batches(first_rows, schema).sort_by(HEALPIX_COLUMN)
    return bytes(encode_leaf([table], schema, write_options(group.parquet, schema)).to_pybytes())
