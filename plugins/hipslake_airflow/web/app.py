"""The web app of the catalogs page: the page itself, and the endpoints that it asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, status
from fastapi.responses import FileResponse, JSONResponse, Response
from hipslake.catalog.comparing import VersionDiff
from hipslake.catalog.history import VersionSummary
from hipslake.errors import CatalogNotFoundError, HipslakeError, VersionNotFoundError
from hipslake.files.access import asked_as
from hipslake.specs.environment import expand
from hipslake.specs.yaml_file import find_specs
from hipslake.sphere.pixels import MAX_ORDER, Pixel

from hipslake_airflow.spec_folders import SPECS
from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import SEES_PLUGINS, Reader, ReaderDep
from hipslake_airflow.web.answers import CatalogAnswer, Listed, ListedProduct, catalog_answer
from hipslake_airflow.web.lines import lines
from hipslake_airflow.web.products import Product, cubes, tables
from hipslake_airflow.web.runs import RunSummary, StepReport, has_run, last_runs, reports, runs_of
from hipslake_airflow.web.shelf import Layer, LayerKind, Shelf
from hipslake_airflow.web.store import store_access

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

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_\-]*$", max_length=120)]
Number = Annotated[int, Query(ge=1, lt=1 << 31)]


def make_app(warehouse: str, specs: FilePath = SPECS) -> FastAPI:
    """The app for one warehouse.

    Parameters
    ----------
    warehouse : str
        Path or URI; `${HIPSLAKE_WAREHOUSE}` is expanded.
    specs : Path
        Folder in which `catalogs/` and `tables/` hold the specs.
    """
    app = FastAPI(
        title="hipslake catalogs",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[SEES_PLUGINS, Depends(_reach_store)],
    )
    shelf = Shelf(expand(warehouse))
    app.state.shelf = shelf
    for path, (name, media) in FILES.items():
        app.add_api_route(f"/{path}", _file(name, media), methods=["GET"], response_class=FileResponse)
    app.add_exception_handler(HipslakeError, _told)
    app.middleware("http")(_with_headers)
    _add_lists(app, shelf, specs)
    _add_catalogs(app, shelf)
    _add_runs(app, shelf)
    return app


def _add_lists(app: FastAPI, shelf: Shelf, specs: FilePath) -> None:
    @app.get("/api/catalogs")
    def list_catalogs(reader: ReaderDep, session: SessionDep) -> list[Listed]:
        names = sorted({*shelf.names(), *(path.stem for path in find_specs(specs / "catalogs"))})
        made_by = {name: pipelines.owners(pipelines.MAKE_CATALOG, name, session) for name in names}
        seen = [name for name in names if reader.may_read_any(made_by[name])]
        last = _last_of({name: made_by[name] for name in seen}, reader, session)
        return [_listed(shelf, name, last.get(name)) for name in seen]

    @app.get("/api/tables")
    def list_tables(reader: ReaderDep, session: SessionDep) -> list[ListedProduct]:
        return _products(tables(specs / "tables", shelf.warehouse), pipelines.MAKE_TABLE, reader, session)

    @app.get("/api/cubes")
    def list_cubes(reader: ReaderDep, session: SessionDep) -> list[ListedProduct]:
        return _products(cubes(shelf.warehouse), pipelines.MAKE_CUBE, reader, session)


def _add_catalogs(app: FastAPI, shelf: Shelf) -> None:
    readable = [Depends(_may_read_catalog)]

    @app.get("/api/catalogs/{name}", dependencies=readable)
    def show_catalog(
        name: Name, reader: ReaderDep, session: SessionDep, version: Number | None = None
    ) -> CatalogAnswer:
        newest = shelf.metadata(name)
        metadata = newest if version is None else shelf.metadata(name, version)
        dag_ids = pipelines.ids((*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG), name)
        dags = [i for i in pipelines.known((*dag_ids, pipelines.EXPORT), session) if reader.may_read(i)]
        last = last_runs([i for i in dags if i != pipelines.EXPORT and reader.may_read_runs(i)], session)
        ordered = sorted(last.values(), key=lambda run: run.run_after, reverse=True)
        does = {dag_id.partition("__")[0].partition("_")[2]: dag_id for dag_id in dags}
        uri, increments = shelf.uri(name), shelf.increments(name, metadata.version)
        return catalog_answer(
            uri, metadata, increments, newest.version, lines(uri, newest), does, tuple(ordered)
        )

    @app.get("/api/catalogs/{name}/versions", dependencies=readable)
    def list_versions(name: Name, before: Number | None = None) -> list[VersionSummary]:
        return shelf.history(name, before, _MOST_VERSIONS)

    @app.get("/api/catalogs/{name}/diff", dependencies=readable)
    def show_diff(name: Name, old: Number, new: Number) -> VersionDiff:
        return shelf.diff(name, old, new)

    @app.get("/api/catalogs/{name}/cells", dependencies=readable)
    def show_cells(
        name: Name,
        version: Number,
        layer: LayerKind = "group",
        of: Annotated[str, Query(max_length=200)] = "main",
        since: Number | None = None,
    ) -> Response:
        return _json(shelf.cells(name, version, Layer(layer, of, since)))

    @app.get("/api/catalogs/{name}/tiles/{order}/{npix}", dependencies=readable)
    def show_tile(
        name: Name,
        order: Annotated[int, Path(ge=0, le=MAX_ORDER)],
        npix: Annotated[int, Path(ge=0, lt=12 << 2 * MAX_ORDER)],
        version: Number,
        layer: LayerKind = "group",
        of: Annotated[str, Query(max_length=200)] = "main",
        since: Number | None = None,
    ) -> Response:
        if npix >= 12 << 2 * order:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no pixel {npix} of order {order}")
        return _json(shelf.cells(name, version, Layer(layer, of, since), Pixel(order, npix)))


def _add_runs(app: FastAPI, shelf: Shelf) -> None:
    @app.get("/api/catalogs/{name}/runs", dependencies=[Depends(_may_read_catalog)])
    def list_runs(name: Name, reader: ReaderDep, session: SessionDep) -> list[RunSummary]:
        dag_ids = pipelines.ids((*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG), name)
        allowed = [i for i in pipelines.known(dag_ids, session) if reader.may_read_runs(i)]
        return runs_of(allowed, session, _MOST_RUNS)

    @app.get("/api/reports")
    def show_reports(
        dag_id: Annotated[str, Query(max_length=250)],
        run_id: Annotated[str, Query(max_length=250)],
        reader: ReaderDep,
        session: SessionDep,
    ) -> list[StepReport]:
        if not reader.may_read_runs(dag_id):
            raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
        if not has_run(dag_id, run_id, session):
            raise HTTPException(status.HTTP_404_NOT_FOUND, "Airflow has no such run")
        return reports(shelf.warehouse, dag_id, run_id)


def _may_read_catalog(name: Name, reader: ReaderDep, session: SessionDep) -> None:
    reader.require(*pipelines.owners(pipelines.MAKE_CATALOG, name, session))


async def _reach_store() -> AsyncIterator[None]:
    # Asynchronous: what a dependency in another thread sets, the endpoint would not see.
    with asked_as(await asyncio.to_thread(store_access)):
        yield


def _listed(shelf: Shelf, name: str, last_run: RunSummary | None) -> Listed:
    try:
        metadata = shelf.metadata(name)
    except CatalogNotFoundError:
        return Listed(name=name, last_run=last_run, problem="not published yet")
    except HipslakeError as error:
        return Listed(name=name, last_run=last_run, problem=f"{type(error).__name__}: {error}")
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


def _products(
    found: Iterator[Product], made_by: tuple[str, ...], reader: Reader, session: Any
) -> list[ListedProduct]:
    products = [each for each in found if reader.may_read_any(pipelines.owners(made_by, each.name, session))]
    last = _last_of({each.name: pipelines.ids(made_by, each.name) for each in products}, reader, session)
    return [ListedProduct(**each.model_dump(), last_run=last.get(each.name)) for each in products]


def _last_of(made_by: dict[str, tuple[str, ...]], reader: Reader, session: Any) -> dict[str, RunSummary]:
    """The last run of the DAGs that make each thing, where the reader may see runs."""
    asked = [dag_id for dag_ids in made_by.values() for dag_id in dag_ids if reader.may_read_runs(dag_id)]
    runs = last_runs(asked, session)
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


def _told(request: Request, error: Exception) -> Response:
    missing = isinstance(error, CatalogNotFoundError | VersionNotFoundError)
    code: Literal[404, 503] = 404 if missing else 503
    return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, status_code=code)
