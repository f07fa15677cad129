"""What an executor of a cluster starts its Python daemon from: a copy of this file, beside the library's zip.

Spark starts the daemon as a module by its name, in the executor's own folder, where the files of a job have
arrived by then. The zip is not on the daemon's path: Spark tells workers of it with each task. Where it lies
elsewhere, Spark's own daemon serves, and workers import for themselves.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    library = Path(__file__).with_name("hipslake.zip")
    if library.is_file():
        sys.path.insert(1, str(library))
        import_module("hipslake.spark.daemon").serve()
    else:
        import_module("pyspark.daemon").manager()
