"""Which rows of a table are to be deleted, by keys or by a filter, and in which files they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.model import Engine
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.predicates.given_filters import predicate_of, require_columns
from hipslake.predicates.predicate_tree import Predicate
from hipslake.steps.rows_to_correct import key_table
from hipslake.steps.sink.count_rows import extremes
from hipslake.steps.sink.find_passing import find_passing
from hipslake.steps.sink.sink_try import positions_by_number
from hipslake.steps.tables import from_ipc, to_ipc
from hipslake.tables.deleted_rows import plain_values, rows_among
from hipslake.tables.file_pruning import files_passing, files_with_keys
from hipslake.tables.protocol import LiveFile, TableState
from hipslake.tables.row_keys import check_key
from hipslake.tables.stored_files import StoredFile, read_data_file

_MOST_TEXT = 200
_RESULT = pa.schema([("number", pa.int64()), ("positions", pa.binary()), ("keys", pa.binary())])


@dataclass(frozen=True)
class LocatedRows:
    """Rows of a version of a table.

    Attributes
    ----------
    whole : tuple of LiveFile
        Files all of whose rows they are.
    files : tuple of LiveFile
        Files that hold some.
    positions : dict of int to int64[n]
        By the number of each of `files` that does, among its rows that are not deleted.
    missing_keys : int
        Of the keys that were given, distinct ones that have no row.
    """

    whole: tuple[LiveFile, ...]
    files: tuple[LiveFile, ...]
    positions: dict[int, NDArray[np.int64]]
    missing_keys: int = 0


@dataclass(frozen=True)
class TableRowsChoice:
    """How rows are chosen: exactly one of `keys` and `filters` is given.

    Attributes
    ----------
    keys : object, optional
        Values of the key column: a sequence, or an array of numpy, pandas or Arrow; of a key of several
        columns, a table, a data frame, a mapping of columns, or for each row a tuple or a mapping.
    filters : str or list or pyarrow.compute.Expression, optional
        As of `Catalog.read`.
    key : tuple of str
        The columns that keys are of; none: the identifier fields of the table.
    """

    keys: Any = None
    filters: Any = None
    key: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what chooses nothing, or in two ways; raise `SpecError`."""
        given = [name for name in ("keys", "filters") if getattr(self, name) is not None]
        if len(given) != 1:
            what = " and ".join(given) if given else "neither"
            raise SpecError(f"a delete takes exactly one of keys and filters; {what} was given")

    @property
    def text(self) -> str:
        """The choice in words."""
        if self.filters is not None:
            told = f"filters: {self.filters}"
        else:
            told = f"keys: {len(self.keys)} given" if hasattr(self.keys, "__len__") else "keys"
        return told if len(told) <= _MOST_TEXT else told[: _MOST_TEXT - 3] + "..."

    def of(self, state: TableState, name: str) -> ChosenByKeys | ChosenByFilter:
        """The rows of a table that are chosen, as its columns are now.

        Parameters
        ----------
        state : TableState
        name : str
            Of the table.

        Raises
        ------
        SpecError
            There is no key, or columns that are none; or the filter lets all rows pass.
        SchemaMismatchError, FilterError
            A column is not there, or keys or filter are not of its type.
        InputError
            A key is null.
        """
        self.check()
        owner = f"table {name}"
        if self.filters is not None:
            predicate = predicate_of(self.filters, state.schema, owner)
            if predicate is None:
                raise SpecError(
                    f"{owner}: the filter {self.filters!r} names no column, so it chooses no rows"
                )
            return ChosenByFilter(predicate)
        key = self.key or state.identifier
        if not key:
            raise SpecError(
                f"{owner} has no identifier fields; name the columns that the keys are of (key), or give "
                "filters"
            )
        require_columns(key, state.schema, owner)
        fields = [state.schema.field(each) for each in key]
        check_key(state.schema, key)
        plain = [_storage(field.type) for field in fields]
        given = key_table(self.keys, pa.schema(list(zip(key, plain, strict=True))))
        return ChosenByKeys(tuple(key), given.group_by(list(key)).aggregate([]).combine_chunks())


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


@dataclass(frozen=True)
class ChosenByFilter:
    """Rows that a predicate is true for."""

    predicate: Predicate

    def find(self, state: TableState, engine: Engine) -> LocatedRows:
        """Find them in a version of the table."""
        whole, some = files_passing(state.files, state.schema, self.predicate)
        positions = find_passing(engine, some, self.predicate, state.schema)
        return LocatedRows(tuple(whole), tuple(some), positions)

    def may_be_in(self, files: Sequence[LiveFile], state: TableState) -> list[LiveFile]:
        """The files of a version of the table that may hold some."""
        whole, some = files_passing(files, state.schema, self.predicate)
        return whole + some


@dataclass(frozen=True)
class ChosenByKeys:
    """Rows that have one of some keys.

    Attributes
    ----------
    key : tuple of str
    keys : pyarrow.Table
        Distinct ones.
    """

    key: tuple[str, ...]
    keys: pa.Table

    def find(self, state: TableState, engine: Engine) -> LocatedRows:
        """Find them in a version of the table, and count the keys that have none.

        Raises
        ------
        SchemaMismatchError
            A column of the key has become another one.
        """
        files = tuple(self.may_be_in(state.files, state))
        task = FindKeysTask(tuple(file.stored for file in files), self.key, self.keys, state.schema)
        with engine.progress("find"):
            found = engine.run(task, tasks=len(files), result=_RESULT).to_pylist() if files else []
        positions = positions_by_number((row["number"], row["positions"]) for row in found)
        had = [from_ipc(row["keys"]) for row in found if row["keys"] is not None]
        distinct = pa.concat_tables(had).group_by(had[0].column_names).aggregate([]).num_rows if had else 0
        return LocatedRows((), files, positions, self.keys.num_rows - distinct)

    def may_be_in(self, files: Sequence[LiveFile], state: TableState) -> list[LiveFile]:
        """The files of a version of the table that may hold some."""
        for name in self.key:
            if (
                name not in state.schema.names
                or _storage(state.schema.field(name).type) != self.keys[name].type
            ):
                raise SchemaMismatchError(f"column {name!r} of the key was changed meanwhile; run it again")
        boxes = [extremes(batch, self.key) for batch in self.keys.to_batches() if batch.num_rows]
        return files_with_keys(files, self.key, boxes)


@dataclass(frozen=True)
class FindKeysTask:
    """Finds the rows of data files that have one of some keys, and which keys these are."""

    files: tuple[StoredFile, ...]
    key: tuple[str, ...]
    keys: pa.Table
    schema: pa.Schema

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Look through a file."""
        names = [str(at) for at in range(len(self.key))]
        keys = self.keys.rename_columns(names)
        position = 0
        positions: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        had: list[pa.Table] = []
        for batch in read_data_file(self.files[number], self.schema, self.key):
            values = [plain_values(batch.column(name)) for name in self.key]
            hits = np.flatnonzero(rows_among(values, keys))
            if len(hits):
                positions.append(hits + position)
                rows = pa.table(dict(zip(names, values, strict=True))).take(pa.array(hits))
                had.append(rows.group_by(names).aggregate([]))
            position += batch.num_rows
        told = to_ipc(pa.concat_tables(had)) if had else None
        yield pa.record_batch([[number], [np.concatenate(positions).tobytes()], [told]], schema=_RESULT)
