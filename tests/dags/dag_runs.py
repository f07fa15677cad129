"""What tests of DAGs share: how they load them, what their forms say, and how the tasks of a run ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Load = Callable[[], dict[str, Any]]
"""The fixture `load`: the DAGs by their ids."""


def states(run: Any) -> dict[str, str]:
    """The states of a run's tasks by their ids."""
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


def check_form(params: Any) -> None:
    """Look that each field of a form has a title and says what it is for."""
    for name in params:
        assert params.get_param(name).schema.get("title"), name
        assert params.get_param(name).description, name


def without_key(spec: str) -> str:
    """The text of a spec in mode upsert, without its lines that are about keys."""
    of_keys = ("mode", "key", "order_by", "operation")
    return "\n".join(line for line in spec.splitlines() if not line.startswith(of_keys))
