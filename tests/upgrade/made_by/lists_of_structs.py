"""Light curves as lists of structs: of a join, and with nights of a catalog. Run by its commit's code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.report import perform

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.steps.sources_of_objects import Lake, objects_table, sources_table


def seen() -> tuple[pa.Table, pa.Table]:
    """Objects, and sources with nulls, NaN, texts and a unit; a tenth of the objects has none."""
    objects = objects_table(rows=150)
    sources = sources_table(objects, rows=700)
    flux = [None if at % 7 == 0 else float("nan") if at % 7 == 1 else at / 8 for at in range(700)]
    sources = sources.set_column(
        5, pa.field("flux", pa.float64(), metadata={"unit": "mJy"}), pa.array(flux, pa.float64())
    )
    band = pa.array([None if at % 11 == 0 else "gri"[at % 3] for at in range(700)])
    return objects, sources.append_column("band", band)


def night(number: int, rows: int = 120) -> pa.Table:
    """A night whose rows have some values each: none, null and NaN among them."""
    rng = np.random.default_rng(number)
    curves = [
        None
        if at % 10 == 0
        else [{"t": float(step), "v": _value(at + step)} for step in range(rng.integers(0, 4))]
        for at in range(rows)
    ]
    kind = pa.list_(pa.struct([("t", pa.float64()), ("v", pa.float32())]))
    return night_rows(number, rows).append_column("curve", pa.array(curves, kind))


def _value(number: int) -> float | None:
    return None if number % 5 == 0 else float("nan") if number % 5 == 1 else number / 4


def main(place: Path) -> None:
    """Leave `objects`, `sources`, `joined` and `stars` in `warehouse/catalogs` of a folder."""
    from hipslake.spark import equijoin as joining  # here: tests of this commit use the functions above
    from hipslake.steps import equijoin
    from tests.steps.test_equijoin import start

    lake = Lake(place)
    objects, sources = seen()
    lake.ingest_objects(objects)
    lake.ingest_sources(sources)
    folder = start(
        lake, nested={"time": "time"}, threshold="60 rows", margin={"arcsec": [3600]}, index=["id"]
    )
    request = equijoin.EquijoinRequest(run_uri=folder.uri)
    perform(lambda asked: joining.run(asked, ThisProcess()), request, equijoin.EquijoinReport)
    lake.build_index(folder)
    in_process.make_margins(folder)
    lake.finish(folder)
    survey = Survey(place, threshold="100 rows", more="append: add_file")
    for number in range(2):
        survey.land(number, night(number))
        survey.append(number)
    in_process.show(survey.begin())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
