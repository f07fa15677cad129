"""DAGs that ship, run whole by `airflow dags test` on real stars."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.system.environment import LOCAL, environment
from tests.system.trees import started

_SECONDS = 600  # alone it takes 40; beside others on two cores several times as many


@dataclass(frozen=True)
class Lake:
    """A landing folder and a warehouse."""

    landing: Path
    warehouse: Path
    logs: Path

    def catalog(self, name: str) -> Path:
        return self.warehouse / "catalogs" / name

    def ingest(self, name: str, *, spark: dict[str, object] = LOCAL, **variables: str) -> str:
        """Run a catalog's DAG, which must go well; what it logged.

        Parameters
        ----------
        name : str
            Of the catalog.
        spark : dict
            The Airflow connection of Spark.
        variables : str
            Further environment variables.
        """
        folders = {"HIPSLAKE_LANDING": str(self.landing), "HIPSLAKE_WAREHOUSE": str(self.warehouse)}
        log = self.logs / f"{name}-{len(list(self.logs.iterdir()))}.log"
        command = [sys.executable, "-m", "airflow", "dags", "test", f"catalog_ingest__{name}"]
        with started(command, log, env=environment(spark=spark, **folders, **variables)) as run:
            run.wait(seconds=_SECONDS)
            return run.text()
