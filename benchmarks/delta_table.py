"""What the programs of the Delta benchmark share: where its table lies, and the files of a merge's source.

Runs in the project's environment and in the peers'.
"""

from __future__ import annotations

from pathlib import Path

NAMESPACE, NAME = "sky", "stars"
TABLE = f"{NAMESPACE}.{NAME}"
BATCH = "batch.parquet"


def lake_in(output: Path) -> Path:
    """The folder of a benchmark's Delta tables."""
    return output / "lake"


def table_in(output: Path) -> Path:
    """The folder of its table."""
    return lake_in(output) / NAMESPACE / NAME
