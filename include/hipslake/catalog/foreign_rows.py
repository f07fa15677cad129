"""Rows of leaf files of others, brought to what those of ours are: placed, sorted, of one schema.

A leaf may be a folder of files. Its rows may stand in any order, and need not say their `_healpix_29`: then
it follows from their positions. Equal ones keep the order of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.leaf_form import LeafForm, form_of, given_schema
from hipslake.catalog.leaf_opening import range_of, read_errors
from hipslake.catalog.leaf_stamps import check_stamps
from hipslake.engine.reordering import in_order
from hipslake.errors import SchemaMismatchError, VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sources.conforming import conform
from hipslake.sphere.coordinates import REASONS, check_positions, positions
from hipslake.sphere.curve import curve_order
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, order29
from hipslake.storage.column_chunks import ColumnChunks, chunk_ranges
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile, Range
from hipslake.storage.parquet_tail import opened_by_tail, parquet_tail


def files_of_leaf(storage: Storage, path: str, folders: bool) -> list[str]:
    """The files of a leaf, ascending by name.

    Parameters
    ----------
    storage : Storage
    path : str
        Of the file, or of the folder with its files.
    folders : bool
        Whether it is a folder.

    Raises
    ------
    VerificationError
        The folder is missing or empty, or lies behind a web server, which lists nothing.
    """
    if not folders:
        return [path]
    if storage.is_web_server:
        raise VerificationError(
            f"{storage.uri(path)} is a folder of files, which a web server does not list; give the address "
            "of the store, or copy the catalog"
        )
    names = [
        entry.path
        for entry in storage.list(path, recursive=True)
        if not entry.is_special and entry.path.rpartition("/")[2][:1] not in "._"
    ]
    if not names and storage.is_file(path):  # hats-import 0.6 wrote a file of the folder's name
        return [path]
    if not names:
        raise VerificationError(
            f"{storage.uri(path)} is missing, or has no file; ask who publishes the catalog"
        )
    return names


def current_files(storage: Storage, path: str, form: LeafForm) -> list[str]:
    """The files of a leaf, which are those that were adopted, if they were.

    Parameters and errors are those of `files_of_leaf` and `check_stamps`.
    """
    files = files_of_leaf(storage, path, form.folders)
    with read_errors(storage, path):
        check_stamps(storage, form.stamps, files)
    return files


def foreign_rows(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    columns: Sequence[str],
    predicate: Predicate | None = None,
    inside: Intervals | None = None,
    held: Mapping[str, HeldFile] | None = None,
) -> pa.Table:
    """The rows of one leaf that meet a condition, ordered by `_healpix_29` where there is one.

    Parameters
    ----------
    storage : Storage
    path : str
        Of the leaf.
    schema : pyarrow.Schema
        With the form of the files, and at least `columns` and those of the condition.
    columns : sequence of str
        What is given.
    predicate : Predicate or None
    inside : Intervals or None
        Only rows in these; row groups outside are not read where the footers tell them.
    held : mapping of str to HeldFile, optional
        Files of the leaf of which something was fetched before.

    Raises
    ------
    VerificationError
        A file is missing or damaged, or a row has no place on the sky.
    SchemaMismatchError
        A file holds what the schema of the catalog does not.
    """
    form = form_of(schema)
    assert form is not None
    held = held or {}
    if form.healpix == "none" and inside is not None:
        raise SchemaMismatchError(
            f"{storage.uri(path)}: its rows do not say where on the sky they lie, so that none can be "
            "chosen by their place; read without pixels and region"
        )
    read = _read_columns(form, columns, predicate)
    wanted = given_schema(pa.schema([schema.field(name) for name in read]))
    given = pa.schema([wanted.field(name) for name in columns])
    if predicate is not None and not set(read) <= {*predicate.columns, HEALPIX_COLUMN}:
        deciding = sorted(predicate.columns)
        if not foreign_rows(storage, path, schema, deciding, predicate, inside, held).num_rows:
            return given.empty_table()  # most leaves, where few rows pass: their other columns are not read
    tables = [
        _of_file(storage, file, wanted, form, inside, held.get(file))
        for file in current_files(storage, path, form)
    ]
    rows = pa.concat_tables(tables) if len(tables) != 1 else tables[0]
    if form.healpix != "none":
        rows = _along_curve(storage, path, rows)
        if inside is not None:
            rows = rows.filter(pa.array(inside.hold(rows[HEALPIX_COLUMN].to_numpy())))
    if predicate is not None:
        rows = passing(predicate, rows)
    return rows.select(given.names)


def _read_columns(form: LeafForm, columns: Sequence[str], predicate: Predicate | None) -> list[str]:
    """The columns of a leaf that have to be known, each once."""
    placed = [] if form.healpix == "none" else [HEALPIX_COLUMN]
    deciding = sorted(predicate.columns) if predicate is not None else []
    return list(dict.fromkeys([*placed, *columns, *deciding]))


def foreign_ranges(
    footer: pq.FileMetaData,
    schema: pa.Schema,
    columns: Sequence[str],
    predicate: Predicate | None,
    inside: Intervals | None,
) -> list[Range]:
    """Where in a file the bytes lie that `foreign_rows` reads first: with a predicate, what decides.

    Raises
    ------
    FooterError
        The footer contradicts itself.
    """
    form = form_of(schema)
    assert form is not None
    read = _read_columns(form, columns if predicate is None else [], predicate)
    chosen, stored = _row_groups(footer, form, inside), footer.schema.to_arrow_schema().names
    return chunk_ranges(footer, chosen, _stored_columns(form, read, stored))


def foreign_batches(
    storage: Storage, path: str, schema: pa.Schema, inside: Intervals | None
) -> list[pa.RecordBatch]:
    """The rows of one leaf in some intervals, as one batch of the schema without its form, or none."""
    given = given_schema(schema)
    rows = foreign_rows(storage, path, schema, schema.names, None, inside).combine_chunks()
    return [pa.RecordBatch.from_arrays(batch.columns, schema=given) for batch in rows.to_batches()]


def check_rows(storage: Storage, path: str, schema: pa.Schema, rows: int) -> None:
    """Hold the footers of a leaf of others against the rows that it was said to have.

    Parameters
    ----------
    storage : Storage
    path : str
        Of the leaf.
    schema : pyarrow.Schema
        Of the catalog; leaves of ours, which nobody changes, are not looked at.
    rows : int

    Raises
    ------
    VerificationError
        It has others by now, or is missing or damaged.
    """
    if (form := form_of(schema)) is None:
        return
    found = 0
    for file in current_files(storage, path, form):
        with read_errors(storage, file):
            found += parquet_tail(storage, file).footer.num_rows
    if found != rows:
        raise VerificationError(
            f"{storage.uri(path)} has {found} rows, and had {rows} when the catalog was listed: others have "
            "changed it; open the catalog again, or adopt it anew"
        )


def row_group_ranges(footer: pq.FileMetaData, form: LeafForm) -> list[tuple[int, int] | None]:
    """Where the row groups of a file lie, as far as its footer tells: order-29 pixels, [start, stop)."""
    groups = range(footer.num_row_groups)
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    if form.healpix != "stored" or HEALPIX_COLUMN not in paths:
        return [None for _ in groups]
    chunks, at = ColumnChunks(footer), paths.index(HEALPIX_COLUMN)
    return [range_of(chunks, group, at) for group in groups]


def _row_groups(footer: pq.FileMetaData, form: LeafForm, inside: Intervals | None) -> list[int]:
    """The row groups that may hold rows of some intervals."""
    return [
        number
        for number, span in enumerate(row_group_ranges(footer, form))
        if span is None or inside is None or len(inside.within(*span))
    ]


def _stored_columns(form: LeafForm, names: Sequence[str], stored: Collection[str]) -> list[str]:
    """The columns of a file by which some of the catalog are known."""
    needed = [name for name in names if name in stored]
    if form.healpix == "computed":
        needed = [name for name in needed if name != HEALPIX_COLUMN]
        needed += [name for name in (form.ra, form.dec) if name not in needed]
    return needed


def _of_file(
    storage: Storage,
    path: str,
    wanted: pa.Schema,
    form: LeafForm,
    inside: Intervals | None,
    held: HeldFile | None,
) -> pa.Table:
    """Rows of a file as a schema, with `_healpix_29` if that is asked for, in the order of the file."""
    with read_errors(storage, path), opened_by_tail(storage, path, held) as file:
        chosen = _row_groups(file.metadata, form, inside)
        stored = file.schema_arrow.names
        needed = _stored_columns(form, wanted.names, stored)
        _check_held(storage, path, needed, stored, form)
        table = file.read_row_groups(chosen, needed, use_threads=file.metadata.num_rows >= 1 << 16)
    if form.healpix == "computed" and HEALPIX_COLUMN in wanted.names:
        table = table.append_column(HEALPIX_COLUMN, pa.array(_placed(storage, path, table, form)))
    batches = [conform(batch, wanted, storage.uri(path)) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, wanted)


def _check_held(
    storage: Storage, path: str, needed: Collection[str], stored: Collection[str], form: LeafForm
) -> None:
    needs = {HEALPIX_COLUMN} if form.healpix == "stored" else set()
    if form.healpix == "computed":
        needs = {form.ra, form.dec}
    if not needs <= set(stored):
        raise VerificationError(
            f"{storage.uri(path)} has no column {' or '.join(sorted(needs - set(stored)))}, by which its "
            "rows are placed; ask who publishes the catalog"
        )


def _placed(storage: Storage, path: str, rows: pa.Table, form: LeafForm) -> NDArray[np.int64]:
    """`_healpix_29` of rows by their positions."""
    ra, dec = positions(rows[form.ra], rows[form.dec])
    codes = check_positions(ra, dec, unit="deg")
    if codes.any():
        at = int(np.argmax(codes > 0))
        raise VerificationError(
            f"{storage.uri(path)}: row {at} has no place on the sky ({form.ra} {ra[at]}, {form.dec} "
            f"{dec[at]}: {REASONS[codes[at]]}); ask who publishes the catalog"
        )
    return order29(ra, dec)


def _along_curve(storage: Storage, path: str, rows: pa.Table) -> pa.Table:
    column = rows[HEALPIX_COLUMN]
    if column.null_count:
        raise VerificationError(
            f"{storage.uri(path)}: {column.null_count} rows have no {HEALPIX_COLUMN}; ask who publishes the "
            "catalog"
        )
    keys = column.to_numpy()
    if np.all(keys[1:] >= keys[:-1]):
        return rows
    return in_order(rows, curve_order(keys))
