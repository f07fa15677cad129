"""What the last code that wrote format version 1 made, and runs that it began. Run by its commit's code.

Of `stars`: four nights, one of them brought twice, an index, a margin. `objects` with their `sources`, joined
as `joined`; `objects` matched with `stars` as `matched`. A cube of `stars` and of what is known of some, with
its joined rows. An Iceberg table of the first three nights. And one run each of an ingest, an append, a join
and a sink that had frozen what it is to do, and had written nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.steps.nights import Survey, night_rows
from tests.steps.sources_of_objects import Lake, objects_table, sources_table

NIGHTS = (60, 60, 30, 40)
"""Rows of each; those of the second were brought twice, with other rows."""

MORE = "append: add_file\nmargin: {arcsec: [3600]}\nindex: [id]\n"
MATCH = """\
name: matched
type: crossmatch
left: {catalog: objects, columns: [id, class]}
right: {catalog: stars, columns: [id, mag]}
radius_arcsec: 60
"""
SINK = "source: {catalog: stars, rows: increment}\npartition: ['healpix[0]']\n"
CUBE: dict[str, Any] = {
    "name": "sky",
    "dimension_columns": ["id"],
    "partition_columns": ["pixel"],
    "pixel_orders": {"pixel": 0},
    "seed": "stars",
    "suppress_index_on": ["id"],
    "index_columns": ["number"],
    "conditions": "number is not null",
    "materialise": {},
}


def nights() -> list[pa.Table]:
    """The rows of each night, as they are to be in the newest version."""
    return [night_rows(number, rows, seed=number == 1) for number, rows in enumerate(NIGHTS)]


def known(of: list[pa.Table]) -> pa.Table:
    """What is known of every third star of some nights."""
    ids = np.concatenate([night["id"].to_numpy() for night in of])[::3]
    return pa.table({"id": ids, "number": np.arange(len(ids))})


def near_stars() -> pa.Table:
    """Objects within 36 arcsec of the stars of the first night."""
    objects, stars = objects_table(rows=NIGHTS[0]), nights()[0]
    for name in ("ra", "dec"):
        at = objects.column_names.index(name)
        objects = objects.set_column(at, name, pa.array(stars[name].to_numpy() + 0.005))
    return objects


def settle(place: Path) -> None:
    """Give source files times in whole seconds, which the archive keeps, for the runs that it began."""
    for path in (place / "landing").glob("*/*"):
        os.utime(path, (1_790_000_000, 1_790_000_000))


def cube_spec(place: Path) -> dict[str, Any]:
    """The cube of the stars, and of what is known of some."""
    datasets = {
        "stars": {"catalog": "stars", "columns": ["_healpix_29", "id", "ra", "mag"]},
        "known": {"parquet": f"{place}/landing/known/*.parquet", "partition_columns": []},
    }
    return CUBE | {"datasets": datasets}


def main(place: Path) -> None:
    """Leave all that in `warehouse`, `landing` and `state` of a folder."""
    # Modules as they were called at that commit; the tests, which import this one, have others.
    from hipslake.cube.store.from_spec import build_from_spec
    from hipslake.specs.cube import CubeSpec

    from tests.steps import in_process, sinks, test_equijoin

    survey = Survey(place, threshold="50 rows", more=MORE)
    survey.night(0, NIGHTS[0])
    survey.night(1, NIGHTS[1])
    survey.land(1, nights()[1])
    survey.append(1)
    survey.night(2, NIGHTS[2])
    in_process.make_indices(survey.begin(), published=True)
    (place / "state").mkdir()
    tables = sinks.Lake(place)
    tables.write_spec(SINK)
    tables.run()
    survey.night(3, NIGHTS[3])
    in_process.show(survey.begin())
    lake = Lake(place, runs=20)
    objects = near_stars()
    lake.ingest_objects(objects)
    lake.ingest_sources(sources_table(objects, rows=200))
    test_equijoin.publish(
        lake, nested={"time": "time"}, threshold="30 rows", margin={"arcsec": [3600]}, index=["id"]
    )
    match = place / "matched.yaml"
    match.write_text(MATCH)
    in_process.publish_match(in_process.start_match(survey.warehouse, match))
    (place / "landing" / "known").mkdir()
    pq.write_table(known(nights()[:3]), place / "landing" / "known" / "a.parquet")
    settle(place)
    build_from_spec(CubeSpec.model_validate(cube_spec(place)), survey.warehouse)
    shutil.rmtree(place / "warehouse" / "_runs")  # all of them have ended
    survey.land(4, night_rows(4, 50))
    lake.land("late", objects)
    settle(place)
    survey.start(4)
    late = lake.start("late", threshold="40 rows")
    in_process.freeze(late)
    in_process.count_by_tasks(late)
    in_process.make_plan(late)
    test_equijoin.start(lake, threshold="20 rows")
    tables.resolve()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
