"""What tests of catalogs of others on the page share: which there are, and what is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tests.catalog.publishing import Published

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

READ = {
    "plain": "as it is",
    "old": "hipscat",
    "bare": "bare",
    "mixed": "mixed up and unplaced",
    "parts": "folders, mixed up",
}
"""Catalogs of others that are read where they lie, and the forms of their trees."""
SHOWN = [*READ, "theirs", "copied"]
"""All that have the same rows; the last two are adopted."""
CONE = (50.0, 10.0, 12.0)
SPEC = """\
name: sources
source: {uri: x, format: parquet}
position: {ra: ra, dec: dec}
co_partitioned: []
position_from: {catalog: stars, on: {id: id}}
"""
PageOf = Callable[..., "Page"]


class Place(NamedTuple):
    """A warehouse that adopts, trees of others, and the rows that are in all of them."""

    root: Path
    published: Published

    @property
    def others(self) -> str:
        return " ".join(f"{name}={self.root / name}" for name in READ)


def told(page: Page, path: str, code: int = 200, **asked: Any) -> Any:
    answer = page.as_user().get(f"/hipslake/api/catalogs{path}", params=asked)
    assert answer.status_code == code, answer.text[:500]
    return answer.json()


def listed(page: Page, **user: Any) -> dict[str, dict[str, Any]]:
    answer = page.as_user(**user).get("/hipslake/api/catalogs")
    assert answer.status_code == 200
    return {each["name"]: each for each in answer.json()}


def near(place: Place, ra: float, dec: float, radius: float) -> np.ndarray:
    """Which rows of the source lie in a cone."""
    lon, lat, x, y = np.radians([*place.published.degrees, np.full(1500, ra), np.full(1500, dec)])
    cosine = np.sin(lat) * np.sin(y) + np.cos(lat) * np.cos(y) * np.cos(lon - x)
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1, 1))) <= radius)
