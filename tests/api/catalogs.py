"""Little catalogs with columns of many kinds, in every layout, whose leaves have several row groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hipslake.storage.folder import Storage

from tests.catalog.little import sky, write_little
from tests.catalog.publishing import SHAPES, Published, commit

LAYOUTS = {
    "hats": {"layout": "hats"},
    "hipscat": {"layout": "hipscat"},
    "hats, two groups": {
        "layout": "hats",
        "column_groups": [
            {"name": "main"},
            {"name": "details", "columns": ["mag", "note", "seen"], "threshold": "80 rows"},
        ],
    },
    "hipscat, two groups": {
        "layout": "hipscat",
        "column_groups": [
            {"name": "main"},
            {"name": "details", "columns": ["mag", "note", "seen"], "threshold": "80 rows"},
        ],
    },
}
assert set(LAYOUTS) == set(SHAPES)


def publish_many_kinds(
    root: Path, layout: str, *, rows: int = 2500, seed: int = 11, **fields: Any
) -> Published:
    """Publish version 1 of a catalog of random rows."""
    degrees = sky(rows, seed=seed)
    storage = Storage.at(root / "stars")
    table = many_kinds(degrees, seed)
    options = {
        "position": {"ra": "ra", "dec": "dec"},
        "parquet": {"row_group_rows": 60},
        "threshold": "200 rows",
        **fields,
    }
    metadata = write_little(storage, table, degrees, **LAYOUTS[layout], **options)
    commit(storage, metadata)
    return Published(storage, metadata, table, degrees)


def many_kinds(degrees: tuple[np.ndarray, np.ndarray], seed: int) -> pa.Table:
    """Whole and real numbers, NaN and nulls, texts, times, truths, dictionaries, decimals and lists."""
    rng = np.random.default_rng(seed)
    rows = len(degrees[0])

    def nulls(share: float) -> np.ndarray:
        return rng.uniform(size=rows) < share

    mag = rng.normal(15, 3, rows).astype("f4")
    mag[rng.uniform(size=rows) < 0.1] = np.nan
    described = {"unit": "mag", "description": "magnitude <G> & more", "ucd": "phot.mag;em.opt"}
    columns = {
        "id": pa.array(rng.permutation(rows).astype("i8") * 7 - 1000),
        "ra": pa.array(degrees[0]),
        "dec": pa.array(degrees[1]),
        "mag": pa.array(mag, mask=nulls(0.1)),
        "note": pa.array([f"stär {i % 97}" * (1 + i % 3) for i in range(rows)], mask=nulls(0.2)),
        "seen": pa.array(rng.integers(0, 10**15, rows), pa.int64(), mask=nulls(0.2)).cast(pa.timestamp("us")),
        "good": pa.array(rng.uniform(size=rows) < 0.5, mask=nulls(0.1)),
        "band": pa.array(rng.choice(["g", "r", "i"], rows), mask=nulls(0.1)).dictionary_encode(),
        "price": pa.array(rng.integers(-999, 999, rows), pa.int32(), mask=nulls(0.1)).cast(pa.decimal128(12)),
        "flux": pa.array([[float(i), None][: i % 3] if i % 5 else None for i in range(rows)]),
    }
    schema = pa.schema(
        [
            pa.field(name, values.type, metadata=described if name == "mag" else None)
            for name, values in columns.items()
        ]
    )
    return pa.table(list(columns.values()), schema=schema)
