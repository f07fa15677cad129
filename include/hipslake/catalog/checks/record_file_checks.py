"""Checks of the files of key records: what the metadata lists, every file by itself, and runs against nights.

The run of a night has what it brought. Runs for lookup have the same entries, merged; so for each increment,
sums of 64-bit hashes over both are equal.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checks.leaf_lists import tasks_for
from hipslake.catalog.metadata import CatalogMetadata, Increment, RecordFile, RecordRun
from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.record_lookup import BY_ROW
from hipslake.catalog.records.record_rows import key_of
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.clustering.checksum import row_hashes
from hipslake.engine.model import Engine
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage

_WORD = 1 << 64
_RESULT = pa.schema(
    [
        ("path", pa.string()),
        ("wrong", pa.string()),  # of a file as a whole; "" in a row of an ordinal
        ("kind", pa.string()),
        ("ordinal", pa.int64()),
        ("entries", pa.int64()),
        ("total", pa.int64()),  # sum of hashes, as 64 bits
    ]
)
_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, CatalogFormatError)


class _Digest(NamedTuple):
    entries: int = 0
    total: int = 0

    def plus(self, other: _Digest) -> _Digest:
        return _Digest(self.entries + other.entries, (self.total + other.total) % _WORD)


def record_list_problems(metadata: CatalogMetadata, increments: Sequence[Increment]) -> Iterator[Problem]:
    """Whether the key records that a version lists are those of its increments; no file is read.

    Parameters
    ----------
    metadata : CatalogMetadata
    increments : sequence of Increment
        All of the version's.
    """
    records, known = metadata.key_records, {each.ordinal for each in increments}
    changes = {each.ordinal: each for each in increments if each.changes is not None}
    if records is None:
        if changes:
            yield _wrong("increments have key records, but the version has none to look keys up in")
        return
    counted: Counter[int] = Counter()
    for run in records.runs:
        counted.update(run.counting.tolist())
    brought = {ordinal for ordinal, each in changes.items() if each.changes and each.changes.run.rows}
    brought |= metadata.tombstones
    for ordinal in sorted(brought - counted.keys()):
        yield _wrong(f"the records of increment {ordinal} are in no run")
    for ordinal in sorted(counted.keys() - brought):
        yield _wrong(f"a run has records of increment {ordinal}, which brought none")
    for ordinal in sorted(each for each, times in counted.items() if times > 1):
        yield _wrong(f"the records of increment {ordinal} are in {counted[ordinal]} runs")
    beaten = {ordinal for run in records.superseded for ordinal in run.counting.tolist()}
    for ordinal in sorted(beaten - known):
        yield _wrong(f"there are superseded rows of increment {ordinal}, which the version does not have")
    for ordinal, each in sorted(changes.items()):
        assert each.changes is not None
        if each.changes.run.rows != each.rows + each.deletes:
            yield _wrong(
                f"increment {ordinal} has {each.changes.run.rows} records, but {each.rows} rows and "
                f"{each.deletes} deletes"
            )
        if each.changes.run.counting.tolist() != [ordinal]:
            yield _wrong(f"the run of increment {ordinal} says that it is of {each.changes.run.ordinals}")


def record_file_problems(
    storage: Storage,
    metadata: CatalogMetadata,
    increments: Sequence[Increment],
    schema: pa.Schema,
    engine: Engine,
    *,
    seen: Container[str] = (),
) -> Iterator[Problem]:
    """What is wrong with the files of key records and of superseded rows.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    increments : sequence of Increment
        All of the version's.
    schema : pyarrow.Schema
        Of records.
    engine : Engine
        Its tasks read the files, each holding one.
    seen : container of str
        Paths of files that were looked at before, and are passed over: nothing is compared with them then.
    """
    records = metadata.key_records
    assert records is not None
    own = {each.ordinal: each.changes.run for each in increments if each.changes is not None}
    superseded = {run.name for run in records.superseded}
    listed: dict[str, tuple[RecordFile, ...]] = {}  # by name of the run
    files: dict[str, tuple[RecordFile, bool]] = {}
    for run in (*records.all_runs, *own.values()):
        if run.name is None or run.name in listed:
            continue
        try:
            listed[run.name] = run.listed(storage)
        except FileNotFoundError:
            message = "a version names the file, but it is not there"
            yield Problem.of(ProblemKind.MISSING_FILE, run.name, message)
            continue
        except CatalogFormatError as error:
            yield Problem.of(ProblemKind.SIDECAR, run.name, str(error))
            continue
        found = listed[run.name]
        if (rows := sum(file.rows for file in found)) != run.rows:
            yield _wrong(f"the run has {run.rows} entries, but its files {rows}", run.name)
        files |= {file.path: (file, run.name in superseded) for file in found}
    asked = tuple(each for path, each in files.items() if path not in seen)
    if not asked:
        return
    parts = min(len(asked), tasks_for(engine))
    task = RecordFilesTask(storage, asked, schema, parts)
    with engine.progress("verify the key records", rows=sum(file.rows for file, _ in asked)):
        table = engine.run(task, tasks=parts, result=_RESULT)
    digests: dict[str, dict[int, _Digest]] = defaultdict(dict)
    damaged = set()
    for row in table.sort_by([("path", "ascending"), ("ordinal", "ascending")]).to_pylist():
        if row["wrong"]:
            damaged.add(row["path"])
            yield Problem.of(ProblemKind(row["kind"]), row["path"], row["wrong"])
        elif row["ordinal"] is not None:
            digests[row["path"]][row["ordinal"]] = _Digest(row["entries"], row["total"] % _WORD)
    if damaged or len(asked) != len(files):
        return

    def of_run(run: RecordRun, ordinal: int) -> _Digest:
        total = _Digest()
        for file in listed.get(run.name or "", ()):
            total = total.plus(digests[file.path].get(ordinal, _Digest()))
        return total

    for run in records.runs:
        if run.name not in listed:
            continue
        for ordinal in run.counting.tolist():
            mine = own.get(ordinal)
            if mine is None or (mine.name is not None and mine.name not in listed):
                continue
            night, found_there = of_run(mine, ordinal), of_run(run, ordinal)
            if night != found_there:
                yield _wrong(
                    f"of increment {ordinal}, which brought {night.entries} records, the run has "
                    f"{found_there.entries}"
                    if night.entries != found_there.entries
                    else f"the run has other records of increment {ordinal} than it brought",
                    run.name or "",
                )


@dataclass(frozen=True)
class RecordFilesTask:
    """Reads files of records and of superseded rows.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    files : tuple of (RecordFile, bool)
        Each with whether it has superseded rows.
    schema : pyarrow.Schema
        Of records.
    parts : int
        Tasks.
    """

    storage: Storage
    files: tuple[tuple[RecordFile, bool], ...]
    schema: pa.Schema
    parts: int

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Give what is wrong with the files of a task, and the digest of each increment in each."""
        for file, superseded in self.files[number :: self.parts]:
            yield pa.RecordBatch.from_pylist(list(self._rows(file, superseded)), _RESULT)

    def _rows(self, file: RecordFile, superseded: bool) -> Iterator[dict[str, object]]:
        try:
            data = self.storage.read(file.path)
        except FileNotFoundError:
            yield _row(file, ProblemKind.MISSING_FILE, "a version names the file, but it is not there")
            return
        if len(data) != file.bytes:
            message = f"the file has {len(data)} bytes, metadata.json says {file.bytes}"
            yield _row(file, ProblemKind.SIZE, message)
        digest = hashlib.sha256(data).hexdigest()
        if digest != file.sha256:
            message = f"the file's SHA-256 is {digest}, metadata.json says {file.sha256}"
            yield _row(file, ProblemKind.CHECKSUM, message)
            return
        try:
            parquet = pq.ParquetFile(pa.BufferReader(data))
            by = BY_ROW if superseded else key_of(self.schema)
            columns = list(by.names) if superseded else self.schema.names
            table = parquet.read(columns, use_threads=False)
            table = table.select(columns).cast(by.schema if superseded else self.schema)
            yield from (_row(file, ProblemKind.RECORDS, wrong) for wrong in _disorder(table, file, by))
        except (*_DAMAGE, KeyError) as error:
            yield _row(file, ProblemKind.UNREADABLE, f"cannot be read ({error})")
            return
        if superseded:
            return
        ordinals = table[ROW_COLUMN].to_numpy() >> ORDINAL_SHIFT
        hashes = row_hashes(table)
        for ordinal in np.unique(ordinals).tolist():
            mine = ordinals == ordinal
            total = int(hashes[mine].sum(dtype=np.uint64).view(np.int64))
            yield {
                "path": file.path,
                "wrong": "",
                "kind": "",
                "ordinal": ordinal,
                "entries": int(np.count_nonzero(mine)),
                "total": total,
            }


