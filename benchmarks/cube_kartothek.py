"""kartothek's side of `benchmarks.cube`, for Python 3.8: the same work as `cube_hipslake.py`."""

import functools
import json
import sys
import time

import pandas as pd
import storefact
from kartothek.core.cube.conditions import C
from kartothek.core.cube.cube import Cube
from kartothek.io.eager_cube import build_cube, query_cube

source, place = sys.argv[1:]
store = functools.partial(storefact.get_store_from_url, f"hfs://{place}")
cube = Cube(
    dimension_columns=["x"],
    partition_columns=["p"],
    uuid_prefix="bench",
    index_columns=["i"],
    suppress_index_on=["x"],
)
data = {name: pd.read_parquet(f"{source}/{name}.parquet") for name in ("seed", "more")}
seconds, rows = {}, {}
begin = time.perf_counter()
build_cube(data=data, cube=cube, store=store)
seconds["build"] = time.perf_counter() - begin
for what, conditions in {
    "all rows": None,
    "restricted": C("flag") == True,  # noqa: E712
    "one partition": C("p") == 3,
    "one value of an index": C("i") == 3,
}.items():
    begin = time.perf_counter()
    (found,) = query_cube(cube=cube, store=store, conditions=conditions)
    seconds[what] = time.perf_counter() - begin
    rows[what] = len(found)
print(json.dumps({"seconds": seconds, "rows": rows}))
