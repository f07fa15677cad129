"""Spark's daemon of Python workers, which can read rows that are made: `spark.python.daemon.module`."""

from __future__ import annotations

import runpy

from benchmarks import made_rows

if __name__ == "__main__":
    made_rows.register()
    runpy.run_module("hipslake.spark.daemon", run_name="__main__")
