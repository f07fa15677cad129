"""Airflow's loop behind `dags test`, without its pauses.

It waits a second each time that a skip or a failure is only handed on to the next tasks: some seconds a run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

LOOP = "airflow.sdk.definitions.dag"
_PAUSE = 0.02


def without_pauses(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """Return a `time.sleep` that is short where that loop calls it, and as ever for all others."""

    def prompt(seconds: float) -> None:
        sleep(_PAUSE if sys._getframe(1).f_globals.get("__name__") == LOOP else seconds)

    return prompt
