"""The Airflow side of hipslake: operators, sensors, triggers and hooks. Airflow decides when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake_airflow.all_dags import spec_dags

__all__ = ["spec_dags"]


def __getattr__(name: str) -> Any:
    if name == "spec_dags":
        from hipslake_airflow.all_dags import spec_dags

        return spec_dags
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
