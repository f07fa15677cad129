"""Runs a step's operator as a task's process does: `-m tests.system.run_operator STEP RUN_URI`."""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import partial
from types import SimpleNamespace

from hipslake_airflow.operators.catalog import HistogramCatalogOperator, WritePartitionsOperator
from hipslake_airflow.operators.cube import BuildCubeOperator

OPERATORS = {  # in Spark, however small it is
    "histogram": partial(HistogramCatalogOperator, spark_above_bytes=0),
    "write": partial(WritePartitionsOperator, spark_above_bytes=0),
    "build": lambda **given: BuildCubeOperator(cube="sky", **given),
}


def main(step: str, run_uri: str) -> None:
    operator = OPERATORS[step](task_id=step, run_uri=run_uri)
    context = {"outlet_events": defaultdict(SimpleNamespace)}
    print(operator.execute.__wrapped__(operator, context))


if __name__ == "__main__":
    main(*sys.argv[1:])
