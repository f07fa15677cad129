"""The process that Spark forks its Python workers from, where all run on this machine.

Spark's own daemon imports next to nothing, so that every worker spends its first seconds on importing pandas,
pyarrow and the library. This one imports them once, before it forks.

Only for local masters: on a cluster the library arrives with the tasks, after the daemon has started.
"""

from __future__ import annotations

import gc
from importlib import import_module

from hipslake.spark.installed import prefer_installed_pyspark
from hipslake.spark.kernel import use_small_pages

IMPORTED = (
    "pandas",  # pyarrow imports it when it first converts something
    "pyarrow.dataset",  # and this at the first take
    "pyarrow.parquet",
    "pyspark.worker",
    "hipslake.spark.histogram_tasks",
    "hipslake.spark.write_tasks",
    "hipslake.spark.verify",
)


def prepare() -> None:
    """Import what tasks need. No thread of ours or Python's may start: a fork would lose it."""
    use_small_pages()
    prefer_installed_pyspark()
    for module in IMPORTED:
        import_module(module)
    import_module("hipslake.sphere.healpix").pixel_functions()
    gc.freeze()  # the workers share these pages as long as nobody walks over them


if __name__ == "__main__":
    prepare()
    import_module("pyspark.daemon").manager()
