"""The steps of cubes, and of the catalogs that their joined rows become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.assets import cube_asset
from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.catalog import BuildHatsViewOperator, RetentionOperator
from hipslake_airflow.operators.run_folder import MATERIALISED
from hipslake_airflow.operators.spark_step import SparkFormOperator, SparkStepOperator
from hipslake_airflow.operators.step import FirstStepOperator, ResolveOperator, StepOperator

if TYPE_CHECKING:
    from hipslake.specs.cube_spec import CubeSpec
    from hipslake.steps.cube.frozen_cube import FrozenCube

CUBES = "cubes"
"""The alias of the assets of all cubes: which of them a task is about is known when its form is filled in."""
_QUERY = ("version", "columns", "conditions", "partition_by", "dimension_columns", "datasets", "format")


class ResolveCubeOperator(ResolveOperator):
    """Freeze the spec, the params and the version of every source into the run folder.

    Reads these params, all optional: `mode`, `datasets`, `overwrite`, `force`. Parameters and what it pushes
    are those of `ResolveOperator`.
    """

    step = "resolve:cube"

    def request_fields(self, context: Context) -> dict[str, Any]:
        from hipslake.cube.store.spec_changes import BuildMode
        from hipslake.specs.cube_spec import CubeSpec
        from hipslake.specs.spec_folder import load_spec

        _use_connections(load_spec(self.spec_file, CubeSpec))
        params = context["params"]
        return {
            "mode": BuildMode(params.get("mode") or BuildMode.ALIGN),
            "datasets": tuple(params.get("datasets") or ()),
            "overwrite": bool(params.get("overwrite", False)),
            "force": bool(params.get("force", False)),
        }


class BuildCubeOperator(SparkStepOperator):
    """Make the version of a cube that the run has frozen; in Spark, if there are many bytes to read.

    Emits the asset event of the cube, whose extra says `rows` (cells of the seed), `version` and `uri`. Skips
    the task if there is nothing to do; a version with the files of the one before it emits no event.

    Parameters
    ----------
    cube : str
        The cube's name; its asset becomes an outlet of the task.
    """

    step = "build"

    def __init__(self, *, cube: str, **kwargs: Any) -> None:
        asset = cube_asset(cube)
        super().__init__(outlets=[asset, *kwargs.pop("outlets", [])], **kwargs)
        self.cube = cube
        self.asset = asset

    def prepare(self, context: Context) -> None:
        frozen = _frozen_cube(self.run_uri)
        if frozen.nothing:
            raise AirflowSkipException(frozen.nothing)
        _use_connections(frozen.spec)

    def finish(self, context: Context, report: Any) -> None:
        self.log.info("Alignment table: %s", report.alignment_uri or "none yet")
        if report.changed and report.version is not None:
            extra = {"rows": report.rows_of_cube, "version": report.version, "uri": report.cube_uri}
            context["outlet_events"][self.asset].extra = extra


class MaterialiseOperator(StepOperator):
    """Start the run of the catalog that the joined rows become; skipped if the catalog has them.

    Pushes `run_uri` of that run, which the steps of an ingest take; empty, if there are no joined rows yet.
    """

    step = "materialise"

    def run_fields(self, context: Context) -> dict[str, Any]:
        cube = _frozen_cube(self.run_uri)
        names = ("dag_id", "run_id", "warehouse", "spec_file", "force")
        return {
            "run_uri": f"{self.run_uri}/{MATERIALISED}",
            "cube_run_uri": self.run_uri,
            **{name: getattr(cube, name) for name in names},
        }

    def finish(self, context: Context, report: Any) -> None:
        there = report.cube_version is not None
        context["ti"].xcom_push(key="run_uri", value=f"{self.run_uri}/{MATERIALISED}" if there else "")

    def skip_reason(self, report: Any) -> str | None:
        if report.cube_version is None:
            return "The cube keeps no joined rows yet."
        if report.unchanged_version is None:
            return None
        return f"Version {report.unchanged_version} of {report.catalog} has these rows already."


class JoinedViewOperator(BuildHatsViewOperator):
    """Show the newest version of the catalog of joined rows to other readers, once there is one."""

    def prepare(self, context: Context) -> None:
        from hipslake.steps.run import RunFolder

        if not RunFolder(self.run_uri).storage.is_file(RunFolder.RUN):
            raise AirflowSkipException("There is no catalog of joined rows yet.")


class QueryCubeOperator(SparkFormOperator):
    """Write the outcome of a query of a cube to a new folder; in Spark, if much has to be read.

    Reads the params `cube`, `version`, `columns`, `conditions`, `partition_by`, `dimension_columns`,
    `datasets`, `format` and `output`. Parameters are those of `SparkFormOperator`.
    """

    step = "cube_query"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        given = {name: params[name] for name in _QUERY if params.get(name)}
        return {"cube": params["cube"], "output": params["output"], **given}

    def finish(self, context: Context, report: Any) -> None:
        for each in report.fates:
            self.log.info("%d partitions: %s", each.partitions, each.fate)


class CubeFormOperator(FirstStepOperator):
    """A step of a run of its own, about the cube that the param `cube` names."""

    params_of_step: tuple[str, ...] = ()
    """The params that the request of the step takes, besides `cube`; only those that are filled in."""

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        names = ("cube", *self.params_of_step)
        return {name: params[name] for name in names if params.get(name) not in (None, "", [])}


class CubeVersionOperator(CubeFormOperator):
    """A step that makes a version of a cube, and then emits the cube's asset event."""

    def __init__(self, **kwargs: Any) -> None:
        self.alias = AssetAlias(CUBES)
        super().__init__(outlets=[self.alias, *kwargs.pop("outlets", [])], **kwargs)

    def finish(self, context: Context, report: Any) -> None:
        if report.version is not None:
            extra = {"rows": report.rows_out, "version": report.version, "uri": report.cube_uri}
            context["outlet_events"][self.alias].add(cube_asset(report.cube), extra=extra)


