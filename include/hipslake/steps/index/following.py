"""An index that goes on from that of an earlier version: only files that changes meet are read and written.

Entries that changed are found in the leaf files that only one of the two versions has. Files of the index
that hold none of them stay. Where files begin follows from the entries near that place, and metadata keeps
what that has to be known: so the cuts are those of an index that is built whole, and so is every byte.
"""

from __future__ import annotations

import json
import logging
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.index import leaves_digest
from hipslake.catalog.index_cuts import CUTS, ranks_in_text
from hipslake.catalog.indexed_leaves import leaves_apart
from hipslake.catalog.metadata import Index, IndexedLeaves, IndexFile
from hipslake.catalog.partitions import leaf_spans, pixels_in, total_of
from hipslake.catalog.reading import coarsest
from hipslake.engine.model import Engine
from hipslake.errors import CatalogFormatError, VerificationError
from hipslake.planning.splits import assign_targets
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, starts, stops
from hipslake.steps.index.following_tasks import MET, RECUT, ChangedLeaves, IndexPiece, MeetingTask, RecutTask
from hipslake.steps.index.index_files import KEY, IndexOrder

log = logging.getLogger(__name__)

_TASKS_PER_CORE = 4
_MOST_CHANGED = 1.5  # rows that are read, per row of the catalog: who builds all anew reads each twice
_FIELDS = set(IndexFile.model_fields)


class CannotFollowError(Exception):
    """Why an index is built whole."""


class FollowedFiles(NamedTuple):
    """The files of an index that went on from another one.

    Attributes
    ----------
    files : tuple of IndexFile
        Ascending by value.
    values : int
        Rows with a value.
    """

    files: tuple[IndexFile, ...]
    values: int


class _File(NamedTuple):
    """A file of the index, as it was or with what changed, cut as before."""

    file: IndexFile
    ranks: NDArray[np.uint32]
    leads: bool  # whether its first entry is a candidate


def followed_files(order: IndexOrder, base: Index | None, engine: Engine) -> FollowedFiles:
    """The files of an index, from those of an earlier version's.

    Raises
    ------
    CannotFollowError
        The index is to be built whole; the message says why.
    """
    built_of = _fitting(order, base)
    assert base is not None
    try:
        return _followed(order, base, built_of, engine)
    except (VerificationError, CatalogFormatError) as error:
        raise CannotFollowError(f"what it would go on from cannot be read: {error}") from error


def _fitting(order: IndexOrder, base: Index | None) -> IndexedLeaves:
    """What an index was built of, if one can be made of it."""
    if base is None:
        raise CannotFollowError("there was no index of the column")
    built_of = base.built_of
    if built_of is None:
        raise CannotFollowError("the index was made by an older library, whose files were cut by counts")
    if built_of.cuts != CUTS:
        raise CannotFollowError("the index was made by an older library, whose files were cut in another way")
    if order.metadata.adopted is not None:
        raise CannotFollowError("the leaves are those of others, who may change them")
    if built_of.file_entries != order.file_entries:
        raise CannotFollowError(
            f"its files had {built_of.file_entries} entries, about, and are to have {order.file_entries}"
        )
    if built_of.group != order.group:
        raise CannotFollowError(f"the column was in column group {built_of.group}, and is in {order.group}")
    if not base.files:
        raise CannotFollowError("the index had no entry")
    storage, first = order.storage, base.files[0].path
    try:
        schema = pq.read_schema(storage.arrow_path(first), filesystem=storage.arrow_filesystem())
    except (OSError, pa.ArrowException) as error:
        raise CannotFollowError(f"{storage.uri(first)} cannot be read ({error})") from error
    if not schema.equals(order.schema):
        raise CannotFollowError("the type of the column was another one")
    return built_of


def _followed(order: IndexOrder, base: Index, built_of: IndexedLeaves, engine: Engine) -> FollowedFiles:
    went, came = leaves_apart(order.storage, order.metadata, built_of)
    moved = _moved_pixels(order, base, built_of, went, came)
    if built_of.pixels is not None and len(moved):  # there are leaf files that stay, with entries that do not
        table = order.metadata.group(order.group).table_near(order.storage, moved.start, moved.stop)
        touched = table.filter(pa.array(moved.touch(*leaf_spans(table))))
        staying = touched.filter(pc.invert(pc.is_in(touched["path"], came["path"].combine_chunks())))
        went, came = pa.concat_tables([went, staying]), pa.concat_tables([came, staying])
    rows, total = total_of(went, "rows") + total_of(came, "rows"), order.metadata.total_rows
    if rows > _MOST_CHANGED * total:
        raise CannotFollowError(
            f"{went.num_rows + came.num_rows} leaf files with {rows} rows came or went, and all leaves have "
            f"{total} rows"
        )
    if not rows:
        return FollowedFiles(base.files, built_of.values)
    task = MeetingTask(
        order,
        _in_tasks(went, came, _TASKS_PER_CORE * engine.cores),
        base.files,
        _bounds(order, base.files),
        moved,
        engine.counter(),
    )
    with engine.progress("index", rows=rows, done=task.done):
        met = engine.exchange(
            sources=len(task.leaves), mapper=task.route, targets=task.targets, reducer=task.meet, result=MET
        )
    files, written = _with_met(base.files, met)
    found = _recut(order, files, engine)
    for path in written - {file.path for file in found}:
        order.storage.delete(path)
    return FollowedFiles(tuple(found), built_of.values + int(np.sum(met["added"].to_numpy(), dtype=np.int64)))


