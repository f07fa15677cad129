"""Endpoints for what is drawn on the map of a catalog: densities as bare numbers."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import FastAPI, HTTPException, Query, status
from fastapi.responses import Response
from hipslake.sphere.pixels import MAX_ORDER, Pixel

from hipslake_airflow.web.access import MAY_READ_CATALOG
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.parameters import Name, Number, PixelNumber, PixelOrder
from hipslake_airflow.web.store import AskingDep

MOST_DEEPER = 9


def add_sky_data(app: FastAPI, catalogs: CatalogStore) -> None:
    """Add the endpoints to the app."""
    readable = [MAY_READ_CATALOG]

    @app.get("/api/catalogs/{name}/density", dependencies=readable)
    async def show_density(
        name: Name,
        ask: AskingDep,
        version: Number | None = None,
        order: Annotated[int, Query(ge=0, le=MOST_DEEPER)] = 6,
    ) -> Response:
        return await ask(lambda: _density(catalogs, name, version, order, None))

    @app.get("/api/catalogs/{name}/density/{order}/{npix}", dependencies=readable)
    async def show_density_of_pixel(
        name: Name,
        order: PixelOrder,
        npix: PixelNumber,
        ask: AskingDep,
        version: Number | None = None,
        deeper: Annotated[int, Query(ge=0, le=MOST_DEEPER)] = 6,
    ) -> Response:
        pixel = existing_pixel(order, npix)
        return await ask(lambda: _density(catalogs, name, version, min(order + deeper, MAX_ORDER), pixel))


def existing_pixel(order: int, npix: int) -> Pixel:
    """A pixel; HTTP 404 where there is none of the number."""
    if npix >= 12 << 2 * order:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no pixel {npix} of order {order}")
    return Pixel(order, npix)


def _density(
    catalogs: CatalogStore, name: str, version: int | None, order: int, pixel: Pixel | None
) -> Response:
    version = version or catalogs.newest(name)
    found = catalogs.density(name, version, order, pixel)
    largest = found.counts.max(initial=0)
    narrow = found.exact and largest < 1 << 32
    return Response(
        found.counts.astype("<u4" if narrow else "<f8").tobytes(),
        media_type="application/octet-stream",
        headers={
            "X-Hipslake-Version": str(version),
            "X-Hipslake-Order": str(found.order),
            "X-Hipslake-Counts": "uint32" if narrow else "float64",
            "X-Hipslake-Exact": str(found.exact).lower(),
            "X-Hipslake-Rows": f"{np.sum(found.counts):.17g}",
            "X-Hipslake-Largest": f"{largest:.17g}",
        },
    )
