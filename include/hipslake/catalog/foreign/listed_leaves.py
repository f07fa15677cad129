"""The leaves of a foreign tree: their pixels and paths, by the shortest way that its files offer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.foreign.hats_tree import HatsTree
from hipslake.errors import CatalogFormatError, VerificationError
from hipslake.sphere.pixels import MAX_ORDER, starts, stops
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.entry import Entry
from hipslake.storage.parquet_failures import damage_as_error

_INFO = "partition_info.csv"
_METADATA = "_metadata"
_LEAF = re.compile(r"(?:^|/)Norder=(\d{1,2})/(?:Dir=\d+/)?Npix=(\d{1,19})(?:[./]|$)")
_DIR_PIXELS = 10_000
_NO_LEAVES = (_METADATA, "_common_metadata")


@dataclass(frozen=True)
class ListedLeaves:
    """Leaves along the curve; of indices, whose files lie nowhere on the sky, in the order of their names.

    Attributes
    ----------
    order, npix : int64[n]
        Of indices, made up: ascending pixels of order 29.
    paths : pyarrow.Array
        string[n], relative to the storage of the tree; folders where a leaf is one.
    rows, bytes : int64[n] or None
        Where the files that were looked at tell them.
    """

    order: NDArray[np.int64]
    npix: NDArray[np.int64]
    paths: pa.Array
    rows: NDArray[np.int64] | None = None
    bytes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.order)


def has_folders(tree: HatsTree) -> bool:
    """Whether each leaf of a tree is a folder of files."""
    return tree.properties.get("hats_npix_suffix", ".parquet") == "/"


def list_leaves(tree: HatsTree) -> ListedLeaves:
    """The leaves of a tree: by `partition_info.csv`, else by `_metadata`, else by a listing.

    Raises
    ------
    CatalogFormatError
        What names them is damaged, names pixels that are none or overlap, or nothing does.
    """
    if tree.kind == "index":
        return _files_of_index(tree)
    found = _by_info(tree)
    if found is None:
        found = leaves_by_metadata(tree)
    if found is None:
        found = leaves_by_listing(tree)
    if found is None:
        raise CatalogFormatError(
            f"{tree.uri}: neither {_INFO} nor {_METADATA} names its leaf files, and the web server lists "
            "nothing; give the address of the store, or copy the catalog"
        )
    return _along_curve(tree, found)


def leaves_by_metadata(tree: HatsTree) -> ListedLeaves | None:
    """The leaves that `_metadata` names, with their rows; None if there is no such file, or it names none."""
    path = tree.data_path(_METADATA)
    try:
        data = tree.storage.read(path)
    except FileNotFoundError:
        return None
    where = tree.storage.uri(path)
    with damage_as_error(where):
        footer = pq.read_metadata(pa.BufferReader(data))
        if not footer.num_columns:
            return None
        chunks = ColumnChunks(footer)
        groups = range(footer.num_row_groups)
        named = [chunks(group, 0).file_path for group in groups]
        rows = np.array([footer.row_group(group).num_rows for group in groups], np.int64)
        sizes = np.array([footer.row_group(group).total_byte_size for group in groups], np.int64)
    if not named or not all(named):
        return None
    file, first = np.unique(np.array(named, object).astype(str), return_inverse=True)
    pixels, leaves = [], []
    for name in file.tolist():
        match = _LEAF.search(name)
        if match is None:
            return None
        pixels.append((int(match[1]), int(match[2])))
        leaves.append(_leaf_of(name, match, has_folders(tree)))
    order, npix = np.array(pixels, np.int64).reshape(-1, 2).T
    counts, summed = (np.bincount(first, each, len(file)).astype(np.int64) for each in (rows, sizes))
    paths = [tree.data_path(leaf) for leaf in leaves]
    return _summed(order, npix, paths, counts, summed)


def leaves_by_listing(tree: HatsTree) -> ListedLeaves | None:
    """The leaves that a listing of the tree finds, with the bytes of their files; None of a web server."""
    if tree.storage.is_web_server:
        return None
    order, npix, paths, sizes = [], [], [], []
    for entry, match in _leaf_files(tree):
        order.append(int(match[1]))
        npix.append(int(match[2]))
        paths.append(_leaf_of(entry.path, match, has_folders(tree)))
        sizes.append(entry.size)
    levels, pixels = (np.array(each, np.int64) for each in (order, npix))
    return _summed(levels, pixels, paths, None, np.array(sizes, np.int64))


def leaf_stamps(tree: HatsTree) -> dict[str, str] | None:
    """The stamps of all leaf files that a listing finds, by path; None of a web server."""
    if tree.storage.is_web_server:
        return None
    return {entry.path: entry.stamp for entry, _ in _leaf_files(tree)}


def _leaf_files(tree: HatsTree) -> Iterator[tuple[Entry, re.Match[str]]]:
    """The leaf files that a listing finds, with their pixels as they are named."""
    folder = tree.path() if tree.is_hipscat else tree.path("dataset")
    for entry in tree.storage.list(folder, recursive=True):
        match = _LEAF.search(entry.path)
        if match is not None and _is_data(entry):
            yield entry, match


def leaf_path(tree: HatsTree, order: int, npix: int) -> str:
    """Where the leaf of a pixel lies: the folder of its files, where a leaf is one."""
    suffix = "" if has_folders(tree) else tree.properties.get("hats_npix_suffix", ".parquet")
    first = npix // _DIR_PIXELS * _DIR_PIXELS
    return tree.data_path(f"Norder={order}", f"Dir={first}", f"Npix={npix}{suffix}")


def _by_info(tree: HatsTree) -> ListedLeaves | None:
    path = tree.path(_INFO)
    try:
        data = tree.storage.read(path)
    except FileNotFoundError:
        return None
    where = tree.storage.uri(path)
    try:
        table = pacsv.read_csv(pa.BufferReader(data))
    except pa.ArrowInvalid as error:
        if not data.strip():
            return None
        raise CatalogFormatError(f"{where}: not a table ({error}); restore it, or delete it") from None
    folded = {name.strip().casefold(): name for name in table.column_names}
    if not {"norder", "npix"} <= set(folded):
        raise CatalogFormatError(
            f"{where}: has columns {', '.join(table.column_names)}, not Norder and Npix; restore it, or "
            "delete it, so that the leaf files are listed"
        )
    try:
        order, npix = (table[folded[name]].cast(pa.int64()).to_numpy() for name in ("norder", "npix"))
        counted = table[folded["num_rows"]].cast(pa.int64()).to_numpy() if "num_rows" in folded else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CatalogFormatError(f"{where}: Norder and Npix are no whole numbers ({error})") from None
    _check_pixels(order, npix, where)
    paths = [leaf_path(tree, *pixel) for pixel in zip(order.tolist(), npix.tolist(), strict=True)]
    rows = None if counted is None or not len(counted) or counted.min() < 1 else counted
    return ListedLeaves(order, npix, pa.array(paths, pa.string()), rows)


def _files_of_index(tree: HatsTree) -> ListedLeaves:
    found = tree.storage.list(tree.data_path(), recursive=True) if not tree.storage.is_web_server else []
    files = [entry for entry in found if _is_data(entry) and entry.path.endswith(".parquet")]
    names = [entry.path for entry in files]
    sizes: NDArray[np.int64] | None = np.array([entry.size for entry in files], np.int64)
    if not names:
        names, sizes = _named_in_metadata(tree), None
    if not names:
        raise CatalogFormatError(
            f"{tree.uri}: neither {_METADATA} nor a listing names a file of the index; give the address of "
            "the store, or copy the index"
        )
    number = np.arange(len(names), dtype=np.int64)
    return ListedLeaves(np.full(len(names), MAX_ORDER), number, pa.array(names, pa.string()), None, sizes)


def _named_in_metadata(tree: HatsTree) -> list[str]:
    path = tree.data_path(_METADATA)
    try:
        data = tree.storage.read(path)
    except FileNotFoundError:
        return []
    with damage_as_error(tree.storage.uri(path)):
        footer = pq.read_metadata(pa.BufferReader(data))
        chunks = ColumnChunks(footer)
        named = [chunks(group, 0).file_path for group in range(footer.num_row_groups)]
    return sorted({tree.data_path(name) for name in named if name})


def _is_data(entry: Entry) -> bool:
    name = entry.path.rpartition("/")[2]
    return not entry.is_dir and not entry.is_special and name not in _NO_LEAVES and name[:1] not in "._"


def _leaf_of(path: str, match: re.Match[str], folders: bool) -> str:
    """The path of the leaf that a file is of, or is."""
    return path[: match.end(2)] if folders else path


def _summed(
    order: NDArray[np.int64],
    npix: NDArray[np.int64],
    paths: list[str],
    rows: NDArray[np.int64] | None,
    sizes: NDArray[np.int64],
) -> ListedLeaves:
    """One leaf for all files of a path."""
    names, first, of_leaf = np.unique(
        np.array(paths, object).astype(str), return_index=True, return_inverse=True
    )
    summed = [
        None if each is None else np.bincount(of_leaf, each, len(names)).astype(np.int64)
        for each in (rows, sizes)
    ]
    return ListedLeaves(order[first], npix[first], pa.array(names.tolist(), pa.string()), *summed)


def _along_curve(tree: HatsTree, found: ListedLeaves) -> ListedLeaves:
    _check_pixels(found.order, found.npix, tree.uri)
    start, stop = starts(found.order, found.npix), stops(found.order, found.npix)
    along = np.argsort(start, kind="stable")
    start, stop = start[along], stop[along]
    if np.any(overlap := start[1:] < stop[:-1]):
        at = along[int(np.argmax(overlap))], along[int(np.argmax(overlap)) + 1]
        told = " and ".join(f"Norder={found.order[each]}/Npix={found.npix[each]}" for each in at)
        raise VerificationError(
            f"{tree.uri}: its leaves overlap, so that rows may stand twice: {told}; ask who publishes it"
        )
    paths = found.paths.take(pa.array(along))
    rows, sizes = (None if each is None else each[along] for each in (found.rows, found.bytes))
    return ListedLeaves(found.order[along], found.npix[along], paths, rows, sizes)


def _check_pixels(order: NDArray[np.int64], npix: NDArray[np.int64], where: str) -> None:
    good = (order >= 0) & (order <= MAX_ORDER) & (npix >= 0)
    good &= npix < (np.int64(12) << (2 * np.clip(order, 0, MAX_ORDER)))
    if not good.all():
        at = int(np.argmin(good))
        raise CatalogFormatError(f"{where}: there is no pixel Norder={order[at]}, Npix={npix[at]}")
