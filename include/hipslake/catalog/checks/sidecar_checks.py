"""Checks of the sidecars of a version (partitions, increments, sources, coverage), and of its rejects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checksums import HIDDEN_CHECKSUMS, list_folder, listed_checksums
from hipslake.catalog.gone_objects import gone_schema
from hipslake.catalog.leaf_stamps import STAMP_SCHEMA
from hipslake.catalog.metadata import Adopted, CatalogMetadata, Increment, Rejects
from hipslake.catalog.partitions import (
    COVERAGE_SCHEMA,
    PARTITION_SCHEMA,
    SOURCE_SCHEMA,
    PartitionSidecar,
    Sidecar,
    read_sidecar,
)
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads, text_of

_MEND = "restore it from a copy, or ingest the rows again; no reader of the catalog needs it"


class _Asked(NamedTuple):
    """A sidecar to be read, what it has to hold, and whom it affects if it does not."""

    sidecar: Sidecar
    schema: pa.Schema
    rows: int | None  # that the column `rows` adds up to; None: it has none, or nobody says
    readers: bool
    repairable: bool


def partition_sidecar_problems(storage: Storage, sidecars: Iterable[PartitionSidecar]) -> list[Problem]:
    """What is wrong with sidecars that list leaf files: of a column group, of a margin, or those of an index.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    sidecars : iterable of PartitionSidecar
    """
    asked = [_Asked(each, PARTITION_SCHEMA, None, True, False) for each in sidecars]
    return list(_problems(storage, asked))


def stamp_problems(storage: Storage, adopted: Adopted | None) -> list[Problem]:
    """What is wrong with the stamps of adopted leaf files; parameters as of `partition_sidecar_problems`."""
    stamps = None if adopted is None else adopted.stamps
    return (
        [] if stamps is None else list(_problems(storage, [_Asked(stamps, STAMP_SCHEMA, None, True, False)]))
    )


def gone_object_problems(storage: Storage, metadata: CatalogMetadata) -> list[Problem]:
    """What is wrong with lists of objects that are gone; parameters as of `partition_sidecar_problems`."""
    asked = [
        _Asked(mark.objects.gone, gone_schema(metadata, mark.column), None, False, False)
        for mark in metadata.co_partitioned
        if mark.objects is not None and mark.objects.gone is not None
    ]
    return list(_problems(storage, asked))


def increment_problems(
    storage: Storage, increments: Sequence[Increment], *, seen: set[str] | None = None
) -> Iterator[Problem]:
    """The problems of the files of increments: coverage, lists of sources, and rejects.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    increments : sequence of Increment
    seen : set of str, optional
        Paths of sidecars that were looked at before, and are passed over; those of these are added.
    """
    asked = []
    for each in increments:
        if each.coverage is not None:
            schema = PARTITION_SCHEMA if each.by_leaf else COVERAGE_SCHEMA
            asked.append(_Asked(each.coverage, schema, each.rows, False, not each.by_leaf))
        if each.sources.sidecar is not None:
            asked.append(_Asked(each.sources.sidecar, SOURCE_SCHEMA, each.sources.rows, False, False))
    if seen is not None:
        asked = [each for each in asked if each.sidecar.path not in seen]
        seen |= {each.sidecar.path for each in asked}
    yield from _problems(storage, asked)
    for increment in increments:
        path = increment.rejects.path
        if path is not None and (seen is None or path not in seen):
            yield from reject_problems(storage, increment.rejects)
            if seen is not None:
                seen.add(path)


def _problems(storage: Storage, asked: Iterable[_Asked]) -> Iterator[Problem]:
    found = in_threads(storage, lambda each: _problem(storage, each), asked)
    return (problem for problem in found if problem is not None)


def _problem(storage: Storage, asked: _Asked) -> Problem | None:
    path, kind = asked.sidecar.path, ProblemKind.SIDECAR
    message = ""
    try:
        table = read_sidecar(storage, asked.sidecar, asked.schema)
    except FileNotFoundError:
        kind, message = ProblemKind.MISSING_FILE, "a version names the file, but it is not there"
    except CatalogFormatError as error:
        message = str(error)
    else:
        found = None if asked.rows is None else pc.sum(table["rows"]).as_py() or 0
        if found != asked.rows:
            message = f"counts {found} rows, where its increment has {asked.rows}"
    if not message:
        return None
    return Problem.of(kind, path, message, readers=asked.readers, repairable=asked.repairable)


def reject_problems(storage: Storage, rejects: Rejects) -> Iterator[Problem]:
    """What is wrong with the rejects of an increment.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    rejects : Rejects
    """
    if rejects.path is None:
        return
    listing = f"{rejects.path}/{HIDDEN_CHECKSUMS}"
    data = text_of(storage, listing)
    sums = listed_checksums(data) if data is not None else {}
    if sums is None or not all(path.startswith(f"{rejects.path}/") for path in sums):
        sums = None
        yield _wrong(listing, "is damaged, or of other files")
    found = list_folder(storage, rejects.path)
    for path in sorted({*found, *(sums or {})}):
        if path not in found:
            yield _wrong(path, "is missing", missing=True)
        elif sums and path not in sums:
            yield _wrong(path, f"is not in {listing}: nobody knows whose it is")
        elif sums and found[path] != sums[path]:
            yield _wrong(path, f"is not the file that was written: its SHA-256 is not the one in {listing}")
    if not sums:  # older libraries listed none
        yield from _counted(storage, rejects, sorted(found))


def _counted(storage: Storage, rejects: Rejects, paths: list[str]) -> Iterator[Problem]:
    rows = 0
    for path in paths:
        try:
            rows += pq.read_table(pa.BufferReader(storage.read(path))).num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            yield _wrong(path, f"cannot be read ({str(error).splitlines()[0]})")
            return
    if rows != rejects.rows:
        assert rejects.path is not None
        message = f"holds {rows} rows, where its increment says that {rejects.rows} were rejected"
        yield _wrong(rejects.path, message)


def _wrong(path: str, message: str, *, missing: bool = False) -> Problem:
    kind = ProblemKind.MISSING_FILE if missing else ProblemKind.SIDECAR
    return Problem.of(kind, path, message, _MEND, readers=False)
