"""Access rights on the catalogs page, checked by Airflow's own session and auth manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, status

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.parameters import Name

Result = TypeVar("Result")
_AT_ONCE = 500  # names in one query

SEES_PLUGINS = Depends(requires_access_view(AccessView.PLUGINS))
"""401 without a session, 403 without the right to see plugins."""


class Reader:
    """The user of a request, and which DAGs they may read.

    Parameters
    ----------
    user : BaseUser
        As Airflow's auth manager knows them.
    """

    def __init__(self, user: BaseUser) -> None:
        self._user = user

    def may_read(self, dag_id: str, entity: DagAccessEntity | None = None) -> bool:
        """Whether they may read a DAG, or one kind of its data."""
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        return get_auth_manager().is_authorized_dag(
            method="GET", access_entity=entity, details=details, user=self._user
        )

    def readable(self, dag_ids: Iterable[str], entity: DagAccessEntity | None = None) -> set[str]:
        """Those of many DAGs that they may read, or one kind of whose data; one query for all."""
        asked = list(dict.fromkeys(dag_ids))
        teams: dict[str, str | None] = {}
        for first in range(0, len(asked), _AT_ONCE):
            teams |= DagModel.get_dag_id_to_team_name_mapping(asked[first : first + _AT_ONCE])
        manager = get_auth_manager()
        return {
            dag_id
            for dag_id in asked
            if manager.is_authorized_dag(
                method="GET",
                access_entity=entity,
                details=DagDetails(id=dag_id, team_name=teams.get(dag_id)),
                user=self._user,
            )
        }

    def may_read_runs(self, dag_id: str) -> bool:
        """Whether they may read the runs of a DAG."""
        return self.may_read(dag_id, DagAccessEntity.RUN)

    def may_read_any(self, dag_ids: tuple[str, ...]) -> bool:
        """Whether they may read one of the DAGs, at least."""
        return any(self.may_read(dag_id) for dag_id in dag_ids)

    def require(self, *dag_ids: str) -> None:
        """Raise HTTP 403 if the user may read none of the DAGs."""
        if not self.may_read_any(dag_ids):
            raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")


def reader(user: GetUserDep) -> Reader:
    """The user of this request."""
    return Reader(user)


ReaderDep = Annotated[Reader, Depends(reader)]


def queried(query: Callable[..., Result], *given: Any) -> Result:
    """What a query of the database says; its connection is given back before anything else is waited for.

    Airflow's own API has few: none is held while the reader's rights are looked up, or a store is asked.
    """
    with create_session(scoped=False) as session:
        return query(*given, session)


def require_catalog(name: str, reader: Reader) -> None:
    """Raise HTTP 403 if the user may read none of the DAGs that make a catalog."""
    reader.require(*queried(pipelines.owners, pipelines.MAKE_CATALOG, name))


def may_read_catalog(name: str, reader: Reader) -> bool:
    """Whether the user may read one of the DAGs that make a catalog."""
    return reader.may_read_any(queried(pipelines.owners, pipelines.MAKE_CATALOG, name))


def _may_read_catalog(name: Name, reader: ReaderDep) -> None:
    require_catalog(name, reader)


MAY_READ_CATALOG = Depends(_may_read_catalog)
"""403 without the right to read a DAG that makes the catalog named in the address."""
