"""What the process that does all steps of a run knows of the catalog, so that its next step need not ask.

Only what never changes is known: the metadata of versions, and what was written into leaf files. Whether a
version is still the newest is looked for anew by each step, and decided by the commit.
"""

from __future__ import annotations

from collections.abc import Collection

from hipslake.catalog.leaf import LeafEnds
from hipslake.steps.run_storage import RunStorage, run_storage
from hipslake.storage.folder import Storage
from hipslake.versions.log_reader import FoundVersion
from hipslake.versions.pins import ClaimAhead

MOST_BYTES = 16 << 20
"""Of the footers of leaf files that are kept, as they are stored, with their first rows."""


class KnownCatalog:
    """What a process knows of the catalog of a run.

    Parameters
    ----------
    lasts : bool
        Whether later steps of the run will ask.

    Attributes
    ----------
    newest : FoundVersion or None
        The newest version that was found or committed.
    before : FoundVersion or None
        The one that was the newest until the run has committed it.
    leaves : dict of str to LeafEnds
        Leaf files that the run has written, by their paths.
    """

    def __init__(self, *, lasts: bool) -> None:
        self._lasts = lasts
        self._left = MOST_BYTES
        self.newest: FoundVersion | None = None
        self.before: FoundVersion | None = None
        self.leaves: dict[str, LeafEnds] = {}
        self._claim: ClaimAhead | None = None

    def found(self, number: int, data: bytes | None) -> None:
        """Note the newest version; nothing where it was not read."""
        if data is not None and (self.newest is None or self.newest.number < number):
            self.newest, self.before = FoundVersion(number, data), None

    def committed(self, version: FoundVersion, before: FoundVersion | None) -> None:
        """Note a version that the run has committed, and the one right before it."""
        self.newest, self.before = version, before

    def forget(self) -> None:
        """Know no version any more: what was known of the newest one was not so."""
        self.newest = self.before = None

    def claim_ahead(self, catalog: Storage, versions: Collection[int]) -> None:
        """Claim a write for the step that comes next, if this process does it, with a pin of versions."""
        if self._lasts:
            self.end()
            self._claim = ClaimAhead(catalog, versions)

    def claim_for_append(self, catalog: Storage) -> None:
        """Claim the write that adds to the newest version, if that is known."""
        if self.newest is not None:
            self.claim_ahead(catalog, (self.newest.number,))

    def taken_claim(self) -> ClaimAhead | None:
        """What was claimed for the step that asks; it is its own from now on."""
        claim, self._claim = self._claim, None
        return claim

    def end(self) -> None:
        """Give up what was claimed, and not taken."""
        if (claim := self.taken_claim()) is not None:
            claim.give_up()

    def wrote(self, path: str, ends: LeafEnds) -> None:
        """Note what was written into a leaf file, unless too much is noted, or nobody will ask."""
        if not self._lasts or self._left <= 0:
            return
        self._left -= ends.footer.serialized_size + ends.first_row.nbytes
        if self._left >= 0:
            self.leaves[path] = ends


def known_catalog(run_uri: str) -> KnownCatalog:
    """What this process knows of the catalog of a run: nothing, unless it does all steps, in a store.

    Parameters
    ----------
    run_uri : str
        Of the run folder.
    """
    storage = run_storage(run_uri)
    if not (isinstance(storage, RunStorage) and storage.is_own):
        return KnownCatalog(lasts=False)
    return storage.notes.of(KnownCatalog, lambda: KnownCatalog(lasts=True))
