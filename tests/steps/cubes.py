"""A cube of a warehouse for tests of steps and DAGs, and requests about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.operations import build
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

ROLES = CubeColumns(
    dimension_columns=("x",), partition_columns=("p",), index_columns=("i", "kind"), suppress_index_on=("x",)
)
X = np.arange(60)
SEED = pa.table({"p": X % 6, "x": X, "i": X // 10, "mag": X / 4})
CHECKS = pa.table(
    {"p": X[:40] % 6, "x": X[:40], "ok": X[:40] % 3 == 0, "kind": [f"k/{n % 2}" for n in X[:40]]}
)


def cube_in(warehouse: Path, name: str = "sky") -> Storage:
    """A seed of 60 cells in 6 partitions, and a dataset that knows 40 of them."""
    place = Storage.at(cube_uri(str(warehouse), name))
    build(place, name, ROLES, {"seed": SEED, "checks": CHECKS})
    return place


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for those of runs."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and "_runs" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
