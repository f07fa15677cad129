"""What a run of an ingest DAG left behind: its reports, and the version that stands now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from hipslake.catalog.layouts import skymap_path
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import Report
from hipslake.steps.run import RUNS, RunFolder, catalog_uri, parse
from hipslake.steps.signing import without_signature
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

STEPS = (
    "resolve",
    "wait",
    "inputs",
    "histogram",
    "plan",
    "write",
    "crossmatch",
    "adopt",
    "margin",
    "index",
    "verify",
    "publish",
    "view",
)
"""In the order of the DAG; `wait` is a sensor and leaves no report."""
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception): .+")


@dataclass(frozen=True)
class Outcome:
    """A published version, the run that built it, and the run just made, which may have built nothing."""

    root: str  # of the catalog
    metadata: CatalogMetadata
    partitions: dict[str, dict[int, int]]  # column group -> order -> partitions
    seconds: dict[str, float]  # per step of the run that built the version
    seconds_now: float = 0.0  # of the DAG run just made, with every process start
    built_now: bool = True
    reused_steps: tuple[str, ...] = ()
    skymaps: tuple[str, ...] = field(default=())


def outcome_of(
    warehouse: str, dag_id: str, catalog: str, *, seconds_now: float = 0.0, since: datetime | None = None
) -> Outcome:
    """Return what the newest run of the DAG left.

    Parameters
    ----------
    warehouse, dag_id, catalog : str
    seconds_now : float
        How long the runs just made took together.
    since : datetime, optional
        When they began: a version that was built before was taken over. By default the newest run counts.

    Raises
    ------
    VersionNotFoundError
        If the catalog has no version.
    """
    root = catalog_uri(warehouse, catalog)
    storage = Storage.at(root)
    metadata = CatalogMetadata.from_json(VersionLog(storage).read(), where=root)
    runs = frozen_runs(warehouse, dag_id)
    builder = next((run for run in runs if _built(run, metadata)), None)
    newest = runs[0] if runs else None
    built_now = builder is not None and (builder is newest if since is None else builder.created >= since)
    return Outcome(
        root=root,
        metadata=metadata,
        partitions={group.name: _per_order(metadata, group.name, storage) for group in metadata.groups},
        seconds={name: sum(report.seconds.values()) for name, report in reports_of(builder).items()},
        seconds_now=seconds_now,
        built_now=built_now,
        reused_steps=tuple(name for name, report in reports_of(newest).items() if report.reused),
        skymaps=tuple(
            storage.uri(path)
            for group in metadata.groups
            if storage.exists(path := skymap_path(metadata.write_id, group.name))
        ),
    )


def _built(run: FrozenRun, metadata: CatalogMetadata) -> bool:
    """Whether a run committed a version. Each attempt at an adoption has a write of its own."""
    if metadata.adopted is None:
        return run.write_id == metadata.write_id
    report = reports_of(run).get("adopt")
    return report is not None and report.error is None


def frozen_runs(warehouse: str, dag_id: str) -> list[FrozenRun]:
    """Return what the runs of a DAG froze, the newest first; also of a warehouse that was moved since."""
    storage = Storage.at(warehouse)
    entries = storage.glob(f"{RUNS}/{dag_id}/*/{RunFolder.RUN}")
    runs = [
        parse(FrozenRun, without_signature(storage.read(entry.path)), where=storage.uri(entry.path))
        for entry in entries
    ]
    return sorted(runs, key=lambda run: run.created, reverse=True)


def reports_of(run: FrozenRun | None) -> dict[str, Report]:
    """Return the reports of a run by step, in the order of the DAG."""
    if run is None:
        return {}
    folder = RunFolder(run.run_uri)
    storage = folder.storage
    paths = {step: RunFolder.report_path(step) for step in STEPS}
    return {step: _report(storage, path) for step, path in paths.items() if storage.exists(path)}


def why_it_failed(warehouse: str, dag_id: str, log: Iterable[str] = ()) -> str:
    """Return the error that a step of the newest run of a DAG reported, or else the last one in a log."""
    runs = frozen_runs(warehouse, dag_id)
    for step, report in reports_of(runs[0] if runs else None).items():
        if report.error is not None:
            return f"{step}: {report.error.kind}: {report.error.message}"
    lines = list(log)
    errors = [line for line in lines if _ERROR.fullmatch(line)]
    return errors[-1] if errors else "\n".join(lines[-20:])


def _report(storage: Storage, path: str) -> Report:
    """Read what is common to all reports; the fields of one step do not matter here."""
    common = Report.model_fields.keys()
    document = json.loads(storage.read(path))
    return Report.model_validate({name: value for name, value in document.items() if name in common})


def _per_order(metadata: CatalogMetadata, group: str, storage: Storage) -> dict[int, int]:
    orders = metadata.partitions(group, storage)["order"].to_numpy()
    found, counts = np.unique(orders, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))
