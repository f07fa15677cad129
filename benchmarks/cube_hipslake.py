"""hipslake's side of `benchmarks.cube`: build a cube, query it, print seconds and rows."""

from __future__ import annotations

import json
import sys
import time

import pyarrow.parquet as pq
from hipslake import C, Cube
from hipslake.cube.store.operations import build
from hipslake.specs.cube import CubeColumns
from hipslake.storage import Storage

source, place = sys.argv[1], Storage.at(f"{sys.argv[2]}/cube")
roles = CubeColumns(
    dimension_columns=("x",), partition_columns=("p",), index_columns=("i",), suppress_index_on=("x",)
)
data = {name: pq.read_table(f"{source}/{name}.parquet") for name in ("seed", "more")}
seconds, rows = {}, {}
begin = time.perf_counter()
build(place, "bench", roles, data)
seconds["build"] = time.perf_counter() - begin
for what, conditions in {
    "all rows": None,
    "restricted": C("flag") == True,  # noqa: E712
    "one partition": C("p") == 3,
    "one value of an index": C("i") == 3,
}.items():
    begin = time.perf_counter()
    found = Cube.open(place.uri()).query(conditions=conditions).to_pandas()
    seconds[what] = time.perf_counter() - begin
    rows[what] = len(found)
print(json.dumps({"seconds": seconds, "rows": rows}))
