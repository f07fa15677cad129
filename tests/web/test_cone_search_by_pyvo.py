"""pyvo, a client of Simple Cone Search, gets the rows that `Catalog.read` gives."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.steps.nights import Survey

PROGRAM = Path(__file__).with_name("peers_cone.py")


@cache
def python_with_pyvo() -> str | None:
    """The peers' interpreter, if it has pyvo."""
    python = os.environ.get("HIPSLAKE_PEERS_PYTHON")
    if not python or not Path(python).exists():
        return None
    found = subprocess.run([python, "-c", "import pyvo"], capture_output=True, check=False)
    return python if found.returncode == 0 else None


@pytest.fixture
def address(page: Any) -> Iterator[str]:
    """The page behind a real server."""
    server = uvicorn.Server(uvicorn.Config(page.root, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/hipslake/scs"
    server.should_exit = True
    thread.join(20)


def asked(page: Any, address: str, *cone: float) -> dict[str, Any]:
    python = python_with_pyvo()
    if python is None:
        pytest.skip("there is no pyvo among the peers")
    cookie = "; ".join(f"{name}={value}" for name, value in page.cookies().items())
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        [python, str(PROGRAM), address, cookie, *map(str, cone)],
        capture_output=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr.decode()[-2000:]
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_pyvo_gets_the_rows_of_a_read(page: Any, address: str, survey: Survey) -> None:
    expected = survey.catalog.read(region="cone 80 20 1.5deg")
    found = asked(page, f"{address}/stars", 80, 20, 1.5)
    assert len(found["ids"]) > 50
    assert [int(each) for each in found["ids"]] == expected["id"].to_pylist()
    assert found["ra"] == pytest.approx(expected["ra"].to_pylist(), abs=1e-10)
    assert found["dec"] == pytest.approx(expected["dec"].to_pylist(), abs=1e-10)
    assert set(found["fields"]) >= {"id", "ra", "dec", "mag", "night"}


def test_pyvo_is_told_of_an_error(page: Any, address: str) -> None:
    found = asked(page, f"{address}/nothing", 80, 20, 1.5)
    assert "CatalogNotFoundError" in found["error"] or "no version" in found["error"]
