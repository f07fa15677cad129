"""The change feed: which rows one version of a catalog has, and another one has not.

The changes are the difference of two reads: of what `Catalog.read` gives of either version, with the same
columns, filter and region. Only files that one version alone has are opened. Of their rows, those with the
same `_row` of the same increment are the same (and with intervals of validity the same end, which nights also
change in rows of others); all others are compared by their content.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.changes.change_rows import (
    KEY_DIGEST,
    KeyedChanges,
    change_schema,
    changes_of,
    check_key_columns,
)
from hipslake.catalog.changes.changed_files import DifferingFiles, changed_stretches, differing_files
from hipslake.catalog.changes.common_columns import common_names, common_schema, with_columns_of
from hipslake.catalog.changes.compared_version import ComparedVersion, RowIdentities
from hipslake.catalog.joining.stretches import StretchPlan, row_width
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import check_placed, select
from hipslake.catalog.validity import validity_of
from hipslake.engine.this_process import read_ahead
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.sources.conforming import conform
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Region
from hipslake.storage.folder import Storage
from hipslake.versions.vacuumed_versions import vacuum_told

PIECE_ROWS = 500_000
"""Rows of both versions that are compared at once, at most, about."""
PIECE_BYTES = 128 << 20
"""Bytes of them, about; of wide rows fewer are compared at once."""
_LEAST_PIECE_ROWS = 1_000


def key_of(metadata: CatalogMetadata) -> tuple[str, ...]:
    """The columns that tell the rows of a catalog apart, as its spec says; empty if it does not.

    Where rows of a key stay with intervals of validity, they begin at different times.
    """
    records, validity = metadata.key_records, validity_of(metadata)
    if records is None:
        return ()
    return (*records.key, *([validity.begin] if validity is not None else []))


@dataclass(frozen=True)
class ChangeFeed:
    """The changes between two versions of a catalog, not read yet. It travels to tasks.

    Attributes
    ----------
    old, new : ComparedVersion
    shared : int64[n]
        The ordinals whose increments are the same in both, ascending.
    schema : pyarrow.Schema
        `_change`, `_healpix_29`, and the columns that were asked for.
    read_schema : pyarrow.Schema
        Of the rows that are compared: also those of the key.
    key : tuple of str
        Empty: a row that differs is a delete and an insert.
    stretches : StretchPlan
        Where the versions may differ.
    """

    old: ComparedVersion
    new: ComparedVersion
    shared: NDArray[np.int64]
    schema: pa.Schema
    read_schema: pa.Schema
    key: tuple[str, ...]
    stretches: StretchPlan

    @classmethod
    def of(
        cls,
        storage: Storage,
        old: CatalogMetadata,
        new: CatalogMetadata,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | None = None,
        key: Sequence[str] | None = None,
        *,
        piece_rows: int | None = None,
    ) -> Self:
        """Resolve a comparison; no leaf file is opened.

        Parameters
        ----------
        storage : Storage
            At the catalog's root.
        old, new : CatalogMetadata
            Two versions of one catalog; `old` may be the later one.
        columns, filters, region
            As for `hipslake.catalog.selection.select`. All columns but `_row` if not given.
        key : sequence of str, optional
            Columns that tell rows apart; those of the catalog's spec if not given, and if it has a key.
        piece_rows : int, optional
            Rows of both versions that are compared at once, about; as many as fit into a bounded memory if
            not given.

        Raises
        ------
        SpecError
            It is a catalog of others, which has no versions.
        SchemaMismatchError
            There is no such column, one cannot be a key, or versions have types of one that no type holds.
        FilterError
            The filter is not understood.
        ReservedColumnError
            A column is called `_change`.
        VersionNotFoundError
            A version is vacuumed meanwhile.
        """
        if new.is_foreign:
            raise SpecError(
                f"catalog {new.catalog} is one of others, opened where it lies, so that it has no earlier "
                "versions; adopt it (hipslake.adopt), and each state that is adopted is a version"
            )
        for metadata in (old, new):
            check_placed(metadata)
        key = key_of(new) if key is None else _names("key", key)
        given = common_names(old, new) if columns is None else _names("columns", columns)
        given = [name for name in given if name != HEALPIX_COLUMN]
        wanted = [HEALPIX_COLUMN, *given, *(name for name in key if name not in {HEALPIX_COLUMN, *given})]
        sides = [with_columns_of(old, new), with_columns_of(new, old)]
        selections = [select(side, wanted, filters, None, region) for side in sides]
        read_schema = common_schema(old, new, wanted)
        validity = validity_of(new)
        begin = validity.begin if validity is not None else None  # may be fractions, which are only copied
        check_key_columns(read_schema, [name for name in key if name != begin])
        groups = [list(selection.columns) for selection in selections]
        both = [group for group in groups[0] if group in groups[1]]
        alone = len({*groups[0], *groups[1]}) == 1
        with vacuum_told(storage, old.version), vacuum_told(storage, new.version):
            files = {
                group: differing_files(storage, old, new, group, by_bytes=alone)
                for group in dict.fromkeys([*groups[0], *groups[1]])
            }
            shared = _shared_ordinals(storage, old, new)
        identifying = [both[0], both[0]] if both else [groups[0][0], groups[1][0]]
        before, after = (
            ComparedVersion.of(
                storage.mounting(metadata.mounts),
                side,
                selection,
                {group: each[at] for group, each in files.items()},
                identifying[at],
                numbered=metadata.numbers_rows,
            )
            for at, (metadata, side, selection) in enumerate(zip((old, new), sides, selections, strict=True))
        )
        return cls(
            before,
            after,
            shared,
            change_schema(pa.schema([read_schema.field(name) for name in (HEALPIX_COLUMN, *given)])),
            read_schema,
            tuple(key),
            changed_stretches(
                DifferingFiles(files[identifying[0]].old, files[identifying[1]].new),
                [files[group] for group in both[1:]],
                piece_rows or _piece_rows(read_schema, files.values()),
                selections[1].inside(None),
            ),
        )

    @property
    def carried_schema(self) -> pa.Schema:
        """Of what `carried` gives: with a key, its digest goes along."""
        digest = [pa.field(name, pa.int64()) for name in KEY_DIGEST] if self.key else []
        return pa.schema([*self.schema, *digest])

    @property
    def bytes(self) -> int:
        """Of the leaf files that may have to be opened."""
        return sum(files.bytes for side in (self.old, self.new) for files in side.files.values())

    def tables(self) -> Iterator[pa.Table]:
        """The changes along the curve, as tables of `schema`; the next ones are read meanwhile.

        With a key, all are found before the first is given, since a row may have moved: they wait in a file
        of this machine, and 16 bytes of each in memory.

        Raises
        ------
        VerificationError
            A leaf file is missing or damaged.
        VersionNotFoundError
            A version was vacuumed meanwhile.
        InputError
            Rows that differ have no key, or share one.
        SchemaMismatchError
            A value does not fit into the type that both versions have in common.
        """
        stretches = zip(self.stretches.start.tolist(), self.stretches.stop.tolist(), strict=True)
        found = (table for table in read_ahead(lambda each: self.carried(*each), stretches) if table.num_rows)
        if not self.key:
            yield from found
            return
        with tempfile.TemporaryFile(prefix="hipslake-changes-") as file:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_stream(file, self.carried_schema, options=options) as waiting:
                for table in found:
                    waiting.write_table(table)

            def stored() -> Iterator[pa.Table]:
                file.seek(0)
                with pa.ipc.open_stream(file) as batches:
                    for batch in batches:
                        yield pa.Table.from_batches([batch])

            yield from self.told(stored)

    def told(self, carried: Callable[[], Iterator[pa.Table]]) -> Iterator[pa.Table]:
        """The changes as tables of `schema`, of those that `carried` has given.

        Parameters
        ----------
        carried : callable
            Gives the changes of all stretches, along the curve. With a key it is called twice: what is an
            update is known when all have been seen.

        Raises
        ------
        InputError
            Rows that differ share their key.
        """
        if not self.key:
            yield from carried()
            return
        keys = KeyedChanges(self.old.version, self.new.version, self.key)
        for table in carried():
            keys.add(table)
        keys.settle()
        for table in carried():
            yield keys.told(table)

    def carried(self, start: int, stop: int) -> pa.Table:
        """The changes in a stretch of the curve, order-29 pixels [start, stop), as `carried_schema`.

        Updates are deletes and inserts there, since their other half may lie elsewhere.
        """
        inside = Intervals.union([start], [stop])
        within = self.new.selection.inside(inside)
        assert within is not None, "there are pixels"
        chosen: tuple[RowIdentities | None, RowIdentities | None] = (None, None)
        if len(self.shared):
            chosen = self._differing(within)
        removed, added = (
            self._conformed(side, side.rows(within, some))
            for side, some in zip((self.old, self.new), chosen, strict=True)
        )
        numbered = self.old.numbered and self.new.numbered
        compared = [name for name in self.read_schema.names if numbered or name != ROW_COLUMN]
        changes = changes_of(removed, added, compared, self.key)
        return changes.select(self.carried_schema.names).cast(self.carried_schema)

    def _differing(self, inside: Intervals) -> tuple[RowIdentities, RowIdentities]:
        """The rows of the old and of the new version that are not the same by their `_row`."""
        old, new = self.old.identities(inside), self.new.identities(inside)
        before, after = self._of_shared(old), self._of_shared(new)
        same, mine, theirs = np.intersect1d(before.row, after.row, assume_unique=True, return_indices=True)
        same = same[before.end[mine] == after.end[theirs]]
        return old.taken(~np.isin(old.row, same)), new.taken(~np.isin(new.row, same))

    def _of_shared(self, rows: RowIdentities) -> RowIdentities:
        return rows.taken(np.isin(rows.row >> ORDINAL_SHIFT, self.shared))

    def _conformed(self, side: ComparedVersion, rows: pa.Table) -> pa.Table:
        where = f"{side.storage.uri()}, version {side.version}"
        batches = [conform(batch, self.read_schema, where) for batch in rows.to_batches()]
        return pa.Table.from_batches(batches, self.read_schema)


def _shared_ordinals(storage: Storage, old: CatalogMetadata, new: CatalogMetadata) -> NDArray[np.int64]:
    """The ordinals of the increments that both versions have from the same write; none without `_row`."""
    if not (old.numbers_rows and new.numbers_rows):
        return np.empty(0, np.int64)
    writes = {each.ordinal: each.write_id for each in old.all_increments(storage)}
    found = [
        each.ordinal for each in new.all_increments(storage) if writes.get(each.ordinal) == each.write_id
    ]
    return np.array(sorted(found), np.int64)


def _piece_rows(schema: pa.Schema, files: Iterable[DifferingFiles]) -> int:
    """How many rows are compared at once: by their types, and where these do not tell by the files' sizes."""
    width = float(row_width(schema))
    if not all(pa.types.is_primitive(field.type) for field in schema):
        stored = sum(each.bytes / max(int(each.rows.sum()), 1) for each in files)
        width = max(width, stored)
    return int(min(max(PIECE_BYTES / width, _LEAST_PIECE_ROWS), PIECE_ROWS))


def _names(what: str, given: Sequence[str]) -> list[str]:
    if isinstance(given, str):  # a sequence of letters
        raise SchemaMismatchError(f"{what} is a list of names, not {given!r}; give [{given!r}]")
    return list(given)
