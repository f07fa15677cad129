"""A catalog of nights with a margin, and a cube, by the code of the first cubes. Run by its commit's code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from hipslake.cube.store.operations import append, build
from hipslake.specs.cube import CubeColumns
from hipslake.storage import Storage

from tests.steps import in_process
from tests.steps.nights import Survey

ROLES = CubeColumns(dimension_columns=("x",), partition_columns=("p",), index_columns=("i",))


def main(place: Path) -> None:
    """Leave `warehouse/catalogs/stars` and `warehouse/cubes/sky` in a folder."""
    survey = Survey(place, more="margin: {arcsec: [3600]}")
    for number in range(3):
        survey.night(number, rows=150)
    in_process.show(survey.begin())
    cube = Storage.at(place / "warehouse" / "cubes" / "sky")
    x = np.arange(60)
    known = pa.table({"x": x[:40], "p": x[:40] % 6, "ok": x[:40] % 3 == 0})
    build(cube, "sky", ROLES, {"seed": pa.table({"x": x, "p": x % 6, "i": x // 10}), "checks": known})
    append(cube, {"checks": pa.table({"x": [0, 50], "p": [0, 2], "ok": [False, True]})})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
