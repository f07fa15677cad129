"""A picture that costs nothing to draw, for tests that publish thousands of versions."""

from __future__ import annotations

import base64

BLANK_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"""Of one pixel."""
