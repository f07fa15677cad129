"""The last version of an outcome, as far as a run may take over what cannot have changed of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.committing import newest_version
from hipslake.catalog.metadata import Owner
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import Frozen
from hipslake.steps.join.request import FrozenSide
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import version_number, version_path

Listing = Sequence[Sequence[Any]]
"""What an outcome was made of: URI, size and stamp of each side."""


class LastOutcome(Frozen):
    """A version of an outcome, and the versions of the sides that it was made of."""

    version: int
    sides: tuple[FrozenSide, ...]


class Base(Frozen):
    """What a run begins with: the last outcome, or the reason why all is joined anew."""

    last: LastOutcome | None = None
    full_because: str | None = None

    @property
    def version(self) -> int | None:
        """Of the last outcome, if there is one to go on from."""
        return None if self.last is None else self.last.version


def base_of_run(
    catalog: Storage, owner: Owner, sides: Sequence[CatalogReader], fingerprint: Callable[[Listing], str]
) -> Base:
    """Find the version of an outcome that a run can go on from; of leaves, none is opened.

    Parameters
    ----------
    catalog : Storage
        At the root of the outcome.
    owner : Owner
        The spec of the run.
    sides : sequence of CatalogReader
        As the run joins them, the left one first.
    fingerprint : callable
        Gives the fingerprint of a run like this one, if it were made of such sides: with the same spec, the
        same params and this library.
    """
    try:
        last = newest_version(catalog)
    except CatalogFormatError as error:
        return Base(full_because=f"the last version cannot be read: {error}")
    if last is None:
        return Base(full_because="there is no version yet")
    which = f"version {last.version}"
    if last.owner != owner or last.earlier is not None or len(last.increments) != 1:
        return Base(full_because=f"{which} was not made by this join")
    listed = last.increments[0].sources.table(catalog).to_pylist()
    listing = [[entry["uri"], entry["size"], entry["stamp"]] for entry in listed]
    if len(listing) != len(sides) or fingerprint(listing) != last.fingerprint:
        return Base(
            full_because=f"{which} was made with another spec, other params, other catalogs or another "
            "version of the library"
        )
    frozen = []
    for side, (uri, _, write_id) in zip(sides, listing, strict=True):
        if side.metadata.is_foreign or side.metadata.adopted is not None:
            return Base(full_because=f"the leaves of {side.uri} are of others, who may change them")
        number = version_number("/".join(uri.split("/")[-2:]))
        if number is None or side.storage.uri(version_path(number)) != uri:
            return Base(full_because=f"{which} was made of {uri}, which is no version of {side.uri}")
        frozen.append(FrozenSide(uri=side.opened_at, version=number, write_id=write_id))
    return Base(last=LastOutcome(version=last.version, sides=tuple(frozen)))
