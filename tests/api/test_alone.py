"""The library alone: neither Airflow nor Spark is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hipslake

from tests.catalog.publishing import Published

PROGRAM = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("airflow", "pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refused())
import hipslake
from hipslake import Catalog

catalog = Catalog.open(sys.argv[1])
assert catalog.read().num_rows == 2500
assert catalog.scan(["id"], "mag < 15", region="cone 180 10 60deg").count() > 0
assert catalog.head(3).num_rows == catalog.sample(3).num_rows == 3
assert catalog.statistics(["id"])["id"].rows == 2500
assert catalog.histogram("mag").counts.sum() > 0
assert catalog.coverage(3).sky_fraction > 0.5
assert catalog.map_partitions(lambda rows: rows, columns=["id"]).num_rows == 2500
assert "base64" in catalog._repr_html_()
catalog.verify()
catalog.export(sys.argv[2], columns=["id"])
print([name for name in sys.modules if name.partition(".")[0] in ("airflow", "pyspark", "py4j")])
"""


def test_a_catalog_is_read_without_airflow_and_spark(
    many_kinds: dict[str, Published], tmp_path: Path
) -> None:
    root = tmp_path / "stars"
    shutil.copytree(many_kinds["hats"].storage.root, root, symlinks=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root), str(tmp_path / "ids.parquet")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(hipslake.__file__).parents[1])},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
