"""Maintenance of a published catalog: verify, repair, margins, deletes, reassignments, rollback, vacuum."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.errors import NotWritableError, SpecError

if TYPE_CHECKING:
    from hipslake.catalog.checks.findings import VerificationReport
    from hipslake.catalog.metadata.version import CatalogMetadata
    from hipslake.catalog.upkeep.catalog_vacuum import VacuumOutcome
    from hipslake.sphere.regions import Region
    from hipslake.steps.upkeep.repair import RepairOutcome


class CatalogUpkeep(CatalogReader):
    """Looks after a catalog; whatever changes it comes as a new version."""

    def verify(self, *, all: bool = False, workers: int | None = None) -> VerificationReport:
        """Read everything of this version back, and hold it against what was written.

        Of the newest version that includes what names it: `metadata.json`, `SHA256SUMS`, `current`,
        `collection.properties`; see `hipslake.catalog.verification` for the rest.

        Parameters
        ----------
        all : bool
            Also the whole log of versions, and every version that can be opened. Each file is read once, by
            however many versions it is shared.
        workers : int, optional
            Leaves that are looked at at once; one per core if not given.

        Of a catalog of others, all is looked at that can be told without metadata of ours:
        `hipslake.catalog.foreign.foreign_verification`.

        Returns
        -------
        VerificationReport
            All `problems`. Each says whether `readers` are affected, what `mend`s it, and whether it is
            `repairable` by `repair`. `unchecked` says of a catalog of others what nothing tells.

        Raises
        ------
        StorageError
            The store did not answer.
        """
        from hipslake.engine.this_process import ThisProcess
        from hipslake.steps.upkeep.verify import verify_published

        return verify_published(self.storage, self.metadata, ThisProcess(workers), all_versions=all)

    def repair(self, *, dry_run: bool = True) -> RepairOutcome:
        """Write anew what other files of the catalog say: pointers, views, coverages, lists of checksums.

        Leaf files and older versions are never touched. Other runs may work meanwhile.

        Parameters
        ----------
        dry_run : bool
            Only say what would be mended.

        Returns
        -------
        RepairOutcome
            `mended`: the problems that are gone; in a dry run, those that it would try to mend. `left`:
            those that no other file can mend. Leaf files are not looked at: `verify` does that.

        Raises
        ------
        StorageError
            The store did not answer, or may not be written.
        """
        from hipslake.steps.upkeep.repair import repair_catalog

        self._refuse_foreign("repaired")
        return repair_catalog(self.storage, dry_run=dry_run)

    def build_margin(self, *arcsec: float) -> Self:
        """Add margins to the newest version, by a commit of their own; its rows stay what they are.

        Parameters
        ----------
        *arcsec : float
            Distances. Those at which the version has a margin already are passed over.

        Returns
        -------
        Catalog
            The newest version.

        Raises
        ------
        SpecError
            A distance is out of bounds, or the primary column group lacks the position columns.
        ConflictError
            Others kept changing the catalog.
        """
        from hipslake.engine.this_process import ThisProcess
        from hipslake.specs.margin_spec import check_distances
        from hipslake.steps.margin.run import add_margins
        from hipslake.steps.upkeep.pointers import point_at_newest

        self._refuse_foreign(
            "given a margin; a cross-match builds one for itself with missing_margin='build'"
        )
        try:
            distances = check_distances(tuple(map(float, arcsec)))
        except ValueError as error:
            raise SpecError(f"{self.name}: {error}") from None
        metadata = add_margins(self.storage, distances, ThisProcess())
        if metadata is None:
            return self.open(self.storage.root)
        point_at_newest(self.storage)
        return self._shown(metadata)

    def delete(
        self,
        keys: Any = None,
        filters: Any = None,
        region: Region | str | None = None,
        *,
        column: str | None = None,
        max_fraction: float = 0.01,
        force: bool = False,
    ) -> Self:
        """Delete rows of the newest version of a catalog that nights come to, by a commit of its own.

        Exactly one of `keys`, `filters` and `region` is given. Only leaves that hold such rows are opened.
        Older versions keep the rows until they are vacuumed. In mode upsert a deleted key stays without a row
        until a night brings a later record of it; in mode append a night that is run again brings its rows
        anew.

        Parameters
        ----------
        keys : sequence, array, table, data frame or mapping, optional
            Values of the column of the spec's `key`, or of `column`; those that no row has are passed over.
            Of a key of several columns a table, a data frame, a mapping of columns, or a list of tuples.
        filters : str or list or pyarrow.compute.Expression, optional
            As for `read`.
        region : Region or str, optional
            As for `read`; the cut is exact.
        column : str, optional
            Mode append: the indexed column that keys are of; not needed if only one column has an index.
        max_fraction : float
            The largest part of the rows that may go, from 0 to 1.
        force : bool
            Let any number of rows go.

        Returns
        -------
        Catalog
            The new version; the newest one, if there was nothing to delete.

        Raises
        ------
        SpecError
            More than `max_fraction` of the rows would go, rows are not chosen in exactly one way, or the
            catalog is not of mode append or upsert. Nothing is changed then, nor by the other errors.
        SchemaMismatchError, FilterError, RegionError
            As for `read`; or keys are not of the type of their column.
        InputError
            A key is null.
        IndexMissingError
            Mode append: the column of the keys has no index.
        ConflictError
            Others kept committing first.
        """
        from hipslake.engine.this_process import ThisProcess
        from hipslake.steps.delete.deleting import delete_rows
        from hipslake.steps.rows_to_correct import DELETE, RowsToCorrect
        from hipslake.steps.upkeep.pointers import point_at_newest

        self._refuse_foreign("changed")
        choice = RowsToCorrect(DELETE, keys, filters, region, column)
        metadata, outcome = delete_rows(
            self.storage, choice, ThisProcess(), max_fraction=max_fraction, force=force
        )
        if outcome.version is None:
            return type(self)(self.storage, metadata)
        point_at_newest(self.storage)
        return self._shown(metadata)

    def reassign(
        self,
        keys: Any = None,
        to: Any = None,
        *,
        filters: Any = None,
        region: Region | str | None = None,
        column: str | None = None,
        max_fraction: float = 0.01,
        force: bool = False,
    ) -> Self:
        """Give rows of the newest version of a catalog in mode upsert to other objects, as a new version.

        A row keeps all its values but that of the column of objects. Where objects place the rows
        (`position_from`), it goes to the pixel of its new one. Only leaves that hold such rows, or get them,
        are opened. Light curves follow with their next run. A night that is run again does not take a
        reassignment back; a later record of the key does, whatever object it names.

        Parameters
        ----------
        keys : table, data frame, mapping, list of tuples, sequence or array, optional
            With `to`, values of the spec's `key`, as for `delete`. Without it, a table, data frame or mapping
            that has the column of objects beside those of the key, or a tuple of these values for each row:
            `[(source, object), ...]`. Keys that no row has are passed over.
        to : optional
            A value of that column: the object that all chosen rows are given to.
        filters : str or list or pyarrow.compute.Expression, optional
            In place of keys, as for `read`: `reassign(to=42, filters="object_id == 17")`.
        region : Region or str, optional
            In place of keys, as for `read`.
        column : str, optional
            That names the object of a row; by default that of the spec's `position_from`, or else the only
            one of `co_partitioned`.
        max_fraction : float
            The largest part of the rows that may be chosen, from 0 to 1.
        force : bool
            Let any number be chosen, up to 4 million.

        Returns
        -------
        Catalog
            The new version; the newest one, if all rows were of their objects already.

        Raises
        ------
        SpecError
            The catalog is not of mode upsert, keeps earlier rows (`validity`), or lies in no warehouse; more
            than `max_fraction` of its rows are chosen; rows or objects are not given in exactly one way; or
            `column` is one of key, order or position. Nothing is changed then, nor by the other errors.
        SchemaMismatchError, FilterError, RegionError
            As for `read`; or keys or objects are not of the type of their columns.
        InputError
            A key or an object is null, a key is given to two objects, or no object has the id.
        VerificationError
            Rows of an object would lie in two pixels (`co_partitioned`).
        ConflictError
            Others kept committing first.
        """
        from hipslake.steps.reassign.reassigning import reassign_rows, run_of_program
        from hipslake.steps.rows_to_correct import REASSIGNMENT, RowsToCorrect
        from hipslake.steps.upkeep.pointers import point_at_newest

        self._refuse_foreign("changed")
        choice = RowsToCorrect(REASSIGNMENT, keys, filters, region)
        outer = run_of_program(self.uri, self.name)
        metadata, outcome = reassign_rows(
            outer, choice, to=to, column=column, max_fraction=max_fraction, force=force
        )
        if outcome.version is None:
            return type(self)(self.storage, metadata)
        point_at_newest(self.storage)
        return self._shown(metadata)

    def rollback(self, version: int) -> Self:
        """Publish the content of an older version once more, as the newest; nothing is copied or undone.

        Parameters
        ----------
        version : int
            The version to bring back.

        Returns
        -------
        Catalog
            The new version.

        Raises
        ------
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        SpecError
            It is the newest version.
        ConflictError
            Others kept committing first.
        """
        from hipslake.catalog.upkeep.restored_version import roll_back

        self._refuse_foreign("rolled back")
        return self._shown(roll_back(self.storage, version))

    def _refuse_foreign(self, what: str) -> None:
        if self.metadata.is_foreign:
            raise NotWritableError(f"{self.uri} is a catalog of others: it is only read, and not {what}")

    def _shown(self, metadata: CatalogMetadata) -> Self:
        """A version that was just published, once its HATS view is made."""
        from hipslake.steps.upkeep.hats_view import show_newest
        from hipslake.steps.upkeep.pointers import unchanged_of

        show_newest(self.storage, unchanged_of(metadata))
        return type(self)(self.storage, metadata)

    def vacuum(self, *, keep_versions: int, keep_days: float, dry_run: bool = True) -> VacuumOutcome:
        """Take old versions away, with every file that no other version needs, and what dead runs have left.

        Parameters
        ----------
        keep_versions : int
            So many of the newest versions stay, the newest one counted.
        keep_days : float
            A version stays for so many days after a newer one took its place.
        dry_run : bool
            Only say what would be done.

        Raises
        ------
        SpecError
            A number is out of bounds.
        CatalogFormatError
            It is not known what a version needs, as it cannot be read; nothing is deleted.
        """
        from hipslake.catalog.upkeep.catalog_vacuum import vacuum_catalog
        from hipslake.specs.vacuum_spec import Retention
        from hipslake.steps.upkeep.pointers import point_at_newest

        self._refuse_foreign("vacuumed")
        retention = Retention.of(keep_versions, keep_days)
        if not dry_run:
            point_at_newest(self.storage, hats_view=True)
        return vacuum_catalog(self.storage, retention, now=datetime.now(UTC), dry_run=dry_run)
