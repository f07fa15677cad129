"""The spec that the rows of `stars` are ingested with."""

from __future__ import annotations

from typing import Any

SPEC: dict[str, Any] = {
    "name": "stars",
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "200 rows",
    "mapping_order": 6,
}
