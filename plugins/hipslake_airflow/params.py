"""The forms of a catalog's DAGs: what a user may choose for one run."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param
from hipslake.specs.catalog import NAME_PATTERN, CatalogSpec, Layout, Mode
from hipslake.specs.compaction import CompactionMode, CompactionSpec
from hipslake.specs.crossmatch import MAX_RADIUS_ARCSEC, CrossmatchSpec
from hipslake.specs.export import ExportFormat
from hipslake.specs.join import JoinSpec
from hipslake.specs.margin import MAX_ARCSEC, MIN_ARCSEC
from hipslake.specs.table import CatalogRowsSpec, TableMode, TableSpec
from hipslake.specs.vacuum import MAX_KEEP_DAYS, MAX_KEEP_VERSIONS

THRESHOLD_PATTERN = r"^[0-9][0-9_]*(\.[0-9]+)? *([kKMG]? *rows?|[kKMG]i?B|B|bytes?)$"
MOMENT_PATTERN = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$"
_MAX_REGION = 100_000  # letters
_REGION_HELP = (
    "cone 56.75 24.12 3deg, box ra 350..10 dec -5..5, polygon 10 0, 20 0, 15 10, moc 3/1-4 5/7, moc URI of a "
    "file, pixels 2/5 3/100. Empty: all of it."
)
_MAX_WAIT_MINUTES = 7 * 24 * 60


def ingest_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a run that ingests files, with types, bounds and help."""
    return {**(_of_a_whole_version(spec) if spec.mode is Mode.REPLACE else {}), **_of_every_run(spec)}


def crossmatch_params(spec: CrossmatchSpec) -> dict[str, Param]:
    """Return the params of a cross-match, with types, bounds and help."""
    return {
        "radius_arcsec": Param(
            spec.radius_arcsec,
            type="number",
            exclusiveMinimum=0,
            maximum=MAX_RADIUS_ARCSEC,
            title="Radius (arcsec)",
            description="Largest separation of a pair. The right catalog needs a margin of at least that.",
        ),
        "region": _optional_text(
            "Region", f"Only rows of the left catalog in a part of the sky: {_REGION_HELP}", _MAX_REGION
        ),
        **join_params(spec),
    }


def join_params(spec: JoinSpec) -> dict[str, Param]:
    """Return the params of any join of two catalogs."""
    return {
        "threshold": _threshold(f"Empty: as the spec says ({spec.threshold})."),
        "force": _force("both catalogs, spec and library are unchanged"),
    }


def sink_params(spec: TableSpec) -> dict[str, Param]:
    """Return the params of a run that sinks rows into a table."""
    params = {
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description=(
                "Sink also what the table has already. Rows of an interval take the place of those that it "
                "had before; no row comes twice."
            ),
        )
    }
    if isinstance(spec.source, CatalogRowsSpec):
        if not spec.needs_interval:
            return params
        start = "Only increments of intervals from then on. Empty: all that the table lacks."
        return {
            **params,
            "window_start": _moment("Window start", start),
            "window_end": _moment("Window end", "And before then. Empty: only the interval of that start."),
        }
    params["wait_minutes"] = Param(
        60,
        type="number",
        minimum=0,
        maximum=_MAX_WAIT_MINUTES,
        title="Wait for files (minutes)",
        description="How long to wait for the first source file. No worker slot is held meanwhile.",
    )
    if not spec.needs_interval:
        return params
    if spec.mode is TableMode.OVERWRITE_INTERVAL:
        params["allow_empty"] = Param(
            False,
            type="boolean",
            title="The interval may be empty",
            description="If no file comes, the rows that the table has of the interval go.",
        )
    return {**params, **_window()}


def compact_params() -> dict[str, Param]:
    """Return the params of a compaction."""
    return {
        "min_files": Param(
            4,
            type="integer",
            minimum=2,
            maximum=10_000,
            title="Files of a leaf",
            description="Leaves with at least as many files are compacted; 2: all that have several.",
        )
    }


def _of_a_whole_version(spec: CatalogSpec) -> dict[str, Param]:
    """What only a run that builds a whole new version may choose."""
    thresholds = ", ".join(f"{group.name}: {spec.threshold_of(group.name)}" for group in spec.column_groups)
    return {
        "threshold": _threshold(f"Holds for every column group. Empty: as the spec says ({thresholds})."),
        "layout": Param(
            spec.layout.value,
            type="string",
            enum=[layout.value for layout in Layout],
            title="Layout",
            description="hats: every column group is a HATS catalog, for LSDB. hipscat: a folder per pixel.",
        ),
    }


def _threshold(otherwise: str) -> Param:
    return Param(
        None,
        type=["null", "string"],
        pattern=THRESHOLD_PATTERN,
        maxLength=40,
        title="Threshold",
        description=(
            "The largest leaf allowed, in rows or in bytes of its file: 20000 rows, 1M rows, 64 MiB. "
            + otherwise
        ),
    )


def _force(unchanged: str) -> Param:
    return Param(
        False,
        type="boolean",
        title="Force",
        description=f"Publish a new version even if {unchanged}.",
    )


