"""What the pages of the DAGs of cubes say of them."""

from __future__ import annotations

QUERY_DOCUMENT = """### Query a cube

Writes the rows of a cube that meet the conditions to a new folder, whole or not at all; nothing that is there
is replaced. Empty fields take everything.

| field | for example |
|---|---|
| cube | `sky` (of the warehouse), `/data/cubes/sky`, `s3://bucket/cubes/sky` |
| conditions | `ok == True and 9.0 <= mag < 12.0 and HIP in [71683, 71681]`, `period is not null` |
| | `(C("ok") == True) & C("HIP").isin([71683])` |
| partition by | `HIP`: a folder `HIP=71683`, with a file of its rows, for every value |
| output | `bright` (below `exports/` of the warehouse), `/data/bright`, `s3://bucket/bright` |

The log shows how the query was answered: the partitions of each dataset, how they align, and why others were
dropped. Files that cannot match are never opened. Spark is started where more than 2 GiB have to be read.
"""
