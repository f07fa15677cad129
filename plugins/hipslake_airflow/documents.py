"""What the UI shows about a catalog's DAGs."""

from __future__ import annotations

from pathlib import Path

from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.specs.compaction_spec import CompactionMode, CompactionSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec, JoinSpec, SideSpec
from hipslake.specs.margin_spec import distances_text
from hipslake.specs.table_spec import CatalogRowsSpec, TableMode, TableSpec
from hipslake.specs.vacuum_spec import VacuumSpec

from hipslake_airflow.schedules import when

_STEPS = {
    Mode.REPLACE: """\
`resolve` freezes the spec, the params and the window of the run. `wait` waits for the files, `inputs` lists
them and skips the run if nothing changed since the newest version. `histogram` counts rows per pixel, `plan`
splits the sky into leaves, `write` writes them; `margin` and `index`, where the spec asks for them, read the
leaves once more, side by side. `verify` reads everything back, `publish` commits the version and emits the
catalog's asset, `view` shows the version to other readers. No reader sees anything before.""",
    Mode.APPEND: """\
A run adds the files of its interval; run again, it puts them in the place of those that it added before.
`resolve` freezes the spec, the params and the interval of the run. `wait` waits for the files, `inputs` lists
them and skips the run if they are what was added before. `histogram` counts rows per pixel, `append` merges
them into the leaves that they touch, commits the version and emits the catalog's asset, `view` shows the
version to other readers. Several intervals may be appended at the same time.""",
}


def ingest_document(spec: CatalogSpec, path: Path) -> str:
    """Return the page of a catalog's ingest DAG, in Markdown."""
    groups = "\n".join(
        f"| `{group.name}` | {'all other columns' if group.columns == '*' else ', '.join(group.columns)} "
        f"| {spec.threshold_of(group.name)} |"
        for group in spec.column_groups
    )
    position = spec.position
    epoch = f", epoch J{position.epoch}" if position.epoch is not None else ""
    return f"""### {spec.name}

{spec.description}

{spec.attribution}

| | |
|---|---|
| spec | `{path}` |
| source | `{spec.source.uri}` ({spec.source.format}) |
| position | `{position.ra}`, `{position.dec}` ({position.unit}, {position.frame}{epoch}) |
| layout | {spec.layout.value}, orders {spec.lowest_order} to {spec.highest_order} |
| rows not on the sky | {spec.bad_rows.policy} |

| column group | columns | threshold |
|---|---|---|
{groups}

{_STEPS[spec.mode]}
"""


def _derived(spec: JoinSpec) -> str:
    """Return what is made of the outcome's leaves, in words."""
    made = [f"a margin of {distances_text(spec.margin.arcsec)}"] if spec.margin.arcsec else []
    made += ["an index of " + ", ".join(f"`{name}`" for name in spec.index)] if spec.index else []
    return "".join(f"; {each}" for each in made)


def crossmatch_document(spec: CrossmatchSpec, path: Path) -> str:
    """Return the page of a cross-match's DAG, in Markdown."""
    kinds = {
        "inner": "rows of the left catalog with a match",
        "left": "all rows of the left catalog, with nulls where there is no match",
        "anti": "rows of the left catalog without a match",
        "outer": "all rows of both catalogs, side by side where they match",
    }
    neighbours = "all" if spec.neighbours == "all" else f"the {spec.neighbours} nearest"
    epoch = f"J{spec.epoch:g}" if spec.epoch is not None else "as they are"
    return f"""### {spec.name}

{spec.description}

| | |
|---|---|
| spec | `{path}` |
| left | `{spec.left.catalog}`{_filtered(spec.left)} |
| right | `{spec.right.catalog}`{_filtered(spec.right)} |
| separation | {spec.min_radius_arcsec:g} to {spec.radius_arcsec:g} arcsec; {neighbours} |
| positions | {epoch} |
| outcome | {kinds[spec.how]}; leaves of at most {spec.threshold}{_derived(spec)} |
| runs | {when(spec.schedule, _versions_of(spec.follows))} |

`resolve` freezes the spec, the params and the versions of both catalogs, and checks that they can be matched:
the right one needs a margin. `crossmatch` matches stretch by stretch and writes the leaves, `margin` and
`index`, where the spec asks for them, read them once more. `verify` reads everything back, `publish` commits
the version and emits the catalog's asset, `view` shows it to other readers. A run whose catalogs and spec are
those of the newest version does nothing.
"""


