"""All DAGs of a deployment: what each pipeline makes of the spec files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from airflow.sdk import DAG, get_parsing_context
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow import pipelines
from hipslake_airflow.pipeline import Pipeline
from hipslake_airflow.spec_folders import specs_folder


def spec_dags(folder: Path | str | None = None) -> dict[str, DAG]:
    """Return the DAGs of all pipelines by id; a task, which needs its own only, gets that.

    Parameters
    ----------
    folder : Path or str, optional
        Whose subfolders hold the specs; by default the one that `HIPSLAKE_SPECS` names.

    Examples
    --------
    A file in Airflow's DAGs folder::

        from hipslake_airflow import spec_dags

        globals().update(spec_dags("/our/specs"))
    """
    specs = SpecFolder(folder if folder is not None else specs_folder())
    only = get_parsing_context().dag_id
    names = pipeline_names()
    if only is not None:
        names = [name for name in names if name == only.partition("__")[0]]
    return {dag.dag_id: dag for name in names for dag in _pipeline(name).dags(specs, only)}


def pipeline_names() -> list[str]:
    """Return the names of all pipelines: those of the modules of `hipslake_airflow.pipelines`."""
    return sorted(module.name for module in iter_modules(pipelines.__path__))


def _pipeline(name: str) -> Pipeline:
    pipeline: Pipeline = import_module(f"{pipelines.__name__}.{name}").PIPELINE
    return pipeline
