"""The commit of a version of a cube: the work is repeated on the newest version until the commit succeeds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from hipslake.cube.dataset import listed
from hipslake.cube.store.metadata import CubeAlignment, CubeDatasetMetadata, CubeMetadata
from hipslake.errors import ConflictError, CubeError, VersionNotFoundError
from hipslake.library_version import __version__
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.versions.log import RootPointers, VersionLog
from hipslake.versions.log_files import CURRENT
from hipslake.versions.pins import Pin, give_up
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)

_TRIES = 10  # each does the work again

Work = Callable[[str, "CubeMetadata | None"], "Draft | None"]
"""Takes the write id and the newest version, writes below the folder of the write, and gives the next one;
None if the newest is as it should be."""


@dataclass(frozen=True)
class Draft:
    """What the next version is to hold.

    Attributes
    ----------
    cube : str
        Its name.
    roles : CubeColumns
    file_rows : int
    datasets : sequence of CubeDatasetMetadata
    alignment : CubeAlignment, optional
        Of these datasets.
    joined : CubeDatasetMetadata, optional
        Their joined rows.
    """

    cube: str
    roles: CubeColumns
    file_rows: int
    datasets: Sequence[CubeDatasetMetadata]
    alignment: CubeAlignment | None = None
    joined: CubeDatasetMetadata | None = None

    @classmethod
    def of(cls, base: CubeMetadata, datasets: Sequence[CubeDatasetMetadata]) -> Draft:
        """A version with other datasets."""
        return cls(base.cube, base.roles, base.file_rows, datasets)


def newest(cube: Storage, pin: Pin | None = None) -> CubeMetadata | None:
    """The newest version of a cube; None if there is none."""
    if VersionLog(cube).newest() is None:
        return None
    data = VersionLog(cube).read() if pin is None else pin.hold_newest()
    return CubeMetadata.from_json(data, cube.uri())


def read_version(cube: Storage, version: int | None = None) -> CubeMetadata:
    """A version of a cube, by default the newest.

    Raises
    ------
    CatalogNotFoundError
        Nothing was ever committed here.
    VersionNotFoundError
        There is no such version, or it was vacuumed.
    """
    return CubeMetadata.from_json(VersionLog(cube).read(version), cube.uri())


def parent_of(cube: Storage, metadata: CubeMetadata) -> CubeMetadata | None:
    """The version before one; None if there is none, or it was vacuumed."""
    if metadata.parent is None:
        return None
    with suppress(VersionNotFoundError):
        return read_version(cube, metadata.parent)
    return None


def existing_cube(base: CubeMetadata | None, cube: Storage) -> CubeMetadata:
    """The newest version, where an operation needs one.

    Raises
    ------
    CubeError
        There is none.
    """
    if base is None:
        raise CubeError(f"{cube.uri()}: no cube is built here; build it first, or check the path")
    return base


def committed_before(cube: Storage, mark: str, since: datetime | None = None) -> CubeMetadata | None:
    """The version that a run has committed, if an earlier attempt came so far; None if none did.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    mark : str
        Of the run; no two runs have the same.
    since : datetime, optional
        When the run began: versions of before need not be looked at.
    """
    if VersionLog(cube).newest() is None:
        return None
    for data in VersionLog(cube).texts():
        found = CubeMetadata.from_json(data, cube.uri())
        if found.mark == mark:
            return found
        if since is not None and found.created < since:
            break
    return None


def commit(cube: Storage, operation: str, work: Work, *, mark: str = "") -> CubeMetadata:
    """Do an operation's work and commit what comes of it, as one version.

    Whatever it wrote is removed again if it fails; if it is killed, `cleanup` removes it. Others may commit
    meanwhile: then the work is done again, on what they left.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    operation : str
        What is done, for the metadata.
    work : callable
    mark : str
        Of the run that does it; `committed_before` finds the version by it.

    Raises
    ------
    ConflictError
        Others kept committing first.
    CommitStateUnknownError
        The store does not say whether the commit stands; nothing is removed.
    """
    for tries in range(1, _TRIES + 1):
        now = datetime.now(UTC)
        with writing(cube) as write:
            base = newest(cube, write.pin)
            draft = work(write.id, base)
            if draft is not None:
                metadata = drafted(draft, base, write.id, now, operation, mark)
                write.heartbeat.confirm()
                told = VersionLog(cube).commit(metadata.version, metadata.to_json(), write.id)
        if draft is None:
            give_up(cube, write.id)
            return existing_cube(base, cube)
        if told == "committed":
            point_at_newest_cube(cube)
            return metadata
        give_up(cube, write.id)
        log.info(
            "Version %d was committed by others; the %s starts again from it.", metadata.version, operation
        )
        wait_for_others(tries)
    raise ConflictError(
        f"{cube.uri()}: others committed first {_TRIES} times; try the {operation} again later"
    )


def point_at_newest_cube(cube: Storage) -> int:
    """Make metadata.json name the newest version; return its number.

    No folder holds all files of a version, so nothing leads to one. (Cubes that were made long ago have
    `current`, which leads to a part.)
    """
    return VersionLog(cube).publish_pointers(lambda data: RootPointers(absent=(CURRENT,)))


def drafted(
    draft: Draft,
    base: CubeMetadata | None,
    write_id: str,
    now: datetime | None = None,
    operation: str = "",
    mark: str = "",
) -> CubeMetadata:
    """The version that a draft would be, committed after another."""
    return CubeMetadata(
        cube=draft.cube,
        version=1 if base is None else base.version + 1,
        parent=None if base is None else base.version,
        write_id=write_id,
        created=now or datetime.now(UTC),
        library_version=__version__,
        operation=operation,
        mark=mark,
        roles=draft.roles,
        file_rows=draft.file_rows,
        datasets=tuple(sorted(draft.datasets, key=lambda each: each.name)),
        alignment=draft.alignment,
        joined=draft.joined,
    )


def known_datasets(base: CubeMetadata, names: Collection[str]) -> None:
    """Refuse datasets that the cube does not have.

    Raises
    ------
    CubeError
    """
    strange = set(names) - set(base.names)
    if strange:
        raise CubeError(f"cube {base.cube!r} has no dataset {listed(strange)}; it has {listed(base.names)}")
