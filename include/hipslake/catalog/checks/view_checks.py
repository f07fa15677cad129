"""Whether the tree of a version, for readers that go by folders, is whole and says what its metadata says.

That is: HATS files beside the leaves, names of leaf files of older writes, and pictures. Checked where they
lie: before the publish step there are none, and a view may be built after its version.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checksums import CHECKSUMS, checksum_of, listed_checksums
from hipslake.catalog.hats.joined_footers import FOOTERS, PARTS
from hipslake.catalog.hats.partition_statistics import STATISTICS_FILE
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.hats.properties import told_to_hats
from hipslake.catalog.hats.view_files import extension_path
from hipslake.catalog.layouts import HATS, skymap_path, tree_marker
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index, Margin
from hipslake.catalog.view_tree import lies_in_own_write, marker_text, writes_of_pointers
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.pixels import Pixel
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads, text_of
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import CURRENT, head, is_signed, version_path

_OF_ALL = ("hats.properties", "properties", "partition_info.csv", "dataset/_common_metadata")
_OF_GROUPS = ("point_map.fits", "skymap.fits", "data_thumbnail.parquet")
_COVERAGE = ("moc.fits", "moc.json")  # trees of older libraries have none
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND"

Check = Callable[[bytes], str]


def hats_problems(
    storage: Storage, metadata: CatalogMetadata, group: GroupMetadata | Margin, partitions: pa.Table
) -> Iterator[Problem]:
    """What is wrong with the HATS files of a group or margin: their checksums, and what they say.

    That is row counts, pixels, footers and maps. Where neither of the last two files is there, no view was
    built.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    group : GroupMetadata or Margin
    partitions : pyarrow.Table
        `PARTITION_SCHEMA`.
    """
    if metadata.layout is not Layout.HATS or metadata.adopted is not None:
        return
    is_margin = isinstance(group, Margin)
    write = metadata.write_id
    names = _OF_ALL if is_margin else _OF_ALL + _OF_GROUPS
    needed = [HATS.view_file(write, group.name, name) for name in names]
    footers = HATS.view_file(write, group.name, FOOTERS)  # there may be none
    if not is_margin and group.name != metadata.groups[0].name:
        needed.append(extension_path(write, group.name))
    listing = HATS.view_file(write, group.name, CHECKSUMS)
    further = [PARTS] if is_margin else [PARTS, *_further(metadata)]
    others = [HATS.view_file(write, group.name, name) for name in further]
    files = _read(storage, [*needed, *others, footers, listing])
    if needed[0] not in files and (listing not in files or _is_not_shown_yet(storage, metadata)):
        return  # never built, or not to its end: nobody is led there
    checks: dict[str, Check] = {
        "hats.properties": lambda data: _properties(data, group.rows),
        "properties": lambda data: _properties(data, group.rows),
        "partition_info.csv": lambda data: _pixels(data, partitions),
        "dataset/_common_metadata": _parquet,
        "data_thumbnail.parquet": _parquet,
        "point_map.fits": lambda data: _map(data, group.rows),
        "skymap.fits": lambda data: _map(data, group.rows),
        FOOTERS: lambda data: _footers(data, partitions),
        **dict.fromkeys(further, _no_problem),
    }
    placed = {HATS.view_file(write, group.name, name): check for name, check in checks.items()}
    yield from _problems(files, needed, listing, placed, expected=_has_lists(storage, metadata))


def _further(metadata: CatalogMetadata) -> list[str]:
    """Names of files that a group may have, which their checksums say all of."""
    told = told_to_hats(metadata)
    maps = [f"skymap.{order}.fits" for order in told.hats_skymap_alt_orders]
    return [*_COVERAGE, *maps, *([STATISTICS_FILE] if told.per_partition_statistics else [])]


def _no_problem(data: bytes) -> str:
    return ""


def hats_index_problems(storage: Storage, index: Index) -> Iterator[Problem]:
    """What is wrong with the HATS files of an index; parameters as above."""
    if not index.others:
        return
    listing = next((path for path in index.others if path.endswith(f"/{CHECKSUMS}")), None)
    root = index.others[0].removesuffix(f"/{FOOTERS}")
    needed = [path for path in index.others if path != listing]
    checks: dict[str, Check] = {
        "hats.properties": lambda data: _properties(data, index.rows),
        "properties": lambda data: _properties(data, index.rows),
        "dataset/_common_metadata": _parquet,
        FOOTERS: lambda data: _entries(data, index.rows),
    }
    files = _read(storage, index.others)
    placed = {f"{root}/{name}": check for name, check in checks.items()}
    yield from _problems(files, needed, listing or "", placed, expected=listing is not None)


def _read(storage: Storage, paths: Collection[str]) -> dict[str, bytes]:
    """The files that there are."""
    texts = in_threads(storage, lambda path: text_of(storage, path), paths)
    return {path: text for path, text in zip(paths, texts, strict=True) if text is not None}


def _is_not_shown_yet(storage: Storage, metadata: CatalogMetadata) -> bool:
    """Whether a version is the newest, and nothing leads to its view: that may still be under way."""
    is_newest = VersionLog(storage).newest() == metadata.version
    return is_newest and metadata.write_id not in writes_of_pointers(storage)


def _has_lists(storage: Storage, metadata: CatalogMetadata) -> bool:
    """Whether a version is so young that what is shown of it has lists of checksums."""
    data = text_of(storage, version_path(metadata.version))
    if data is None or not is_signed(data):
        return False
    try:
        return head(data, "").get("write_id") == metadata.write_id
    except CatalogFormatError:
        return False


def _problems(
    files: Mapping[str, bytes],
    needed: Collection[str],
    listing: str,
    checks: Mapping[str, Check],
    *,
    expected: bool,
) -> Iterator[Problem]:
    """What is wrong with some files that belong together.

    Parameters
    ----------
    files : mapping of str to bytes
        Those that there are, by path.
    needed : collection of str
        Those that there have to be.
    listing : str
        Their list of checksums.
    checks : mapping of str to callable
        What a file says is wrong, by path; "" if nothing is.
    expected : bool
        Whether there has to be a list.
    """
    sums = listed_checksums(files[listing]) if listing in files else {}
    if sums and not {*needed} <= sums.keys() <= {*needed, *checks}:
        sums = None
    if sums is None:
        yield _wrong(listing, "is damaged, or of other files", readers=False)
    elif not sums and expected:
        yield _wrong(listing, "is missing", readers=False)
    optional = {path for path in checks if path in files}
    for path in sorted({*needed, *(sums or {}), *optional}):
        if path not in files:
            yield _wrong(path, "is missing, though the view was built")
            continue
        said = _said(files[path], checks[path]) if path in checks else ""
        if sums and checksum_of(files[path]) != sums.get(path):
            why = said or f"{listing} has another SHA-256"
            yield _wrong(path, f"is not the file that was written: {why}")
        elif said:
            yield _wrong(path, said)


def _said(data: bytes, check: Check) -> str:
    """The problem that a check finds in the content of a file; "" if there is none."""
    try:
        return check(data)
    except (pa.ArrowException, OSError, ValueError, KeyError, CatalogFormatError) as error:
        return f"cannot be read ({(str(error).strip() or type(error).__name__).splitlines()[0]})"


def _wrong(path: str, message: str, *, readers: bool = True) -> Problem:
    return Problem.of(ProblemKind.VIEW, path, message, readers=readers, repairable=True)


def _properties(data: bytes, rows: int) -> str:
    lines = [line for line in data.decode().splitlines() if "=" in line and not line.startswith("#")]
    values = {key.strip(): value.strip() for key, value in (line.split("=", 1) for line in lines)}
    said = values.get("hats_nrows")
    return "" if said == str(rows) else f"hats_nrows is {said}, but there are {rows} rows"


def _pixels(data: bytes, partitions: pa.Table) -> str:
    table = pa.csv.read_csv(pa.BufferReader(data))
    listed = set(zip(table["Norder"].to_pylist(), table["Npix"].to_pylist(), strict=True))
    leaves = set(zip(partitions["order"].to_pylist(), partitions["npix"].to_pylist(), strict=True))
    if listed == leaves and table.num_rows == len(leaves):
        return ""
    first = Pixel(*min(listed ^ leaves)) if listed != leaves else "a pixel that stands twice"
    return (
        f"lists {table.num_rows} pixels that are not the {len(leaves)} leaves; the first to differ: {first}"
    )


def _parquet(data: bytes) -> str:
    pq.read_metadata(pa.BufferReader(data))
    return ""


def _map(data: bytes, rows: int) -> str:
    counted = int(PointMap.from_fits(data).rows.sum())
    return "" if counted == rows else f"counts {counted} rows, but there are {rows}"


def _entries(data: bytes, rows: int) -> str:
    counted = pq.read_metadata(pa.BufferReader(data)).num_rows
    return "" if counted == rows else f"counts {counted} entries, but there are {rows}"


def _footers(data: bytes, partitions: pa.Table) -> str:
    footer = pq.read_metadata(pa.BufferReader(data))
    chunks = ColumnChunks(footer)
    found: dict[str, int] = {}
    for number in range(footer.num_row_groups):
        path = chunks(number, 0).file_path
        found[path] = found.get(path, 0) + footer.row_group(number).num_rows
    paths = map(HATS.path_in_dataset, partitions["path"].to_pylist())
    leaves = dict(zip(paths, partitions["rows"].to_pylist(), strict=True))
    if found == leaves:
        return ""
    path = min(set(found.items()) ^ set(leaves.items()))[0]
    return f"counts {found.get(path, 0)} rows in {path}, where metadata.json says {leaves.get(path, 0)}"


class _SecondName(NamedTuple):
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
    found = in_threads(
        storage, lambda name: _second_name_problem(storage, name), _second_names(metadata, partitions)
    )
    return (problem for problem in found if problem is not None)


def marker_problems(storage: Storage, metadata: CatalogMetadata) -> Iterator[Problem]:
    """What is wrong with the file that says that a tree of layout hipscat is whole; parameters as above."""
    if metadata.layout is Layout.HATS or lies_in_own_write(metadata):
        return
    path = tree_marker(metadata.write_id)
    data = text_of(storage, path)
    if data is None and storage.symlink_target(CURRENT) == metadata.write_id:
        yield _wrong(path, "is missing, though `current` leads there")
    elif data not in (None, marker_text(metadata)):
        yield _wrong(path, "does not say what the tree holds", readers=False)


def _second_names(metadata: CatalogMetadata, partitions: pa.Table) -> Iterator[_SecondName]:
    paths, in_tree = metadata.paths.of_other_writes(metadata.write_id, partitions["path"])
    if not len(paths):
        return
    at = pc.index_in(paths, value_set=partitions["path"].combine_chunks())
    rows = partitions.select(["bytes", "sha256"]).take(at)
    columns = (paths, in_tree, rows["bytes"], rows["sha256"])
    for path, second, size, digest in zip(*(column.to_pylist() for column in columns), strict=True):
        yield _SecondName(path, second, size, digest)


def _second_name_problem(storage: Storage, name: _SecondName) -> Problem | None:
    with suppress(FileNotFoundError):  # of the file itself, if it is the one that is missing
        if storage.is_same_file(name.path, name.in_tree):
            return None
    try:
        if storage.entry(name.in_tree).size == name.bytes and storage.sha256(name.in_tree) == name.sha256:
            return None
        wrong = f"is no copy of {name.path}"
    except FileNotFoundError:
        wrong = f"is missing: it is the name of {name.path} in the tree of the version"
    return _wrong(name.in_tree, wrong)


def picture_problems(storage: Storage, metadata: CatalogMetadata) -> Iterator[Problem]:
    """What is wrong with the sky maps of a version; a version may have none.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    """
    for group in metadata.groups:
        path = skymap_path(metadata.write_id, group.name)
        data = text_of(storage, path)
        if data is not None and not is_whole_picture(data):
            yield _wrong(path, "is no whole picture", readers=False)


def is_whole_picture(data: bytes) -> bool:
    """Whether a PNG file is, bit by bit, what was written."""
    if not data.startswith(_PNG_SIGNATURE):
        return False
    at, kind = len(_PNG_SIGNATURE), b""
    while kind != _PNG_END:
        length = int.from_bytes(data[at : at + 4], "big")
        end = at + 12 + length
        kind, part, checksum = data[at + 4 : at + 8], data[at + 4 : end - 4], data[end - 4 : end]
        if end > len(data) or zlib.crc32(part) != int.from_bytes(checksum, "big"):
            return False
        at = end
    return at == len(data)
