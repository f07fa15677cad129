"""The layouts: where the files of a version lie, relative to the catalog's root.

Nobody else joins these paths.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.pixels import MAX_ORDER, Pixel

_HATS_PIXEL = r"(?P<write>[^/]+)/(?P<group>[^/]+)/dataset/Norder=(?P<order>\d+)/Dir=\d+/Npix=(?P<npix>\d+)"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_DIR_PIXELS = 10_000  # HATS gathers this many pixels in one `Dir=`
_MOST_ZEROS = 200  # in front of a number: names of folders have at most 255 bytes


class PartitionPath(NamedTuple):
    """The parts of the path of a leaf file."""

    write_id: str
    group: str
    pixel: Pixel


class LayoutPaths(ABC):
    """The paths of a layout, relative to the catalog's root and separated by `/`."""

    layout: Layout
    _pattern: re.Pattern[str]  # of a leaf file, with groups `write`, `group`, `order` and `npix`

    @abstractmethod
    def group_root(self, write_id: str, group: str) -> str:
        """The folder under which all leaf files of a group lie."""

    @abstractmethod
    def partition_path(self, write_id: str, group: str, pixel: Pixel) -> str:
        """The leaf file of a pixel."""

    @abstractmethod
    def leaf_glob(self, write_id: str, group: str) -> str:
        """A glob that matches a group's leaf files and nothing else."""

    def parse(self, path: str) -> PartitionPath:
        """The inverse of `partition_path`; `CatalogFormatError` for any other path."""
        match = self._pattern.fullmatch(path)
        if match is None:
            raise self._not_a_leaf(path)
        order, npix = match["order"], match["npix"]
        if len(order) > 2 or int(order) > MAX_ORDER or len(npix) > 19 or int(npix) >= 12 * 4 ** int(order):
            raise CatalogFormatError(f"{path}: there is no pixel Norder={order}, Npix={npix}")
        found = PartitionPath(match["write"], match["group"], Pixel(int(order), int(npix)))
        if self.partition_path(*found) != path:  # zero-padded numbers, a wrong Dir
            raise self._not_a_leaf(path)
        return found

    def of_other_writes(
        self, write_id: str, paths: pa.ChunkedArray
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """The leaf files of other writes, and where they stand in the tree of this one.

        A tree has every leaf file of a version in one write folder, so that `leaf_glob` finds them all.

        Parameters
        ----------
        write_id : str
        paths : pyarrow.ChunkedArray
            string[n]; all leaf files of a group or margin of one version, in any writes.

        Returns
        -------
        paths, in_tree : pyarrow.ChunkedArray
            string[m] each, in the order of `paths` where all writes have names of one length. No path in the
            tree comes twice, or is that of a leaf file of this write.

        Examples
        --------
        >>> _, in_tree = HATS.of_other_writes("new", pa.chunked_array([["new/main/a", "old/main/b"]]))
        >>> in_tree.to_pylist()
        ['new/main/b']
        """
        is_other = pc.invert(pc.starts_with(paths, f"{write_id}/"))
        end = pc.find_substring(paths, "/")  # of the first folder: few lengths, so few passes
        others: list[pa.Array] = []
        in_tree: list[pa.Array] = []
        for length in end.unique().to_pylist():
            found = paths.filter(pc.and_(is_other, pc.equal(end, length)))
            others += found.chunks
            in_tree += pc.binary_replace_slice(found, 0, length, write_id).chunks
        return pa.chunked_array(others, paths.type), pa.chunked_array(in_tree, paths.type)

    def _not_a_leaf(self, path: str) -> CatalogFormatError:
        return CatalogFormatError(f"{path}: not the path of a leaf file in layout {self.layout.value!r}")


class HatsLayout(LayoutPaths):
    """Every group is a HATS catalog: `<write>/main/dataset/Norder=2/Dir=0/Npix=5.parquet`.

    Format: IVOA Note "HATS: Hierarchical Adaptive Tiling Scheme", hats_version v1.0.
    """

    layout = Layout.HATS
    COLLECTION = "collection.properties"  # at the catalog's root
    SUFFIX = ".parquet"  # of a pixel's name: `hats_npix_suffix`
    _pattern = re.compile(rf"{_HATS_PIXEL}\.parquet")

    def group_root(self, write_id: str, group: str) -> str:
        return f"{write_id}/{group}"

    def partition_path(self, write_id: str, group: str, pixel: Pixel) -> str:
        order, npix = pixel
        folder = f"Norder={order}/Dir={npix // _DIR_PIXELS * _DIR_PIXELS}"
        return f"{write_id}/{group}/dataset/{folder}/Npix={npix}{self._file(write_id)}"

    def path_in_dataset(self, path: str) -> str:
        """A leaf file as `_metadata` names it: relative to the group's `dataset/`."""
        return path.partition("/dataset/")[2]

    def _file(self, write_id: str) -> str:
        """The part of a leaf file's path after the number of its pixel."""
        return self.SUFFIX

    def view_file(self, write_id: str, group: str | None, name: str) -> str:
        """A file beside the leaf files of a group, or, with no group, beside the groups."""
        return f"{write_id}/{group}/{name}" if group else f"{write_id}/{name}"

    def leaf_glob(self, write_id: str, group: str) -> str:
        return f"{write_id}/{group}/dataset/Norder=*/Dir=*/Npix=*{self._file('*')}"


class HatsFoldersLayout(HatsLayout):
    """HATS with a folder for every leaf, so that it can gather files: `.../Npix=5/<write>.parquet`."""

    SUFFIX = "/"
    _pattern = re.compile(rf"{_HATS_PIXEL}/(?P=write)\.parquet")

    def _file(self, write_id: str) -> str:
        return f"/{write_id}.parquet"


class HipscatLayout(LayoutPaths):
    """Column groups side by side: `<write>/Norder=2/Npix=5/main.parquet` beside `details.parquet`.

    Where a leaf has gathered files of several writes, they would have one name in a tree. There all but one
    stand in folders of their own that mean the same pixel: `Npix=05`, `Npix=005` and so on.
    """

    layout = Layout.HIPSCAT
    _pattern = re.compile(
        r"(?P<write>[^/]+)/Norder=(?P<order>\d+)/Npix=(?P<npix>\d+)/(?P<group>[^/]+)\.parquet"
    )

    def group_root(self, write_id: str, group: str) -> str:
        return write_id

    def partition_path(self, write_id: str, group: str, pixel: Pixel) -> str:
        order, npix = pixel
        return f"{write_id}/Norder={order}/Npix={npix}/{group}.parquet"

    def leaf_glob(self, write_id: str, group: str) -> str:
        return f"{write_id}/Norder=*/Npix=*/{group}.parquet"

    def of_other_writes(
        self, write_id: str, paths: pa.ChunkedArray
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        others, in_tree = super().of_other_writes(write_id, paths)
        own = paths.filter(pc.starts_with(paths, f"{write_id}/"))
        return others, _distinct(own, in_tree)


HATS = HatsLayout()
HATS_FOLDERS = HatsFoldersLayout()
HIPSCAT = HipscatLayout()


def layout_paths(layout: Layout | str, *, gathers: bool = False) -> LayoutPaths:
    """The paths of a layout, by its name in the spec.

    Parameters
    ----------
    layout : Layout or str
    gathers : bool
        Whether leaves of layout hats may gather several files; those of layout hipscat can anyway.
    """
    if Layout(layout) is Layout.HIPSCAT:
        return HIPSCAT
    return HATS_FOLDERS if gathers else HATS


def tree_marker(write_id: str) -> str:
    """The file that says that every leaf of the version is in the write's folder (layout hipscat)."""
    return f"{write_id}/_tree.json"


def sidecar_path(write_id: str, name: str) -> str:
    """Where a write keeps a table too long for metadata.json; dataset readers skip the underscore."""
    return f"{write_id}/_sidecars/{name}.parquet"


def index_root(write_id: str, column: str) -> str:
    """The folder of the index of a column: a HATS catalog of its own."""
    safe = _UNSAFE.sub("_", column)
    digest = "" if safe == column else "_" + hashlib.sha256(column.encode()).hexdigest()[:8]
    return f"{write_id}/index_{safe}{digest}"


def records_root(write_id: str) -> str:
    """The folder of key records and superseded rows, a folder for each run of files."""
    return f"{write_id}/_records"


def skymap_path(write_id: str, group: str) -> str:
    """The picture of a group's partitions on the sky."""
    return f"{write_id}/_skymaps/{group}.png"


def exchange_root(write_id: str) -> str:
    """The folder of blocks on their way between tasks; gone when the write step ends."""
    return f"{write_id}/_exchange"


def margin_work(write_id: str) -> str:
    """The folder of what the tasks that make margins know; gone when they are made."""
    return f"{write_id}/_margins"


def delete_work(write_id: str) -> str:
    """The folder of what the tasks of a delete know; gone when they are done."""
    return f"{write_id}/_delete"


def rejects_root(write_id: str) -> str:
    """The folder of the rows that were quarantined."""
    return f"{write_id}/_rejects"


def _distinct(own: pa.ChunkedArray, in_tree: pa.ChunkedArray) -> pa.ChunkedArray:
    """Paths of layout hipscat in a tree, each once and none of `own`: pixels get leading zeros."""
    together = pa.chunked_array([*own.chunks, *in_tree.chunks], in_tree.type)
    names = together.combine_chunks().dictionary_encode()
    if len(names.dictionary) == len(names):
        return in_tree
    code = names.indices.to_numpy()
    along = np.argsort(code, kind="stable")
    first = np.searchsorted(code[along], code[along])
    before = np.empty(len(code), np.int64)  # how many have the name already
    before[along] = np.arange(len(code)) - first
    texts = in_tree.to_pylist()
    for at in np.flatnonzero(before[len(own) :]).tolist():
        order, npix = divmod(int(before[len(own) + at]), _MOST_ZEROS)
        padded = texts[at].replace("/Norder=", "/Norder=" + "0" * order, 1)
        texts[at] = padded.replace("/Npix=", "/Npix=" + "0" * npix, 1)
    return pa.chunked_array([texts], in_tree.type)
