"""From a task to the catalogs page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PACKAGE = __name__.partition(".")[0]


class CatalogsPageLink(BaseOperatorLink):
    """The page of the catalog that a task's DAG is about; that of all, for other DAGs.

    The plugin gives it to all tasks, so Airflow's API server makes it when it is asked for: also of tasks
    that wait, run or were skipped. Links of operators show only once their task has ended. Tasks that are
    none of ours have none.
    """

    name = "Catalogs page"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the path in Airflow's UI, at whatever address that is seen; empty for others' operators."""
        if not getattr(operator, "_task_module", "").startswith(f"{PACKAGE}."):
            return ""
        below = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
        return f"{below}{page_of(ti_key.dag_id)}"


def page_of(dag_id: str) -> str:
    """Return the path of the page about the catalog that a DAG makes.

    Examples
    --------
    >>> page_of("catalog_ingest__gaia_dr3")
    '/dags/catalog_ingest__gaia_dr3/plugin/catalog'
    >>> page_of("survey.catalog_ingest__gaia_dr3")
    '/dags/survey.catalog_ingest__gaia_dr3/plugin/catalog'
    >>> page_of("iceberg_sink__gaia_dr3")
    '/plugin/catalogs'
    """
    of_one = re.search(r"catalog_[a-z]+__", dag_id)
    return f"/dags/{dag_id}/plugin/catalog" if of_one else "/plugin/catalogs"
