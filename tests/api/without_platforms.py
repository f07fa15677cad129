"""A program where neither Airflow nor Spark can be imported: it prints what it has published.

Run as `without_platforms.py FOLDER`.
"""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

REFUSED = ("airflow", "pyspark", "py4j")


class Refuse(MetaPathFinder):
    """Finds nothing of the platforms, as where they are not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(folder: str) -> None:
    sys.meta_path.insert(0, Refuse())
    import hipslake
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    rows = pa.table(
        {"id": np.arange(2000), "ra": rng.uniform(0, 360, 2000), "dec": rng.uniform(-60, 60, 2000)}
    )
    rows = rows.append_column("name", pa.array([f"star {number}" for number in range(2000)]))
    place = Path(folder)
    spec = {
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "200 rows",
        "mapping_order": 5,
        "margin": {"arcsec": [20]},
        "index": ["id"],
    }
    catalog = hipslake.ingest(rows, spec=spec | {"name": "stars"}, warehouse=place)
    assert catalog.verify().ok
    assert catalog.find("id", [17]).num_rows == 1
    nights = spec | {"name": "nights", "mode": "append", "index": []}
    for night in (61000, 61001):
        hipslake.ingest(rows.slice(night % 7, 100), spec=nights, warehouse=place, interval=night)
    match = {"name": "pairs", "left": "nights", "right": "stars", "radius_arcsec": 1}
    pairs = hipslake.publish(match, warehouse=place)
    pairs.export(place / "pairs.parquet")
    assert pq.read_metadata(place / "pairs.parquet").num_rows == pairs.metadata.total_rows == 200
    assert not {*REFUSED} & {name.partition(".")[0] for name in sys.modules}
    print(json.dumps(sorted(catalog.read(["id"])["id"].to_pylist())))


if __name__ == "__main__":
    main(*sys.argv[1:])
