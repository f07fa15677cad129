"""The forms of the DAGs that fill tables, and compact them."""

from __future__ import annotations

from airflow.sdk import Param
from hipslake.specs.compaction_spec import CompactionMode, CompactionSpec
from hipslake.specs.table_spec import CatalogRowsSpec, TableMode, TableSpec

from hipslake_airflow.params.fields import moment_field, wait_field, window_fields


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
            "window_start": moment_field("Window start", start),
            "window_end": moment_field(
                "Window end", "And before then. Empty: only the interval of that start."
            ),
        }
    params["wait_minutes"] = wait_field()
    if not spec.needs_interval:
        return params
    if spec.mode is TableMode.OVERWRITE_INTERVAL:
        params["allow_empty"] = Param(
            False,
            type="boolean",
            title="The interval may be empty",
            description="If no file comes, the rows that the table has of the interval go.",
        )
    return {**params, **window_fields()}


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
