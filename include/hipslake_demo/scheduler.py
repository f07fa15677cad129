"""An Airflow with its scheduler, spoken to over its public API, as scripts of users may."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

_SECONDS = 30.0  # for one answer
_TRIES, _PAUSE = 10, 3.0  # seconds


class SchedulerError(Exception):
    """Airflow did not start, or did not answer."""


@dataclass(frozen=True)
class Run:
    """A run of a DAG, and what it was started by."""

    dag_id: str
    run_id: str
    state: str  # queued, running, success or failed
    kind: str  # manual, scheduled, asset_triggered
    start: datetime | None
    end: datetime | None

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.state in ("success", "failed")

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it goes on."""
        return (self.end - self.start).total_seconds() if self.start and self.end else 0.0


class Scheduler:
    """The Airflow of this environment.

    Parameters
    ----------
    url : str
        Of its UI and API.
    token : str
        A login.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    @classmethod
    def of_environment(cls) -> Scheduler:
        """Log in to the Airflow that `make up` starts, with the password that it has generated.

        Raises
        ------
        SchedulerError
            If it does not answer.
        """
        url = os.environ["AIRFLOW__API__BASE_URL"]
        passwords = Path(os.environ["AIRFLOW_HOME"], "simple_auth_manager_passwords.json.generated")
        try:
            user, password = next(iter(json.loads(passwords.read_text()).items()))
        except (OSError, ValueError, StopIteration) as error:
            raise SchedulerError(f"{passwords}: holds no login") from error
        answer = _asked("POST", f"{url}/auth/token", {"username": user, "password": password}, token=None)
        return cls(url, answer["access_token"])

    def knows(self, dag_id: str) -> bool:
        """Whether the DAG was read."""
        try:
            self._ask("GET", f"dags/{quote(dag_id)}")
        except _NotFoundError:
            return False
        return True

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's schedule start runs."""
        self._ask("PATCH", f"dags/{quote(dag_id)}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run by hand, with some params; its id."""
        body: dict[str, Any] = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._ask("POST", f"dags/{quote(dag_id)}/dagRuns", body)["dag_run_id"])

    def runs(self, since: datetime) -> list[Run]:
        """The runs that were made since, of all DAGs, in that order."""
        query = urlencode({"run_after_gte": since.isoformat(), "order_by": "run_after", "limit": 100})
        found = self._ask("GET", f"dags/~/dagRuns?{query}")["dag_runs"]
        return [
            Run(
                dag_id=run["dag_id"],
                run_id=run["dag_run_id"],
                state=run["state"],
                kind=run["run_type"],
                start=_time(run["start_date"]),
                end=_time(run["end_date"]),
            )
            for run in found
        ]

    def started_by(self, run: Run) -> list[str]:
        """The names of the assets whose events started a run; none for one that was started by hand."""
        place = f"dags/{quote(run.dag_id)}/dagRuns/{quote(run.run_id)}/upstreamAssetEvents"
        events = self._ask("GET", place)["asset_events"]
        return list(dict.fromkeys(event["name"] for event in events))

    def tasks(self, run: Run) -> dict[str, str]:
        """The state of each task of a run that has one."""
        place = f"dags/{quote(run.dag_id)}/dagRuns/{quote(run.run_id)}/taskInstances"
        found = self._ask("GET", place)["task_instances"]
        found.sort(key=lambda task: task["start_date"] or "~")
        return {task["task_id"]: task["state"] for task in found if task["state"]}

    def _ask(self, method: str, place: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask; what only reads is asked again where Airflow is too busy, as it is at times on SQLite."""
        for left in reversed(range(_TRIES if method == "GET" else 1)):
            try:
                return _asked(method, f"{self._url}/api/v2/{place}", body, token=self._token)
            except _NotFoundError:
                raise
            except SchedulerError:
                if not left:
                    raise
                time.sleep(_PAUSE)
        raise AssertionError("every try returns or raises")


@contextmanager
def running() -> Iterator[Scheduler]:
    """Start Airflow with its scheduler, and stop it at the end; one that is up already stays up.

    Raises
    ------
    SchedulerError
        If it does not start; the script has said why.
    """
    script = str(Path(os.environ["HIPSLAKE_ROOT"], "include", "setup", "standalone.py"))
    was_up = _answers(os.environ["AIRFLOW__API__BASE_URL"])
    try:
        if not was_up and subprocess.run([sys.executable, script, "up"], check=False).returncode:
            raise SchedulerError("Airflow did not start")
        yield Scheduler.of_environment()
    finally:
        if not was_up:
            subprocess.run([sys.executable, script, "down"], check=False)


class _NotFoundError(SchedulerError):
    """There is no such thing."""


def _asked(method: str, url: str, body: Mapping[str, Any] | None, *, token: str | None) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        kind = _NotFoundError if error.code == 404 else SchedulerError
        raise kind(f"{method} {url}: {error.code} {error.read().decode(errors='replace')[:300]}") from error
    except (OSError, ValueError) as error:
        raise SchedulerError(f"{method} {url}: {error}") from error


def _answers(url: str) -> bool:
    try:
        _asked("GET", f"{url}/api/v2/monitor/health", None, token=None)
    except SchedulerError:
        return False
    return True


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
