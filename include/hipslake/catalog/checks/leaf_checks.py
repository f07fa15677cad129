"""Checks of one leaf file against the metadata: a function for a task of any engine.

The file is decoded whole, but one batch of rows at a time, so that memory is bounded by a row group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import LeafFindings, Problem, ProblemKind, content_problems
from hipslake.catalog.checks.row_checks import RowChecks, RowRules
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.metadata import Partition
from hipslake.catalog.schema import ROW_COLUMN, schema_of_text
from hipslake.errors import CatalogFormatError, StorageError
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import Layout
from hipslake.specs.threshold import Threshold, ThresholdUnit
from hipslake.sphere.pixels import HEALPIX_COLUMN, Pixel
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_footer import FooterError

BATCH_ROWS = 1 << 17
HELD_BYTES = 64 << 20
"""Up to this size a file of a store is fetched once, and held while it is looked at."""
# What pyarrow raises at damaged files: the last two where a number or a name in the footer is wrong.
_DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError)


class LeafRules(Frozen):
    """The rules for all leaf files of a column group or margin. Small and picklable: broadcast it once."""

    layout: Layout
    gathers: bool = False
    group: str
    arrow_schema: str  # as in metadata.json: see `schema_text`
    write_id: str  # of the version; files of other writes are older
    rows: RowRules
    threshold: Threshold | None = None


def fetched(storage: Storage, partition: Partition) -> Any:
    """The content of a leaf file in a store, and a byte more if it is longer than metadata.json says."""
    return storage.range_buffer(partition.path, 0, partition.bytes + 1)


def verify_partition(
    storage: Storage, rules: LeafRules, partition: Partition, content: Future[Any] | None = None
) -> LeafFindings:
    """Read one leaf file and say all that is wrong with it.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    rules : LeafRules
    partition : Partition
        What metadata.json says of the leaf.
    content : Future, optional
        Will hold what `fetched` gives.

    Raises
    ------
    StorageError
        The store did not answer. That the file is missing, short or damaged is a finding.
    """
    problems = list(_place(rules, partition))
    try:
        held = None if content is None else content.result()
        if held is not None and len(held) > partition.bytes:  # nobody knows how long it is
            held = None
        if held is None:
            size, sha256 = storage.entry(partition.path).size, storage.sha256(partition.path)
        else:
            size, sha256 = len(held), hashlib.sha256(held).hexdigest()
    except FileNotFoundError:
        gone = Problem.of(
            ProblemKind.MISSING_FILE, partition.path, "metadata.json names the file, but it is not there"
        )
        return LeafFindings(group=rules.group, path=partition.path, problems=(*problems, gone))
    problems += _content(rules, partition, size, sha256)
    is_original = sha256 == partition.sha256
    checks = RowChecks(rules.rows, Pixel(partition.order, partition.npix), is_original=is_original)
    try:
        with (
            storage.arrow_file(partition.path, size)
            if held is None
            else pa.BufferReader(pa.py_buffer(held)) as source,
            pq.ParquetFile(source, pre_buffer=not storage.is_local) as file,  # few large requests to a store
        ):
            problems += _footer(rules, partition, file)
            problems += _rows(storage, file, partition, checks)
    except Exception as error:
        damage = _damage(storage, partition.path, error, "the footer cannot be read")
        problems.append(Problem.of(ProblemKind.UNREADABLE, partition.path, damage))
    problems += checks.problems(partition.path)
    return LeafFindings(
        group=rules.group,
        path=partition.path,
        problems=tuple(problems),
        rows=checks.rows,
        bytes=size,
        sha256=sha256,
        digest=checks.digest,
    )


def _place(rules: LeafRules, partition: Partition) -> Iterator[Problem]:
    at = Pixel(partition.order, partition.npix)
    try:
        _, group, pixel = layout_paths(rules.layout, gathers=rules.gathers).parse(partition.path)
    except CatalogFormatError as error:
        yield Problem.of(ProblemKind.WRONG_PATH, partition.path, str(error))
        return
    if (group, pixel) != (rules.group, at):
        message = f"metadata.json files it under group {rules.group!r}, {at}"
        yield Problem.of(ProblemKind.WRONG_PATH, partition.path, message)


def _content(rules: LeafRules, partition: Partition, size: int, sha256: str) -> Iterator[Problem]:
    yield from content_problems(partition, size=size, sha256=sha256)
    limit = rules.threshold
    if limit is not None:
        measured = partition.rows if limit.unit is ThresholdUnit.ROWS else size
        if measured > limit.value:
            message = f"the leaf has {measured} {limit.unit.value}, over the threshold of {limit.value}"
            yield Problem.of(ProblemKind.THRESHOLD, partition.path, message)


def _footer(rules: LeafRules, partition: Partition, file: pq.ParquetFile) -> Iterator[Problem]:
    footer, path = file.metadata, partition.path
    if footer.num_rows != partition.rows:
        message = f"the footer counts {footer.num_rows} rows, metadata.json says {partition.rows}"
        yield Problem.of(ProblemKind.ROW_COUNT, path, message)
    if footer.num_rows == 0:
        yield Problem.of(ProblemKind.ROW_COUNT, path, "the leaf is empty; empty leaves are not written")
    older = not path.startswith(f"{rules.write_id}/")
    for difference in schema_differences(_expected(rules.arrow_schema), file.schema_arrow, older=older):
        yield Problem.of(ProblemKind.SCHEMA, path, difference)
    sorted_by = [HEALPIX_COLUMN, ROW_COLUMN] if rules.rows.stores_rows else [HEALPIX_COLUMN]
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        declared = [footer.schema.column(key.column_index).path for key in group.sorting_columns]
        if declared != sorted_by:
            message = (
                f"row group {number} is declared as sorted by {', '.join(declared) or 'nothing'}, "
                f"not by {', '.join(sorted_by)}"
            )
            yield Problem.of(ProblemKind.SORT_ORDER, path, message)
            break


def _rows(
    storage: Storage, file: pq.ParquetFile, partition: Partition, checks: RowChecks
) -> Iterator[Problem]:
    """Decode every column of every row group; a damaged one does not hide the others."""
    footer, path = file.metadata, partition.path
    chunks = ColumnChunks(footer)
    complete = True
    for number in range(footer.num_row_groups):
        before = checks.rows
        checks.begin_row_group()
        try:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[number], use_threads=False):
                batch.validate(full=True)
                checks.take(batch)
        except Exception as error:
            damage = _damage(storage, path, error, f"row group {number} cannot be decoded")
            yield Problem.of(ProblemKind.UNREADABLE, path, damage)
            complete = False
            continue
        found, said = checks.rows - before, footer.row_group(number).num_rows
        if found != said:
            message = f"row group {number} holds {found} rows, its footer says {said}"
            yield Problem.of(ProblemKind.ROW_COUNT, path, message)
        try:
            yield from _statistics(footer, chunks, number, path, checks)
        except FooterError as error:
            yield Problem.of(ProblemKind.UNREADABLE, path, f"the footer contradicts itself: {error}")
    if complete and checks.rows != partition.rows and footer.num_rows == partition.rows:
        message = f"{checks.rows} rows were read, metadata.json says {partition.rows}"
        yield Problem.of(ProblemKind.ROW_COUNT, path, message)


def _statistics(
    footer: pq.FileMetaData, chunks: ColumnChunks, number: int, path: str, checks: RowChecks
) -> Iterator[Problem]:
    """Readers skip row groups by these: a wrong one hides rows that are there."""
    columns = {footer.schema.column(at).path: chunks(number, at) for at in range(footer.num_columns)}
    found = columns[HEALPIX_COLUMN].statistics if HEALPIX_COLUMN in columns else None
    if found is None or not found.has_min_max or checks.span is None:
        return
    if (found.min, found.max) != checks.span:
        message = (
            f"row group {number}: the footer says that _healpix_29 runs from {found.min} to {found.max}, "
            f"but it runs from {checks.span[0]} to {checks.span[1]}"
        )
        yield Problem.of(ProblemKind.STATISTICS, path, message)


@lru_cache(maxsize=16)
def _expected(arrow_schema: str) -> pa.Schema:
    return as_stored(schema_of_text(arrow_schema))


def as_stored(schema: pa.Schema) -> pa.Schema:
    """A schema as Parquet gives it back: a timestamp in seconds, say, is stored in milliseconds."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, version="2.6")
    return pq.read_schema(pa.BufferReader(sink.getvalue()))


