"""The health check of containers, against a server that answers as Airflow does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from hipslake_cluster import health

Serve = Callable[[object], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a document, and return its address; None is answered with an error."""
    told: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if told[-1] != b"null" else 503)
            self.end_headers()
            self.wfile.write(told[-1])

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()

    def answer(document: object) -> str:
        told.append(document if isinstance(document, bytes) else json.dumps(document).encode())
        return f"http://127.0.0.1:{server.server_port}/health"

    yield answer
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address_that_answers_is_healthy(serve: Serve) -> None:
    assert health.problem(serve(b"anything")) == ""


def test_what_a_component_lacks_is_told(serve: Serve) -> None:
    url = serve(
        {"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}, "dag_processor": None}
    )
    assert health.problem(url, "scheduler") == ""
    assert health.problem(url, "scheduler", "triggerer") == "triggerer is unhealthy"
    assert health.problem(url, "dag_processor") == "dag_processor is unknown"
    assert health.problem(url, "metadatabase") == "metadatabase is unknown"


@pytest.mark.parametrize("answer", [None, b"no JSON"])
def test_an_answer_that_says_nothing_is_told(serve: Serve, answer: object) -> None:
    url = serve(answer)
    assert health.problem(url, "scheduler").startswith(f"{url}: ")


def test_the_program_ends_by_what_it_found(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, code in ([serve(b"x")], 0), ([serve(b"{}"), "scheduler"], 1), ([], 2):
        monkeypatch.setattr(sys, "argv", ["health", *given])
        assert health.main() == code
    assert capsys.readouterr().err.splitlines() == [
        "scheduler is unknown",
        "usage: python -m hipslake_cluster.health URL [COMPONENT]",
    ]
