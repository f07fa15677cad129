"""One version of a catalog, and how its metadata.json is read and written."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
from pydantic import AwareDatetime, Field, ValidationError

from hipslake.catalog.layouts import HATS, LayoutPaths, layout_paths
from hipslake.catalog.metadata.adopted import Adopted
from hipslake.catalog.metadata.column_roles import Association, CoPartitioned, Index, Position
from hipslake.catalog.metadata.deletions import Deletion
from hipslake.catalog.metadata.increments import EarlierIncrements, Increment
from hipslake.catalog.metadata.key_records import KeyRecords
from hipslake.catalog.metadata.leaf_groups import GroupMetadata, Margin
from hipslake.catalog.metadata.owners import Owner, likely_owners
from hipslake.catalog.metadata.reassignments import Reassignment
from hipslake.catalog.metadata.rendering import render
from hipslake.catalog.metadata.upgrade import FORMAT_VERSION, upgraded
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import Frozen, first_mistake
from hipslake.specs.catalog_spec import Layout
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.versions.log_files import UNSIGNED, signed


class CatalogMetadata(Frozen):
    """One version of a catalog. Immutable; a new version is a new file."""

    format: Literal["hipslake"] = "hipslake"
    format_version: Literal[2] = FORMAT_VERSION
    catalog: str
    version: int = Field(ge=1)
    parent: int | None = Field(default=None, description="the newest version when this one was committed")
    restored: int | None = Field(default=None, description="the version that a rollback brought back")
    write_id: str
    created: AwareDatetime
    fingerprint: str
    library_version: str
    owner: Owner | None = Field(
        default=None, description="the spec that publishes it; versions of older libraries do not say"
    )
    description: str = ""
    attribution: str = Field(default="", description="licence and credit of the data")
    layout: Layout
    gathers: bool = Field(default=False, description="whether a leaf may have several files")
    position: Position
    total_rows: int
    total_bytes: int
    groups: tuple[GroupMetadata, ...] = Field(min_length=1, description="the first one is the primary")
    earlier: EarlierIncrements | None = Field(
        default=None, description="the increments before those of `increments`, where there are many"
    )
    increments: tuple[Increment, ...] = Field(
        min_length=1, description="ascending by ordinal; the newest, where `earlier` has the others"
    )
    co_partitioned: tuple[CoPartitioned, ...] = Field(default=(), description="verified before each commit")
    margins: tuple[Margin, ...] = ()
    indices: tuple[Index, ...] = ()
    key_records: KeyRecords | None = Field(
        default=None, description="of a catalog in mode upsert: which night brought which key"
    )
    deletions: tuple[Deletion, ...] | None = Field(
        default=None, min_length=1, description="rows that were taken out on request, oldest first"
    )
    reassignments: tuple[Reassignment, ...] | None = Field(
        default=None, min_length=1, description="rows that got another object on request, oldest first"
    )
    association: Association | None = Field(default=None, description="of a cross-match that asked for it")
    rows_near_borders: int | None = Field(
        default=None,
        ge=0,
        description="of a cross-match without a margin: left rows that may lack partners in other leaves",
    )
    base_version: int | None = Field(
        default=None,
        ge=1,
        description="of a join: the version whose leaves it names again, where no row can have changed",
    )
    full_because: str | None = Field(default=None, description="of a join: why all its rows were joined")
    adopted: Adopted | None = Field(default=None, description="the catalog of others that the leaves are of")
    spec: dict[str, Any] = Field(description="the spec of the run, as it was frozen")
    sha256: str | None = Field(
        default=None,
        description="checksum of this file as it is with 64 zeros here; what is in memory has none",
    )

    @property
    def owners(self) -> tuple[Owner, ...]:
        """The spec that publishes the catalog; where the version does not say it, those that it may be."""
        if self.owner is not None:
            return (self.owner,)
        return likely_owners(self.catalog, self.increments, self.spec)

    @property
    def is_foreign(self) -> bool:
        """Whether others wrote the catalog, so that it has no log of ours and is only read."""
        return False

    @property
    def opened_at(self) -> str | None:
        """Where a catalog of others was opened, if not at the root that its paths are relative to."""
        return None

    @property
    def margins_by_hand(self) -> tuple[str, ...]:
        """Margins of a catalog of others that were given when it was opened."""
        return ()

    @property
    def lies_in_leaves(self) -> bool:
        """Whether rows lie on the sky where their leaves do; not those of indices and margins of others."""
        return True

    @property
    def indexed_columns(self) -> tuple[str, ...]:
        """The columns that have an index."""
        return tuple(index.column for index in self.indices)

    @property
    def mounts(self) -> tuple[tuple[str, str], ...]:
        """What is to be mounted at the catalog's root before leaves are read: see `Storage.mounting`."""
        adopted = self.adopted
        return () if adopted is None or adopted.copied else ((adopted.path, adopted.place),)

    def tree_file(self, name: str) -> str:
        """The path of a file that HATS readers find beside the leaves of the primary group."""
        if self.adopted is not None:
            return Storage.join(self.tree_root(""), name)
        return HATS.view_file(self.write_id, self.groups[0].name, name)

    def tree_root(self, group: str) -> str:
        """The path of the folder in which HATS readers find a group or a margin; groups alone if adopted."""
        if self.adopted is not None:
            return Storage.join(self.adopted.path, self.adopted.tree)
        return self.paths.group_root(self.write_id, group)

    def margin_uri(self, margin: Margin, storage: Storage) -> str:
        """Where HATS readers find a margin; `storage` is at the catalog's root."""
        return storage.uri(self.tree_root(margin.name))

    def group(self, name: str | None = None) -> GroupMetadata:
        """The group of this name, or the primary one.

        Raises
        ------
        KeyError
            There is none of this name; the message lists those that there are.
        """
        if name is None:
            return self.groups[0]
        for group in self.groups:
            if group.name == name:
                return group
        known = ", ".join(group.name for group in self.groups)
        raise KeyError(f"catalog {self.catalog} has no column group {name!r}; it has {known}")

    def group_with(self, column: str) -> str:
        """The first group that stores a column; `KeyError` if none does."""
        for group in self.groups:
            if column in group.to_arrow().names:
                return group.name
        raise KeyError(f"catalog {self.catalog} has no column {column!r}")

    def mark_of(self, column: str) -> CoPartitioned | None:
        """How a column is co-partitioned; None if it is not."""
        return next((mark for mark in self.co_partitioned if mark.column == column), None)

    @property
    def numbers_rows(self) -> bool:
        """Whether `_row` is stored. A whole of one column group does without, until nights come to it."""
        return ROW_COLUMN in self.groups[0].to_arrow().names

    @property
    def increment_writes(self) -> tuple[str, ...]:
        """The write of every increment and of every deletion.

        Who has the same ones has the same rows, however they are filed.
        """
        earlier = self.earlier.writes if self.earlier else ()
        own = (increment.write_id for increment in self.increments)
        return tuple(sorted([*earlier, *own, *self.deletion_writes]))

    @property
    def deletion_writes(self) -> tuple[str, ...]:
        """The write of every deletion."""
        return tuple(deletion.write_id for deletion in self.deletions or ())

    @property
    def reassignment_writes(self) -> tuple[str, ...]:
        """The write of every reassignment, which is that of an increment, too."""
        return tuple(each.write_id for each in self.reassignments or ())

    @property
    def rows_move(self) -> bool:
        """Whether rows may go and come again elsewhere, so that increments do not tell where rows stand."""
        return self.key_records is not None or self.deletions is not None

    @property
    def last_ordinal(self) -> int:
        """The greatest ordinal of its increments and deletions."""
        return max(self.increments[-1].ordinal, *(each.ordinal for each in self.deletions or ()), 0)

    @property
    def tombstones(self) -> frozenset[int]:
        """Mode upsert: the ordinals whose records are those of deletions."""
        if self.key_records is None:
            return frozenset()
        return frozenset(deletion.ordinal for deletion in self.deletions or ())

    @property
    def rows_deleted(self) -> int:
        """Mode append: rows of all increments that deletions took out."""
        return sum(deletion.rows_gone for deletion in self.deletions or ())

    def rows_deleted_of(self, ordinal: int) -> int:
        """Mode append: rows of an increment that deletions took out."""
        return sum((deletion.rows_of or {}).get(ordinal, 0) for deletion in self.deletions or ())

    def deletions_after(self, ordinal: int) -> tuple[Deletion, ...] | None:
        """The deletions that count once an increment of an ordinal has come, or taken another's place."""
        found = (deletion.without(ordinal) for deletion in self.deletions or ())
        return tuple(each for each in found if each is not None) or None

    def index_of(self, column: str) -> Index | None:
        """The index of a column, or None."""
        return next((index for index in self.indices if index.column == column), None)

    def schema_of(self, group: str | None = None) -> pa.Schema:
        """The exact schema of a group's leaf files."""
        return self.group(group).to_arrow()

    def partitions(self, group: str | None, storage: Storage) -> pa.Table:
        """The partitions of a group as `PARTITION_SCHEMA`, along the curve.

        Parameters
        ----------
        group : str or None
            None is the primary group.
        storage : Storage
            At the catalog's root; touched only where sidecars hold the table.
        """
        return self.group(group).table(storage)

    def source_files(self, storage: Storage) -> pa.Table:
        """The source files as `SOURCE_SCHEMA`, increment by increment, in source order."""
        return pa.concat_tables(each.sources.table(storage) for each in self.all_increments(storage))

    @property
    def paths(self) -> LayoutPaths:
        """Where the files of the version's own write lie."""
        return layout_paths(self.layout, gathers=self.gathers)

    @property
    def rows_read(self) -> int:
        """Rows of all source files together."""
        earlier = self.earlier.rows_read if self.earlier else 0
        return earlier + sum(increment.sources.rows for increment in self.increments)

    @property
    def rows_rejected(self) -> int:
        """Rows that were quarantined, of all increments."""
        earlier = self.earlier.rows_rejected if self.earlier else 0
        return earlier + sum(increment.rejects.rows for increment in self.increments)

    @property
    def rows_superseded(self) -> int:
        """Rows that newer ones of the same key took the place of, of all increments."""
        earlier = (self.earlier.rows_superseded or 0) if self.earlier else 0
        by_nights = self.key_records.rows_superseded if self.key_records else 0
        return earlier + sum(increment.superseded or 0 for increment in self.increments) + by_nights

    @property
    def deletes(self) -> int:
        """Rows of the sources that say that a key has no row, of all increments."""
        earlier = (self.earlier.deletes or 0) if self.earlier else 0
        return earlier + sum(increment.deletes for increment in self.increments)

    @property
    def rows_left_out(self) -> int:
        """Rows of the sources that the catalog lacks: rejected, superseded, deleted, or of deletes."""
        return self.rows_rejected + self.rows_superseded + self.deletes + self.rows_deleted

    @property
    def with_files(self) -> tuple[GroupMetadata | Margin, ...]:
        """All that has leaf files: the groups and the margins."""
        return (*self.groups, *self.margins)

    def margin(self, arcsec: float) -> Margin | None:
        """The margin of a distance, or None."""
        return next((margin for margin in self.margins if margin.radius_arcsec == arcsec), None)

    def all_increments(self, storage: Storage) -> tuple[Increment, ...]:
        """Every increment, ascending by ordinal.

        Parameters
        ----------
        storage : Storage
            At the catalog's root; touched only where a sidecar holds the earlier ones.

        Raises
        ------
        CatalogFormatError
            The sidecar is damaged.
        """
        return (*(self.earlier.read(storage) if self.earlier else ()), *self.increments)

    def increments_of(self, writes: Collection[str], storage: Storage) -> list[Increment]:
        """The increments of some writes, ascending by ordinal; parameters and errors as of `all_increments`.

        The sidecar is read only if it holds one of them.
        """
        wanted = set(writes)
        some = self.increments
        if self.earlier is not None and not wanted.isdisjoint(self.earlier.writes):
            some = self.all_increments(storage)
        return [increment for increment in some if increment.write_id in wanted]

    def increment(self, key: str | None, storage: Storage) -> Increment | None:
        """The increment of a key, or None; parameters and errors as of `all_increments`."""
        for increment in self.increments:
            if increment.key == key:
                return increment
        earlier = self.earlier.read(storage) if self.earlier else ()
        return next((increment for increment in earlier if increment.key == key), None)

    def followed_by(self, write_id: str, **changes: Any) -> CatalogMetadata:
        """The version that comes after this one.

        Parameters
        ----------
        write_id : str
            The write that makes it.
        **changes
            Fields in which it differs.
        """
        now = datetime.now(UTC).replace(microsecond=0)
        numbers = {"version": self.version + 1, "parent": self.version, "restored": None}
        return self.model_copy(update={**numbers, "write_id": write_id, "created": now, **changes})

    def to_json(self) -> bytes:
        """The bytes of metadata.json: the same metadata gives the same bytes."""
        fields = {**self.model_dump(mode="json", exclude_none=True), "sha256": UNSIGNED}
        return signed((render(fields) + "\n").encode())

    @classmethod
    def from_json(cls, data: bytes | str, *, where: str = "metadata.json") -> CatalogMetadata:
        """Read metadata.json.

        Raises
        ------
        CatalogFormatError
            It is damaged, no metadata of ours, or of a format version that this library does not know.
        """
        try:
            head = plain_json(data)
        except ValueError as error:
            raise CatalogFormatError(
                f"{where}: not JSON ({error}); restore the file or ingest again"
            ) from error
        current = upgraded(head, "catalog", where)
        if current is not head:
            data = json.dumps(current)
        try:
            found = cls.model_validate_json(data)
            return found if found.sha256 is None else found.model_copy(update={"sha256": None})
        except ValidationError as error:
            raise CatalogFormatError(
                f"{where}: {first_mistake(error)} (written by hipslake {current.get('library_version', '?')})"
                "; restore the file, or upgrade hipslake if it is older"
            ) from error


def json_schema() -> str:
    """The JSON Schema of metadata.json, as text."""
    schema = CatalogMetadata.model_json_schema(mode="serialization")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "hipslake catalog metadata",
    }
    return json.dumps(schema, indent=2) + "\n"
