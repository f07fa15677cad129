"""What `spark.read.parquet` says of published catalogs: `spark_agrees.py LANDING CATALOGS` prints JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agreeing import READINGS, difference, source
from pyspark.sql import SparkSession


def main(landing: Path, catalogs: Path) -> list[dict[str, Any]]:
    settings = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    told = []
    for reading in READINGS:
        path = str(catalogs / reading.catalog / (reading.folder or reading.glob))
        found = spark.read.parquet(path).toArrow()
        told.append(
            {
                "reader": "spark",
                "catalog": reading.catalog,
                "group": reading.group,
                "rows": found.num_rows,
                "columns": found.column_names,
                "difference": difference(found, source(landing, reading.catalog), reading.key),
                "valid": True,
            }
        )
    spark.stop()
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
