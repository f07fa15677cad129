"""pyspark as the environment has it, rather than from Spark's zips. Imports nothing of Spark."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def prefer_installed_pyspark() -> None:
    """Take pyspark from the environment, if it is the Spark that runs; to be called before importing it.

    Spark puts its Python files at the head of the path as zips, out of which every process compiles them
    anew: half a second for each driver and each worker.
    """
    if "SPARK_HOME" not in os.environ:
        return
    home, path = Path(os.environ["SPARK_HOME"]), list(sys.path)
    sys.path[:] = [entry for entry in path if Path(entry).parent != home / "python" / "lib"]
    found = [find_spec(name) for name in ("pyspark", "py4j")]
    same = found[0] is not None and found[0].origin == str(home / "__init__.py")
    if not same or found[1] is None:
        sys.path[:] = path
