"""First steps of runs: the write id, the owner, the free space, and the leftovers of dead runs."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import NamedTuple

from hipslake.catalog.committing import check_owner
from hipslake.catalog.metadata import Association, Owner
from hipslake.errors import CatalogFormatError, StepError
from hipslake.library_version import __version__
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.attempts import has_committed
from hipslake.steps.free_space import check_free_space
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.ingest.request import CatalogRunRequest
from hipslake.steps.published import names_write, version_made_of
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, catalog_uri, now_utc
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import abandon, is_marked
from hipslake.versions.orphans import Leftovers, sweep_orphans
from hipslake.versions.write_id import new_write_id

log = logging.getLogger(__name__)


class StandingState(NamedTuple):
    """What was just found to stand when a run begins.

    Attributes
    ----------
    newest : int
        The newest version of the catalog; 0 if there is none.
    text : bytes or None
        Its metadata, if that was read.
    earlier : FrozenRun or None
        What an earlier attempt at the run has frozen.
    """

    newest: int
    text: bytes | None
    earlier: FrozenRun | None


def freeze_run(
    request: CatalogRunRequest,
    spec: CatalogSpec,
    catalog: Storage,
    owner: Owner,
    standing: StandingState | None = None,
) -> FrozenRun:
    """Return the run of a catalog spec, to be frozen, with a write id of its own.

    Parameters
    ----------
    request : CatalogRunRequest
    spec : CatalogSpec
        With the overrides of the request.
    catalog : Storage
        At the root of the catalog that the run makes.
    owner : Owner
        The spec of the run.
    standing : StandingState, optional
        What stands; looked for if not given.

    Raises
    ------
    SpecError
        If another spec publishes the catalog.
    """
    if standing is None:
        check_owner(catalog, owner)
        earlier = earlier_run(request.folder)
    else:
        check_owner(catalog, owner, newest=standing.newest, text=standing.text)
        earlier = standing.earlier
    return FrozenRun(
        dag_id=request.dag_id,
        run_id=request.run_id,
        run_uri=request.run_uri,
        warehouse=request.warehouse,
        catalog=spec.name,
        spec=spec,
        spec_file=request.spec_file or None,
        owner=owner,
        write_id=choose_write_id(request.folder, spec, catalog, earlier),
        force=request.force,
        created=now_utc(),
        library_version=__version__,
    )


def freeze_derived(
    request: CatalogRunRequest,
    spec: CatalogSpec,
    owner: Owner,
    inputs: FrozenInputs,
    phases: Phases,
    association: Association | None = None,
) -> tuple[FrozenRun, int | None]:
    """Freeze the run of a catalog that is made of other catalogs, or of a cube, in the run folder.

    Parameters
    ----------
    request : CatalogRunRequest
    spec : CatalogSpec
        Of the catalog that is made.
    owner : Owner
        The spec of the run.
    inputs : FrozenInputs
        What it is made of.
    phases : Phases
        Of the step; those of this function are added.
    association : Association, optional
        Published with the catalog.

    Returns
    -------
    FrozenRun
    int or None
        The newest version, if it was made of the same inputs: then there is nothing to do.

    Raises
    ------
    SpecError
        If another spec publishes the catalog.
    NotWritableError, NoSpaceError
        If the warehouse cannot take it.
    """
    folder, catalog = request.folder, Storage.at(catalog_uri(request.warehouse, spec.name))
    with phases("warehouse"):
        catalog.check_writable()
        check_free_space(catalog)
    frozen = freeze_run(request, spec, catalog, owner).model_copy(update={"association": association})
    unchanged = None if request.force else version_made_of(catalog, frozen, inputs.fingerprint)
    folder.write(RunFolder.RUN, frozen)
    folder.write(RunFolder.FILES, inputs.model_copy(update={"unchanged_version": unchanged}))
    with phases("sweep"):
        swept_orphans(catalog, frozen.write_id)
    if unchanged is not None:  # nothing will be written: the folder need not wait for the next step
        abandon(catalog, frozen.write_id)
    return frozen, unchanged


def earlier_run(folder: RunFolder) -> FrozenRun | None:
    """Return what an earlier attempt at a run has frozen; None if there was none."""
    with suppress(StepError):  # nothing, or another library version froze it, in a form of its own
        return FrozenRun.of(folder)
    return None


def choose_write_id(folder: RunFolder, spec: CatalogSpec, catalog: Storage, earlier: FrozenRun | None) -> str:
    """Return the write id of an earlier attempt at this run if it can be kept, else a new one.

    Its folder begins with the first step that writes there: a run may wait for its files as long as it likes,
    and end in any way, without leaving anything in the catalog.
    """
    if earlier is not None:
        with suppress(StepError):  # another library version made an attempt, in a form of its own
            same = earlier.spec == spec and earlier.library_version == __version__
            kept = same and not is_marked(catalog, earlier.write_id)
            if kept and not names_write(catalog, earlier.write_id) and not has_committed(folder, catalog):
                return earlier.write_id
    return new_write_id(now_utc())


def swept_orphans(
    catalog: Storage, write_id: str, newest: bytes | None = None, seen: Leftovers | None = None
) -> list[str]:
    """Sweep what dead runs have left; an old version that cannot be read stops that, but not the run.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    write_id : str
        Of the run, which is kept.
    newest : bytes, optional
        The metadata of the newest version, if that was just read.
    seen : Leftovers, optional
        What may be swept, if that was just looked for.
    """
    try:
        return sweep_orphans(catalog, keep={write_id}, newest=newest, seen=seen)
    except CatalogFormatError as error:
        log.warning("What dead runs have left stays where it is: %s", error)
        return []
