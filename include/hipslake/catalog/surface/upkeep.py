"""What is done to a published catalog: verify it, add margins, roll it back, vacuum it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from hipslake.catalog.surface.opened import OpenedCatalog
from hipslake.errors import SpecError

if TYPE_CHECKING:
    from hipslake.catalog.checks.findings import VerificationReport
    from hipslake.catalog.upkeep.vacuum import VacuumOutcome


class CatalogUpkeep(OpenedCatalog):
    """Looks after a catalog; whatever changes it comes as a new version."""

    def verify(self, *, workers: int | None = None) -> VerificationReport:
        """Check every file of this version against its metadata; see `hipslake.catalog.verification`.

        Parameters
        ----------
        workers : int, optional
            Leaves that are looked at at once; one per core if not given.
        """
        from hipslake.catalog.verification import verify_catalog

        return verify_catalog(self.storage, self.metadata, workers=workers)

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
        from hipslake.spark.margin_commit import add_margins
        from hipslake.specs.catalog import Unchanged
        from hipslake.specs.margin import check_distances
        from hipslake.steps.hats_view import show_newest
        from hipslake.steps.pointers import point_at_newest

        try:
            distances = check_distances(tuple(map(float, arcsec)))
        except ValueError as error:
            raise SpecError(f"{self.name}: {error}") from None
        metadata = add_margins(self.storage, distances, ThisProcess())
        if metadata is not None:
            point_at_newest(self.storage)
            show_newest(self.storage, Unchanged(metadata.spec.get("unchanged", Unchanged.LINK)))
        return self.open(self.storage.root) if metadata is None else type(self)(self.storage, metadata)

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
        from hipslake.catalog.upkeep.rollback import roll_back
        from hipslake.specs.catalog import Unchanged
        from hipslake.steps.hats_view import show_newest

        metadata = roll_back(self.storage, version)
        show_newest(self.storage, Unchanged(metadata.spec.get("unchanged", Unchanged.LINK)))
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
        from hipslake.catalog.upkeep.vacuum import vacuum_catalog
        from hipslake.specs.vacuum import Retention
        from hipslake.steps.pointers import point_at_newest

        retention = Retention.of(keep_versions, keep_days)
        if not dry_run:
            point_at_newest(self.storage)
        return vacuum_catalog(self.storage, retention, now=datetime.now(UTC), dry_run=dry_run)
