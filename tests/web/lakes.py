"""A warehouse of objects, their sources, their light curves, and a match, for what the page tells of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hipslake

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

OBJECTS = objects_table()
SOURCES = sources_table(OBJECTS)


def make_lake(place: Path) -> Lake:
    """Objects and their sources, both indexed; the objects with their light curves; and a match."""
    lake = Lake(place)
    lake.ingest_objects(OBJECTS, index=["id"], margin={"arcsec": [30]})
    lake.ingest_sources(SOURCES, index=["source_id"])
    sides = {"left": {"catalog": "objects"}, "right": {"catalog": "sources"}}
    nested = {"time": "time", "name": "curve"}
    hipslake.publish(
        {"name": "curves", "type": "equijoin", "on": {"id": "object_id"}, "nested": nested, **sides},
        warehouse=lake.warehouse,
    )
    lake.ingest("seen", SOURCES, threshold="1000 rows")
    sides = {"left": {"catalog": "seen"}, "right": {"catalog": "objects"}}
    hipslake.publish({"name": "pairs", "radius_arcsec": 4, **sides}, warehouse=lake.warehouse)
    folder = lake.place / "specs" / "catalogs"
    folder.mkdir(parents=True)
    for name in ("objects", "sources"):
        shutil.copy(lake.place / f"{name}.yaml", folder)
    return lake


def told(page: Page, path: str, code: int = 200, **asked: Any) -> Any:
    """What an endpoint of catalogs answers an administrator."""
    answer = page.as_user().get(f"/hipslake/api/catalogs/{path}", params=asked)
    assert answer.status_code == code, answer.text[:500]
    return answer.json()
