"""The catalogs that the page shows, opened; what is slow to read is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable
from typing import Literal, NamedTuple, TypeVar

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.comparing import (
    VersionDiff,
    VersionSummary,
    compare,
    footprint,
    increment_footprint,
    moved,
    summarize,
)
from hipslake.catalog.density import Density, density, density_of_map, sky_map
from hipslake.catalog.foreign.foreign_metadata import VERSION
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.errors import CatalogNotFoundError, VersionNotFoundError
from hipslake.sphere.pixels import Pixel
from hipslake.sphere.sky_cells import Cells, Footprint, gather
from hipslake.steps.run import CATALOGS, catalog_uri
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import TOMBSTONE_BYTES, VERSIONS, is_tombstone, version_number, version_path
from pydantic_core import to_json

from hipslake_airflow.web.cache import SizedCache
from hipslake_airflow.web.others import LOOKED_AT, OtherCatalogs

CACHE_BYTES = 384 << 20
TILE_CELLS = 4096
_PARSED = 6  # bytes that a parsed metadata.json takes, for each that it is long
_MAP = 12 << 20  # bytes of a map of order 8, at most
_OF_INCREMENT = 6 << 10  # bytes that one takes, with a few source files

Value = TypeVar("Value")
LayerKind = Literal["group", "margin", "increment", "added", "removed"]


class Layer(NamedTuple):
    """What a map shows: a column group, a margin, an increment, or what came or went since a version."""

    kind: LayerKind
    name: str  # of the group or margin, or the ordinal of the increment
    since: int | None = None


class Stand(NamedTuple):
    """A version of a catalog that stands on disk."""

    uri: str
    version: int
    stamp: str  # who deletes a catalog and makes it anew begins at version 1 again


class CatalogStore:
    """The catalogs of a warehouse, and those of others that the deployment names.

    Those of others are read as what lies there: they have version 1, and no history.

    Parameters
    ----------
    warehouse : str
        Path or URI.
    others : str
        As `HIPSLAKE_OTHERS` has it.
    specs : callable, optional
        Gives the names that specs of catalogs have.
    """

    def __init__(
        self, warehouse: str, others: str = "", specs: Callable[[], Collection[str]] = tuple
    ) -> None:
        self.warehouse = warehouse
        self._specs = specs
        self._cache = SizedCache(CACHE_BYTES)
        self.others = OtherCatalogs(others, self._cache)

    def names(self) -> list[str]:
        """Names of all folders in which catalogs lie."""
        entries = Storage.at(self.warehouse).list(CATALOGS)
        return [entry.path.rpartition("/")[2] for entry in entries if entry.is_dir]

    def is_of_others(self, name: str) -> bool:
        """Whether a catalog is read where others have it; a catalog or spec of ours goes first."""
        if name not in self.others.uris:
            return False

        def is_ours() -> bool:
            return name in self._specs() or bool(self._entries(name))

        return not self._cache.get(("ours", name, int(time.monotonic() // LOOKED_AT)), is_ours, lambda _: 1)

    def uri(self, name: str) -> str:
        """The root of a catalog: what opens it elsewhere."""
        if self.is_of_others(name):
            return self.others.opened(name).reader.opened_at
        return catalog_uri(self.warehouse, name)

    def numbers(self, name: str) -> list[int]:
        """Numbers of the versions that can be read, newest first; none of a catalog of others."""
        if self.is_of_others(name):
            return []
        storage = Storage.at(self.uri(name))
        numbers = []
        for entry in storage.list(VERSIONS):
            number = version_number(entry.path)
            if number is None:
                continue
            if entry.size <= TOMBSTONE_BYTES and is_tombstone(storage.read(entry.path), entry.path):
                continue
            numbers.append(number)
        return sorted(numbers, reverse=True)

    def newest(self, name: str) -> int:
        """Number of the newest version; `CatalogNotFoundError` where there is none."""
        if self.is_of_others(name):
            return VERSION
        numbers = self._entries(name)
        if not numbers:
            raise CatalogNotFoundError(f"{self.uri(name)}: no version of a catalog is published here")
        return max(numbers)

    def metadata(self, name: str, version: int | None = None) -> CatalogMetadata:
        """The metadata of a version, by default of the newest."""
        if self.is_of_others(name):
            return self.others.opened(name, version).metadata
        stand = self._stand(name, version)
        path = version_path(stand.version)

        def read() -> tuple[CatalogMetadata, int]:
            data = Storage.at(stand.uri).read(path)
            if is_tombstone(data, path):
                raise _no_version(name, stand.version, "was vacuumed")
            return CatalogMetadata.from_json(data, where=f"{stand.uri}/{path}"), len(data)

        return self._cache.get(("metadata", stand), read, lambda value: _PARSED * value[1])[0]

    def increments(self, name: str, version: int | None = None) -> tuple[Increment, ...]:
        """All increments of a version, ascending by ordinal."""
        stand = self._stand(name, version)

        def read() -> tuple[Increment, ...]:
            return self.metadata(name, stand.version).all_increments(self.storage(name, stand.version))

        return self._cache.get(("increments", stand), read, lambda found: _OF_INCREMENT * len(found))

    def history(self, name: str, before: int | None, most: int) -> list[VersionSummary]:
        """What the newest versions brought, newest first; those before a version, if one is given."""
        numbers = [number for number in self.numbers(name) if before is None or number < before]
        return [self._summary(name, number) for number in numbers[:most]]

    def diff(self, name: str, old: int, new: int) -> VersionDiff:
        """How a version differs from another."""
        stands = self._stand(name, old), self._stand(name, new)
        storage = self.storage(name, new)

        def make() -> VersionDiff:
            return compare(storage, self.metadata(name, old), self.metadata(name, new))

        return self._cache.get(("diff", *stands), make, lambda value: len(value.model_dump_json()))

    def cells(self, name: str, version: int, layer: Layer, pixel: Pixel | None = None) -> bytes:
        """The cells of a layer, as JSON: columns, and the sums of all of it.

        Parameters
        ----------
        name, version, layer
        pixel : Pixel, optional
            Only what lies in it, in finer cells.
        """
        stand = self._stand(name, version)

        def make() -> bytes:
            leaves = self.footprint(name, version, layer)
            if pixel is None:
                return _cells_json(gather(leaves))
            return _cells_json(gather(leaves.inside(pixel), TILE_CELLS))

        return self._cache.get(("cells", stand, layer, pixel), make, len)

    def footprint(self, name: str, version: int, layer: Layer) -> Footprint:
        """The files of a layer along the curve."""
        stand = self._stand(name, version)
        return self._cache.get(
            ("footprint", stand, layer),
            lambda: self._read_footprint(name, version, layer),
            lambda leaves: sum(column.nbytes for column in leaves),
        )

    def density(self, name: str, version: int, order: int, pixel: Pixel | None) -> Density:
        """Rows per pixel of a version, below a pixel or of the whole sky; see `hipslake.catalog.density`."""
        stand = self._stand(name, version)
        storage, metadata = self.storage(name, version), self.metadata(name, version)

        def make() -> Density:
            counted = self._cache.get(
                ("map", stand), lambda: sky_map(storage, metadata), lambda found: _MAP if found else 1
            )
            if counted is not None and (by_map := density_of_map(counted, order, pixel)) is not None:
                return by_map
            leaves = self.footprint(name, version, Layer("group", metadata.groups[0].name))
            return density(storage, metadata, counted, leaves, order, pixel)

        return self._cache.get(("density", stand, order, pixel), make, lambda found: found.counts.nbytes)

    def reader(self, name: str, version: int | None = None) -> CatalogReader:
        """A version opened for reading, by default the newest."""
        if self.is_of_others(name):
            return self.others.opened(name, version).reader
        return CatalogReader(Storage.at(self.uri(name)), self.metadata(name, version))

    def storage(self, name: str, version: int | None = None) -> Storage:
        """The root of a version's paths, with the catalog of others that it has adopted, if it has one."""
        return self.reader(name, version).storage

    def kept(
        self, key: Hashable, name: str, version: int, make: Callable[[], Value], size: Callable[[Value], int]
    ) -> Value:
        """What is worked out of a version once and kept; parameters as of `SizedCache.get`."""
        return self._cache.get((key, self._stand(name, version)), make, size)

    def _read_footprint(self, name: str, version: int, layer: Layer) -> Footprint:
        storage, metadata = self.storage(name, version), self.metadata(name, version)
        if layer.kind in ("added", "removed"):
            if layer.since is None or layer.name not in {group.name for group in metadata.groups}:
                raise _no_layer(name, version, layer)
            both = moved(storage, self.metadata(name, layer.since), metadata, layer.name)
            return both.added if layer.kind == "added" else both.removed
        if layer.kind == "increment":
            for increment in self.increments(name, version):
                if str(increment.ordinal) == layer.name:
                    return increment_footprint(storage, increment)
        else:
            for files in metadata.margins if layer.kind == "margin" else metadata.groups:
                if files.name == layer.name:
                    return footprint(storage, files)
        raise _no_layer(name, version, layer)

    def _summary(self, name: str, version: int) -> VersionSummary:
        stand = self._stand(name, version)

        def make() -> VersionSummary:
            metadata = self.metadata(name, version)
            parent = None
            if metadata.parent is not None:
                try:
                    parent = self.metadata(name, metadata.parent)
                except VersionNotFoundError:  # vacuumed
                    parent = None
            return summarize(self.storage(name, version), metadata, parent)

        return self._cache.get(("summary", stand), make, lambda value: len(value.model_dump_json()))

    def _entries(self, name: str) -> list[int]:
        """The numbers of all versions in the warehouse, also of those that were vacuumed."""
        entries = Storage.at(catalog_uri(self.warehouse, name)).list(VERSIONS)
        return [number for entry in entries if (number := version_number(entry.path)) is not None]

    def _stand(self, name: str, version: int | None) -> Stand:
        if self.is_of_others(name):
            found = self.others.opened(name, version)
            return Stand(found.reader.opened_at, VERSION, found.metadata.write_id)
        number = self.newest(name) if version is None else version
        try:
            entry = Storage.at(self.uri(name)).entry(version_path(number))
        except FileNotFoundError:
            raise _no_version(name, number, "does not exist") from None
        return Stand(self.uri(name), number, entry.stamp)


def _cells_json(cells: Cells) -> bytes:
    return to_json(
        {
            "totals": {
                "partitions": int(cells.partitions.sum()),
                "files": int(cells.files.sum()),
                "rows": int(cells.rows.sum()),
                "bytes": int(cells.bytes.sum()),
            },
            **{name: column.tolist() for name, column in cells._asdict().items() if name != "filled"},
            "filled": cells.filled.round(6).tolist(),
        }
    )


def _no_version(name: str, version: int, what: str) -> VersionNotFoundError:
    return VersionNotFoundError(f"catalog {name}: version {version} {what}; choose another")


def _no_layer(name: str, version: int, layer: Layer) -> VersionNotFoundError:
    return VersionNotFoundError(f"catalog {name}, version {version}: there is no {layer.kind} {layer.name!r}")
