"""First steps: what every one of them is told, and what starting a run takes."""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from hipslake.catalog.committing import check_owner
from hipslake.catalog.metadata import Owner
from hipslake.errors import CatalogFormatError, NoSpaceError, StepError
from hipslake.library_version import __version__
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.attempts import has_committed
from hipslake.steps.published import names_write
from hipslake.steps.report import Request
from hipslake.steps.run import FrozenRun, RunFolder, now_utc
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import is_marked
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.write_id import new_write_id

log = logging.getLogger(__name__)

MIN_FREE_BYTES = 64 << 20  # below this not even the run folder's own files are safe


class FirstRequest(Request):
    """Start a run of a spec."""

    step: ClassVar[str] = "resolve"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN,)
    reusable: ClassVar[bool] = False  # who clears the first task wants spec and catalogs read again

    dag_id: str
    run_id: str
    warehouse: str
    spec_file: str
    threshold: str | None = None  # overrides the spec's
    force: bool = False

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no inputs yet."""
        return self.digest()

    def frozen(self, spec: CatalogSpec, catalog: Storage, owner: Owner) -> FrozenRun:
        """The run of a catalog spec, to be frozen, with a write id of its own.

        Parameters
        ----------
        spec : CatalogSpec
            With the overrides of the request.
        catalog : Storage
            At the root of the catalog that the run makes.
        owner : Owner
            The spec of the run.

        Raises
        ------
        SpecError
            If another spec publishes the catalog.
        """
        check_owner(catalog, owner)
        return FrozenRun(
            dag_id=self.dag_id,
            run_id=self.run_id,
            run_uri=self.run_uri,
            warehouse=self.warehouse,
            catalog=spec.name,
            spec=spec,
            spec_file=self.spec_file,
            owner=owner,
            write_id=choose_write_id(self.folder, spec, catalog),
            force=self.force,
            created=now_utc(),
            library_version=__version__,
        )


def choose_write_id(folder: RunFolder, spec: CatalogSpec, catalog: Storage) -> str:
    """Return the write id of an earlier attempt at this run if it can be kept, else a new one.

    Its folder begins with the first step that writes there: a run may wait for its files as long as it likes,
    and end in any way, without leaving anything in the catalog.
    """
    if folder.storage.is_file(RunFolder.RUN):
        with suppress(StepError):  # another library version froze it, in a form of its own
            earlier = folder.run()
            same = earlier.spec == spec and earlier.library_version == __version__
            kept = same and not is_marked(catalog, earlier.write_id)
            if kept and not names_write(catalog, earlier.write_id) and not has_committed(folder, catalog):
                return earlier.write_id
    return new_write_id(now_utc())


def swept_orphans(catalog: Storage, write_id: str) -> list[str]:
    """Sweep what dead runs have left; an old version that cannot be read stops that, but not the run."""
    try:
        return sweep_orphans(catalog, keep={write_id})
    except CatalogFormatError as error:
        log.warning("What dead runs have left stays where it is: %s", error)
        return []


def check_free_space(storage: Storage) -> None:
    """Check that a local warehouse has some room left; object stores have no such number."""
    if not storage.is_local:
        return
    place = Path(storage.root)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < MIN_FREE_BYTES:
        raise NoSpaceError(
            f"{place}: only {free >> 20} MiB are free, and a run needs {MIN_FREE_BYTES >> 20} MiB at least; "
            "free some space, or move the warehouse with HIPSLAKE_WAREHOUSE"
        )
