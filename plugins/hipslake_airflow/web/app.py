"""The web app of the catalogs page: the page itself, and the endpoints that it asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Query, Request, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, Response
from hipslake.catalog.comparing import VersionDiff, VersionSummary
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.errors import HipslakeError
from hipslake.specs.environment import expand
from hipslake.specs.spec_folder import CATALOGS, JOINS
from hipslake.sphere.pixels import MAX_ORDER, Pixel

from hipslake_airflow.spec_folders import specs_folders
from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import MAY_READ_CATALOG, SEES_PLUGINS, Reader, ReaderDep, queried
from hipslake_airflow.web.answers import CatalogAnswer, catalog_answer
from hipslake_airflow.web.catalog_store import CatalogStore, Layer, LayerKind
from hipslake_airflow.web.column_data import add_column_data
from hipslake_airflow.web.comparing_data import add_comparing
from hipslake_airflow.web.cone_search import add_cone_search
from hipslake_airflow.web.curve_data import add_curve_data
from hipslake_airflow.web.download import add_download
from hipslake_airflow.web.failures import told
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.lineage_data import add_lineage
from hipslake_airflow.web.lines import Line, lines, lines_of_others
from hipslake_airflow.web.listing import add_lists, fares_of
from hipslake_airflow.web.others import OTHERS
from hipslake_airflow.web.parameters import Name, Number
from hipslake_airflow.web.product_pages import add_product_pages
from hipslake_airflow.web.row_data import add_row_data
from hipslake_airflow.web.runs import RunSummary, StepReport, has_run, last_runs, reports, runs_of
from hipslake_airflow.web.search_data import add_search
from hipslake_airflow.web.sky_data import add_sky_data
from hipslake_airflow.web.source_answer import SourceAnswer, adopted_source, last_look, read_source
from hipslake_airflow.web.store import AskingDep
from hipslake_airflow.web.timeline import add_timeline

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
    """The app for one warehouse, and for the catalogs of others that `HIPSLAKE_OTHERS` names.

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
    known = KnownSpecs(specs_folders() if specs is None else [specs])
    catalogs = CatalogStore(
        expand(warehouse), os.environ.get(OTHERS, ""), lambda: known.names(CATALOGS, JOINS)
    )
    app.state.catalogs = catalogs
    for path, (name, media) in FILES.items():
        app.add_api_route(f"/{path}", _file(name, media), methods=["GET"], response_class=FileResponse)
    app.add_exception_handler(HipslakeError, told)
    app.add_exception_handler(OSError, told)  # a file that went while it was read
    app.middleware("http")(_with_headers)
    add_lists(app, catalogs, known)
    _add_catalogs(app, catalogs, known)
    _add_runs(app, catalogs)
    add_sky_data(app, catalogs)
    add_row_data(app, catalogs, known)
    add_curve_data(app, catalogs, known)
    add_column_data(app, catalogs)
    add_search(app, catalogs)
    add_timeline(app, catalogs, known)
    add_download(app, catalogs)
    add_product_pages(app, catalogs, known)
    add_lineage(app, catalogs, known)
    add_comparing(app, catalogs)
    add_cone_search(app, catalogs)
    return app


def _add_catalogs(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    readable = [MAY_READ_CATALOG]

    @app.get("/api/catalogs/{name}", dependencies=readable)
    async def show_catalog(
        name: Name, reader: ReaderDep, ask: AskingDep, version: Number | None = None
    ) -> CatalogAnswer:
        newest, metadata, increments = await ask(lambda: _described(catalogs, name, version))
        of_others = metadata.is_foreign
        does, ordered = ({}, []) if of_others else await run_in_threadpool(_pipelines_of, name, reader)
        made_by = {name: queried(pipelines.owners, pipelines.MAKE_CATALOG, name)}
        fares = await fares_of(made_by, reader, ask, catalogs.warehouse)
        problems = {} if of_others else await ask(specs.problems)
        looked_at = await run_in_threadpool(last_look, does.values(), reader)
        uri, to_copy, source = await ask(lambda: _placed(catalogs, name, newest, metadata, looked_at))
        return await ask(
            lambda: catalog_answer(
                name,
                uri,
                metadata,
                increments,
                newest.version,
                to_copy,
                does,
                tuple(ordered),
                fares[name].last_failed,
                problems.get((CATALOGS, name)) or problems.get((JOINS, name)),
                source,
            )
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
        allowed = [i for i in _dags_of(name) if reader.may_read_runs(i)]
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


def _described(
    catalogs: CatalogStore, name: str, version: int | None
) -> tuple[CatalogMetadata, CatalogMetadata, tuple[Increment, ...]]:
    """The metadata of the newest version and of the one asked for, and the increments of that."""
    newest = catalogs.metadata(name)
    metadata = newest if version is None else catalogs.metadata(name, version)
    return newest, metadata, catalogs.increments(name, metadata.version)


def _placed(
    catalogs: CatalogStore,
    name: str,
    newest: CatalogMetadata,
    metadata: CatalogMetadata,
    looked_at: datetime | None,
) -> tuple[str, tuple[Line, ...], SourceAnswer | None]:
    """Where a catalog lies, the lines that open it, and the catalog of others that it stands for."""
    if catalogs.is_of_others(name):
        opened = catalogs.others.opened(name)
        source = read_source(opened)
        return source.uri, lines_of_others(source.uri, opened.metadata), source
    uri = catalogs.uri(name)
    return uri, lines(uri, newest), adopted_source(metadata, looked_at)


def _pipelines_of(name: str, reader: Reader) -> tuple[dict[str, str], list[RunSummary]]:
    """The DAGs of a catalog that the reader may read, by what they do, and their last runs, newest first."""
    its = _dags_of(name)
    export = queried(pipelines.form_beside, pipelines.EXPORT, its)
    dags = [i for i in (*its, *([export] if export else [])) if reader.may_read(i)]
    last = queried(last_runs, [i for i in dags if i != export and reader.may_read_runs(i)])
    ordered = sorted(last.values(), key=lambda run: run.run_after, reverse=True)
    return {pipelines.pipeline_of(i).partition("_")[2]: i for i in reversed(dags)}, ordered


def _dags_of(name: str) -> tuple[str, ...]:
    """The DAGs that make a catalog or keep it in shape."""
    return queried(pipelines.found, (*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG), [name])[name]


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
