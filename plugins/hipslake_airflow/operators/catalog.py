"""The steps that make a catalog, one operator each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.append import AppendReport, AppendRequest
    from hipslake.steps.compact import CompactReport, CompactRequest
    from hipslake.steps.hats_view import HatsViewReport
    from hipslake.steps.histogram import HistogramReport, HistogramRequest
    from hipslake.steps.inputs import InputsReport
    from hipslake.steps.margin import MarginReport, MarginRequest
    from hipslake.steps.plan import PlanReport
    from hipslake.steps.publish import PublishReport
    from hipslake.steps.report import Report
    from hipslake.steps.resolve import ResolveReport
    from hipslake.steps.run import Window
    from hipslake.steps.verify import VerifyReport, VerifyRequest
    from hipslake.steps.write import WriteReport, WriteRequest


class ResolveRunOperator(StepOperator):
    """Freeze the spec, the params, the window and the write id of a run into its `run.json`.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `threshold`, `layout`,
    `force`, `wait_minutes`, `window_start`, `window_end`.

    Parameters
    ----------
    spec_file : str
        Path of the catalog spec. Not templated.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, spec_file: str, warehouse: str = "${HIPSLAKE_WAREHOUSE}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file
        self.warehouse = warehouse

    def perform(self, context: Context) -> ResolveReport:
        from hipslake.specs.environment import expand
        from hipslake.steps import resolve
        from hipslake.steps.report import perform
        from hipslake.steps.run import run_uri

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse = expand(self.warehouse)
        request = resolve.ResolveRequest(
            run_uri=run_uri(warehouse, run.dag_id, run.run_id),
            dag_id=run.dag_id,
            run_id=run.run_id,
            warehouse=warehouse,
            spec_file=self.spec_file,
            threshold=params.get("threshold") or None,
            layout=params.get("layout") or None,
            force=bool(params.get("force", False)),
            wait_minutes=float(params.get("wait_minutes", 60)),
            window=window_of(context),
        )
        report = perform(resolve.run, request, resolve.ResolveReport)
        context["ti"].xcom_push(key="run_uri", value=request.run_uri)
        self.log.info("Run folder: %s", request.run_uri)
        for folder in report.swept:
            self.log.info("Removed %s, left behind by a run that died.", folder)
        return report


def window_of(context: Context) -> Window:
    """Return the time that a run stands for, from whatever its context says about it."""
    from hipslake.steps.resolve import resolve_window

    run = context["dag_run"]
    params: Mapping[str, Any] = context["params"]
    return resolve_window(
        partition_key=getattr(run, "partition_key", None),
        interval=(run.data_interval_start, run.data_interval_end),
        given=(params.get("window_start"), params.get("window_end")),
    )


class FreezeInputsOperator(StepOperator):
    """List the source files, and skip the run if nothing changed since the newest version."""

    def perform(self, context: Context) -> InputsReport:
        from hipslake.steps import inputs
        from hipslake.steps.report import perform

        request = inputs.InputsRequest(run_uri=self.run_uri)
        return perform(inputs.run, request, inputs.InputsReport)

    def execute(self, context: Context) -> dict[str, Any]:
        summary = super().execute(context)
        if summary["empty"]:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowSkipException("The interval has no files, and the spec says on_empty: skip.")
        version = summary["unchanged_version"]
        if version is not None:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowSkipException(
                f"Version {version} was made of exactly these files, with this spec and library version; "
                "there is nothing to do. Set force to build a new version all the same."
            )
        return summary


class HistogramCatalogOperator(SparkStepOperator):
    """Count rows and bytes per pixel; in Spark, unless there are few."""

    job = "histogram_catalog"

    def request(self) -> HistogramRequest:
        from hipslake.steps.histogram import HistogramRequest

        return HistogramRequest(run_uri=self.run_uri)

    def report_type(self) -> type[HistogramReport]:
        from hipslake.steps.histogram import HistogramReport

        return HistogramReport

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import histogram
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: histogram.run(asked, engine), self.request(), self.report_type())


class PlanPixelsOperator(StepOperator):
    """Split the sky into leaves, for every column group on its own threshold."""

    def perform(self, context: Context) -> PlanReport:
        from hipslake.steps import plan
        from hipslake.steps.report import perform

        report = perform(plan.run, plan.PlanRequest(run_uri=self.run_uri), plan.PlanReport)
        self.log.info("The plan:\n%s", report.text)
        return report


class WritePartitionsOperator(SparkStepOperator):
    """Route every row to its leaf files and write them, in Spark."""

    job = "write_partitions"

    def request(self) -> WriteRequest:
        from hipslake.steps.write import WriteRequest

        return WriteRequest(run_uri=self.run_uri)

    def report_type(self) -> type[WriteReport]:
        from hipslake.steps.write import WriteReport

        return WriteReport

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import partitions
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: partitions.run(asked, engine), self.request(), self.report_type())


