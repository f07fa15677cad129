"""Airflow finds the plugin by its entry point, and loading it imports little else of the package."""

from __future__ import annotations

import subprocess
import sys

from airflow import plugins_manager

LOAD = """
import sys
from importlib.metadata import entry_points
(found,) = entry_points(group="airflow.plugins", name="hipslake")
print(found.load().name, *sorted(name for name in sys.modules if name.startswith("hipslake")))
"""


def test_airflow_loads_the_plugin_once_and_without_errors() -> None:
    plugins, errors = plugins_manager._get_plugins()
    assert errors == {}
    assert [plugin.name for plugin in plugins].count("hipslake") == 1


def test_loading_the_plugin_imports_little_of_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    of_providers = {"hipslake", "hipslake.library_version", "hipslake_airflow.provider_info"}
    assert set(done.stdout.split()) - of_providers == {
        "hipslake_airflow",
        "hipslake_airflow.plugin",
        "hipslake_airflow.links",
        "hipslake_airflow.links.page",
        "hipslake_airflow.night_timetable",
        "hipslake_airflow.run_notes",
    }
