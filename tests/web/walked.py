"""A warehouse to walk through in a browser: objects with light curves, nights, and a match of both."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.steps.run import Window, run_uri

from tests.steps import in_process
from tests.steps.nights import FIRST

OBJECTS = """\
name: objects
description: Objects along a stream and in a cluster, each with its light curve
source: {{uri: "{landing}/objects/*.parquet", format: parquet}}
position: {{ra: ra, dec: dec}}
threshold: 3000 rows
mapping_order: 8
index: [id]
layout: hats
"""
NIGHTS = """\
name: nights
description: What each night saw
mode: append
source: {{uri: "{landing}/night={{{{ night }}}}/*.parquet", format: parquet}}
position: {{ra: ra, dec: dec}}
threshold: 2000 rows
mapping_order: 6
layout: hats
margin: {{arcsec: [30]}}
"""
MATCH = """\
name: objects_x_nights
type: crossmatch
left: {catalog: objects}
right: {catalog: nights}
radius_arcsec: 20
"""
CORRECTED = [
    [(key, "I") for key in range(40)],
    [(key, "U") for key in range(5, 15)]
    + [(key, "D") for key in range(3)]
    + [(key, "I") for key in range(40, 47)],
]
"""Keys and operations of two nights of a catalog in mode upsert."""
CLUSTER = (56.75, 24.12)
PERIOD = 2.6  # days, of every object's brightness
_SOURCES = pa.list_(
    pa.struct(
        [("mjd", pa.float64()), ("mag", pa.float32()), ("mag_err", pa.float32()), ("band", pa.string())]
    )
)


def objects_table(rows: int = 30_000) -> pa.Table:
    """Objects of a stream across the sky, of a cluster, and a few anywhere."""
    rng = np.random.default_rng(20)
    ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    stream = rows // 2
    ra[:stream] = rng.uniform(10, 140, stream)
    dec[:stream] = np.clip(20 * np.sin(np.radians(2 * ra[:stream])) + rng.laplace(0, 4, stream), -90, 90)
    cluster = rows // 10
    ra[:cluster] = CLUSTER[0] + rng.normal(0, 0.4, cluster)
    dec[:cluster] = CLUSTER[1] + rng.normal(0, 0.4, cluster)
    mag = rng.uniform(12, 20, rows)
    return pa.table(
        {
            "id": 1_000_000 + np.arange(rows),
            "ra": ra,
            "dec": dec,
            "mag": mag,
            "colour": rng.normal(1, 0.5, rows),
            "class": rng.choice(["star", "galaxy", "quasar"], rows, p=[0.7, 0.25, 0.05]),
            "sources": _light_curves(rng, mag),
        }
    )


def _light_curves(rng: np.random.Generator, mag: np.ndarray) -> pa.Array:
    curves = []
    for mean in mag:
        times = np.sort(rng.uniform(60_000, 60_030, 14))
        phase = 2 * np.pi * times / PERIOD
        bands = rng.choice(["g", "r"], len(times))
        values = mean + 0.3 * np.sin(phase) + np.where(bands == "g", 0.4, 0.0)
        curves.append(
            [
                {"mjd": float(t), "mag": float(m), "mag_err": 0.03, "band": str(b)}
                for t, m, b in zip(times, values, bands, strict=True)
            ]
        )
    return pa.array(curves, _SOURCES)


def night_table(objects: pa.Table, number: int, seed: int = 0) -> pa.Table:
    """Some of the objects as a night saw them: a stripe that moves, the cluster, and each a little off."""
    rng = np.random.default_rng([number, seed])
    ra, dec = objects["ra"].to_numpy(), objects["dec"].to_numpy()
    seen = (np.abs(ra - 20 - 15 * number) < 12) & (np.abs(dec) < 60)
    seen |= np.hypot(ra - CLUSTER[0], dec - CLUSTER[1]) < 1
    at = np.flatnonzero(seen)
    return pa.table(
        {
            "object": objects["id"].to_numpy()[at],
            "ra": (ra[at] + rng.normal(0, 1e-3, len(at))) % 360,
            "dec": np.clip(dec[at] + rng.normal(0, 1e-3, len(at)), -90, 90),
            "mag": objects["mag"].to_numpy()[at] + rng.normal(0, 0.05, len(at)),
            "night": np.full(len(at), number, np.int32),
        }
    )


def make_warehouse(place: Path, *, nights: int = 4) -> tuple[Path, Path]:
    """The warehouse and the folder of specs. The last night but one came twice, and one is missing."""
    landing, warehouse, specs = place / "landing", place / "warehouse", place / "specs"
    for folder in ("catalogs", "joins", "tables", "cubes"):
        (specs / folder).mkdir(parents=True)
    objects = objects_table()
    (landing / "objects").mkdir(parents=True)
    pq.write_table(objects, landing / "objects" / "part-0.parquet")
    for name, text in (("objects", OBJECTS), ("nights", NIGHTS)):
        (specs / "catalogs" / f"{name}.yaml").write_text(text.format(landing=landing))
    (specs / "joins" / "objects_x_nights.yaml").write_text(MATCH)
    folder = _start(warehouse, specs, "objects", "objects-1")
    for step in (
        in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves,
        in_process.make_margins, in_process.make_indices, in_process.check, in_process.commit,
        in_process.show,
    ):  # fmt: skip
        step(folder)
    came = [number for number in range(nights + 1) if number != 2]
    for run, number in enumerate([*came, came[-2]]):
        again = run == len(came)
        _land(landing, number, night_table(objects, number, seed=int(again)))
        start = FIRST + timedelta(days=number)
        window = Window(start=start, end=start + timedelta(days=1), origin="data_interval")
        folder = _start(warehouse, specs, "nights", f"night-{run}", window=window, wait_minutes=0)
        in_process.freeze(folder)
        in_process.count(folder)
        in_process.append(folder)
    in_process.show(folder)
    in_process.publish_match(in_process.start_match(warehouse, specs / "joins" / "objects_x_nights.yaml"))
    make_corrected(warehouse)
    return warehouse, specs


def make_corrected(warehouse: Path) -> None:
    """A catalog in mode upsert, of two nights."""
    spec = {
        "name": "corrected",
        "description": "Rows that nights insert, correct and withdraw",
        "position": {"ra": "ra", "dec": "dec"},
        "mode": "upsert",
        "key": "id",
        "operation": {"column": "op"},
    }
    for number, records in enumerate(CORRECTED):
        keys, operations = zip(*records, strict=True)
        ra = CLUSTER[0] + 0.1 * np.array(keys) + 0.01 * number
        table = pa.table({"id": keys, "op": operations, "ra": ra, "dec": np.full(len(keys), CLUSTER[1])})
        interval = FIRST + timedelta(days=number)
        hipslake.ingest(table, spec=spec, warehouse=warehouse, interval=interval, spark=False)


def _start(warehouse: Path, specs: Path, name: str, run_id: str, **fields: object) -> object:
    dag = f"catalog_ingest__{name}"
    return in_process.start(
        warehouse, specs / "catalogs" / f"{name}.yaml", run_id,
        run_uri=run_uri(str(warehouse), dag, run_id), dag_id=dag, **fields,
    )  # fmt: skip


def _land(landing: Path, number: int, table: pa.Table) -> None:
    folder = landing / f"night={FIRST + timedelta(days=number):%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "part-0.parquet")
