"""Published catalogs on disk, little ones, in every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.catalog.little import sky, write_little

SHAPES = {
    "hats": {"layout": "hats"},
    "hipscat": {"layout": "hipscat"},
    "hats, two groups": {
        "layout": "hats",
        "column_groups": [
            {"name": "main"},
            {"name": "details", "columns": ["mag", "note"], "threshold": "150 rows"},
        ],
    },
    "hipscat, two groups": {
        "layout": "hipscat",
        "column_groups": [
            {"name": "main"},
            {"name": "details", "columns": ["mag", "note"], "threshold": "150 rows"},
        ],
    },
}


class Published(NamedTuple):
    """A catalog on disk and what it was made from."""

    storage: Storage
    metadata: CatalogMetadata
    source: pa.Table  # in source order: row number i has `_row` i
    degrees: tuple[np.ndarray, np.ndarray]  # ICRS ra, dec of the source's rows


def publish(root: Path, rows: int = 3000, cap: float | None = None, **fields: Any) -> Published:
    """Publish a little catalog as version 1; its source has radians if the fields say so."""
    degrees = sky(rows, cap=cap)
    table = stars(degrees)
    position = {"ra": "ra", "dec": "dec"} | fields.pop("position", {})
    if position.get("unit") == "rad":
        for at, values in enumerate(degrees, start=1):
            table = table.set_column(at, table.column_names[at], pa.array(np.radians(values)))
    storage = Storage.at(root / "stars")
    metadata = write_little(
        storage,
        table,
        degrees,
        position=position,
        parquet={"row_group_rows": 100_000} | fields.pop("parquet", {}),
        **fields,
    )
    commit(storage, metadata)
    return Published(storage, metadata, table, degrees)


def stars(degrees: tuple[np.ndarray, np.ndarray]) -> pa.Table:
    """A source table: numbers, texts, nulls."""
    rows = len(degrees[0])
    rng = np.random.default_rng(3)
    mag = pa.array(rng.normal(15, 3, rows).astype("f4"), mask=rng.uniform(size=rows) < 0.1)
    note = pa.array([None if i % 5 == 0 else f"star {i}" for i in range(rows)])
    ids = pa.array(rng.permutation(rows).astype("i8"))
    return pa.table({"id": ids, "ra": degrees[0], "dec": degrees[1], "mag": mag, "note": note})


def commit(storage: Storage, metadata: CatalogMetadata) -> None:
    """Commit a version and point the readers at it."""
    log = VersionLog(storage)
    assert log.commit(metadata.version, metadata.to_json(), metadata.write_id) == "committed"
    point_at_newest(storage)
