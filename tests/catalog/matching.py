"""Catalogs to match, and what a match of them has to be by brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from astropy.coordinates import angular_separation
from hipslake import Catalog
from hipslake.storage.folder import Storage

from tests.catalog.little import write_little
from tests.catalog.margins_by_hand import with_margin
from tests.catalog.publishing import commit

SLACK = 1e-9  # arcseconds by which rounding may move a separation


def published(
    root: Path | str, name: str, table: pa.Table, *, margin_arcsec: float | None = None, **fields: Any
) -> Catalog:
    """Publish a table with columns ra and dec, in ICRS degrees unless `degrees` says what they are."""
    storage = Storage.at(f"{root}/{name}")
    position = {"ra": "ra", "dec": "dec", "epoch": 2000.0} | fields.pop("position", {})
    degrees = fields.pop("degrees", (table["ra"].to_numpy(), table["dec"].to_numpy()))
    metadata = write_little(storage, table, degrees, name=name, position=position, **fields)
    if margin_arcsec is not None:
        metadata = with_margin(storage, metadata, margin_arcsec)
    commit(storage, metadata)
    return Catalog.open(storage.uri())


def rows_at(ra: np.ndarray, dec: np.ndarray, **more: Any) -> pa.Table:
    """Rows with running numbers."""
    return pa.table({"id": np.arange(len(ra)), "ra": ra, "dec": dec, **more})


def separations(left: pa.Table, right: pa.Table) -> np.ndarray:
    """Arcseconds of every pair, by astropy."""
    (ra, dec), (other_ra, other_dec) = (
        (np.radians(side["ra"].to_numpy()), np.radians(side["dec"].to_numpy())) for side in (left, right)
    )
    apart = angular_separation(ra[:, None], dec[:, None], other_ra[None, :], other_dec[None, :])
    return np.degrees(apart) * 3600


def pairs_of(found: pa.Table) -> list[tuple[int, int | None]]:
    """The numbers of the rows of a match."""
    return list(zip(found["id"].to_pylist(), found["id_b"].to_pylist(), strict=True))


def nearest_pairs(
    told: np.ndarray, radius: float, neighbours: int | None, least: float = 0.0
) -> set[tuple[int, int]]:
    """The pairs that a match has to have."""
    found = set()
    for row, distances in enumerate(told):
        near = np.flatnonzero((distances <= radius) & (distances >= least))
        near = near[np.argsort(distances[near], kind="stable")][:neighbours]
        found |= {(row, int(other)) for other in near}
    return found
