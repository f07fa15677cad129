"""The property files of HATS, of groups, margins, extensions, indices and collections.

Keys: IVOA Note "HATS: Hierarchical Adaptive Tiling Scheme", v1.0. Format: Java properties, UTF-8. What a spec
says in its block `hats` stands in them by the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.index import ROWS_COLUMN
from hipslake.catalog.indexed_leaves import hats_index_root
from hipslake.catalog.layouts import HATS, HATS_FOLDERS
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index, Margin
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import first_mistake
from hipslake.specs.hats_spec import LIST_DELIMITERS, HatsSpec
from hipslake.specs.margin_spec import text_of
from hipslake.specs.threshold import ThresholdUnit
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER

HATS_VERSION = "v1.0"
HATS_RELEASE = "2025-08-22"  # of that version of the note


def told_to_hats(metadata: CatalogMetadata) -> HatsSpec:
    """What the spec of a version says for HATS readers.

    Raises
    ------
    CatalogFormatError
        It says what this library does not know.
    """
    try:
        return HatsSpec.model_validate(metadata.spec.get("hats") or {})
    except ValidationError as error:
        raise CatalogFormatError(
            f"catalog {metadata.catalog}, version {metadata.version}: "
            f"{first_mistake(error, within='spec.hats')} (written by hipslake {metadata.library_version}); "
            "restore the file, or upgrade hipslake if it is older"
        ) from error


def map_orders(metadata: CatalogMetadata, point_map: PointMap) -> list[int]:
    """The orders of further maps: those that the spec asks for, and the map is fine enough for."""
    asked = told_to_hats(metadata).hats_skymap_alt_orders
    return [order for order in asked if order <= point_map.order]


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
    told = told_to_hats(metadata)
    largest = "hats_max_rows" if group.threshold.unit is ThresholdUnit.ROWS else "hats_max_bytes"
    return _text(
        {
            "obs_collection": group_name(metadata, group.name),
            "dataproduct_type": told.dataproduct_type if metadata.association is None else "association",
            **_association(metadata),
            "hats_nrows": group.rows,
            "hats_col_ra": position.icrs_ra,
            "hats_col_dec": position.icrs_dec,
            "hats_cols_default": " ".join(_default_columns(metadata, group, told)),
            "hats_cols_survey_id": " ".join(_stored(group, told.hats_cols_survey_id)),
            "hats_col_healpix": HEALPIX_COLUMN,
            "hats_col_healpix_order": MAX_ORDER,
            "hats_npix_suffix": _npix_suffix(metadata),
            "hats_order": max(group.pixels),
            largest: group.threshold.value,
            "hats_skymap_order": point_map.order,
            "hats_skymap_alt_orders": " ".join(map(str, map_orders(metadata, point_map))),
            "moc_sky_fraction": f"{point_map.sky_fraction:.9g}",
            "hats_estsize": -(-group.bytes // 1024),
            **_description(metadata, told),
            **_provenance(metadata),
        }
    )


def margin_properties(metadata: CatalogMetadata, margin: Margin) -> bytes:
    """The content of a margin's `hats.properties` and of its twin `properties`."""
    position, told = metadata.position, told_to_hats(metadata)
    return _text(
        {
            "obs_collection": f"{metadata.catalog}_{margin.name}",
            "dataproduct_type": "margin",
            "hats_nrows": margin.rows,
            "hats_primary_table_url": group_name(metadata, margin.group),
            "hats_margin_threshold": text_of(margin.radius_arcsec),
            "hats_col_ra": position.icrs_ra or "",
            "hats_col_dec": position.icrs_dec or "",
            "hats_cols_default": " ".join(_default_columns(metadata, metadata.group(margin.group), told)),
            "hats_col_healpix": HEALPIX_COLUMN,
            "hats_col_healpix_order": MAX_ORDER,
            "hats_npix_suffix": _npix_suffix(metadata),
            "hats_order": max(margin.pixels, default=0),
            "hats_estsize": -(-margin.bytes // 1024),
            **_description(metadata, told),
            **_provenance(metadata),
        }
    )


def extension_properties(metadata: CatalogMetadata, group: GroupMetadata) -> bytes:
    """The content of `<write>/<group>.properties`: a further group as columns for the primary's rows."""
    stored = group.to_arrow().names
    shared = set(metadata.groups[0].to_arrow().names)
    columns = [name for name in stored if name not in shared]
    listable = not any(set(name) & set(LIST_DELIMITERS) for name in columns)
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

    It lists the extensions (`all_extensions`) where the spec asks for that: readers up to hats 0.10 open no
    collection with a key that they do not know.
    """
    write, told = metadata.write_id, told_to_hats(metadata)
    extensions = {
        group.name: HATS.view_file(write, None, f"{group.name}.properties")
        for group in (metadata.groups[1:] if told.all_extensions else ())
    }
    margins = [HATS.group_root(write, margin.name) for margin in metadata.margins]
    roots = {index.column: hats_index_root(metadata, index) for index in metadata.indices}
    indices = {
        column: root for column, root in roots.items() if root and not set(column) & set(LIST_DELIMITERS)
    }
    description = _description(metadata, told)
    if metadata.spec.get("hats") is None:  # the file is held against this; those of older libraries have none
        del description["hats_coordinate_epoch"]
    return _text(
        {
            "obs_collection": metadata.catalog,
            "hats_primary_table_url": HATS.group_root(write, metadata.groups[0].name),
            "all_margins": " ".join(margins),
            "default_margin": margins[0] if margins else "",
            "all_indexes": " ".join(f"{column} {root}" for column, root in indices.items()),
            "default_index": next(iter(indices), ""),
            "all_extensions": " ".join(f"{name} {path}" for name, path in extensions.items()),
            **description,
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


def _default_columns(metadata: CatalogMetadata, group: GroupMetadata, told: HatsSpec) -> list[str]:
    """What readers read of a group if they are told nothing: with it, what places rows and joins groups."""
    named = _stored(group, told.hats_cols_default)
    if not named:
        return []
    position = metadata.position
    needed = [position.icrs_ra or "", position.icrs_dec or "", *([ROW_COLUMN] if metadata.groups[1:] else [])]
    return [*(name for name in needed if name not in named), *named]


def _stored(group: GroupMetadata, names: Sequence[str]) -> list[str]:
    there = set(group.to_arrow().names)
    return [name for name in names if name in there]


def _description(metadata: CatalogMetadata, told: HatsSpec) -> dict[str, str]:
    """What is said of the data, and of who made the catalog."""
    return {
        "obs_description": metadata.description,
        "obs_copyright": metadata.attribution,
        "hats_coordinate_epoch": _epoch(metadata),
        **told.texts(),
    }


def _epoch(metadata: CatalogMetadata) -> str:
    """The epoch of the positions that HATS readers take; that of rows is none where objects place them."""
    position = metadata.position
    known = position.epoch is not None and position.placed_by is None
    return f"J{position.epoch}" if known else ""


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
