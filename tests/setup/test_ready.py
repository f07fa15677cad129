"""What `make up` waits for: an API that answers tasks at once, and DAG files that were read."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.stores.http_serving import PlainHandler, running_http

sys.path.insert(0, str(Path(__file__).parents[2] / "include" / "setup"))
import ready

NOW = datetime.now(UTC)
Answers = Callable[[str, str], tuple[int, Any]]


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], str]]:
    """Serve answers on loopback; what they are follows from method and path."""
    with ExitStack() as servers:

        def serve_answers(answers: Answers) -> str:
            class Handler(PlainHandler):
                def reply(self, body: bytes) -> None:
                    code, told = answers(self.command, self.path)
                    self.answer(code, json.dumps(told).encode())

            return servers.enter_context(running_http(Handler))

        yield serve_answers


@pytest.mark.parametrize("code", [401, 403, 404, 422])
def test_an_api_that_refuses_at_once_is_ready(serve: Callable[[Answers], str], code: int) -> None:
    asked = []

    def answers(method: str, path: str) -> tuple[int, Any]:
        asked.append((method, path.split("/")[1:3]))
        return code, {}

    assert ready.tasks_not_served(serve(answers)) == ""
    assert asked == [("PATCH", ["execution", "task-instances"])]


def test_an_api_that_fails_or_takes_long_or_is_not_there_is_not_ready(
    serve: Callable[[Answers], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "500" in ready.tasks_not_served(serve(lambda *_: (500, {})))
    assert "refused" in ready.tasks_not_served("http://127.0.0.1:9")

    def slow(*_: str) -> tuple[int, Any]:
        time.sleep(0.3)
        return 403, {}

    monkeypatch.setattr(ready, "QUICK", 0.1)
    assert "answered after" in ready.tasks_not_served(serve(slow))


@pytest.mark.parametrize(
    ("dags", "errors", "said"),
    [
        ([], [], "not read yet"),
        ([timedelta(seconds=-1)], [], "not read yet"),
        ([timedelta(seconds=-1), timedelta(seconds=1)], [], ""),
        ([timedelta(seconds=-1)], [timedelta(seconds=1)], ""),
        ([], [timedelta(seconds=-1)], "not read yet"),
        ([None], [], "not read yet"),
    ],
)
def test_dags_count_that_were_read_since_the_start(
    serve: Callable[[Answers], str],
    tmp_path: Path,
    dags: list[timedelta | None],
    errors: list[timedelta],
    said: str,
) -> None:
    at = [None if each is None else (NOW + each).isoformat().replace("+00:00", "Z") for each in dags]
    told = {
        "/auth/token": (201, {"access_token": "t"}),
        "/api/v2/dags?limit=100": (200, {"dags": [{"last_parsed_time": each} for each in at]}),
        "/api/v2/importErrors?limit=100": (
            200,
            {"import_errors": [{"timestamp": (NOW + each).isoformat()} for each in errors]},
        ),
    }
    passwords = tmp_path / "passwords"
    passwords.write_text('{"admin": "x"}')
    found = ready.dags_not_read(serve(lambda _, path: told[path]), passwords, NOW)
    assert (said in found) if said else found == ""


def test_whom_nobody_lets_in_does_not_wait_for_dags(serve: Callable[[Answers], str], tmp_path: Path) -> None:
    url = serve(lambda *_: (401, {}))
    assert ready.dags_not_read(url, tmp_path / "none", NOW) == ""
    (tmp_path / "passwords").write_text('{"admin": "x"}')
    assert ready.dags_not_read(url, tmp_path / "passwords", NOW) == ""
