"""All DAGs of a deployment: what each pipeline makes of the spec files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from airflow.sdk import DAG, get_parsing_context
from hipslake.errors import SpecError
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow import pipelines
from hipslake_airflow.pipeline import Pipeline
from hipslake_airflow.spec_folders import specs_folder


def spec_dags(folder: Path | str | None = None) -> dict[str, DAG]:
    """Return the DAGs of all pipelines by id; a task, which needs its own only, gets that.

    Specs that cannot be read have none; `check_specs` tells what is wrong with them.

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


def check_specs(folder: Path | str | None = None) -> None:
    """Raise what is wrong with spec files; what a file of the DAGs folder raises, Airflow's UI shows.

    Parameters
    ----------
    folder : Path or str, optional
        As `spec_dags` has it, which leaves such files out.

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
    problems = SpecFolder(folder if folder is not None else specs_folder()).problems()
    if problems:
        raise SpecError("\n".join(["spec files cannot be read:", *problems.values()]))


def pipeline_names() -> list[str]:
    """Return the names of all pipelines: those of the modules of `hipslake_airflow.pipelines`."""
    return sorted(module.name for module in iter_modules(pipelines.__path__))


def _pipeline(name: str) -> Pipeline:
    pipeline: Pipeline = import_module(f"{pipelines.__name__}.{name}").PIPELINE
    return pipeline
