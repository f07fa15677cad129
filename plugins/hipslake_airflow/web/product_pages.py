"""The endpoints for one table, and for one cube."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from fastapi import FastAPI, HTTPException, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from hipslake.errors import CatalogNotFoundError, HipslakeError
from hipslake.specs.spec_folder import CUBES as CUBE_SPECS
from hipslake.specs.spec_folder import TABLES
from hipslake.specs.table_place import DeltaSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.storage.folder import Storage
from pydantic_core import to_json

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import Reader, ReaderDep, queried
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import column_told
from hipslake_airflow.web.iceberg_access import iceberg_connection
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.lines import Line
from hipslake_airflow.web.listing import fares_of
from hipslake_airflow.web.parameters import Name
from hipslake_airflow.web.products import CUBES, Product, cube_of, table_of
from hipslake_airflow.web.runs import RunSummary, last_runs
from hipslake_airflow.web.shown import shown
from hipslake_airflow.web.store import Asking, AskingDep

_MOST_VERSIONS = 100
_MOST_CUBE_VERSIONS = 20  # each is read


def add_product_pages(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    """Add the endpoints to the app."""

    @app.get("/api/tables/{name}")
    async def show_table(name: Name, reader: ReaderDep, ask: AskingDep) -> Response:
        await run_in_threadpool(_require, pipelines.MAKE_TABLE, name, reader)
        found = await ask(lambda: _table(specs, catalogs.warehouse, name))
        makes, keeps = pipelines.MAKE_TABLE, pipelines.KEEP_TABLE
        problem = (await ask(specs.problems)).get((TABLES, name))
        return await _answer(found, makes, keeps, name, problem, reader, ask, catalogs.warehouse)

    @app.get("/api/cubes/{name}")
    async def show_cube(name: Name, reader: ReaderDep, ask: AskingDep) -> Response:
        await run_in_threadpool(_require, pipelines.MAKE_CUBE, name, reader)
        found = await ask(lambda: _cube(specs, catalogs.warehouse, name))
        makes, keeps = pipelines.MAKE_CUBE, pipelines.KEEP_CUBE
        problem = (await ask(specs.problems)).get((CUBE_SPECS, name))
        found["spec_notes"] = await ask(lambda: specs.old_forms(CUBE_SPECS, name))
        return await _answer(found, makes, keeps, name, problem, reader, ask, catalogs.warehouse)


def _require(made_by: tuple[str, ...], name: str, reader: Reader) -> None:
    reader.require(*queried(pipelines.owners, made_by, name))


async def _answer(
    found: dict[str, Any],
    makes: tuple[str, ...],
    keeps: tuple[str, ...],
    name: str,
    spec_problem: str | None,
    reader: Reader,
    ask: Asking,
    warehouse: str,
) -> Response:
    dags, runs = await run_in_threadpool(_dags, (*makes, *keeps), name, reader)
    made_by = await run_in_threadpool(queried, pipelines.owners, makes, name)
    fare = (await fares_of({name: made_by}, reader, ask, warehouse))[name]
    told = {
        **found,
        "dags": dags,
        "last_runs": [run.model_dump(mode="json") for run in runs],
        "last_run": None if fare.last_run is None else fare.last_run.model_dump(mode="json"),
        "last_failed": None if fare.last_failed is None else fare.last_failed.model_dump(mode="json"),
        "spec_problem": spec_problem,
    }
    return Response(to_json(told), media_type="application/json")


def _dags(makes: tuple[str, ...], name: str, reader: Reader) -> tuple[dict[str, str], list[RunSummary]]:
    """The DAGs that the reader may read, by what they do, and their last runs, newest first."""
    its = queried(pipelines.found, makes, [name])[name]
    # Forms of all cubes are DAGs of their own, and ask which cube.
    forms = [queried(pipelines.form_beside, each, its) for each in makes]
    allowed = reader.readable([*its, *(form for form in forms if form is not None)])
    dags = [each for each in (*its, *(form for form in forms if form is not None)) if each in allowed]
    runs = queried(last_runs, [each for each in its if each in allowed and reader.may_read_runs(each)])
    ordered = sorted(runs.values(), key=lambda run: run.run_after, reverse=True)
    return {pipelines.pipeline_of(each).partition("_")[2]: each for each in reversed(dags)}, ordered


def _table(specs: KnownSpecs, warehouse: str, name: str) -> dict[str, Any]:
    from hipslake.tables.opening import open_table

    folder = specs.folder()
    for path in folder.files(TableSpec, name):
        product = table_of(folder, path, warehouse, {})
        more: dict[str, Any] = {}
        try:
            spec = folder.load(path, TableSpec)
            more = {
                "partitioning": ", ".join(map(str, spec.partition)) or None,
                "sorting": ", ".join(map(str, spec.sort)) or None,
            }
            if product.problem is None:
                with (
                    iceberg_connection(spec.iceberg),
                    closing(open_table(spec.place, warehouse, spec.table)) as opened,
                ):
                    state = opened.existing()
                    versions = state.versions()[::-1][:_MOST_VERSIONS]
                    columns = [column_told(field).model_dump() for field in state.schema]
                    uri, kept = state.location, state.clustering
                more |= {
                    "clustering": None if kept is None else kept.model_dump(mode="json"),
                    "uri": uri,
                    "columns": columns,
                    "versions": [
                        {"version": str(each.version), "created": each.created, "rows": each.rows}
                        for each in versions
                    ],
                    "lines": _table_lines(spec),
                }
        except HipslakeError as error:
            product = product.model_copy(update={"problem": shown(f"{type(error).__name__}: {error}")})
        return {**product.model_dump(), **more}
    raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no spec of a table {name}")


def _table_lines(spec: TableSpec) -> list[dict[str, Any]]:
    place = spec.place
    if isinstance(place, DeltaSpec):
        given = ", delta={}" if place.location is None else f', delta={{"location": "{place.location}"}}'
    elif place.connection is not None:
        return []
    else:
        given = "" if place.type == "sql" and place.uri is None else ", iceberg={...}  # as in the spec"
    text = f'from hipslake.api.table import Table\n\nTable.open("{spec.table}"{given}).read()'
    return [Line(tool="hipslake", language="python", text=text).model_dump()]


def _cube(specs: KnownSpecs, warehouse: str, name: str) -> dict[str, Any]:
    from hipslake.api.cube import Cube
    from hipslake.versions.log import VersionLog

    storage = Storage.at(warehouse)
    uri = storage.uri(f"{CUBES}/{name}")
    product = cube_of(uri, name)
    if product.problem is not None:
        if not storage.list(f"{CUBES}/{name}"):
            if name not in specs.names(CUBE_SPECS):
                raise CatalogNotFoundError(f"{uri}: no cube is built here")
            product = Product(name=name, title=name, problem="not built yet")
        return {**product.model_dump(), "uri": uri}
    metadata = Cube.open(uri).metadata
    roles = metadata.roles
    versions = []
    for number in VersionLog(Storage.at(uri)).numbers()[::-1][:_MOST_CUBE_VERSIONS]:
        older = Cube.open(uri, number).metadata
        versions.append(
            {
                "version": str(number),
                "created": older.created,
                "rows": older.dataset(older.roles.seed).rows,
                "bytes": sum(each.bytes for each in older.datasets),
                "files": sum(each.files for each in older.datasets),
                "what": older.operation,
            }
        )
    datasets = [
        {
            "name": each.name,
            "role": "seed" if each.name == roles.seed else "dataset",
            "rows": each.rows,
            "bytes": each.bytes,
            "files": each.files,
            "columns": [column_told(field).model_dump() for field in each.to_arrow()],
        }
        for each in metadata.datasets
    ]
    text = f'from hipslake import Cube\n\nCube.open("{uri}").query()'
    return {
        **product.model_dump(),
        "uri": uri,
        "partition_columns": list(roles.partition_columns),
        "dimension_columns": list(roles.dimension_columns),
        "datasets": datasets,
        "versions": versions,
        "lines": [Line(tool="hipslake", language="python", text=text).model_dump()],
    }