def schema_differences(expected: pa.Schema, found: pa.Schema, *, older: bool = False) -> list[str]:
    """How a file's schema differs from its group's: names, order, types, nullability, fields' metadata.

    An older file may lack nullable columns, which came after it, hold no nulls where others may now, and say
    nothing of columns whose unit or description came later.
    """
    differences = []
    if older:
        held = [field for field in expected if not field.nullable or field.name in found.names]
        expected = pa.schema([_as_before(field, found) for field in held])
    missing = [name for name in expected.names if name not in set(found.names)]
    extra = [name for name in found.names if name not in set(expected.names)]
    if missing:
        differences.append(f"column {', '.join(missing)} is missing")
    if extra:
        differences.append(f"column {', '.join(extra)} is not in the group's schema")
    if not missing and not extra and expected.names != found.names:
        differences.append(f"the columns stand in the order {', '.join(found.names)}")
    for name in sorted(set(expected.names) & set(found.names)):
        differences += _field_differences(expected.field(name), found.field(name))
    return differences


def _as_before(field: pa.Field, found: pa.Schema) -> pa.Field:
    """A field as a file of an older write may have it."""
    if field.name not in found.names:
        return field
    standing = found.field(field.name)
    metadata = field.metadata if _own_metadata(standing) else None
    return field.with_nullable(field.nullable and standing.nullable).with_metadata(metadata)


def _field_differences(expected: pa.Field, found: pa.Field) -> list[str]:
    differences = []
    if expected.type != found.type:
        differences.append(f"column {expected.name} is {found.type}, the group's schema says {expected.type}")
    if expected.nullable != found.nullable:
        differences.append(
            f"column {expected.name} is {'' if found.nullable else 'not '}nullable, "
            "the group's schema says otherwise"
        )
    if _own_metadata(expected) != _own_metadata(found):
        differences.append(
            f"column {expected.name} carries the metadata {_own_metadata(found)}, "
            f"the group's schema {_own_metadata(expected)}"
        )
    return differences


def _own_metadata(field: pa.Field) -> dict[str, str]:
    """The field's metadata without what the Parquet reader adds."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (field.metadata or {}).items()
        if not key.startswith(b"PARQUET:")
    }


def _damage(storage: Storage, path: str, error: Exception, what: str) -> str:
    """The report of an error that a damaged file causes. Errors of the store or the program are raised."""
    if isinstance(error, OSError) and error.errno is not None:
        raise StorageError(f"{storage.uri(path)}: {error}; try again when the store answers") from error
    if isinstance(error, StorageError) or not isinstance(error, _DAMAGE):
        raise error
    return f"{what} ({(str(error).strip() or type(error).__name__).splitlines()[0]})"
