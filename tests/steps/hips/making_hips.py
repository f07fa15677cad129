"""Catalogs for HiPS, and the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.hips import run as hips_run
from hipslake.steps.hips.request import HipsReport, HipsRequest
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage

from tests.catalog.little import write_little
from tests.catalog.publishing import commit


def published(warehouse: Path | str, table: pa.Table, **fields: Any) -> pa.Table:
    """Publish a table with `ra` and `dec` as the catalog `stars`."""
    degrees = table["ra"].to_numpy(), table["dec"].to_numpy()
    storage = Storage.at(f"{warehouse}/catalogs/stars")
    given = {"position": {"ra": "ra", "dec": "dec"}} | fields
    commit(storage, write_little(storage, table, degrees, **given))
    return table


def asked(warehouse: Path | str, run_id: str = "first", **fields: Any) -> HipsRequest:
    """A request for the HiPS of `stars`."""
    return HipsRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), "catalog_hips__stars", run_id),
            "warehouse": str(warehouse),
            "catalog": "stars",
            **fields,
        }
    )


def run(request: HipsRequest, engine: ThisProcess | None = None) -> HipsReport:
    """The step, by threads of this process."""
    return perform(lambda given: hips_run.run(given, engine or ThisProcess()), request, HipsReport)
