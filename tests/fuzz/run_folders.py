"""What the steps of a run leave for one another, spoilt."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.join.frozen_join import frozen_join
from hipslake.steps.join.request import FROZEN
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder

from tests.catalog.little import WRITE
from tests.fuzz.documents import json_of
from tests.fuzz.target import Case, Target


def _frozen() -> dict[str, Any]:
    spec = {"name": "s", "source": {"uri": "/x", "format": "csv"}, "position": {"ra": "ra", "dec": "dec"}}
    moment = "2026-11-21T03:30:00Z"
    told = {
        "dag_id": "catalog_ingest__s",
        "run_id": "r",
        "run_uri": "/w/_runs/d/r",
        "warehouse": "/w",
        "catalog": "s",
    }
    told |= {"write_id": WRITE, "created": moment, "library_version": "0.1.0", "spec": spec}
    return told | {"window": {"start": moment, "end": None, "origin": "params"}}


def _run_folder(random: Random) -> Case:
    file = {"ordinal": 0, "uri": "/x", "size": 3, "stamp": "s"}
    report = {
        "step": "plan",
        "ok": True,
        "error": {"kind": "x", "message": "y", "retryable": False},
        "rows_in": 1,
    }
    documents = {
        RunFolder.RUN: _frozen(),
        RunFolder.FILES: {"files": [file], "fingerprint": "f"},
        RunFolder.report_path("plan"): report,
        FROZEN: {"spec": {"type": "equijoin"}, "left": {"uri": "/x", "version": 1}},
    }
    path = random.choice(list(documents))
    made = json_of(lambda: documents[path])(random)
    return Case(made.data, ".json", {"path": path})


def _read_run_folder(case: Case, folder: Path) -> None:
    run = RunFolder(str(folder))
    path = case.told["path"]
    run.storage.write(path, case.data)
    if path == FROZEN:
        frozen_join(run)
    elif path == RunFolder.RUN:
        frozen = FrozenRun.of(run)
        _ = (frozen.catalog_uri, frozen.source)
    elif path == RunFolder.FILES:
        _ = FrozenInputs.of(run).total_bytes
    else:
        run.read(path, Report).summary()


TARGET = Target("run folder", _run_folder, _read_run_folder, share=3)
