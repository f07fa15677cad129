"""The folder of a run. Its place is computed from the DAG run, not taken from what a task is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.failures import failure_to_raise

WAREHOUSE = "${HIPSLAKE_WAREHOUSE}"
MATERIALISED = "materialise"
"""In the run folder of a cube: that of the run of the catalog that its joined rows become."""


def pushed_run_uri(task_id: str = "resolve") -> str:
    """Return the template of the run folder that a task has pushed; empty where it has pushed none.

    A template draws no edge: an XComArg would draw one from that task to every task of the run.

    Parameters
    ----------
    task_id : str

    Examples
    --------
    >>> pushed_run_uri()
    "{{ ti.xcom_pull(task_ids='resolve', key='run_uri') or '' }}"
    """
    return f"{{{{ ti.xcom_pull(task_ids={task_id!r}, key='run_uri') or '' }}}}"


class InRunFolder:
    """A task of a run that was resolved before: its `run_uri` is computed before it is executed.

    A mixin; named before the operator. What the task was given as `run_uri`, by XCom as a rule, has to be
    that place: XComs can be edited by users who may not read what the worker may read.
    """

    template_fields: Sequence[str] = ("run_uri",)
    run_uri: Any = ""
    warehouse: str = WAREHOUSE
    part: str = ""

    def pre_execute(self, context: Context) -> None:
        """Compute the place of the run, and refuse another one."""
        super().pre_execute(context)  # type: ignore[misc]
        if "run_uri" in self.template_fields:
            self.run_uri = own_run_folder(self.run_uri, self.warehouse, self.part, context)

    def run_fields(self, context: Context) -> dict[str, Any]:
        """Return the field of a request that says which run it is of."""
        return {"run_uri": self.run_uri}


class StartsRun:
    """The first task of a run, or its only one: its folder follows from the DAG run.

    A mixin; named before the operator, which is an `InRunFolder`.
    """

    warehouse: str

    def run_fields(self, context: Context) -> dict[str, Any]:
        """Return the fields of a request that say which run it is of, and in which warehouse."""
        warehouse, run_uri = place_of_run(self.warehouse, context)
        return {"run_uri": run_uri, "warehouse": warehouse}


def place_of_run(warehouse: str, context: Context) -> tuple[str, str]:
    """Return the root of the warehouse, with variables expanded, and the folder of a run in it, as URIs."""
    from hipslake.specs.environment import expand
    from hipslake.steps.run import run_uri

    root, run = expand(warehouse), context["dag_run"]
    return root, run_uri(root, run.dag_id, run.run_id)


def own_run_folder(given: Any, warehouse: str, part: str, context: Context) -> str:
    """Return the folder of a DAG run in a warehouse.

    Parameters
    ----------
    given : object
        What the task was given; empty: nothing.
    warehouse : str
        `${NAME}` is expanded.
    part : str
        A folder in it; empty: the whole.
    context : Context

    Raises
    ------
    AirflowFailException
        If it was given another place.
    """
    from hipslake.errors import HipslakeError
    from hipslake.steps.report import failure_of

    try:
        _, place = place_of_run(warehouse, context)
    except HipslakeError as error:
        failure = failure_of(error)
        raise failure_to_raise(failure) from (None if failure.is_expected else error)
    place = f"{place}/{part}" if part else place
    if given and given != place:
        raise AirflowFailException(
            f"This run's folder is {place}, and the task was given another one. Somebody has changed an "
            "XCom of this run, or the DAG hands over what is none of it; clear the run from its first task"
        )
    return place
