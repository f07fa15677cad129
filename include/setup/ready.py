"""Whether an Airflow that has just been started is ready for work: what `make up` waits for."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

QUICK = 2.0  # seconds in which an API that is ready answers
_NOBODY = "00000000-0000-7000-8000-000000000000"
_SECONDS = 60.0  # an API that is not ready yet may take as long


def tasks_not_served(url: str) -> str:
    """Return why a task that started now could lose its first try, or "".

    The API that tasks report to builds much of itself at its first call. So it is called as a task calls it,
    without a token, which it has to refuse, and within seconds: a task that waits longer asks again, and is
    refused for good, since its first call has started it.
    """
    where = f"{url}/execution/task-instances/{_NOBODY}/run"
    begun = time.monotonic()
    try:
        _asked("PATCH", where, {})
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            return f"{where}: {error.code}"
    except OSError as error:
        return f"{where}: {error}"
    seconds = time.monotonic() - begun
    return "" if seconds <= QUICK else f"{where}: answered after {seconds:.0f} s"


def dags_not_read(url: str, passwords: Path, since: datetime | None) -> str:
    """Return that the DAG files were not read yet, or "".

    Without a login of Airflow's simple auth manager nobody can say; then "".

    Parameters
    ----------
    url : str
    passwords : Path
        The file with the generated passwords.
    since : datetime, optional
        Files count that were read since, with or without an error; by default, whenever.
    """
    try:
        user, password = next(iter(json.loads(passwords.read_text()).items()))
        token = _asked("POST", f"{url}/auth/token", {"username": user, "password": password})["access_token"]
    except (OSError, ValueError, StopIteration, KeyError, AttributeError):
        return ""
    try:
        dags = _asked("GET", f"{url}/api/v2/dags?limit=100", token=token)["dags"]
        errors = _asked("GET", f"{url}/api/v2/importErrors?limit=100", token=token)["import_errors"]
    except (OSError, ValueError) as error:
        return f"{url}/api/v2: {error}"
    read = [dag["last_parsed_time"] for dag in dags] + [error["timestamp"] for error in errors]
    times = [datetime.fromisoformat(each) for each in read if each]
    if any(since is None or each >= since for each in times):
        return ""
    return "the DAG files were not read yet"


def _asked(method: str, url: str, body: Mapping[str, Any] | None = None, *, token: str | None = None) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        return json.load(answer)
