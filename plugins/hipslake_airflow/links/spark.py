"""From a task to what Spark shows of its job: the history server, or the UI of the cluster.

Where these are is not known to a driver, so the Spark connection says it in its extra: `history-url` and
`ui-url`. Without either there is no link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from airflow.sdk.types import TaskInstanceKey

HISTORY, UI = "history-url", "ui-url"


class SparkLink(BaseOperatorLink):
    """What Spark shows of the job of a task; empty where the task started none, or nothing shows it."""

    name = "Spark"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the operator has found."""
        return getattr(operator, "spark_page", "")


def spark_page(connection: Connection, application: str = "") -> str:
    """Return the address of an application, or of the server that lists it; empty if there is none.

    Parameters
    ----------
    connection : Connection
        To Spark. `history-url` in its extra is that of a history server, `ui-url` that of the master of a
        standalone cluster or of YARN's resource manager.
    application : str
        The application's id, if it is known by now.

    Raises
    ------
    AirflowFailException
        An address in the connection is none of the web.
    """
    extra = connection.extra_dejson
    history, ui = (checked_address(connection, name, extra.get(name) or "") for name in (HISTORY, UI))
    if not application:
        return history or ui
    there = quote(application, safe="")
    if history:
        return f"{history}/history/{there}/"
    if not ui:
        return ""
    if connection.host == "yarn":
        return f"{ui}/cluster/app/{there}"
    return f"{ui}/app/?appId={there}" if (connection.host or "").startswith("spark://") else ui


def checked_address(connection: Connection, name: str, url: str) -> str:
    """A link that a browser follows must not be anything else, such as `javascript:`."""
    if not url:
        return ""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise AirflowFailException(
            f"Connection {connection.conn_id!r} has {url!r} for {name} in its extra; write an "
            "address such as http://history.example.org:18080"
        )
    return url.rstrip("/")
