"""From a task to the catalogs page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class CatalogsPageLink(BaseOperatorLink):
    """The page of the catalog that a task's DAG is about; that of all, for other DAGs."""

    name = "Catalogs page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address, in Airflow's UI."""
        base = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
        return f"{base}{page_of(ti_key.dag_id)}"


def page_of(dag_id: str) -> str:
    """Return the path of the page about the catalog that a DAG makes.

    Examples
    --------
    >>> page_of("catalog_ingest__gaia_dr3")
    '/dags/catalog_ingest__gaia_dr3/plugin/catalog'
    >>> page_of("iceberg_sink__gaia_dr3")
    '/plugin/catalogs'
    """
    of_one = dag_id.startswith("catalog_") and "__" in dag_id
    return f"/dags/{dag_id}/plugin/catalog" if of_one else "/plugin/catalogs"
