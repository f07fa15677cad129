"""A cube made to be what its spec says of sources that were looked up: one version, of what has changed.

Level-triggered: what is done follows from what stands and from what there is now, never from what happened in
between. Done again, it finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.api.cube import Cube
from hipslake.cube.dataset import listed
from hipslake.cube.store.alignment import alignment_table, keep_alignment
from hipslake.cube.store.assembly import Assembly, Change, changes_of
from hipslake.cube.store.committing import Draft, commit, committed_before, drafted, newest, read_version
from hipslake.cube.store.datasets import index_columns, with_written
from hipslake.cube.store.files import read_files
from hipslake.cube.store.joined import JoinedQuery, keep_joined
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata
from hipslake.cube.store.verification import verify_written
from hipslake.cube.store.writing import write_offers
from hipslake.engine.model import Engine
from hipslake.errors import CubeRowsError, NotWritableError, VersionNotFoundError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.versions.pins import pinning


def assemble(
    cube: Storage, assembly: Assembly, engine: Engine, *, mark: str = "", since: datetime | None = None
) -> tuple[CubeMetadata, CubeMetadata | None]:
    """Make a cube what an assembly says, and say how its partitions align.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    assembly : Assembly
    engine : Engine
    mark : str
        Of the run. A version that an earlier attempt of it has committed is not made again.
    since : datetime, optional
        When the run began: versions of before are none of its.

    Returns
    -------
    (CubeMetadata, CubeMetadata or None)
        The version that there is now, and the one before it; twice the same if there was nothing to do.

    Raises
    ------
    CubeError, CubeRowsError, ConditionError, FilterError
        The datasets are no cube together, or the spec asks for what they lack.
    VersionNotFoundError
        A version or snapshot that was looked up is gone.
    VerificationError
        A file that was written is damaged.
    """
    done = committed_before(cube, mark, since) if mark else None
    if done is not None:
        return done, _parent(cube, done)
    before, ready = newest(cube), _Ready(assembly)

    def work(write_id: str, base: CubeMetadata | None) -> Draft | None:
        nonlocal before
        before, changes = base, ready.changes(base)
        if not changes and base is not None and is_aligned(assembly.spec, base):
            return None
        return _made(cube, write_id, assembly, base, changes, engine)

    with ExitStack() as held:
        for source in assembly.sources.values():
            if source.kind == "catalog":
                _keep(held, Storage.at(source.uri), source.version or 0)
        if not ready.changes(before) and before is not None and is_aligned(assembly.spec, before):
            return before, before
        found = commit(cube, assembly.mode.value, work, mark=mark)
    return found, before


def _keep(held: ExitStack, catalog: Storage, version: int) -> None:
    """Hold a vacuum off a version that is read, if its catalog can be written to at all."""
    with suppress(NotWritableError):
        catalog.check_writable()
        held.enter_context(pinning(catalog)).hold(version)


class _Ready:
    """What is to be done, worked out once for each version that it follows; first before any write."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._known: dict[int | None, list[Change]] = {}

    def changes(self, base: CubeMetadata | None) -> list[Change]:
        number = None if base is None else base.version
        if number not in self._known:
            self._known[number] = changes_of(self._assembly, base)
        return self._known[number]


def _made(
    cube: Storage,
    write_id: str,
    assembly: Assembly,
    base: CubeMetadata | None,
    changes: Sequence[Change],
    engine: Engine,
) -> Draft:
    spec = assembly.spec
    written = {each.offer.name for each in changes}
    stays = [] if base is None else [each for each in base.datasets if each.name not in written]
    made = _written(cube, write_id, spec, changes, engine) if changes else []
    draft = Draft(spec.name, spec.roles, spec.file_rows, sorted([*stays, *made], key=lambda each: each.name))
    checked = made
    names = {each.name for each in draft.datasets}
    if set(spec.datasets) <= names:  # else what the spec asks for cannot be asked yet
        _derive(Cube(cube, drafted(draft, base, write_id)), write_id, spec, draft, base, engine)
        checked = made if draft.joined is None else [*made, draft.joined]
    verify_written(cube, write_id, checked, engine)
    return draft


def _derive(
    now: Cube, write_id: str, spec: CubeSpec, draft: Draft, base: CubeMetadata | None, engine: Engine
) -> None:
    """Add to a draft what follows from its datasets: how they align, and the joined rows."""
    plan = now.plan(None, spec.conditions or "")
    files = {name: read_files(now.storage, now.metadata.dataset(name)) for name in plan.datasets}
    table = alignment_table(plan, files)
    draft.alignment = keep_alignment(now.storage, write_id, spec.conditions or "", table)
    query = _query(spec)
    if query is not None:
        before = None if base is None else Cube(now.storage, base)
        draft.joined = keep_joined(now, write_id, query, engine, before=before)


def _written(
    cube: Storage, write_id: str, spec: CubeSpec, changes: Sequence[Change], engine: Engine
) -> list[CubeDatasetMetadata]:
    offers = [each.offer for each in changes]
    indexed = {each.name: index_columns(spec.roles, each.name, each.schema) for each in offers}
    done = write_offers(
        cube,
        write_id,
        offers,
        engine,
        standing={
            each.offer.name: _looked_at(read_files(cube, each.standing), each)
            for each in changes
            if each.standing is not None
        },
        indexed=indexed,
        file_rows=spec.file_rows,
        replacing=[each.offer.name for each in changes if each.replaces],
    )
    made = [
        with_written(cube, write_id, number, each.offer, done, indexed[each.offer.name], each.standing)
        for number, each in enumerate(changes)
    ]
    empty = [each.name for each in made if not each.files]
    if empty:
        raise CubeRowsError(
            f"dataset {listed(empty)} would have no rows left; if that is meant, take it out of the spec and "
            "delete it from the cube"
        )
    return made


def _looked_at(files: pa.Table, change: Change) -> pa.Table:
    if change.within is None:
        return files
    column, values = change.within
    return files.filter(pc.is_in(files[column], value_set=values))


def _query(spec: CubeSpec) -> JoinedQuery | None:
    """The joined rows that a spec wants to be kept."""
    asked = spec.materialise
    if asked is None:
        return None
    # A catalog adds the index of a position itself, and every pixel follows from that.
    left_out = {HEALPIX_COLUMN, *spec.pixel_orders} if asked.name is not None else set()
    return JoinedQuery(asked.columns, spec.conditions or "", frozenset(left_out), spec.file_rows)


def is_aligned(spec: CubeSpec, base: CubeMetadata) -> bool:
    """Whether a version has all that can be derived of its datasets, as a spec says it."""
    if not set(spec.datasets) <= set(base.names):
        return True
    if base.alignment is None or base.alignment.conditions != (spec.conditions or ""):
        return False
    query = _query(spec)
    return query is None or (
        base.joined is not None
        and base.joined.source is not None
        and base.joined.source.taken == query.digest
    )


def _parent(cube: Storage, metadata: CubeMetadata) -> CubeMetadata | None:
    """The version before one; None if there is none, or it was vacuumed."""
    if metadata.parent is None:
        return None
    with suppress(VersionNotFoundError):
        return read_version(cube, metadata.parent)
    return None
