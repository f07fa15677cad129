"""The leaf files that only one of two versions names, and the stretches of the curve that they lie in.

A file is never written twice, so that one which both versions name holds the same rows in both. Files with
the same bytes hold the same rows too: a rebuilt catalog has many. Of a catalog of others that was adopted
again, a file that stays where it is is known by its stamp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.comparing import files_apart
from hipslake.catalog.joining.stretches import StretchPlan
from hipslake.catalog.leaf_stamps import STAMP_SCHEMA
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata
from hipslake.catalog.partitions import leaf_spans, read_sidecar, total_of
from hipslake.catalog.reading import coarsest
from hipslake.planning.splits import assign_targets
from hipslake.sphere.intervals import Intervals, range_numbers
from hipslake.storage.folder import Storage

_LEAST_PART_ROWS = 200_000
"""Of both versions, in a part of a leaf: with fewer, each row group would be read for several of them."""


class DifferingFiles(NamedTuple):
    """The files of a column group that only one of two versions names, `PARTITION_SCHEMA` along the curve."""

    old: pa.Table
    new: pa.Table

    @property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The order-29 pixels, [start, stop), of all of them, int64[n] each."""
        pairs = [leaf_spans(table) for table in self]
        start, stop = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        return start, stop

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of each of them, int64[n]."""
        return np.concatenate([table["rows"].to_numpy() for table in self])

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(total_of(table, "bytes") for table in self)


def differing_files(
    storage: Storage, old: CatalogMetadata, new: CatalogMetadata, group: str, *, by_bytes: bool
) -> DifferingFiles:
    """The files of a column group that only one of two versions has; none of a version without the group.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    old, new : CatalogMetadata
    group : str
    by_bytes : bool
        Whether files with the same bytes are the same. They need not be where several groups are read: then
        a row may differ in another group.
    """
    before, after = (_group_of(metadata, group) for metadata in (old, new))
    went, came, _ = files_apart(storage, before, after)
    if by_bytes:
        of_old, of_new = _contents(storage, old, went), _contents(storage, new, came)
        went, came = (
            table.filter(pc.invert(pc.is_in(mine, others.drop_null())))
            for table, mine, others in ((went, of_old, of_new), (came, of_new, of_old))
        )
    return DifferingFiles(went, came)


def _group_of(metadata: CatalogMetadata, name: str) -> GroupMetadata | None:
    return next((group for group in metadata.groups if group.name == name), None)


def _contents(storage: Storage, metadata: CatalogMetadata, files: pa.Table) -> pa.Array:
    """A text per file, equal where a leaf has the same bytes; null where nothing tells."""
    leaf = pc.binary_join_element_wise(files["order"].cast(pa.string()), files["npix"].cast(pa.string()), "/")
    digests = files["sha256"]
    known = pc.greater(pc.utf8_length(digests), 0)
    texts = pc.binary_join_element_wise(leaf, digests, " ").combine_chunks()
    found = pc.if_else(known.combine_chunks(), texts, pa.scalar(None, pa.string()))
    stamped = _stamped(storage, metadata, files)
    return found if stamped is None else pc.coalesce(stamped, found)


def _stamped(storage: Storage, metadata: CatalogMetadata, files: pa.Table) -> pa.Array | None:
    """The same, for leaves of others that lie where they are: by their stamps."""
    adopted = metadata.adopted
    if adopted is None or adopted.stamps is None:
        return None
    stamps: dict[str, list[str]] = {}
    table = read_sidecar(storage, adopted.stamps, STAMP_SCHEMA)
    for path, stamp in zip(table["path"].to_pylist(), table["stamp"].to_pylist(), strict=True):
        for place in (path, path.rpartition("/")[0]):  # a leaf is a file, or a folder of files
            stamps.setdefault(place, []).append(f"{path.rpartition('/')[2]} {stamp}" if stamp else "")
    found = []
    for path in files["path"].to_pylist():
        of_leaf = stamps.get(path, [""])
        known = all(of_leaf)
        found.append("\n".join([adopted.place, path.removeprefix(adopted.path), *of_leaf]) if known else None)
    return pa.array(found, pa.string())


def changed_stretches(
    files: DifferingFiles, others: list[DifferingFiles], most_rows: int, within: Intervals | None = None
) -> StretchPlan:
    """The stretches of the curve in which rows of two versions may differ, of about `most_rows` rows each.

    Parameters
    ----------
    files : DifferingFiles
        Of a column group.
    others : list of DifferingFiles
        Of other groups that both versions have. Where one of them has no file that differs, no row does.
    most_rows : int
        Of both versions together. A leaf of one version that the other has in parts is cut between them.
    within : Intervals, optional
        Stretches that hold nothing of these are left out.
    """
    start, stop = files.spans
    first, last = coarsest(start, stop)
    wanted = np.ones(len(first), bool)
    for other in others:
        wanted &= Intervals.union(*other.spans).touch(first, last)
    if within is not None:
        wanted &= within.touch(first, last)
    home = np.searchsorted(first, start, side="right") - 1
    begins, ends, counts = _cut(first, last, wanted, start, stop, home, files.rows, most_rows)
    task = assign_targets(counts, most_rows)
    skipped = np.cumsum(~wanted)[np.searchsorted(first, begins, side="right") - 1]  # what is left out divides
    opens = np.flatnonzero(np.append(True, (np.diff(task) > 0) | (np.diff(skipped) > 0)))[: len(task)]
    closes = np.append(opens[1:], len(task)) - 1 if len(opens) else opens
    rows = np.add.reduceat(counts, opens) if len(opens) else counts
    return StretchPlan(begins[opens], ends[closes], rows)


def _cut(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
    home: NDArray[np.int64],
    rows: NDArray[np.int64],
    most_rows: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Stretches, cut where leaves of the version that has finer ones begin, if they have many rows."""
    held = np.bincount(home, rows, len(first)).astype(np.int64)
    whole = wanted & (held <= most_rows)
    begins, ends, counts = [first[whole]], [last[whole]], [held[whole]]
    for at in np.flatnonzero(wanted & (held > most_rows)).tolist():
        inside = home == at
        finer = inside & ((stop - start) < last[at] - first[at])
        edges, place = np.unique(start[finer], return_inverse=True)
        if not len(edges):
            edges, shares = first[at : at + 1], held[at : at + 1]
        else:
            of_edge = np.bincount(place, rows[finer], len(edges))
            shares = np.ceil(of_edge * (held[at] / of_edge.sum())).astype(np.int64)
            edges[0] = first[at]
        begins.append(edges)
        ends.append(np.append(edges[1:], last[at]))
        counts.append(shares)
    begin, end, count = (np.concatenate(parts) for parts in (begins, ends, counts))
    begin, end, count = _divided(begin, end, count, max(most_rows, _LEAST_PART_ROWS))
    along = np.argsort(begin, kind="stable")
    return begin[along], end[along], count[along]


def _divided(
    begin: NDArray[np.int64], end: NDArray[np.int64], count: NDArray[np.int64], most_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Stretches of too many rows in parts of equal length; how rows lie in a leaf, only its file knows."""
    parts = np.clip(-(-count // most_rows), 1, end - begin)
    number = range_numbers(np.zeros_like(parts), parts)
    start = begin.repeat(parts) + ((end - begin) // parts).repeat(parts) * number
    stop = np.append(start[1:], end[-1:])
    stop[np.cumsum(parts) - 1] = end
    return start, stop, (-(-count // parts)).repeat(parts)
