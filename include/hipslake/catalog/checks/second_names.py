"""Whether leaf files of older writes are what they are under their names in a version's own tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checks.threads import in_threads
from hipslake.catalog.checks.version_files import text_of
from hipslake.catalog.layouts import tree_marker
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.tree import lies_in_own_write, marker_text
from hipslake.specs.catalog_spec import Layout
from hipslake.storage.folder import Storage
from hipslake.versions.files import CURRENT


class _Name(NamedTuple):
    path: str
    in_tree: str
    bytes: int
    sha256: str


def second_name_problems(
    storage: Storage, metadata: CatalogMetadata, partitions: pa.Table
) -> Iterator[Problem]:
    """What is wrong with a tree that was built: its names that are missing, and copies that are none.

    A hard link is the file itself, and is not read again; nor is an object of which the store says so.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a version whose tree was built.
    partitions : pyarrow.Table
        `PARTITION_SCHEMA`, of a group or margin.
    """
    found = in_threads(lambda name: _problem(storage, name), _names(metadata, partitions))
    return (problem for problem in found if problem is not None)


def marker_problems(storage: Storage, metadata: CatalogMetadata) -> Iterator[Problem]:
    """What is wrong with the file that says that a tree of layout hipscat is whole; parameters as above."""
    if metadata.layout is Layout.HATS or lies_in_own_write(metadata):
        return
    path = tree_marker(metadata.write_id)
    data = text_of(storage, path)
    if data is None and storage.symlink_target(CURRENT) == metadata.write_id:
        yield Problem.of(ProblemKind.VIEW, path, "is missing, though `current` leads there", repairable=True)
    elif data not in (None, marker_text(metadata)):
        message = "does not say what the tree holds"
        yield Problem.of(ProblemKind.VIEW, path, message, readers=False, repairable=True)


def _names(metadata: CatalogMetadata, partitions: pa.Table) -> Iterator[_Name]:
    paths, in_tree = metadata.paths.of_other_writes(metadata.write_id, partitions["path"])
    if not len(paths):
        return
    at = pc.index_in(paths, value_set=partitions["path"].combine_chunks())
    rows = partitions.select(["bytes", "sha256"]).take(at)
    columns = (paths, in_tree, rows["bytes"], rows["sha256"])
    for path, second, size, digest in zip(*(column.to_pylist() for column in columns), strict=True):
        yield _Name(path, second, size, digest)


def _problem(storage: Storage, name: _Name) -> Problem | None:
    with suppress(FileNotFoundError):  # of the file itself, if it is the one that is missing
        if storage.is_same_file(name.path, name.in_tree):
            return None
    try:
        if storage.entry(name.in_tree).size == name.bytes and storage.sha256(name.in_tree) == name.sha256:
            return None
        wrong = f"is no copy of {name.path}"
    except (FileNotFoundError, IsADirectoryError):
        wrong = f"is missing: it is the name of {name.path} in the tree of the version"
    return Problem.of(ProblemKind.VIEW, name.in_tree, wrong, repairable=True)
