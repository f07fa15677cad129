"""Which files a compaction rewrites, in which groups, and into how many.

Bin-packing brings small files together and cuts large ones. Clustering, along a curve or by a sort order,
puts the rows of a group of files in order. What was clustered before in the same way is left alone, once its
group has reached its size, or as long as little is new beside it: a table that grows is not rewritten as a
whole each night. Files of older partition specs are rewritten into partitions of the present one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

SMALL, LARGE = 0.75, 1.8
"""Files below and above so many times the target size are rewritten, if nothing else is said."""

SORTED = "sort"
"""In the place of a curve: rows are in a sort order, whose fields stand in the place of columns."""


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
    outdated : bool
        It is of a partition that the table no longer makes.
    deleted : int
        Positions of rows that delete files name.
    """

    path: str
    rows: int
    bytes: int
    partition: str = ""
    mark: ClusterMark | None = None
    deletes: int = 0
    outdated: bool = False
    deleted: int = 0

    @property
    def kept_bytes(self) -> int:
        """About the bytes of the rows that are not deleted.

        Examples
        --------
        >>> TableFile("a", rows=10, bytes=1000, deletes=1, deleted=4).kept_bytes
        600
        """
        return self.bytes * max(self.rows - self.deleted, 0) // max(self.rows, 1)


@dataclass(frozen=True)
class RewriteGroup:
    """Files that are rewritten together: of one partition, or of partitions that the table no longer makes.

    Attributes
    ----------
    partition : str
    files : tuple of TableFile
    num_files : int
        How many take their place.
    outdated : bool
        The rows go to the partitions that the table makes now; then `num_files` is the least that there are.
    """

    partition: str
    files: tuple[TableFile, ...]
    num_files: int
    outdated: bool = False

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class FileSizing:
    """How large files should be, and which are to be rewritten for their size.

    Attributes
    ----------
    target : int
        Bytes of a file that is written, about.
    small : int
        Files of fewer bytes are brought together with others.
    large : int
        Files of more bytes are cut.
    """

    target: int
    small: int
    large: int

    @classmethod
    def of(cls, target: int, small: int | None = None, large: int | None = None) -> FileSizing:
        """The sizing for a target; by default files below 0.75 and above 1.8 times the target are rewritten.

        Examples
        --------
        >>> FileSizing.of(100)
        FileSizing(target=100, small=75, large=180)
        """
        least = max(1, int(target * SMALL)) if small is None else small
        return cls(target, least, max(target, int(target * LARGE)) if large is None else large)

    def num_files(self, size: int) -> int:
        """Into how many files so many bytes go: of about the target size, none small and none large.

        Where one of the two has to be, none is large.

        Examples
        --------
        >>> [FileSizing.of(100).num_files(size) for size in (0, 60, 140, 160, 240, 260, 1000)]
        [1, 1, 1, 2, 2, 3, 10]
        """
        most, least = size // self.small, -(-size // self.large)
        nearest = (2 * size + self.target) // (2 * self.target)
        return max(1, least, min(nearest, most))

    def fits(self, file: TableFile) -> bool:
        """Whether a file need not be rewritten for its size; one row cannot be cut."""
        return self.small <= file.bytes and (file.bytes <= self.large or file.rows <= 1)


def needs_merging(file: TableFile, most_deletes: int | None) -> bool:
    """Whether a file has so many delete files that it is to be written again without its deleted rows."""
    return most_deletes is not None and file.deletes >= most_deletes


def plan_bin_packing(
    files: Iterable[TableFile],
    *,
    sizing: FileSizing,
    group_bytes: int,
    full: bool = False,
    most_deletes: int | None = None,
) -> list[RewriteGroup]:
    """Group files that are too small, too large, or have too many delete files.

    Parameters
    ----------
    files : iterable of TableFile
    sizing : FileSizing
    group_bytes : int
        No more is rewritten together, unless a single file is larger.
    full : bool
        Rewrite everything.
    most_deletes : int, optional
        Files with this many delete files and more are rewritten, whatever their size, also alone.

    Returns
    -------
    list of RewriteGroup
        Files are taken smallest first. Nothing where no fewer files would come of it, unless one is large or
        has too many delete files.
    """
    found = []
    for partition, members in _by_partition(files):
        some = [
            file for file in members if full or not sizing.fits(file) or needs_merging(file, most_deletes)
        ]
        for part in _next_fit(sorted(some, key=lambda file: (file.bytes, file.path)), group_bytes):
            group = RewriteGroup(partition, tuple(part), _num_files(part, sizing))
            wanted = any(needs_merging(file, most_deletes) or is_large(file, sizing) for file in part)
            if full or wanted or group.num_files < len(part):
                found.append(group)
    return found


def plan_clustering(
    files: Iterable[TableFile],
    *,
    curve: str,
    columns: Sequence[str],
    sizing: FileSizing,
    group_bytes: int,
    most_bytes: int | None = None,
    full: bool = False,
    most_deletes: int | None = None,
) -> list[RewriteGroup]:
    """Group files that are to be clustered together.

    Parameters
    ----------
    files : iterable of TableFile
    curve : str
    columns : sequence of str
    sizing : FileSizing
        Of the files that come of it.
    group_bytes : int
        A group of files that were clustered together by these columns is left alone from this size on. A
        group takes files until it has this size.
    most_bytes : int, optional
        No more is rewritten together, unless a single file is larger.
    full : bool
        Rewrite everything.
    most_deletes : int, optional
        Files with this many delete files and more are rewritten, also of groups that are left alone.

    Returns
    -------
    list of RewriteGroup
        What is not clustered is, together with groups that have not reached their size and are no larger than
        all that is smaller than they are (or than one file). So a byte is rewritten a few times, as groups
        double, and not each time that something is added.
    """
    found = []
    by = tuple(columns)
    for partition, members in _by_partition(files):
        if full:
            piles = [sorted(members, key=lambda file: file.path)]
        else:
            piles = _piles(members, curve, by, sizing, group_bytes, most_deletes)
        for pile in piles:
            for part in _filled(pile, group_bytes, most_bytes):
                found.append(RewriteGroup(partition, tuple(part), _num_files(part, sizing)))
    return found


