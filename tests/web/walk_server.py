"""The page of the warehouse to walk through, served over HTTP, with what it asks of Airflow's own API."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request

from tests.steps.nights import FIRST
from tests.web.catalogs_page import PREFIX, Page

DAGS = (
    "catalog_ingest__objects", "catalog_ingest__nights", "catalog_crossmatch__objects_x_nights",
    "catalog_rollback__nights", "catalog_rollback__objects_x_nights", "catalog_compact__nights",
    "catalog_vacuum__nights", "catalog_export",
)  # fmt: skip


@dataclass
class Walk:
    """A served page.

    Attributes
    ----------
    address : str
        Of the page itself.
    cookies : dict
        Of somebody who has logged in.
    triggered : list
        DAG and conf of each run that the page asked Airflow for.
    """

    address: str
    cookies: dict[str, str]
    triggered: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def root(self) -> str:
        """Where the server answers."""
        return self.address.removesuffix(f"{PREFIX}/catalogs")


@contextmanager
def walking(warehouse: Path, specs: Path) -> Iterator[Walk]:
    """Serve a warehouse; the auth manager has to be set before."""
    add_dags()
    page = Page(warehouse, specs)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    walk = Walk(f"http://127.0.0.1:{port}{PREFIX}/catalogs", page.cookies())
    add_airflow_api(page.root, walk)
    server = uvicorn.Server(uvicorn.Config(page.root, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield walk
    finally:
        server.should_exit = True
        thread.join(20)


def add_airflow_api(root: FastAPI, walk: Walk) -> None:
    """What Airflow's API answers of a DAG's form; forms are those of the DAGs, and check what comes."""

    @root.get("/api/v2/dags/{dag_id}/details")
    def details(dag_id: str) -> dict[str, Any]:
        told = {name: param.dump() for name, param in params_of(dag_id).items()}
        return {
            "dag_id": dag_id,
            "dag_display_name": dag_id,
            "description": "Export rows of a catalog" if dag_id == "catalog_export" else None,
            "is_paused": False,
            "params": told,
        }

    @root.post("/api/v2/dags/{dag_id}/dagRuns")
    async def trigger(dag_id: str, request: Request) -> dict[str, str]:
        conf = (await request.json())["conf"]
        for name, param in params_of(dag_id).items():
            try:
                param.resolve(conf[name])
            except Exception as error:
                raise HTTPException(400, f"{name}: {error}") from None
        walk.triggered.append((dag_id, conf))
        return {"dag_run_id": f"manual__{len(walk.triggered)}"}


def params_of(dag_id: str) -> dict[str, Any]:
    """The params of the DAGs that the walk triggers."""
    from hipslake_airflow.params.catalog import rollback_params
    from hipslake_airflow.params.export import export_params

    if dag_id == "catalog_export":
        return export_params(["nights", "objects"])
    pipeline, _, name = dag_id.partition("__")
    return rollback_params(name) if pipeline == "catalog_rollback" else {}


def add_dags() -> None:
    """DAGs and runs, as Airflow has them in its database; a night failed, and came later."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        for dag_id in DAGS:
            session.merge(DagModel(dag_id=dag_id, bundle_name="dags-folder", is_stale=False, fileloc="x"))
        session.flush()
        states = {
            0: DagRunState.SUCCESS,
            1: DagRunState.SUCCESS,
            2: DagRunState.FAILED,
            3: DagRunState.SUCCESS,
        }
        for number, state in states.items():
            start = FIRST + timedelta(days=number)
            session.add(
                DagRun(
                    dag_id="catalog_ingest__nights",
                    run_id=f"night-{number}",
                    run_type=DagRunType.SCHEDULED,
                    data_interval=(start, start + timedelta(days=1)),
                    run_after=start + timedelta(days=1),
                    logical_date=start,
                    start_date=datetime.now(UTC) - timedelta(minutes=9 - number),
                    state=state,
                    triggered_by=DagRunTriggeredByType.TEST,
                )
            )
