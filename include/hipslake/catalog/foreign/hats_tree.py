"""HATS trees and collections: what is where, by their property files alone.

A tree is a folder with the leaf files of one catalog, margin, index or association. A collection is a folder
of trees around a primary one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hipslake.catalog.foreign.property_files import (
    COLLECTION_FILE,
    HIPSCAT_FILE,
    MOST_BYTES,
    PROPERTY_FILES,
    names_in,
    read_properties,
)
from hipslake.errors import CatalogFormatError, CatalogNotFoundError, NotReadableError, PathError
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import VERSIONS, version_path

TreeKind = Literal["object", "source", "margin", "index", "association", "map", "nested", "extension"]
_KINDS: tuple[TreeKind, ...] = (
    "object",
    "source",
    "margin",
    "index",
    "association",
    "map",
    "nested",
    "extension",
)


@dataclass(frozen=True)
class HatsTree:
    """A tree of leaf files.

    Attributes
    ----------
    storage : Storage
        Below which it lies.
    root : str
        Its folder, relative to the storage; "" for the storage itself.
    file : str
        The name of its property file.
    properties : dict of str to str
        What that says, under the keys of HATS.
    text : bytes
        Its content.
    """

    storage: Storage
    root: str
    file: str
    properties: dict[str, str] = field(hash=False)
    text: bytes = field(repr=False)

    @property
    def where(self) -> str:
        """The address of the property file."""
        return self.storage.uri(self.path(self.file))

    @property
    def uri(self) -> str:
        """The address of the tree."""
        return self.storage.uri(self.root)

    @property
    def name(self) -> str:
        """What the catalog is called."""
        return self.properties.get("obs_collection") or posixpath.basename(self.uri) or "catalog"

    @property
    def kind(self) -> TreeKind:
        """What it holds; a tree that does not say it is of objects."""
        said = self.properties.get("dataproduct_type", "object").lower()
        return next((kind for kind in _KINDS if kind == said), "object")

    @property
    def is_hipscat(self) -> bool:
        """Whether it is of the format before HATS, whose leaves lie in the tree's own folder."""
        return self.file == HIPSCAT_FILE

    def path(self, *parts: str) -> str:
        """A path in the tree, relative to the storage."""
        return self.storage.join(self.root, *parts)

    def data_path(self, *parts: str) -> str:
        """A path among the leaf files."""
        return self.path(*parts) if self.is_hipscat else self.path("dataset", *parts)


class HatsCollection(NamedTuple):
    """A primary tree and those around it.

    Attributes
    ----------
    primary : HatsTree
    margins : tuple of str
        Addresses of margin trees: folders relative to the storage of the primary one, or URIs. The default
        one comes first.
    indices : dict of str to str
        The address of the index tree of each column.
    text : bytes
        Of `collection.properties`; b"" for a tree that stands alone.
    place : str
        Where it lies.
    """

    primary: HatsTree
    margins: tuple[str, ...] = ()
    indices: dict[str, str] = {}  # noqa: RUF012 - never changed
    text: bytes = b""
    place: str | None = None


def find_foreign(storage: Storage) -> HatsCollection | None:
    """The collection or the tree in a folder; None where there is neither.

    A store is asked for one listing and the files that it names; a web server, which lists nothing, for the
    names that there may be.

    Raises
    ------
    CatalogFormatError
        A property file is damaged, or a collection names no primary tree, or one that is not there.
    """
    listed = _names(storage)
    if listed is not None and VERSIONS in listed:  # a catalog of ours, whose metadata.json is gone
        return None
    if listed is None:  # what there is most of comes first
        orders: list[Collection[str] | None] = [PROPERTY_FILES[:1], None, PROPERTY_FILES[1:]]
    elif COLLECTION_FILE in listed:
        orders = [None]
    else:
        orders = [listed]
    for names in orders:
        if names is None:
            found = _collection(storage)
        else:
            tree = read_tree(storage, "", names)
            found = None if tree is None else HatsCollection(tree)
        if found is not None:
            return found
    return None


def read_tree(storage: Storage, root: str, names: Collection[str] | None = None) -> HatsTree | None:
    """The tree in a folder, by its property file; None if it has none.

    Parameters
    ----------
    storage : Storage
    root : str
        The folder, relative to the storage.
    names : collection of str, optional
        The names in it, where they are known.

    Raises
    ------
    CatalogFormatError
        The property file is damaged.
    """
    for file in PROPERTY_FILES:
        if names is not None and file not in names:
            continue
        path = storage.join(root, file)
        text = _read(storage, path)
        if text is not None:
            return HatsTree(storage, root, file, read_properties(text, storage.uri(path)), text)
    return None


def tree_at(storage: Storage, address: str) -> HatsTree:
    """The tree of an address that a collection or a user names.

    Parameters
    ----------
    storage : Storage
    address : str
        A folder relative to the storage, or a URI or an absolute path.

    Raises
    ------
    CatalogNotFoundError
        There is none.
    """
    if "://" in address or address.startswith("/"):
        elsewhere = Storage.at(address)
        tree = read_tree(elsewhere, "")
        where = elsewhere.uri()
    else:
        tree = read_tree(storage, address.strip("/"))
        where = storage.uri(address.strip("/"))
    if tree is None:
        raise CatalogNotFoundError(
            f"{where}: no HATS tree lies here (none of {', '.join(PROPERTY_FILES)}); check the address"
        )
    return tree


def _collection(storage: Storage) -> HatsCollection | None:
    text = _read(storage, COLLECTION_FILE)
    if text is None:
        return None
    where = storage.uri(COLLECTION_FILE)
    said = read_properties(text, where)
    ours = said.get("hats_builder", "").startswith("hipslake")
    if ours and storage.is_web_server and storage.is_file(version_path(1)):  # without its metadata.json
        return None
    primary = said.get("hats_primary_table_url")
    if not primary:
        raise CatalogFormatError(f"{where}: hats_primary_table_url is missing, so no tree is named")
    try:
        tree = tree_at(storage, primary)
        margins = [_checked(storage, each) for each in names_in(said.get("all_margins", ""))]
        if (default := said.get("default_margin")) is not None:
            margins = [_checked(storage, default), *margins]
        pairs = names_in(said.get("all_indexes", ""))
        indices = {
            column: _checked(storage, place) for column, place in zip(pairs[::2], pairs[1::2], strict=True)
        }
    except CatalogNotFoundError as error:
        raise CatalogFormatError(f"{where}: its primary tree is not there: {error}") from None
    except (PathError, ValueError) as error:
        raise CatalogFormatError(f"{where}: names what is no tree ({error})") from None
    return HatsCollection(tree, tuple(dict.fromkeys(margins)), indices, text, storage.root)


def _checked(storage: Storage, address: str) -> str:
    if "://" in address or address.startswith("/"):
        return Storage.at(address).root
    storage.uri(address.strip("/"))  # refuses what leads out
    return address.strip("/")


def _names(storage: Storage) -> list[str] | None:
    """The names in the folder; None where the store lists nothing, or may not be listed."""
    if storage.is_web_server:
        return None
    try:
        return [entry.path for entry in storage.list("")]
    except NotReadableError:
        return None


def _read(storage: Storage, path: str) -> bytes | None:
    """A small file; None if there is none, or the store says of what is missing that it may not be read."""
    try:
        if storage.is_local:
            return storage.read_plain(path, MOST_BYTES)
        return storage.read(path)
    except FileNotFoundError:
        return None
    except NotReadableError:
        if storage.is_local:
            raise
        return None
