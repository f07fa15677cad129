"""The tree of a version, built once more where its files were damaged."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from hipslake.catalog.hats.files import extension_path, write_hats_group, write_hats_margin
from hipslake.catalog.hats.skymap import write_skymap
from hipslake.catalog.layouts import HATS, skymap_path, tree_marker
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.tree import marker_text
from hipslake.specs.catalog_spec import Layout
from hipslake.steps.upkeep.hats_view import point_map_of, second_name
from hipslake.steps.upkeep.pointers import unchanged_of
from hipslake.storage.folder import Storage


def build_anew(catalog: Storage, metadata: CatalogMetadata, paths: Collection[str]) -> None:
    """Write files of a version's tree anew: names of leaf files, HATS files, markers, pictures.

    A name is given again only to a leaf file that is, by its checksum, the one that the version names.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a version that is pinned.
    paths : collection of str
        What is wrong; what is no part of the tree is left alone.

    Raises
    ------
    HipslakeError, pyarrow.ArrowException, FileNotFoundError
        A leaf file, or a coverage, is damaged.
    """
    wrong = set(paths)
    write = metadata.write_id
    for group in metadata.with_files:
        _name_again(catalog, metadata, group.table(catalog), wrong)
    if metadata.layout is Layout.HATS:
        point_map = None
        for group in metadata.with_files:
            root = HATS.group_root(write, group.name)
            mine = {path for path in wrong if path.startswith(f"{root}/") and "/dataset/Norder=" not in path}
            if isinstance(group, Margin):
                if mine:
                    write_hats_margin(catalog, metadata, group)
            elif mine or extension_path(write, group.name) in wrong:
                point_map = point_map or point_map_of(catalog, metadata, None)
                write_hats_group(catalog, metadata, group.name, point_map)
    elif tree_marker(write) in wrong:
        catalog.write(tree_marker(write), marker_text(metadata))
    for group in metadata.groups:
        if skymap_path(write, group.name) in wrong:
            write_skymap(catalog, metadata, group.name)


def _name_again(catalog: Storage, metadata: CatalogMetadata, partitions: pa.Table, wrong: set[str]) -> None:
    """Put leaf files of older writes into the tree where they are missing, or others stand in their place."""
    paths, in_tree = metadata.paths.of_other_writes(metadata.write_id, partitions["path"])
    sums = dict(zip(partitions["path"].to_pylist(), partitions["sha256"].to_pylist(), strict=True))
    for path, target in zip(paths.to_pylist(), in_tree.to_pylist(), strict=True):
        if target in wrong and catalog.sha256(path) == sums[path]:
            catalog.delete(target)
            second_name(catalog, (path, target), unchanged_of(metadata))
