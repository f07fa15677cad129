"""Airflow's REST API, as a client on the network sees it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

from tests.trust.waiting import until

_PASSING = (401, 500, 502, 503, 504)  # while the database or the server is away, or the login is old
_ANSWER_SECONDS = 60
_AWAY_SECONDS = 600  # how long the API may be away while its database or itself is started again


@dataclass
class Api:
    """A client that waits where the server is away for a while."""

    url: str
    password: str
    token: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask for something of `/api/v2`; what is answered, as JSON."""
        answered: list[Any] = []

        def asked() -> bool:
            try:
                answered.append(self._ask(method, f"/api/v2{path}", body))
            except urllib.error.HTTPError as error:
                if error.code not in _PASSING:
                    told = error.read().decode(errors="replace")
                    raise AssertionError(f"{method} {path}: {error.code} {told}") from None
                if error.code == HTTPStatus.UNAUTHORIZED:
                    self.token = ""
                return False
            except OSError:
                return False
            return True

        until(asked, seconds=_AWAY_SECONDS, what=f"{method} {path}", pause=2)
        return answered[0]

    def unpause(self, dag: str) -> None:
        """Switch a DAG on, once it is known."""
        until(lambda: self._knows(dag), seconds=_AWAY_SECONDS, what=f"the DAG {dag}", pause=3)
        self.call("PATCH", f"/dags/{dag}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag: str, conf: dict[str, Any]) -> None:
        """Start a run by hand."""
        self._ask("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})

    def backfill(self, dag: str, first: datetime, last: datetime, conf: dict[str, Any]) -> None:
        """Start a run for each interval that begins in a span, both ends counted."""
        body = {
            "dag_id": dag,
            "from_date": first.isoformat(),
            "to_date": last.isoformat(),
            "max_active_runs": 4,
            "dag_run_conf": conf,
        }
        self._ask("POST", "/api/v2/backfills", body)

    def runs(self, dag: str) -> dict[str, str]:
        """Return the states of the runs that were asked for, by id: not of those that the schedule began."""
        runs = self._all(f"/dags/{dag}/dagRuns", "dag_runs")
        return {run["dag_run_id"]: run["state"] for run in runs if run["run_type"] != "scheduled"}

    def tasks(self, dag: str, run: str = "~") -> list[dict[str, Any]]:
        """Return the task instances of a run, or of all runs of a DAG."""
        return self._all(f"/dags/{dag}/dagRuns/{run}/taskInstances", "task_instances")

    def _all(self, path: str, kind: str) -> list[dict[str, Any]]:
        """Return all entries of a listing, which answers with a page of at most 100."""
        entries: list[dict[str, Any]] = []
        while True:
            told = self.call("GET", f"{path}?limit=100&offset={len(entries)}&order_by=id")
            entries += told[kind]
            if not told[kind] or len(entries) >= told["total_entries"]:
                return entries

    def _knows(self, dag: str) -> bool:
        told = self.call("GET", f"/dags?dag_id_pattern={dag}&exclude_stale=true")
        return any(found["dag_id"] == dag for found in told["dags"])

    def _ask(self, method: str, path: str, body: Any) -> Any:
        if not self.token:
            login = {"username": "admin", "password": self.password}
            self.token = self._send("POST", "/auth/token", login)["access_token"]
        return self._send(method, path, body)

    def _send(self, method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)
