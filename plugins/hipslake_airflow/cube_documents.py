"""What the pages of the DAGs of cubes say of them."""

from __future__ import annotations

from hipslake.specs.cube import CubeSpec

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

REMOVE_DOCUMENT = """### Remove partitions of a cube

The next version of the cube is without the partitions that meet the conditions, which are on partition
columns. A dataset that is not partitioned by these columns would lose rows of other partitions: then nothing
is removed, and the message names it. The files stay until the cleanup takes the older versions away.
"""

DELETE_DOCUMENT = """### Delete a cube

With datasets, the next version is without them; the seed cannot go alone. Without, the cube goes, with all
versions and files: nothing brings it back. The name has to be typed once more, and the dry run turned off.
"""

COPY_DOCUMENT = """### Copy a cube

The newest version comes to lie at the target, as one version there, or nothing does. Every file is held
against its SHA-256 on the way.
"""

STATS_DOCUMENT = """### What a cube weighs

Partitions, files, rows and bytes of each dataset, in the log and in the report of the run. No data file is
opened.
"""


def cleanup_document(spec: CubeSpec) -> str:
    """Return the page of a cube's cleanup."""
    return f"""### Clean {spec.name} up

Takes versions away of which there are {spec.vacuum.keep_versions} newer ones and that were replaced
{spec.vacuum.keep_days:g} days ago, the files that only they need, what operations that died have left, and
the folders of old runs. A run that is started by hand only says what it would do, unless its form says
otherwise.

Schedule: {spec.vacuum.schedule or "none, so it runs by hand only"}.
"""
