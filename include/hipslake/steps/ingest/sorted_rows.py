"""Rows that the histogram step keeps for the write step, as the sorted runs of an external merge sort.

The histogram step reads every row to count it. Where all work is done on one machine, it leaves the rows in
files there as well, in pieces that are each in curve order; once the plan says which stretch of the curve a
leaf is, the write step merges what the pieces have of it. So a source is read, decoded and placed on the sky
once, and not twice.

A task of the histogram step makes some files for each column group, each of a stretch of the curve: what is
of a stretch is deleted as soon as its leaves are written, so that the disk need not hold both all rows and
all that is made of them.
"""

from __future__ import annotations

import logging
import resource
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.placement import in_curve_order, indexed
from hipslake.catalog.schema import check_columns
from hipslake.engine.model import own_dictionaries
from hipslake.errors import StorageError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import WHOLE_SKY
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.split_rows import CHUNK_BYTES, Chunk
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.available_memory import available_memory
from hipslake.storage.folder import Storage
from hipslake.storage.write_out import ScratchFile, bytes_kept_unwritten
from hipslake.versions.heartbeat import resting_seconds

log = logging.getLogger(__name__)

FILES_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("name", pa.string()),
        ("bytes", pa.int64()),
        ("split", pa.int64()),  # the first that its task read: rows are numbered from there
        ("start", pa.int64()),  # of the stretch of the curve
        ("stop", pa.int64()),
    ]
)
"""The files, in source order. The metadata say in which folder they are, and since which boot."""

_GROWTH = 2  # a source's rows over the bytes that it is stored in
_CHUNKS = 512  # that the rows are sorted in, at most: more cost the merge more than the memory is worth
_MAX_CHUNK_BYTES = 64 << 20  # unless a source gives more at once
_HELD = 3  # times a chunk is in memory: as it is read, in its order, and as it is sent
_SHARE = 4  # one in so many bytes of the memory that is left may be taken for chunks
_STRETCHES = 16  # files of a task for each column group, where it may have so many open
_SHORTEST_REST = 3600.0  # seconds that rows of another run stay
_BOOT = Path("/proc/sys/kernel/random/boot_id")
FOLDER_KEY, BOOT_KEY = b"folder", b"boot"


def may_keep_rows(folder: RunFolder) -> bool:
    """Whether a run writes all rows as they are counted, and has a disk of this machine to keep them on.

    Nights are written otherwise, and of rows that newer ones take the place of, or that delete others, it is
    not known yet which are written.
    """
    run = FrozenRun.of(folder)
    is_local = folder.storage.is_local and Storage.at(run.catalog_uri).is_local
    return is_local and run.spec.newest is None and not run.spec.mode.by_intervals


