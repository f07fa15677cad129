"""What can be wrong with an installation: its packages, settings, warehouse, specs, Spark and Airflow.

Nothing of Airflow or Spark is imported, but for the trial session that may be asked for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from hipslake.api.step_runner import is_installed, warehouse_uri
from hipslake.errors import CatalogNotFoundError, HipslakeError

State = Literal["ok", "note", "wrong"]

_PACKAGES = (
    "pyarrow", "numpy", "pandas", "healpy", "astropy", "mocpy", "pydantic", "yaml", "fsspec", "obstore",
    "s3fs",
)  # fmt: skip
_OLDEST_PYTHON = (3, 11)
_OLDEST_JAVA = 17  # of Spark 4
_LOW_BYTES = 10 << 30
_FEW_FILES = 1024
_SKEWED_SECONDS = 60.0
_MASTER = re.compile(
    r"local|local\[(\d+|\*)(, ?\d+)?\]|spark://[^/,\[\]]+:\d+(,[^/,\[\]]+:\d+)*|k8s://.+|yarn"
)
_CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"
_EXAMPLE = '{"conn_type": "spark", "host": "local[*,4]"}'


class Finding(NamedTuple):
    """What a check has found.

    Attributes
    ----------
    check : str
        What was looked at.
    state : {"ok", "note", "wrong"}
        A note tells of what may be meant so.
    message : str
    mend : str
        What to do; empty where nothing is to be done.
    """

    check: str
    state: State
    message: str
    mend: str = ""


Check = Callable[[], Iterator[Finding]]


def python_and_packages() -> Iterator[Finding]:
    """Look whether the library's packages can be imported, in the versions that it asks for."""
    own = f"Python {sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        yield Finding("Python", "wrong", own, f"use Python {oldest} or later")
    else:
        yield Finding("Python", "ok", own)
    broken = []
    for name in _PACKAGES:
        try:
            import_module(name)
        except Exception as error:  # a package that is broken may raise anything
            broken.append(name)
            yield Finding(
                "packages", "wrong", f"{name} cannot be imported: {error}", f"pip install --upgrade {name}"
            )
    for text in _unmet():
        yield Finding("packages", "wrong", text, "pip install --upgrade hipslake")
    if not broken:
        yield Finding("packages", "ok", ", ".join(_versions(("hipslake", "pyarrow", "numpy", "pydantic"))))


def settings() -> Iterator[Finding]:
    """Look whether the environment variables say what can be read."""
    from hipslake.specs.environment import spark_above_bytes
    from hipslake.storage.timeouts import Timeouts
    from hipslake.versions.heartbeat import resting_seconds, stale_seconds

    readers: tuple[Callable[[], object], ...] = (
        lambda: Timeouts.of(os.environ),
        stale_seconds,
        resting_seconds,
        spark_above_bytes,
    )
    wrong = False
    for read in readers:
        try:
            read()
        except HipslakeError as error:
            wrong = True
            yield Finding("settings", "wrong", str(error), "correct the variable, or unset it")
    given = sorted(name for name in os.environ if name.startswith("HIPSLAKE_"))
    if not wrong:
        yield Finding("settings", "ok", ", ".join(given) or "no variable HIPSLAKE_... is set")