class VerifyCatalogOperator(SparkStepOperator):
    """Read back everything that a run wrote, or a published version, and check it.

    Small catalogs are verified in the task's own process, which is quicker than starting Spark.

    Parameters
    ----------
    catalog_uri : str, optional
        Root of a published catalog; None: verify what the run wrote and is about to publish.
    version : int, optional
        The published version; None: the newest.
    spark_above_bytes : int
        From this many bytes on, Spark does it.
    """

    job = "verify_catalog"

    def __init__(
        self,
        *,
        catalog_uri: str | None = None,
        version: int | None = None,
        spark_above_bytes: int = 4 << 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.catalog_uri = catalog_uri
        self.version = version

    def request(self) -> VerifyRequest:
        from hipslake.steps.verify import VerifyRequest

        return VerifyRequest(run_uri=self.run_uri, catalog_uri=self.catalog_uri, version=self.version)

    def report_type(self) -> type[VerifyReport]:
        from hipslake.steps.verify import VerifyReport

        return VerifyReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.verify import bytes_to_read

        return bytes_to_read(self.request())

    def without_spark(self) -> Report:
        from hipslake.steps import verify
        from hipslake.steps.report import perform

        return perform(verify.run, self.request(), verify.VerifyReport)


class BuildMarginOperator(SparkStepOperator):
    """Make the margins that the spec asks for of what a run wrote; or add some to the newest version.

    The latter reads the param `arcsec`, commits a version, and is skipped if there is nothing to add. The
    rows stay what they are, so no asset event is emitted. Small catalogs are done in the task's own process.

    Parameters
    ----------
    published : bool
        Whether margins are added to the newest version.
    spark_above_bytes : int
        From this many bytes of leaf files on, Spark does it.
    """

    job = "build_margin"
    _arcsec: tuple[float, ...] = ()

    def __init__(self, *, published: bool = False, spark_above_bytes: int = 1 << 30, **kwargs: Any) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.published = published

    def request(self) -> MarginRequest:
        from hipslake.steps.margin import MarginRequest

        return MarginRequest(run_uri=self.run_uri, arcsec=self._arcsec)

    def report_type(self) -> type[MarginReport]:
        from hipslake.steps.margin import MarginReport

        return MarginReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.margin import bytes_to_read

        return bytes_to_read(self.request())

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import margin
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: margin.run(asked, engine), self.request(), self.report_type())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        if self.published:
            self._arcsec = tuple(float(each) for each in context["params"]["arcsec"])
        summary = super().execute(context)
        if self.published and summary["version"] is None:
            raise AirflowSkipException("The newest version has these margins already.")
        return summary


class AppendIncrementOperator(SparkStepOperator):
    """Merge the rows of a run into the newest version, commit the next one, and emit its asset event.

    Parameters
    ----------
    catalog : str
        The catalog's name; its asset becomes an outlet of the task.
    """

    job = "append_increment"

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        self.asset = catalog_asset(catalog)
        super().__init__(outlets=[self.asset, *kwargs.pop("outlets", [])], **kwargs)

    def request(self) -> AppendRequest:
        from hipslake.steps.append import AppendRequest

        return AppendRequest(run_uri=self.run_uri)

    def report_type(self) -> type[AppendReport]:
        from hipslake.steps.append import AppendReport

        return AppendReport

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import increments
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: increments.run(asked, engine), self.request(), self.report_type())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        summary = super().execute(context)
        if summary["version"] is None:
            raise AirflowSkipException("No row has come, and nothing is published yet.")
        announce(context, self.asset, summary["total_rows"], summary["version"], summary["catalog_uri"])
        return summary


class PublishCatalogOperator(StepOperator):
    """Commit what the run wrote as the catalog's next version, and emit its asset event.

    The event's extra says `rows`, `version` and `uri`.

    Parameters
    ----------
    catalog : str
        The catalog's name; its asset becomes an outlet of the task.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        self.asset = catalog_asset(catalog)
        super().__init__(outlets=[self.asset, *kwargs.pop("outlets", [])], **kwargs)

    def perform(self, context: Context) -> PublishReport:
        from hipslake.steps import publish
        from hipslake.steps.report import perform

        report = perform(publish.run, publish.PublishRequest(run_uri=self.run_uri), publish.PublishReport)
        if report.version is None:
            raise AirflowFailException("publish left no version")
        announce(context, self.asset, report.rows_out, report.version, report.catalog_uri)
        self.log.info("Published version %s of %s", report.version, report.catalog_uri)
        return report


class CompactCatalogOperator(SparkStepOperator):
    """Give leaves that have gathered many files one sorted file each; reads the param `min_files`.

    Skips the task if there are none. The rows stay what they are, so no asset event is emitted.
    """

    job = "compact_catalog"
    _min_files = 2

    def request(self) -> CompactRequest:
        from hipslake.steps.compact import CompactRequest

        return CompactRequest(run_uri=self.run_uri, min_files=self._min_files)

    def report_type(self) -> type[CompactReport]:
        from hipslake.steps.compact import CompactReport

        return CompactReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.compact import bytes_to_compact

        return bytes_to_compact(self.request())

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import compaction
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: compaction.run(asked, engine), self.request(), self.report_type())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        self._min_files = int(context["params"].get("min_files", 2))
        summary = super().execute(context)
        if summary["version"] is None:
            raise AirflowSkipException(f"No leaf has {self._min_files} files.")
        return summary


def announce(context: Context, asset: Asset, rows: int, version: int, uri: str) -> None:
    """Say in the asset event what was published."""
    context["outlet_events"][asset].extra = {"rows": rows, "version": version, "uri": uri}


class BuildHatsViewOperator(StepOperator):
    """Let HATS readers open the newest version; also mends pointers that a killed publish left behind."""

    def perform(self, context: Context) -> HatsViewReport:
        from hipslake.steps import hats_view
        from hipslake.steps.report import perform

        request = hats_view.HatsViewRequest(run_uri=self.run_uri)
        return perform(hats_view.run, request, hats_view.HatsViewReport)
