"""View: bring the tree of the newest version together, show it to readers, and mend all pointers.

A version that was made by one run has its tree from the start. A version that was appended to names files of
older writes; here they get a second name in the newest write, where readers look for them: those that go by
`current`, and in layout hats those that go by collection.properties.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from hipslake.catalog.checks.view_checks import is_whole_picture
from hipslake.catalog.comparing import files_apart
from hipslake.catalog.coverage import coverage_map, map_of_files
from hipslake.catalog.hats import skymap
from hipslake.catalog.hats.known_leaves import KnownLeaves, known_leaves
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.hats.view_files import Awaited, write_group_but_marker, write_margin_but_marker
from hipslake.catalog.layouts import HATS, skymap_path, tree_marker
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.view_tree import has_tree, marker_text, wants_tree
from hipslake.engine.progress import Progress
from hipslake.errors import CatalogNotFoundError, VersionNotFoundError
from hipslake.specs.catalog_spec import Layout, Unchanged
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.known_catalog import KnownCatalog, known_catalog
from hipslake.steps.report import Phases
from hipslake.steps.stored_behind import done_behind, flush
from hipslake.steps.upkeep.pointers import look_at_pointers, newest_with_tree, point_at_newest
from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import beside, in_threads, together
from hipslake.versions.log import SeenPointers, VersionLog
from hipslake.versions.pins import Pin, pinning

log = logging.getLogger(__name__)


def run(request: HatsViewRequest) -> HatsViewReport:
    """Complete the tree, and then replace `current` and collection.properties."""
    frozen = FrozenRun.of(request.folder)
    known = known_catalog(request.run_uri)
    catalog = Storage.at(frozen.catalog_uri)
    flush(request.folder.storage)
    behind = done_behind(request.run_uri, catalog, "signs and pointers of the view")
    return show_newest(catalog, frozen.spec.unchanged, known, behind)


def show_newest(
    catalog: Storage,
    unchanged: Unchanged,
    known: KnownCatalog | None = None,
    behind: Callable[..., object] | None = None,
) -> HatsViewReport:
    """Let readers that go by folders read the newest version of a catalog.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    unchanged : Unchanged
        How files of older writes get into the tree.
    known : KnownCatalog, optional
        What the run of this process has read and written of it.
    behind : callable, optional
        Takes what need not be waited for: the last look at the pointers, and deletions. By default it is
        asked at once.
    """
    phases, versions = Phases(), VersionLog(catalog)
    known = known or KnownCatalog(lasts=False)
    told = _Told(known)
    with pinning(catalog, told.numbers, behind, known.taken_claim()) as pin:
        try:
            metadata, shown = told.held(catalog, versions, pin) or _hold_shown(catalog, versions, pin)
        except CatalogNotFoundError:  # an append that found no row for the first version
            return HatsViewReport(catalog_uri=catalog.uri())
        linked, copied, seen = 0, 0, None
        if not metadata.total_rows:
            log.info("Version %d has no row, and so no tree.", metadata.version)
        elif shown != metadata and wants_tree(catalog, metadata, unchanged):
            with phases("tree"):
                linked, copied, seen = _build_tree(catalog, metadata, shown, unchanged, told)
            shown = metadata
        elif shown == metadata and metadata.layout is not Layout.HATS and catalog.is_local:
            # Of a tree that a night or a compaction has made at once.
            _write_all(catalog, _pictures(catalog, metadata))
        point = partial(
            point_at_newest,
            catalog,
            hats_view=True,
            unchanged=unchanged,
            known=metadata.version,
            whole=metadata if shown == metadata else None,
            seen=seen,
        )
        needs_pin = behind is None or shown != metadata  # with the tree whole, nobody needs it any more
        if needs_pin:
            with phases("pointers"):
                point(later=pin.at_end)
    if not needs_pin:  # it is taken down meanwhile
        with phases("pointers"):
            point(later=behind)
    return HatsViewReport(
        rows_in=metadata.total_rows,
        rows_out=metadata.total_rows,
        version=shown.version if shown else None,
        catalog_uri=catalog.uri(),
        linked=linked,
        copied=copied,
        seconds=phases.seconds,
    )


class _Told:
    """What this process knows of the version that it shows, and of the one whose tree readers have by now.

    Both are pinned before anything is looked for: that the newest is still the newest, and that the other was
    not vacuumed, is found out with the pin up.
    """

    def __init__(self, known: KnownCatalog) -> None:
        self._newest, self._before, self._leaves = known.newest, known.before, known.leaves
        self._told: KnownLeaves | None = None  # of these two
        self._point_map: PointMap | None = None  # of the version that is shown

    @property
    def numbers(self) -> tuple[int, ...]:
        if self._newest is None or self._before is None:
            return ()
        return self._before.number, self._newest.number

    def held(
        self, catalog: Storage, versions: VersionLog, pin: Pin
    ) -> tuple[CatalogMetadata, CatalogMetadata | None] | None:
        """What `_hold_shown` returns, by one round of requests to a store; None where something is not so."""
        newest, before = self._newest, self._before
        if newest is None or before is None or not pin.names(self.numbers):
            return None
        metadata, older = (CatalogMetadata.from_json(each.data) for each in (newest, before))
        if not (metadata.layout is older.layout is Layout.HATS and metadata.total_rows and older.total_rows):
            return None
        # What is read of the older tree counts only if it stands, and its version too.
        found, is_whole, was_whole, is_held, told, point_map = together(
            catalog,
            partial(versions.newest_from, newest.number),
            partial(has_tree, catalog, metadata),
            partial(has_tree, catalog, older),
            partial(_found, pin.hold, before.number),
            partial(_found, known_leaves, catalog, metadata, older, self._leaves),
            partial(_found, point_map_of, catalog, metadata, older),
        )
        if found != newest.number or is_whole or not was_whole or is_held is None:
            return None
        self._told, self._point_map = told, point_map
        return metadata, older

    def known_of(
        self, catalog: Storage, metadata: CatalogMetadata, older: CatalogMetadata | None
    ) -> KnownLeaves:
        """What is known of the leaf files of the version that is shown."""
        if self._told is not None:
            return self._told
        return known_leaves(catalog, metadata, older, self._leaves)

    def point_map_of(
        self, catalog: Storage, metadata: CatalogMetadata, older: CatalogMetadata | None
    ) -> PointMap:
        """Rows per pixel of the version that is shown."""
        return self._point_map or point_map_of(catalog, metadata, older)

    @property
    def is_new(self) -> bool:
        """Whether this run has committed the version a moment ago, and nobody can have drawn it."""
        return self._told is not None


def _found(ask: Callable[..., Any], *given: Any) -> Any:
    """What a store answers; None where something is missing."""
    with suppress(FileNotFoundError, VersionNotFoundError):
        return ask(*given)
    return None


def _hold_shown(
    catalog: Storage, versions: VersionLog, pin: Pin
) -> tuple[CatalogMetadata, CatalogMetadata | None]:
    """The newest version, and the one whose tree readers have by now; no vacuum takes them away."""
    while True:
        metadata = CatalogMetadata.from_json(pin.hold_newest())
        if metadata.layout is not Layout.HATS:  # whose trees are built of nothing but leaves
            return metadata, metadata if has_tree(catalog, metadata) else None
        shown = newest_with_tree(catalog, versions, metadata)
        with suppress(VersionNotFoundError):  # vacuumed since it was found
            if shown is not None:
                pin.hold(shown.version)
            return metadata, shown


def _build_tree(
    catalog: Storage,
    metadata: CatalogMetadata,
    older: CatalogMetadata | None,
    unchanged: Unchanged,
    told: _Told,
) -> tuple[int, int, SeenPointers | None]:
    """Name all leaves in the version's own write.

    Returns
    -------
    linked, copied : int
        How many came from other writes, and were copied.
    seen : SeenPointers or None
        What stood at the root while the last files of the tree were written; None on a local disk.
    """
    linked = copied = 0
    for group in metadata.with_files:
        pairs = _elsewhere(metadata, group.table(catalog))
        made, progress = [], Progress("view", total=len(pairs), unit="files")
        for one in in_threads(catalog, lambda pair: second_name(catalog, pair, unchanged), pairs):
            made.append(one)
            progress.tell(len(made))
        linked += len(made)
        copied += made.count(False)
    with beside(catalog) as begin:  # the pictures come before the last file of the tree
        pictures = begin(lambda: _pictures(catalog, metadata, older, is_new=told.is_new))
        if metadata.layout is Layout.HATS:
            known = begin(partial(told.known_of, catalog, metadata, older))
            point_map = told.point_map_of(catalog, metadata, older)
            last = _write_but_markers(catalog, metadata, point_map, known.result(), pictures.result)
        else:
            _write_all(catalog, pictures.result())
            last = {tree_marker(metadata.write_id): marker_text(metadata)}
    with beside(catalog) as begin:
        look = None
        if not catalog.is_local:
            look = begin(partial(look_at_pointers, catalog, metadata.version))
        _write_all(catalog, last)
    log.info("The tree of version %d is whole: %d files of older writes.", metadata.version, linked)
    return linked, copied, None if look is None else look.result()


def _pictures(
    catalog: Storage, metadata: CatalogMetadata, older: CatalogMetadata | None = None, *, is_new: bool = False
) -> dict[str, bytes]:
    """The pictures of the column groups that nobody has drawn, by path; those of an older one may serve."""
    found: dict[str, bytes] = {}
    for group in metadata.groups:
        path = skymap_path(metadata.write_id, group.name)
        if not is_new and catalog.is_file(path):
            continue
        drawn = b""
        if older is not None and skymap.shows_the_same(catalog, metadata, older, group):
            with suppress(FileNotFoundError):
                drawn = catalog.read(skymap_path(older.write_id, group.name))
        if not is_whole_picture(drawn):
            drawn = skymap.draw_skymap(metadata, group, metadata.partitions(group.name, catalog))
        found[path] = drawn
    return found


def _write_all(catalog: Storage, files: Mapping[str, bytes]) -> None:
    together(catalog, *(partial(catalog.write, path, data) for path, data in files.items()))


def write_hats_files(
    catalog: Storage, metadata: CatalogMetadata, point_map: PointMap, known: KnownLeaves | None = None
) -> None:
    """Write the files that HATS readers need beside the leaves; those that complete the groups come last.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a version of layout hats.
    point_map : PointMap
        Its rows per pixel.
    known : KnownLeaves, optional
        What need not be read of leaf files.
    """
    _write_all(catalog, _write_but_markers(catalog, metadata, point_map, known))


def _write_but_markers(
    catalog: Storage,
    metadata: CatalogMetadata,
    point_map: PointMap,
    known: KnownLeaves | None,
    pictures: Awaited = dict,
) -> dict[str, bytes]:
    """Write the files of all groups and margins, the pictures with the last ones; return the markers."""
    last: dict[str, bytes] = {}
    final = metadata.with_files[-1].name
    for group in metadata.groups:
        awaited = pictures if group.name == final else dict
        last |= write_group_but_marker(catalog, metadata, group.name, point_map, known=known, awaited=awaited)
    for margin in metadata.margins:
        awaited = pictures if margin.name == final else dict
        last |= write_margin_but_marker(catalog, metadata, margin, known=known, awaited=awaited)
    return last


def _elsewhere(metadata: CatalogMetadata, table: pa.Table) -> list[tuple[str, str]]:
    """The leaf files of other writes, each with its path in the tree of this one."""
    paths, targets = metadata.paths.of_other_writes(metadata.write_id, table["path"])
    return list(zip(paths.to_pylist(), targets.to_pylist(), strict=True))


def second_name(catalog: Storage, pair: tuple[str, str], unchanged: Unchanged) -> bool:
    """Put a file into the tree; True if it is linked there."""
    path, target = pair
    if catalog.is_file(target):  # by an earlier attempt; names are made in one step
        return True
    if unchanged is Unchanged.COPY:
        catalog.copy(path, target, durable=False)
        return False
    return catalog.link(path, target, durable=False)


def point_map_of(
    catalog: Storage,
    metadata: CatalogMetadata,
    older: CatalogMetadata | None,
) -> PointMap:
    """Rows per pixel: those of an older version, with what has changed since."""
    if metadata.rows_move or (older is not None and older.rows_move):  # increments do not tell of all rows
        return _map_by_files(catalog, metadata, older)
    now, before = set(metadata.increment_writes), set(older.increment_writes if older else ())
    with beside(catalog) as begin:
        start, went = [], []
        if older is not None:
            name = HATS.view_file(older.write_id, older.groups[0].name, "point_map.fits")
            standing = begin(partial(catalog.read, name))
            went = [coverage_map(each, catalog) for each in older.increments_of(before - now, catalog)]
        came = [coverage_map(each, catalog) for each in metadata.increments_of(now - before, catalog)]
        if older is not None:
            start = [PointMap.from_fits(standing.result())]
    maps = start + came
    return maps[0].plus(*maps[1:]).plus(*went, sign=-1)


def _map_by_files(catalog: Storage, metadata: CatalogMetadata, older: CatalogMetadata | None) -> PointMap:
    """As `point_map_of`, by the rows of the leaf files that came and went."""
    group = metadata.groups[0]
    before = None if older is None else next((each for each in older.groups if each.name == group.name), None)
    removed, added, _ = files_apart(catalog, before, group)
    came = map_of_files(catalog, group, added["path"].to_pylist())
    if older is None or before is None:
        return came
    went = map_of_files(catalog, before, removed["path"].to_pylist())
    stood = PointMap.from_fits(catalog.read(HATS.view_file(older.write_id, before.name, "point_map.fits")))
    return stood.plus(came).plus(went, sign=-1)
