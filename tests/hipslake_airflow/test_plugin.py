"""Airflow's plugin loader takes the one plugin file and leaves the package alone."""

from __future__ import annotations

import sys

from airflow import plugins_manager


def test_the_loader_executes_the_plugin_file_and_nothing_in_the_package() -> None:
    before = {name for name in sys.modules if name.startswith("hipslake_airflow")}
    plugins, errors = plugins_manager._get_plugins()
    assert errors == {}
    assert "hipslake" in {plugin.name for plugin in plugins}
    assert {name for name in sys.modules if name.startswith("hipslake_airflow")} == before
    assert not {"spark_step", "catalog", "source_files"} & set(sys.modules)
