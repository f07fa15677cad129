"""The lists of catalogs, tables and cubes, with how the DAGs fare that make them."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import CatalogNotFoundError, HipslakeError
from hipslake.specs.spec_folder import CATALOGS, CUBES, JOINS, TABLES
from sqlalchemy.orm import Session

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import Reader, ReaderDep, queried
from hipslake_airflow.web.answers import Listed, ListedProduct, created_at
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.others import OTHERS
from hipslake_airflow.web.products import Product, cubes, tables
from hipslake_airflow.web.runs import FailedRun, RunSummary, error_of, failed_tasks, last_failed, last_runs
from hipslake_airflow.web.shown import shown
from hipslake_airflow.web.source_answer import relation_of
from hipslake_airflow.web.store import Asking, AskingDep

_THREADS = 8  # that read metadata for one list
_MOST_ERRORS = 30  # whose reports are read for one list: the newest ones
_TWICE = (
    f"{OTHERS} gives a catalog of others this name, too, and that one is not shown; give it one that no "
    "catalog and no spec has"
)

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Fare(NamedTuple):
    """How the DAGs fare that make something."""

    last_run: RunSummary | None = None
    last_failed: FailedRun | None = None


class _Failed(NamedTuple):
    """A failed run whose error is not read yet."""

    summary: RunSummary
    tasks: list[str]


def add_lists(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    """Add the endpoints to the app."""

    @app.get("/api/catalogs")
    async def list_catalogs(reader: ReaderDep, ask: AskingDep) -> list[Listed]:
        folders, problems = await ask(lambda: (_folders(catalogs, specs), specs.problems()))
        names = sorted({*folders, *catalogs.others.uris, *([OTHERS] if catalogs.others.problem else [])})
        made_by = await run_in_threadpool(_readable, names, pipelines.MAKE_CATALOG, reader)
        fares = await fares_of(made_by, reader, ask, catalogs.warehouse)
        wrong = {
            name: text for kind in (JOINS, CATALOGS) for (of, name), text in problems.items() if of == kind
        }

        def listed(name: str) -> Listed:
            if name not in folders:
                return _listed_of_others(catalogs, name)
            found = _listed(catalogs, folders[name], fares[name], wrong.get(name))
            if name not in catalogs.others.uris:
                return found
            told = f"{found.problem}; {_TWICE}" if found.problem else _TWICE
            return found.model_copy(update={"problem": told})

        # Those of others come last: each lies with a store of its own, which may not answer.
        return await ask(lambda: side_by_side(listed, sorted(made_by, key=lambda name: name not in folders)))

    @app.get("/api/tables")
    async def list_tables(reader: ReaderDep, ask: AskingDep) -> list[ListedProduct]:
        found = await ask(lambda: list(tables(specs.folder(), catalogs.warehouse)))
        problems = await ask(specs.problems)
        wrong = {name: text for (of, name), text in problems.items() if of == TABLES}
        return await _products(found, pipelines.MAKE_TABLE, wrong, reader, ask, catalogs.warehouse)

    @app.get("/api/cubes")
    async def list_cubes(reader: ReaderDep, ask: AskingDep) -> list[ListedProduct]:
        found = await ask(lambda: _all_cubes(catalogs, specs))
        problems = await ask(specs.problems)
        wrong = {name: text for (of, name), text in problems.items() if of == CUBES}
        return await _products(found, pipelines.MAKE_CUBE, wrong, reader, ask, catalogs.warehouse)


async def fares_of(
    made_by: dict[str, tuple[str, ...]], reader: Reader, ask: Asking, warehouse: str
) -> dict[str, Fare]:
    """How the DAGs fare that make each thing, as far as the reader may see runs."""
    last, failed = await run_in_threadpool(_runs_of, made_by, reader)
    newest = sorted(failed.values(), key=lambda each: each.summary.run_after, reverse=True)[:_MOST_ERRORS]

    def errors() -> dict[tuple[str, str], str | None]:
        def error(each: _Failed) -> str | None:
            run = each.summary
            return error_of(warehouse, run.dag_id, run.run_id, each.tasks)

        texts = side_by_side(error, newest)
        return {
            (each.summary.dag_id, each.summary.run_id): text for each, text in zip(newest, texts, strict=True)
        }

    told = await ask(errors) if newest else {}
    found = {}
    for name in made_by:
        wrong = None
        if name in failed:
            run = failed[name].summary
            error = told.get((run.dag_id, run.run_id))
            wrong = FailedRun(**run.model_dump(), error=error)
        found[name] = Fare(last.get(name), wrong)
    return found


def side_by_side(work: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """The outcomes of work on items, in their order; a store is asked for several at once."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_THREADS, len(items)), thread_name_prefix="hipslake-list") as pool:
        contexts = [contextvars.copy_context() for _ in items]  # the deadline, and who asks
        pairs = zip(contexts, items, strict=True)
        waiting = [pool.submit(context.run, work, item) for context, item in pairs]
        try:
            return [each.result() for each in waiting]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _folders(catalogs: CatalogStore, specs: KnownSpecs) -> dict[str, str]:
    """The folders of all catalogs that lie in the warehouse or have a spec, by the name that is shown."""
    given = {*catalogs.names(), *specs.names(CATALOGS, JOINS)}
    return {shown(name): name for name in given}


