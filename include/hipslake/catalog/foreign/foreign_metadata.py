"""A catalog of others as the version of a catalog: what our readers ask of metadata, by what its files say.

Nothing of it is known before it is asked for but the property files. It is read only: there is no log, so its
one version is number 1, and its write id is a digest of what names the leaves, by which a run knows it again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from pydantic import PrivateAttr

from hipslake.catalog.foreign.foreign_leaves import ForeignGroup, ForeignLeaves, ForeignMargin
from hipslake.catalog.foreign.hats_tree import HatsCollection, HatsTree, find_foreign, tree_at
from hipslake.catalog.foreign.property_files import number_in
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Margin, Owner
from hipslake.catalog.metadata.column_roles import Position
from hipslake.catalog.metadata.increments import Sources
from hipslake.errors import NotWritableError, SpecError, VersionNotFoundError
from hipslake.specs.catalog_spec import CatalogSpec, Layout, ParquetSpec
from hipslake.specs.epochs import julian_year
from hipslake.specs.threshold import Threshold, ThresholdUnit
from hipslake.storage.folder import Storage

VERSION = 1
"""Of every catalog of others."""

GROUP = "main"
"""What its only column group is called."""

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d))?")
_Make = Callable[[Any], Any]


class ForeignMetadata(CatalogMetadata):
    """A catalog of others. Its fields are worked out when they are first asked for."""

    _collection: HatsCollection = PrivateAttr()
    _by_hand: tuple[str, ...] = PrivateAttr()

    @classmethod
    def of(cls, collection: HatsCollection, margins: Sequence[str] = ()) -> ForeignMetadata:
        """The metadata of a collection or a tree.

        Parameters
        ----------
        collection : HatsCollection
        margins : sequence of str
            Further margin trees, by their addresses.
        """
        said = collection.primary.properties
        known: dict[str, Any] = {
            "catalog": collection.primary.name,
            "version": VERSION,
            "layout": Layout.HATS,
            "library_version": said.get("hats_builder", "unknown"),
            "description": said.get("obs_description", ""),
            "attribution": said.get("obs_copyright", ""),
        }
        found = cls.model_construct(**known)
        private = {"_collection": collection, "_by_hand": tuple(margins)}
        object.__setattr__(found, "__pydantic_private__", private)
        for name in _FIELDS:  # those with a default
            found.__dict__.pop(name, None)
        return found

    def __getattr__(self, name: str) -> Any:
        make = _FIELDS.get(name)
        if make is None:
            return super().__getattr__(name)  # type: ignore[misc]
        value = make(self)
        self.__dict__[name] = value
        return value

    @property
    def is_foreign(self) -> bool:
        return True

    @property
    def opened_at(self) -> str | None:
        return self._collection.place

    @property
    def margins_by_hand(self) -> tuple[str, ...]:
        return self._by_hand

    @property
    def owners(self) -> tuple[Owner, ...]:
        """None: no spec of ours publishes it."""
        return ()

    @property
    def tree(self) -> HatsTree:
        """The primary tree."""
        return self._collection.primary

    @property
    def indices_of_others(self) -> dict[str, str]:
        """The address of the index tree of each indexed column."""
        return self._collection.indices

    @property
    def indexed_columns(self) -> tuple[str, ...]:
        return tuple(self.indices_of_others)

    @property
    def made(self) -> datetime | None:
        """When it was written, as it says; None where it does not."""
        return None if self.created == _UNKNOWN else self.created

    @property
    def is_placed(self) -> bool:
        """Whether its rows lie on the sky where its leaves do, and have positions."""
        return self.lies_in_leaves and bool(self.position.ra) and self.leaves.form.healpix != "none"

    @property
    def leaves(self) -> ForeignLeaves:
        """The leaves of the primary tree."""
        group = self.groups[0]
        assert isinstance(group, ForeignGroup)
        return group.leaves_of

    @property
    def lies_in_leaves(self) -> bool:
        return self.tree.kind not in ("index", "margin")

    def tree_file(self, name: str) -> str:
        return self.tree.path(name)

    def margin_uri(self, margin: Margin, storage: Storage) -> str:
        assert isinstance(margin, ForeignMargin)
        return margin.leaves_of.tree.uri

    def tree_root(self, group: str) -> str:
        return self.tree.root

    def to_json(self) -> NoReturn:
        """Raise `NotWritableError`: a catalog of others has no metadata.json."""
        raise NotWritableError(
            f"{self.tree.uri} is a catalog of others, which is read as it is; ingest or adopt it to have "
            "versions of it"
        )


def open_foreign(
    storage: Storage, version: int | None = None, margins: Sequence[str] = ()
) -> tuple[Storage, ForeignMetadata] | None:
    """Open the HATS or HiPSCat catalog in a folder; None if there is none.

    Parameters
    ----------
    storage : Storage
        At the folder of the catalog or collection.
    version : int, optional
        There is version 1 alone.
    margins : sequence of str
        Addresses of margin trees that no collection names.

    Returns
    -------
    storage, metadata : Storage, ForeignMetadata
        The storage is at the collection, or at its primary tree if that lies elsewhere.

    Raises
    ------
    CatalogFormatError
        What describes it is damaged.
    VersionNotFoundError
        Another version is asked for.
    CatalogNotFoundError
        A margin is not there.
    SpecError
        A margin that was given is none of this catalog.
    """
    found = find_foreign(storage)
    if found is None:
        return None
    if version not in (None, VERSION):
        raise VersionNotFoundError(
            f"{storage.uri()}: version {version} does not exist: it is a catalog of others, which keeps no "
            f"versions; open it without one, or as version {VERSION}"
        )
    metadata = ForeignMetadata.of(found, margins)
    if margins:
        metadata.margins  # noqa: B018 - says what is wrong with them
    return found.primary.storage, metadata


def _leaves(metadata: ForeignMetadata) -> tuple[GroupMetadata, ...]:
    tree = metadata.tree
    leaves = ForeignLeaves(tree)
    largest = number_in(tree.properties, "hats_max_rows", tree.where)
    size = number_in(tree.properties, "hats_max_bytes", tree.where)
    threshold = Threshold(value=largest or 1_000_000, unit=ThresholdUnit.ROWS)
    if largest is None and size:
        threshold = Threshold(value=size, unit=ThresholdUnit.BYTES)
    fields = {"name": GROUP, "threshold": threshold, "parquet": ParquetSpec(), "partitions": None}
    return (ForeignGroup.of(leaves, {**fields, "sidecars": None}),)


def _spec(metadata: ForeignMetadata) -> dict[str, Any]:
    """A spec by which margins are built and joins placed: where the rows lie."""
    place = metadata.position
    if not place.ra:
        return {}
    words = re.sub(r"[^a-z0-9]+", "_", metadata.catalog.lower()).strip("_")
    source = {"uri": metadata.tree.uri, "format": "parquet"}
    position = {"ra": place.ra, "dec": place.dec, "epoch": place.epoch}
    spec = CatalogSpec.model_validate(
        {"name": f"of_others_{words}"[:63].rstrip("_"), "source": source, "position": position}
    )
    return spec.model_dump(mode="json", exclude_none=True)


def _margins(metadata: ForeignMetadata) -> tuple[Margin, ...]:
    collection = metadata._collection
    found: list[Margin] = []
    for address in dict.fromkeys([*metadata._by_hand, *collection.margins]):
        if address in metadata._by_hand:
            tree = tree_at(Storage.at(address), "")
        else:
            tree = tree_at(collection.primary.storage, address)
        found.append(margin_of(tree))
    return tuple(found)


def margin_of(tree: HatsTree) -> ForeignMargin:
    """The margin in a tree.

    Raises
    ------
    SpecError
        It holds no margin, or does not say how far it reaches.
    """
    if tree.kind != "margin":
        raise SpecError(f"{tree.uri} is no margin but of kind {tree.kind}; give the folder of a margin")
    text = tree.properties.get("hats_margin_threshold", "")
    try:
        arcsec = float(text)
    except ValueError:
        arcsec = -1.0
    if not 0 < arcsec < 3600 * 180:
        raise SpecError(f"{tree.where}: hats_margin_threshold is {text!r}, no distance in arcseconds")
    fields = {"name": tree.name, "group": GROUP, "radius_arcsec": arcsec}
    return ForeignMargin.of(ForeignLeaves(tree), {**fields, "partitions": None, "sidecars": None})


def _position(metadata: ForeignMetadata) -> Position:
    said = metadata.tree.properties
    ra, dec = said.get("hats_col_ra", ""), said.get("hats_col_dec", "")
    held = metadata.tree.kind != "index" and bool(ra and dec)
    epoch = None
    # HiPSCat's `epoch` is not looked at: its writers said J2000 of whatever positions they were given.
    if text := said.get("hats_coordinate_epoch"):
        try:
            epoch = julian_year(text)
        except ValueError:  # words that name no year
            epoch = None
    if not held:
        return Position(ra="", dec="", unit="deg", frame="icrs", epoch=epoch)
    return Position(ra=ra, dec=dec, unit="deg", frame="icrs", epoch=epoch, icrs_ra=ra, icrs_dec=dec)


def _digest(metadata: ForeignMetadata) -> str:
    """What tells this catalog from one that took its place: its properties, and the names of its leaves."""
    collection, listed = metadata._collection, metadata.leaves.listed
    digest = hashlib.sha256(collection.text)
    digest.update(collection.primary.text)
    for column in (listed.order, listed.npix, listed.rows, listed.bytes):
        digest.update(b"" if column is None else column.tobytes())
    return f"foreign-{digest.hexdigest()[:32]}"


def _created(metadata: ForeignMetadata) -> datetime:
    """When it was made, as far as it says; the beginning of 1970 if it does not."""
    match = _DATE.search(metadata.tree.properties.get("hats_creation_date", ""))
    if match is None:
        return _UNKNOWN
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return _UNKNOWN


_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)


def _total_rows(metadata: ForeignMetadata) -> int:
    said = number_in(metadata.tree.properties, "hats_nrows", metadata.tree.where)
    return metadata.groups[0].rows if said is None else said


def _increments(metadata: ForeignMetadata) -> tuple[Increment, ...]:
    rows = metadata.total_rows
    return (
        Increment.model_construct(
            ordinal=0,
            rows=rows,
            write_id=metadata.write_id,
            fingerprint=metadata.write_id,
            sources=Sources(files=0, rows=rows, bytes=0, entries=()),
            leaves=(),
        ),
    )


_FIELDS: dict[str, _Make] = {
    "groups": _leaves,
    "margins": _margins,
    "position": _position,
    "write_id": _digest,
    "fingerprint": _digest,
    "created": _created,
    "total_rows": _total_rows,
    "total_bytes": lambda metadata: metadata.groups[0].bytes,
    "increments": _increments,
    "spec": _spec,
}
