"""The health check of containers, against a server that answers as Airflow does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

import pytest
from hipslake_cluster import health

from tests.stores.http_serving import PlainHandler, running_http

Serve = Callable[[object], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a document, and return its address; None is answered with an error."""
    told: list[bytes] = []

    class Handler(PlainHandler):
        def reply(self, body: bytes) -> None:
            self.answer(200 if told[-1] != b"null" else 503, told[-1])

    with running_http(Handler) as address:

        def answer(document: object) -> str:
            told.append(document if isinstance(document, bytes) else json.dumps(document).encode())
            return f"{address}/health"

        yield answer


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
