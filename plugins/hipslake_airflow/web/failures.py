"""Errors of the library as answers of the page."""

from __future__ import annotations

from fastapi import Request, status
from fastapi.responses import JSONResponse, Response
from hipslake.errors import (
    CatalogNotFoundError,
    FilterError,
    IndexMissingError,
    RegionError,
    SchemaMismatchError,
    VersionNotFoundError,
)

_MISSING = (CatalogNotFoundError, VersionNotFoundError)
_ASKED = (RegionError, FilterError, SchemaMismatchError, IndexMissingError)


def told(request: Request, error: Exception) -> Response:
    """404 for what is not there, 422 for what was asked wrongly, 503 for what could not be read."""
    code = status.HTTP_503_SERVICE_UNAVAILABLE
    if isinstance(error, _MISSING):
        code = status.HTTP_404_NOT_FOUND
    elif isinstance(error, _ASKED):
        code = status.HTTP_422_UNPROCESSABLE_CONTENT
    return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, status_code=code)