def _moved_pixels(
    order: IndexOrder, base: Index, built_of: IndexedLeaves, went: pa.Table, came: pa.Table
) -> Intervals:
    """Where the leaf that entries name may be another one."""
    primary = order.metadata.groups[0]
    if base.leaves == leaves_digest(primary):
        return Intervals.together(())
    if built_of.pixels is None:  # a leaf that came or went has files that did
        before, now = (leaf_spans(files) for files in (went, came))
    else:
        (before_order, before_npix), (now_order, now_npix) = pixels_in(built_of.pixels), primary.leaf_pixels()
        before = starts(before_order, before_npix), stops(before_order, before_npix)
        now = starts(now_order, now_npix), stops(now_order, now_npix)
    spans = [np.unique(np.stack(each, axis=1), axis=0) for each in (before, now)]
    both, counts = np.unique(np.concatenate(spans), axis=0, return_counts=True)
    return Intervals.union(*both[counts == 1].T)


def _in_tasks(went: pa.Table, came: pa.Table, tasks: int) -> tuple[tuple[ChangedLeaves, ...], ...]:
    """Leaf files that overlap together, in tasks of about equal rows."""
    files = [
        (*leaf_spans(table), table["rows"].to_numpy(), table["path"].to_pylist()) for table in (went, came)
    ]
    first, _ = coarsest(*(np.concatenate([files[0][end], files[1][end]]) for end in (0, 1)))
    paths: tuple[list[list[str]], ...] = ([[] for _ in first], [[] for _ in first])
    rows = np.zeros(len(first), np.int64)
    for lists, (start, _, counts, names) in zip(paths, files, strict=True):
        home = np.searchsorted(first, start, side="right") - 1
        np.add.at(rows, home, counts)
        for at, name in zip(home.tolist(), names, strict=True):
            lists[at].append(name)
    number = assign_targets(rows, max(1, -(-int(rows.sum()) // tasks)))
    found: list[list[ChangedLeaves]] = [[] for _ in range(int(number[-1]) + 1)]
    for at, task in enumerate(number.tolist()):
        found[task].append(ChangedLeaves(tuple(paths[0][at]), tuple(paths[1][at])))
    return tuple(map(tuple, found))


def _bounds(order: IndexOrder, files: tuple[IndexFile, ...]) -> pa.Table:
    """Key and `_healpix_29` at which each file but the first begins."""
    keys = pa.array([file.first for file in files[1:]], order.schema.field(0).type)
    return pa.table({KEY: keys, HEALPIX_COLUMN: pa.array([file.pixel for file in files[1:]], pa.int64())})


def _with_met(before: tuple[IndexFile, ...], met: pa.Table) -> tuple[list[_File], set[str]]:
    """The files as they are by now, cut as they were, without empty ones; and the paths that were written."""
    told = {row["number"]: row["file"] for row in met.to_pylist()}
    files, written = [], set()
    for number, file in enumerate(before):
        leads, now = number > 0, file  # a file begins at a candidate, but for the first one
        if number in told:
            if not told[number]:
                continue
            fields = json.loads(told[number])
            leads = fields["leads"]
            if fields["sha256"] != file.sha256:
                now = described_file(fields)
                written.add(now.path)
        assert now.ranks is not None, "it is cut by content"
        files.append(_File(now, ranks_in_text(now.ranks), leads))
    return files, written


def _recut(order: IndexOrder, files: list[_File], engine: Engine) -> list[IndexFile]:
    """Cut the entries of files where the rule says, now that some have changed."""
    pieces = _pieces(order, files)
    of_path = {each.file.path: each.file for each in files}
    moved = tuple(piece for piece in pieces if not _stands(piece))
    if moved:
        made = engine.run(RecutTask(order, moved), tasks=len(moved), result=RECUT)
        written = {row["piece"]: described_file(json.loads(row["file"])) for row in made.to_pylist()}
    return [of_path[piece.sources[0][0]] if _stands(piece) else written[piece.number] for piece in pieces]


def _stands(piece: IndexPiece) -> bool:
    """Whether a piece is a file as it is."""
    return len(piece.sources) == 1 and piece.start is None and piece.stop is None


def _pieces(order: IndexOrder, files: list[_File]) -> list[IndexPiece]:
    """The files that the entries are to be cut into."""
    begins = order.rule.begins(np.concatenate([np.empty(0, np.uint32), *(each.ranks for each in files)]))
    cuts: list[tuple[int, int | None]] = []  # file, and candidate in it unless it is the beginning
    offset = 0
    for number, each in enumerate(files):
        chosen = np.flatnonzero(begins[offset : offset + len(each.ranks)]).tolist()
        offset += len(each.ranks)
        at_start = each.leads and chosen[:1] == [0]
        if number == 0 or at_start:
            cuts.append((number, None))
        cuts += [(number, candidate) for candidate in chosen[at_start:]]
    pieces = []
    for number, (file, start) in enumerate(cuts):
        end, stop = cuts[number + 1] if number + 1 < len(cuts) else (len(files), None)
        sources = files[file : end + (stop is not None)]
        named = tuple((each.file.path, each.file.sha256) for each in sources)
        pieces.append(IndexPiece(number, named, start, stop))
    return pieces


def described_file(fields: dict[str, Any]) -> IndexFile:
    """A file of an index, of what the task that wrote it has said."""
    return IndexFile.model_validate({name: value for name, value in fields.items() if name in _FIELDS})
