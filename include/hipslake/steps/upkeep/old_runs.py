"""The run folders of a catalog, or of a table, that nobody needs any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from hipslake.steps.attempt_places import APPENDS, COMPACTIONS
from hipslake.steps.run import RUNS, RunFolder, catalog_uri, now_utc
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.versions.heartbeat import is_live

log = logging.getLogger(__name__)

RUN_DAYS = 30
"""How long the run folders of a table or a cube are kept, with the reports in them."""


def old_runs(warehouse: str, catalog: str, before: datetime) -> list[str]:
    """The folders of a catalog's runs that began, and had waited, before a time, and whose writes are dead.

    A folder whose run cannot be told is left alone.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse.
    catalog : str
        The catalog's name.
    before : datetime
        With a time zone.

    Returns
    -------
    list of str
        Relative to the warehouse, sorted.
    """
    storage, root = Storage.at(warehouse), Storage.at(catalog_uri(warehouse, catalog))
    return sorted(
        folder
        for folder in _run_folders(storage)
        if _is_old(storage, folder, catalog, before)
        and not any(is_live(root, write_id) for write_id in _writes(storage, folder))
    )


def old_runs_of_cube(warehouse: str, cube: str, before: datetime) -> list[str]:
    """The folders of a cube's runs that began before a time; parameters as for `old_runs`.

    The time is so long ago that no task of such a run works any more. A folder whose run cannot be told is
    left alone.
    """
    storage = Storage.at(warehouse)
    return sorted(
        folder
        for folder in _run_folders(storage)
        if any(
            told.get("cube") == cube and _began_before(told, before) for told in _requests(storage, folder)
        )
    )


def old_runs_of_dag(run_uri: str, before: datetime) -> list[str]:
    """The run folders beside one, of the same DAG, whose runs began before a time.

    Parameters
    ----------
    run_uri : str
    before : datetime
        With a time zone; so long ago that no task of such a run works any more.

    Returns
    -------
    list of str
        Names below the folder of the DAG, sorted.
    """
    parent, _, own = run_uri.rstrip("/").rpartition("/")
    storage = Storage.at(parent)
    names = [entry.path for entry in storage.list() if entry.is_dir and entry.path != own]
    return sorted(name for name in names if _began_before(_described(storage, name), before))


def remove_old_runs_of_dag(run_uri: str) -> list[str]:
    """Delete the run folders beside one, of the same DAG, that are older than `RUN_DAYS`; return names."""
    parent = Storage.at(run_uri.rstrip("/").rpartition("/")[0])
    folders = old_runs_of_dag(run_uri, now_utc() - timedelta(days=RUN_DAYS))
    for folder in folders:
        parent.delete_tree(folder)
    return folders


def _run_folders(storage: Storage) -> Iterator[str]:
    for dag in storage.list(RUNS):
        if dag.is_dir:
            yield from (run.path for run in storage.list(dag.path) if run.is_dir)


def _is_old(storage: Storage, folder: str, catalog: str, before: datetime) -> bool:
    """Whether a run began, and had waited for its files for as long as it may, before a time."""
    described = _described(storage, folder)
    try:
        waits = timedelta(minutes=float(described.get("wait_minutes", 0)))
        return described.get("catalog") == catalog and _began_before(described, before - waits)
    except (TypeError, ValueError, OverflowError):  # damaged: it cannot be told
        return False


def _began_before(described: dict[str, Any], moment: datetime) -> bool:
    try:
        return datetime.fromisoformat(described["created"]) < moment
    except (KeyError, TypeError, ValueError):
        return False


def _described(storage: Storage, folder: str) -> dict[str, Any]:
    """What a run has frozen; of a run of a single step, the request of that step."""
    requests = ("vacuum", "vacuum_table", "evolve_table", "export", "hips")
    names = (RunFolder.RUN, *map(RunFolder.request_path, requests))
    found: Any = next(_documents(storage, [storage.join(folder, name) for name in names]), None)
    return found if isinstance(found, dict) else {}


def _requests(storage: Storage, folder: str) -> Iterator[dict[str, Any]]:
    """The requests of the steps of a run."""
    requests = storage.join(folder, RunFolder.request_path("any").rpartition("/")[0])
    found = _documents(storage, [entry.path for entry in storage.list(requests)])
    return (document for document in found if isinstance(document, dict))


def _documents(storage: Storage, paths: Iterable[str]) -> Iterator[Any]:
    """The JSON documents at some paths; files that are missing, or hold no JSON, are passed over."""
    for path in paths:
        with suppress(FileNotFoundError, ValueError):
            yield plain_json(storage.read(path))


def _writes(storage: Storage, folder: str) -> list[str]:
    """The writes of a run: its own, and those of the attempts to append or to compact."""
    own = _described(storage, folder).get("write_id")
    places = [storage.join(folder, place) for place in (APPENDS, COMPACTIONS)]
    attempts = [entry.path.rpartition("/")[2] for place in places for entry in storage.list(place)]
    return [*attempts, own] if isinstance(own, str) else attempts
