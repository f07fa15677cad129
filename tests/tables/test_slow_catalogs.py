"""A REST catalog that does not answer, or without end, is not waited for any longer than the limits say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hipslake.errors import StoreTimeoutError
from hipslake.specs.table_place import IcebergSpec
from hipslake.steps.report import failure_of
from hipslake.storage.timeouts import Deadline, limited, within
from hipslake.tables.iceberg.catalogs import find_table, open_catalog
from hipslake.tables.iceberg.rest_catalog import limit_requests
from requests import Session
from requests.exceptions import ReadTimeout

from tests.stores.http_serving import PlainHandler, running_http
from tests.stores.slow import Fault, running_slow

READ, REQUEST, SOON = 0.3, 0.8, 6.0


@pytest.fixture
def limits() -> Iterator[None]:
    with limited(connect=READ, read=READ, request=REQUEST):
        yield


def rest(uri: str, **properties: str) -> IcebergSpec:
    return IcebergSpec(name="lake", type="rest", uri=uri, properties=properties)


@pytest.mark.parametrize(
    ("fault", "setting"),
    [("silent", "READ"), ("drips headers", "REQUEST"), ("drips body", "REQUEST")],
)
def test_a_catalog_that_does_not_answer_is_given_up(limits: None, fault: Fault, setting: str) -> None:
    start, threads = time.monotonic(), threading.active_count()
    with running_slow(fault) as server, pytest.raises(StoreTimeoutError) as caught:
        open_catalog(rest(server.url), "warehouse")
    assert time.monotonic() - start < SOON
    assert "Iceberg catalog 'lake' cannot be reached or does not answer: no " in str(caught.value)
    assert f"HIPSLAKE_STORE_{setting}_SECONDS" in str(caught.value)
    assert failure_of(caught.value).retryable
    while threading.active_count() > threads + 1:  # the server's end with it, the watchdog's once it looks
        assert time.monotonic() - start < 2 * SOON
        time.sleep(0.05)


@pytest.mark.parametrize("fault", ["silent", "drips headers", "drips body"])
def test_a_server_of_tokens_that_does_not_answer_is_given_up(
    limits: None, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__CREDENTIAL", "a:b")
    start = time.monotonic()
    with running_slow(fault) as server, pytest.raises(StoreTimeoutError, match="HIPSLAKE_STORE_"):
        open_catalog(rest(server.url), "warehouse")
    assert time.monotonic() - start < SOON


@contextmanager
def running_catalog() -> Iterator[tuple[str, list[str]]]:
    """A catalog that says its configuration at once, and nothing else ever."""
    asked: list[str] = []
    ended = threading.Event()

    class Handler(PlainHandler):
        def reply(self, body: bytes) -> None:
            asked.append(self.path)
            if self.path.startswith("/v1/config"):
                self.answer(200, json.dumps({"defaults": {}, "overrides": {}}).encode())
            else:
                ended.wait(30)

    with running_http(Handler) as uri:
        try:
            yield uri, asked
        finally:
            ended.set()


def test_a_table_that_a_catalog_does_not_tell_is_given_up(limits: None) -> None:
    with running_catalog() as (uri, asked):
        catalog = open_catalog(rest(uri), "warehouse")
        with pytest.raises(
            StoreTimeoutError, match=r"no byte came for 0.3 s \(HIPSLAKE_STORE_READ_SECONDS\)"
        ):
            find_table(catalog, "sky.stars")
    assert any("stars" in path for path in asked)


def test_a_change_that_a_catalog_does_not_answer_is_an_error_of_which_nobody_knows_the_end(
    limits: None,
) -> None:
    """As an answer that was lost: an `OSError`, after which the commit is looked for."""
    with running_catalog() as (uri, _):
        catalog = open_catalog(rest(uri), "warehouse")
        with pytest.raises(ReadTimeout) as caught:
            catalog.create_namespace("sky")
    assert isinstance(caught.value, OSError)


def test_a_deadline_ends_requests_to_catalogs() -> None:
    with (
        running_slow("silent") as server,
        within(Deadline(time.monotonic() - 1, 1, "HIPSLAKE_PAGE_SECONDS")),
        pytest.raises(StoreTimeoutError, match=r"no answer within 1 s \(HIPSLAKE_PAGE_SECONDS\)"),
    ):
        open_catalog(rest(server.url), "warehouse")


def test_a_connection_is_used_again_and_watched_each_time(limits: None) -> None:
    with running_catalog() as (uri, _), Session() as session:
        limit_requests(session)
        assert session.get(f"{uri}/v1/config").json() == {"defaults": {}, "overrides": {}}
        time.sleep(REQUEST)  # the limit of the first does not end the second
        assert session.get(f"{uri}/v1/config").ok
        with pytest.raises(ReadTimeout):
            session.get(f"{uri}/other")


def test_pyicebergs_own_clients_of_stores_are_told_the_limits(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_STORE_CONNECT_SECONDS", "7")
    monkeypatch.setenv("HIPSLAKE_STORE_READ_SECONDS", "8")
    spec = IcebergSpec(name="lake", type="sql", uri=f"sqlite:///{tmp_path}/lake.db")
    assert open_catalog(spec, "w").properties["s3.connect-timeout"] == "7"
    assert open_catalog(spec, "w").properties["s3.request-timeout"] == "8"
    given = spec.model_copy(update={"properties": {"s3.request-timeout": "99"}})
    assert open_catalog(given, "w").properties["s3.request-timeout"] == "99"
