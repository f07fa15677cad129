"""`airflow standalone`, whose scheduler and triggerer serve no logs to the network.

Airflow's log servers listen on all interfaces, and there is no setting for that. On one machine nobody asks
them: the API server reads the files.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.__main__ import main
from airflow.cli.commands import standalone_command

_SERVING = ("scheduler", "triggerer")


class _Component(standalone_command.SubCommand):
    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        more = ["--skip-serve-logs"] if name in _SERVING else []
        super().__init__(parent, name, [*command, *more], env)


if __name__ == "__main__":
    standalone_command.SubCommand = _Component  # type: ignore[misc]
    sys.argv = ["airflow", "standalone"]
    main()
