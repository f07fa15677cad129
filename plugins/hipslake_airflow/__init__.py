"""The Airflow side of hipslake: operators, sensors, triggers and hooks. Airflow decides when."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake_airflow.all_dags import check_specs, spec_dags
    from hipslake_airflow.dag_settings import DagSettings

__all__ = ["DagSettings", "check_specs", "spec_dags"]

# All processes of an Airflow have this folder in common; a checkout is its own root.
os.environ.setdefault("HIPSLAKE_ROOT", os.environ.get("AIRFLOW_HOME") or str(Path("~/airflow").expanduser()))


def __getattr__(name: str) -> Any:
    if name in __all__:
        from hipslake_airflow import all_dags

        return getattr(all_dags, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
