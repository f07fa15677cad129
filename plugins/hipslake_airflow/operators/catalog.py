"""The steps that make catalogs, and those on what is published of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.operators.reporting import ReportingMixin
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import (
    FirstStepOperator,
    FreezingOperator,
    ResolveOperator,
    StepOperator,
)
from hipslake_airflow.operators.window import wait_of, window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hipslake.specs.margin_spec import MarginSpec

INDEX_IN_SPARK = 128 << 20  # bytes; a night of fewer is indexed before Spark has started


class PublishingOperator(ReportingMixin):
    """Emit the asset event of a catalog, whose extra says `rows`, `version` and `uri`.

    A mixin: its subclasses name it before the operator that runs the step.

    Parameters
    ----------
    catalog : str
        The catalog's name; its asset becomes an outlet of the task.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        asset = catalog_asset(catalog)
        super().__init__(outlets=[asset, *kwargs.pop("outlets", [])], **kwargs)
        self.asset = asset

    def finish(self, context: Context, report: Any) -> None:
        if report.version is not None:
            rows = getattr(report, "total_rows", report.rows_out)
            extra = {"rows": rows, "version": report.version, "uri": report.catalog_uri}
            context["outlet_events"][self.asset].extra = extra
        elif self.skip_reason(report) is None:
            raise AirflowFailException(f"{self.task_id} left no version; report it as a bug")


class ResolveRunOperator(ResolveOperator):
    """Freeze the spec, the params, the window and the write id of a run into its `run.json`.

    Reads these params, all optional: `threshold`, `layout`, `force`, `wait_minutes`, `window_start`,
    `window_end`. Parameters and what it pushes are those of `ResolveOperator`.
    """

    step = "resolve"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        return {
            "threshold": params.get("threshold") or None,
            "layout": params.get("layout") or None,
            "force": bool(params.get("force", False)),
            "wait_minutes": wait_of(params),
            "window": window_of(context),
        }


class ResolvePublishedOperator(FreezingOperator):
    """Freeze a run on what a catalog has published, whatever makes it, as its newest version says.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    step = "resolve:published"

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"catalog": self.catalog}


class FreezeInputsOperator(StepOperator):
    """List the source files, and skip the run if nothing changed since the newest version."""

    step = "inputs"

    def skip_reason(self, report: Any) -> str | None:
        if report.empty:
            return "The interval has no files, and the spec says on_empty: skip."
        if report.unchanged_version is None:
            return None
        return (
            f"Version {report.unchanged_version} was made of exactly these files, with this spec and library "
            "version; there is nothing to do. Set force to build a new version all the same."
        )

    def finish(self, context: Context, report: Any) -> None:
        if self.skip_reason(report):  # of a skipped task, Airflow pushes nothing
            context["ti"].xcom_push(key="return_value", value=report.summary())


class HistogramCatalogOperator(SparkStepOperator):
    """Count rows and bytes per pixel; in Spark, unless there are few."""

    step = "histogram"


class PlanPixelsOperator(StepOperator):
    """Split the sky into leaves, for every column group on its own threshold."""

    step = "plan"


class WritePartitionsOperator(SparkStepOperator):
    """Route every row to its leaf files and write them; in Spark, unless there are few."""

    step = "write"


class PublishCatalogOperator(PublishingOperator, StepOperator):
    """Commit what the run wrote as the catalog's next version, and emit its asset event."""

    step = "publish"


class AppendIncrementOperator(PublishingOperator, SparkStepOperator):
    """Merge the rows of a run into the newest version, commit the next one, and emit its asset event."""

    step = "append"

    def skip_reason(self, report: Any) -> str | None:
        return None if report.version is not None else "No row has come, and nothing is published yet."


class CompactCatalogOperator(SparkStepOperator):
    """Give leaves that have gathered many files one sorted file each; reads the param `min_files`.

    Skips the task if there are none. The rows stay what they are, so no asset event is emitted.
    """

    step = "compact"

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"min_files": int(context["params"].get("min_files", 2))}

    def skip_reason(self, report: Any) -> str | None:
        return None if report.version is not None else "No leaf has as many files as `min_files` says."


