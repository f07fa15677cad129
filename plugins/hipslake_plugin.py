"""The only file that Airflow's plugin loader executes; the code lies in the package `hipslake_airflow`.

The loader runs every `.py` under plugins/ as a top-level module, so `.airflowignore` keeps it out of the
package. Operators and sensors are imported normally: `from hipslake_airflow.operators.versions import ...`.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class HipslakePlugin(AirflowPlugin):
    """Makes hipslake known to Airflow."""

    name = "hipslake"