def warehouse(place: str | None) -> Iterator[Finding]:
    """Look whether the warehouse can be written, has room, agrees on the time, and whether its catalogs open.

    Parameters
    ----------
    place : str or None
        As `hipslake.api.step_runner.warehouse_uri` takes it.
    """
    from hipslake.api.catalog import Catalog
    from hipslake.steps.run import CATALOGS
    from hipslake.storage.folder import Storage

    try:
        storage = Storage.at(warehouse_uri(place))
    except HipslakeError as error:
        yield Finding("warehouse", "wrong", str(error), "give --warehouse, or set HIPSLAKE_WAREHOUSE")
        return
    where = storage.uri()
    if storage.is_local and not Path(where).is_dir():
        yield Finding("warehouse", "note", f"{where} does not exist yet; the first ingest makes it")
        return
    try:
        yield from _store(storage)
        names = [entry.path for entry in storage.list(CATALOGS) if entry.is_dir]
    except (HipslakeError, OSError) as error:
        mend = "look at the address, the credentials, and the rights"
        yield Finding("warehouse", "wrong", f"{where}: {error}", mend)
        return
    opened = 0
    for name in names:
        try:
            Catalog.open(storage.uri(name))
            opened += 1
        except CatalogNotFoundError:
            continue
        except (HipslakeError, OSError) as error:
            yield Finding("catalogs", "wrong", str(error), f"hipslake verify --all {storage.uri(name)}")
    yield Finding("catalogs", "ok", f"{opened} can be opened")


def specs() -> Iterator[Finding]:
    """Look whether the specs of the deployment can be read."""
    from hipslake.cli.places import specs_folders
    from hipslake.specs.spec_folder import SpecFolder

    folders = specs_folders()
    for folder in folders:
        if not folder.is_dir():
            state: State = "wrong" if "HIPSLAKE_SPECS" in os.environ else "note"
            yield Finding("specs", state, f"{folder} does not exist", "set HIPSLAKE_SPECS to where specs are")
    there = [folder for folder in folders if folder.is_dir()]
    problems = SpecFolder(*there).problems() if there else {}
    for text in problems.values():
        yield Finding("specs", "wrong", text, "correct the file")
    if there and not problems:
        yield Finding("specs", "ok", ", ".join(map(str, there)))


def spark() -> Iterator[Finding]:
    """Look whether Spark and its Java are installed, and whether the connection names a master."""
    if not is_installed("pyspark"):
        yield Finding(
            "Spark",
            "note",
            "pyspark is not installed: what is large is refused, all else works",
            "pip install 'hipslake[spark]'",
        )
        return
    yield Finding("Spark", "ok", ", ".join(_versions(("pyspark",))))
    yield _java()
    yield from _connection()


def trial_session() -> Iterator[Finding]:
    """Start Spark, and run a task in it."""
    from hipslake.errors import StepError

    if not is_installed("pyspark"):
        return
    from hipslake.spark.session import session_of_program

    began = time.monotonic()
    try:
        with session_of_program("hipslake doctor") as session:
            master, count = session.sparkContext.master, session.range(1000).count()
    except StepError as error:
        yield Finding("Spark session", "wrong", str(error), "look at Java and at the connection, above")
        return
    seconds = time.monotonic() - began
    yield Finding("Spark session", "ok", f"{master} counted {count} rows, {seconds:.1f} s with its start")


def airflow() -> Iterator[Finding]:
    """Look whether Airflow is installed, and would find the plugin."""
    try:
        installed = version("apache-airflow")
    except PackageNotFoundError:
        yield Finding(
            "Airflow",
            "note",
            "it is not installed: no schedules and no page",
            "pip install 'hipslake[airflow]'",
        )
        return
    names = {entry.name for entry in entry_points(group="airflow.plugins")}
    folder = os.environ.get("AIRFLOW__CORE__PLUGINS_FOLDER", "")
    if "hipslake" in names or (folder and (Path(folder) / "hipslake_plugin.py").is_file()):
        yield Finding("Airflow", "ok", f"apache-airflow {installed}, with the plugin")
    else:
        yield Finding(
            "Airflow",
            "note",
            f"apache-airflow {installed} has no plugin of hipslake: no page",
            "install hipslake into Airflow's own environment",
        )


