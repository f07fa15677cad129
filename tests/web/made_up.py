"""Skies made up for the page, as the server would answer them; and a web server that knows nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
from hipslake.sphere.pixels import order29
from hipslake.sphere.sky_cells import Footprint, gather

from tests.airflow_home import PROJECT
from tests.stores.http_serving import PlainHandler, running_http

PAGE = PROJECT / "plugins" / "hipslake_airflow" / "web" / "page"
_MEDIA = {"html": "text/html", "js": "text/javascript", "css": "text/css", "txt": "text/plain"}


def split_sky(leaves: int, *, seed: int = 1, patch: bool = False) -> Footprint:
    """About so many leaves: a sky that is crowded along a great circle, or one patch of it, split evenly."""
    rng = np.random.default_rng(seed)
    points = 400_000
    ra = rng.uniform(0, 360, points)
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, points)))
    if patch:
        ra, dec = rng.uniform(10, 75, points), rng.uniform(-40, 15, points)
    else:
        lon, lat = (
            rng.uniform(0, 2 * np.pi, points // 2),
            np.radians(np.clip(rng.laplace(0, 9, points // 2), -90, 90)),
        )
        ra[: points // 2], dec[: points // 2] = _from_galactic(lon, lat)
    index = np.sort(order29(ra, dec))
    low, high = 1, points
    while low < high:  # the largest threshold that gives at least so many
        middle = (low + high + 1) // 2
        if len(_split(index, middle)[0]) >= leaves:
            low = middle
        else:
            high = middle - 1
    order, start, rows = _split(index, low)
    return Footprint(start, order.astype(np.int8), rows * 1000, rows * 90_000)


def _split(index: np.ndarray, threshold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    orders, starts, rows = [], [], []
    for order in range(14):
        shift = 2 * (29 - order)
        pixels, count = np.unique(index >> shift, return_counts=True)
        leaf = count <= threshold
        orders.append(np.full(leaf.sum(), order))
        starts.append(pixels[leaf] << shift)
        rows.append(count[leaf])
        inside = np.repeat(~leaf, count)
        index = index[inside]
    order, start, count = np.concatenate(orders), np.concatenate(starts), np.concatenate(rows)
    along = np.argsort(start)
    return order[along], start[along], count[along]


def _from_galactic(lon: np.ndarray, lat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from astropy import units
    from astropy.coordinates import SkyCoord

    icrs = SkyCoord(l=lon * units.rad, b=lat * units.rad, frame="galactic").icrs
    return icrs.ra.deg, icrs.dec.deg


def cells_answer(sky: Footprint) -> dict[str, Any]:
    """The cells of a sky as the server answers them."""
    cells = gather(sky)
    totals = {name: int(getattr(cells, name).sum()) for name in ("partitions", "files", "rows", "bytes")}
    return {"totals": totals} | {name: column.tolist() for name, column in cells._asdict().items()}


def catalog_answer(name: str, sky: Footprint) -> dict[str, Any]:
    """A catalog with that sky and nothing else of interest."""
    rows, size = int(sky.rows.sum()), int(sky.bytes.sum())
    group = {
        "name": "main", "rows": rows, "bytes": size, "leaves": len(sky.start), "files": len(sky.start),
        "threshold": "1M rows", "columns": [], "leaves_per_order": {},
    }  # fmt: skip
    return {
        "name": name, "uri": f"/warehouse/catalogs/{name}", "description": "made up", "attribution": "",
        "version": 1, "newest": 1, "created": "2026-11-21T03:30:00Z", "layout": "hats", "rows": rows,
        "bytes": size, "rows_read": rows, "rows_rejected": 0, "rows_superseded": 0,
        "rows_near_borders": None, "groups": [group], "margins": [],
        "increments": [], "increments_in_all": 0, "co_partitioned": [], "indices": [], "lines": [],
        "dags": {}, "last_runs": [],
    }  # fmt: skip


def density_answer(sky: Footprint, order: int, npix: int | None = None, deeper: int = 0) -> np.ndarray:
    """Counts of the whole sky at an order, or of a pixel at a deeper one: leaves have their rows all over."""
    level = order + deeper
    first = 0 if npix is None else npix << 2 * deeper
    wide = 1 << 2 * np.maximum(level - sky.order.astype(np.int64), 0)
    start = (sky.start >> 2 * (29 - level)) - first
    many = (12 << 2 * level) if npix is None else 1 << 2 * deeper
    here = (start < many) & (start + wide > 0)
    start, wide, rows = start[here], wide[here], sky.rows[here]
    low, high = np.maximum(start, 0), np.minimum(start + wide, many)
    long = high - low
    before = np.repeat(np.cumsum(long) - long, long)
    at = np.repeat(low, long) + np.arange(len(before)) - before
    counts = np.bincount(at, np.repeat(rows / wide, long), minlength=many)
    return counts.astype(np.uint32)


@contextmanager
def serving(skies: dict[str, Footprint], more: dict[str, Any] | None = None) -> Iterator[str]:
    """Serve the page, these skies, and what else is to be answered, by path; yields its address."""
    answers: dict[str, Any] = {"/api/catalogs": [], "/api/tables": [], "/api/cubes": []}
    for name, sky in skies.items():
        answers[f"/api/catalogs/{name}"] = catalog_answer(name, sky)
        answers[f"/api/catalogs/{name}/cells"] = cells_answer(sky)
        answers[f"/api/catalogs/{name}/versions"] = []
        answers[f"/api/catalogs/{name}/timeline"] = {
            "versions": [],
            "nights": [],
            "schedule": None,
            "last_error": None,
        }
    answers |= more or {}
    encoded = {path: json.dumps(answer).encode() for path, answer in answers.items()}

    class Handler(PlainHandler):
        def reply(self, body: bytes) -> None:
            path = unquote(urlsplit(self.path).path)
            name = path.removeprefix("/") or "index.html"
            parts = path.split("/")
            if len(parts) > 4 and parts[4] == "density" and parts[3] in skies:
                asked = dict(parse_qsl(urlsplit(self.path).query))
                tile = [int(part) for part in parts[5:]] or [int(asked["order"])]
                counts = density_answer(
                    skies[parts[3]], *tile, **({"deeper": int(asked["deeper"])} if parts[5:] else {})
                )
                self.answer(200, counts.astype("<u4").tobytes(), {"Content-Type": "application/octet-stream"})
            elif path in encoded:
                self.answer(200, encoded[path], {"Content-Type": "application/json"})
            elif (PAGE / name).is_file():
                media = _MEDIA[name.rpartition(".")[2]]
                self.answer(200, (PAGE / name).read_bytes(), {"Content-Type": media})
            else:
                self.answer(404)

    with running_http(Handler) as address:
        yield f"{address}/"
