"""What the pages of the DAGs of cubes say of them."""

from __future__ import annotations

from pathlib import Path

from hipslake.specs.cube_spec import CubeDatasetSpec, CubeSpec

QUERY_DOCUMENT = """### Query a cube

Writes the rows of a cube that meet the conditions to a new folder, whole or not at all; nothing that is there
is replaced. Empty fields take everything.

| field | for example |
|---|---|
| cube | `sky` (of the warehouse), `/data/cubes/sky`, `s3://bucket/cubes/sky` |
| conditions | `ok and mag between 9 and 12 and HIP in (71683, 71681)`, `period is not null` |
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


_CUBE_OUTCOME = """\
`resolve` freezes the spec, the params and the version of every source, and compares them with what the
newest version of the cube was made of. `build` writes what is new, reads it back, commits one version for all
datasets with the table of how their partitions align, and emits the cube's asset; with nothing new it is
skipped.
The log says what was written, and which partitions were dropped and why."""


def cube_build_document(spec: CubeSpec, path: Path) -> str:
    """Return the page of a cube's build DAG, in Markdown."""
    return f"""### Build {spec.name}

{_cube_table(spec, path)}

{_CUBE_OUTCOME}

By default a run adds the datasets that the cube lacks, and reads again those whose source has changed. The
form offers to build all anew, to write some datasets anew, or to append their rows: there the last write
wins, cell by cell.
"""


def cube_align_document(spec: CubeSpec, path: Path) -> str:
    """Return the page of the DAG that aligns a cube, in Markdown."""
    asked, joined = spec.materialise, ""
    if asked is not None and asked.name is not None:
        joined = f"""
The joined rows are kept with the version, and published as catalog `{asked.name}`: `materialise` starts its
run, the steps behind it are those of an ingest."""
    elif asked is not None:
        joined = "\nThe joined rows are kept with the version, as Parquet files."
    return f"""### Align {spec.name}

{_cube_table(spec, path)}

{_CUBE_OUTCOME}

Whatever event woke the run, it looks at all datasets. Only partitions that come out other than they stand are
replaced; the files of all others stay.
{joined}
"""


def _cube_table(spec: CubeSpec, path: Path) -> str:
    orders = [f"`{name}` (order {order})" for name, order in spec.pixel_orders.items()]
    cut = [f"`{name}`" for name in spec.partition_columns if name not in spec.pixel_orders]
    datasets = "\n".join(
        f"| `{name}`{' (seed)' if name == spec.seed else ''} | {_cube_source(each)} |"
        for name, each in sorted(spec.datasets.items())
    )
    conditions = (spec.conditions or "none").replace("|", "\\|")
    return f"""{spec.description}

| | |
|---|---|
| spec | `{path}` |
| cells | {", ".join(f"`{name}`" for name in spec.dimension_columns)} |
| partitions | {", ".join([*cut, *orders])} |
| conditions | `{" ".join(conditions.split())}` |

| dataset | rows |
|---|---|
{datasets}"""


def _cube_source(dataset: CubeDatasetSpec) -> str:
    if dataset.catalog is not None:
        found = f"catalog `{dataset.catalog}`" + (f", version {dataset.version}" if dataset.version else "")
    elif dataset.table is not None:
        found = f"table `{dataset.table}` in Iceberg catalog `{dataset.iceberg.name}`"
        found += f", snapshot {dataset.snapshot}" if dataset.snapshot else ""
    else:
        found = f"`{dataset.parquet}`"
    line = " ".join((dataset.filters or "").split()).replace("|", "\\|")
    return found + (f", with `{line}`" if line else "")
