"""The web app of the catalogs page: the page itself, and the endpoints that it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Query, Request, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, Response
from hipslake.catalog.comparing import VersionDiff, VersionSummary
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.errors import CatalogNotFoundError, HipslakeError
from hipslake.specs.environment import expand
from hipslake.specs.spec_folder import CATALOGS, JOINS
from hipslake.sphere.pixels import MAX_ORDER, Pixel
from sqlalchemy.orm import Session

from hipslake_airflow.spec_folders import specs_folders
from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import MAY_READ_CATALOG, SEES_PLUGINS, Reader, ReaderDep, queried
from hipslake_airflow.web.answers import CatalogAnswer, Listed, ListedProduct, catalog_answer
from hipslake_airflow.web.catalog_store import CatalogStore, Layer, LayerKind
from hipslake_airflow.web.column_data import add_column_data
from hipslake_airflow.web.curve_data import add_curve_data
from hipslake_airflow.web.failures import told
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.lines import lines
from hipslake_airflow.web.parameters import Name, Number
from hipslake_airflow.web.products import Product, cubes, tables
from hipslake_airflow.web.row_data import add_row_data
from hipslake_airflow.web.runs import RunSummary, StepReport, has_run, last_runs, reports, runs_of
from hipslake_airflow.web.search_data import add_search
from hipslake_airflow.web.shown import shown
from hipslake_airflow.web.sky_data import add_sky_data
from hipslake_airflow.web.store import AskingDep

PAGE = FilePath(__file__).with_name("page")
FILES = {
    "catalogs": ("index.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "licences.txt": ("licences.txt", "text/plain; charset=utf-8"),
}
_HEADERS = {
    "Cache-Control": "private, no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    # Nothing from elsewhere, and in nobody else's frame: the page needs no other host, and this holds it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
    "data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
}
_MOST_VERSIONS, _MOST_RUNS = 20, 20


def make_app(warehouse: str, specs: FilePath | None = None) -> FastAPI:
    """The app for one warehouse.

    Parameters
    ----------
    warehouse : str
        Path or URI; `${HIPSLAKE_WAREHOUSE}` is expanded.
    specs : Path, optional
        Folder in which `catalogs/` and `tables/` hold the specs; by default that of the DAGs.
    """
    app = FastAPI(
        title="hipslake catalogs",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[SEES_PLUGINS],
    )
    catalogs = CatalogStore(expand(warehouse))
    known = KnownSpecs(specs_folders() if specs is None else [specs])
    app.state.catalogs = catalogs
    for path, (name, media) in FILES.items():
        app.add_api_route(f"/{path}", _file(name, media), methods=["GET"], response_class=FileResponse)
    app.add_exception_handler(HipslakeError, told)
    app.middleware("http")(_with_headers)
    _add_lists(app, catalogs, known)
    _add_catalogs(app, catalogs)
    _add_runs(app, catalogs)
    add_sky_data(app, catalogs)
    add_row_data(app, catalogs, known)
    add_curve_data(app, catalogs, known)
    add_column_data(app, catalogs)
    add_search(app, catalogs)
    return app


def _add_lists(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    @app.get("/api/catalogs")
    async def list_catalogs(reader: ReaderDep, ask: AskingDep) -> list[Listed]:
        folders = await ask(lambda: _folders(catalogs, specs))
        last = await run_in_threadpool(_last_readable, sorted(folders), reader)
        return await ask(lambda: [_listed(catalogs, folders[name], run) for name, run in last.items()])

    @app.get("/api/tables")
    async def list_tables(reader: ReaderDep, ask: AskingDep) -> list[ListedProduct]:
        found = await ask(lambda: list(tables(specs.folder(), catalogs.warehouse)))
        return await run_in_threadpool(_products, found, pipelines.MAKE_TABLE, reader)

    @app.get("/api/cubes")
    async def list_cubes(reader: ReaderDep, ask: AskingDep) -> list[ListedProduct]:
        found = await ask(lambda: list(cubes(catalogs.warehouse)))
        return await run_in_threadpool(_products, found, pipelines.MAKE_CUBE, reader)


def _add_catalogs(app: FastAPI, catalogs: CatalogStore) -> None:
    readable = [MAY_READ_CATALOG]

    @app.get("/api/catalogs/{name}", dependencies=readable)
    async def show_catalog(
        name: Name, reader: ReaderDep, ask: AskingDep, version: Number | None = None
    ) -> CatalogAnswer:
        newest, metadata, increments = await ask(lambda: _described(catalogs, name, version))
        does, ordered = await run_in_threadpool(_pipelines_of, name, reader)
        uri = catalogs.uri(name)
        return catalog_answer(
            uri, metadata, increments, newest.version, lines(uri, newest), does, tuple(ordered)
        )

    @app.get("/api/catalogs/{name}/versions", dependencies=readable)
    async def list_versions(name: Name, ask: AskingDep, before: Number | None = None) -> list[VersionSummary]:
        return await ask(lambda: catalogs.history(name, before, _MOST_VERSIONS))

    @app.get("/api/catalogs/{name}/diff", dependencies=readable)
    async def show_diff(name: Name, old: Number, new: Number, ask: AskingDep) -> VersionDiff:
        return await ask(lambda: catalogs.diff(name, old, new))

    @app.get("/api/catalogs/{name}/cells", dependencies=readable)
    async def show_cells(
        name: Name,
        version: Number,
        ask: AskingDep,
        layer: LayerKind = "group",
        of: Annotated[str, Query(max_length=200)] = "main",
        since: Number | None = None,
    ) -> Response:
        return _json(await ask(lambda: catalogs.cells(name, version, Layer(layer, of, since))))

    @app.get("/api/catalogs/{name}/tiles/{order}/{npix}", dependencies=readable)
    async def show_tile(
        name: Name,
        order: Annotated[int, Path(ge=0, le=MAX_ORDER)],
        npix: Annotated[int, Path(ge=0, lt=12 << 2 * MAX_ORDER)],
        version: Number,
        ask: AskingDep,
        layer: LayerKind = "group",
        of: Annotated[str, Query(max_length=200)] = "main",
        since: Number | None = None,
    ) -> Response:
        if npix >= 12 << 2 * order:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no pixel {npix} of order {order}")
        shown_layer = Layer(layer, of, since)
        return _json(await ask(lambda: catalogs.cells(name, version, shown_layer, Pixel(order, npix))))


def _add_runs(app: FastAPI, catalogs: CatalogStore) -> None:
    @app.get("/api/catalogs/{name}/runs", dependencies=[MAY_READ_CATALOG])
    def list_runs(name: Name, reader: ReaderDep) -> list[RunSummary]:
        dag_ids = pipelines.ids((*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG), name)
        allowed = [i for i in queried(pipelines.known, dag_ids) if reader.may_read_runs(i)]
        return queried(lambda session: runs_of(allowed, session, _MOST_RUNS))

    @app.get("/api/reports")
    async def show_reports(
        dag_id: Annotated[str, Query(max_length=250)],
        run_id: Annotated[str, Query(max_length=250)],
        reader: ReaderDep,
        ask: AskingDep,
    ) -> list[StepReport]:
        await run_in_threadpool(_require_run, dag_id, run_id, reader)
        return await ask(lambda: reports(catalogs.warehouse, dag_id, run_id))


def _require_run(dag_id: str, run_id: str, reader: Reader) -> None:
    """Raise HTTP 403 if the user may not read the runs of a DAG, and 404 if there is no such run."""
    if not reader.may_read_runs(dag_id):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    if not queried(has_run, dag_id, run_id):
        raise HTTPException(status.HTTP_404_NOT_FOUND, "Airflow has no such run")


def _folders(catalogs: CatalogStore, specs: KnownSpecs) -> dict[str, str]:
    """The folders of all catalogs that lie in the warehouse or have a spec, by the name that is shown."""
    given = {*catalogs.names(), *specs.names(CATALOGS, JOINS)}
    return {shown(name): name for name in given}


def _last_readable(names: Sequence[str], reader: Reader) -> dict[str, RunSummary | None]:
    """Those of some catalogs that the reader may read, and the last run of each."""
    made_by = queried(partial(_owners, names, pipelines.MAKE_CATALOG))
    seen = [name for name in names if reader.may_read_any(made_by[name])]
    last = _last_of({name: made_by[name] for name in seen}, reader)
    return {name: last.get(name) for name in seen}


def _owners(names: Sequence[str], made_by: tuple[str, ...], session: Session) -> dict[str, tuple[str, ...]]:
    return {name: pipelines.owners(made_by, name, session) for name in names}


def _described(
    catalogs: CatalogStore, name: str, version: int | None
) -> tuple[CatalogMetadata, CatalogMetadata, tuple[Increment, ...]]:
    """The metadata of the newest version and of the one asked for, and the increments of that."""
    newest = catalogs.metadata(name)
    metadata = newest if version is None else catalogs.metadata(name, version)
    return newest, metadata, catalogs.increments(name, metadata.version)


def _pipelines_of(name: str, reader: Reader) -> tuple[dict[str, str], list[RunSummary]]:
    """The DAGs of a catalog that the reader may read, by what they do, and their last runs, newest first."""
    dag_ids = pipelines.ids((*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG), name)
    dags = [i for i in queried(pipelines.known, (*dag_ids, pipelines.EXPORT)) if reader.may_read(i)]
    last = queried(last_runs, [i for i in dags if i != pipelines.EXPORT and reader.may_read_runs(i)])
    ordered = sorted(last.values(), key=lambda run: run.run_after, reverse=True)
    return {dag_id.partition("__")[0].partition("_")[2]: dag_id for dag_id in dags}, ordered


def _listed(catalogs: CatalogStore, folder: str, last_run: RunSummary | None) -> Listed:
    """An entry of the list of catalogs; for a catalog that cannot be read it holds the problem."""
    name = shown(folder)
    try:
        metadata = catalogs.metadata(folder)
    except CatalogNotFoundError:
        return Listed(name=name, last_run=last_run, problem="not published yet")
    except (HipslakeError, OSError, ValueError) as error:
        return Listed(name=name, last_run=last_run, problem=shown(f"{type(error).__name__}: {error}"))
    return Listed(
        name=name,
        description=metadata.description,
        version=metadata.version,
        rows=metadata.total_rows,
        bytes=metadata.total_bytes,
        partitions=sum(group.leaves for group in metadata.groups),
        layout=metadata.layout.value,
        created=metadata.created,
        last_run=last_run,
    )


def _products(found: Sequence[Product], made_by: tuple[str, ...], reader: Reader) -> list[ListedProduct]:
    owners = queried(partial(_owners, [each.name for each in found], made_by))
    products = [each for each in found if reader.may_read_any(owners[each.name])]
    last = _last_of({each.name: pipelines.ids(made_by, each.name) for each in products}, reader)
    return [ListedProduct(**each.model_dump(), last_run=last.get(each.name)) for each in products]


def _last_of(made_by: dict[str, tuple[str, ...]], reader: Reader) -> dict[str, RunSummary]:
    """The last run of the DAGs that make each thing, where the reader may see runs."""
    asked = [dag_id for dag_ids in made_by.values() for dag_id in dag_ids if reader.may_read_runs(dag_id)]
    runs = queried(last_runs, asked)
    found = {}
    for name, dag_ids in made_by.items():
        its = [runs[dag_id] for dag_id in dag_ids if dag_id in runs]
        if its:
            found[name] = max(its, key=lambda run: run.run_after)
    return found


def _file(name: str, media: str) -> Callable[[], FileResponse]:
    def send() -> FileResponse:
        return FileResponse(PAGE / name, media_type=media)

    return send


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json")


async def _with_headers(request: Request, call_next: Any) -> Response:
    response: Response = await call_next(request)
    response.headers.update(_HEADERS)
    return response
