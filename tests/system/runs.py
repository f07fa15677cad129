"""Parts of a run without Spark."""

from __future__ import annotations

from pathlib import Path

import yaml
from hipslake import Catalog
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.steps.run import RunFolder

from tests.steps import in_process

DEAD_AT_ONCE = {"HIPSLAKE_STALE_SECONDS": "0", "HIPSLAKE_RESTING_SECONDS": "0"}
"""A run whose process is gone counts as dead when the next one looks."""


def write_spec(path: Path, threshold: str) -> Path:
    """The spec `stars`, which any number of stars in one place does not upset."""
    spec = {
        "name": "stars",
        "source": {"uri": f"{path.parent}/landing/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": threshold,
        "mapping_order": 9,
    }
    path.write_text(yaml.safe_dump(spec))
    return path


def prepare(folder: RunFolder) -> None:
    """Everything between resolve and publish."""
    for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
        step(folder)
    in_process.check(folder)


def finish(folder: RunFolder) -> None:
    """What is left of a verified run: publish, then view."""
    in_process.commit(folder)
    in_process.show(folder)


def assert_verified(catalog: Catalog, *, pointed_at: bool = True) -> None:
    """Verify a catalog.

    `pointed_at`: also what names its newest version. A run that was killed just after its commit did not come
    to it; the next one does.
    """
    problems = [
        each
        for each in catalog.verify().problems
        if pointed_at or not (each.kind is ProblemKind.POINTER and each.repairable)
    ]
    assert not problems, problems
