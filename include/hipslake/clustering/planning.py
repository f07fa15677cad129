"""Which files a compaction rewrites, and into how many.

Bin-packing brings small files together. Clustering puts the rows of a group of files in order along a curve.
What was clustered before by the same columns is left alone, once its group has reached its size: a table that
grows is not rewritten as a whole each night.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class ClusterMark:
    """The curve, the columns and the group that a file was clustered with.

    Attributes
    ----------
    curve : str
    columns : tuple of str
    group : str
        Names the files that were clustered together: their bounds do not overlap by more than the curve's.
    """

    curve: str
    columns: tuple[str, ...]
    group: str


@dataclass(frozen=True)
class TableFile:
    """A data file of a table.

    Attributes
    ----------
    path : str
    rows : int
    bytes : int
    partition : str
        Files of different partitions are never merged.
    mark : ClusterMark or None
        If it was clustered.
    deletes : int
        How many delete files take rows out of it; `rows` counts those too.
    """

    path: str
    rows: int
    bytes: int
    partition: str = ""
    mark: ClusterMark | None = None
    deletes: int = 0


@dataclass(frozen=True)
class RewriteGroup:
    """Files of one partition that are rewritten together.

    Attributes
    ----------
    partition : str
    files : tuple of TableFile
    num_files : int
        How many take their place.
    """

    partition: str
    files: tuple[TableFile, ...]
    num_files: int

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)


def plan_bin_packing(
    files: Iterable[TableFile], *, target_bytes: int, min_bytes: int, most_deletes: int | None = None
) -> list[RewriteGroup]:
    """Pack small files into bins, each of which becomes one file.

    Parameters
    ----------
    files : iterable of TableFile
    target_bytes : int
        The most that a bin holds.
    min_bytes : int
        Files of this many bytes and more are left alone.
    most_deletes : int, optional
        Files with this many delete files and more are rewritten, whatever their size, also alone.

    Returns
    -------
    list of RewriteGroup
        Files are taken smallest first, and the next bin is begun where one does not fit (next-fit); bins with
        a single file are dropped, unless it is to be rewritten for its deletes.
    """
    found = []
    some = (file for file in files if file.bytes < min_bytes or needs_merging(file, most_deletes))
    for partition, members in _by_partition(some):
        small = sorted(members, key=lambda file: (file.bytes, file.path))
        bins = _next_fit(small, target_bytes)
        found += [
            RewriteGroup(partition, tuple(files), 1)
            for files in bins
            if len(files) > 1 or needs_merging(files[0], most_deletes)
        ]
    return found


def needs_merging(file: TableFile, most_deletes: int | None) -> bool:
    """Whether a file has so many delete files that it is to be written again without its deleted rows."""
    return most_deletes is not None and file.deletes >= most_deletes


def plan_clustering(
    files: Iterable[TableFile],
    *,
    curve: str,
    columns: Sequence[str],
    target_bytes: int,
    group_bytes: int,
    full: bool = False,
    most_deletes: int | None = None,
) -> list[RewriteGroup]:
    """Group files that are to be clustered together.

    Parameters
    ----------
    files : iterable of TableFile
    curve : str
    columns : sequence of str
    target_bytes : int
        Size of the files that come of it.
    group_bytes : int
        A group of files that were clustered together by these columns is left alone from this size on. No
        more than about one and a half times as much is clustered together.
    full : bool
        Rewrite everything.
    most_deletes : int, optional
        Files with this many delete files and more are rewritten, also of groups that are left alone.

    Returns
    -------
    list of RewriteGroup
        Nothing for a partition in which all files were clustered together already, and need not be rewritten.
    """
    found = []
    for partition, members in _by_partition(files):
        files_there = list(members)
        candidates = files_there if full else _not_finished(files_there, curve, tuple(columns), group_bytes)
        merging = [file for file in files_there if needs_merging(file, most_deletes)]
        candidates = list(dict.fromkeys([*candidates, *merging]))
        groups = {file.mark.group for file in candidates if file.mark is not None}
        together = len(groups) == 1 and all(is_clustered(file, curve, tuple(columns)) for file in candidates)
        if not candidates or (together and not full and not merging):
            continue
        in_order = sorted(candidates, key=lambda file: file.path)
        for part in _next_fit(in_order, group_bytes + group_bytes // 2):
            size = sum(file.bytes for file in part)
            found.append(RewriteGroup(partition, tuple(part), max(1, -(-size // target_bytes))))
    return found


def _not_finished(
    files: Iterable[TableFile], curve: str, columns: tuple[str, ...], group_bytes: int
) -> list[TableFile]:
    files = list(files)
    sizes: dict[str, int] = {}
    for file in files:
        if file.mark is not None and is_clustered(file, curve, columns):
            sizes[file.mark.group] = sizes.get(file.mark.group, 0) + file.bytes
    finished = {group for group, size in sizes.items() if size >= group_bytes}
    return [
        file
        for file in files
        if file.mark is None or file.mark.group not in finished or not is_clustered(file, curve, columns)
    ]


def is_clustered(file: TableFile, curve: str, columns: tuple[str, ...]) -> bool:
    """Whether a file was clustered along a curve by some columns."""
    return file.mark is not None and (file.mark.curve, file.mark.columns) == (curve, columns)


def _next_fit(files: Sequence[TableFile], most: int) -> list[list[TableFile]]:
    bins: list[list[TableFile]] = []
    size = 0
    for file in files:
        if not bins or size + file.bytes > most:
            bins.append([])
            size = 0
        bins[-1].append(file)
        size += file.bytes
    return bins


def _by_partition(files: Iterable[TableFile]) -> list[tuple[str, list[TableFile]]]:
    in_order = sorted(files, key=lambda file: file.partition)
    return [(name, list(members)) for name, members in groupby(in_order, key=lambda file: file.partition)]
