"""The rows of a catalog, as readers get them that know nothing of hipslake: by the paths of docs/reading.md.

A **place** is the folder that the paths begin with: `<catalog>/current`, or what `Catalog.path` gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hipslake import Catalog
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import TreeNotFoundError
from s3fs import S3FileSystem

from tests.steps.margins import stored_margin

Rows = Counter[tuple[object, ...]]
Reader = Callable[[str, str], pa.Table]
"""From a layout and a glob to the rows of the files that it finds."""


def glob_of(place: str, layout: str, name: str) -> str:
    """The files of a column group or margin, as the README and docs/formats.md name them."""
    if layout == "hats":
        return f"{place}/{name}/dataset/**/*.parquet"
    return f"{place}/Norder=*/Npix=*/{name}.parquet"


def by_pyarrow(layout: str, glob: str) -> pa.Table:
    """By plain pyarrow: a folder in layout hats; the files of a glob in layout hipscat."""
    if layout == "hats":
        return ds.dataset(glob.removesuffix("/**/*.parquet"), format="parquet").to_table()
    root = Path(glob.partition("/Norder=")[0])
    files = sorted(str(path) for path in root.glob(glob.removeprefix(f"{root}/")))
    assert files, f"{glob} finds nothing"
    return ds.dataset(files, format="parquet").to_table()


def by_pyarrow_in_store(layout: str, glob: str) -> pa.Table:
    """The same in a bucket."""
    files = S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    if layout == "hats":
        place = glob.removesuffix("/**/*.parquet").removeprefix("s3://")
        return ds.dataset(place, format="parquet", filesystem=files).to_table()
    found = sorted(files.glob(glob))
    assert found, f"{glob} finds nothing"
    return ds.dataset(found, format="parquet", filesystem=files).to_table()


def names_of(metadata: CatalogMetadata) -> list[str]:
    """All that has leaf files: column groups and margins."""
    return [each.name for each in metadata.with_files]


def rows_of(table: pa.Table, names: list[str]) -> Rows:
    """The multiset of rows."""
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def expected_rows(catalog: Catalog, name: str) -> Rows:
    """What hipslake itself reads of a group, and, as nothing else reads them, the files of a margin."""
    if name in catalog.groups:
        return rows_of(catalog.read(group=name), catalog.schema_of(name).names)
    margin = next(each for each in catalog.metadata.margins if each.name == name)
    found: Rows = Counter()
    for table in stored_margin(catalog, margin).values():
        found += rows_of(table, catalog.schema_of(margin.group).names)
    return found


def assert_same_rows(catalog: Catalog, place: str, *readers: Reader) -> None:
    """Check that the paths below a place give the rows of a version, of every group and margin."""
    layout = catalog.metadata.layout.value
    for name in names_of(catalog.metadata):
        expected = expected_rows(catalog, name)
        margin = next((each for each in catalog.metadata.margins if each.name == name), None)
        columns = catalog.schema_of(margin.group if margin else name).names
        if not expected:  # a margin without rows has no file
            assert margin is not None
            continue
        for reader in readers or (by_pyarrow,):
            found = rows_of(reader(layout, glob_of(place, layout, name)), columns)
            assert found == expected, (
                f"{place}, {name}: {found.total()} rows in place of {expected.total()}; "
                f"{(found - expected).total()} too many"
            )


def shown_version(root: Path) -> Catalog | None:
    """The version that `current` leads to."""
    link = root / "current"
    if not link.is_symlink():
        return None
    versions = [Catalog.open(root, version=number) for number in Catalog.open(root).versions()]
    return next(each for each in versions if each.metadata.write_id == str(link.readlink()))


def assert_current_is_whole(root: Path, *readers: Reader) -> None:
    """Check that `current` leads to a version and has its rows; or that a note stands in its place."""
    shown = shown_version(root)
    note = root / "current.txt"
    if shown is None:
        newest = Catalog.open(root).metadata
        assert f"version {newest.version} of catalog {newest.catalog}" in note.read_text()
        return
    assert not note.exists()
    assert_same_rows(shown, str(root / "current"), *readers)


def assert_current_is_newest(root: Path, *readers: Reader) -> None:
    """Check that `current` and `Catalog.path` have the rows of the newest version."""
    catalog = Catalog.open(root)
    shown = shown_version(root)
    assert shown is not None
    assert shown.version == catalog.version
    assert_current_is_whole(root, *readers)
    assert_same_rows(catalog, catalog.path(), *readers)


def assert_no_current(root: Path) -> None:
    """Check that no path leads to a part of the newest version, and that it is said where to look."""
    assert shown_version(root) is None
    assert not (root / "collection.properties").exists()
    assert_current_is_whole(root)
    with pytest.raises(TreeNotFoundError, match=r"no folder holds all of version|has no row"):
        Catalog.open(root).path()