def plan_repartitioning(
    files: Iterable[TableFile], *, sizing: FileSizing, group_bytes: int
) -> list[RewriteGroup]:
    """Group files of older partition specs, whose rows go to the partitions of the present one.

    Parameters
    ----------
    files : iterable of TableFile
        All of them `outdated`.
    sizing : FileSizing
    group_bytes : int
        No more is rewritten together, unless a single file is larger.
    """
    in_order = sorted(files, key=lambda file: (file.partition, file.path))
    return [
        RewriteGroup("", tuple(part), _num_files(part, sizing), outdated=True)
        for part in _next_fit(in_order, group_bytes)
    ]


def within_bound(groups: Sequence[RewriteGroup], most_bytes: int | None) -> list[RewriteGroup]:
    """The groups that are rewritten now, if no more than so many bytes are to be.

    Groups with many files for their bytes come first; and of those that are left, each that still fits.

    Parameters
    ----------
    groups : sequence of RewriteGroup
    most_bytes : int, optional
        None: all groups.

    Returns
    -------
    list of RewriteGroup
        In the order of `groups`.
    """
    if most_bytes is None:
        return list(groups)
    chosen, left = set(), most_bytes
    for at in sorted(range(len(groups)), key=lambda at: (groups[at].bytes / len(groups[at].files), at)):
        if groups[at].bytes <= left:
            chosen.add(at)
            left -= groups[at].bytes
    return [group for at, group in enumerate(groups) if at in chosen]


def commit_parts(groups: Sequence[RewriteGroup], most: int) -> list[list[RewriteGroup]]:
    """Groups in at most so many parts of about equal numbers of bytes, in their order; none is empty."""
    total = sum(group.bytes for group in groups)
    parts: dict[int, list[RewriteGroup]] = {}
    before = 0
    for group in groups:
        parts.setdefault(min(most - 1, before * most // max(total, 1)), []).append(group)
        before += group.bytes
    return list(parts.values())


def is_clustered(file: TableFile, curve: str, columns: tuple[str, ...]) -> bool:
    """Whether a file was clustered along a curve by some columns."""
    return file.mark is not None and (file.mark.curve, file.mark.columns) == (curve, columns)


def is_large(file: TableFile, sizing: FileSizing) -> bool:
    """Whether a file is so large that it is to be cut."""
    return file.bytes > sizing.large and not sizing.fits(file)


def _num_files(files: Iterable[TableFile], sizing: FileSizing) -> int:
    return sizing.num_files(sum(file.kept_bytes for file in files))


def _piles(
    files: Iterable[TableFile],
    curve: str,
    columns: tuple[str, ...],
    sizing: FileSizing,
    group_bytes: int,
    most_deletes: int | None,
) -> list[list[TableFile]]:
    """What is rewritten together, before it is cut into groups; nothing of what stays as it is."""
    new: list[TableFile] = []
    by_group: dict[str, list[TableFile]] = {}
    for file in files:
        if file.mark is None or not is_clustered(file, curve, columns):
            new.append(file)
        else:
            by_group.setdefault(file.mark.group, []).append(file)
    unfinished: list[list[TableFile]] = []
    for members in by_group.values():
        merging = [file for file in members if needs_merging(file, most_deletes)]
        stay = [file for file in members if not needs_merging(file, most_deletes)]
        new += merging
        if stay and sum(file.bytes for file in stay) < group_bytes:
            unfinished.append(stay)
    piles: list[list[list[TableFile]]] = []
    size = 0
    units = sorted(
        [*([new] if new else []), *unfinished],
        key=lambda unit: (sum(file.bytes for file in unit), min(file.path for file in unit)),
    )
    for unit in units:
        more = sum(file.bytes for file in unit)
        if not piles or more > max(size, sizing.target):
            piles.append([])
            size = 0
        piles[-1].append(unit)
        size += more
    return [
        sorted((file for unit in pile for file in unit), key=lambda file: file.path)
        for pile in piles
        if len(pile) > 1 or pile[0] is new
    ]


def _filled(files: Sequence[TableFile], group_bytes: int, most: int | None) -> list[list[TableFile]]:
    """Files in groups, each of which is closed once it has its size; what is left over goes to the last."""
    groups: list[list[TableFile]] = []
    sizes: list[int] = []
    for file in files:
        closed = not groups or sizes[-1] >= group_bytes
        if closed or (most is not None and sizes[-1] + file.bytes > most):
            groups.append([])
            sizes.append(0)
        groups[-1].append(file)
        sizes[-1] += file.bytes
    if len(groups) > 1 and sizes[-1] < group_bytes and (most is None or sizes[-1] + sizes[-2] <= most):
        rest = groups.pop()
        groups[-1] += rest
    return groups


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