class BuildMarginOperator(SparkStepOperator):
    """Make the margins that the spec asks for of what a run wrote; or add some to the newest version.

    The latter reads the param `arcsec`, commits a version, and is skipped if there is nothing to add. The
    rows stay what they are, so no asset event is emitted. Small catalogs are done in the task's own process.

    Parameters
    ----------
    published : bool
        Whether margins are added to the newest version.
    """

    step = "margin"

    def __init__(self, *, published: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.published = published

    def request_fields(self, context: Context) -> dict[str, Any]:
        if not self.published:
            return {}
        return {"arcsec": tuple(float(each) for each in context["params"]["arcsec"])}

    def skip_reason(self, report: Any) -> str | None:
        if self.published and report.version is None:
            return "The newest version has these margins already."
        return None


class BuildIndexOperator(SparkStepOperator):
    """Build the spec's indices of what the run wrote, or of the newest version, which is then committed anew.

    Parameters
    ----------
    published : bool
        Index the newest version. The rows stay what they are, so no asset event is emitted.
    """

    step = "index"

    def __init__(self, *, published: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.published = published

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"published": self.published}


def derived_from(
    run_uri: Any, *, margin: MarginSpec, index: Sequence[str]
) -> list[BuildMarginOperator | BuildIndexOperator]:
    """Return the tasks that make, side by side, what a spec wants of the leaves that a run wrote.

    Parameters
    ----------
    run_uri : str
    margin : MarginSpec
    index : sequence of str
    """
    found: list[BuildMarginOperator | BuildIndexOperator] = []
    if margin.arcsec:
        found.append(BuildMarginOperator(task_id="margin", run_uri=run_uri))
    if index:
        found.append(BuildIndexOperator(task_id="index", run_uri=run_uri, spark_above_bytes=INDEX_IN_SPARK))
    return found


class BuildHatsViewOperator(StepOperator):
    """Let other readers open the newest version; also mends pointers that a killed run left behind."""

    step = "view"


class VerifyCatalogOperator(SparkStepOperator):
    """Read back everything that a run wrote, or a published version, and check it.

    Small catalogs are verified in the task's own process, which is quicker than starting Spark.

    Parameters
    ----------
    catalog_uri : str, optional
        Root of a published catalog; None: verify what the run wrote and is about to publish.
    version : int, optional
        The published version; None: the newest.
    """

    step = "verify"

    def __init__(self, *, catalog_uri: str | None = None, version: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog_uri = catalog_uri
        self.version = version

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"catalog_uri": self.catalog_uri, "version": self.version}


class VerifyPublishedOperator(VerifyCatalogOperator):
    """Read the newest version of the run's catalog back, and what names it; or every version, and the log.

    Reads the param `all_versions`. The task fails if anything is wrong: its log says what, whether readers
    are affected, and what mends it. Parameters are those of `SparkStepOperator`.
    """

    def request_fields(self, context: Context) -> dict[str, Any]:
        from hipslake.steps.frozen_run import FrozenRun
        from hipslake.steps.run import RunFolder

        catalog_uri = FrozenRun.of(RunFolder(self.run_uri)).catalog_uri
        return {"catalog_uri": catalog_uri, "all_versions": bool(context["params"]["all_versions"])}


class RepairCatalogOperator(FirstStepOperator):
    """Write anew what other files of a catalog say; leaf files and older versions are never touched.

    Reads the param `dry_run`.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    step = "repair"

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"catalog": self.catalog, "dry_run": bool(context["params"]["dry_run"])}


class DeleteRowsOperator(PublishingOperator, StepOperator):
    """Delete rows of the newest version, and emit the catalog's asset event; skipped where there are none.

    Reads the params `keys`, `keys_file`, `filters`, `region`, `max_fraction` and `force`.
    """

    step = "delete"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        chosen = {name: params.get(name) or None for name in ("keys", "keys_file", "filters", "region")}
        limits = {"max_fraction": float(params["max_fraction"]), "force": bool(params["force"])}
        return {**chosen, **limits}

    def skip_reason(self, report: Any) -> str | None:
        return None if report.version is not None else "No row is left to delete."


class ReassignRowsOperator(PublishingOperator, StepOperator):
    """Give rows of the newest version to other objects, and emit the catalog's asset event.

    Skipped where all rows are of their objects already. Reads the params `keys`, `keys_file`, `filters`,
    `region`, `to`, `column`, `max_fraction` and `force`.
    """

    step = "reassign"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        names = ("keys", "keys_file", "filters", "region", "to", "column")
        chosen = {name: params.get(name) or None for name in names}
        limits = {"max_fraction": float(params["max_fraction"]), "force": bool(params["force"])}
        return {**chosen, **limits}

    def skip_reason(self, report: Any) -> str | None:
        return None if report.version is not None else "No row is to be given to another object."


class RollbackCatalogOperator(PublishingOperator, StepOperator):
    """Publish the content of an older version as the newest one, and emit the catalog's asset event.

    The version is the param `version`.
    """

    step = "rollback"

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"version": int(context["params"]["version"])}


class RetentionOperator(FirstStepOperator):
    """Take old versions away, and every file that no version needs any more.

    Reads the params `keep_versions`, `keep_days` and `dry_run`. A run that the schedule started deletes: who
    wrote the schedule into the spec has decided. One that was started by hand asks its form.
    """

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        return {
            "keep_versions": int(params["keep_versions"]),
            "keep_days": float(params["keep_days"]),
            "dry_run": bool(params["dry_run"]) and context["dag_run"].run_type != "scheduled",
        }


class VacuumCatalogOperator(RetentionOperator):
    """Take old versions of a catalog away, and every file that no version needs any more.

    Params and what they mean are those of `RetentionOperator`.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    step = "vacuum"

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def request_fields(self, context: Context) -> dict[str, Any]:
        return super().request_fields(context) | {"catalog": self.catalog}