def _of_every_run(spec: CatalogSpec) -> dict[str, Param]:
    whole = spec.mode is Mode.REPLACE
    made_of = "files, spec and library are those of the newest version"
    stands = "the interval was appended from the very same files"
    waits = "the spec lets empty intervals pass" if spec.on_empty == "skip" else "the run fails"
    return {
        "force": _force(made_of if whole else stands),
        "wait_minutes": Param(
            60,
            type="number",
            minimum=0,
            maximum=_MAX_WAIT_MINUTES,
            title="Wait for files (minutes)",
            description=(
                "How long to wait for the first source file. No worker slot is held meanwhile."
                + ("" if whole else f" If none comes, {waits}.")
            ),
        ),
        **_window(),
    }


def _window() -> dict[str, Param]:
    """The time that a run is asked to stand for."""
    return {
        "window_start": _moment(
            "Window start", "The time that the run stands for. Empty: the last interval of the schedule."
        ),
        "window_end": _moment("Window end", "The end of that time. Empty: open."),
    }


def margin_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a run that adds margins, with what the spec says as the default."""
    return {
        "arcsec": Param(
            list(spec.margin.arcsec) or [10.0],
            type="array",
            items={"type": "number", "minimum": MIN_ARCSEC, "maximum": MAX_ARCSEC},
            minItems=1,
            maxItems=20,
            uniqueItems=True,
            title="Distances (arcsec)",
            description=(
                "A margin is made at each of these distances at which the newest version has none. A list "
                "of numbers, such as [10, 60]."
            ),
        )
    }


def rollback_params() -> dict[str, Param]:
    """Return the params of a rollback; the version has no default."""
    return {
        "version": Param(
            type="integer",
            minimum=1,
            title="Version",
            description=(
                "The number of the version to bring back. It is published once more, as the newest; all "
                "versions stay. Catalog.open(...).versions() lists those that there are."
            ),
        )
    }


def vacuum_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a vacuum, with what the spec says as defaults."""
    return {
        "keep_versions": Param(
            spec.vacuum.keep_versions,
            type="integer",
            minimum=1,
            maximum=MAX_KEEP_VERSIONS,
            title="Keep versions",
            description="So many of the newest versions stay, the newest one counted.",
        ),
        "keep_days": Param(
            spec.vacuum.keep_days,
            type="number",
            minimum=0,
            maximum=MAX_KEEP_DAYS,
            title="Keep days",
            description=(
                "A version stays for so many days after a newer one took its place, and so do the folders "
                "of runs. Who has opened a version needs its files until the work is done."
            ),
        ),
        "dry_run": Param(
            True,
            type="boolean",
            title="Dry run",
            description=(
                "Only log what would be deleted. A run that the schedule of the spec started deletes, "
                "whatever stands here."
            ),
        ),
    }


def compaction_params(spec: CompactionSpec) -> dict[str, Param]:
    """Return the params of a table's compaction."""
    all_files = (
        "Also files that are not small, if two fit into one."
        if spec.mode is CompactionMode.BINPACK
        else "Also files that are clustered by these columns already, in groups that have reached their size."
    )
    return {
        "partitions": Param(
            spec.partitions,
            type=["null", "string"],
            maxLength=10_000,
            title="Partitions",
            description=(
                "Which files, by their partition values: night >= '2026-11-01'. Empty: as the spec says."
            ),
        ),
        "full": Param(False, type="boolean", title="Full", description=all_files),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only say in the log what would be rewritten.",
        ),
    }


def export_params(catalogs: Sequence[str]) -> dict[str, Param]:
    """Return the params of an export; the catalogs of the specs are proposed, others may be typed."""
    return {
        "catalog": Param(
            type="string",
            pattern=NAME_PATTERN,
            maxLength=200,
            examples=list(catalogs),
            title="Catalog",
            description="The name of a published catalog.",
        ),
        "version": Param(
            None, type=["null", "integer"], minimum=1, title="Version", description="Empty: the newest."
        ),
        "region": _optional_text("Region", f"The part of the sky: {_REGION_HELP}", _MAX_REGION),
        "columns": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "minLength": 1},
            title="Columns",
            description="One per line. Empty: all.",
        ),
        "filters": _optional_text(
            "Filters",
            "Which rows: phot_g_mean_mag < 12 and ra_error is not null. Comparisons, in (...), between, is "
            "null, is nan, and, or, not, parentheses. Empty: all.",
            10_000,
        ),
        "format": Param(
            None,
            type=["null", "string"],
            enum=[None, *(each.value for each in ExportFormat)],
            title="Format",
            description="Empty: by the ending of the output.",
        ),
        "output": Param(
            type="string",
            minLength=1,
            maxLength=2000,
            title="Output",
            description=(
                "Path or URI of the file. A relative path, bright.parquet, lies below exports/ of the "
                "warehouse."
            ),
        ),
        "overwrite": Param(
            False, type="boolean", title="Overwrite", description="Replace what lies at the output."
        ),
    }


def _optional_text(title: str, help_text: str, longest: int) -> Param:
    return Param(
        None,
        type=["null", "string"],
        maxLength=longest,
        title=title,
        description=help_text,
        format="multiline",
    )


def _moment(title: str, help_text: str) -> Param:
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        pattern=MOMENT_PATTERN,
        title=title,
        description=help_text,
        section="Window",
    )