@dataclass(frozen=True)
class SortedRows:
    """How the tasks of a histogram step keep the rows that they count; it travels with them.

    Attributes
    ----------
    folder : Storage
        The run folder, on a disk of this machine.
    path : str
        Where the files go in it: a folder for one attempt at the step.
    spec : CatalogSpec
    schemas : mapping of str to pyarrow.Schema
        Per column group, the schema of its leaf files.
    chunk_bytes : int
        Of the rows that are sorted at once, about.
    stretches : int
        Of the curve, into which a task cuts what it keeps.
    reserve : int
        Bytes that stay free on the disk.
    write_out : bool
        Let the kernel begin to write files to disk at once, since they are more than it keeps in memory.
    """

    folder: Storage
    path: str
    spec: CatalogSpec
    schemas: Mapping[str, pa.Schema]
    chunk_bytes: int
    stretches: int
    reserve: int
    write_out: bool

    @classmethod
    def of(
        cls, folder: Storage, spec: CatalogSpec, schema: pa.Schema, *, source_bytes: int, at_once: int
    ) -> Self | None:
        """How to keep the rows of a source; None where this machine may lack room, as the log says.

        Parameters
        ----------
        folder : Storage
            The run folder, on a disk of this machine.
        spec : CatalogSpec
        schema : pyarrow.Schema
            Of the source's rows.
        source_bytes : int
            That the source is stored in.
        at_once : int
            Tasks that run at the same time, in one process or several.
        """
        schemas, size = check_columns(spec, schema), _GROWTH * source_bytes
        chunk_bytes = min(max(CHUNK_BYTES, size // _CHUNKS), _MAX_CHUNK_BYTES)
        may_open = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096) // 4
        kept = cls(
            folder,
            f"{RunFolder.SORTED}/{secrets.token_hex(4)}",  # an attempt that was given up may still be running
            spec,
            schemas,
            chunk_bytes=chunk_bytes,
            stretches=min(_STRETCHES, may_open // (len(schemas) * at_once)),
            reserve=source_bytes,  # for the leaf files
            write_out=size > bytes_kept_unwritten(),
        )
        memory, sorting = available_memory(), _HELD * chunk_bytes * at_once
        if memory is not None and sorting > memory // _SHARE:
            lacking = f"to sort them takes {sorting} bytes of memory, of which {memory // _SHARE} are allowed"
        elif not kept.stretches:
            lacking = f"{len(schemas) * at_once} files for each stretch are more than may be open"
        elif not boot_id():
            lacking = "this system does not tell its boots apart"
        elif not kept.has_room(size):
            lacking = f"{folder.root} needs {size + kept.reserve} free bytes, for them and for the leaves"
        else:
            return kept
        log.info("No rows are kept, and the write step reads the files again: %s.", lacking)
        return None

    def has_room(self, size: int) -> bool:
        """Whether the disk has room for some bytes, and for what is made of all rows."""
        return shutil.disk_usage(self.folder.root).free >= size + self.reserve

    @property
    def stopped(self) -> Path:
        """A file that is there once a task could not keep its rows: then the others need not either."""
        return Path(self.folder.uri(self.path), "stopped")

    def keeping(self, task: int, split: int) -> KeptByTask:
        """For a task: takes the rows that it reads, the first of which are of a split."""
        return KeptByTask(self, task, split)

    def record_path(self, task: int) -> str:
        """Where a task that has kept its rows says in which files, as `FILES_SCHEMA`."""
        return f"{self.path}/{task:08d}.parquet"

    def store(self, tasks: int) -> bool:
        """Say in the run folder which files there are, if all tasks have kept theirs; whether it is so."""
        try:
            records = [read_table(self.folder, self.record_path(task)) for task in range(tasks)]
        except FileNotFoundError:
            return False
        told = {FOLDER_KEY: self.path, BOOT_KEY: boot_id()}
        write_table(
            self.folder, RunFolder.SORTED_FILES, pa.concat_tables(records).replace_schema_metadata(told)
        )
        return True

    def give_up(self) -> None:
        """Delete what was kept."""
        self.folder.delete_tree(self.path)


class KeptByTask:
    """The rows that one attempt at a task has sorted, in files of its own. A context manager.

    Nothing is kept any more once a row has no place, since the write step tells of such rows and so reads all
    again; nor once the disk has no room, or another task has stopped.
    """

    def __init__(self, sorted_rows: SortedRows, task: int, split: int) -> None:
        self._of, self._task, self._split = sorted_rows, task, split
        self._starts: NDArray[np.int64] | None = None
        self._files: dict[tuple[str, int], _BatchFile] = {}
        self._keeps = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stop()
        if not self._keeps:
            return
        try:
            for file in self._files.values():
                file.close()
            write_table(self._of.folder, self._of.record_path(self._task), self._record())
        except (OSError, StorageError) as error:
            log.info("No rows are kept: %s", error)
            self._stop()

    def add(self, chunk: Chunk) -> NDArray[np.int64]:
        """Sort and keep the rows of the next chunk; return their `_healpix_29`, int64[n], in any order."""
        position = self._of.spec.position
        if self._keeps and not self._may_keep(chunk):
            self._stop()
        if not self._keeps:
            return indexed(chunk.placed, position).h29
        keys, groups = in_curve_order(
            chunk.rows, chunk.placed, position=position, schemas=self._of.schemas, row_start=chunk.first
        )
        if len(keys):
            try:
                self._keep(keys, groups)
            except OSError as error:
                log.info("No rows are kept: %s", error)
                self._stop()
        return keys

    def _may_keep(self, chunk: Chunk) -> bool:
        stopped = chunk.placed.reasons is not None or self._of.stopped.exists()
        return not stopped and self._of.has_room(2 * chunk.rows.nbytes)

    def _keep(self, keys: NDArray[np.int64], groups: Mapping[str, pa.RecordBatch]) -> None:
        if self._starts is None:  # the first chunk tells where the rows of the others may lie
            inner = keys[np.arange(1, self._of.stretches) * len(keys) // self._of.stretches]
            self._starts = np.unique(np.append(WHOLE_SKY[0], inner))
        cuts = [*np.searchsorted(keys, self._starts).tolist(), len(keys)]
        for group, rows in groups.items():
            for stretch, (first, last) in enumerate(pairwise(cuts)):
                if last > first:
                    self._file(group, stretch).write(own_dictionaries(rows.slice(first, last - first)))

    def _file(self, group: str, stretch: int) -> _BatchFile:
        if (group, stretch) not in self._files:
            number = len(self._files)
            name = f"{self._task:08d}-{secrets.token_hex(8)}-{number}.arrow"  # attempts may run side by side
            path = Path(self._of.folder.uri(self._of.path), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            file = _BatchFile(path, self._of.schemas[group], write_out=self._of.write_out)
            self._files[group, stretch] = file
        return self._files[group, stretch]

    def _stop(self) -> None:
        self._keeps = False
        with suppress(OSError):  # nobody has to know: where a record is missing, nothing counts as kept
            self._of.stopped.parent.mkdir(parents=True, exist_ok=True)
            self._of.stopped.touch()
        for file in self._files.values():
            file.delete()
        self._files.clear()

    def _record(self) -> pa.Table:
        starts = np.empty(0, np.int64) if self._starts is None else self._starts
        stops = np.append(starts[1:], WHOLE_SKY[1])
        rows = [
            (group, file.path.name, file.size, self._split, int(starts[stretch]), int(stops[stretch]))
            for (group, stretch), file in sorted(self._files.items(), key=lambda item: item[0])
        ]
        named = [dict(zip(FILES_SCHEMA.names, row, strict=True)) for row in rows]
        return pa.Table.from_pylist(named, FILES_SCHEMA)


class _BatchFile:
    """A file of record batches, as an Arrow IPC stream."""

    def __init__(self, path: Path, schema: pa.Schema, *, write_out: bool) -> None:
        self.path, self.size = path, 0
        self._file = ScratchFile(path, write_out=write_out)
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, mode="w"), schema)

    def write(self, rows: pa.RecordBatch) -> None:
        """Append a batch."""
        self._writer.write_batch(rows)

    def close(self) -> None:
        """End the file."""
        with self._file:
            self._writer.close()
            self.size = self._file.tell()

    def delete(self) -> None:
        """Take the file away, ended or not."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def delete_rows_of_dead_runs(folder: RunFolder) -> None:
    """Delete the rows that other runs of a spec have kept, and that nobody will merge.

    A run merges its rows soon, or has failed; after a day (`HIPSLAKE_RESTING_SECONDS`, as of write folders,
    but an hour at least) it reads its files once more, should somebody go on with it.
    """
    if not folder.storage.is_local:
        return
    limit = time.time() - max(resting_seconds(), _SHORTEST_REST)
    for kept in Path(folder.storage.root).parent.glob(f"*/{RunFolder.SORTED}/*"):
        with suppress(OSError):  # that run deletes it itself
            if kept.stat().st_mtime < limit:
                shutil.rmtree(kept)


def boot_id() -> bytes:
    """Tells the boots of the machine apart; nothing where its kernel does not say."""
    try:
        return _BOOT.read_bytes().strip()
    except OSError:
        return b""
