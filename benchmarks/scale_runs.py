"""Measured programs of the benchmark of a billion rows: each runs in a process of its own.

python -m benchmarks.scale_runs ingest --warehouse W --landing L --name stars --night 0 --spark
python -m benchmarks.scale_runs cone --warehouse W --ra 180 --dec 30 --radius 3
python -m benchmarks.scale_runs match --warehouse W
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks import made_rows
from benchmarks.processes import ROOT
from benchmarks.store_runs import FIRST, Spans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACED: dict[str, Any] = {
    "mode": "append",
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "1000000 rows",
    "parquet": {"level": 1},
}
RADIUS = 1.0  # arcsec
CATALOGS: dict[str, dict[str, Any]] = {"stars": {}, "others": {"margin": {"arcsec": [5]}}}
MATCH: dict[str, Any] = {
    "name": "match",
    "type": "crossmatch",
    "left": {"catalog": "stars", "columns": ["id", "mag"]},
    "right": {"catalog": "others", "columns": ["id"]},
    "radius_arcsec": RADIUS,
    "threshold": "1000000 rows",
    "parquet": {"level": 1},
}


def session() -> SparkSession:
    """A session with its Python workers up."""
    from hipslake.spark import settings
    from hipslake.spark.session import open_session

    paths = [str(ROOT), settings.WORKERS["spark.executorEnv.PYTHONPATH"]]
    settings.WORKERS |= {
        "spark.python.daemon.module": "benchmarks.made_rows_daemon",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
    }
    found = open_session("scale")
    cores = found.sparkContext.defaultParallelism
    assert found.sparkContext.parallelize(range(cores), cores).map(lambda number: number).count() == cores
    return found


def ingest(spans: Spans, options: Any) -> dict[str, Any]:
    """Publish a night of a catalog, or its first version."""
    from hipslake.api.ingesting import ingested

    made_rows.register()
    spec = {
        "name": options.name,
        "source": {
            "uri": f"{options.landing}/{options.name}/night={{{{ night }}}}/*.made",
            "format": made_rows.FORMAT,
        },
    }
    spark = session() if options.spark else False
    with spans.over("all"):
        outcome = ingested(
            None,
            spec=PLACED | CATALOGS[options.name] | spec,
            warehouse=options.warehouse,
            interval=FIRST + timedelta(days=options.night),
            spark=spark,
            told=spans.told,
        )
    catalog = outcome.catalog
    files = [group.leaves for group in catalog.metadata.groups]
    return {"rows": catalog.metadata.total_rows, "leaves": files[0]}


def cone(spans: Spans, options: Any) -> dict[str, Any]:
    """Open the catalog and read a cone, twice: the second time its files are in the kernel's cache."""
    import pyarrow.compute as pc
    from hipslake import Catalog
    from hipslake.sphere.regions import Cone

    region = Cone(options.ra, options.dec, radius_deg=options.radius)
    with spans.over("open"):
        catalog = Catalog.open(f"{options.warehouse}/catalogs/stars")
    for name in ("cone", "cone again"):
        with spans.over(name):
            found = catalog.read(region=region)
    return {
        "rows": found.num_rows,
        "sum": pc.sum(found["id"]).as_py(),
        "leaves": len(catalog.pixels_in(region)),
    }


def match(spans: Spans, options: Any) -> dict[str, Any]:
    """Match the catalog with the other one."""
    import pyarrow.compute as pc
    from hipslake.api.publishing import published_join

    spark = session()
    with spans.over("all"):
        outcome = published_join(MATCH, warehouse=options.warehouse, spark=spark, told=spans.told)
    catalog = outcome.catalog
    names = [name for name in catalog.schema.names if name == "id" or name.startswith("id_")]
    own = 0
    for table in catalog.tables(names):
        own += pc.sum(pc.equal(table[names[0]], table[names[1]])).as_py() or 0
    return {"rows": catalog.metadata.total_rows, "own": own}


def check(spans: Spans, options: Any) -> dict[str, Any]:
    """Read the keys of all rows: how many there are, their sum, and that of their squares modulo 2**64."""
    import numpy as np
    from hipslake import Catalog

    rows = 0
    total, squares = np.uint64(0), np.uint64(0)
    with spans.over("all"), np.errstate(over="ignore"):
        for table in Catalog.open(f"{options.warehouse}/catalogs/stars").tables(["id"]):
            ids = table["id"].to_numpy().astype(np.uint64)
            rows += len(ids)
            total += ids.sum()
            squares += (ids * ids).sum()
    return {"rows": rows, "sum": int(total), "squares": int(squares)}


def verify(spans: Spans, options: Any) -> dict[str, Any]:
    """Read every byte of the catalog back."""
    from hipslake import Catalog

    with spans.over("all"):
        report = Catalog.open(f"{options.warehouse}/catalogs/stars").verify()
    for problem in report.problems:
        print(problem)
    return {"problems": len(report.problems), "rows": 0}


PROGRAMS = {"ingest": ingest, "cone": cone, "match": match, "check": check, "verify": verify}


def main(argv: list[str] | None = None) -> None:
    """Run one program; what it took goes to standard output as a line of JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--landing")
    parser.add_argument("--name", choices=CATALOGS, default="stars")
    parser.add_argument("--night", type=int, default=0)
    parser.add_argument("--spark", action="store_true", help="in a session, and else in this process")
    for name in ("--ra", "--dec", "--radius"):
        parser.add_argument(name, type=float)
    options = parser.parse_args(argv)
    spans = Spans()
    told = PROGRAMS[options.program](spans, options)
    print(json.dumps({"spans": spans.kept, "told": told, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main()