def _store(storage: object) -> Iterator[Finding]:
    """The place of the warehouse: rights, room, and the clock of the store."""
    from hipslake.storage.folder import Storage
    from hipslake.versions.heartbeat import StoreClock

    assert isinstance(storage, Storage)
    where = storage.uri()
    storage.check_writable()
    yield Finding("warehouse", "ok", f"{where} can be written")
    if storage.is_local:
        free = shutil.disk_usage(where).free
        state: State = "ok" if free >= _LOW_BYTES else "note"
        mend = "" if free >= _LOW_BYTES else "free some space, or move the warehouse"
        yield Finding("room", state, f"{free / (1 << 30):.1f} GiB are free", mend)
        yield from _open_files()
    probe = storage.sub(f".hipslake-doctor-{os.getpid()}")
    try:
        now = StoreClock(probe).now
    finally:
        storage.delete_tree(f".hipslake-doctor-{os.getpid()}")
    if now is not None and abs(now - time.time()) > _SKEWED_SECONDS:
        yield Finding(
            "clock",
            "wrong",
            f"the store's clock and this machine's differ by {abs(now - time.time()):.0f} s",
            "set the clock by NTP: requests to stores are refused when it is far off",
        )


def _open_files() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:  # Windows
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= most < _FEW_FILES:
        yield Finding("open files", "note", f"a process may have {most}", f"ulimit -n {_FEW_FILES}, or more")


def _java() -> Finding:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    place = str(Path(home, "bin", "java")) if home else shutil.which("java")
    mend = f"install Java {_OLDEST_JAVA} or later (a JRE does), or set JAVA_HOME"
    if place is None:
        return Finding("Java", "wrong", "there is no java on the PATH, and JAVA_HOME is not set", mend)
    try:
        told = subprocess.run([place, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", "wrong", f"{place} does not run: {error}", mend)
    text = (told.stderr or told.stdout).strip()
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    line = f"{place}: {text.splitlines()[0] if text else 'says no version'}"
    if found is None or int(found[1]) < _OLDEST_JAVA:
        return Finding("Java", "wrong", line, mend)
    return Finding("Java", "ok", line)


def _connection() -> Iterator[Finding]:
    """Where Airflow's tasks submit jobs to, and where programs start sessions, as the environment says it."""
    mend = f"{_CONNECTION}='{_EXAMPLE}'"
    given = os.environ.get(_CONNECTION)
    if given is None:
        mine = os.environ.get("HIPSLAKE_SPARK_MASTER", "local[*,4]")
        yield Finding(
            "Spark connection",
            "note",
            f"{_CONNECTION} is not set, so Airflow asks its database (airflow connections get "
            f"spark_default); programs use {mine}",
        )
        return
    try:
        told = json.loads(given)
        host, kind = str(told["host"]), told["conn_type"]
    except (ValueError, TypeError, KeyError):
        yield Finding("Spark connection", "wrong", f"{_CONNECTION} is not JSON with conn_type and host", mend)
        return
    port = told.get("port")
    master = f"{host}:{port}" if port and "://" in host else host
    if kind != "spark" or not _MASTER.fullmatch(master):
        yield Finding(
            "Spark connection", "wrong", f"{_CONNECTION} names the master {master!r}, which is none", mend
        )
    elif master == "local[*]" or re.fullmatch(r"local(\[\d+\])?", master):
        yield Finding(
            "Spark connection", "note", f"{master} never retries a failed task", "local[*,4] tries four times"
        )
    else:
        yield Finding("Spark connection", "ok", master)


def _versions(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} without a version"


def _unmet() -> Iterator[str]:
    """What the library asks for, and is installed otherwise."""
    try:
        wanted = requires("hipslake") or []
        from packaging.requirements import Requirement
    except (PackageNotFoundError, ImportError):
        return
    for text in wanted:
        asked = Requirement(text)
        if asked.marker is not None and not asked.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(asked.name)
        except PackageNotFoundError:
            yield f"{asked.name} is not installed, and {text.partition(';')[0].strip()} is needed"
            continue
        if not asked.specifier.contains(found, prereleases=True):
            yield f"{asked.name} {found} is installed, and {text.partition(';')[0].strip()} is needed"
