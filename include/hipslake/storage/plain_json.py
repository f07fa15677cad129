"""JSON of files that others may have written, or that are damaged."""

from __future__ import annotations

import json
from typing import Any


def plain_json(data: bytes | str) -> Any:
    """Return what JSON stands for.

    Raises
    ------
    ValueError
        It is no JSON, or nested deeper than Python reads (a `RecursionError` otherwise).
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