def equijoin_document(spec: EquijoinSpec, path: Path) -> str:
    """Return the page of an equi-join's DAG, in Markdown."""
    kinds = {
        "inner": "rows of the left catalog with a partner",
        "left": "all rows of the left catalog, with nulls where there is no partner",
        "anti": "rows of the left catalog without a partner",
    }
    outcome = f"rows of the left catalog with nested `{spec.nested.name}`" if spec.nested else kinds[spec.how]
    return f"""### {spec.name}

{spec.description}

| | |
|---|---|
| spec | `{path}` |
| left | `{spec.left.catalog}`, by `{spec.keys[0]}`{_filtered(spec.left)} |
| right | `{spec.right.catalog}`, by `{spec.keys[1]}`{_filtered(spec.right)} |
| outcome | {outcome}; leaves of at most {spec.threshold}{_derived(spec)} |
| runs | {when(spec.schedule, _versions_of(spec.follows))} |

`resolve` freezes the spec, the params and the versions of both catalogs, and checks that the keys share their
pixels. `equijoin` joins where leaves of both meet, without a shuffle, and writes the leaves of the outcome,
`margin` and `index`, where the spec asks for them, read them once more.
`verify` reads everything back, `publish` commits the version and emits the catalog's asset, `view` shows it
to other readers. A run whose catalogs and spec are those of the newest version does nothing.
"""


_SINK_MODES = {
    TableMode.APPEND: "rows are added, once per interval; one that is sunk again replaces its own",
    TableMode.UPSERT: "rows replace those of the same key, the others are added",
    TableMode.OVERWRITE_INTERVAL: "all rows whose time lies in the interval are replaced",
}


def sink_document(spec: TableSpec, path: Path) -> str:
    """Return the page of a table's sink DAG, in Markdown."""
    source = spec.source
    if isinstance(source, CatalogRowsSpec):
        rows = "its increments" if spec.needs_interval else "all rows"
        taken = f"`{source.catalog}`, {rows}" + (f", version {source.version}" if source.version else "")
        what = """\
`resolve` freezes the spec, the params and the version of the catalog, and asks the table what of it was sunk
before. `sink` sinks all that is missing, each interval by a commit of its own, and emits the table's asset.
What was published late, or anew, is taken up by the next run; if nothing is missing, `sink` is skipped."""
        if spec.needs_interval:
            what += "\n`confirm` fails if an interval could not be sunk as it is, and says which."
    else:
        taken = f"`{source.files.uri}` ({source.files.format})"
        what = """\
`resolve` freezes the spec, the params and the window of the run. `wait` waits for the files, `inputs` lists
them. `sink` sinks their rows by one commit, and emits the table's asset; it is skipped if the table has the
rows of exactly these files."""
    parts = ", ".join(f"`{field}`" for field in spec.partition) or "nothing"
    order = ", ".join(f"`{field}`" for field in spec.sort) or "as it comes"
    names = ", ".join(f"`{name}`" for name in spec.key)
    key = f" (key: {names}; duplicates: {spec.duplicates})" if names else ""
    return f"""### {spec.name}

{spec.description}

| | |
|---|---|
| spec | `{path}` |
| rows | {taken} |
| table | `{spec.table}` in Iceberg catalog `{spec.iceberg.name}` ({spec.iceberg.type}) |
| partitioned by | {parts} |
| sorted by | {order} |
| mode | {spec.mode}: {_SINK_MODES[spec.mode]}{key} |
| files | about {spec.target_file_size} |

{what}
"""


def _versions_of(catalogs: tuple[str, ...]) -> str:
    return f"each new version of {' or '.join(f'`{name}`' for name in catalogs)}" if catalogs else ""


def _filtered(side: SideSpec) -> str:
    """Which rows of a side take part, as the end of a cell of a table."""
    if side.filters is None:
        return ""
    line = " ".join(side.filters.split()).replace("|", "\\|")
    return f", rows with `{line}`"


def compact_document(spec: CatalogSpec) -> str:
    """Return the page of a catalog's compaction DAG, in Markdown."""
    return f"""### Compact {spec.name}

Nights that put files beside (`append: add_file`) leave leaves with many small files. `compact` merges those
of every leaf that has at least `min_files` into one sorted file, all in one commit; the rows stay as they
are. `view` shows the new version to other readers. Runs may append at the same time.

Runs {when(spec.compact.schedule, "each night")}.
"""


def index_document(spec: CatalogSpec) -> str:
    """Return the page of a catalog's index DAG, in Markdown."""
    return f"""### Index {spec.name}

Builds the indices of {", ".join(f"`{column}`" for column in spec.index)} anew, for the newest version, and
commits them as the next one; the rows stay as they are. Nights that came after an index was built are found
without it, in all leaves that they touched. `view` shows the new version to other readers.
"""


def margin_document(spec: CatalogSpec) -> str:
    """Return the page of the DAG that adds margins to a catalog, in Markdown."""
    return f"""### Margins of {spec.name}

A margin holds, for every leaf, the rows outside of it that are at most so many arcseconds away: who matches
or clusters leaf by leaf needs them. `margin` makes those that the newest version lacks and commits them as a
version whose rows are the same; `view` shows it to other readers. Runs may append at the same time, and each
append takes the margins along.

A new version made by `catalog_ingest__{spec.name}` in mode replace has the margins of the spec only: write
`margin: {{arcsec: [...]}}` into it to have them always.
"""


