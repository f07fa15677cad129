"""The nights of a soak, one after the other, and what is measured after each."""

from __future__ import annotations

import json
import time
from pathlib import Path

from hipslake.spark.engine import SparkEngine
from hipslake.spark.session import open_session
from pyspark.sql import SparkSession

from tests.soak.chain import EVERY_NIGHT, Chain
from tests.soak.gauges import disk, openings, orphans, processes

Night = dict[str, float]


def run_nights(place: Path, nights: int, *, objects: int, rows: int, log: Path) -> list[Night]:
    """Run some nights in a Spark session of their own, and check the end of it all.

    Parameters
    ----------
    place : Path
        For the warehouse.
    nights : int
    objects, rows : int
        As for `Chain`.
    log : Path
        A file that gets a line of JSON per night.
    """
    spark = open_session("soak")
    chain = Chain(place, SparkEngine(spark), objects=objects, rows=rows)
    chain.begin()
    with log.open("w") as file:
        found = []
        for _ in range(nights):
            found.append(one_night(chain, spark))
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
            told = {name: round(value, 4) for name, value in found[-1].items()}
            print(chain.nights, json.dumps(told), flush=True)
    chain.check()
    return found


def one_night(chain: Chain, spark: SparkSession) -> Night:
    """A night, and what is so after it; what is on the disk, after a vacuum only."""
    start = time.perf_counter()
    chain.night()
    seconds = time.perf_counter() - start
    night: Night = {f"{dag}: s": value for dag, value in chain.seconds.items()}
    if len(night) == len(EVERY_NIGHT):
        night["a night: s"] = seconds
    night |= processes(spark) | openings(chain)
    if "vacuum" in chain.seconds:
        left = orphans(chain)
        for path in left:
            print(f"an orphan: {path}")
        night |= {"orphans": len(left), **disk(chain)}
    return night
