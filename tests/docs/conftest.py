"""The sample that pages work on, and one Spark session for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import airflow_home
from tests.docs.blocks import PAGES, ROOT, blocks_of
from tests.docs.checkout import Checkout
from tests.docs.forked_commands import running_forks
from tests.docs.python_blocks import Peers, running_peers
from tests.docs.sample import make_sample
from tests.docs.shell import make_stand_ins
from tests.docs.specs import specs_of
from tests.spark.conftest import spark  # noqa: F401


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout whose warehouse holds what the pages name; pages work on copies of it."""
    return make_sample(tmp_path_factory.mktemp("docs") / "sample")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs that shell blocks may start."""
    place = tmp_path_factory.mktemp("programs")
    with running_forks(place) as forks:
        yield make_stand_ins(place / "bin", forks)


@pytest.fixture(scope="session")
def peers(peers_python: str, s3_server: object) -> Iterator[Peers]:
    """The interpreter that has LSDB, DuckDB and polars."""
    with running_peers(peers_python) as process:
        yield process


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The DAGs of the specs of the demo and of the examples, and of those that stand whole on the pages."""
    checkout = Checkout.made(tmp_path_factory.mktemp("dags") / "checkout")
    specs = checkout.root / "include" / "specs"
    specs_of([block for page in PAGES for block in blocks_of(page)], specs)
    shutil.copytree(ROOT / "docs" / "examples" / "nightly", specs, dirs_exist_ok=True)
    with checkout.entered():
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(airflow_home.PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


@pytest.fixture(scope="module")  # while it is open, its loop runs in the thread of the tests
def mermaid() -> Iterator[Callable[[str], None]]:
    """The parser of the script that draws the site's diagrams, in a browser."""
    from tests.web.browser import chromium, find_chromium

    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no chromium; on Debian and Ubuntu, include/setup/setup.sh chromium gets it")
    with chromium(executable) as browser:
        page = browser.new_page()
        page.add_script_tag(path=airflow_home.PROJECT / "docs" / "mermaid" / "mermaid.tiny.js")

        def parse(text: str) -> None:
            page.evaluate("text => mermaid.parse(text)", text)

        yield parse
