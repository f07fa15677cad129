"""Runs that publish a version of a catalog: their end, by the program that performs their steps."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from hipslake.api.catalog import Catalog
from hipslake.api.step_runner import StepRunner
from hipslake.catalog.committing import described_version
from hipslake.errors import EmptySourceError, HipslakeError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.known_catalog import known_catalog
from hipslake.steps.run import RunFolder, catalog_uri
from hipslake.storage.folder import Storage
from hipslake.versions.intents import fence
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import give_up

log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """What a run came to.

    Attributes
    ----------
    catalog : Catalog
        The version that the run has published; where there was nothing to do, the newest one.
    run_uri : str
        The folder of the run, with the reports of its steps.
    nothing_to_do : str
        Why nothing was published; empty where something was.
    """

    catalog: Catalog
    run_uri: str
    nothing_to_do: str

    def told(self) -> Catalog:
        """Return the catalog, and log a warning where there was nothing to do."""
        if self.nothing_to_do:
            log.warning("%s: %s", self.catalog.uri, self.nothing_to_do)
        return self.catalog


class CatalogRunner(StepRunner):
    """Performs the steps of a run that publishes a version of a catalog, which has the name of the spec."""

    @property
    def catalog_uri(self) -> str:
        """Root of the catalog."""
        return catalog_uri(self.warehouse, self.name)

    @contextmanager
    def nothing_left_on_failure(self) -> Iterator[None]:
        """Delete what the run has written into the catalog, if the block fails and nothing is committed.

        It is kept where it is not known whether the commit stands: the next run's sweep decides then.
        """
        try:
            yield
        except BaseException:
            with suppress(HipslakeError, OSError):
                self._give_up()
            raise

    def publish(self, *, margin: bool, index: bool) -> Outcome:
        """Perform what follows when the leaves of a whole version are written, up to its publication.

        Parameters
        ----------
        margin, index : bool
            Whether the version has margins, and indices.
        """
        for name, wanted in (("margin", margin), ("index", index), ("verify", True)):
            if wanted:
                self.perform(name)
        version = self.perform("publish").version
        return self.outcome(version)

    def outcome(self, version: int | None, nothing_to_do: str = "") -> Outcome:
        """Bring the view of other readers up to date, and return what the run came to.

        Parameters
        ----------
        version : int or None
            That was published, or is the newest where there was nothing to do; None: there is none.
        nothing_to_do : str
            Why nothing was published.

        Raises
        ------
        EmptySourceError
            If no version is published.
        """
        if version is None:
            raise EmptySourceError(f"{self.catalog_uri}: {nothing_to_do}")
        self.perform("view")
        known = None if nothing_to_do else known_catalog(self.folder.uri).newest
        if known is not None and known.number == version and self._kept is not None:  # this run's own
            storage = Storage.at(self.catalog_uri)
            catalog = Catalog(storage, described_version(storage, *known))
        else:
            catalog = Catalog.open(self.catalog_uri, version)
        return Outcome(catalog, self.folder.uri, nothing_to_do)

    def unchanged(self, version: int, made_of: str) -> Outcome:
        """Return the outcome of a run that would make what the newest version is.

        Parameters
        ----------
        version : int
            The newest.
        made_of : str
            What it was made of, in words.
        """
        return self.outcome(
            version,
            f"version {version} was made of {made_of}, with this spec and library version; there is nothing "
            "to do. Say force to build a version all the same",
        )

    def newest(self) -> int | None:
        """Return the newest version of the catalog; None if there is none."""
        return VersionLog(Storage.at(self.catalog_uri)).newest()

    def _give_up(self) -> None:
        if not self.folder.storage.is_file(RunFolder.RUN):
            return
        catalog, write_id = Storage.at(self.catalog_uri), FrozenRun.of(self.folder).write_id
        if not catalog.exists(write_id):
            return
        if fence(catalog, [write_id]) and VersionLog(catalog).find(write_id) is None:
            give_up(catalog, write_id)
