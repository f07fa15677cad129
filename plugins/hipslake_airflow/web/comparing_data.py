"""The endpoint that puts two catalogs, or two versions of one, side by side."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from hipslake.catalog.density import Density
from hipslake.catalog.metadata import CatalogMetadata
from numpy.typing import NDArray

from hipslake_airflow.web.access import ReaderDep, require_catalog
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import columns_told
from hipslake_airflow.web.parameters import NAME_PATTERN, Number
from hipslake_airflow.web.row_data import json_response
from hipslake_airflow.web.store import AskingDep

_DEEPEST = 7
_Side = Annotated[str, Query(pattern=NAME_PATTERN, max_length=120)]


def add_comparing(app: FastAPI, catalogs: CatalogStore) -> None:
    """Add the endpoint to the app."""

    @app.get("/api/compare")
    async def compare(
        left: _Side,
        right: _Side,
        reader: ReaderDep,
        ask: AskingDep,
        left_version: Number | None = None,
        right_version: Number | None = None,
        order: Annotated[int, Query(ge=0, le=_DEEPEST)] = 6,
    ) -> Response:
        for name in dict.fromkeys((left, right)):
            await run_in_threadpool(require_catalog, name, reader)
        sides = (left, left_version), (right, right_version)
        return await ask(lambda: json_response(_compared(catalogs, sides, order)))


def _compared(
    catalogs: CatalogStore, sides: tuple[tuple[str, int | None], tuple[str, int | None]], order: int
) -> dict[str, Any]:
    one, other = (catalogs.metadata(*side) for side in sides)
    here = catalogs.density(sides[0][0], one.version, order, None)
    there = catalogs.density(sides[1][0], other.version, order, None)
    common = min(here.order, there.order)
    mine, theirs = _at(here, common), _at(there, common)
    npix = np.flatnonzero((mine > 0) | (theirs > 0))
    return {
        "left": _side(sides[0][0], one),
        "right": _side(sides[1][0], other),
        "order": common,
        "npix": npix.tolist(),
        "left_rows": mine[npix].tolist(),
        "right_rows": theirs[npix].tolist(),
        "columns": _columns(one, other),
        "exact": here.exact and there.exact,
    }


def _at(found: Density, order: int) -> NDArray[Any]:
    """The rows per pixel at an order that is not finer."""
    return found.counts.reshape(12 << 2 * order, -1).sum(axis=1)


def _side(name: str, metadata: CatalogMetadata) -> dict[str, Any]:
    return {"name": name, "version": metadata.version, "rows": metadata.total_rows}


def _columns(one: CatalogMetadata, other: CatalogMetadata) -> dict[str, Any]:
    mine, theirs = columns_told(one), columns_told(other)
    both = [name for name in mine if name in theirs]
    differing = [
        {"name": name, "left": mine[name].type, "right": theirs[name].type}
        for name in both
        if mine[name].type != theirs[name].type
    ]
    return {
        "left_only": [mine[name].model_dump() for name in mine if name not in theirs],
        "right_only": [theirs[name].model_dump() for name in theirs if name not in mine],
        "differing": differing,
        "same": len(both) - len(differing),
    }
