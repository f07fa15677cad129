"""Leaf files of an earlier version that a new one may name again: whether they are there as they would be."""

from __future__ import annotations

import pyarrow as pa

from hipslake.catalog.leaf import read_footer
from hipslake.catalog.metadata import GroupMetadata, Margin
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

WRITER = f"parquet-cpp-arrow version {pa.cpp_version}"
"""What the footers say of files that are written now."""


def why_not_kept(catalog: Storage, described: GroupMetadata | Margin, which: str) -> str | None:
    """Why the files of a column group or margin cannot be named again; None if they can.

    They are listed, and the footer of one is read.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    described : GroupMetadata or Margin
        Of an earlier version, whose files are all of one writer.
    which : str
        The version, in words.
    """
    files = described.table(catalog)
    paths, sizes = files["path"].to_pylist(), files["bytes"].to_pylist()
    folders = dict.fromkeys("/".join(path.split("/")[:2]) for path in paths)  # of each write, its group
    lists = in_threads(catalog, lambda folder: catalog.list(folder, recursive=True), folders)
    found = {entry.path: entry.size for entries in lists for entry in entries}
    for path, size in zip(paths, sizes, strict=True):
        if found.get(path) != size:
            return f"{path}, of {which}, is missing or has another size than it had"
    if paths and (writer := read_footer(catalog, paths[0], sizes[0]).created_by) != WRITER:
        return f"{described.name} of {which} was written by {writer}, and files are written by {WRITER} now"
    return None
