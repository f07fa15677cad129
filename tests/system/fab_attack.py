"""The requests of an attack, made to Airflow's API server under FAB; `test_fab.py` runs it.

`python -m tests.system.fab_attack` prints, as JSON, the status of each request by its name, and the runs that
there are then. Airflow's home, its auth manager and the warehouse are those of the environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from fastapi.testclient import TestClient

OWN, OTHER = "catalog_ingest__stars", "catalog_ingest__other"
EXPORT = "catalog_export"
TASKS = ("DAG Runs", "Task Instances", "XComs", "Task Logs")
PASSWORD = "a-password-of-tests"
HOSTILE = {
    "conf that is no field": {"run_uri": "/private", "warehouse": "/private", "spec_file": "/private/x.yaml"},
    "a threshold that is none": {"threshold": "../../etc/passwd"},
    "a layout that is none": {"layout": "{{ 7*7 }}"},
    "minutes that are none": {"wait_minutes": "; rm -rf /"},
    "a window that is none": {"window_start": "$(id)"},
}
FORMS = {
    "a catalog of a path": {"catalog": "../other", "output": "a.csv"},
    "a catalog of markup": {"catalog": "<script>", "output": "a.csv"},
    "a format that is none": {"catalog": "stars", "output": "a.csv", "format": "pickle"},
    "a version that is none": {"catalog": "stars", "output": "a.csv", "version": -1},
    "no output": {"catalog": "stars"},
    "columns that are no list": {"catalog": "stars", "output": "a.csv", "columns": "id"},
}


def user(sm: Any, name: str, dag_ids: tuple[str, ...]) -> None:
    """Make a user who may trigger and clear some DAGs, and edit what their tasks have passed on."""
    role = sm.add_role(f"of {name}")
    rights = [
        (action, kind) for kind in TASKS for action in ("can_read", "can_edit", "can_create", "can_delete")
    ]
    rights += [("can_read", "Plugins"), ("can_read", "Website")]
    for dag_id in dag_ids:
        rights += [(action, f"DAG:{dag_id}") for action in ("can_read", "can_edit")]
        rights += [(action, f"DAG Run:{dag_id}") for action in ("can_read", "can_edit", "can_create")]
    for action, resource in rights:
        sm.add_permission_to_role(role, sm.create_permission(action, resource))
    sm.add_user(name, name, name, f"{name}@example.org", role, password=PASSWORD)


def session(app: Any, name: str) -> TestClient:
    """A client that has logged in."""
    client = TestClient(app)
    told = client.post("/auth/token", json={"username": name, "password": PASSWORD})
    assert told.status_code in (200, 201), told.text
    token = told.json()["access_token"]
    return TestClient(app, headers={"Authorization": f"Bearer {token}"}, cookies={"_token": token})


def requests_about(dag_id: str, name: str, run_id: str) -> Iterator[tuple[str, str, str, Any]]:
    """What the attack asks for of a DAG, and of the catalog that it makes: name, method, address, body."""
    runs = f"/api/v2/dags/{dag_id}/dagRuns"
    entries = f"{runs}/{run_id}/taskInstances/resolve/xcomEntries"
    taken = {"key": "return_value", "value": {"run_uri": "/private"}, "map_index": -1}
    yield "read the DAG", "GET", f"/api/v2/dags/{dag_id}", None
    yield "read its runs", "GET", runs, None
    yield "pause it", "PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False}
    yield "trigger it", "POST", runs, {"logical_date": None, "conf": {}}
    yield "clear its tasks", "POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", {"dry_run": True}
    yield "read what a task passed on", "GET", entries, None
    yield "replace what a task passed on", "POST", entries, taken
    yield "edit what a task passed on", "PATCH", f"{entries}/return_value", {"value": taken["value"]}
    page = f"/hipslake/api/catalogs/{name}"
    for path in ("", "/versions", "/cells?version=1", "/tiles/0/1?version=1", "/diff?old=1&new=1", "/runs"):
        yield f"page: {path or 'catalog'}", "GET", f"{page}{path}", None
    yield "page: reports", "GET", f"/hipslake/api/reports?dag_id={dag_id}&run_id={quote(run_id)}", None


def main() -> int:
    """Make the users, ask, and print what was answered."""
    from airflow.api_fastapi.app import create_app
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    subprocess.run([sys.executable, "-m", "airflow", "dags", "reserialize"], check=True, stdout=sys.stderr)
    with get_application_builder() as builder:
        sm = builder.sm
        sm.add_user("admin", "a", "a", "a@example.org", sm.find_role("Admin"), password=PASSWORD)
        user(sm, "stars", (OWN,))
        user(sm, "exporter", (EXPORT,))
        user(sm, "nobody", ())
    app = create_app()
    admin, stars, exporter, nobody = (session(app, name) for name in ("admin", "stars", "exporter", "nobody"))
    begun = {}
    for dag_id in (OWN, OTHER):
        told = admin.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": {}})
        assert told.status_code == 200, told.text
        begun[dag_id] = told.json()["dag_run_id"]
    answers: dict[str, dict[str, int]] = {}

    def ask(who: str, client: TestClient, dag_id: str, name: str) -> None:
        answers[who] = {
            what: client.request(method, address, json=body).status_code
            for what, method, address, body in requests_about(dag_id, name, begun[dag_id])
        }

    ask("no session", TestClient(app), OTHER, "other")
    ask("no rights", nobody, OTHER, "other")
    ask("another's", stars, OTHER, "other")
    ask("own", stars, OWN, "stars")
    for who, client, dag_id, forms in (("conf", stars, OWN, HOSTILE), ("forms", exporter, EXPORT, FORMS)):
        answers[who] = {
            what: client.post(
                f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf}
            ).status_code
            for what, conf in forms.items()
        }
    listed = [each["name"] for each in stars.get("/hipslake/api/catalogs").json()]
    admins = [each["name"] for each in admin.get("/hipslake/api/catalogs").json()]
    print(json.dumps({"answers": answers, "listed": listed, "admins": admins}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
