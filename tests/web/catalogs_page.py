"""The catalogs page without a server: Airflow's own auth manager, and a warehouse of a few nights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hipslake_airflow.web.app import make_app

PREFIX = "/hipslake"


class PerDag(SimpleAuthManager):
    """Airflow's simple manager, but a viewer reads only the DAGs whose ids stand in their name."""

    def is_authorized_dag(self, *, details: Any = None, user: SimpleAuthManagerUser, **asked: Any) -> bool:
        if user.role == "VIEWER" and details is not None and details.id is not None:
            return details.id in user.username.split(",")
        return super().is_authorized_dag(details=details, user=user, **asked)


class Page:
    """The app of a warehouse behind Airflow's auth manager.

    Attributes
    ----------
    root : FastAPI
        What it is mounted into, as into Airflow's API server.
    """

    def __init__(self, warehouse: Path | str, specs: Path) -> None:
        purge_cached_app()
        self.root = FastAPI()
        self._manager = init_auth_manager(self.root)
        app = make_app(str(warehouse), specs)
        self.routes = app.routes
        self.root.mount(PREFIX, app)

    def cookies(self, name: str = "admin", role: str | None = "ADMIN") -> dict[str, str]:
        """What a browser keeps in which somebody has logged in."""
        user = SimpleAuthManagerUser(username=name, role=role)
        return {COOKIE_NAME_JWT_TOKEN: self._manager.generate_jwt(user)}

    def as_user(self, name: str = "admin", role: str | None = "ADMIN") -> TestClient:
        """A browser in which somebody has logged in."""
        return TestClient(self.root, base_url="http://testserver", cookies=self.cookies(name, role))

    def as_nobody(self) -> TestClient:
        """A browser without a session."""
        return TestClient(self.root)
