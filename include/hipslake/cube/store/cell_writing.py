"""The second pass over the rows: each goes to the task that writes its partition, sorted by its cells.

In a partition that has files already, the last write wins per cell: files that hold a cell of the new rows
are written again without it, all others stay. Or partitions are replaced as a whole; one whose new files
would be equal, byte by byte, is left as it is.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from hipslake.cube.cell_joins import with_constants
from hipslake.cube.cube_rules import check_cells, partition_values
from hipslake.cube.dataset import labels_column
from hipslake.cube.row_codes import bounds_of, matches, paired_codes, places_in
from hipslake.cube.store.counting import COUNT, DATASET, TARGET, Counting, counted
from hipslake.cube.store.cube_files import ABOUT_FILES, BYTES, PATH, ROWS, SHA256, encoded, read_rows
from hipslake.cube.store.layout import data_path, index_path
from hipslake.cube.store.offers import DatasetChange, Offer
from hipslake.cube.store.row_sources import PART_ROWS
from hipslake.engine.model import Block, Engine, Routed
from hipslake.engine.narrowing import gathered, narrowed, widened
from hipslake.engine.scratch import blocks_in_folder
from hipslake.errors import VerificationError
from hipslake.storage.folder import Storage

_Made = tuple[pa.Table, pa.Buffer]

KIND, COLUMN = "__kind", "__column"
FILE, REMOVED, INDEX = 0, 1, 2
_WORD_BYTES = 8  # of a value, about
_WRITING_THREADS = 2  # of a task; they mostly wait for the disk


@dataclass(frozen=True)
class Writing:
    """Both halves of the exchange that writes a cube.

    Attributes
    ----------
    cube : Storage
        At the cube's root.
    write_id : str
    offers : tuple of Offer
    plan : pyarrow.Table
        From `counted`.
    existing : dict of str to pyarrow.Table
        Per dataset that is appended to, or whose partitions are replaced, the table of its files.
    file_rows : int
        The most rows of a file.
    replacing : frozenset of str
        Datasets whose partitions are replaced as a whole.
    """

    cube: Storage
    write_id: str
    offers: tuple[Offer, ...]
    plan: pa.Table
    existing: dict[str, pa.Table]
    file_rows: int
    replacing: frozenset[str]

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that a task returns: files that it wrote or replaced, and parts of indices."""
        cuts = [field for field in self.plan.schema if field.name not in (DATASET, COUNT, TARGET)]
        about = [field.with_nullable(True) for field in ABOUT_FILES]
        return pa.schema([(KIND, pa.int8()), (DATASET, pa.int32()), *cuts, *about, (COLUMN, pa.string())])

    def send(self, task: int) -> Iterator[Routed]:
        """The rows of a part of an offer, each to the task that has its partition."""
        number, part = Counting(self.offers).place(task)
        offer = self.offers[number]
        plan = self.plan.filter(pa.array(self.plan[DATASET].to_numpy() == number))
        targets = plan[TARGET].to_numpy()
        if targets.max(initial=0) < 1 << 16:
            targets = targets.astype(np.uint16)  # these are sorted without a comparison
        for rows in offer.rows(part):
            for whole in rows.combine_chunks().to_batches():  # one, but where it has 2 GiB of text
                piece = pa.Table.from_batches([whole])
                home = targets[places_in(*paired_codes(piece, plan, offer.partition_columns))]
                order = np.argsort(home, kind="stable")
                ranked = home[order]
                bounds = [0, *(np.flatnonzero(np.diff(ranked)) + 1).tolist(), len(ranked)]
                routed = narrowed(whole).take(pa.array(order))
                for low, high in pairwise(bounds):
                    yield int(ranked[low]), routed.slice(low, high - low)

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the partitions of a task, sorted by their cells."""
        mine = self.plan.filter(pa.array(self.plan[TARGET].to_numpy() == target))
        offer = self.offers[mine[DATASET][0].as_py()]
        rows = gathered([block.rows for block in blocks], offer.schema)
        blocks.clear()
        expected = int(mine[COUNT].to_numpy().sum())
        if rows.num_rows != expected:
            raise VerificationError(
                f"dataset {offer.name!r}: {expected} rows were counted, but {rows.num_rows} came; the source "
                "changed meanwhile, so run again"
            )
        rows = check_cells(offer.name, rows, offer.cell)
        bounds = bounds_of(rows, offer.partition_columns)
        cells = pa.schema([offer.schema.field(name) for name in offer.cell])
        heads = widened(rows.select(offer.cell).take(pa.array(bounds[:-1])), cells)
        existing = self._existing(offer, heads)
        with _Writer(self, offer, target) as writer:
            for number, (low, high) in enumerate(pairwise(bounds.tolist())):
                part = widened(rows.slice(low, high - low), offer.schema)
                values = partition_values(offer.name, heads, number, offer.partition_columns)
                standing = existing.get(number, [])
                if offer.name in self.replacing:
                    writer.put(part, values, standing)
                else:
                    self._replace(writer, [path for path, _ in standing], part, values)
                    writer.add(part, values)
            yield from writer.said()

    def _existing(self, offer: Offer, heads: pa.Table) -> dict[int, list[tuple[str, str]]]:
        """The present files of some partitions, with their checksums, by the number of the partition."""
        files = self.existing.get(offer.name)
        if files is None:
            return {}
        found: dict[int, list[tuple[str, str]]] = {}
        partition, file = matches(*paired_codes(heads, files, offer.partition_columns))
        met = files.select([PATH, SHA256]).take(pa.array(file)).to_pylist()
        for number, each in zip(partition.tolist(), met, strict=True):
            found.setdefault(number, []).append((each[PATH], each[SHA256]))
        return found

    def _replace(
        self, writer: _Writer, existing: list[str], rows: pa.Table, values: Mapping[str, Any]
    ) -> None:
        """Take the cells of new rows out of the files of their partition."""
        offer = writer.offer
        stored = pa.schema([field for field in offer.schema if field.name not in offer.partition_columns])
        dimensions = pa.schema([field for field in stored if field.name in offer.cell])
        for path in existing:
            cells = read_rows(self.cube, [path], dimensions)
            lost = places_in(*paired_codes(cells, rows, dimensions.names)) >= 0
            if not lost.any():
                continue
            writer.remove(path, values)
            if not lost.all():
                kept = read_rows(self.cube, [path], stored).filter(pa.array(~lost))
                writer.add(with_constants(kept, values, offer.schema), values)


class _Writer:
    """Writes the files of one task, and collects the values of its indices.

    Files go to disk beside the work: the next one is sorted and encoded while the store keeps the last.
    """

    def __init__(self, work: Writing, offer: Offer, target: int) -> None:
        self.work, self.offer, self.target = work, offer, target
        self._said: list[dict[str, Any]] = []
        self._values: dict[str, list[pa.Table]] = {column: [] for column in offer.indexed}
        self._files = 0
        self._pool = ThreadPoolExecutor(_WRITING_THREADS, thread_name_prefix="write")
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def put(self, rows: pa.Table, values: Mapping[str, Any], existing: list[tuple[str, str]]) -> None:
        """Replace all files of a partition by rows, unless the files would be the same."""
        made = list(self._encoded(rows))
        digests = [hashlib.sha256(data).hexdigest() for _, data in made]
        if digests == [digest for _, digest in sorted(existing)]:
            return
        for path, _ in existing:
            self.remove(path, values)
        self._put_down(made, values)

    def add(self, rows: pa.Table, values: Mapping[str, Any]) -> None:
        """Write rows of one partition, sorted by their cells."""
        self._put_down(self._encoded(rows), values)

    def _put_down(self, made: Iterable[_Made], values: Mapping[str, Any]) -> None:
        for piece, data in made:
            path = data_path(self.work.write_id, self.offer.name, values, self.target, self._files)
            self._files += 1
            self._keep(path, data, values, piece.num_rows)
            for column, found in self._values.items():
                distinct = piece.column(column).combine_chunks().unique()
                labels = pa.repeat(pa.scalar(path, pa.string()), len(distinct))
                found.append(pa.table([distinct, labels], names=[column, labels_column(self.offer.name)]))

    def _encoded(self, rows: pa.Table) -> Iterator[_Made]:
        """The files of rows of one partition: what each holds, and its bytes."""
        stored = rows.drop_columns(list(self.offer.partition_columns))
        by = [name for name in self.offer.cell if name not in self.offer.partition_columns]
        for start in range(0, rows.num_rows, self.work.file_rows):
            piece = stored.slice(start, self.work.file_rows)
            yield piece, encoded(piece, by)

    def remove(self, path: str, values: Mapping[str, Any]) -> None:
        """Record that a file of an older write is no longer part of the cube."""
        self._say(REMOVED, values, path)

    def said(self) -> Iterator[pa.RecordBatch]:
        """Write the indices, and return what was written and removed."""
        for column, found in self._values.items():
            if found:
                path = index_path(self.work.write_id, self.offer.name, column, self.target)
                index = pa.concat_tables(found)
                order = index.sort_by([(column, "ascending")])
                self.work.cube.write(path, encoded(order, [column]))
                self._say(INDEX, {}, path, **{COLUMN: column})
        self._settle(0)
        yield from pa.Table.from_pylist(self._said, self.work.schema).to_batches()

    def _keep(self, path: str, data: pa.Buffer, values: Mapping[str, Any], rows: int) -> None:
        def keep() -> None:
            self.work.cube.write(path, data)
            digest = hashlib.sha256(data).hexdigest()
            self._say(FILE, values, path, **{ROWS: rows, BYTES: data.size, SHA256: digest})

        self._settle(_WRITING_THREADS)
        self._waiting.append(self._pool.submit(keep))

    def _settle(self, most: int) -> None:
        """Wait until at most so many files are being written; raises what writing raised."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    def _say(self, kind: int, values: Mapping[str, Any], path: str, **about: Any) -> None:
        number = next(at for at, each in enumerate(self.work.offers) if each.name == self.offer.name)
        self._said.append({KIND: kind, DATASET: number, **values, PATH: path, **about})


