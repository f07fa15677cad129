"""All DAGs of a deployment: what each pipeline makes of the spec files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from airflow.sdk import DAG, get_parsing_context
from hipslake.errors import SpecError
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow import pipelines as _pipelines
from hipslake_airflow.dag_settings import DagSettings, check_prefix, in_effect, settings_of
from hipslake_airflow.pipeline import Pipeline
from hipslake_airflow.spec_folders import specs_folders


def spec_dags(
    *folders: Path | str,
    prefix: str = "",
    settings: DagSettings | None = None,
    pipelines: Mapping[str, DagSettings | None] | None = None,
) -> dict[str, DAG]:
    """Return the DAGs of all pipelines by id; a task, which needs its own only, gets that.

    Specs that cannot be read have none; `check_specs` tells what is wrong with them.

    Parameters
    ----------
    *folders : Path or str
        Whose subfolders hold the specs; by default those that `HIPSLAKE_SPECS` names. A file in one of them
        may name what a file in another one makes.
    prefix : str
        Of the ids of all DAGs.
    settings : DagSettings, optional
        Tags, and parameters of all DAGs and tasks. What a spec says under `airflow` goes on top.
    pipelines : mapping of str to DagSettings or None, optional
        Settings of single pipelines by name, such as `catalog_ingest`, on top of `settings`; None leaves a
        pipeline out.

    Raises
    ------
    ValueError
        The prefix cannot begin an id, or there is no such pipeline.
    ImportError
        Airflow's Spark provider is not installed.

    Examples
    --------
    A file in Airflow's DAGs folder::

        from hipslake_airflow import spec_dags

        globals().update(spec_dags("/our/specs"))
    """
    check_prefix(prefix)
    chosen = dict(pipelines or {})
    if unknown := sorted(chosen.keys() - set(pipeline_names())):
        raise ValueError(f"pipelines: there is no {unknown[0]!r}; there are {', '.join(pipeline_names())}")
    specs = SpecFolder(*(folders or specs_folders()))
    only = get_parsing_context().dag_id
    if only is not None:
        if not only.startswith(prefix):
            return {}
        only = only.removeprefix(prefix)
    found: dict[str, DAG] = {}
    for name in pipeline_names() if only is None else {only.partition("__")[0]} & set(pipeline_names()):
        own = chosen.get(name, DagSettings())
        if own is not None:
            with in_effect((settings or DagSettings()).then(own), prefix):
                found.update((dag.dag_id, dag) for dag in _pipeline(name).dags(specs, only))
    return found


def check_specs(*folders: Path | str) -> None:
    """Raise what is wrong with spec files; what a file of the DAGs folder raises, Airflow's UI shows.

    Parameters
    ----------
    *folders : Path or str
        As `spec_dags` has them, which leaves such files out.

    Raises
    ------
    SpecError
        A spec cannot be read: one line `file:line: key: what is wrong; what would be right` for each mistake.

    Examples
    --------
    A file of its own in Airflow's DAGs folder, since Airflow drops all DAGs of a file with an error::

        from hipslake_airflow import check_specs

        check_specs("/our/specs")
    """
    specs = SpecFolder(*(folders or specs_folders()))
    problems = specs.problems()
    for path, spec in specs.all_loaded():
        try:
            settings_of(spec, path)
        except SpecError as error:
            problems[path] = str(error)
    if problems:
        raise SpecError("\n".join(["spec files cannot be read:", *problems.values()]))


def pipeline_names() -> list[str]:
    """Return the names of all pipelines: those of the modules of `hipslake_airflow.pipelines`."""
    return sorted(module.name for module in iter_modules(_pipelines.__path__))


def _pipeline(name: str) -> Pipeline:
    try:
        pipeline: Pipeline = import_module(f"{_pipelines.__name__}.{name}").PIPELINE
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("airflow.providers"):
            raise
        raise ImportError(
            f"hipslake's DAGs need {error.name}, which is not installed; pip install 'hipslake[airflow]'"
        ) from error
    return pipeline
