"""Resolve: freeze everything that a run depends on into `run.json`, and make the place ready."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial

from pydantic import AwareDatetime

from hipslake.catalog.committing import described_version
from hipslake.catalog.evolution import as_it_stands
from hipslake.catalog.metadata import Owner
from hipslake.errors import SpecError
from hipslake.sources.felis import digest_of, read_felis
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.first import StandingState, earlier_run, freeze_run, swept_orphans
from hipslake.steps.free_space import check_free_space
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.frozen_objects import freeze_objects
from hipslake.steps.ingest.request import ResolveReport, ResolveRequest
from hipslake.steps.ingest.sorted_rows import delete_rows_of_dead_runs
from hipslake.steps.known_catalog import known_catalog
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, Window, catalog_uri
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import beside
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import leftovers


def run(request: ResolveRequest) -> ResolveReport:
    """Freeze the run.

    The write id is chosen once: a retry keeps it. Only when the run starts over with another spec, or when it
    has committed a version already, a new one is taken: so no published file is ever written again, and what
    the run did then does not stand for what it is to do now.

    Raises
    ------
    SpecError
        If the spec, an override of it or the Felis schema that it names is wrong.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = request.spec or load_spec(request.spec_file, CatalogSpec)
        spec = spec.with_overrides(threshold=request.threshold, layout=request.layout)
        felis = read_felis(spec.felis) if spec.felis is not None else {}
        if spec.felis is not None:  # what it says counts for the fingerprint
            named = spec.felis.model_copy(update={"sha256": digest_of(felis)})
            spec = spec.model_copy(update={"felis": named})
    catalog = Storage.at(catalog_uri(request.warehouse, spec.name))
    with phases("warehouse"), beside(catalog) as begin:
        begin(catalog.check_writable)
        seen = begin(partial(leftovers, catalog))
        check_free_space(catalog)
        earlier = begin(partial(earlier_run, request.folder))
        standing = _standing(catalog, spec, earlier)
    known_catalog(request.run_uri).found(standing.newest, standing.text)
    if standing.text is not None:
        spec = as_it_stands(described_version(catalog, standing.newest, standing.text), spec)
    owner = Owner(kind="catalog", name=spec.name)
    frozen = freeze_run(request, spec, catalog, owner, standing).model_copy(
        update={
            "window": request.window,
            "objects": freeze_objects(spec, request.warehouse),
            "wait_minutes": request.wait_minutes,
            "felis": felis,
        }
    )
    with phases("sweep"), beside(catalog) as begin:
        begin(lambda: request.folder.write(RunFolder.RUN, frozen))
        swept = swept_orphans(catalog, frozen.write_id, standing.text, seen.result())
        delete_rows_of_dead_runs(request.folder)
    return ResolveReport(
        catalog=spec.name,
        write_id=frozen.write_id,
        version=standing.newest or None,
        swept=tuple(swept),
        seconds=phases.seconds,
    )


def _standing(catalog: Storage, spec: CatalogSpec, earlier: Future[FrozenRun | None]) -> StandingState:
    """What stands; a version that a run will replace is not read, as it may be damaged."""
    log = VersionLog(catalog)
    if not spec.mode.by_intervals:
        return StandingState(log.newest() or 0, None, earlier.result())
    newest, text = log.read_newest() or (0, None)
    return StandingState(newest, text, earlier.result())


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
        If a text is no time, the end is not after the start, or there is an end alone.

    Examples
    --------
    >>> resolve_window(given=("2026-11-20", "2026-11-21")).start
    datetime.datetime(2026, 11, 20, 0, 0, tzinfo=datetime.timezone.utc)
    """
    start, end = interval
    if partition_key is not None:
        return Window(start=_time(partition_key, "partition key"), origin="partition_key")
    if given[1] and not given[0]:
        raise SpecError(f"window_end {given[1]!r} has no window_start; give both, or neither")
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