def rollback_document(spec: CatalogSpec) -> str:
    """Return the page of a catalog's rollback DAG, in Markdown."""
    return f"""### Roll {spec.name} back

Publishes the content of an older version once more, as the newest one. Nothing is copied or undone: the new
version names the files of the old one, and all versions stay until they are vacuumed.

`resolve` freezes the run, `rollback` commits the version and emits the catalog's asset, `view` shows it to
other readers. Pause `catalog_ingest__{spec.name}` first, or its next run may publish again what you undo.
"""


def verify_document(spec: CatalogSpec) -> str:
    """Return the page of a catalog's verification DAG, in Markdown."""
    return f"""### Verify {spec.name}

Reads everything that is published back: each file once, whatever number of versions shares it, the log of
versions, and what names the newest one. The task fails if anything is wrong. Its log says of each finding
whether readers are affected and what mends it; `catalog_repair__{spec.name}` mends what other files say.
Nothing of the catalog is changed.
"""


def repair_document(name: str) -> str:
    """Return the page of a catalog's repair DAG, in Markdown."""
    return f"""### Repair {name}

Writes anew what other files of the catalog say: `metadata.json`, `SHA256SUMS`, `current`,
`collection.properties`, the HATS files and trees of versions, coverages, tombstones and the note of them.
Leaf files are never written, and no version is touched but the newest, if its copy says what it was. Other
runs may go on meanwhile.

A run is a **dry run** unless its form says otherwise; its log lists what would be mended, and what is left.
"""


def vacuum_document(name: str, kept: VacuumSpec) -> str:
    """Return the page of a catalog's vacuum DAG, in Markdown."""
    return f"""### Vacuum {name}

Takes versions away that are neither among the newest nor young enough, then every file that no version needs,
then what runs that died have left. By the spec, the newest {kept.keep_versions} versions stay, and each
version for {kept.keep_days:g} days after a newer one took its place. The newest version always stays, and so
do those that `current` and HATS readers are led to.

A run by hand is a **dry run** unless its form says otherwise; its log lists what would go. Schedule:
{kept.schedule or "none, so it runs by hand only"}.
"""


def vacuum_table_document(spec: TableSpec) -> str:
    """Return the page of a table's vacuum DAG, in Markdown."""
    kept = spec.vacuum
    return f"""### Vacuum {spec.table}

Drops snapshots that are neither among the newest nor young enough, then deletes every file that no snapshot
names any more, metadata that dropped off the table's log, and what writes that died have left. By the spec,
the newest {kept.keep_versions} snapshots stay, and each one for {kept.keep_days:g} days after a newer one
took its place. Those that a branch or a tag names stay too.

A run by hand is a **dry run** unless its form says otherwise; its log says how much would go. Schedule:
{kept.schedule or "none, so it runs by hand only"}.
"""


def compaction_document(spec: CompactionSpec) -> str:
    """Return the page of a compaction's DAG, in Markdown."""
    if spec.folder is not None:
        what = f"the Parquet files of `{spec.folder.uri}`, into the new folder `{spec.folder.output}`"
        whole = "The new folder appears when it is whole; the old one stays as it is."
    else:
        what = f"the Iceberg table `{spec.table}`"
        whole = (
            "It is one snapshot: rows that others append meanwhile stay, and where others have changed the "
            "same files, the run ends as a conflict and changes nothing."
        )
    if spec.mode is CompactionMode.BINPACK:
        how = (
            f"Files below {spec.min_bytes:,} bytes are brought together in files of about "
            f"{spec.target_file_size}."
        )
    else:
        how = (
            f"Rows are clustered along the {spec.mode} curve by {', '.join(spec.columns)}, in files of "
            f"about {spec.target_file_size}. Groups that were clustered so and hold {spec.group_size} are "
            "left alone."
        )
    return f"""### Compact {spec.name}

Compacts {what}. {how}

`resolve` freezes the spec and the params, `compact_table` does the rest. {whole} The rows are read again
after they were written, and compared by a checksum. The report in the run folder says how many files were
added and removed, and how many files a query opens before and after.

Runs {when(spec.schedule, "each sink into the table" if spec.table else "")}.
"""


EXPORT_DOCUMENT = """### Export rows of a catalog

Writes the rows of a region that pass the filters to one Parquet, CSV or FITS file, whole or not at all.
Nothing that lies at the output is replaced, unless the form says so. Empty fields take everything.

| field | for example |
|---|---|
| region | `cone 56.75 24.12 3deg`, `box ra 350..10 dec -5..5`, `polygon 10 0, 20 0, 15 10` |
| | `moc 3/1-4 5/7,9`, `moc s3://bucket/field.fits`, `pixels 2/5 3/100` |
| filters | `phot_g_mean_mag < 12 and ra_error is not null`, `"B-V" between 0.5 and 1 or HIP in (1, 2)` |
| output | `bright.parquet` (below `exports/` of the warehouse), `/data/a.fits`, `s3://bucket/a.csv` |

What is read is small where the region is: only leaves and row groups that overlap it. Spark is started where
more than 2 GiB of leaf files have to be read.
"""
