"""Runs a Spark step's operator as a task's process does: `-m tests.system.run_operator STEP RUN_URI`."""

from __future__ import annotations

import sys

from hipslake_airflow.operators.partitions import HistogramCatalogOperator, WritePartitionsOperator

OPERATORS = {"histogram": HistogramCatalogOperator, "write": WritePartitionsOperator}


def main(step: str, run_uri: str) -> None:
    operator = OPERATORS[step](task_id=step, run_uri=run_uri)
    print(operator.execute.__wrapped__(operator, {}))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
