"""Resolve: freeze everything that a run depends on into `run.json`, and make the place ready."""

from __future__ import annotations

import hashlib
import logging
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from pydantic import AwareDatetime

from hipslake import __version__
from hipslake.errors import CatalogFormatError, NoSpaceError, SpecError, StepError
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.yaml_file import load_catalog_spec
from hipslake.steps.attempts import has_committed
from hipslake.steps.published import names_write
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import FrozenRun, RunFolder, Window, catalog_uri, now_utc
from hipslake.storage import Storage
from hipslake.versions.heartbeat import claim_write, is_marked
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import sweep_orphans

log = logging.getLogger(__name__)

MIN_FREE_BYTES = 64 << 20  # below this not even the run folder's own files are safe


class ResolveRequest(Request):
    """Start a run of a catalog spec."""

    step: ClassVar[str] = "resolve"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN,)
    reusable: ClassVar[bool] = False  # who clears the first task wants the spec read again

    dag_id: str
    run_id: str
    warehouse: str
    spec_file: str
    threshold: str | None = None  # overrides the spec's
    layout: str | None = None  # overrides the spec's
    force: bool = False
    wait_minutes: float = 60.0
    window: Window = Window()

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no inputs yet."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class ResolveReport(Report):
    """What the run froze, and what earlier runs had left behind."""

    step: str = ResolveRequest.step
    catalog: str = ""
    write_id: str = ""
    version: int | None = None  # the newest published version when the run began
    swept: tuple[str, ...] = ()  # folders of dead runs that were removed


def run(request: ResolveRequest) -> ResolveReport:
    """Freeze the run.

    The write id is chosen once: a retry keeps it. Only when the run starts over with another spec, or when it
    has committed a version already, a new one is taken: so no published file is ever written again, and what
    the run did then does not stand for what it is to do now.

    Raises
    ------
    SpecError
        If the spec or an override of it is wrong.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = load_catalog_spec(Path(request.spec_file)).with_overrides(
            threshold=request.threshold, layout=request.layout
        )
    catalog = Storage.at(catalog_uri(request.warehouse, spec.name))
    with phases("warehouse"):
        catalog.check_writable()
        _check_free_space(catalog)
        version = VersionLog(catalog).newest()
    frozen = FrozenRun(
        dag_id=request.dag_id,
        run_id=request.run_id,
        run_uri=request.run_uri,
        warehouse=request.warehouse,
        catalog=spec.name,
        spec=spec,
        spec_file=request.spec_file,
        write_id=_write_id(request.folder, spec, catalog),
        window=request.window,
        wait_minutes=request.wait_minutes,
        force=request.force,
        created=now_utc(),
        library_version=__version__,
    )
    request.folder.write(RunFolder.RUN, frozen)
    with phases("sweep"):
        swept = _swept(catalog, frozen.write_id)
    return ResolveReport(
        catalog=spec.name,
        write_id=frozen.write_id,
        version=version,
        swept=tuple(swept),
        seconds=phases.seconds,
    )


def resolve_window(
    *,
    partition_key: str | None = None,
    interval: tuple[datetime | None, datetime | None] = (None, None),
    given: tuple[str | None, str | None] = (None, None),
) -> Window:
    """Return the time that a run stands for: its partition key, else its data interval, else its params.

    A data interval without width says only when the run was asked for, so params go before it.

    Parameters
    ----------
    partition_key : str, optional
        An ISO 8601 date or time, as partitioned DAG runs have.
    interval : tuple of datetime
        Start and end of the data interval.
    given : tuple of str
        Start and end as typed by the user, ISO 8601; UTC where no offset is given.

    Raises
    ------
    SpecError
        If a text is no time, or the end is not after the start.

    Examples
    --------
    >>> resolve_window(given=("2026-11-20", "2026-11-21")).start
    datetime.datetime(2026, 11, 20, 0, 0, tzinfo=datetime.timezone.utc)
    """
    start, end = interval
    if partition_key is not None:
        return Window(start=_time(partition_key, "partition key"), origin="partition_key")
    if start is not None and end is not None and start < end:
        return Window(start=_utc(start), end=_utc(end), origin="data_interval")
    if given[0]:
        first = _time(given[0], "window_start")
        last = _time(given[1], "window_end") if given[1] else None
        if last is not None and last <= first:
            raise SpecError(
                f"window_end {given[1]!r} is not after window_start {given[0]!r}; give a later end"
            )
        return Window(start=first, end=last, origin="params")
    if start is not None:
        return Window(start=_utc(start), end=_utc(end or start), origin="data_interval")
    return Window()


def _time(text: str, what: str) -> AwareDatetime:
    try:
        return _utc(datetime.fromisoformat(text))
    except ValueError:
        raise SpecError(
            f"{what} {text!r} is not a time; write it as 2026-11-20 or 2026-11-20T03:30:00"
        ) from None


def _utc(moment: datetime) -> datetime:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return datetime.fromtimestamp(aware.timestamp(), UTC)


def _write_id(folder: RunFolder, spec: CatalogSpec, catalog: Storage) -> str:
    """Return the write id of an earlier attempt at this run if it can be kept, else a new one."""
    if folder.storage.is_file(RunFolder.RUN):
        with suppress(StepError):  # another library version froze it, in a form of its own
            earlier = folder.run()
            same = earlier.spec == spec and earlier.library_version == __version__
            kept = same and not is_marked(catalog, earlier.write_id)
            if kept and not names_write(catalog, earlier.write_id) and not has_committed(folder, catalog):
                return earlier.write_id
    return claim_write(catalog, datetime.now(UTC))


def _swept(catalog: Storage, write_id: str) -> list[str]:
    """Sweep what dead runs have left; an old version that cannot be read stops that, but not the run."""
    try:
        return sweep_orphans(catalog, keep={write_id})
    except CatalogFormatError as error:
        log.warning("What dead runs have left stays where it is: %s", error)
        return []


def _check_free_space(storage: Storage) -> None:
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
