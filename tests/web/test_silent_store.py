"""A store that never answers holds nobody but who asks for it, and those get 503 soon."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hipslake.specs.spec_folder import SpecFolder
from hipslake.storage.timeouts import Deadline, within
from hipslake_airflow.bounded_pool import BoundedPool
from hipslake_airflow.web.products import tables
from hipslake_airflow.web.store import POOL

from tests.stores.s3_server import S3Server, running_s3
from tests.stores.slow import SlowServer, running_slow

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

PARALLEL = 42  # more than the 40 threads in which an API server runs all that is not asynchronous
SECONDS = 2.0
SOON = 10.0
ADDRESSES = [
    "catalogs",
    "cubes",
    "catalogs/stars",
    "catalogs/stars/versions",
    "catalogs/stars/diff?old=1&new=2",
    "catalogs/stars/cells?version=1",
    "catalogs/stars/tiles/0/1?version=1",
]


@pytest.fixture
def silent() -> Iterator[SlowServer]:
    with running_slow("silent") as server:
        yield server


@pytest.fixture
def page(
    airflow: Path, silent: SlowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[object]:
    """The page of a warehouse in a store that accepts connections, and no more."""
    from airflow.api_fastapi.app import purge_cached_app

    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
    monkeypatch.setenv("HIPSLAKE_PAGE_SECONDS", str(SECONDS))
    from tests.web.catalogs_page import Page

    with S3Server(silent.url).reached():
        page = Page("s3://bucket/warehouse", tmp_path)
        page.root.add_api_route("/execution", lambda: "alive")  # in a thread, like Airflow's execution API
        yield page
        _wait_until(lambda: POOL.taken == 0)
    purge_cached_app()


async def _get(client: httpx.AsyncClient, address: str) -> tuple[httpx.Response, float]:
    start = time.monotonic()
    answer = await client.get(address)
    return answer, time.monotonic() - start


def _browser(page: Page) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=page.root)
    return httpx.AsyncClient(
        transport=transport, base_url="http://testserver", cookies=page.cookies(), timeout=60
    )


async def _all_at_once(page: Page, addresses: list[str]) -> tuple[list[Any], list[Any]]:
    """Ask for all, and for something else meanwhile; answers and seconds of each."""
    async with _browser(page) as client:
        asked = asyncio.gather(*(_get(client, f"/hipslake/api/{address}") for address in addresses))
        others = []
        while not asked.done():
            others.append(await _get(client, "/execution"))
            await asyncio.sleep(0.02)
        return await asked, others


def test_many_calls_on_a_silent_store_hold_up_nothing_else(page: Page) -> None:
    addresses = [ADDRESSES[number % len(ADDRESSES)] for number in range(PARALLEL)]
    start = time.monotonic()
    asked, others = asyncio.run(_all_at_once(page, addresses))
    assert time.monotonic() - start < SOON
    assert {answer.status_code for answer, _ in asked} == {503}
    for answer, _ in asked:
        assert answer.json()["detail"].startswith("StoreTimeoutError: ")
        assert "HIPSLAKE_" in answer.json()["detail"]
    assert len(others) >= 3
    assert {answer.status_code for answer, _ in others} == {200}
    assert max(seconds for _, seconds in others) < SECONDS


def test_no_threads_are_left_and_the_page_works_when_the_store_does(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ours() -> int:
        return sum(thread.name.startswith("hipslake-page") for thread in threading.enumerate())

    for _ in range(2):
        asyncio.run(_all_at_once(page, ["catalogs"] * PARALLEL))
        _wait_until(lambda: POOL.taken == 0)
        assert ours() <= 8
    with running_s3() as server, server.reached():
        server.client().create_bucket(Bucket="bucket")
        monkeypatch.setenv("HIPSLAKE_PAGE_SECONDS", "30")
        ((answer, _),), _ = asyncio.run(_all_at_once(page, ["catalogs"]))
    assert (answer.status_code, answer.json()) == (200, [])


def test_calls_above_those_that_may_wait_are_refused_at_once(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hipslake_airflow.web.store.POOL", BoundedPool(2, 2, "hipslake-few"))
    asked, _ = asyncio.run(_all_at_once(page, ["cubes"] * PARALLEL))
    assert {answer.status_code for answer, _ in asked} == {503}
    refused = [answer for answer, _ in asked if "others wait" in answer.json()["detail"]]
    assert len(refused) > PARALLEL / 2


def test_a_page_without_the_store_is_served(page: Page) -> None:
    async def both() -> tuple[httpx.Response, float]:
        async with _browser(page) as client:
            waiting = [asyncio.create_task(client.get("/hipslake/api/cubes")) for _ in range(PARALLEL)]
            await asyncio.sleep(0.1)
            answer = await _get(client, "/hipslake/page.js")
            await asyncio.gather(*waiting)
            return answer

    answer, seconds = asyncio.run(both())
    assert answer.status_code == 200
    assert seconds < SECONDS


def test_tables_of_a_catalog_that_does_not_answer_say_so_and_it_is_asked_once(
    tmp_path: Path, silent: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_STATE", str(tmp_path))
    (tmp_path / "tables").mkdir()
    for name, uri in (("one", silent.url), ("two", silent.url), ("zero", None)):
        at = f"{{type: rest, uri: '{uri}'}}" if uri else "{type: sql}"
        text = f"name: {name}\ntable: sky.{name}\niceberg: {at}\n"
        (tmp_path / "tables" / f"{name}.yaml").write_text(
            text + 'source: {catalog: stars}\npartition: ["healpix[1]"]\n'
        )
    with within(Deadline(time.monotonic() + 10, 4, "HIPSLAKE_PAGE_SECONDS")):
        problems = {each.name: each.problem or "" for each in tables(SpecFolder(tmp_path), str(tmp_path))}
    assert problems["one"] == problems["two"]
    assert problems["one"].startswith("StoreTimeoutError: Iceberg catalog")
    assert problems["zero"] == "nothing was sunk yet"
    assert silent.asked == 1


@pytest.mark.parametrize("value", ["0", "soon", "inf"])
def test_seconds_of_the_page_that_are_none_are_told(
    page: Page, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_PAGE_SECONDS", value)
    answer = page.as_user().get("/hipslake/api/catalogs")
    assert answer.status_code == 503
    assert f"HIPSLAKE_PAGE_SECONDS is '{value}'" in answer.json()["detail"]


def _wait_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)
