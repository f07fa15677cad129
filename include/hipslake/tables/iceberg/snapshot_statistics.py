"""Statistics of snapshots: how many distinct values columns have, as sketches in Puffin files.

A file of statistics is written before the commit that makes its snapshot, and set by that very commit: there
is no snapshot of ours whose statistics are still to come. Its name has the id of the commit, so that a sweep
finds what a failed one has left.

A sketch is right for a snapshot only if it has seen the values of all its rows and of no others. Rows cannot
be taken out of one. So a commit unites what is known of the rows that stay with the rows that it adds, and a
column of which the former is not known has no sketch. A commit that puts the same rows into other files takes
the sketches over.

The bytes that are hashed depend on the type of a column, and types may be widened. A sketch of ours says its
type; of others it is known where the snapshot's schema has the present type.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetStatisticsUpdate

from hipslake.errors import CorruptFileError
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.puffin_file import MOST_BYTES, THETA, Blob, blobs_of, puffin_of
from hipslake.tables.iceberg.snapshot_history import ancestors_of
from hipslake.tables.new_files import NewFile
from hipslake.tables.value_sketches import Sketch, distinct_values, of_files, united

log = logging.getLogger(__name__)

DISTINCT = "ndv"
"""Iceberg's property of a blob: the number of distinct values."""
TYPE = "hipslake.type"
"""Of a blob: the type of the column whose values were hashed."""
_MOST_FILE_BYTES = 16 * MOST_BYTES

Sketches = Mapping[int, Sketch]
"""By field id."""


@dataclass(frozen=True)
class SketchedChange:
    """What a commit knows of the distinct values of columns.

    Attributes
    ----------
    types : mapping of int to str
        By field id, the types of the columns that are counted, when their values were hashed.
    came : mapping of int to bytes
        Sketches of the rows in the files that are added.
    stays : mapping of int to bytes
        Sketches of all other rows that the table then has, as of the snapshot `base`; of some columns they
        may not be known.
    base : int or None
        The snapshot at which the write began; None: the table had none.
    removes : bool
        Whether rows go: then no sketch of another snapshot is one of rows that stay.
    """

    types: Mapping[int, str]
    came: Sketches
    stays: Sketches
    base: int | None
    removes: bool

    def sketches(self, table: Table) -> dict[int, Sketch]:
        """Those of the table after the change, on top of its present snapshot."""
        now = table.current_snapshot()
        present = types_of(table.schema())
        standing: Sketches = {}
        if (None if now is None else now.snapshot_id) == self.base:
            standing = self.stays
        elif now is not None and not self.removes:
            standing = sketches_of_snapshot(table, now)
        nothing = united(())
        return {
            number: united([standing[number], self.came.get(number, nothing)])
            for number, kind in self.types.items()
            if present.get(number) == kind and number in standing
        }


def sketched_change(
    table: Table, added: Sequence[NewFile], stays: Mapping[str, Sketch] | None, *, removes: bool
) -> SketchedChange | None:
    """What a write that began at a table knows; None if nothing is counted.

    Parameters
    ----------
    table : pyiceberg.table.Table
    added : sequence of NewFile
    stays : mapping of str to bytes, optional
        By the names of columns, the sketches of the rows that the table keeps.
    removes : bool
        Whether rows go.
    """
    if stays is None:
        return None
    came, types, schema = of_files(added), types_of(table.schema()), table.schema()
    ids = {name: schema.find_field(name).field_id for name in {*came, *stays}}
    return SketchedChange(
        types={number: types[number] for number in ids.values()},
        came={ids[name]: sketch for name, sketch in came.items()},
        stays={ids[name]: sketch for name, sketch in stays.items()},
        base=table.metadata.current_snapshot_id,
        removes=removes,
    )


def by_name(table: Table, sketches: Sketches) -> dict[str, Sketch]:
    """Sketches by the names that their columns have in a table."""
    names = {number: table.schema().find_column_name(number) for number in sketches}
    return {name: sketches[number] for number, name in names.items() if name is not None}


def types_of(schema: Schema) -> dict[int, str]:
    """The types of the columns of a schema, by field id."""
    return {number: str(field.field_type) for number, field in index_by_id(schema).items()}


def sketches_of_snapshot(table: Table, snapshot: Snapshot) -> dict[int, Sketch]:
    """The sketches that a snapshot has of columns, and that those of other rows can be united with."""
    found = {}
    for blob in _usable(table, snapshot):
        try:
            found[blob.fields[0]] = united([blob.payload])
        except CorruptFileError as error:
            log.warning("Table %s, field %d: %s.", ".".join(table.name()), blob.fields[0], error)
    return found


