"""The endpoint for the history of a catalog: its versions, and its calendar of nights."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.concurrency import run_in_threadpool
from hipslake.catalog.comparing import VersionSummary
from hipslake.catalog.metadata import Increment
from hipslake.errors import CatalogNotFoundError, HipslakeError
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import MAY_READ_CATALOG, Reader, ReaderDep, queried
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.listing import fares_of, side_by_side
from hipslake_airflow.web.nights import (
    LATE_AFTER,
    MOST_NIGHTS,
    Night,
    NightIncrement,
    intervals_of,
    label_of,
    nights,
)
from hipslake_airflow.web.parameters import Name, Number
from hipslake_airflow.web.runs import FailedRun, NightRun, error_of, failed_tasks, night_runs
from hipslake_airflow.web.store import AskingDep

_MOST_VERSIONS = 500
_MOST_RUNS = 2000
_MOST_ERRORS = 50  # failed nights whose reports are read: the newest


class VersionOfNights(VersionSummary):
    """A version, and of which nights the rows are that it brought."""

    nights: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()  # those of which there were rows before
    indices: tuple[str, ...] = ()  # columns that are indexed
    margins: tuple[float, ...] = ()  # arcseconds


class Timeline(Frozen):
    """The history of a catalog."""

    versions: tuple[VersionOfNights, ...]  # newest first
    nights: tuple[Night, ...]  # ascending; none of a catalog that does not grow
    schedule: str | None
    last_error: FailedRun | None


def add_timeline(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    """Add the endpoint to the app."""

    @app.get("/api/catalogs/{name}/timeline", dependencies=[MAY_READ_CATALOG])
    async def show_timeline(
        name: Name,
        reader: ReaderDep,
        ask: AskingDep,
        before: Number | None = None,
        most: Annotated[int, Query(ge=1, le=_MOST_VERSIONS)] = 200,
    ) -> Timeline:
        runs = await run_in_threadpool(_runs, name, reader)
        fares = await fares_of(
            {name: queried(pipelines.owners, pipelines.MAKE_CATALOG, name)}, reader, ask, catalogs.warehouse
        )
        now = datetime.now(UTC)
        versions, found, schedule = await ask(lambda: _told(catalogs, specs, name, before, most, runs, now))
        failed = [each for each in found if each.state == "failed"][-_MOST_ERRORS:]
        tasks = await run_in_threadpool(_tasks, failed)

        def explained(night: Night) -> Night:
            run = night.runs[0]
            error = error_of(catalogs.warehouse, run.dag_id, run.run_id, tasks[run.dag_id, run.run_id])
            return night.model_copy(
                update={"runs": (run.model_copy(update={"error": error}), *night.runs[1:])}
            )

        known = {each.start: each for each in await ask(lambda: side_by_side(explained, failed))}
        return Timeline(
            versions=tuple(versions),
            nights=tuple(known.get(each.start, each) for each in found),
            schedule=schedule,
            last_error=fares[name].last_failed,
        )


def _runs(name: str, reader: Reader) -> list[NightRun]:
    its = queried(pipelines.found, ("catalog_ingest",), [name])[name]
    dag_id = next(filter(reader.may_read_runs, its), None)
    if dag_id is None:
        return []
    return queried(lambda session: night_runs(dag_id, session, _MOST_RUNS))


def _tasks(failed: list[Night]) -> dict[tuple[str, str], list[str]]:
    runs = [(night.runs[0].dag_id, night.runs[0].run_id) for night in failed]
    return queried(lambda session: failed_tasks(runs, session))


def _told(
    catalogs: CatalogStore,
    specs: KnownSpecs,
    name: str,
    before: int | None,
    most: int,
    runs: list[NightRun],
    now: datetime,
) -> tuple[list[VersionOfNights], list[Night], str | None]:
    spec = next(specs.folder().loaded(CatalogSpec, name), None)
    schedule = None if spec is None else spec.schedule
    try:
        history = catalogs.history(name, before, most)
        reassigned = set(catalogs.metadata(name).reassignment_writes)
        increments = [each for each in catalogs.increments(name) if each.write_id not in reassigned]
    except CatalogNotFoundError:  # no run has published yet, but some may have failed
        history, increments = [], []
    grows = any(each.key is not None for each in increments) or (spec is not None and spec.mode.by_intervals)
    versions = [_with_nights(catalogs, name, each) for each in history]
    if not grows:
        return versions, [], schedule
    brought: dict[int, int] = {}
    times: dict[str, int] = {}
    for version in reversed(versions):  # as far back as they are told
        for each in version.increments_added:
            brought[each.ordinal] = version.version
            if each.key is not None and version.kind != "rolled back":
                times[each.key] = times.get(each.key, 0) + 1
    came = [told for each in increments if (told := _increment(each, brought, times)) is not None]
    begun = [each.start for each in came]
    begun += [run.interval_start for run in runs if run.interval_start is not None]
    expected = []
    if schedule is not None and begun:
        first = max(min(begun), now - timedelta(days=366 * 5))
        expected = intervals_of(schedule, first, now)
    late = LATE_AFTER
    if spec is not None and spec.deadline_minutes is not None:
        late = timedelta(minutes=spec.deadline_minutes)
    return versions, nights(came, runs, expected, now, late, MOST_NIGHTS), schedule


def _increment(increment: Increment, brought: dict[int, int], times: dict[str, int]) -> NightIncrement | None:
    if increment.key is None:
        return None
    return NightIncrement(
        start=datetime.fromisoformat(increment.key),
        end=None if increment.end is None else datetime.fromisoformat(increment.end),
        rows=increment.rows,
        rejected=increment.rejects.rows,
        ordinal=increment.ordinal,
        version=brought.get(increment.ordinal),
        times=max(1, times.get(increment.key, 1)),
    )


def _with_nights(catalogs: CatalogStore, name: str, summary: VersionSummary) -> VersionOfNights:
    metadata = catalogs.metadata(name, summary.version)
    before: set[str] = set()
    if summary.parent is not None:
        try:
            older = catalogs.increments(name, summary.parent)
        except HipslakeError:  # vacuumed
            older = ()
        before = {each.key for each in older if each.key is not None}
    keys: list[tuple[str, Any]] = [
        (each.key, each) for each in summary.increments_added if each.key is not None
    ]
    labels = {key: _label(key, each.end) for key, each in keys}
    return VersionOfNights(
        **summary.model_dump(),
        nights=tuple(sorted(labels.values())),
        replaced=tuple(sorted(label for key, label in labels.items() if key in before)),
        indices=tuple(index.column for index in metadata.indices),
        margins=tuple(margin.radius_arcsec for margin in metadata.margins),
    )


def _label(key: str, end: str | None) -> str:
    return label_of(datetime.fromisoformat(key), None if end is None else datetime.fromisoformat(end))
