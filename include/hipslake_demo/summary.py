"""The demo's last words: one table over all catalogs, and how to open each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing

from hipslake.cube.store.upkeep import stats
from hipslake.specs.catalog_spec import Layout
from hipslake.specs.table_spec import TableSpec
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.catalogs import open_catalog, open_table

from hipslake_demo.outcome import STEPS, Outcome

_MIB = 1 << 20
HATS_LEAVES = "dataset/Norder=*/Dir=*/Npix=*.parquet"
_CUBE = "import hipslake; hipslake.Cube.open({uri!r}).query(conditions=hipslake.C('HIP') < 1000)"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table: a column for each catalog, a line for each measure.

    Sizes are in MiB, times in seconds of wall clock. The times of the steps are what the reports of the run
    that built the version say: the start of their processes is not in them, but it is in the last line.
    """
    lines: list[list[str]] = [["", *(outcome.metadata.catalog for outcome in outcomes)]]
    lines += [
        ["version", *(str(outcome.metadata.version) for outcome in outcomes)],
        ["layout", *(outcome.metadata.layout.value for outcome in outcomes)],
        ["rows", *(f"{outcome.metadata.total_rows:,}" for outcome in outcomes)],
        ["rejected rows", *(f"{outcome.metadata.rows_rejected:,}" for outcome in outcomes)],
        ["files", *(f"{sum(g.leaves for g in outcome.metadata.groups):,}" for outcome in outcomes)],
        ["MiB", *(f"{outcome.metadata.total_bytes / _MIB:,.1f}" for outcome in outcomes)],
    ]
    groups = list(dict.fromkeys(name for outcome in outcomes for name in outcome.partitions))
    for group in groups:
        per_order = [outcome.partitions.get(group, {}) for outcome in outcomes]
        for order in sorted({order for counts in per_order for order in counts}):
            label = f"partitions of {group!r}, order {order}"
            lines.append([label, *(str(counts.get(order, "")) for counts in per_order)])
    for step in STEPS:
        if any(step in outcome.seconds for outcome in outcomes):
            cells = [_seconds(outcome.seconds.get(step)) for outcome in outcomes]
            lines.append([f"seconds of {step}", *cells])
    lines.append(["seconds of this run in all", *(_seconds(outcome.seconds_now) for outcome in outcomes)])
    return aligned(lines)


def reuse(outcome: Outcome) -> str:
    """Return one line about what the run built, and what it took over."""
    name, version = outcome.metadata.catalog, outcome.metadata.version
    if not outcome.built_now:
        return f"{name}: reused version {version}; files, spec and library are those that it was built from"
    if outcome.reused_steps:
        return f"{name}: built version {version}, reused the finished steps {', '.join(outcome.reused_steps)}"
    return f"{name}: built version {version}"


def how_to_open(outcome: Outcome) -> str:
    """Return where the catalog and its sky maps lie, and the line that opens it with each library."""
    metadata = outcome.metadata
    lines = [f"{metadata.catalog}: {outcome.root}"]
    lines += [f"  sky map   {path}" for path in outcome.skymaps]
    paths = metadata.paths
    globs = {
        group.name: f"{outcome.root}/{paths.leaf_glob(metadata.write_id, group.name)}"
        for group in metadata.groups
    }
    adopted, in_lsdb = metadata.adopted, outcome.root
    if adopted is not None:
        in_lsdb, left = adopted.uri, "copied" if adopted.copied else "not copied"
        lines.append(f"  adopted   {adopted.uri}, whose {metadata.groups[0].leaves:,} leaves are {left}")
        tree = Storage.at(outcome.root).mounting(metadata.mounts).uri(metadata.tree_root(""))
        globs = dict.fromkeys(globs, f"{tree}/{HATS_LEAVES}")
    for group, glob in globs.items():
        opened = f"import glob, pyarrow.dataset as ds; ds.dataset(glob.glob({glob!r})).to_table()"
        lines.append(f"  pyarrow   {opened}{_which(group, globs)}")
    if metadata.layout is Layout.HATS:
        lines.append(f"  LSDB      import lsdb; lsdb.open_catalog({in_lsdb!r}).compute()")
    else:
        lines.append("  LSDB      (reads layout hats; this catalog has layout hipscat)")
    for group, glob in globs.items():
        lines.append(f"  Spark     spark.read.parquet({glob!r}){_which(group, globs)}")
    lines.append(f"  hipslake  import hipslake; hipslake.Catalog.open({outcome.root!r}).read()")
    if metadata.attribution:
        lines.append(f"  credit    {metadata.attribution}")
    return "\n".join(lines)


def table_of_iceberg(spec: TableSpec, warehouse: str) -> str:
    """Return what an Iceberg table holds, where it is, and the line that opens it."""
    with closing(open_catalog(spec.iceberg, warehouse)) as catalog:
        table = open_table(catalog, spec.table)
        snapshot = table.current_snapshot()
        told = snapshot.summary if snapshot is not None and snapshot.summary is not None else {}
        properties = {"type": spec.iceberg.type, "uri": catalog.properties["uri"]}
    rows, files = (int(told[f"total-{name}"] or 0) for name in ("records", "data-files"))
    given = ", ".join(f"{name}={value!r}" for name, value in properties.items())
    opened = f"load_catalog({spec.iceberg.name!r}, {given}).load_table({spec.table!r}).scan().to_arrow()"
    return "\n".join(
        [
            f"{spec.table}: {table.location()}",
            f"  holds     {rows:,} rows in {files:,} files; an Iceberg table",
            f"  pyiceberg from pyiceberg.catalog import load_catalog; {opened}",
        ]
    )


def cube_at(uri: str) -> str:
    """Return what a cube holds, dataset by dataset, where it is, and the line that opens it."""
    held = [
        f"  holds     {name}: {each.rows:,} rows in {each.partitions:,} partitions"
        for name, each in stats(Storage.at(uri)).items()
    ]
    return "\n".join([f"{uri.rsplit('/', 1)[-1]}: {uri}", *held, f"  hipslake  {_CUBE.format(uri=uri)}"])


def _which(group: str, groups: Collection[str]) -> str:
    return f"  # {group}" if len(groups) > 1 else ""


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def aligned(lines: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return the lines as text: the first columns to the left, others to the right, a rule below the head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = []
    for line in lines:
        cells = zip(line, widths, strict=True)
        placed = [
            cell.ljust(width) if at < left else cell.rjust(width) for at, (cell, width) in enumerate(cells)
        ]
        rows.append("  ".join(placed))
    rows.insert(1, "-" * len(rows[0]))
    return "\n".join(rows)