def sketched_ancestors(
    table: Table, snapshot: Snapshot | None
) -> Iterator[tuple[Snapshot, dict[int, Sketch]]]:
    """The snapshots with sketches that one descends from, itself included, from new to old."""
    described = {each.snapshot_id for each in table.metadata.statistics}
    if snapshot is None or not described:
        return
    for ancestor in ancestors_of(table, snapshot.snapshot_id):
        if ancestor.snapshot_id in described and (found := sketches_of_snapshot(table, ancestor)):
            yield ancestor, found


def set_statistics(transaction: Transaction, snapshot_id: int, sketches: Sketches, name: str) -> None:
    """Let a transaction set the statistics of the snapshot that it makes.

    Parameters
    ----------
    transaction : Transaction
        In which the snapshot has been made.
    snapshot_id : int
    sketches : mapping of int to bytes
        By field id; if there are none, nothing is set.
    name : str
        Of the file, without its ending.
    """
    snapshot = transaction.table_metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None, "it was made before"
    types = types_of(transaction.table_metadata.schema())
    blobs = [
        Blob(
            THETA,
            (number,),
            snapshot_id,
            snapshot.sequence_number or 0,
            sketch,
            {DISTINCT: str(distinct_values(sketch)), TYPE: types[number]},
        )
        for number, sketch in sorted(sketches.items())
    ]
    _set(transaction, snapshot_id, blobs, name)


def take_over_statistics(transaction: Transaction, table: Table, snapshot_id: int, name: str) -> None:
    """Let a transaction give its snapshot the statistics of the one before it, which has the same rows.

    Each blob keeps saying from which snapshot it was computed.

    Parameters
    ----------
    transaction : Transaction
        In which the snapshot has been made.
    table : pyiceberg.table.Table
        As it was before.
    snapshot_id : int
    name : str
        Of the file, without its ending.
    """
    if (before := table.current_snapshot()) is not None:
        _set(transaction, snapshot_id, _usable(table, before), name)


def ndv_of(table: Table, snapshot_id: int) -> dict[str, int]:
    """How many distinct values the columns of a snapshot have, by name, where it has statistics of ours."""
    names = {number: table.schema().find_column_name(number) for number in index_by_id(table.schema())}
    found = {}
    for each in table.metadata.statistics:
        for blob in each.blob_metadata if each.snapshot_id == snapshot_id else ():
            told = (blob.properties or {}).get(DISTINCT, "")
            if len(blob.fields) == 1 and told.isdigit() and (name := names.get(blob.fields[0])):
                found[name] = int(told)
    return found


def _usable(table: Table, snapshot: Snapshot) -> list[Blob]:
    """The sketches of a snapshot whose bytes are those of the present types of their columns, one of each."""
    present, then = types_of(table.schema()), _types_at(table, snapshot)
    found: dict[int, Blob] = {}
    for file in table.metadata.statistics:
        for blob in _blobs(table, file) if file.snapshot_id == snapshot.snapshot_id else ():
            number = blob.fields[0] if len(blob.fields) == 1 else 0
            kind = blob.properties.get(TYPE, then.get(number))
            if number in present and kind == present[number]:
                found.setdefault(number, blob)
    return list(found.values())


def _types_at(table: Table, snapshot: Snapshot) -> dict[int, str]:
    schemas = table.schemas()
    return types_of(schemas[snapshot.schema_id]) if snapshot.schema_id in schemas else {}


def _blobs(table: Table, file: StatisticsFile) -> Sequence[Blob]:
    """The sketches in a file of statistics; none where it is gone or damaged, since rows do without them."""
    storage, name = Storage.of_file(file.statistics_path)
    try:
        if storage.entry(name).size > _MOST_FILE_BYTES:
            raise CorruptFileError(f"a file of statistics has more than {_MOST_FILE_BYTES} bytes")
        return blobs_of(storage.read(name), THETA)
    except (CorruptFileError, FileNotFoundError) as error:
        told = "it is gone" if isinstance(error, FileNotFoundError) else str(error)
        log.warning(
            "Table %s: the statistics %s are passed over: %s.",
            ".".join(table.name()),
            file.statistics_path,
            told,
        )
        return ()


def _set(transaction: Transaction, snapshot_id: int, blobs: Sequence[Blob], name: str) -> None:
    if not blobs:
        return
    path = transaction._table.location_provider().new_metadata_location(f"{name}.stats")
    made = puffin_of(blobs)
    storage, file = Storage.of_file(path)
    storage.write(file, made.content)
    told = {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": len(made.content),
        "file-footer-size-in-bytes": made.footer_bytes,
        "blob-metadata": [blob.told() for blob in blobs],
    }
    update = SetStatisticsUpdate(statistics=StatisticsFile.model_validate(told))
    transaction._apply((update,), ())
