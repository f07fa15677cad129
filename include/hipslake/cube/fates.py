"""What became of every partition in a query: included, or dropped, and why."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hipslake.cube.query_plan import QueryPlan
from hipslake.cube.row_codes import paired_codes, places_in
from hipslake.cube.sorting import sorted_by

INCLUDED = "included"


def partition_fates(plan: QueryPlan) -> pa.Table:
    """The partitions of all datasets that are cut by all partition columns, each with its fate.

    Returns
    -------
    pyarrow.Table
        The partition columns; `datasets`, those that have the partition; `fate`: `included`, or why it was
        dropped: `the seed ... is missing`, `... is missing` for a restricted dataset, `no file of ... meets
        ...`.
    """
    keys = list(plan.cube.partition_columns)
    whole = {
        name: table for name, table in plan.tables.items() if set(keys) == {*table.dataset.partition_columns}
    }
    every = _distinct(pa.concat_tables([table.physical.select(keys) for table in whole.values()]), keys)
    fate = np.full(every.num_rows, INCLUDED, object)
    names = np.full(every.num_rows, "", object)
    for name in [plan.cube.seed, *plan.others]:
        if name not in whole:
            continue
        present = _among(every, whole[name].physical, keys)
        names[present] = [f"{text}, {name}".removeprefix(", ") for text in names[present]]
        if name == plan.cube.seed or name in plan.intention.restricted:
            kept = _among(every, whole[name].grouped, keys)
            open_case = fate == INCLUDED
            what = f"the seed {name}" if name == plan.cube.seed else name
            fate[open_case & ~present] = f"{what} is missing"
            fate[open_case & present & ~kept] = f"no file of {name} meets {plan.intention.before[name]}"
    joined = _among(every, plan.aligned, keys)
    fate[(fate == INCLUDED) & ~joined] = "no file of a restricted dataset belongs to it"
    return every.append_column("datasets", pa.array(names, pa.string())).append_column(
        "fate", pa.array(fate, pa.string())
    )


def _distinct(table: pa.Table, keys: list[str]) -> pa.Table:
    return sorted_by(table.group_by(keys, use_threads=False).aggregate([]), keys)


def _among(table: pa.Table, other: pa.Table, keys: list[str]) -> np.ndarray:
    found: np.ndarray = places_in(*paired_codes(table, other, keys)) >= 0
    return found
