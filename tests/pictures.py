"""A picture that costs nothing to draw, for tests that publish thousands of versions."""

from __future__ import annotations

import base64

import pytest
from hipslake.catalog.hats import skymap
from hipslake.catalog.hats.skymap import draw_skymap

BLANK_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"""Of one pixel."""
_DRAWS = "hipslake.catalog.hats.skymap.draw_skymap"


def draw_blank(patch: pytest.MonkeyPatch) -> None:
    """Leave a picture of one pixel in place of each sky map."""
    patch.setattr(_DRAWS, _blank)


def draw_truly(patch: pytest.MonkeyPatch) -> None:
    """Draw them, also where they are left blank."""
    patch.setattr(_DRAWS, draw_skymap)


def are_blank() -> bool:
    """Whether this process leaves them blank."""
    return skymap.draw_skymap is _blank


def _blank(*drawn: object) -> bytes:
    return BLANK_PNG