def _readable(names: Sequence[str], made_by: tuple[str, ...], reader: Reader) -> dict[str, tuple[str, ...]]:
    """The DAGs that make each of some things, of those that the reader may read one of."""
    owners = queried(pipelines.all_owners, made_by, names)
    allowed = reader.readable(dag_id for several in owners.values() for dag_id in several)
    return {name: several for name, several in owners.items() if not allowed.isdisjoint(several)}


def _runs_of(
    made_by: dict[str, tuple[str, ...]], reader: Reader
) -> tuple[dict[str, RunSummary], dict[str, _Failed]]:
    """The last run of the DAGs that make each thing, and the failed one that nothing made good for."""
    asked = [dag_id for several in made_by.values() for dag_id in several]
    allowed = sorted(reader.readable(asked, DagAccessEntity.RUN))

    def query(session: Session) -> tuple[dict[str, RunSummary], dict[str, _Failed]]:
        failed = last_failed(allowed, session)
        newest = sorted(failed.values(), key=lambda run: run.run_after, reverse=True)[:_MOST_ERRORS]
        tasks = failed_tasks([(run.dag_id, run.run_id) for run in newest], session)
        told = {
            dag_id: _Failed(RunSummary.of(run), tasks.get((run.dag_id, run.run_id), []))
            for dag_id, run in failed.items()
        }
        return last_runs(allowed, session), told

    runs, failed = queried(query)
    last: dict[str, RunSummary] = {}
    wrong: dict[str, _Failed] = {}
    for name, dag_ids in made_by.items():
        its = [runs[dag_id] for dag_id in dag_ids if dag_id in runs]
        theirs = [failed[dag_id] for dag_id in dag_ids if dag_id in failed]
        if its:
            last[name] = max(its, key=lambda run: run.run_after)
        if theirs:
            wrong[name] = max(theirs, key=lambda each: each.summary.run_after)
    return last, wrong


def _listed(catalogs: CatalogStore, folder: str, fare: Fare, spec_problem: str | None) -> Listed:
    """An entry of the list of catalogs; for a catalog that cannot be read it holds the problem."""
    blank = Listed(name=shown(folder), spec_problem=spec_problem, **fare._asdict())
    try:
        metadata = catalogs.metadata(folder)
    except CatalogNotFoundError:
        return blank.model_copy(update={"problem": "not published yet"})
    except (HipslakeError, OSError, ValueError) as error:
        return blank.model_copy(update={"problem": shown(f"{type(error).__name__}: {error}")})
    own = next((owner.kind for owner in metadata.owners), "catalog")
    corrections = {*metadata.deletion_writes, *metadata.reassignment_writes}
    writes = [each for each in metadata.increment_writes if each not in corrections]
    nights = _nights(writes, metadata.increments[-1].key)
    return blank.model_copy(update={**_facts(metadata), "nights": nights, "kind": own})


def _listed_of_others(catalogs: CatalogStore, name: str) -> Listed:
    """An entry of the list for a catalog of others; where it cannot be read, the problem."""
    if name not in catalogs.others.uris:
        return Listed(name=name, problem=catalogs.others.problem)
    blank = Listed(name=name, relation="read")
    try:
        return blank.model_copy(update=_facts(catalogs.others.listed(name).metadata))
    except (HipslakeError, OSError, ValueError) as error:
        return blank.model_copy(update={"problem": shown(f"{type(error).__name__}: {error}")})


def _facts(metadata: CatalogMetadata) -> dict[str, Any]:
    """What the list says of a version."""
    return {
        "description": metadata.description,
        "version": metadata.version,
        "rows": metadata.total_rows,
        "bytes": metadata.total_bytes,
        "partitions": sum(group.leaves for group in metadata.groups),
        "layout": metadata.layout.value,
        "created": created_at(metadata),
        "relation": relation_of(metadata),
    }


def _nights(writes: Sequence[str], key: str | None) -> int | None:
    return None if key is None else len(writes)


def _all_cubes(catalogs: CatalogStore, specs: KnownSpecs) -> list[Product]:
    """The cubes of the warehouse, and those of specs that nothing was built of yet."""
    found = list(cubes(catalogs.warehouse))
    there = {each.name for each in found}
    missing = sorted(name for name in specs.names(CUBES) if name not in there)
    return [*found, *(Product(name=name, title=name, problem="not built yet") for name in missing)]


async def _products(
    found: Iterable[Product],
    made_by: tuple[str, ...],
    wrong: dict[str, str],
    reader: Reader,
    ask: Asking,
    warehouse: str,
) -> list[ListedProduct]:
    named = {each.name: each for each in found}
    owners = await run_in_threadpool(_readable, sorted(named), made_by, reader)
    fares = await fares_of(owners, reader, ask, warehouse)
    return [
        ListedProduct(**named[name].model_dump(), spec_problem=wrong.get(name), **fares[name]._asdict())
        for name in owners
    ]
