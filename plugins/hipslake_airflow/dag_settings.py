"""What a team sets for the DAGs of its specs: ids, tags, owners, pools, queues, callbacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from hipslake.errors import SpecError
from hipslake.specs.base import AirflowSpec, NamedSpec

_PREFIX = re.compile(r"(?:[A-Za-z0-9.-]|_(?!_))*")
_OURS = ("dag_id", "schedule", "params", "doc_md", "tags", "default_args")
"""Parameters of a DAG that a pipeline gives itself, or that stand beside `dag_args`."""


@dataclass(frozen=True)
class DagSettings:
    """Settings of DAGs, of all that a call of `spec_dags` makes, or of one pipeline's.

    Attributes
    ----------
    tags : collection of str
        Beside those that each DAG has: `hipslake`, its pipeline, and the name of its spec.
    default_args : mapping
        Parameters of all tasks, as Airflow's `default_args`: `owner`, `pool`, `queue`, `retries`,
        `on_failure_callback` and so on. Retries and limits of ours are replaced by what is given.
    dag_args : mapping
        Parameters of `airflow.sdk.DAG`: `on_failure_callback`, `access_control`, `max_active_runs` and so on.
    """

    tags: tuple[str, ...] = ()
    default_args: Mapping[str, Any] = field(default_factory=dict)
    dag_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what a pipeline decides itself."""
        object.__setattr__(self, "tags", tuple(self.tags))
        for name in _OURS:
            if name in self.dag_args:
                hint = f"; give {name}= beside it" if name in ("tags", "default_args") else ""
                raise ValueError(f"dag_args: {name!r} is given by the pipeline{hint}")

    def then(self, other: DagSettings) -> DagSettings:
        """Return these settings with others on top: tags add up, of arguments the others' count."""
        return DagSettings(
            tags=(*self.tags, *(tag for tag in other.tags if tag not in self.tags)),
            default_args={**self.default_args, **other.default_args},
            dag_args={**self.dag_args, **other.dag_args},
        )


def settings_of(spec: NamedSpec, path: Path) -> DagSettings:
    """Return what a spec says under `airflow`.

    Raises
    ------
    SpecError
        A callback cannot be imported.
    """
    said = spec.airflow or AirflowSpec()
    given: dict[str, Any] = {
        "owner": said.owner,
        "pool": said.pool,
        "queue": said.queue,
        "priority_weight": said.priority,
        "retries": said.retries,
    }
    for event in ("failure", "retry", "success"):
        names = getattr(said, f"on_{event}")
        if names:
            given[f"on_{event}_callback"] = [_imported(name, f"{path}: airflow.on_{event}") for name in names]
    return DagSettings(said.tags, {key: value for key, value in given.items() if value is not None})


def check_prefix(prefix: str) -> str:
    """Return a prefix of DAG ids.

    Raises
    ------
    ValueError
        It holds what ids of DAGs cannot, or the two underscores that part a pipeline from a spec.
    """
    if not _PREFIX.fullmatch(prefix) or len(prefix) > 60:
        raise ValueError(
            f"prefix: {prefix!r} cannot begin the id of a DAG; take up to 60 letters, digits, '.', '-' and "
            "single '_'"
        )
    return prefix


@dataclass(frozen=True)
class _InEffect:
    prefix: str = ""
    settings: DagSettings = DagSettings()


_NOTHING = _InEffect()
_IN_EFFECT: ContextVar[_InEffect] = ContextVar("hipslake_dag_settings", default=_NOTHING)


@contextmanager
def in_effect(settings: DagSettings, prefix: str = "") -> Iterator[None]:
    """Have the DAGs that are made within the block take settings, on top of those in effect."""
    before = _IN_EFFECT.get()
    token = _IN_EFFECT.set(_InEffect(before.prefix + prefix, before.settings.then(settings)))
    try:
        yield
    finally:
        _IN_EFFECT.reset(token)


def with_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a DAG with the settings in effect put in.

    Parameters
    ----------
    given : dict
        Parameters of `airflow.sdk.DAG`; the DAG's id is `<pipeline>__<spec>` or the pipeline alone.
    """
    now = _IN_EFFECT.get()
    pipeline, _, name = given["dag_id"].partition("__")
    tags = [*given.get("tags", ()), pipeline, *([name] if name else []), *now.settings.tags]
    return {
        **given,
        **now.settings.dag_args,
        "dag_id": now.prefix + given["dag_id"],
        "tags": list(dict.fromkeys(tags)),
        "default_args": {**given.get("default_args", {}), **now.settings.default_args},
    }


def _imported(name: str, where: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever the module does as it is imported
        raise SpecError(
            f"{where}: {name!r} cannot be imported ({type(error).__name__}: {error}); write module.function "
            "of a module on Airflow's path"
        ) from None
    if not callable(found):
        raise SpecError(f"{where}: {name!r} is no function; write module.function")
    return found