def write_changes(
    cube: Storage, write_id: str, changes: Sequence[DatasetChange], engine: Engine, file_rows: int
) -> pa.Table:
    """Write the rows of datasets, and return which files came, and which went.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    write_id : str
    changes : sequence of DatasetChange
        One for every dataset that is written. Of one whose partitions are replaced, those that have no rows
        any more go.
    engine : Engine
    file_rows : int
        The most rows of a file.

    Raises
    ------
    CubeRowsError
        A key is null, a dataset has no rows, a cell comes twice; nothing is written then.
    """
    offers = tuple(each.offer for each in changes)
    replacing = frozenset(each.offer.name for each in changes if each.replaces)
    folder = cube.sub(write_id)  # it goes as a whole if the write is killed
    hashes = sum(each.source.parts for each in offers) * PART_ROWS * _WORD_BYTES
    plan = counted(offers, engine, replacing, scratch=blocks_in_folder(folder, "_exchange_cells", hashes))
    files = {each.offer.name: each.existing_files(cube) for each in changes}
    existing = {name: table for name, table in files.items() if table is not None}
    work = Writing(cube, write_id, offers, plan, existing, file_rows, replacing)
    if not plan.num_rows:
        return _vanished(work)
    targets = int(plan[TARGET].to_numpy().max()) + 1
    with engine.progress("write the cells"):
        done = engine.exchange(
            sources=Counting(work.offers).tasks,
            mapper=work.send,
            targets=targets,
            reducer=work.write,
            result=work.schema,
            scratch=blocks_in_folder(folder, "_exchange_rows", _bytes_of(offers, plan)),
        )
    done = pa.concat_tables([done, _vanished(work)])
    return done.sort_by([(DATASET, "ascending"), (PATH, "ascending")])


def _vanished(work: Writing) -> pa.Table:
    """The files of partitions that get no rows in place of their old ones, in the schema of `Writing`."""
    found = [work.schema.empty_table()]
    for number, offer in enumerate(work.offers):
        files = work.existing.get(offer.name)
        if offer.name not in work.replacing or files is None:
            continue
        plan = work.plan.filter(pa.array(work.plan[DATASET].to_numpy() == number))
        gone = places_in(*paired_codes(files, plan, offer.partition_columns)) < 0
        paths = files[PATH].filter(pa.array(gone, pa.bool_())).to_pylist()
        rows = [{KIND: REMOVED, DATASET: number, PATH: path} for path in paths]
        found.append(pa.Table.from_pylist(rows, work.schema))
    return pa.concat_tables(found)


def _bytes_of(offers: Sequence[Offer], plan: pa.Table) -> int:
    """About how large all rows are."""
    columns = np.array([len(each.schema) for each in offers])
    values = columns[plan[DATASET].to_numpy()] * plan[COUNT].to_numpy()
    return int(values.sum()) * _WORD_BYTES
