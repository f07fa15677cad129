"""The property files of HATS, of groups, margins, extensions, indices and collections.

Keys: IVOA Note "HATS: Hierarchical Adaptive Tiling Scheme", v1.0. Format: Java properties, UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping

from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.index import ROWS_COLUMN, hats_index_root
from hipslake.catalog.layouts import HATS, HATS_FOLDERS
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index, Margin
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import CatalogFormatError
from hipslake.specs.margin_spec import text_of
from hipslake.specs.threshold import ThresholdUnit
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER

HATS_VERSION = "v1.0"
_LIST_DELIMITERS = " ,;\n"  # lists of names have no way to quote them
HATS_RELEASE = "2025-08-22"  # of that version of the note


def group_name(metadata: CatalogMetadata, group: str) -> str:
    """The name of a group for HATS readers: that of the catalog for the primary group."""
    primary = metadata.groups[0].name == group
    return metadata.catalog if primary else f"{metadata.catalog}_{group}"


def group_properties(metadata: CatalogMetadata, group: GroupMetadata, point_map: PointMap) -> bytes:
    """The content of `hats.properties` and of its twin `properties`.

    Raises
    ------
    CatalogFormatError
        The catalog stores no ICRS degrees, so no HATS reader could place its rows.
    """
    position = metadata.position
    if position.icrs_ra is None or position.icrs_dec is None:
        raise CatalogFormatError(
            f"catalog {metadata.catalog}: no columns hold ICRS degrees; only layout 'hats' adds them"
        )
    largest = "hats_max_rows" if group.threshold.unit is ThresholdUnit.ROWS else "hats_max_bytes"
    return _text(
        {
            "obs_collection": group_name(metadata, group.name),
            "dataproduct_type": "object" if metadata.association is None else "association",
            **_association(metadata),
            "hats_nrows": group.rows,
            "hats_col_ra": position.icrs_ra,
            "hats_col_dec": position.icrs_dec,
            "hats_col_healpix": HEALPIX_COLUMN,
            "hats_col_healpix_order": MAX_ORDER,
            "hats_npix_suffix": _npix_suffix(metadata),
            "hats_order": max(group.pixels),
            largest: group.threshold.value,
            "hats_skymap_order": point_map.order,
            "moc_sky_fraction": f"{point_map.sky_fraction:.9g}",
            "hats_estsize": -(-group.bytes // 1024),
            "obs_description": metadata.description,
            "obs_copyright": metadata.attribution,
            **_provenance(metadata),
        }
    )


def margin_properties(metadata: CatalogMetadata, margin: Margin) -> bytes:
    """The content of a margin's `hats.properties` and of its twin `properties`."""
    position = metadata.position
    return _text(
        {
            "obs_collection": f"{metadata.catalog}_{margin.name}",
            "dataproduct_type": "margin",
            "hats_nrows": margin.rows,
            "hats_primary_table_url": group_name(metadata, margin.group),
            "hats_margin_threshold": text_of(margin.radius_arcsec),
            "hats_col_ra": position.icrs_ra or "",
            "hats_col_dec": position.icrs_dec or "",
            "hats_col_healpix": HEALPIX_COLUMN,
            "hats_col_healpix_order": MAX_ORDER,
            "hats_npix_suffix": _npix_suffix(metadata),
            "hats_order": max(margin.pixels, default=0),
            "hats_estsize": -(-margin.bytes // 1024),
            "obs_description": metadata.description,
            "obs_copyright": metadata.attribution,
            **_provenance(metadata),
        }
    )


def extension_properties(metadata: CatalogMetadata, group: GroupMetadata) -> bytes:
    """The content of `<write>/<group>.properties`: a further group as columns for the primary's rows."""
    stored = group.to_arrow().names
    shared = set(metadata.groups[0].to_arrow().names)
    columns = [name for name in stored if name not in shared]
    listable = not any(set(name) & set(_LIST_DELIMITERS) for name in columns)
    return _text(
        {
            "obs_collection": group.name,
            "dataproduct_type": "extension",
            "hats_primary_table_url": metadata.catalog,
            "hats_col_assn_primary": ROW_COLUMN,
            "hats_assn_join_table_url": group.name,
            "hats_col_assn_join": ROW_COLUMN,
            "hats_ext_cols": " ".join(columns) if listable else "",
            "hats_ext_join_style": "inner",
            "hats_ext_shares_primary_coords": "true",
            **_provenance(metadata),
        }
    )


def index_properties(metadata: CatalogMetadata, index: Index) -> bytes:
    """The content of `hats.properties` of an index."""
    return _text(
        {
            "obs_collection": f"{metadata.catalog}_{index.column}_index",
            "dataproduct_type": "index",
            "hats_nrows": index.rows,
            "hats_primary_table_url": metadata.catalog,
            "hats_index_column": index.column,
            "hats_index_extra_column": f"{HEALPIX_COLUMN} {ROWS_COLUMN}",
            "hats_estsize": -(-index.bytes // 1024),
            **_provenance(metadata),
        }
    )


def collection_properties(metadata: CatalogMetadata) -> bytes:
    """The content of `collection.properties` at the catalog's root: the pointer of HATS readers.

    It does not list the extensions (`all_extensions`): readers up to hats 0.10 open no collection with a key
    that they do not know, and those after it list extensions, but read none.
    """
    write = metadata.write_id
    margins = [HATS.group_root(write, margin.name) for margin in metadata.margins]
    roots = {index.column: hats_index_root(metadata, index) for index in metadata.indices}
    indices = {
        column: root for column, root in roots.items() if root and not set(column) & set(_LIST_DELIMITERS)
    }
    return _text(
        {
            "obs_collection": metadata.catalog,
            "hats_primary_table_url": HATS.group_root(write, metadata.groups[0].name),
            "all_margins": " ".join(margins),
            "default_margin": margins[0] if margins else "",
            "all_indexes": " ".join(f"{column} {root}" for column, root in indices.items()),
            "default_index": next(iter(indices), ""),
            "obs_description": metadata.description,
            "obs_copyright": metadata.attribution,
            **_provenance(metadata),
        }
    )


def primary_table_url(collection: bytes) -> bytes:
    """The path of the primary tree in a `collection.properties`; indices may lie in older writes."""
    key = b"hats_primary_table_url="
    lines = (line for line in collection.splitlines() if line.startswith(key))
    return next(lines, key).removeprefix(key)


def _association(metadata: CatalogMetadata) -> dict[str, str | int]:
    """The properties of an association of two catalogs; empty for other catalogs."""
    association = metadata.association
    if association is None:
        return {}
    return {
        "hats_primary_table_url": association.primary_uri,
        "hats_col_assn_primary": association.primary_column,
        "hats_col_assn_primary_assn": association.primary_column_here,
        "hats_assn_join_table_url": association.join_uri,
        "hats_col_assn_join": association.join_column,
        "hats_col_assn_join_assn": association.join_column_here,
        "hats_assn_max_separation": f"{association.max_separation_arcsec:g}",
        "hats_assn_leaf_files": "true",
    }


def _npix_suffix(metadata: CatalogMetadata) -> str:
    return HATS_FOLDERS.SUFFIX if metadata.gathers else HATS.SUFFIX


def _provenance(metadata: CatalogMetadata) -> dict[str, str]:
    return {
        "hats_builder": f"hipslake v{metadata.library_version}",
        "hats_creation_date": f"{metadata.created:%Y-%m-%dT%H:%M}UTC",
        "hats_release_date": HATS_RELEASE,
        "hats_version": HATS_VERSION,
    }


def _text(properties: Mapping[str, str | int]) -> bytes:
    """Java properties; keys without a value are left out."""
    lines = [f"{key}={_escaped(str(value))}\n" for key, value in properties.items() if value != ""]
    return "".join(lines).encode()


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return "\\" + escaped if escaped.startswith(" ") else escaped
