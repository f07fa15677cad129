"""What tests of several packages start from."""

from __future__ import annotations

import gc
import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import fsspec
import pytest
from hipslake.storage.folder import Storage
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

from tests import airflow_home
from tests.examples import ALL, examples
from tests.once import made_once
from tests.pictures import draw_blank, draw_truly

if TYPE_CHECKING:
    from xdist.remote import Producer

    from tests.stores.s3_server import S3Server
    from tests.stores.web import WebServer

# Machines are shared, and the first example pays for imports: property tests have no clock. `make test` draws
# from a seed that the text of each test gives, so that it fails for what was changed, and `make test-slow`
# draws anew.
settings.register_profile(
    "no clock",
    max_examples=examples(100, part=10),
    deadline=None,
    derandomize=not ALL,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("no clock")

# Those of the shell that runs the tests: a test that is about a key has its own.
for _key in (
    "HIPSLAKE_RUN_KEY",
    "HIPSLAKE_SPARK_SECRET",
    "HIPSLAKE_INPUTS",
    "HIPSLAKE_OUTPUTS",
    "HIPSLAKE_OTHERS",
):
    os.environ.pop(_key, None)


DRAWING = (  # packages and modules
    "demo",
    "test_folders.py",
    "test_real_data.py",
    "test_skymap.py",
    "test_survey.py",
    "test_verify_job.py",
)
LONG_FIRST = ("spark", "system", "dags", "steps", "catalog")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of properties, and begin with the folders whose files take minutes.

    Where the last files are short, no worker waits long for another.
    """
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.properties)
    _sample(items)
    rank = {folder: place for place, folder in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: rank.get(_package(item.path), len(LONG_FIRST)))


def _sample(items: list[pytest.Item]) -> None:
    """Mark as slow all but one in n of the cases of each test that is marked `sampled(n)`.

    Where that begins depends on the name of the test, so that tests of a module take different cases.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, quick in cases.items():
        marker = quick[0].get_closest_marker("sampled")
        assert marker is not None
        (step,) = marker.args
        first = crc32(name.encode()) % min(step, len(quick))
        for at, item in enumerate(quick):
            if (at - first) % step:
                item.add_marker(pytest.mark.slow)


class _FilesAndSpark(LoadFileScheduling):
    """Gives workers whole files, and those that share a Spark session to one worker: a session is a JVM."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "tests/spark" if file.startswith("tests/spark/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Schedule by file in our way; other ways of xdist are left to it."""
    return _FilesAndSpark(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection() -> None:
    """Collect no garbage while modules are imported and tests are collected: nearly all of it stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was imported and collected, millions of objects, out of later, rarer garbage collections."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish() -> None:
    """Spare a worker the collections with which pytest ends it: of a whole run they take seconds."""
    gc.freeze()


_SECONDS: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up how long the tests of each file took, what they set up included."""
    _SECONDS[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the files that took longest, as many as `--durations` asks tests of."""
    number = config.getoption("durations")
    if number:
        terminalreporter.section(f"slowest files, of {sum(_SECONDS.values()):.0f}s of all")
        for file in sorted(_SECONDS, key=lambda name: -_SECONDS[name])[:number]:
            terminalreporter.write_line(f"{_SECONDS[file]:.1f}s {file}")


def _package(path: Path) -> str:
    """The folder right below `tests` that a test module is in, however deep."""
    return path.relative_to(Path(__file__).parent).parts[0]


@pytest.fixture(scope="module")
def large_sides() -> Iterator[None]:
    """No side of a cross-match is small, so that skies of tests are matched by margins, as large ones are."""
    from hipslake.catalog.joining import small_sides

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_sides, "MOST_ROWS", -1)
        yield


@pytest.fixture(scope="session", autouse=True)
def blank_pictures() -> Iterator[None]:
    """Leave a picture of one pixel in place of each sky map and each picture of a compaction's boxes.

    It does so in fixtures that many modules share, too. A picture costs more than all else that is done for
    some thousand rows, and tests publish thousands of versions. What it has to be is held by `test_skymap.py`
    and `test_picture.py`.
    """
    with pytest.MonkeyPatch.context() as patch:
        draw_blank(patch)
        yield


@pytest.fixture(scope="module", autouse=True)
def true_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw them in whole runs of each kind, and where a test looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        if _package(request.path) in DRAWING or request.path.name in DRAWING:
            draw_truly(patch)
        yield


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Airflow home, with a database of its own: a copy of one that a worker of the run has made."""
    made = made_once(tmp_path_factory, "airflow-database", airflow_home.make_database)
    shutil.copytree(made, airflow_home.HOME, dirs_exist_ok=True)
    return airflow_home.HOME


@pytest.fixture(scope="session")
def peers_python() -> str:
    """The interpreter of the environment that holds LSDB, hats and DuckDB."""
    return _interpreter(".venv-peers", "HIPSLAKE_PEERS_PYTHON", "peers")


@pytest.fixture(scope="session")
def older_peers_python() -> str:
    """The interpreter of the environment that holds the oldest LSDB and hats that count."""
    return _interpreter(".venv-peers-older", "HIPSLAKE_OLDER_PEERS_PYTHON", "peers-older")


@pytest.fixture(scope="session", params=["peers_python", "older_peers_python"], ids=["newest", "older"])
def hats_python(request: pytest.FixtureRequest) -> str:
    """The interpreter of either environment with LSDB and hats."""
    return str(request.getfixturevalue(request.param))


def _interpreter(folder: str, variable: str, target: str) -> str:
    """The interpreter of an environment; skips the test where there is none."""
    python = Path(os.environ.get(variable) or airflow_home.PROJECT / folder / "bin" / "python")
    if not python.exists():
        pytest.skip(
            f"no environment at {python}; `make {target}` makes it, or {variable} names another's interpreter"
        )
    return str(python)


@pytest.fixture(params=["local", "memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """A storage of each kind: POSIX files, objects in memory, objects behind a real client and server."""
    if request.param == "local":
        yield Storage.at(tmp_path)
        return
    if request.param == "s3":
        yield Storage.at(f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}")
        return
    root = f"memory://{uuid.uuid4().hex}"
    yield Storage.at(root)
    memory = fsspec.filesystem("memory")
    if memory.exists(root):
        memory.rm(root, recursive=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server that takes any keys; this process and those it starts reach it by their environment."""
    from tests.stores.s3_server import running_s3

    with running_s3() as server, server.reached():
        yield server


@pytest.fixture(scope="session")
def bucket(s3_server: S3Server) -> str:
    """The URI of a bucket that the tests share."""
    return f"s3://{s3_server.make_bucket()}"


@pytest.fixture(scope="session")
def web_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder whose files `web` serves."""
    return tmp_path_factory.mktemp("web-root")


@pytest.fixture(scope="session")
def web(web_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A static web server that knows ranges."""
    from tests.stores.web import find_nginx, running_nginx

    nginx = find_nginx()
    if nginx is None:
        pytest.skip("there is no nginx; on Debian and Ubuntu, include/setup/setup.sh nginx gets it")
    with running_nginx(nginx, web_root, tmp_path_factory.mktemp("nginx")) as server:
        yield server