class RemoveCubePartitionsOperator(CubeVersionOperator):
    """Remove the partitions of a cube that meet some conditions, as one version.

    Reads the params `cube`, `conditions`, `datasets` and `dry_run`.
    """

    step = "cube_remove_partitions"
    params_of_step = ("conditions", "datasets", "dry_run")

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"conditions": ""} | super().request_fields(context)


class DeleteCubeOperator(CubeVersionOperator):
    """Delete some datasets of a cube, as one version; or all of the cube.

    Reads the params `cube`, `datasets`, `confirm` and `dry_run`.
    """

    step = "cube_delete"
    params_of_step = ("datasets", "confirm", "dry_run")

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"confirm": ""} | super().request_fields(context)


class CopyCubeOperator(CubeVersionOperator):
    """Copy the newest version of a cube to another place, as one version there.

    Reads the params `cube`, `target`, `datasets` and `overwrite`.
    """

    step = "cube_copy"
    params_of_step = ("target", "datasets", "overwrite")


class CubeStatsOperator(CubeFormOperator):
    """Give the size of the datasets of a cube. Reads the params `cube` and `version`."""

    step = "cube_stats"
    params_of_step = ("version",)


class CleanUpCubeOperator(RetentionOperator):
    """Take old versions of a cube away, and every file that no version needs any more.

    Params and what they mean are those of `RetentionOperator`.

    Parameters
    ----------
    cube : str
        The cube's name.
    """

    step = "cube_cleanup"

    def __init__(self, *, cube: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cube = cube

    def request_fields(self, context: Context) -> dict[str, Any]:
        return super().request_fields(context) | {"cube": self.cube}


def _frozen_cube(run_uri: str) -> FrozenCube:
    """Read what a run of a cube froze."""
    from hipslake.steps.cube.request import BuildCubeRequest

    return BuildCubeRequest(run_uri=run_uri).frozen()


def _use_connections(spec: CubeSpec) -> None:
    for dataset in spec.datasets.values():
        if dataset.table is not None:
            use_iceberg_connection(dataset.iceberg)