def _disorder(table: pa.Table, file: RecordFile, by: KeyColumns) -> Iterator[str]:
    """What is wrong with the entries of a file: their number, their order, its first and last key."""
    if table.num_rows != file.rows:
        yield f"it has {table.num_rows} entries, metadata.json says {file.rows}"
    codes, ends = by.ranks(table, by.from_texts([file.first, file.last]))
    if (codes[1:] < codes[:-1]).any():
        yield f"its entries are not sorted by {', '.join(by.names)}"
    if not len(codes) or (codes[0], codes[-1]) != (ends[0], ends[1]):
        said = f"from {', '.join(file.first)} to {', '.join(file.last)}"
        yield f"its keys do not run {said}, as metadata.json says"


def _row(file: RecordFile, kind: ProblemKind, wrong: str) -> dict[str, object]:
    return {"path": file.path, "wrong": wrong, "kind": str(kind), "ordinal": None, "entries": 0, "total": 0}


def _wrong(message: str, path: str = "") -> Problem:
    return Problem.of(ProblemKind.RECORDS, path, message)


def record_paths(storage: Storage, metadata: CatalogMetadata) -> set[str]:
    """The files of records that a version names, but for those of sidecars that cannot be read."""
    if metadata.key_records is None:
        return set()
    runs = list(metadata.key_records.all_runs)
    found: set[str] = set()
    with suppress(CatalogFormatError, FileNotFoundError):
        runs += [each.changes.run for each in metadata.all_increments(storage) if each.changes]
    for run in runs:
        with suppress(CatalogFormatError, FileNotFoundError):
            found.update(file.path for file in run.listed(storage))
    return found
