"""The forms of the DAGs that fill tables, and compact them."""

from __future__ import annotations

from airflow.sdk import Param
from hipslake.specs.compaction_spec import CompactionMode, CompactionSpec
from hipslake.specs.stream_spec import StreamSpec
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode

from hipslake_airflow.params.catalog import LONGEST_KEY, chosen_rows, most_field
from hipslake_airflow.params.fields import moment_field, switch_field, wait_field, window_fields


def sink_params(spec: TableSpec) -> dict[str, Param]:
    """Return the params of a run that sinks rows into a table."""
    if spec.stream is not None:
        return _stream_params(spec.stream)
    told = (
        "Write the table anew with what the catalog has. Other rows go, whoever wrote them."
        if spec.follows_changes
        else "Sink also what the table has already. Rows of an interval take the place of those that it had "
        "before; no row comes twice."
    )
    params = {"force": switch_field("Force", told)}
    if spec.branch is not None:
        params["discard_branch"] = switch_field(
            "Discard the branch",
            f"Drop what audits have left on branch {spec.branch} before rows are sunk. Off: go on with it.",
        )
    if isinstance(spec.source, CatalogRowsSpec):
        if not spec.needs_interval:
            return params
        start = "Only increments of intervals from then on. Empty: all that the table lacks."
        return {
            **params,
            "window_start": moment_field("Window start", start),
            "window_end": moment_field(
                "Window end", "And before then. Empty: only the interval of that start."
            ),
        }
    params["wait_minutes"] = wait_field()
    if not spec.needs_interval:
        return params
    if spec.mode is TableMode.OVERWRITE_INTERVAL:
        params["allow_empty"] = switch_field(
            "The interval may be empty", "If no file comes, the rows that the table has of the interval go."
        )
    return {**params, **window_fields()}


def _stream_params(stream: StreamSpec) -> dict[str, Param]:
    """Return the params of a run that drains a stream."""
    told = (
        "Go on also from a checkpoint that is not the one that the table was fed from; it reads all files "
        "anew. Nothing that this checkpoint has handed over comes twice."
    )
    return {
        "force": switch_field("Force", told),
        "wait_minutes": Param(
            stream.wait_minutes,
            type="number",
            minimum=0,
            maximum=525_600,
            title="Wait for files (minutes)",
            description="How long to wait, where no file has come since the last run.",
        ),
    }


def table_delete_params(spec: TableSpec) -> dict[str, Param]:
    """Return the params of a delete of rows of a table; one of the ways to choose rows has to be given."""
    of = "the key" if len(spec.key) != 1 else f"column {spec.key[0]}"
    several = f"Columns: {', '.join(spec.key)}. " if spec.key else ""
    params = chosen_rows(of, f"Path or URI of a Parquet or CSV file with the keys of rows. {several}")
    if not spec.key:
        params["key"] = Param(
            None,
            type=["null", "array"],
            items={"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
            maxItems=100,
            title="Key",
            description="The columns that keys are of, one per line. Empty: the table's identifier fields.",
        )
    return params | {
        "max_fraction": most_field("If more than this part of all rows would go, nothing is deleted."),
        "force": switch_field("Force", "Delete the rows, however many they are."),
    }


def evolve_params(spec: TableSpec) -> dict[str, Param]:
    """Return the params of a run that changes a table as its spec asks."""
    dry_run = switch_field("Dry run", "Only say in the log what would be changed.", on=True)
    if isinstance(spec.source, CatalogRowsSpec) or not spec.needs_interval:
        return {"dry_run": dry_run}
    start = "Of the interval whose files say the columns of the source. Empty: only the spec is looked at."
    return {
        "dry_run": dry_run,
        "window_start": moment_field("Window start", start),
        "window_end": moment_field("Window end", "The end of that interval."),
    }


def compaction_params(spec: CompactionSpec) -> dict[str, Param]:
    """Return the params of a table's compaction."""
    all_files = (
        "All files, whatever their size."
        if spec.mode is CompactionMode.BINPACK
        else "Also files that are clustered in this way already, in groups that have reached their size."
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
        "full": switch_field("Full", all_files),
        "dry_run": switch_field("Dry run", "Only say in the log what would be rewritten."),
    }
